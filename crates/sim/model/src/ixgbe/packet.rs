//! A packet put together from several descriptors, and what its context asks
//! for: tags, checksums, segments.
//!
//! 82599 datasheet rev. 3.4, sections 7.2.3.2 (descriptors) and 7.2.4 and 7.2.5
//! (offloads). A chain is taken to its end however it looks; what makes no
//! sense is lost as a whole and counted.

use regs::ixgbe::descriptor::{tx, tx_context_high, tx_context_low, tx_legacy};
use wire::ethernet::ADDRESSES_LEN;

use super::host::{Counters, Host};
use super::lint::Rule;
use super::queue::RingRegisters;
use super::statistics::TxBurst;
use super::tx::{RESERVED, Sender, Settings};
use crate::checksum::{crc32, fold, sum};
use crate::tx_headers::{Mismatch, Transport, TxHeaders};
use crate::{Dma, MAX_FRAME, MIN_FRAME};

/// Most descriptors of a packet (7.2.1.1).
const MOST_DESCRIPTORS: u32 = 40;

/// Longest packet that is cut: 18 bits of PAYLEN and the headers.
const LONGEST_CUT: usize = (1 << 18) + 1024;

/// Longest packet that is not cut (7.2.1.2).
const LONGEST: usize = 15_872;

const LEAST: usize = 17;

/// The headers that a context descriptor tells of.
fn headers_of([low, high]: [u64; 2]) -> TxHeaders {
    let l3 = (low >> tx_context_low::MACLEN_SHIFT & tx_context_low::MACLEN_MASK) as usize;
    TxHeaders {
        l3,
        l4: l3 + (low & tx_context_low::IPLEN_MASK) as usize,
        l4_len: (high >> tx_context_high::L4LEN_SHIFT & 0xFF) as usize,
        ipv4: high & tx_context_high::IPV4 != 0,
        transport: match high & tx_context_high::L4T_MASK {
            tx_context_high::L4T_TCP => Transport::Tcp,
            tx_context_high::L4T_SCTP => Transport::Sctp,
            _ => Transport::Udp,
        },
        mss: (high >> tx_context_high::MSS_SHIFT) as usize,
    }
}

impl From<Mismatch> for Rule {
    fn from(mismatch: Mismatch) -> Rule {
        match mismatch {
            Mismatch::Lengths => Rule::ContextLengthsInvalid,
            Mismatch::NotOfPacket => Rule::ContextNotOfPacket,
            Mismatch::PseudoHeader => Rule::PseudoHeaderWrong,
            Mismatch::NoPayload => Rule::TsoHeaderSplit,
            Mismatch::SegmentSize => Rule::TsoBadMss,
        }
    }
}

/// Puts the checksum of everything from `start` into `field`; `false` where they do not lie
/// in the packet.
fn insert_checksum(data: &mut [u8], start: usize, field: usize) -> bool {
    let Some(covered) = data.get(start..).filter(|covered| !covered.is_empty()) else { return false };
    let value = !fold(sum(covered));
    let Some(place) = data.get_mut(field..field + 2) else { return false };
    place.copy_from_slice(&value.to_le_bytes());
    true
}

/// A descriptor's words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub address: u64,
    pub command: u64,
}

/// Why a packet is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    Descriptor,
    Dma,
    Oversize,
    Crc,
}

impl Loss {
    fn count(self, counters: &mut Counters) {
        let drops = &mut counters.drops;
        *match self {
            Loss::Descriptor => &mut drops.tx_bad_descriptor,
            Loss::Dma => &mut drops.tx_dma_fault,
            Loss::Oversize => &mut drops.tx_oversize,
            Loss::Crc => &mut drops.tx_bad_crc,
        } += 1;
    }
}

/// A packet in the making, and the contexts of its queue.
#[derive(Debug, Default)]
pub(super) struct Packet {
    data: Vec<u8>,
    descriptors: u32,
    /// Second word of the first descriptor.
    first: u64,
    loss: Option<Loss>,
    contexts: [Option<[u64; 2]>; 2],
    frame: Vec<u8>,
}

