//! TCP segments (RFC 9293, section 3.1). Only the header: sequence numbers are
//! plain numbers here, and what they mean is the business of whoever keeps state.

use std::borrow::{Borrow, BorrowMut};
use std::ops::BitOr;

use crate::ip::{Addresses, Protocol};
use crate::tcp_option::{Options, TcpOption};
use crate::{Error, Result, checksum};

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

/// The control bits, as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data will come.
    pub const FIN: Flags = Flags(1);
    /// Sequence numbers begin here.
    pub const SYN: Flags = Flags(2);
    /// The connection is no more.
    pub const RST: Flags = Flags(4);
    /// Hand the data on at once.
    pub const PSH: Flags = Flags(8);
    /// The acknowledgement number counts.
    pub const ACK: Flags = Flags(16);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(32);
    /// The receiver has seen congestion (RFC 3168).
    pub const ECE: Flags = Flags(64);
    /// The sender has answered to it (RFC 3168).
    pub const CWR: Flags = Flags(128);

    /// Whether all of `flags` are set.
    pub fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl Flags {
    /// All but those of `flags`.
    pub fn without(self, flags: Flags) -> Flags {
        Flags(self.0 & !flags.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// From which port.
    pub const SRC_PORT: usize = 0;
    /// To which port.
    pub const DST_PORT: usize = 2;
    /// The number of the first byte.
    pub const SEQUENCE: usize = 4;
    /// The number of the next byte expected.
    pub const ACKNOWLEDGEMENT: usize = 8;
    /// The header's length in units of four bytes, in the upper four bits.
    pub const DATA_OFFSET: usize = 12;
    /// The control bits.
    pub const FLAGS: usize = 13;
    /// Bytes the sender would take.
    pub const WINDOW: usize = 14;
    /// The checksum over pseudo-header, header and payload.
    pub const CHECKSUM: usize = 16;
    /// Where urgent data ends.
    pub const URGENT: usize = 18;
}

/// The lower twelve bits of the word at [`offset::DATA_OFFSET`].
pub const RESERVED_AND_FLAGS: u16 = 0xFFF;

/// Bytes of a header with its options, by the byte at [`offset::DATA_OFFSET`].
#[inline(always)]
pub const fn header_len(data_offset: u8) -> usize {
    (data_offset >> 4) as usize * 4
}

/// The byte at [`offset::DATA_OFFSET`] of a header of so many bytes: a multiple of 4,
/// 20 to 60.
#[inline(always)]
pub const fn data_offset(header_len: usize) -> u8 {
    ((header_len / 4) as u8) << 4
}

/// Bytes of a header that an error of ICMP quotes at least (RFC 792).
pub const QUOTED_LEN: usize = 8;

header! {
    /// The first bytes of a header, as an error of ICMP quotes them.
    Quoted[QUOTED_LEN]
}

header! {
    /// The header without its options.
    Header[HEADER_LEN]
}

ports! { Quoted[QUOTED_LEN], Header[HEADER_LEN] }

/// Lets views over headers tell the number of the segment's first byte.
macro_rules! sequence {
    ($($name:ident[$len:expr]),+) => {$(
        impl<T: Borrow<[u8; $len]>> $name<T> {
            /// The number of the first byte.
            #[inline(always)]
            pub fn sequence(&self) -> u32 {
                self.get::<{ offset::SEQUENCE }, _>()
            }
        }
    )+};
}

sequence! { Quoted[QUOTED_LEN], Header[HEADER_LEN] }

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The number of the next byte expected.
    #[inline(always)]
    pub fn acknowledgement(&self) -> u32 {
        self.get::<{ offset::ACKNOWLEDGEMENT }, _>()
    }

    /// The control bits.
    #[inline(always)]
    pub fn flags(&self) -> Flags {
        self.get::<{ offset::FLAGS }, _>()
    }

    /// Bytes the sender would take, not yet scaled.
    #[inline(always)]
    pub fn window(&self) -> u16 {
        self.get::<{ offset::WINDOW }, _>()
    }

    /// The checksum as it stands.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        self.get::<{ offset::CHECKSUM }, _>()
    }

    /// Where urgent data ends.
    #[inline(always)]
    pub fn urgent(&self) -> u16 {
        self.get::<{ offset::URGENT }, _>()
    }

    /// Bytes of the header with its options.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        header_len(self.get::<{ offset::DATA_OFFSET }, _>())
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets from which port.
    #[inline(always)]
    pub fn set_src_port(&mut self, value: u16) {
        self.set::<{ offset::SRC_PORT }, _>(value);
    }

    /// Sets to which port.
    #[inline(always)]
    pub fn set_dst_port(&mut self, value: u16) {
        self.set::<{ offset::DST_PORT }, _>(value);
    }

    /// Sets the number of the first byte.
    #[inline(always)]
    pub fn set_sequence(&mut self, value: u32) {
        self.set::<{ offset::SEQUENCE }, _>(value);
    }

    /// Sets the number of the next byte expected.
    #[inline(always)]
    pub fn set_acknowledgement(&mut self, value: u32) {
        self.set::<{ offset::ACKNOWLEDGEMENT }, _>(value);
    }

    /// Sets the control bits.
    #[inline(always)]
    pub fn set_flags(&mut self, value: Flags) {
        self.set::<{ offset::FLAGS }, _>(value);
    }

    /// Sets the bytes the sender would take.
    #[inline(always)]
    pub fn set_window(&mut self, value: u16) {
        self.set::<{ offset::WINDOW }, _>(value);
    }

    /// Sets the checksum.
    #[inline(always)]
    pub fn set_checksum(&mut self, value: u16) {
        self.set::<{ offset::CHECKSUM }, _>(value);
    }

    /// Sets where urgent data ends.
    #[inline(always)]
    pub fn set_urgent(&mut self, value: u16) {
        self.set::<{ offset::URGENT }, _>(value);
    }

    /// Sets the header's length, in bytes: a multiple of 4, 20 to 60. The reserved
    /// bits beside it become 0.
    #[inline(always)]
    pub fn set_header_len(&mut self, len: usize) {
        self.set::<{ offset::DATA_OFFSET }, _>(data_offset(len));
    }

    /// As [`Self::set_header_len`], but the reserved bits stay what they are.
    #[inline(always)]
    pub fn replace_header_len(&mut self, len: usize) {
        let reserved = self.get::<{ offset::DATA_OFFSET }, u8>() & 0xF;
        self.set::<{ offset::DATA_OFFSET }, _>(reserved | data_offset(len));
    }
}

