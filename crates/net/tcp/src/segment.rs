//! A segment that came, as the stack looks at it.

use std::ops::Range;

use memory::{Checksum, Packet};
use port::Reason;
use wire::ip::Addresses;
use wire::tcp::{self, Flags};
use wire::tcp_option::{FastOpen, TcpOption, sack_blocks, timestamps_alone};
use wire::{Flow, ecn};

use crate::fast_open::Cookie;
use crate::sequence::Sequence;

/// Blocks that fit into a header (RFC 2018, section 3).
pub const MAX_BLOCKS: usize = 4;

/// The blocks of selective acknowledgements: the first number of each, and the first behind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blocks {
    blocks: [(Sequence, Sequence); MAX_BLOCKS],
    len: usize,
}

impl Blocks {
    /// Appends a block, if there is room.
    pub fn push(&mut self, start: Sequence, end: Sequence) {
        if let Some(block) = self.blocks.get_mut(self.len) {
            *block = (start, end);
            self.len += 1;
        }
    }

    /// The blocks in their order.
    pub fn as_slice(&self) -> &[(Sequence, Sequence)] {
        &self.blocks[..self.len]
    }
}

/// A segment's header.
#[derive(Debug, Clone)]
pub struct Segment {
    /// From whom and to whom.
    pub addresses: Addresses,
    /// From which port.
    pub src_port: u16,
    /// To which port.
    pub dst_port: u16,
    /// The number of its first byte, or of its SYN.
    pub sequence: Sequence,
    /// The number of the next byte that its sender expects; counts with ACK.
    pub acknowledgement: Sequence,
    /// The control bits.
    pub flags: Flags,
    /// The window, not yet shifted.
    pub window: u16,
    /// The largest segment its sender takes.
    pub max_segment: Option<u16>,
    /// By how many bits its sender shifts later windows.
    pub window_scale: Option<u8>,
    /// Whether its sender understands selective acknowledgements.
    pub sack_permitted: bool,
    /// Its sender's clock, and the clock that it answers to.
    pub timestamps: Option<(u32, u32)>,
    /// What its sender has beyond the acknowledgement.
    pub sack: Blocks,
    /// The cookie of fast open, or a request for one.
    pub fast_open: Option<Cookie>,
    /// Whether congestion was met on the way (RFC 3168).
    pub is_congested: bool,
    /// Where its bytes stand in the packet.
    pub payload: Range<usize>,
}

impl Segment {
    /// The segment of a packet whose layers are known, as it stands there.
    ///
    /// # Errors
    /// Why it is dropped.
    #[inline]
    pub fn view<'a>(packet: &'a Packet, flow: &Flow) -> Result<tcp::Segment<&'a [u8]>, Reason> {
        let bytes = packet.get(flow.l4_offset()..flow.end).ok_or(Reason::RxTcpMalformed)?;
        let view = tcp::Segment::new_checked(bytes).map_err(|_| Reason::RxTcpMalformed)?;
        let is_right = match packet.l4_checksum() {
            Checksum::Good => true,
            Checksum::Bad => false,
            Checksum::Unknown => view.verify_checksum(flow.addresses),
        };
        if is_right { Ok(view) } else { Err(Reason::RxTcpChecksum) }
    }

    /// Reads a segment but for its options, timestamps that are alone among them excepted. `class`
    /// is the traffic class.
    #[inline]
    pub fn of(view: &tcp::Segment<&[u8]>, flow: &Flow, class: u8) -> Segment {
        Segment {
            addresses: flow.addresses,
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            sequence: Sequence(view.sequence()),
            acknowledgement: Sequence(view.acknowledgement()),
            flags: view.flags(),
            window: view.window(),
            max_segment: None,
            window_scale: None,
            sack_permitted: false,
            timestamps: timestamps_alone(view.option_bytes()),
            sack: Blocks::default(),
            fast_open: None,
            is_congested: class & ecn::MASK == ecn::CE,
            payload: flow.l4_offset() + view.header_len()..flow.end,
        }
    }

    /// Reads the options.
    ///
    /// # Errors
    /// Why the segment is dropped.
    pub fn take_options(&mut self, view: &tcp::Segment<&[u8]>) -> Result<(), Reason> {
        for option in view.options() {
            match option.map_err(|_| Reason::RxTcpMalformed)? {
                TcpOption::MaxSegment(bytes) => self.max_segment = Some(bytes),
                // RFC 7323, section 2.3: a larger shift counts as 14.
                TcpOption::WindowScale(shift) => self.window_scale = Some(shift.min(14)),
                TcpOption::SackPermitted => self.sack_permitted = true,
                TcpOption::Timestamps { value, echo } => self.timestamps = Some((value, echo)),
                TcpOption::Sack(data) => {
                    sack_blocks(data).for_each(|(start, end)| self.sack.push(Sequence(start), Sequence(end)))
                }
                option @ TcpOption::Unknown { .. } => {
                    self.fast_open = FastOpen::of(&option).map(Cookie::from).or(self.fast_open);
                }
            }
        }
        Ok(())
    }

    /// Whether it has a control bit.
    #[inline]
    pub fn has(&self, flag: Flags) -> bool {
        self.flags.contains(flag)
    }

    /// Sequence numbers that it takes.
    #[inline]
    pub fn len(&self) -> u32 {
        let control = u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN));
        self.payload.len() as u32 + control
    }

    /// The number of its first byte, which is behind its SYN.
    #[inline]
    pub fn data(&self) -> Sequence {
        self.sequence.plus(u32::from(self.has(Flags::SYN)))
    }

    /// The number behind its last one.
    #[inline]
    pub fn end(&self) -> Sequence {
        self.sequence.plus(self.len())
    }
}