impl Packet {
    /// Whether descriptors have come and the last has not.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.descriptors > 0
    }

    /// Takes the next descriptor of the queue.
    #[cold]
    pub fn take<D, P, O>(
        &mut self,
        sender: &mut Sender<'_, D, P, O>,
        fields: Fields,
        burst: &mut TxBurst,
        place: RingRegisters,
    ) where
        D: Dma,
        O: FnMut(&mut Host<D, P>, &[u8]),
    {
        let Fields { address, command } = fields;
        let extended = command & tx::DEXT != 0;
        let kind = command & tx::DTYP_MASK;
        if command & tx::DD != 0 {
            place.lint(&mut sender.host.counters, Rule::DoneBitInTxDescriptor, command);
        }
        if extended && kind == tx::DTYP_CONTEXT {
            if self.is_open() {
                place.lint(&mut sender.host.counters, Rule::EopFieldsInconsistent, command);
            }
            let index = (command >> tx_context_high::IDX_SHIFT & 1) as usize;
            self.contexts[index] = Some([address, command]);
            return;
        }
        // A null descriptor transfers nothing (7.2.3.2.2).
        let null = command & (tx::DEXT | tx::EOP | tx::LENGTH_MASK) == tx::EOP;
        if null && !self.is_open() {
            return;
        }
        if extended && command & RESERVED != 0 {
            place.lint(&mut sender.host.counters, Rule::ReservedBitsWritten, command);
        }
        if !self.is_open() {
            (self.first, self.loss) = (command, None);
            self.data.clear();
        }
        self.descriptors += 1;
        if extended && kind != tx::DTYP_DATA {
            place.lint(&mut sender.host.counters, Rule::UnsupportedDescriptorType, command);
            self.lose(Loss::Descriptor);
        } else if (command ^ self.first) & tx::DEXT != 0 {
            place.lint(&mut sender.host.counters, Rule::EopFieldsInconsistent, command);
            self.lose(Loss::Descriptor);
        }
        // A legacy descriptor has its checksum's offset there, and no checksum.
        if !extended && kind == tx::DTYP_DATA && command & tx_legacy::IC == 0 {
            place.lint(&mut sender.host.counters, Rule::UnsupportedDescriptorType, command);
        }
        self.append(sender, fields, place);
        if command & tx::EOP != 0 {
            self.descriptors = 0;
            self.finish(sender, command, burst, place);
        }
    }

    fn lose(&mut self, loss: Loss) {
        self.loss.get_or_insert(loss);
    }

    fn append<D: Dma, P, O>(
        &mut self,
        sender: &mut Sender<'_, D, P, O>,
        fields: Fields,
        place: RingRegisters,
    ) {
        let len = (fields.command & tx::LENGTH_MASK) as usize;
        if len == 0 {
            place.lint(&mut sender.host.counters, Rule::ZeroLengthDescriptor, fields.command);
            self.lose(Loss::Descriptor);
        }
        if self.descriptors == MOST_DESCRIPTORS + 1 {
            place.lint(&mut sender.host.counters, Rule::ChainWithoutEop, u64::from(self.descriptors));
            self.lose(Loss::Descriptor);
        }
        // The count must not wrap, however long the chain.
        self.descriptors = self.descriptors.min(MOST_DESCRIPTORS + 2);
        if self.loss.is_some() {
            return;
        }
        let at = self.data.len();
        if at + len > LONGEST_CUT {
            place.lint(&mut sender.host.counters, Rule::TxTooLong, (at + len) as u64);
            return self.lose(Loss::Oversize);
        }
        sender.spent += len;
        self.data.resize(at + len, 0);
        if !sender.host.dma.read(fields.address, &mut self.data[at..]) {
            place.lint(&mut sender.host.counters, Rule::BufferAddressUnmapped, fields.address);
            self.lose(Loss::Dma);
        }
    }

    /// The last descriptor has come.
    fn finish<D, P, O>(
        &mut self,
        sender: &mut Sender<'_, D, P, O>,
        last: u64,
        burst: &mut TxBurst,
        place: RingRegisters,
    ) where
        D: Dma,
        O: FnMut(&mut Host<D, P>, &[u8]),
    {
        let sent = match self.loss.take() {
            Some(loss) => Err(loss),
            None if self.first & tx::DEXT == 0 => self.finish_legacy(sender, last, burst, place),
            None if self.first & tx::TSE != 0 => self.finish_cut(sender, burst, place),
            None => self.finish_whole(sender, burst, place),
        };
        if let Err(loss) = sent {
            sender.host.counters.tx_offered += 1;
            loss.count(&mut sender.host.counters);
        }
        // A packet of the largest size is rare: its memory is not kept for ever.
        if self.data.capacity() > LONGEST_CUT {
            self.data = Vec::new();
        }
    }

    fn finish_legacy<D, P, O>(
        &mut self,
        sender: &mut Sender<'_, D, P, O>,
        last: u64,
        burst: &mut TxBurst,
        place: RingRegisters,
    ) -> Result<(), Loss>
    where
        D: Dma,
        O: FnMut(&mut Host<D, P>, &[u8]),
    {
        check_length(self.data.len(), sender, place)?;
        if last & tx_legacy::IC != 0 {
            let start = (last >> tx_legacy::CSS_SHIFT & 0xFF) as usize;
            let field = (last >> tx_legacy::CSO_SHIFT & 0xFF) as usize;
            if !insert_checksum(&mut self.data, start, field) {
                place.lint(&mut sender.host.counters, Rule::ContextLengthsInvalid, last);
            }
        }
        let tag = (last & tx_legacy::VLE != 0).then_some((last >> tx_legacy::VLAN_SHIFT) as u16);
        self.emit(sender, (last & tx_legacy::IFCS != 0, place), tag, burst)
    }

    /// The context a packet refers to; a lint and a loss when it never came.
    fn context<D, P, O>(
        &self,
        sender: &mut Sender<'_, D, P, O>,
        place: RingRegisters,
    ) -> Result<[u64; 2], Loss> {
        let index = (self.first >> tx::IDX_SHIFT & 1) as usize;
        self.contexts[index].ok_or_else(|| {
            place.lint(&mut sender.host.counters, Rule::ContextMissing, self.first);
            Loss::Descriptor
        })
    }

    fn finish_whole<D, P, O>(
        &mut self,
        sender: &mut Sender<'_, D, P, O>,
        burst: &mut TxBurst,
        place: RingRegisters,
    ) -> Result<(), Loss>
    where
        D: Dma,
        O: FnMut(&mut Host<D, P>, &[u8]),
    {
        check_length(self.data.len(), sender, place)?;
        if self.first >> tx::PAYLEN_SHIFT != self.data.len() as u64 {
            place.lint(&mut sender.host.counters, Rule::PaylenWrong, self.first);
        }
        let mut tag = None;
        if self.first & (tx::IXSM | tx::TXSM | tx::VLE) != 0 {
            let context = self.context(sender, place)?;
            let headers = headers_of(context);
            let sums = (self.first & tx::IXSM != 0, self.first & tx::TXSM != 0);
            if let Some(mismatch) = headers.mismatch(&self.data, sums.0, sums.1, true) {
                place.lint(&mut sender.host.counters, mismatch.into(), context[0]);
            }
            if !headers.insert_checksums(&mut self.data, sums.0, sums.1) {
                place.lint(&mut sender.host.counters, Rule::ContextLengthsInvalid, context[0]);
                return Err(Loss::Descriptor);
            }
            tag = (self.first & tx::VLE != 0).then_some((context[0] >> tx_context_low::VLAN_SHIFT) as u16);
        }
        self.emit(sender, (self.first & tx::IFCS != 0, place), tag, burst)
    }

    /// Cuts the packet into segments, each a frame (7.2.4).
    fn finish_cut<D, P, O>(
        &mut self,
        sender: &mut Sender<'_, D, P, O>,
        burst: &mut TxBurst,
        place: RingRegisters,
    ) -> Result<(), Loss>
    where
        D: Dma,
        O: FnMut(&mut Host<D, P>, &[u8]),
    {
        let context = self.context(sender, place)?;
        let headers = headers_of(context);
        let cut = match headers.cut(self.data.len(), sender.settings.flags) {
            Ok(cut) => cut,
            Err(mismatch) => {
                place.lint(&mut sender.host.counters, mismatch.into(), context[1]);
                return Err(Loss::Descriptor);
            }
        };
        if self.first >> tx::PAYLEN_SHIFT != cut.payload as u64 {
            place.lint(&mut sender.host.counters, Rule::PaylenWrong, self.first);
        }
        if let Some(mismatch) = headers.mismatch(&self.data, true, true, false) {
            place.lint(&mut sender.host.counters, mismatch.into(), context[0]);
        }
        let tag = (self.first & tx::VLE != 0).then_some((context[0] >> tx_context_low::VLAN_SHIFT) as u16);
        let whole = std::mem::take(&mut self.data);
        let crc = self.first & tx::IFCS != 0;
        for n in 0..cut.segments() {
            cut.write(&whole, n, &mut self.data);
            if let Err(loss) = self.emit(sender, (crc, place), tag, burst) {
                sender.host.counters.tx_offered += 1;
                loss.count(&mut sender.host.counters);
            }
        }
        self.data = whole;
        Ok(())
    }

    /// Sends `self.data`, tagged and padded. `crc` says whether the device is to
    /// append it.
    fn emit<D, P, O>(
        &mut self,
        sender: &mut Sender<'_, D, P, O>,
        (crc, place): (bool, RingRegisters),
        tag: Option<u16>,
        burst: &mut TxBurst,
    ) -> Result<(), Loss>
    where
        D: Dma,
        O: FnMut(&mut Host<D, P>, &[u8]),
    {
        let Settings { pad, append_crc, vlan_type, .. } = *sender.settings;
        let mut data = &self.data[..];
        if !(crc && append_crc) {
            // Software brings the CRC along, which wires here do not carry.
            let given = data.split_last_chunk::<4>();
            let Some((frame, _)) = given.filter(|(frame, given)| u32::from_le_bytes(**given) == crc32(frame))
            else {
                let rule = if crc { Rule::TransmitCrcOff } else { Rule::FrameWithoutCrc };
                place.lint(&mut sender.host.counters, rule, data.len() as u64);
                return Err(Loss::Crc);
            };
            data = frame;
        }
        self.frame.clear();
        match tag {
            Some(tag) if data.len() >= ADDRESSES_LEN => {
                self.frame.extend_from_slice(&data[..ADDRESSES_LEN]);
                self.frame.extend_from_slice(&vlan_type.to_be_bytes());
                self.frame.extend_from_slice(&tag.to_be_bytes());
                self.frame.extend_from_slice(&data[ADDRESSES_LEN..]);
            }
            _ => self.frame.extend_from_slice(data),
        }
        if self.frame.len() < MIN_FRAME {
            match pad {
                true => self.frame.resize(MIN_FRAME, 0),
                false => place.lint(&mut sender.host.counters, Rule::TxRunt, self.frame.len() as u64),
            }
        }
        if self.frame.len() > sender.settings.longest {
            place.lint(&mut sender.host.counters, Rule::TxAboveMaxFrame, self.frame.len() as u64);
        }
        if self.frame.len() > MAX_FRAME {
            return Err(Loss::Oversize);
        }
        sender.host.counters.tx_offered += 1;
        sender.send(burst, &self.frame);
        Ok(())
    }
}

fn check_length<D, P, O>(
    len: usize,
    sender: &mut Sender<'_, D, P, O>,
    place: RingRegisters,
) -> Result<(), Loss> {
    if len > LONGEST {
        place.lint(&mut sender.host.counters, Rule::TxTooLong, len as u64);
        return Err(Loss::Oversize);
    }
    if len < LEAST && !sender.settings.pad {
        place.lint(&mut sender.host.counters, Rule::TxTooShort, len as u64);
        return Err(Loss::Descriptor);
    }
    Ok(())
}
