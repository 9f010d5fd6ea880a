//! What is written to a handler, or asked of it, word by word.

use graph::Refused;
use graph::value::{Scope, Value, unsigned};
use wire::ip::Protocol;

use crate::classify::names;

/// A port, by its number or its name, of the protocol with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Port<const PROTOCOL: u8>(pub u16);

/// A port of TCP.
pub(crate) type TcpPort = Port<{ Protocol::TCP.0 }>;
/// A port of UDP.
pub(crate) type UdpPort = Port<{ Protocol::UDP.0 }>;

impl<const PROTOCOL: u8> Value for Port<PROTOCOL> {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Port<PROTOCOL>, String> {
        let text = text.trim();
        let named = || names::port(text, PROTOCOL.into(), scope);
        let number = unsigned(text).or_else(|| named().map(u64::from)).ok_or("expected IP port")?;
        u16::try_from(number).map(Port).map_err(|_| "overflow, range 0-65535".into())
    }
}

/// What is wrong, as Click's handlers say it.
fn as_click(error: &str) -> &str {
    match error {
        "expected integer" | "expected unsigned integer" => "invalid number",
        _ if error.starts_with("expected") => "parse error",
        _ => error,
    }
}

/// Words that stand for arguments.
pub(crate) struct Words<'a> {
    words: std::str::SplitWhitespace<'a>,
    scope: Scope<'a>,
    wrong: Vec<String>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a str, scope: Scope<'a>) -> Words<'a> {
        Words { words: text.split_whitespace(), scope, wrong: vec![] }
    }

    /// The next word, if there is one.
    pub(crate) fn next<T: Value>(&mut self, key: &str) -> Option<T> {
        let read = T::parse(self.words.next()?, &self.scope);
        read.map_err(|error| self.wrong.push(format!("{key}: {}", as_click(&error)))).ok()
    }

    /// The next word, which must be there: [`complete`](Self::complete) fails if not.
    pub(crate) fn mandatory<T: Value>(&mut self, key: &str) -> Option<T> {
        let before = self.wrong.len();
        let read = self.next(key);
        if read.is_none() && self.wrong.len() == before {
            self.wrong.push(format!("{key}: required argument missing"));
        }
        read
    }

    /// There are no more.
    pub(crate) fn complete(mut self) -> Result<(), Refused> {
        if self.words.next().is_some() {
            self.wrong.push("too many arguments".into());
        }
        if self.wrong.is_empty() { Ok(()) } else { Err(self.wrong.join("\n").into()) }
    }
}
