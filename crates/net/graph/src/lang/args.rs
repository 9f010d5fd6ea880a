//! Configuration strings taken apart: arguments, words, quotes, keywords.
//!
//! What Click's manual says under "Configuration strings". A configuration string
//! is split at commas outside quotes; comments count as one space, and white space
//! around an argument is no part of it. An argument is still quoted: `"a, b"` stays
//! with its quotes until [`unquote`] takes them off, so that it can be passed on.
//!
//! In double quotes a backslash begins an escape: C's, `\x` with hexadecimal digits
//! of which the last two count, and `\<48 65 6c>` for bytes. In single quotes
//! nothing does. Outside quotes only `\<...>` does.
//!
//! Nothing here fails: a quote that nobody closes ends with the text.

/// The arguments of a configuration string. An empty last argument is none.
///
/// ```
/// # use graph::lang::args::split;
/// assert_eq!(split("1, \"a, b\" /* two */, LIMIT 5, "), ["1", "\"a, b\"", "LIMIT 5"]);
/// assert_eq!(split("a,,b"), ["a", "", "b"]);
/// ```
pub fn split(config: &str) -> Vec<String> {
    split_at(config).into_iter().map(|(_, argument)| argument).collect()
}

/// As [`split`], each argument with where in the configuration string it begins.
pub fn split_at(config: &str) -> Vec<(usize, String)> {
    let mut arguments = vec![];
    let mut at = 0;
    while at < config.len() {
        let start = skip_blank(config, at);
        let (argument, end) = argument(config, start, true);
        if !argument.is_empty() || end < config.len() {
            arguments.push((start, argument));
        }
        at = end + 1;
    }
    arguments
}

/// Arguments as a configuration string. Quotes nothing.
pub fn join<S: AsRef<str>>(arguments: &[S]) -> String {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    arguments.join(", ")
}

/// A text without the comments in it and the white space around it: one argument.
pub fn uncomment(text: &str) -> String {
    argument(text, skip_blank(text, 0), false).0
}

/// The words of an argument: split at white space and comments outside quotes.
///
/// ```
/// # use graph::lang::args::words;
/// assert_eq!(words("package 'a b'/**/c"), ["package", "'a b'", "c"]);
/// ```
pub fn words(argument: &str) -> Vec<&str> {
    let mut words = vec![];
    let mut rest = argument;
    loop {
        let (word, left) = shift_word(rest);
        if word.is_empty() {
            return words;
        }
        words.push(word);
        rest = left;
    }
}

/// The first word of an argument, empty if there is none, and what follows it.
pub fn shift_word(argument: &str) -> (&str, &str) {
    let bytes = argument.as_bytes();
    let start = skip_blank(argument, 0);
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        if is_space(byte) || is_comment(bytes, at) {
            break;
        }
        at = skip_one(bytes, at);
    }
    (&argument[start..at], &argument[skip_blank(argument, at)..])
}

/// The keyword an argument begins with and what follows, if it has the form of one:
/// a letter or underscore, then letters, digits and `_ : . ? !`, then white space,
/// then more. Which keywords there are is not asked; case matters.
///
/// ```
/// # use graph::lang::args::keyword;
/// assert_eq!(keyword("LIMIT  5"), Some(("LIMIT", "5")));
/// assert_eq!(keyword("LIMIT"), None);
/// assert_eq!(keyword("\"LIMIT\" 5"), None);
/// ```
pub fn keyword(argument: &str) -> Option<(&str, &str)> {
    argument.bytes().next().filter(|&b| b.is_ascii_alphabetic() || b == b'_')?;
    let end = argument.bytes().position(|b| !is_keyword_byte(b))?;
    let rest = argument[end..].trim_start_matches(is_space_char);
    (rest.len() < argument.len() - end && !rest.is_empty()).then_some((&argument[..end], rest))
}

/// An argument's bytes with one level of quotes taken off and escapes replaced.
///
/// ```
/// # use graph::lang::args::unquote;
/// assert_eq!(unquote(r#"a"\n"'\n'\<00 FF>"#), b"a\n\\n\x00\xff");
/// ```
pub fn unquote(argument: &str) -> Vec<u8> {
    let text = uncomment(argument);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut quote = None;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' if quote.is_none() => quote = Some(byte),
            _ if quote == Some(byte) => quote = None,
            b'\\' if escapes(bytes, at, quote) => {
                at = unescape(bytes, at, &mut out);
                continue;
            }
            _ => out.push(byte),
        }
        at += 1;
    }
    out
}

/// [`unquote`] where text is wanted; none if the bytes are not UTF-8.
pub fn unquote_text(argument: &str) -> Option<String> {
    String::from_utf8(unquote(argument)).ok()
}

/// Bytes as a double-quoted string: [`unquote`] gives them back, and no variable in
/// them is replaced.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' | b'$' => out.extend(['\\', byte as char]),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push(byte as char),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out.push('"');
    out
}

/// Whether a text is a word as Click has it: printable ASCII without quotes,
/// backslash or comma, and not empty.
pub fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"'\\,".contains(&b))
}

/// Whether an element or class may be called so: letters, digits, `_` and `@`, with
/// single slashes inside.
pub fn is_identifier(text: &str) -> bool {
    let component = |c: &str| !c.is_empty() && c.bytes().all(is_name_byte);
    text.split('/').all(component)
}

/// White space in C's sense: also vertical tab and form feed.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn is_space_char(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// A byte of a name, slashes apart.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    NAME_BYTES[usize::from(byte)]
}

