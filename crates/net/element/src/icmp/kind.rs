//! Names of ICMP's types and codes.

use graph::value::unsigned;
use wire::names;

/// A type, by its number, which may be any, or its name.
pub(crate) fn number(text: &str) -> Option<u64> {
    unsigned(text).or_else(|| names::type_number(text).map(u64::from))
}

/// A code of a type, by its number or its name.
pub(crate) fn code(kind: u8, text: &str) -> Option<u8> {
    let number = unsigned(text).map(|code| u8::try_from(code).ok());
    number.unwrap_or_else(|| names::code_number(kind, text))
}
