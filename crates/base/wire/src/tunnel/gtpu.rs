//! GTP-U (3GPP TS 29.281, release 18): user packets of mobile networks, each tunnel known at
//! its end by an identifier of 32 bits. It lies over UDP; only version 1 with its protocol
//! type bit is GTP-U (clause 5.1).

use std::borrow::{Borrow, BorrowMut};

use crate::{Error, Result};

/// Bytes of the header without the optional fields.
pub const HEADER_LEN: usize = 8;
/// Bytes of sequence number, N-PDU number and next extension type, which stand in front of
/// extension headers or where any of the three is announced.
pub const OPTIONAL_LEN: usize = 4;
/// The UDP port (clause 4.4.2.3).
pub const PORT: u16 = 2152;
/// Extension headers that are followed at most.
pub const MAX_EXTENSIONS: usize = 8;

/// The bits of the first byte.
pub mod flag {
    /// The version, 1, and the protocol type, without optional fields.
    pub const PLAIN: u8 = 0x30;
    /// The bits of version and protocol type.
    pub const KIND: u8 = 0xF0;
    /// E: extension headers follow.
    pub const EXTENSIONS: u8 = 0x04;
    /// S: the sequence number is meant.
    pub const SEQUENCE: u8 = 0x02;
    /// PN: the N-PDU number is meant.
    pub const N_PDU: u8 = 0x01;
    /// Any of the three makes the optional fields stand there.
    pub const OPTIONAL: u8 = EXTENSIONS | SEQUENCE | N_PDU;
}

/// What a message is (clause 6.1).
pub mod message {
    /// Is the peer there?
    pub const ECHO_REQUEST: u8 = 1;
    /// The peer is there.
    pub const ECHO_RESPONSE: u8 = 2;
    /// A user packet came for a tunnel that does not exist.
    pub const ERROR_INDICATION: u8 = 26;
    /// Which extension headers are known.
    pub const SUPPORTED_EXTENSIONS: u8 = 31;
    /// No more user packets will come by this tunnel.
    pub const END_MARKER: u8 = 254;
    /// A user packet.
    pub const G_PDU: u8 = 255;
}

/// The type of the extension header of a PDU session (TS 38.415).
pub const PDU_SESSION: u8 = 0x85;
/// Bytes of the shortest PDU session extension, as who sends without delay measurements
/// writes it.
pub const PDU_SESSION_LEN: usize = 4;

/// The bit of an extension's type that says that an end of the tunnel must know it, or drop
/// the packet; the bit below tells nodes between the ends (clause 5.2.1).
pub const REQUIRED_BY_ENDPOINT: u8 = 0x80;

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// Version and flags.
    pub const FLAGS: usize = 0;
    /// What the message is.
    pub const MESSAGE: usize = 1;
    /// Bytes behind the first eight.
    pub const LEN: usize = 2;
    /// The tunnel's identifier.
    pub const TEID: usize = 4;
    /// The sequence number, where there are optional fields.
    pub const SEQUENCE: usize = 8;
    /// The type of the first extension header, where there are optional fields.
    pub const NEXT_EXTENSION: usize = 11;
}

header! {
    /// The header without the optional fields.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// Version and flags: see [`flag`].
    #[inline(always)]
    pub fn flags(&self) -> u8 {
        self.get::<{ offset::FLAGS }, _>()
    }

    /// What the message is: see [`message`].
    #[inline(always)]
    pub fn message(&self) -> u8 {
        self.get::<{ offset::MESSAGE }, _>()
    }

    /// Bytes behind the first eight, optional fields and extensions included.
    #[inline(always)]
    pub fn payload_len(&self) -> usize {
        self.get::<{ offset::LEN }, u16>().into()
    }

    /// The tunnel's identifier at the end that receives.
    #[inline(always)]
    pub fn teid(&self) -> u32 {
        self.get::<{ offset::TEID }, _>()
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets version and flags.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: u8) {
        self.set::<{ offset::FLAGS }, _>(flags);
    }

    /// Sets what the message is.
    #[inline(always)]
    pub fn set_message(&mut self, message: u8) {
        self.set::<{ offset::MESSAGE }, _>(message);
    }

    /// Sets the bytes behind the first eight.
    #[inline(always)]
    pub fn set_payload_len(&mut self, len: u16) {
        self.set::<{ offset::LEN }, _>(len);
    }

    /// Sets the tunnel's identifier.
    #[inline(always)]
    pub fn set_teid(&mut self, teid: u32) {
        self.set::<{ offset::TEID }, _>(teid);
    }
}

