//! What an IPv4 header means: the view of RFC 791's header that is no longer bytes. Reading checks
//! lengths and checksum; writing makes a header without options.

use std::borrow::BorrowMut;
use std::net::Ipv4Addr;

use super::{HEADER_LEN, Header, Packet};
use crate::ip::{LONGEST, Protocol};
use crate::{Error, Result};

/// What an IPv4 header means, options left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// The source address.
    pub src: Ipv4Addr,
    /// The destination address.
    pub dst: Ipv4Addr,
    /// What the payload is.
    pub protocol: Protocol,
    /// Time to live: how many hops the packet may still take.
    pub ttl: u8,
    /// DSCP in the upper six bits, ECN below.
    pub traffic_class: u8,
    /// Which packet a fragment belongs to.
    pub identification: u16,
    /// Whether routers must not fragment.
    pub dont_fragment: bool,
    /// Whether this is a fragment, and not the last.
    pub more_fragments: bool,
    /// Where this fragment starts, in bytes: a multiple of 8.
    pub fragment_offset: u16,
    /// Bytes of the payload, at most 65,515.
    pub payload_len: usize,
}

impl Repr {
    /// The header of a whole packet that is like any other: 64 hops, no flags.
    pub const fn between(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, payload_len: usize) -> Repr {
        Repr {
            src,
            dst,
            protocol,
            ttl: 64,
            traffic_class: 0,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            payload_len,
        }
    }

    /// Reads the header, which must have the right checksum.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        if !packet.verify_checksum() {
            return Err(Error::Checksum);
        }
        Ok(Repr {
            src: packet.src(),
            dst: packet.dst(),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            traffic_class: packet.traffic_class(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            payload_len: packet.total_len() - packet.header_len(),
        })
    }

    /// Bytes that [`Repr::emit`] writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header and its checksum over an array. A length that 16 bits do not hold is the
    /// largest that they do: it does not begin anew at zero.
    #[inline(always)]
    pub fn write<T: BorrowMut<[u8; HEADER_LEN]>>(&self, header: &mut Header<T>) {
        header.set_header_len(HEADER_LEN);
        header.set_traffic_class(self.traffic_class);
        header.set_total_len((HEADER_LEN + self.payload_len.min(LONGEST - HEADER_LEN)) as u16);
        header.set_identification(self.identification);
        header.set_fragment(self.dont_fragment, self.more_fragments, self.fragment_offset);
        header.set_ttl(self.ttl);
        header.set_protocol(self.protocol);
        header.set_src(self.src);
        header.set_dst(self.dst);
        header.fill_checksum();
    }

    /// The header with its checksum as bytes, its total length and identification zero: to
    /// be copied in front of packets and completed there ([`Header::complete`]).
    pub fn template(&self) -> Header<[u8; HEADER_LEN]> {
        let mut header = Header::zeroed();
        Repr { identification: 0, payload_len: 0, ..*self }.write(&mut header);
        header.update_total_len(0);
        header
    }

    /// Writes the header and its checksum.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        self.write(&mut packet.header_mut());
    }
}
