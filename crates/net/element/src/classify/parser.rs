//! `IPFilter`'s language: conditions joined by `and`, `or`, `not`, `? :` and
//! parentheses.

use std::net::Ipv4Addr;

use graph::value::{Ethernet, Prefix4, Scope, Value, unsigned};

use super::expression::Expr;
use super::names;
use super::primitive::{Data, Primitive, PrimitiveKind, Relation, Side};

/// How deep expressions may be nested.
const DEEPEST: usize = 100;

/// The words of an expression.
pub(super) fn words(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut words, mut at) = (vec![], 0);
    while at < bytes.len() {
        let twin = bytes.get(at + 1).copied();
        let length = match bytes[at] {
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b @ (b'&' | b'|') if twin == Some(b) => 2,
            b'<' | b'>' | b'!' | b'=' if twin == Some(b'=') => 2,
            _ => {
                let word = |b: &u8| b.is_ascii_alphanumeric() || b"-./@_:".contains(b);
                let run = bytes[at..].iter().take_while(|b| word(b)).count();
                // Whatever else stands there is a word of its own.
                run.max(text[at..].chars().next().map_or(1, char::len_utf8))
            }
        };
        words.push(&text[at..at + length]);
        at += length;
    }
    words
}

/// What is said of an expression, in Click's words.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What is wrong with it.
    pub errors: Vec<String>,
    /// What is odd about it.
    pub warnings: Vec<String>,
}

/// Reads the words of an expression.
pub(super) struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    before: Primitive,
    scope: &'a Scope<'a>,
    said: Said,
}

