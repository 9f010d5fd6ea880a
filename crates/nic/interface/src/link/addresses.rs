//! The addresses of all interfaces, as the kernel tells them at one time.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::attribute;
use super::netlink::{ADDRESS_LEN, Attributes, LINK_INDEX, LINK_LEN, Message, Netlink, ROUTE_LEN};

/// `ARPHRD_ETHER` (linux/if_arp.h), and where an `ifinfomsg` has it.
const ETHERNET: u16 = 1;
const LINK_TYPE: usize = 2;
/// Attributes of an address (linux/if_addr.h): of a point-to-point link the first is the
/// other end's.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Attributes of a route (linux/rtnetlink.h).
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// Where an `ifaddrmsg` has the length of the prefix, the scope and the interface.
const PREFIX_LEN: usize = 1;
const SCOPE: usize = 3;
const ADDRESS_INDEX: usize = 4;
/// Where an `rtmsg` has the length of the destination.
const DESTINATION_LEN: usize = 1;

/// What an interface is called and has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// The interface's name.
    pub name: String,
    index: u32,
    /// Its Ethernet address, if it is one of Ethernet's.
    pub ethernet: Option<[u8; 6]>,
    /// Its IPv4 addresses, each with the length of its prefix.
    pub ipv4: Vec<(Ipv4Addr, u8)>,
    /// Its IPv6 addresses, those of the widest scope first.
    pub ipv6: Vec<(Ipv6Addr, u8)>,
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// A link's name and Ethernet address.
fn link(message: &[u8]) -> Option<Addresses> {
    let (head, rest) = message.split_at_checked(LINK_LEN)?;
    let is_ethernet = u16::from_ne_bytes([head[LINK_TYPE], head[LINK_TYPE + 1]]) == ETHERNET;
    let mut found = Addresses { index: word(&head[LINK_INDEX..])?, ..Addresses::default() };
    for (kind, value) in Attributes(rest) {
        match kind {
            attribute::NAME => found.name = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
            attribute::ADDRESS if is_ethernet => found.ethernet = value.try_into().ok(),
            _ => {}
        }
    }
    Some(found)
}

/// Adds an address to the interface that has it.
fn add(all: &mut [Addresses], scopes: &mut Vec<(u32, u8)>, message: &[u8]) -> Option<()> {
    let (head, rest) = message.split_at_checked(ADDRESS_LEN)?;
    let (bits, scope, index) = (head[PREFIX_LEN], head[SCOPE], word(&head[ADDRESS_INDEX..])?);
    let attribute = |wanted| Attributes(rest).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let address = attribute(IFA_LOCAL).or_else(|| attribute(IFA_ADDRESS))?;
    let interface = all.iter_mut().find(|interface| interface.index == index)?;
    if let Ok(address) = <[u8; 4]>::try_from(address) {
        interface.ipv4.push((Ipv4Addr::from(address), bits));
    } else if let Ok(address) = <[u8; 16]>::try_from(address) {
        let before = scopes.iter().filter(|(of, wider)| *of == index && *wider <= scope).count();
        interface.ipv6.insert(before, (Ipv6Addr::from(address), bits));
        scopes.push((index, scope));
    }
    Some(())
}

/// All interfaces of this network namespace, and what they have.
///
/// # Errors
/// When the kernel does not tell.
pub fn addresses() -> io::Result<Vec<Addresses>> {
    let netlink = Netlink::open()?;
    let (mut all, mut scopes) = (vec![], vec![]);
    netlink.dump(Message::all_links(), |message| all.extend(link(message)))?;
    netlink.dump(Message::all_addresses(), |message| {
        let _nobodys = add(&mut all, &mut scopes, message);
    })?;
    Ok(all)
}

/// The router that the default route through an interface leads to.
///
/// # Errors
/// When the kernel does not tell.
pub fn gateway(interface: &str) -> io::Result<Option<Ipv4Addr>> {
    let netlink = Netlink::open()?;
    let mut index = None;
    netlink.dump(Message::all_links(), |message| {
        index = index.or(link(message).filter(|link| link.name == interface).map(|link| link.index));
    })?;
    let mut found = None;
    netlink.dump(Message::all_routes(), |message| {
        let Some((head, rest)) = message.split_at_checked(ROUTE_LEN) else { return };
        let attribute = |wanted| Attributes(rest).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        let through = attribute(RTA_OIF).and_then(word);
        let next = attribute(RTA_GATEWAY).and_then(|value| <[u8; 4]>::try_from(value).ok());
        if head[DESTINATION_LEN] == 0 && through.is_some() && through == index {
            found = found.or(next.map(Ipv4Addr::from));
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_address() {
        let all = addresses().expect("the kernel tells");
        let lo = all.iter().find(|interface| interface.name == "lo").expect("it is in every namespace");
        assert_eq!(lo.ethernet, None, "it is none of Ethernet's");
        // In a namespace of its own it may be down.
        assert!(lo.ipv4.is_empty() || lo.ipv4[0] == (Ipv4Addr::LOCALHOST, 8), "{lo:?}");
        assert_eq!(gateway("lo").expect("the kernel tells"), None);
    }

    #[test]
    fn messages_that_are_cut_are_nobodys() {
        let mut all = vec![Addresses { index: 1, ..Addresses::default() }];
        for len in 0..16 {
            let message = [2, 8, 0, 0, 1, 0, 0, 0, 8, 0, 1, 0, 127, 0, 0, 1];
            assert_eq!(add(&mut all, &mut vec![], &message[..len]), None);
            assert_eq!(link(&message[..len]), None);
        }
        assert!(all[0].ipv4.is_empty());
    }
}
