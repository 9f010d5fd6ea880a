//! Messages of rtnetlink (rtnetlink(7), linux/netlink.h, linux/rtnetlink.h) as the kernel
//! sends them on its socket and FRR in its stream: framing, attributes, and the four families
//! of objects that overlays follow. Links, neighbours with the forwarding database of bridges,
//! routes and nexthop objects are read; all else is [`Body::Other`].
//!
//! Numbers are in the machine's byte order unless an attribute says otherwise. Whatever the
//! bytes are, reading ends with a message or a [`Malformed`]: the sender may be anybody who
//! reaches the stream's port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::MacAddress;

pub mod link;
pub mod neighbor;
pub mod nexthop;
pub mod route;
pub mod write;

use link::Link;
use neighbor::Neighbor;
use nexthop::Nexthop;
use route::Route;

/// `NLMSG_ERROR`, `NLMSG_DONE` and `NLMSG_OVERRUN`.
pub const ERROR: u16 = 2;
/// The last message of a dump.
pub const DONE: u16 = 3;
/// The sender lost messages.
pub const OVERRUN: u16 = 4;
/// `RTM_DELADDR`: an address of this machine's is gone.
pub const DEL_ADDRESS: u16 = 21;
/// `NLM_F_REQUEST`: somebody asks.
pub const IS_REQUEST: u16 = 0x1;
/// `NLM_F_MULTI`: one of a dump's messages.
pub const IS_MULTI: u16 = 0x2;
/// `NLM_F_DUMP_INTR`: the table changed while it was dumped.
pub const IS_INTERRUPTED: u16 = 0x10;
/// `NLM_F_DUMP`: all objects are asked for.
pub const IS_DUMP: u16 = 0x300;
/// `NLM_F_REPLACE`: the object stands in the place of the first of its key.
pub const IS_REPLACED: u16 = 0x100;
/// `NLM_F_APPEND`: the object stands beside others of its key.
pub const IS_APPENDED: u16 = 0x800;

/// `AF_BRIDGE`: messages about a bridge's forwarding database.
pub const FAMILY_BRIDGE: u8 = 7;
/// `AF_INET`: messages about IPv4.
pub const FAMILY_V4: u8 = 2;
/// `AF_INET6`: messages about IPv6.
pub const FAMILY_V6: u8 = 10;

const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const NEW_ROUTE: u16 = 24;
const DEL_ROUTE: u16 = 25;
const NEW_NEIGHBOR: u16 = 28;
const DEL_NEIGHBOR: u16 = 29;
const NEW_NEXTHOP: u16 = 104;
const DEL_NEXTHOP: u16 = 105;

/// A message's header, its length left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the message is.
    pub kind: u16,
    /// Bits of `NLM_F_*`.
    pub flags: u16,
    /// The number of the request that is answered; 0 in what nobody asked for.
    pub sequence: u32,
    /// The socket whose request is answered.
    pub port: u32,
}

/// What is wrong with bytes that should be a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// A message's header is cut off, or gives a length that cannot be.
    Header,
    /// What follows a message's header is too short for its kind.
    Body,
    /// An attribute's header is cut off, or gives a length that cannot be.
    Attribute,
    /// The value of the attribute of this number has the wrong length.
    Value(u16),
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A network device is there, or changed.
    NewLink(Link),
    /// A network device is gone.
    DelLink(Link),
    /// A neighbour, or an entry of a forwarding database, is there or changed.
    NewNeighbor(Neighbor),
    /// A neighbour, or an entry of a forwarding database, is gone.
    DelNeighbor(Neighbor),
    /// A route is there, or changed.
    NewRoute(Route),
    /// A route is gone.
    DelRoute(Route),
    /// A nexthop object is there, or changed.
    NewNexthop(Nexthop),
    /// A nexthop object is gone.
    DelNexthop(Nexthop),
    /// The dump that was asked for is complete.
    Done,
    /// A request failed, with the error's number, or was done, with 0.
    Error(i32),
    /// The sender lost messages.
    Overrun,
    /// A message of no interest.
    Other,
}

