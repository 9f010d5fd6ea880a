//! Text to tokens, as click(5) has them under "Lexical issues".
//!
//! Names are runs of letters, digits, `_` and `@`, joined by single slashes. A
//! configuration string is one piece of text up to its closing parenthesis, taken by
//! [`Lexer::config`] when the parser has seen the opening one. Comments and white
//! space separate tokens. Line directives (`# 100 "file"`) change what places say.
//!
//! Bytes that are not UTF-8 are let be in comments and are a problem elsewhere.

use std::borrow::Cow;
use std::sync::Arc;

use super::args;
use super::place::{Source, SourceLocation, Sources};
use super::problem::{Problem, Problems};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// The name of an element, a class or a compound port.
    Name,
    /// A variable, `$name`.
    Variable,
    /// The arrow `->`.
    Arrow,
    /// The arrow `=>`.
    DoubleArrow,
    /// Two colons, `::`.
    Colons,
    /// Two bars, `||`.
    Bars,
    /// Three dots, `...`.
    Dots,
    /// The word `elementclass`.
    ElementClass,
    /// The word `require`.
    Require,
    /// `provide`, which is reserved and means nothing.
    Provide,
    /// The word `define`.
    Define,
    /// Any other character.
    Char(char),
    /// The end of the text.
    End,
}

/// A token, and where it stands in the source.
#[derive(Clone, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind,
    /// Its text; a variable's without the dollar sign.
    pub text: &'a str,
    /// Where it begins.
    pub place: SourceLocation,
}

/// A configuration string.
#[derive(Clone, Debug)]
pub struct Config<'a> {
    /// Its text, with everything that was between the parentheses.
    pub text: Cow<'a, str>,
    /// Where it begins.
    pub place: SourceLocation,
    /// Where it ends.
    pub end: SourceLocation,
}

/// A source's text made ready: UTF-8, with what was not remembered.
#[derive(Clone, Debug)]
pub struct Text {
    name: Arc<str>,
    text: Arc<str>,
    source: u32,
    /// Offsets in `text` of replacement characters, with the first byte of each.
    broken: Vec<(usize, u8)>,
}

impl Text {
    /// Makes a source ready and keeps its text in `sources`.
    pub fn new(source: Source, sources: &mut Sources) -> Text {
        let (text, broken) = match String::from_utf8(source.text) {
            Ok(text) => (text, vec![]),
            Err(error) => mend(error.as_bytes()),
        };
        let text: Arc<str> = text.into();
        let number = sources.add(text.clone());
        Text { name: source.name.into(), text, source: number, broken }
    }

    /// Where the text begins.
    pub fn start(&self) -> SourceLocation {
        SourceLocation { file: self.name.clone(), line: 1, column: 1, source: self.source, offset: 0 }
    }
}

/// Bytes as text, each broken sequence replaced by U+FFFD.
fn mend(bytes: &[u8]) -> (String, Vec<(usize, u8)>) {
    let mut text = String::with_capacity(bytes.len() + 16);
    let mut broken = vec![];
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if let Some(&first) = chunk.invalid().first() {
            broken.push((text.len(), first));
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    (text, broken)
}

/// Cuts the text of a configuration into tokens.
pub struct Lexer<'a> {
    text: &'a str,
    broken: &'a [(usize, u8)],
    source: u32,
    at: usize,
    file: Arc<str>,
    original: Arc<str>,
    line: u32,
    /// An offset in the current line and its column, so that columns are counted on
    /// and not again from the line's start.
    counted: (usize, u32),
    problems: Vec<Problem>,
}

