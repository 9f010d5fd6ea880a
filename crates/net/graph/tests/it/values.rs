//! Names of addresses that are written as addresses are.

use std::net::Ipv4Addr;

use graph::value::{Ethernet, NameKind, Names, Prefix4, Prefix6, Scope, Value};

/// A name stands for an address, and is not looked up again: one that stands for itself
/// has no end otherwise.
#[test]
fn a_name_that_is_written_as_its_address_is_found() {
    let mut names = Names::default();
    for (kind, name, value) in [
        (NameKind::Ethernet, "00-01-02-03-04-05", "00-01-02-03-04-05"),
        (NameKind::Ethernet, "a", "b"),
        (NameKind::Ethernet, "b", "a"),
        (NameKind::Ipv6Prefix, "::/0", "::/0"),
        (NameKind::Ipv4Prefix, "net", "net"),
        (NameKind::Ipv4Prefix, "home", "10.1.2.3/255.255.0.0"),
    ] {
        names.declare(kind, name.to_string(), value.to_string());
    }
    let scope = Scope { element: "e", names: &names };
    assert_eq!(Ethernet::parse("00-01-02-03-04-05", &scope), Ok(Ethernet([0, 1, 2, 3, 4, 5])));
    assert!(Ethernet::parse("a", &scope).is_err() && Prefix4::parse("net", &scope).is_err());
    assert_eq!(Prefix6::parse("::/0", &scope).map(|prefix| prefix.length), Ok(0));
    assert_eq!(Ipv4Addr::parse("home:bcast", &scope), Ok(Ipv4Addr::new(10, 1, 255, 255)));
    assert_eq!(Prefix4::parse("home:ipnet", &scope).map(|prefix| prefix.length()), Ok(Some(16)));
}