impl<'a> Parser<'a> {
    /// Reads a whole expression. It goes on behind what is wrong, as Click does; the expression is of use
    /// only if there are no errors.
    pub(super) fn read(words: &'a [&'a str], scope: &'a Scope<'a>) -> (Expr, Said) {
        let mut parser = Parser { words, at: 0, before: Primitive::EMPTY, scope, said: Said::default() };
        let expr = parser.choice(0);
        if !parser.word().is_empty() {
            parser.error(format!("garbage after expression at '{}'", parser.word()));
        }
        (expr, parser.said)
    }

    fn error(&mut self, message: impl Into<String>) {
        self.said.errors.push(message.into());
    }

    /// The word to read next; empty at the end.
    fn word(&self) -> &'a str {
        self.words.get(self.at).copied().unwrap_or("")
    }

    /// As [`word`](Self::word), but for the last one: what takes another behind it cannot be that.
    fn word_before_another(&self) -> &'a str {
        if self.at + 1 < self.words.len() { self.word() } else { "" }
    }

    fn accept(&mut self, words: &[&str]) -> bool {
        let there = !self.word().is_empty() && words.contains(&self.word());
        self.at += usize::from(there);
        there
    }

    fn choice(&mut self, depth: usize) -> Expr {
        if depth > DEEPEST {
            self.error("expression nested too deep");
            self.at = self.words.len();
            return Expr::TRUE;
        }
        let condition = self.either(depth);
        if !self.accept(&["?"]) {
            return condition;
        }
        let first = self.at;
        let holds = self.choice(depth + 1);
        if self.at == first || !self.accept(&[":"]) {
            self.error("missing ':' in ternary expression");
            return condition;
        }
        let fails = self.choice(depth + 1);
        Expr::If(Box::new([condition, holds, fails]))
    }

    fn either(&mut self, depth: usize) -> Expr {
        let mut list = vec![self.all(depth)];
        while self.accept(&["or", "||"]) {
            list.push(self.all(depth));
        }
        if list.len() == 1 { list.remove(0) } else { Expr::Any(list) }
    }

    /// Conditions beside each other must both hold.
    fn all(&mut self, depth: usize) -> Expr {
        let (mut list, mut is_wanted) = (vec![], true);
        loop {
            let first = self.at;
            let factor = self.factor(depth);
            if self.at == first {
                if is_wanted {
                    self.error("missing expression");
                }
                break;
            }
            list.extend(factor);
            is_wanted = self.accept(&["and", "&&"]);
        }
        if list.len() == 1 { list.remove(0) } else { Expr::All(list) }
    }

    /// A condition or an expression in parentheses; nothing where something is wrong.
    fn factor(&mut self, depth: usize) -> Option<Expr> {
        let (mut negated, mut negation) = (false, "");
        while ["not", "!"].contains(&self.word()) {
            (negated, negation) = (!negated, self.word());
            self.at += 1;
        }
        let first = self.at;
        let expr =
            if self.accept(&["("]) { Some(self.parenthesis(depth)) } else { self.condition(&mut negated) };
        if self.at == first && !negation.is_empty() {
            self.error(format!("missing expression after '{negation}'"));
        }
        expr.map(|expr| if negated { Expr::Not(Box::new(expr)) } else { expr })
    }

    /// An expression behind its opening parenthesis.
    fn parenthesis(&mut self, depth: usize) -> Expr {
        let first = self.at;
        let inner = self.choice(depth + 1);
        let is_empty = self.at == first;
        if is_empty {
            self.error("missing expression after '('");
        }
        if !self.accept(&[")"]) && !is_empty {
            self.error("missing ')'");
        }
        inner
    }

    fn condition(&mut self, negated: &mut bool) -> Option<Expr> {
        if self.accept(&["true"]) {
            return Some(Expr::TRUE);
        }
        if self.accept(&["false"]) {
            return Some(Expr::Any(vec![]));
        }
        if ["", ")", "or", "||", "?", ":"].contains(&self.word()) {
            return None;
        }
        let first = self.at;
        let mut new = Primitive::EMPTY;
        self.qualifiers(&mut new, negated);
        if self.at != first {
            self.before = Primitive::EMPTY;
        }
        if matches!(self.before.data, Data::Ether(_)) {
            new.header = Some(b'e');
        }
        if self.word_before_another() == "[" && self.at > first && new.kind.is_none() {
            self.brackets(&mut new);
        }
        self.mask(&mut new);
        self.relation(&mut new);
        let has_meaning = self.data(&mut new);
        if self.at == first {
            self.error(format!("empty term near '{}'", self.word()));
            return None;
        }
        if !has_meaning {
            return None;
        }
        match new.compile(&self.before, &mut self.said.warnings) {
            Ok(expr) => {
                self.before = new;
                Some(expr)
            }
            Err(error) => {
                self.error(error);
                None
            }
        }
    }

    fn qualifiers(&mut self, new: &mut Primitive, negated: &mut bool) {
        loop {
            let word = self.word();
            if let Some(kind) = names::kind(word) {
                if new.kind.replace(kind).is_some() {
                    self.error("type specified twice");
                }
                if let PrimitiveKind::Field(protocol @ 1.., ..) = kind {
                    self.set_protocol(new, protocol);
                }
            } else if let Some(protocol) =
                names::protocol(word, self.scope).filter(|_| self.is_only_protocol(word))
            {
                self.set_protocol(new, protocol);
            } else {
                match word {
                    "src" | "dst" | "dest" => {
                        let side = self.side();
                        if new.side.replace(side).is_some() {
                            self.error("'src' or 'dst' specified twice");
                        }
                    }
                    "ip" | "ether" if new.header.is_none() => new.header = Some(word.as_bytes()[0]),
                    "not" | "!" => *negated = !*negated,
                    _ => return,
                }
            }
            self.at += 1;
        }
    }

    fn set_protocol(&mut self, new: &mut Primitive, protocol: u32) {
        if new.protocol.replace(protocol).is_some_and(|other| other != protocol) {
            self.error("transport protocol specified twice");
        }
    }

    /// Whether a protocol's name means nothing else.
    fn is_only_protocol(&self, word: &str) -> bool {
        matches!(names::value(word, None, None, self.scope), Ok(Some(Data::Named(PrimitiveKind::Proto, _))))
    }

    /// Reads `src and dst` and the like but for the last word.
    fn side(&mut self) -> Side {
        let next = |n: usize| self.words.get(self.at + n).copied().unwrap_or("");
        let side = match (self.word(), next(1), next(2)) {
            ("src", "and" | "&&", "dst" | "dest") => Side::Both,
            ("src", "or" | "||", "dst" | "dest") => Side::Either,
            ("src", ..) => Side::Source,
            _ => Side::Destination,
        };
        if matches!(side, Side::Both | Side::Either) {
            self.at += 2;
        }
        side
    }

    /// Reads `[POS]`, `[POS:LEN]` or `[POS,LAST]`.
    fn brackets(&mut self, new: &mut Primitive) {
        let open = self.at + 1;
        let rest = self.words.get(open..).unwrap_or(&[]);
        let Some(close) = rest.iter().position(|word| *word == "]") else {
            self.at = open;
            return self.error("missing ']'");
        };
        self.at = open + close + 1;
        match field(&rest[..close].concat()) {
            Ok((at, bits)) => new.kind = Some(PrimitiveKind::Field(new.protocol.unwrap_or(0), at, bits)),
            Err(error) => self.error(error),
        }
    }

    /// Reads `& MASK`.
    fn mask(&mut self, new: &mut Primitive) {
        if self.word_before_another() != "&" {
            return;
        }
        let next = self.words[self.at + 1];
        let int = || unsigned(next).and_then(|n| u32::try_from(n).ok()).map(Data::Int);
        let is_of = |header| new.header.is_none_or(|named| named == header);
        let ip = || {
            let address = Ipv4Addr::parse(next, self.scope).ok().filter(|_| is_of(b'i'))?;
            Some(Data::Host(address.to_bits()))
        };
        let ether = || {
            Ethernet::parse(next, self.scope)
                .ok()
                .filter(|_| is_of(b'e'))
                .map(|address| Data::Ether(address.0))
        };
        let mask = int().or_else(ip).or_else(ether);
        self.at += if mask.is_some() { 2 } else { 0 };
        match mask {
            Some(Data::Int(0) | Data::Host(0)) => self.error("zero mask ignored"),
            mask => new.mask = mask,
        }
    }

    /// Reads `=`, `<=` and the like, if one is there.
    fn relation(&mut self, new: &mut Primitive) {
        (new.relation, new.negated) = match self.word_before_another() {
            "=" | "==" => (Relation::Equal, false),
            "!=" => (Relation::Equal, true),
            ">" => (Relation::Greater, false),
            "<" => (Relation::Less, false),
            ">=" => (Relation::Less, true),
            "<=" => (Relation::Greater, true),
            _ => return,
        };
        self.at += 1;
    }

    /// Reads a value, if one is there; whether its word means something.
    fn data(&mut self, new: &mut Primitive) -> bool {
        let word = self.word();
        if word.is_empty() {
            return true;
        }
        let named = match names::value(word, new.kind, new.protocol, self.scope) {
            _ if names::is_grammar(word) => None,
            Ok(named) => named,
            Err(error) => {
                self.at += 1;
                self.error(error);
                return false;
            }
        };
        let int = || unsigned(word).and_then(|n| u32::try_from(n).ok()).map(Data::Int);
        let is_ether = new.header == Some(b'e');
        let ip = || Ipv4Addr::parse(word, self.scope).ok().filter(|_| !is_ether);
        let net = || {
            let prefix = Prefix4::parse(word, self.scope).ok().filter(|_| !is_ether)?;
            Some(Data::Net(prefix.address.to_bits(), prefix.mask.to_bits()))
        };
        let is_ip = new.header == Some(b'i');
        let ether = || Ethernet::parse(word, self.scope).ok().filter(|_| !is_ip).map(|a| Data::Ether(a.0));
        let data = if let Some(data) = named.or_else(int) {
            Some(data)
        } else if let Some(address) = ip() {
            let mask = self.words.get(self.at + 2).filter(|_| self.words[self.at + 1] == "mask");
            match mask.and_then(|mask| Ipv4Addr::parse(mask, self.scope).ok()) {
                Some(mask) => {
                    self.at += 2;
                    Some(Data::Net(address.to_bits(), mask.to_bits()))
                }
                // An address alone is no network; a name may be both.
                None if new.kind == Some(PrimitiveKind::Net) && word.parse::<Ipv4Addr>().is_err() => net(),
                None => Some(Data::Host(address.to_bits())),
            }
        } else {
            net().or_else(ether)
        };
        match data {
            Some(data) => {
                self.at += 1;
                new.data = data;
            }
            None if new.relation != Relation::Equal || new.negated => {
                self.error(format!("dangling operator near '{word}'"));
            }
            None => {}
        }
        true
    }
}

/// What stands in brackets: the first bit, and how many.
fn field(text: &str) -> Result<(u16, u8), String> {
    let number = |text: &str| unsigned(text).and_then(|n| u16::try_from(n).ok()).filter(|n| *n < 240);
    let span = match (text.split_once(':'), text.split_once(',')) {
        (Some((at, length)), _) => number(at).zip(number(length)),
        (None, Some((at, last))) => {
            number(at).zip(number(last)).and_then(|(at, last)| Some((at, (last + 1).checked_sub(at)?)))
        }
        (None, None) => number(text).map(|at| (at, 1)),
    };
    let (at, length) = span.ok_or("syntax error after '[', expected '[POS]' or '[POS:LEN]'")?;
    if !(1..=4).contains(&length) {
        return Err("LEN in '[POS:LEN]' out of range, should be between 1 and 4".into());
    }
    if at / 4 != (at + length - 1) / 4 {
        return Err(format!("field [{at}:{length}] does not fit in a single word"));
    }
    Ok((at * 8, (length * 8) as u8))
}
