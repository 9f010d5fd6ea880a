//! Tokens to a syntax tree, by recursive descent bounded by [`Parser::NESTING`].
//!
//! After an error it goes on as Click does, so that every problem is found at once.
//! Click stops at some that follow from others; so does this. Statements come one at
//! a time: a configuration of a million elements is never held as a tree.

mod compound;
mod ports;

use smallvec::SmallVec;

use super::args;
use super::lexer::{Config, Lexer, Text, Token, TokenKind};
use super::place::SourceLocation;
use super::problem::{Problem, Problems};
use super::tree::*;

/// Makes statements of tokens.
pub struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Tokens read ahead, the next one last; at most two.
    ahead: Vec<Token<'a>>,
    /// Where the last token taken ended, for "expected".
    last: SourceLocation,
    /// How many braces and parentheses are open.
    depth: usize,
    problems: Vec<Problem>,
}

/// What a list of statements is in.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    File,
    Group,
    Compound,
}

/// What to do after a statement.
enum Next<'a> {
    Statement(Statement<'a>),
    /// Nothing came of it; go on.
    Nothing,
    /// The list is closed, by this token.
    Closed(Token<'a>),
}

impl<'a> Parser<'a> {
    /// The deepest nesting of compound elements and groups. A thread's usual stack of
    /// 2 MiB holds it even without optimisation.
    pub const NESTING: usize = 128;
    /// The highest port number.
    pub const PORT: u32 = 65_535;

    /// A parser at a text's start.
    pub fn new(text: &'a Text) -> Parser<'a> {
        let (lexer, last) = (Lexer::new(text), text.start());
        Parser { lexer, ahead: Vec::with_capacity(2), last, depth: 0, problems: vec![] }
    }

    /// How far it has read.
    pub fn place(&self) -> &SourceLocation {
        &self.last
    }

    /// The next statement of the file, none at its end.
    pub fn statement(&mut self) -> Option<Statement<'a>> {
        loop {
            match self.next(Within::File) {
                Next::Statement(statement) => return Some(statement),
                Next::Nothing => {}
                Next::Closed(_) => return None,
            }
        }
    }

    /// What was wrong since the last call, in order.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        if self.problems.is_empty() && !self.lexer.complained() {
            return vec![];
        }
        let mut problems = self.lexer.take_problems();
        problems.append(&mut self.problems);
        problems.sort_by_key(|p| p.place.offset);
        problems
    }

    fn next(&mut self, within: Within) -> Next<'a> {
        let token = self.take();
        match token.kind {
            TokenKind::Name
            | TokenKind::Char('[' | '{' | '(')
            | TokenKind::Arrow
            | TokenKind::DoubleArrow => {
                self.untake(token);
                self.chain(within).map_or(Next::Nothing, |chain| Next::Statement(Statement::Chain(chain)))
            }
            TokenKind::ElementClass => self.class_statement(),
            TokenKind::Require => self.with_config(Statement::Require),
            TokenKind::Define => self.with_config(Statement::Define),
            TokenKind::Char(';') => Next::Nothing,
            TokenKind::Char('}') | TokenKind::Bars if within == Within::Compound => Next::Closed(token),
            TokenKind::Char('}') | TokenKind::Bars if within == Within::Group => {
                self.syntax_error(&token, "')' to close the group");
                self.untake(token.clone());
                Next::Closed(token)
            }
            TokenKind::Char(')') if within == Within::Group => Next::Closed(token),
            TokenKind::End => {
                match within {
                    Within::Group => self.expected(')'),
                    Within::Compound => self.expected('}'),
                    Within::File => {}
                }
                Next::Closed(token)
            }
            _ => {
                self.syntax_error(&token, "a statement: an element, 'elementclass', 'define' or 'require'");
                Next::Nothing
            }
        }
    }

    /// Statements up to what closes them, and that.
    fn block(&mut self, within: Within) -> (Vec<Statement<'a>>, Token<'a>) {
        let mut body = Vec::with_capacity(1);
        loop {
            match self.next(within) {
                Next::Statement(statement) => body.push(statement),
                Next::Nothing => {}
                Next::Closed(token) => return (body, token),
            }
        }
    }

    /// `require(...)` and `define(...)`.
    fn with_config(&mut self, make: fn(Config<'a>) -> Statement<'a>) -> Next<'a> {
        if self.expect('(').is_none() {
            return Next::Nothing;
        }
        Next::Statement(make(self.config()))
    }

    /// A configuration string, its opening parenthesis taken, with the closing one.
    fn config(&mut self) -> Config<'a> {
        debug_assert!(self.ahead.is_empty(), "a configuration string is lexed raw");
        let config = self.lexer.config();
        let closing = self.take();
        if closing.kind != TokenKind::Char(')') {
            let problem = Problem::error(&closing.place, "expected ')'");
            let problem = match unclosed_quote(&config.text) {
                Some(quote) => {
                    problem.suggest(Some(format!("a {quote} in the configuration string is never closed")))
                }
                None => problem.expected("')' to close the configuration string"),
            };
            self.push(problem.note(Some(&config.place), "the configuration string begins here"));
            self.untake(closing);
        }
        config
    }

    // Chains

    /// Elements joined by arrows, up to what ends the statement. `None` when there
    /// was nothing to keep.
    fn chain(&mut self, within: Within) -> Option<Chain<'a>> {
        // A declaration has one.
        let mut steps: Vec<Step<'a>> = Vec::with_capacity(1);
        let mut arrow = None;
        let mut place = self.peek().place.clone();
        loop {
            let first = steps.is_empty();
            let mut items = SmallVec::new();
            self.items(within, first, &mut items);
            if items.is_empty() {
                break;
            }
            let implicit = items.iter().any(|i| matches!(i.what, What::Implicit));
            let goes_on = matches!(self.peek().kind, TokenKind::Arrow | TokenKind::DoubleArrow);
            let next = self.peek().place.clone();
            if implicit && !first && goes_on {
                self.problem(
                    &place,
                    "implicit ports used in the middle of a chain",
                    "an element between arrows",
                );
            }
            steps.push(Step { arrow, items, goes_on, place, next });
            let Some(token) = self.arrow() else { break };
            arrow = Some(if token.kind == TokenKind::Arrow { Arrow::Single } else { Arrow::Many });
            place = token.place;
        }
        (!steps.is_empty()).then_some(Chain { steps })
    }

    /// The arrow after a step; `None` at the chain's end.
    fn arrow(&mut self) -> Option<Token<'a>> {
        loop {
            let token = self.take();
            match token.kind {
                TokenKind::Char(',') | TokenKind::Colons => self.syntax_error(&token, "an arrow or ';'"),
                TokenKind::Arrow | TokenKind::DoubleArrow => return Some(token),
                TokenKind::Char(';') => return None,
                TokenKind::Char('{' | '}' | '[' | ')')
                | TokenKind::Name
                | TokenKind::Bars
                | TokenKind::End => {
                    self.untake(token);
                    return None;
                }
                TokenKind::ElementClass | TokenKind::Require | TokenKind::Provide | TokenKind::Define => {
                    self.untake(token);
                    return None;
                }
                TokenKind::Char(_) => {
                    self.syntax_error(&token, "an arrow or ';'");
                    return None;
                }
                TokenKind::Variable | TokenKind::Dots => {
                    self.syntax_error(&token, "an arrow or ';'");
                    self.untake(token);
                    return None;
                }
            }
        }
    }

    /// The elements of one step, separated by commas; there may be none.
    fn items(&mut self, within: Within, first: bool, items: &mut SmallVec<[Item<'a>; 1]>) {
        while let Some(item) = self.item(within, first, items.is_empty()) {
            items.push(item);
            if self.peek().kind != TokenKind::Char(',') {
                return;
            }
            self.take();
        }
    }

    fn item(&mut self, within: Within, first: bool, alone: bool) -> Option<Item<'a>> {
        let inputs = self.ports();
        let token = self.take();
        let place = token.place.clone();
        let what = match token.kind {
            TokenKind::Name => What::Name(token.text),
            TokenKind::Char('{') => What::Compound(Box::new(self.compound(&place))),
            TokenKind::Char('(') => What::Group(Box::new(self.group(&place))),
            _ => return self.no_item(within, first, alone, inputs, token),
        };
        let class = self.class_use();
        let config = (self.peek().kind == TokenKind::Char('(')).then(|| {
            self.take();
            Box::new(self.config())
        });
        let outputs = self.ports();
        Some(Item { inputs, what, class, config, outputs, place })
    }

    /// Where no element is: in a group or compound element it may be `input` at a
    /// chain's start or `output` at its end, anywhere else a mistake.
    fn no_item(
        &mut self,
        within: Within,
        first: bool,
        alone: bool,
        ports: Option<Box<Ports>>,
        token: Token<'a>,
    ) -> Option<Item<'a>> {
        let nested = within != Within::File;
        let stands = ports.is_some() || alone;
        let implicit = nested
            && match token.kind {
                TokenKind::Arrow | TokenKind::DoubleArrow => first && stands,
                TokenKind::Char(',') => ports.is_some(),
                TokenKind::Colons => false,
                _ => !first && stands,
            };
        let place = token.place.clone();
        if implicit {
            self.untake(token);
            // The port named before `input` is one of its outputs.
            let (inputs, outputs) = if first { (None, ports) } else { (ports, None) };
            return Some(Item { inputs, what: What::Implicit, class: None, config: None, outputs, place });
        }
        // What ends the statement is left to end it, what else cannot stand here is not.
        let ends = matches!(token.kind, TokenKind::Char('}' | ')' | ';') | TokenKind::Bars | TokenKind::End);
        let starts = matches!(token.kind, TokenKind::ElementClass | TokenKind::Require | TokenKind::Define);
        let empty = alone && nested && first;
        if ports.is_some() {
            self.problem(&place, "stranded port ignored", "an element beside its ports");
        } else if ends && !alone {
            self.push(Problem::warning(&place, "no element after ','"));
        }
        if !empty && (alone || (ports.is_none() && !ends)) {
            self.syntax_error(&token, "an element");
        }
        if ends || starts || empty {
            self.untake(token);
        }
        None
    }

    /// `:: Class` or `:: { ... }`, if it follows.
    fn class_use(&mut self) -> Option<ClassUse<'a>> {
        if self.peek().kind != TokenKind::Colons {
            return None;
        }
        self.take();
        let token = self.take();
        Some(match token.kind {
            TokenKind::Name => ClassUse::Name(token.text, token.place),
            TokenKind::Char('{') => ClassUse::Compound(Box::new(self.compound(&token.place))),
            _ => {
                self.problem(&token.place, "missing element type in declaration", "a class after '::'");
                self.untake(token);
                ClassUse::Missing
            }
        })
    }

    // Tokens

    fn take(&mut self) -> Token<'a> {
        let token = self.ahead.pop().unwrap_or_else(|| self.lexer.token());
        self.last.clone_from(&token.place);
        token
    }

    fn untake(&mut self, token: Token<'a>) {
        self.ahead.push(token);
    }

    fn peek(&mut self) -> &Token<'a> {
        if self.ahead.is_empty() {
            let token = self.lexer.token();
            self.ahead.push(token);
        }
        self.ahead.last().expect("one was read just now")
    }

    fn expect(&mut self, what: char) -> Option<Token<'a>> {
        if self.peek().kind == TokenKind::Char(what) {
            return Some(self.take());
        }
        self.expected(what);
        None
    }

    fn expected(&mut self, what: char) {
        let place = self.last.clone();
        self.push(Problem::error(&place, format!("expected '{what}'")));
    }

    fn syntax_error(&mut self, token: &Token<'a>, expected: &str) {
        if let TokenKind::Char(char::REPLACEMENT_CHARACTER) = token.kind {
            // The lexer may have complained of it already; once is enough.
            if self.lexer.complained() {
                return;
            }
        }
        let dollar = if token.kind == TokenKind::Variable { "$" } else { "" };
        let text: String = token.text.escape_debug().collect();
        let text = if token.kind == TokenKind::Char('\'') { "'".into() } else { text };
        self.problem(&token.place, &format!("syntax error near '{dollar}{text}'"), expected);
    }

    fn problem(&mut self, place: &SourceLocation, message: &str, expected: &str) {
        self.push(Problem::error(place, message).expected(expected));
    }

    /// Keeps a problem, unless there are more than anybody reads.
    fn push(&mut self, problem: Problem) {
        if self.problems.len() < Problems::MOST {
            self.problems.push(problem);
        }
    }
}

/// The quote in a configuration string that nobody closes, if there is one.
fn unclosed_quote(config: &str) -> Option<char> {
    let bytes = config.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let comment = args::is_comment(bytes, at);
        let next = if comment { args::skip_comment(bytes, at) } else { args::skip_one(bytes, at) };
        let quote = bytes[at];
        if next == bytes.len() && !comment && matches!(quote, b'"' | b'\'') {
            return (next == at + 1 || bytes[next - 1] != quote).then_some(quote as char);
        }
        at = next;
    }
    None
}