view! {
    /// A segment in place, to the end of the bytes: TCP has no length of its own.
    Segment
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    let Some(header) = Header::of(bytes) else { return Err(Error::Truncated) };
    let header_len = header.header_len();
    if header_len < HEADER_LEN {
        return Err(Error::Malformed);
    }
    if bytes.len() < header_len { Err(Error::Truncated) } else { Ok(()) }
}

forward! {
    Segment to Header[HEADER_LEN]:
    src_port -> u16, dst_port -> u16, sequence -> u32, acknowledgement -> u32, header_len -> usize,
    flags -> Flags, window -> u16, checksum -> u16, urgent -> u16;
    set_src_port(u16), set_dst_port(u16), set_sequence(u32), set_acknowledgement(u32),
    set_header_len(usize), set_flags(Flags), set_window(u16), set_checksum(u16), set_urgent(u16)
}

impl<T: AsRef<[u8]>> Segment<T> {
    /// The options, one by one.
    pub fn options(&self) -> Options<'_> {
        Options::new(self.option_bytes())
    }

    /// The options, undecoded.
    #[inline]
    pub fn option_bytes(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..self.header_len()]
    }

    /// What the segment carries.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[self.header_len()..]
    }

    /// Whether the checksum is right.
    pub fn verify_checksum(&self, addresses: Addresses) -> bool {
        checksum::is_right(self.sum(addresses))
    }

    fn sum(&self, addresses: Addresses) -> u16 {
        let pseudo = addresses.pseudo_header(Protocol::TCP, self.as_ref().len());
        checksum::combine(pseudo, checksum::sum(self.as_ref()))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Segment<T> {
    /// The options, undecoded.
    pub fn options_mut(&mut self) -> &mut [u8] {
        let end = self.header_len();
        &mut self.bytes.as_mut()[HEADER_LEN..end]
    }

    /// What the segment carries.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_len();
        &mut self.bytes.as_mut()[start..]
    }

    /// Computes the checksum over pseudo header, header and payload, and sets it.
    pub fn fill_checksum(&mut self, addresses: Addresses) {
        self.set_checksum(0);
        let checksum = !self.sum(addresses);
        self.set_checksum(checksum);
    }

    /// Sets the sum of the pseudo header alone: where a NIC that makes checksums
    /// starts from.
    pub fn fill_pseudo_checksum(&mut self, addresses: Addresses) {
        let pseudo = addresses.pseudo_header(Protocol::TCP, self.as_ref().len());
        self.set_checksum(pseudo);
    }
}