view! {
    /// A message with its optional fields and extension headers. Bytes behind its length
    /// are no part of the payload.
    Packet
}

/// Where the payload of a message begins, of which `bytes` are the start: the headers are
/// there, the payload may not be.
pub fn header_len(bytes: &[u8]) -> Result<usize> {
    walk(bytes).map(|(at, _)| at)
}

/// The walk through the extension headers: where the payload begins, and the content of the
/// PDU session extension.
fn walk(bytes: &[u8]) -> Result<(usize, Option<&[u8]>)> {
    let header = Header::of(bytes).ok_or(Error::Truncated)?;
    if header.flags() & flag::KIND != flag::PLAIN {
        return Err(Error::Unsupported);
    }
    let message = &bytes[..bytes.len().min(HEADER_LEN + header.payload_len())];
    if header.flags() & flag::OPTIONAL == 0 {
        return Ok((HEADER_LEN, None));
    }
    let mut at = HEADER_LEN + OPTIONAL_LEN;
    let mut next = *message.get(offset::NEXT_EXTENSION).ok_or(Error::Malformed)?;
    let mut session = None;
    if header.flags() & flag::EXTENSIONS == 0 {
        return Ok((at, None)); // the field is there and means nothing (clause 5.1)
    }
    for _ in 0..MAX_EXTENSIONS {
        if next == 0 {
            return Ok((at, session));
        }
        let units = *message.get(at).ok_or(Error::Malformed)?;
        let end = at + usize::from(units) * 4;
        // A length of zero would never end; the last byte is the next header's type.
        let Some([content @ .., following]) = message.get(at + 1..end) else { return Err(Error::Malformed) };
        if next == PDU_SESSION {
            session = Some(content);
        } else if next & REQUIRED_BY_ENDPOINT != 0 {
            return Err(Error::Unsupported);
        }
        (at, next) = (end, *following);
    }
    Err(Error::Unsupported)
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    let header = Header::of(bytes).ok_or(Error::Truncated)?;
    if header.flags() & flag::KIND == flag::PLAIN && bytes.len() < HEADER_LEN + header.payload_len() {
        return Err(Error::Truncated);
    }
    walk(bytes).map(|_| ())
}

forward! {
    Packet to Header[HEADER_LEN]:
    flags -> u8, message -> u8, payload_len -> usize, teid -> u32;
    set_teid(u32)
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Bytes in front of the payload.
    pub fn header_len(&self) -> usize {
        walk(self.as_ref()).expect("the extension headers were checked").0
    }

    /// The flow identifier (QFI, 6 bits) of the PDU session extension.
    pub fn qos_flow(&self) -> Option<u8> {
        let (_, session) = walk(self.as_ref()).ok()?;
        session?.get(1).map(|byte| byte & 0x3F)
    }

    /// What is carried.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[self.header_len()..HEADER_LEN + self.payload_len()]
    }
}

/// The header of a user packet for the tunnel `teid`. Its length is to be set for each
/// packet.
pub fn header(teid: u32) -> Header<[u8; HEADER_LEN]> {
    let mut header = Header::zeroed();
    header.set_flags(flag::PLAIN);
    header.set_message(message::G_PDU);
    header.set_teid(teid);
    header
}

/// Bytes of [`with_qos_flow`]'s header.
pub const QOS_HEADER_LEN: usize = HEADER_LEN + OPTIONAL_LEN + PDU_SESSION_LEN;

/// The header of a user packet with a PDU session extension: the direction (0 to the user, 1
/// from it) and the flow identifier (6 bits). Its length is to be set for each packet.
pub fn with_qos_flow(teid: u32, direction: u8, qos_flow: u8) -> [u8; QOS_HEADER_LEN] {
    let mut first = header(teid);
    first.set_flags(flag::PLAIN | flag::EXTENSIONS);
    let extension = [0, 0, 0, PDU_SESSION, 1, direction << 4, qos_flow & 0x3F, 0];
    let mut bytes = [0; QOS_HEADER_LEN];
    bytes[..HEADER_LEN].copy_from_slice(&first.into_inner());
    bytes[HEADER_LEN..].copy_from_slice(&extension);
    bytes
}