/// Of each byte whether it is one of a name's: the lexer asks for every byte of a configuration.
static NAME_BYTES: [bool; 256] = {
    let mut is_name = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let ascii = byte as u8;
        is_name[byte] = ascii.is_ascii_alphanumeric() || ascii == b'_' || ascii == b'@';
        byte += 1;
    }
    is_name
};

pub(crate) fn is_keyword_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.:?!".contains(&byte)
}

/// Whether a comment begins at `at`.
pub(crate) fn is_comment(bytes: &[u8], at: usize) -> bool {
    bytes.get(at) == Some(&b'/') && matches!(bytes.get(at + 1), Some(b'/' | b'*'))
}

/// Past white space and comments.
pub(crate) fn skip_blank(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        if is_space(byte) {
            at += 1;
        } else if is_comment(bytes, at) {
            at = skip_comment(bytes, at);
        } else {
            break;
        }
    }
    at
}

/// Past the comment at `at`; its line end is part of one that ends there.
pub(crate) fn skip_comment(bytes: &[u8], at: usize) -> usize {
    let body = (at + 2).min(bytes.len());
    let end = if bytes.get(at + 1) == Some(&b'/') {
        let end = bytes[body..].iter().position(|b| matches!(b, b'\n' | b'\r')).map(|n| body + n);
        end.map(|end| if bytes[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 })
    } else {
        bytes[body..].windows(2).position(|w| w == b"*/").map(|n| body + n + 2)
    };
    end.unwrap_or(bytes.len())
}

/// Past the quoted string, the `\<...>` or the single byte at `at`.
pub(crate) fn skip_one(bytes: &[u8], at: usize) -> usize {
    let past = match bytes[at] {
        b'\'' => bytes[at + 1..].iter().position(|&b| b == b'\'').map_or(bytes.len(), |n| at + n + 2),
        b'"' => {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end = if bytes[end] == b'\\' { skip_escape(bytes, end) } else { end + 1 };
            }
            end + 1
        }
        b'\\' if bytes.get(at + 1) == Some(&b'<') => skip_escape(bytes, at),
        _ => at + 1,
    };
    past.min(bytes.len())
}

/// Past the escape at `at`, as far as splitting is concerned: `\<...>` whole, of the
/// others the backslash and one byte.
fn skip_escape(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) != Some(&b'<') {
        let crlf = bytes[at + 1..].starts_with(b"\r\n");
        return (at + if crlf { 3 } else { 2 }).min(bytes.len());
    }
    let mut end = at + 2;
    while end < bytes.len() && bytes[end] != b'>' {
        end = if is_comment(bytes, end) { skip_comment(bytes, end) } else { end + 1 };
    }
    (end + 1).min(bytes.len())
}

/// One argument from `at` to the next comma outside quotes (or to the end), with its
/// end. Comments in the middle become one space.
fn argument(text: &str, start: usize, commas: bool) -> (String, usize) {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut left, mut right, mut at) = (start, start, start);
    let mut closed = false;
    while let Some(&byte) = bytes.get(at) {
        if is_space(byte) {
            at += 1;
        } else if is_comment(bytes, at) {
            at = skip_comment(bytes, at);
            closed = true;
        } else if byte == b',' && commas {
            break;
        } else {
            if closed {
                out.push_str(&text[left..right]);
                out.push(' ');
                left = at;
                closed = false;
            }
            at = skip_one(bytes, at);
            right = at;
        }
    }
    out.push_str(&text[left..right]);
    (out, at)
}

/// Whether the backslash at `at` begins an escape, being inside `quote`.
fn escapes(bytes: &[u8], at: usize, quote: Option<u8>) -> bool {
    match (quote, bytes.get(at + 1)) {
        (_, None) => false,
        (Some(b'"'), _) | (None, Some(b'<')) => true,
        _ => false,
    }
}

/// Appends what the escape at `at` stands for; where it ends.
fn unescape(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let after = at + 2;
    let simple = match bytes[at + 1] {
        b'\r' => return after + usize::from(bytes.get(after) == Some(&b'\n')),
        b'\n' => return after,
        b'0'..=b'7' => return unescape_octal(bytes, at + 1, out),
        b'x' => return unescape_hex(bytes, after, out),
        b'<' => return unescape_data(bytes, after, out),
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        other => other,
    };
    out.push(simple);
    after
}

/// Up to three octal digits; what exceeds a byte is cut off.
fn unescape_octal(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let digits = bytes[at..].iter().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
    let value = bytes[at..at + digits].iter().fold(0u32, |v, b| v * 8 + u32::from(b - b'0'));
    out.push(value as u8);
    at + digits
}

/// Any number of hexadecimal digits, of which the last two count.
fn unescape_hex(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let mut end = at;
    let mut value = 0u8;
    while let Some(digit) = bytes.get(end).and_then(|&b| hex(b)) {
        value = value << 4 | digit;
        end += 1;
    }
    out.push(value);
    end
}

/// Pairs of hexadecimal digits up to `>`, anything else between them ignored.
fn unescape_data(bytes: &[u8], mut at: usize, out: &mut Vec<u8>) -> usize {
    let mut half = None;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'>' {
            return at + 1;
        }
        if is_comment(bytes, at) {
            at = skip_comment(bytes, at);
            continue;
        }
        if let Some(digit) = hex(byte) {
            half = match half {
                None => Some(digit),
                Some(high) => {
                    out.push(high << 4 | digit);
                    None
                }
            };
        }
        at += 1;
    }
    at
}

fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|d| d as u8)
}