/// What a TCP header means. SACK blocks and unknown options are left out: read them
/// from [`Segment::options`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repr {
    /// From which port.
    pub src_port: u16,
    /// To which port.
    pub dst_port: u16,
    /// The number of the first byte.
    pub sequence: u32,
    /// The number of the next byte expected; counts when `flags` has ACK.
    pub acknowledgement: u32,
    /// The control bits.
    pub flags: Flags,
    /// Bytes the sender would take, not yet scaled.
    pub window: u16,
    /// Where urgent data ends; counts when `flags` has URG.
    pub urgent: u16,
    /// The largest segment the sender takes, in bytes.
    pub max_segment: Option<u16>,
    /// By how many bits later windows are shifted, 0 to 14.
    pub window_scale: Option<u8>,
    /// Whether the sender understands selective acknowledgements.
    pub sack_permitted: bool,
    /// The sender's clock, and the clock it answers to.
    pub timestamps: Option<(u32, u32)>,
}

impl Repr {
    /// Reads the header. Of an option that stands there twice, the last one counts.
    pub fn parse<T: AsRef<[u8]>>(segment: &Segment<T>) -> Result<Repr> {
        segment.check()?;
        let mut repr = Repr {
            src_port: segment.src_port(),
            dst_port: segment.dst_port(),
            sequence: segment.sequence(),
            acknowledgement: segment.acknowledgement(),
            flags: segment.flags(),
            window: segment.window(),
            urgent: segment.urgent(),
            ..Repr::default()
        };
        for option in segment.options() {
            match option? {
                TcpOption::MaxSegment(bytes) => repr.max_segment = Some(bytes),
                // RFC 7323, section 2.3: a larger shift counts as 14.
                TcpOption::WindowScale(shift) => repr.window_scale = Some(shift.min(14)),
                TcpOption::SackPermitted => repr.sack_permitted = true,
                TcpOption::Timestamps { value, echo } => repr.timestamps = Some((value, echo)),
                TcpOption::Sack(_) | TcpOption::Unknown { .. } => {}
            }
        }
        Ok(repr)
    }

    fn options(&self) -> [Option<TcpOption<'static>>; 4] {
        [
            self.max_segment.map(TcpOption::MaxSegment),
            self.window_scale.map(TcpOption::WindowScale),
            self.sack_permitted.then_some(TcpOption::SackPermitted),
            self.timestamps.map(|(value, echo)| TcpOption::Timestamps { value, echo }),
        ]
    }

    /// Bytes that [`Repr::emit`] writes, options and their padding included.
    pub fn header_len(&self) -> usize {
        let options: usize = self.options().iter().flatten().map(TcpOption::len).sum();
        HEADER_LEN + options.next_multiple_of(4)
    }

    /// Writes the header; the checksum is still to be filled in.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, segment: &mut Segment<T>) {
        segment.set_src_port(self.src_port);
        segment.set_dst_port(self.dst_port);
        segment.set_sequence(self.sequence);
        segment.set_acknowledgement(self.acknowledgement);
        segment.set_header_len(self.header_len());
        segment.set_flags(self.flags);
        segment.set_window(self.window);
        segment.set_checksum(0);
        segment.set_urgent(self.urgent);
        let mut rest = segment.options_mut();
        for option in self.options().iter().flatten() {
            rest = option.emit(rest);
        }
        rest.fill(0); // end of options
    }
}
