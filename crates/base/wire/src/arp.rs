//! Address resolution of IPv4 addresses on Ethernet (RFC 826). Other hardware and
//! other protocols are [`Error::Unsupported`].

use std::borrow::Borrow;
use std::net::Ipv4Addr;

use crate::ethernet::EtherType;
use crate::field::{array_at, set_array, set_u16, u16_at};
use crate::{Error, MacAddress, Result};

/// Bytes of a packet, all of it.
pub const LEN: usize = 28;

/// Bytes in front of the addresses.
pub const HEADER_LEN: usize = 8;
/// The hardware whose addresses are Ethernet's.
pub const ETHERNET: u16 = 1;

/// Ethernet, IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// What is asked or said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation(pub u16);

impl Operation {
    /// Who has the target's address?
    pub const REQUEST: Operation = Operation(1);
    /// The sender has.
    pub const REPLY: Operation = Operation(2);
    /// Which address does the target have? (RFC 903)
    pub const REVERSE_REQUEST: Operation = Operation(3);
    /// The target has the target's address (RFC 903).
    pub const REVERSE_REPLY: Operation = Operation(4);
    /// Which address does whoever is at the other end have? (RFC 2390)
    pub const INVERSE_REQUEST: Operation = Operation(8);
    /// The sender's address (RFC 2390).
    pub const INVERSE_REPLY: Operation = Operation(9);
}

/// Where the fields of a packet that is about IPv4 addresses on Ethernet are, in bytes.
pub mod offset {
    /// What is asked or said.
    pub const OPERATION: usize = 6;
    /// The sender's Ethernet address.
    pub const SENDER_MAC: usize = 8;
    /// The sender's IPv4 address.
    pub const SENDER_IP: usize = 14;
    /// The target's Ethernet address.
    pub const TARGET_MAC: usize = 18;
    /// The target's IPv4 address.
    pub const TARGET_IP: usize = 24;
}

header! {
    /// The start of a packet about addresses of any kind: what they are, and how long.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// What the hardware is: 1 is [`ETHERNET`].
    #[inline(always)]
    pub fn hardware(&self) -> u16 {
        self.get::<0, _>()
    }

    /// What the protocol is.
    #[inline(always)]
    pub fn protocol(&self) -> EtherType {
        self.get::<2, _>()
    }

    /// Bytes of a hardware address.
    #[inline(always)]
    pub fn hardware_len(&self) -> usize {
        self.get::<4, u8>().into()
    }

    /// Bytes of a protocol address.
    #[inline(always)]
    pub fn protocol_len(&self) -> usize {
        self.get::<5, u8>().into()
    }

    /// What is asked or said.
    #[inline(always)]
    pub fn operation(&self) -> Operation {
        Operation(self.get::<{ offset::OPERATION }, _>())
    }
}

view! {
    /// A packet in place.
    Packet
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    if bytes.len() < LEN {
        return Err(Error::Truncated);
    }
    if bytes[..KIND.len()] != KIND { Err(Error::Unsupported) } else { Ok(()) }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// What is asked or said.
    pub fn operation(&self) -> Operation {
        Operation(u16_at(self.as_ref(), offset::OPERATION))
    }

    /// The sender's Ethernet address.
    pub fn sender_mac(&self) -> MacAddress {
        MacAddress(array_at(self.as_ref(), offset::SENDER_MAC))
    }

    /// The sender's IPv4 address.
    pub fn sender_ip(&self) -> Ipv4Addr {
        array_at(self.as_ref(), offset::SENDER_IP).into()
    }

    /// The target's Ethernet address; in a request, anything.
    pub fn target_mac(&self) -> MacAddress {
        MacAddress(array_at(self.as_ref(), offset::TARGET_MAC))
    }

    /// The target's IPv4 address.
    pub fn target_ip(&self) -> Ipv4Addr {
        array_at(self.as_ref(), offset::TARGET_IP).into()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Says that this is about IPv4 addresses on Ethernet.
    pub fn set_kind(&mut self) {
        set_array(self.bytes.as_mut(), 0, KIND);
    }

    /// Sets what is asked or said.
    pub fn set_operation(&mut self, operation: Operation) {
        set_u16(self.bytes.as_mut(), offset::OPERATION, operation.0);
    }

    /// Sets the sender's addresses.
    pub fn set_sender(&mut self, mac: MacAddress, ip: Ipv4Addr) {
        set_array(self.bytes.as_mut(), offset::SENDER_MAC, mac.0);
        set_array(self.bytes.as_mut(), offset::SENDER_IP, ip.octets());
    }

    /// Sets the target's addresses.
    pub fn set_target(&mut self, mac: MacAddress, ip: Ipv4Addr) {
        set_array(self.bytes.as_mut(), offset::TARGET_MAC, mac.0);
        set_array(self.bytes.as_mut(), offset::TARGET_IP, ip.octets());
    }
}

/// What a packet means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// What is asked or said.
    pub operation: Operation,
    /// The sender's Ethernet address.
    pub sender_mac: MacAddress,
    /// The sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// The target's Ethernet address; in a request, anything.
    pub target_mac: MacAddress,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Reads a packet.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        Ok(Repr {
            operation: packet.operation(),
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        })
    }

    /// Bytes that [`Repr::emit`] writes.
    pub const fn len(&self) -> usize {
        LEN
    }

    /// Never: there is no empty packet.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the packet.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_kind();
        packet.set_operation(self.operation);
        packet.set_sender(self.sender_mac, self.sender_ip);
        packet.set_target(self.target_mac, self.target_ip);
    }

    /// The answer of whoever has `mac` and the target's address.
    pub fn reply(&self, mac: MacAddress) -> Repr {
        Repr {
            operation: Operation::REPLY,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }
}
