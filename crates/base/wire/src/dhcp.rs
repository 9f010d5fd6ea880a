//! DHCP for IPv4 (RFC 2131) and the options of RFC 2132 that a host asks for: what a client
//! sends, and what a server answers. An option longer than 255 bytes, which RFC 3396 cuts into
//! several, is none of those that are read here: of options with one code the first counts.

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv4Addr;

use crate::field::set_slice;
use crate::{Error, MacAddress, Result};

/// Bytes of a message in front of its options, the magic cookie among them.
pub const HEADER_LEN: usize = 240;
/// Bytes of a message that a client sends: the least that relays of BOOTP forward (RFC 1542,
/// section 2.1).
pub const MESSAGE_LEN: usize = 300;
/// The UDP port of servers.
pub const SERVER_PORT: u16 = 67;
/// The UDP port of clients.
pub const CLIENT_PORT: u16 = 68;
/// What stands in front of the options (RFC 2131, section 3).
pub const COOKIE: u32 = 0x6382_5363;
/// The time of a lease that does not end (RFC 2131, section 3.3).
pub const INFINITE: u32 = u32::MAX;

/// A client's message.
const REQUEST: u8 = 1;
/// A server's message.
const REPLY: u8 = 2;
/// Ethernet as the hardware, and the bytes of its addresses.
const HARDWARE: [u8; 2] = [1, 6];

/// What a message is for (RFC 2132, section 9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageType(pub u8);

impl MessageType {
    /// Which servers are there?
    pub const DISCOVER: MessageType = MessageType(1);
    /// A server offers an address.
    pub const OFFER: MessageType = MessageType(2);
    /// A client asks for an address, or for more time.
    pub const REQUEST: MessageType = MessageType(3);
    /// A client found that somebody else has the address.
    pub const DECLINE: MessageType = MessageType(4);
    /// A client may have the address.
    pub const ACK: MessageType = MessageType(5);
    /// A client may not have the address.
    pub const NAK: MessageType = MessageType(6);
    /// A client needs the address no more.
    pub const RELEASE: MessageType = MessageType(7);
    /// A client has an address and asks for the rest.
    pub const INFORM: MessageType = MessageType(8);
}

/// Codes of options (RFC 2132).
pub mod option {
    /// One byte without a length, which says nothing.
    pub const PAD: u8 = 0;
    /// The mask of the subnet.
    pub const SUBNET_MASK: u8 = 1;
    /// The gateways, the preferred first.
    pub const ROUTER: u8 = 3;
    /// The longest IP packet of the link.
    pub const MTU: u8 = 26;
    /// The address that a client asks for.
    pub const REQUESTED_ADDRESS: u8 = 50;
    /// The time of the lease in seconds.
    pub const LEASE_TIME: u8 = 51;
    /// The fields for a file's and a server's name have options.
    pub const OVERLOAD: u8 = 52;
    /// What the message is for.
    pub const MESSAGE_TYPE: u8 = 53;
    /// The server that a message is of or to: its address.
    pub const SERVER: u8 = 54;
    /// The options that a client asks for.
    pub const PARAMETERS: u8 = 55;
    /// The longest message that a client takes.
    pub const LONGEST: u8 = 57;
    /// Seconds after which a client asks its server for more time.
    pub const RENEWAL: u8 = 58;
    /// Seconds after which a client asks all servers for more time.
    pub const REBINDING: u8 = 59;
    /// What a client names itself by, instead of its hardware address.
    pub const CLIENT: u8 = 61;
    /// There are no options behind this one.
    pub const END: u8 = 255;
}

/// Where the fields are, in bytes.
pub mod offset {
    /// From a client or from a server.
    pub const OPERATION: usize = 0;
    /// What the hardware is, and the bytes of its addresses.
    pub const HARDWARE: usize = 1;
    /// Which exchange of messages this one is of.
    pub const EXCHANGE: usize = 4;
    /// Seconds since the client began.
    pub const SECONDS: usize = 8;
    /// The address of the client, once it uses it.
    pub const CLIENT_ADDRESS: usize = 12;
    /// The address that the client is given.
    pub const YOUR_ADDRESS: usize = 16;
    /// The client's Ethernet address.
    pub const CLIENT_MAC: usize = 28;
    /// The server's name, 64 bytes.
    pub const SERVER_NAME: usize = 44;
    /// The name of a file to start from, 128 bytes.
    pub const FILE: usize = 108;
    /// The magic cookie.
    pub const COOKIE: usize = 236;
}

