//! Routes and commands as configurations and handlers write them, IPv4 and IPv6 alike:
//! `ADDR/LENGTH [GATEWAY] [OUTPUT]`.

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::value::{Prefix4, Prefix6, Scope, Value, unsigned};

/// A command to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Add,
    Set,
    Remove,
}

impl Command {
    /// The command of a word.
    pub(super) fn named(word: &str) -> Option<Command> {
        match word {
            "add" => Some(Command::Add),
            "set" => Some(Command::Set),
            "remove" => Some(Command::Remove),
            _ => None,
        }
    }
}

/// A family's way to write prefixes and addresses.
pub(super) trait Written: Default {
    /// A prefix's first bits, and how many they are.
    fn prefix(word: &str, scope: &Scope<'_>) -> Result<(Self, u8), String>;

    /// An address; `None` for what is none.
    fn address(word: &str, scope: &Scope<'_>) -> Option<Self>;

    /// An output's number, which may be that of no output; `None` for what is none. A sign
    /// is read in IPv4's routes only, as in Click.
    fn number(word: &str, scope: &Scope<'_>) -> Option<i64>;
}

impl Written for u32 {
    fn prefix(word: &str, scope: &Scope<'_>) -> Result<(u32, u8), String> {
        let prefix = Prefix4::parse(word, scope)?;
        let len = prefix.length().ok_or("the mask is that of no prefix")?;
        Ok((prefix.address.to_bits() & prefix.mask.to_bits(), len))
    }

    fn address(word: &str, scope: &Scope<'_>) -> Option<u32> {
        Ipv4Addr::parse(word, scope).ok().map(Ipv4Addr::to_bits)
    }

    fn number(word: &str, scope: &Scope<'_>) -> Option<i64> {
        i64::parse(word, scope).ok()
    }
}

impl Written for u128 {
    fn prefix(word: &str, scope: &Scope<'_>) -> Result<(u128, u8), String> {
        let prefix = Prefix6::parse(word, scope)?;
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0);
        Ok((prefix.address.to_bits() & mask, prefix.length))
    }

    fn address(word: &str, scope: &Scope<'_>) -> Option<u128> {
        Ipv6Addr::parse(word, scope).ok().map(Ipv6Addr::to_bits)
    }

    fn number(word: &str, _: &Scope<'_>) -> Option<i64> {
        unsigned(word).map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// What is written of a route.
pub(super) struct RouteText<A> {
    /// The prefix's first bits, and how many they are.
    pub rule: (A, u8),
    /// The next hop's address; zero where there is none, or `-`.
    pub gateway: A,
    /// The output, which may be left out where a route is only named.
    pub port: Option<i64>,
}

impl<A: Written> RouteText<A> {
    /// Reads a route; `None` for what is none.
    pub(super) fn parse(text: &str, scope: &Scope<'_>) -> Option<RouteText<A>> {
        let mut words = text.split_whitespace();
        let rule = A::prefix(words.next()?, scope).ok()?;
        let mut word = words.next();
        let gateway = match word {
            Some("-") => Some(A::default()),
            Some(text) => A::address(text, scope),
            None => None,
        };
        if gateway.is_some() {
            word = words.next();
        }
        let port = match word {
            Some(text) => Some(A::number(text, scope)?),
            None => None,
        };
        words.next().is_none().then_some(RouteText { rule, gateway: gateway.unwrap_or_default(), port })
    }
}

/// A number as one of so many outputs.
pub(super) fn output(port: i64, outputs: usize) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| usize::from(*port) < outputs)
}