impl<'a> Lexer<'a> {
    /// A lexer at a text's start.
    pub fn new(text: &'a Text) -> Lexer<'a> {
        Lexer {
            text: &text.text,
            broken: &text.broken,
            source: text.source,
            at: 0,
            file: text.name.clone(),
            original: text.name.clone(),
            line: 1,
            counted: (0, 1),
            problems: vec![],
        }
    }

    /// What was wrong since the last call.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// Whether something was wrong since [`Lexer::take_problems`].
    pub fn complained(&self) -> bool {
        !self.problems.is_empty()
    }

    /// The next token; at the end always [`TokenKind::End`].
    pub fn token(&mut self) -> Token<'a> {
        self.skip_blank();
        let start = self.at;
        let place = self.place(start);
        let (kind, len) = self.classify();
        self.at = start + len;
        let mut text = &self.text[start..self.at];
        if kind == TokenKind::Variable {
            text = &text[1..];
        } else if let TokenKind::Char(char::REPLACEMENT_CHARACTER) = kind {
            self.check_broken(start, self.at);
        }
        Token { kind, text, place }
    }

    /// The configuration string that begins here, up to the parenthesis that closes
    /// it, which is the next token.
    pub fn config(&mut self) -> Config<'a> {
        let place = self.place(self.at);
        let bytes = self.text.as_bytes();
        let start = self.at;
        let (mut from, mut at, mut depth) = (start, start, 1usize);
        let mut text = Cow::Borrowed("");
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 1 => break,
                b')' => depth -= 1,
                b'#' if self.starts_line(at) => {
                    text += &self.text[from..at];
                    self.at = at;
                    self.directive();
                    (from, at) = (self.at, self.at);
                    continue;
                }
                b'\n' | b'\r' => {
                    at = self.newline(at);
                    continue;
                }
                _ => {}
            }
            at = if args::is_comment(bytes, at) {
                self.pass(at, args::skip_comment(bytes, at))
            } else {
                self.pass(at, args::skip_one(bytes, at))
            };
        }
        self.at = at;
        text += &self.text[from..at];
        self.check_broken(start, at);
        let end = self.place(at);
        Config { text, place, end }
    }

    /// The kind and length of the token here.
    fn classify(&self) -> (TokenKind, usize) {
        let rest = &self.text[self.at..];
        let bytes = rest.as_bytes();
        let kind = match bytes {
            [] => return (TokenKind::End, 0),
            [first, ..] if args::is_name_byte(*first) => {
                let len = name_len(bytes);
                return (keyword(&rest[..len]), len);
            }
            [b'-', b'>', ..] => Some(TokenKind::Arrow),
            [b'=', b'>', ..] => Some(TokenKind::DoubleArrow),
            [b':', b':', ..] => Some(TokenKind::Colons),
            [b'|', b'|', ..] => Some(TokenKind::Bars),
            [b'.', b'.', b'.', ..] => return (TokenKind::Dots, 3),
            _ => None,
        };
        if let Some(kind) = kind {
            return (kind, 2);
        }
        if bytes[0] == b'$' {
            let len = bytes[1..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
            if len > 0 {
                return (TokenKind::Variable, 1 + len);
            }
        }
        let first = rest.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
        (TokenKind::Char(first), first.len_utf8())
    }

    /// Past white space, comments and line directives.
    fn skip_blank(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\x0B' | b'\x0C' => self.at += 1,
                b'\n' | b'\r' => self.at = self.newline(self.at),
                b'#' if self.starts_line(self.at) => self.directive(),
                b'/' if args::is_comment(bytes, self.at) => {
                    self.at = self.pass(self.at, args::skip_comment(bytes, self.at));
                }
                _ => break,
            }
        }
    }

    /// A line directive, `# 100 "file"` or `#line 100 "file"`, up to its line's end.
    fn directive(&mut self) {
        let rest = &self.text[self.at..];
        let end = self.at + rest.find(['\n', '\r']).unwrap_or(rest.len());
        let blank = |c| c == ' ' || c == '\t';
        let body = self.text[self.at + 1..end].trim_start_matches(blank);
        let body = match body.strip_prefix("line") {
            Some(more) if more.starts_with(blank) => more.trim_start_matches(blank),
            _ => body,
        };
        if !body.starts_with(|c: char| c.is_ascii_digit()) {
            let place = self.place(self.at);
            let problem = Problem::error(&place, "unknown preprocessor directive");
            self.push(problem.expected("# LINE \"FILE\", or // for a comment"));
            self.at = end;
            return;
        }
        let digits = body.len() - body.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number =
            body[..digits].bytes().fold(0u32, |n, b| n.wrapping_mul(10).wrapping_add(u32::from(b - b'0')));
        // The line's end, still to come, counts as well.
        self.line = number.wrapping_sub(1);
        let name = body[digits..].trim_start_matches(blank);
        if name.starts_with('"') {
            let len = args::skip_one(name.as_bytes(), 0);
            let name = String::from_utf8_lossy(&args::unquote(&name[..len])).into_owned();
            self.file = if name.is_empty() { self.original.clone() } else { name.into() };
        }
        self.at = end;
    }

    fn push(&mut self, problem: Problem) {
        if self.problems.len() < Problems::MOST {
            self.problems.push(problem);
        }
    }

    fn starts_line(&self, at: usize) -> bool {
        at == 0 || matches!(self.text.as_bytes()[at - 1], b'\n' | b'\r')
    }

    /// Counts the line end at `at`; where the next line begins.
    fn newline(&mut self, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        let len = if bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n') { 2 } else { 1 };
        self.line = self.line.wrapping_add(1);
        self.counted = (at + len, 1);
        at + len
    }

    /// Counts the line ends from `at` to `end`; gives `end`.
    fn pass(&mut self, mut at: usize, end: usize) -> usize {
        while at < end {
            let byte = self.text.as_bytes()[at];
            at = if byte == b'\n' || byte == b'\r' { self.newline(at) } else { at + 1 };
        }
        at
    }

    /// The place of an offset at or after the last one asked for, in this line.
    fn place(&mut self, offset: usize) -> SourceLocation {
        let (from, column) = self.counted;
        if offset > from {
            let chars = self.text.as_bytes()[from..offset].iter().filter(|&&b| b & 0xC0 != 0x80).count();
            self.counted = (offset, column + chars as u32);
        }
        let (file, source) = (self.file.clone(), self.source);
        SourceLocation { file, line: self.line, column: self.counted.1, source, offset: offset as u32 }
    }

    /// Complains of the first byte that is no UTF-8 from `start` to `end`, comments
    /// apart. Its place has no column: it may be in a line long past.
    fn check_broken(&mut self, start: usize, end: usize) {
        let mut broken = self.broken[self.broken.partition_point(|b| b.0 < start)..].iter().peekable();
        let bytes = self.text.as_bytes();
        let mut at = start;
        while at < end {
            let comment = args::is_comment(bytes, at);
            let next = if comment { args::skip_comment(bytes, at) } else { args::skip_one(bytes, at) };
            while let Some(&(offset, byte)) = broken.next_if(|b| b.0 < next.min(end)) {
                if !comment {
                    let mut place = self.place(self.counted.0);
                    (place.column, place.offset) = (0, offset as u32);
                    let problem = Problem::error(&place, format!("byte 0x{byte:02X} is not UTF-8"));
                    self.push(
                        problem.expected(format!("text; in double quotes, \\<{byte:02X}> is this byte")),
                    );
                    return;
                }
            }
            if broken.peek().is_none() {
                return;
            }
            at = next;
        }
    }
}

/// The length of the name at the start: single slashes join its components.
fn name_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += bytes[at..].iter().take_while(|b| args::is_name_byte(**b)).count();
        let joined =
            bytes.get(at) == Some(&b'/') && bytes.get(at + 1).is_some_and(|&b| args::is_name_byte(b));
        if !joined {
            return at;
        }
        at += 1;
    }
}

fn keyword(name: &str) -> TokenKind {
    // The shortest has six letters.
    if name.len() < 6 {
        return TokenKind::Name;
    }
    match name {
        "elementclass" => TokenKind::ElementClass,
        "require" => TokenKind::Require,
        "provide" => TokenKind::Provide,
        "define" => TokenKind::Define,
        _ => TokenKind::Name,
    }
}