header! {
    /// A message in front of its options.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// Whether a server has sent it.
    pub fn is_reply(&self) -> bool {
        self.get::<{ offset::OPERATION }, u8>() == REPLY
    }

    /// Whether it is about a client on an Ethernet.
    pub fn is_ethernet(&self) -> bool {
        self.get::<{ offset::HARDWARE }, [u8; 2]>() == HARDWARE
    }

    /// Which exchange of messages this one is of.
    pub fn exchange(&self) -> u32 {
        self.get::<{ offset::EXCHANGE }, _>()
    }

    /// The address that the client is given.
    pub fn your_address(&self) -> Ipv4Addr {
        self.get::<{ offset::YOUR_ADDRESS }, _>()
    }

    /// The client's Ethernet address.
    pub fn client_mac(&self) -> MacAddress {
        self.get::<{ offset::CLIENT_MAC }, _>()
    }

    /// What stands in front of the options: [`COOKIE`], or it is no DHCP.
    pub fn cookie(&self) -> u32 {
        self.get::<{ offset::COOKIE }, _>()
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Says whether this is from a server or from a client, on an Ethernet.
    pub fn set_kind(&mut self, is_reply: bool) {
        self.set::<{ offset::OPERATION }, u8>(if is_reply { REPLY } else { REQUEST });
        self.set::<{ offset::HARDWARE }, _>(HARDWARE);
        self.set::<{ offset::COOKIE }, _>(COOKIE);
    }

    /// Sets which exchange of messages this one is of.
    pub fn set_exchange(&mut self, exchange: u32) {
        self.set::<{ offset::EXCHANGE }, _>(exchange);
    }

    /// Sets the seconds since the client began.
    pub fn set_seconds(&mut self, seconds: u16) {
        self.set::<{ offset::SECONDS }, _>(seconds);
    }

    /// Sets the address of the client, once it uses it.
    pub fn set_client_address(&mut self, address: Ipv4Addr) {
        self.set::<{ offset::CLIENT_ADDRESS }, _>(address);
    }

    /// Sets the address that the client is given.
    pub fn set_your_address(&mut self, address: Ipv4Addr) {
        self.set::<{ offset::YOUR_ADDRESS }, _>(address);
    }

    /// Sets the client's Ethernet address.
    pub fn set_client_mac(&mut self, mac: MacAddress) {
        self.set::<{ offset::CLIENT_MAC }, _>(mac);
    }
}

/// Options in a row: their codes and their bytes. Those behind one that is cut short are not
/// looked at.
#[derive(Debug, Clone)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// The options in a field.
    pub const fn new(field: &'a [u8]) -> Options<'a> {
        Options(field)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        loop {
            match *self.0 {
                [option::PAD, ref rest @ ..] => self.0 = rest,
                [option::END, ..] => self.0 = &[],
                [code, len, ref rest @ ..] => {
                    let (value, rest) = rest.split_at_checked(len.into())?;
                    self.0 = rest;
                    return Some((code, value));
                }
                _ => return None,
            }
        }
    }
}

/// What a server's message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// What it is for.
    pub message_type: MessageType,
    /// Which exchange of messages it is of.
    pub exchange: u32,
    /// The client's Ethernet address.
    pub client_mac: MacAddress,
    /// The address that the client is given.
    pub address: Ipv4Addr,
    /// The address by which the server names itself (option 54).
    pub server: Option<Ipv4Addr>,
    /// The mask of the subnet.
    pub mask: Option<Ipv4Addr>,
    /// The preferred gateway.
    pub router: Option<Ipv4Addr>,
    /// The longest IP packet of the link.
    pub mtu: Option<u16>,
    /// The time of the lease in seconds.
    pub lease_s: Option<u32>,
    /// Seconds after which the client asks its server for more time.
    pub renewal_s: Option<u32>,
    /// Seconds after which the client asks all servers for more time.
    pub rebinding_s: Option<u32>,
}

