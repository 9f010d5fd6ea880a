//! GRE (RFC 2784, with the key and the sequence number of RFC 2890): an EtherType says what
//! is carried, flags which optional words stand in front of it. NVGRE (RFC 7637) is GRE with
//! a key whose upper 24 bits are a virtual network's number. The routing of RFC 1701 is
//! refused, as RFC 2784 asks for.

use std::borrow::{Borrow, BorrowMut};

use super::{upper_24, with_upper_24};
use crate::ethernet::EtherType;
use crate::field::{set_array, set_u16, u16_at, u32_at};
use crate::{Error, Result, checksum};

/// Bytes of the header without optional words.
pub const HEADER_LEN: usize = 4;
/// Bytes of one optional word.
pub const WORD_LEN: usize = 4;

/// The flags of the header.
pub mod flag {
    /// C: the first optional word is a checksum over header and payload.
    pub const CHECKSUM: u16 = 1 << 15;
    /// K: the next optional word is a key.
    pub const KEY: u16 = 1 << 13;
    /// S: the next optional word is a sequence number.
    pub const SEQUENCE: u16 = 1 << 12;
    /// The bits that a receiver must not ignore (RFC 2784, section 2.3, without K and S).
    pub const REFUSED: u16 = 0x4C00;
    /// The version, which is 0.
    pub const VERSION: u16 = 7;
}

header! {
    /// The header without its optional words.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// Flags and version as one word: see [`flag`].
    #[inline(always)]
    pub fn flags(&self) -> u16 {
        self.get::<0, _>()
    }

    /// What is carried.
    #[inline(always)]
    pub fn protocol(&self) -> EtherType {
        self.get::<2, _>()
    }

    /// Bytes of the header with the optional words that its flags announce.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + words(self.flags()) * WORD_LEN
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets flags and version.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: u16) {
        self.set::<0, _>(flags);
    }

    /// Sets what is carried.
    #[inline(always)]
    pub fn set_protocol(&mut self, protocol: EtherType) {
        self.set::<2, _>(protocol);
    }
}

/// How many optional words these flags announce.
const fn words(flags: u16) -> usize {
    (flags & flag::CHECKSUM != 0) as usize
        + (flags & flag::KEY != 0) as usize
        + (flags & flag::SEQUENCE != 0) as usize
}

view! {
    /// A header with its optional words, and the payload behind it.
    Packet
}

#[inline]
fn check_bytes(bytes: &[u8]) -> Result<()> {
    let Some(header) = Header::of(bytes) else { return Err(Error::Truncated) };
    if header.flags() & (flag::VERSION | flag::REFUSED) != 0 {
        return Err(Error::Unsupported);
    }
    if bytes.len() < header.header_len() { Err(Error::Truncated) } else { Ok(()) }
}

forward! {
    Packet to Header[HEADER_LEN]:
    flags -> u16, protocol -> EtherType, header_len -> usize;
    set_protocol(EtherType)
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Where the optional word of this flag stands; `None` where there is none.
    fn word(&self, flag: u16) -> Option<usize> {
        let flags = self.flags();
        // The words stand in the order of their flags, the highest bit's first.
        let before = flags & !(flag | (flag - 1));
        (flags & flag != 0).then(|| HEADER_LEN + words(before) * WORD_LEN)
    }

    /// The key that tells flows or tenants apart (RFC 2890), if the header has one.
    pub fn key(&self) -> Option<u32> {
        self.word(flag::KEY).map(|at| u32_at(self.as_ref(), at))
    }

    /// The sequence number.
    pub fn sequence(&self) -> Option<u32> {
        self.word(flag::SEQUENCE).map(|at| u32_at(self.as_ref(), at))
    }

    /// The checksum as it stands.
    pub fn checksum(&self) -> Option<u16> {
        self.word(flag::CHECKSUM).map(|at| u16_at(self.as_ref(), at))
    }

    /// Whether the checksum over all of these bytes is right, or there is none.
    pub fn verify_checksum(&self) -> bool {
        self.checksum().is_none() || checksum::verify(self.as_ref())
    }

    /// What is carried.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the sequence number, where there is one.
    pub fn set_sequence(&mut self, number: u32) {
        if let Some(at) = self.word(flag::SEQUENCE) {
            set_array(self.bytes.as_mut(), at, number.to_be_bytes());
        }
    }

    /// Sets the checksum, where there is one, and its reserved half to zero.
    pub fn set_checksum(&mut self, checksum: u16) {
        if let Some(at) = self.word(flag::CHECKSUM) {
            let bytes = self.bytes.as_mut();
            set_array(bytes, at, [0; WORD_LEN]);
            set_u16(bytes, at, checksum);
        }
    }

    /// Computes the checksum over all of these bytes and sets it, where there is one.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::of(self.as_ref());
        self.set_checksum(checksum);
    }
}

/// What a GRE header means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// What is carried.
    pub protocol: EtherType,
    /// Whether there is a checksum, to be filled in for each packet.
    pub checksum: bool,
    /// The key that tells flows or tenants apart (RFC 2890), if there is to be one.
    pub key: Option<u32>,
    /// The sequence number.
    pub sequence: Option<u32>,
}

impl Repr {
    /// Reads the header; checksums are for [`Packet::verify_checksum`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        Ok(Repr {
            protocol: packet.protocol(),
            checksum: packet.checksum().is_some(),
            key: packet.key(),
            sequence: packet.sequence(),
        })
    }

    fn flags(&self) -> u16 {
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        flag(self.checksum, flag::CHECKSUM)
            | flag(self.key.is_some(), flag::KEY)
            | flag(self.sequence.is_some(), flag::SEQUENCE)
    }

    /// Bytes that [`Repr::emit`] writes: 4 to 16.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + words(self.flags()) * WORD_LEN
    }

    /// Writes the header; a checksum is still to be filled in.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.header_mut().set_flags(self.flags());
        packet.set_protocol(self.protocol);
        if let Some(at) = packet.word(flag::CHECKSUM) {
            set_array(packet.bytes.as_mut(), at, [0; WORD_LEN]);
        }
        for (flag, value) in [(flag::KEY, self.key), (flag::SEQUENCE, self.sequence)] {
            if let (Some(at), Some(value)) = (packet.word(flag), value) {
                set_array(packet.bytes.as_mut(), at, value.to_be_bytes());
            }
        }
    }
}

/// NVGRE's key: the virtual network's number (24 bits) and what tells flows apart.
pub const fn nvgre_key(network: u32, flow: u8) -> u32 {
    with_upper_24(flow as u32, network)
}

/// The virtual network's number in NVGRE's key.
pub const fn nvgre_network(key: u32) -> u32 {
    upper_24(key)
}
