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

/// Reads the words of an expression.
pub(super) struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    before: Primitive,
    scope: &'a Scope<'a>,
}

impl<'a> Parser<'a> {
    /// Reads a whole expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(words: &'a [&'a str], scope: &'a Scope<'a>) -> Result<Expr, String> {
        let mut parser = Parser { words, at: 0, before: Primitive::EMPTY, scope };
        let expr = parser.choice(0)?;
        match parser.word() {
            "" => Ok(expr),
            word => Err(format!("garbage after expression at '{word}'")),
        }
    }

    /// The word to read next; empty at the end.
    fn word(&self) -> &'a str {
        self.words.get(self.at).copied().unwrap_or("")
    }

    fn accept(&mut self, words: &[&str]) -> bool {
        let there = !self.word().is_empty() && words.contains(&self.word());
        self.at += usize::from(there);
        there
    }

    fn choice(&mut self, depth: usize) -> Result<Expr, String> {
        if depth > DEEPEST {
            return Err("expression nested too deep".into());
        }
        let condition = self.either(depth)?;
        if !self.accept(&["?"]) {
            return Ok(condition);
        }
        let holds = self.choice(depth + 1)?;
        if !self.accept(&[":"]) {
            return Err("missing ':' in ternary expression".into());
        }
        let fails = self.choice(depth + 1)?;
        Ok(Expr::If(Box::new([condition, holds, fails])))
    }

    fn either(&mut self, depth: usize) -> Result<Expr, String> {
        let mut list = vec![self.all(depth)?];
        while self.accept(&["or", "||"]) {
            list.push(self.all(depth)?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Expr::Any(list) })
    }

    fn all(&mut self, depth: usize) -> Result<Expr, String> {
        let mut list = vec![self.factor(depth)?];
        // Conditions beside each other must both hold.
        while self.accept(&["and", "&&"]) || !["", ")", "or", "||", "?", ":"].contains(&self.word()) {
            list.push(self.factor(depth)?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Expr::All(list) })
    }

    fn factor(&mut self, depth: usize) -> Result<Expr, String> {
        let mut negated = false;
        while self.accept(&["not", "!"]) {
            negated = !negated;
        }
        let expr = if self.accept(&["("]) {
            let inner = self.choice(depth + 1)?;
            if !self.accept(&[")"]) {
                return Err("missing ')'".into());
            }
            inner
        } else {
            self.condition(&mut negated)?
        };
        Ok(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }

    fn condition(&mut self, negated: &mut bool) -> Result<Expr, String> {
        if self.accept(&["true"]) {
            return Ok(Expr::TRUE);
        }
        if self.accept(&["false"]) {
            return Ok(Expr::Any(vec![]));
        }
        if ["", ")", "or", "||", "?", ":"].contains(&self.word()) {
            return Err("missing expression".into());
        }
        let first = self.at;
        let mut new = Primitive::EMPTY;
        self.qualifiers(&mut new, negated)?;
        if self.at != first {
            self.before = Primitive::EMPTY;
        }
        if matches!(self.before.data, Data::Ether(_)) {
            new.header = Some(b'e');
        }
        if self.word() == "[" && self.at > first && new.kind.is_none() {
            self.brackets(&mut new)?;
        }
        self.mask(&mut new)?;
        let related = self.relation(&mut new);
        self.data(&mut new)?;
        if related && new.data == Data::None {
            return Err(format!("dangling operator near '{}'", self.word()));
        }
        if self.at == first {
            return Err(format!("empty term near '{}'", self.word()));
        }
        let expr = new.compile(&self.before)?;
        self.before = new;
        Ok(expr)
    }

    fn qualifiers(&mut self, new: &mut Primitive, negated: &mut bool) -> Result<(), String> {
        loop {
            let word = self.word();
            if let Some(kind) = names::kind(word) {
                if new.kind.replace(kind).is_some() {
                    return Err("type specified twice".into());
                }
                if let PrimitiveKind::Field(protocol @ 1.., ..) = kind {
                    set_protocol(new, protocol)?;
                }
            } else if let Some(protocol) =
                names::protocol(word, self.scope).filter(|_| self.is_only_protocol(word))
            {
                set_protocol(new, protocol)?;
            } else {
                match word {
                    "src" | "dst" | "dest" => {
                        let side = self.side();
                        if new.side.replace(side).is_some() {
                            return Err("'src' or 'dst' specified twice".into());
                        }
                    }
                    "ip" | "ether" if new.header.is_none() => new.header = Some(word.as_bytes()[0]),
                    "not" | "!" => *negated = !*negated,
                    _ => return Ok(()),
                }
            }
            self.at += 1;
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
    fn brackets(&mut self, new: &mut Primitive) -> Result<(), String> {
        let open = self.at + 1;
        let rest = self.words.get(open..).unwrap_or(&[]);
        let close = rest.iter().position(|word| *word == "]").ok_or("missing ']'")?;
        self.at = open + close + 1;
        let text = rest[..close].concat();
        let number = |text: &str| unsigned(text).and_then(|n| u16::try_from(n).ok()).filter(|n| *n < 240);
        let span = match (text.split_once(':'), text.split_once(',')) {
            (Some((at, length)), _) => number(at).zip(number(length)),
            (None, Some((at, last))) => {
                number(at).zip(number(last)).and_then(|(at, last)| Some((at, (last + 1).checked_sub(at)?)))
            }
            (None, None) => number(&text).map(|at| (at, 1)),
        };
        let (at, length) = span.ok_or("syntax error after '[', expected '[POS]' or '[POS:LEN]'")?;
        if !(1..=4).contains(&length) {
            return Err("LEN in '[POS:LEN]' out of range, should be between 1 and 4".into());
        }
        if at / 4 != (at + length - 1) / 4 {
            return Err(format!("field [{at}:{length}] does not fit in a single word"));
        }
        new.kind = Some(PrimitiveKind::Field(new.protocol.unwrap_or(0), at * 8, (length * 8) as u8));
        Ok(())
    }

    /// Reads `& MASK`.
    fn mask(&mut self, new: &mut Primitive) -> Result<(), String> {
        let Some(next) = self.words.get(self.at + 1).filter(|_| self.word() == "&") else { return Ok(()) };
        let int = || unsigned(next).and_then(|n| u32::try_from(n).ok()).map(Data::Int);
        let ip = || Ipv4Addr::parse(next, self.scope).ok().map(|a| Data::Host(a.to_bits()));
        let ether = || Ethernet::parse(next, self.scope).ok().map(|a| Data::Ether(a.0));
        let mask = int().or_else(ip).or_else(ether);
        if matches!(mask, Some(Data::Int(0) | Data::Host(0))) {
            return Err("zero mask ignored".into());
        }
        if mask.is_some() {
            self.at += 2;
            new.mask = mask;
        }
        Ok(())
    }

    /// Reads `=`, `<=` and the like; whether one is there.
    fn relation(&mut self, new: &mut Primitive) -> bool {
        (new.relation, new.negated) = match self.word() {
            "=" | "==" => (Relation::Equal, false),
            "!=" => (Relation::Equal, true),
            ">" => (Relation::Greater, false),
            "<" => (Relation::Less, false),
            ">=" => (Relation::Less, true),
            "<=" => (Relation::Greater, true),
            _ => return false,
        };
        self.at += 1;
        true
    }

    /// Reads a value, if one is there.
    fn data(&mut self, new: &mut Primitive) -> Result<(), String> {
        let word = self.word();
        if word.is_empty() || names::is_grammar(word) {
            return Ok(());
        }
        let named = names::value(word, new.kind, new.protocol, self.scope)?;
        let int = || unsigned(word).and_then(|n| u32::try_from(n).ok()).map(Data::Int);
        let is_ether = new.header == Some(b'e');
        let ip = || Ipv4Addr::parse(word, self.scope).ok().filter(|_| !is_ether);
        let net = || {
            let prefix = Prefix4::parse(word, self.scope).ok().filter(|_| !is_ether)?;
            Some(Data::Net(prefix.address.to_bits(), prefix.mask.to_bits()))
        };
        let ether = || Ethernet::parse(word, self.scope).ok().map(|a| Data::Ether(a.0));
        let data = if let Some(data) = named.or_else(int) {
            Some(data)
        } else if let Some(address) = ip() {
            let mask = self.words.get(self.at + 2).filter(|_| self.words[self.at + 1] == "mask");
            match mask.and_then(|mask| Ipv4Addr::parse(mask, self.scope).ok()) {
                Some(mask) => {
                    self.at += 2;
                    Some(Data::Net(address.to_bits(), mask.to_bits()))
                }
                None if new.kind == Some(PrimitiveKind::Net) => net(),
                None => Some(Data::Host(address.to_bits())),
            }
        } else {
            net().or_else(ether)
        };
        if let Some(data) = data {
            self.at += 1;
            new.data = data;
        }
        Ok(())
    }
}

fn set_protocol(new: &mut Primitive, protocol: u32) -> Result<(), String> {
    match new.protocol.replace(protocol) {
        Some(other) if other != protocol => Err("transport protocol specified twice".into()),
        _ => Ok(()),
    }
}