/// The messages in a buffer, one after the other.
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// The messages in these bytes.
    pub fn new(bytes: &'a [u8]) -> Messages<'a> {
        Messages { rest: bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<(Header, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = message(self.rest);
        // Behind a length that cannot be nothing is known to be a message.
        self.rest = message.map_or(&[], |(_, _, rest)| rest);
        Some(message.map(|(header, body, _)| (header, body)).ok_or(Malformed::Header))
    }
}

/// The first message, and what follows it.
fn message(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let mut cursor = Cursor(bytes);
    let length = usize::try_from(cursor.u32()?).ok()?;
    let (kind, flags) = (cursor.u16()?, cursor.u16()?);
    let header = Header { kind, flags, sequence: cursor.u32()?, port: cursor.u32()? };
    let used = bytes.len() - cursor.0.len();
    let body = cursor.take(length.checked_sub(used)?)?;
    // The last message need not be filled up to the boundary.
    let rest = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
    Some((header, body, rest))
}

/// Messages and attributes begin at multiples of this.
const ALIGNMENT: usize = 4;

/// What a message says.
///
/// # Errors
/// When its bytes are not what its kind asks for.
pub fn parse(header: &Header, body: &[u8]) -> Result<Body, Malformed> {
    let mut cursor = Cursor(body);
    Ok(match header.kind {
        NEW_LINK => Body::NewLink(Link::parse(body)?),
        DEL_LINK => Body::DelLink(Link::parse(body)?),
        NEW_NEIGHBOR => Body::NewNeighbor(Neighbor::parse(body)?),
        DEL_NEIGHBOR => Body::DelNeighbor(Neighbor::parse(body)?),
        NEW_ROUTE => Body::NewRoute(Route::parse(body)?),
        DEL_ROUTE => Body::DelRoute(Route::parse(body)?),
        NEW_NEXTHOP => Body::NewNexthop(Nexthop::parse(body)?),
        DEL_NEXTHOP => Body::DelNexthop(Nexthop::parse(body)?),
        // A dump that failed half-way ends with the error's number in place of none.
        DONE => match cursor.u32().map_or(0, u32::cast_signed) {
            0 => Body::Done,
            error => Body::Error(error),
        },
        ERROR => Body::Error(cursor.u32().ok_or(Malformed::Body)?.cast_signed()),
        OVERRUN => Body::Overrun,
        _ => Body::Other,
    })
}

/// Bytes that are taken from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_ne_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u16_be(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }
}

/// An attribute: its number without the flags for nesting and byte order, and its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attribute<'a> {
    pub(crate) kind: u16,
    pub(crate) value: &'a [u8],
}

/// The attributes in a buffer (`struct nlattr`), one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let found = attribute(self.0);
        self.0 = found.map_or(&[], |(_, rest)| rest);
        Some(found.map(|(attribute, _)| attribute).ok_or(Malformed::Attribute))
    }
}

fn attribute(bytes: &[u8]) -> Option<(Attribute<'_>, &[u8])> {
    /// `NLA_TYPE_MASK`: the bits of an attribute's type that tell its kind.
    const KIND: u16 = 0x3FFF;
    let mut cursor = Cursor(bytes);
    let length = usize::from(cursor.u16()?);
    let kind = cursor.u16()? & KIND;
    let value = cursor.take(length.checked_sub(bytes.len() - cursor.0.len())?)?;
    let rest = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
    Some((Attribute { kind, value }, rest))
}

impl<'a> Attribute<'a> {
    /// The value as a number, text or address, which all of it must be.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&mut Cursor<'a>) -> Option<T>) -> Result<T, Malformed> {
        let mut cursor = Cursor(self.value);
        let value = read(&mut cursor).filter(|_| cursor.0.is_empty());
        value.ok_or(Malformed::Value(self.kind))
    }

    pub(crate) fn u8(&self) -> Result<u8, Malformed> {
        self.read(Cursor::u8)
    }

    pub(crate) fn u16(&self) -> Result<u16, Malformed> {
        self.read(Cursor::u16)
    }

    pub(crate) fn u16_be(&self) -> Result<u16, Malformed> {
        self.read(Cursor::u16_be)
    }

    pub(crate) fn u32(&self) -> Result<u32, Malformed> {
        self.read(Cursor::u32)
    }

    /// The attributes nested in this one.
    pub(crate) fn nested(&self) -> Attributes<'a> {
        Attributes(self.value)
    }

    /// An IPv4 or IPv6 address, by its length.
    pub(crate) fn address(&self) -> Result<IpAddr, Malformed> {
        address(self.value).ok_or(Malformed::Value(self.kind))
    }

    /// An Ethernet address; none when the device has addresses of another length.
    pub(crate) fn mac(&self) -> Option<MacAddress> {
        self.value.try_into().ok().map(MacAddress)
    }

    /// A text that ends with a zero byte, or with the attribute.
    pub(crate) fn text(&self) -> String {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        String::from_utf8_lossy(&self.value[..end]).into_owned()
    }
}

pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|octets| Ipv6Addr::from(octets).into())
}

#[cfg(test)]
mod tests;