impl Reply {
    /// Reads a message, the payload of a datagram.
    ///
    /// # Errors
    /// When it is cut short, or no message of a server to a client on an Ethernet.
    pub fn parse(message: &[u8]) -> Result<Reply> {
        let (fixed, options) = message.split_first_chunk().ok_or(Error::Truncated)?;
        let header = Header::new(fixed);
        if !header.is_reply() || header.cookie() != COOKIE {
            return Err(Error::Malformed);
        }
        if !header.is_ethernet() {
            return Err(Error::Unsupported);
        }
        let mut reply = Reply {
            message_type: MessageType(0),
            exchange: header.exchange(),
            client_mac: header.client_mac(),
            address: header.your_address(),
            server: None,
            mask: None,
            router: None,
            mtu: None,
            lease_s: None,
            renewal_s: None,
            rebinding_s: None,
        };
        let overload = reply.take(options);
        // The file's field is read before the server's name (RFC 2131, section 4.1).
        if overload & 1 != 0 {
            reply.take(&fixed[offset::FILE..offset::COOKIE]);
        }
        if overload & 2 != 0 {
            reply.take(&fixed[offset::SERVER_NAME..offset::FILE]);
        }
        if reply.message_type == MessageType(0) { Err(Error::Malformed) } else { Ok(reply) }
    }

    /// Takes the options in a field; which other fields have some.
    fn take(&mut self, field: &[u8]) -> u8 {
        let mut overload = 0;
        for (code, value) in Options::new(field) {
            let word = || value.first_chunk().copied().map(u32::from_be_bytes);
            let address = || word().map(Ipv4Addr::from);
            match (code, value) {
                (option::MESSAGE_TYPE, [message_type]) => self.message_type = MessageType(*message_type),
                (option::OVERLOAD, [fields]) => overload = *fields,
                (option::MTU, [high, low]) => {
                    self.mtu.get_or_insert(u16::from_be_bytes([*high, *low]));
                }
                (option::SERVER, _) => self.server = self.server.or_else(address),
                (option::SUBNET_MASK, _) => self.mask = self.mask.or_else(address),
                (option::ROUTER, _) => self.router = self.router.or_else(address),
                (option::LEASE_TIME, _) => self.lease_s = self.lease_s.or_else(word),
                (option::RENEWAL, _) => self.renewal_s = self.renewal_s.or_else(word),
                (option::REBINDING, _) => self.rebinding_s = self.rebinding_s.or_else(word),
                _ => {}
            }
        }
        overload
    }
}

/// What a client's message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What it is for.
    pub message_type: MessageType,
    /// Which exchange of messages it is of.
    pub exchange: u32,
    /// Seconds since the client began.
    pub seconds: u16,
    /// The client's Ethernet address.
    pub client_mac: MacAddress,
    /// The client's address while it uses one, else the unspecified address.
    pub client_address: Ipv4Addr,
    /// The address that it asks for.
    pub requested: Option<Ipv4Addr>,
    /// The server that it means.
    pub server: Option<Ipv4Addr>,
}

/// What a client wants to be told.
const WANTED: [u8; 6] = [
    option::SUBNET_MASK,
    option::ROUTER,
    option::MTU,
    option::LEASE_TIME,
    option::RENEWAL,
    option::REBINDING,
];
/// The longest message that a client takes, without the headers of IP and UDP.
const LONGEST: u16 = 1472;

impl Request {
    /// The message, the payload of a datagram.
    pub fn message(&self) -> [u8; MESSAGE_LEN] {
        let mut bytes = [0; MESSAGE_LEN];
        if let Some(mut header) = Header::of_mut(&mut bytes) {
            header.set_kind(false);
            header.set_exchange(self.exchange);
            header.set_seconds(self.seconds);
            header.set_client_address(self.client_address);
            header.set_client_mac(self.client_mac);
        }
        let mut at = HEADER_LEN;
        let mut put = |code: u8, parts: [&[u8]; 2]| {
            let len = parts[0].len() + parts[1].len();
            set_slice(&mut bytes, at, &[code, len as u8]);
            set_slice(&mut bytes, at + 2, parts[0]);
            set_slice(&mut bytes, at + 2 + parts[0].len(), parts[1]);
            at += 2 + len;
        };
        put(option::MESSAGE_TYPE, [&[self.message_type.0], &[]]);
        // The hardware and its address (RFC 2132, section 9.14).
        put(option::CLIENT, [&HARDWARE[..1], &self.client_mac.0]);
        if let Some(requested) = self.requested {
            put(option::REQUESTED_ADDRESS, [&requested.octets(), &[]]);
        }
        if let Some(server) = self.server {
            put(option::SERVER, [&server.octets(), &[]]);
        }
        // Who declines an address asks for nothing (RFC 2131, section 4.4.1, table 5).
        if self.message_type != MessageType::DECLINE {
            put(option::LONGEST, [&LONGEST.to_be_bytes(), &[]]);
            put(option::PARAMETERS, [&WANTED, &[]]);
        }
        set_slice(&mut bytes, at, &[option::END]);
        bytes
    }
}
