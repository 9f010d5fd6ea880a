//! A packet in the making: descriptors add to it, then it programs a filter, is sent as a whole or is
//! cut into segments; or it is lost, and counted (datasheet 332464, chapter 8).

use regs::i40e::descriptor::{MOST_TX_BUFFERS, SHORTEST_TX, tx, tx_context};

use super::buffers::most_buffers;
use super::emit::emit;
use crate::Dma;
use crate::i40e::director::Director;
use crate::i40e::host::Host;
use crate::i40e::link::MAX_FRAME;
use crate::i40e::lint::{Location, Rule};
use crate::tx_headers::{Mismatch, Transport, TxHeaders};

/// The longest packet that is not cut.
const LONGEST: usize = MAX_FRAME as usize - 4;
/// The longest packet that is cut: 18 bits and the headers.
const LONGEST_CUT: usize = (1 << 18) + 512;
/// The most descriptors of a packet that is cut; one that has more is nonsense.
const MOST_DESCRIPTORS: usize = 1024;
/// Which flags of TCP the first segment, those in the middle and the last one keep.
const TCP_FLAGS: [u16; 3] = [0xFF6, 0xF76, 0xF7F];

/// A packet in the making.
#[derive(Debug, Default)]
pub struct Packet {
    /// Its bytes so far.
    pub data: Vec<u8>,
    /// Bytes of each of its buffers.
    pub pieces: Vec<usize>,
    /// Its first descriptor's second word.
    first: u64,
    /// The context that stands before it.
    context: Option<u64>,
    /// The descriptor before it that programs a filter.
    filter: Option<[u64; 2]>,
    loss: Option<Loss>,
}

/// What became of a packet with a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// More of it must come.
    Part,
    /// It is whole.
    Whole,
    /// The descriptor makes no sense.
    Nonsense,
}

/// Why a packet is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Descriptor,
    Dma,
}

impl Packet {
    fn lose(&mut self, loss: Loss) {
        self.loss.get_or_insert(loss);
    }

    /// Which rule a descriptor breaks that the device does not take, whatever the packet.
    fn nonsense(&self, command: u64) -> Option<Rule> {
        let data = match command & tx::DTYPE_MASK {
            tx::DTYPE_CONTEXT if !self.pieces.is_empty() => return Some(Rule::ContextInsidePacket),
            tx::DTYPE_FILTER if !self.pieces.is_empty() => return Some(Rule::FilterInsidePacket),
            tx::DTYPE_CONTEXT | tx::DTYPE_FILTER => false,
            tx::DTYPE_DATA => true,
            _ => return Some(Rule::UnsupportedDescriptor),
        };
        if data && command & tx::RS != 0 && command & tx::EOP == 0 {
            return Some(Rule::ReportWithoutEnd);
        }
        (data && command & tx::SIZE_MASK == 0).then_some(Rule::ZeroLengthDescriptor)
    }

    /// Takes a descriptor.
    pub fn take<D: Dma, P>(
        &mut self,
        host: &mut Host<D, P>,
        place: Location,
        address: u64,
        command: u64,
    ) -> Taken {
        if let Some(rule) = self.nonsense(command) {
            host.counters.report(rule, place, command);
            self.lose(Loss::Descriptor);
            return Taken::Nonsense;
        }
        let kind = command & tx::DTYPE_MASK;
        if kind != tx::DTYPE_DATA {
            if let Some([low, _]) = self.filter.take() {
                host.counters.report(Rule::FilterWithoutPacket, place, low);
            }
            match kind {
                tx::DTYPE_FILTER => self.filter = Some([address, command]),
                _ => self.context = Some(command),
            }
            return Taken::Part;
        }
        let taken = if command & tx::EOP != 0 { Taken::Whole } else { Taken::Part };
        if self.pieces.is_empty() {
            self.first = command;
        }
        let len = ((command & tx::SIZE_MASK) >> tx::SIZE_SHIFT) as usize;
        let at = self.data.len();
        if self.pieces.len() >= MOST_DESCRIPTORS || at + len > LONGEST_CUT {
            self.lose(Loss::Descriptor);
            // One piece at least stays, so that the packet is known to be open.
            return taken;
        }
        self.pieces.push(len);
        if self.loss.is_none() {
            self.data.resize(at + len, 0);
            if !host.dma.read(address, &mut self.data[at..]) {
                host.counters.report(Rule::BufferUnmapped, place, address);
                self.lose(Loss::Dma);
            }
        }
        taken
    }

    /// A whole packet may program a filter.
    pub fn program<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        place: Location,
        director: &mut Director,
        may: bool,
    ) {
        match self.filter.take() {
            Some(_) if self.loss.is_some() => {} // its fields are not known
            Some(words) => director.program(&mut host.counters, place, may, words, &self.data),
            None if self.is_dummy() => host.counters.report(Rule::DummyWithoutFilter, place, self.first),
            None => {}
        }
    }

    /// Whether a descriptor is data of a packet that is sent.
    pub fn is_sent(&self, command: u64) -> bool {
        let first = if self.pieces.is_empty() { command } else { self.first };
        command & tx::DTYPE_MASK == tx::DTYPE_DATA && first & tx::DUMMY == 0
    }

    /// Whether the packet is not sent.
    fn is_dummy(&self) -> bool {
        self.first & tx::DUMMY != 0
    }

    /// The last descriptor has come; whether the device takes the packet for malicious.
    pub fn finish<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        place: Location,
        out: &mut impl FnMut(&mut Host<D, P>, &[u8]) -> bool,
    ) -> bool {
        let cut = self.context.filter(|context| context & tx_context::TSO != 0);
        let done = match (self.loss, cut) {
            (Some(loss), _) => Err((None, loss)),
            _ if self.is_dummy() => Ok(()),
            (None, Some(context)) => self.send_cut(host, place, context, out),
            (None, None) => self.send_whole(host, place, out),
        };
        let mut malicious = false;
        if let Err((rule, loss)) = done {
            if let Some(rule) = rule {
                malicious = rule != Rule::HeaderLengthsWrong;
                host.counters.report(rule, place, self.first);
            }
            host.counters.tx_offered += 1;
            match loss {
                Loss::Descriptor => host.counters.drops.tx_bad_descriptor += 1,
                Loss::Dma => host.counters.drops.tx_dma_fault += 1,
            }
        }
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        // A packet of the largest size is rare: its memory is not kept for ever.
        data.shrink_to(2 * LONGEST);
        self.pieces.clear();
        *self = Packet { data, pieces: std::mem::take(&mut self.pieces), ..Packet::default() };
        malicious
    }

    /// Where the headers are, as the first descriptor has it.
    fn headers(&self, mss: usize) -> TxHeaders {
        let length = |mask: u64, shift: u32, unit: usize| ((self.first & mask) >> shift) as usize * unit;
        let l3 = length(tx::MACLEN_MASK, tx::MACLEN_SHIFT, 2);
        TxHeaders {
            l3,
            l4: l3 + length(tx::IPLEN_MASK, tx::IPLEN_SHIFT, 4),
            l4_len: length(tx::L4LEN_MASK, tx::L4LEN_SHIFT, 4),
            ipv4: matches!(self.first & tx::IIPT_MASK, tx::IIPT_IPV4 | tx::IIPT_IPV4_CSUM),
            transport: match self.first & tx::L4T_MASK {
                tx::L4T_TCP => Transport::Tcp,
                tx::L4T_SCTP => Transport::Sctp,
                _ => Transport::Udp,
            },
            mss,
        }
    }

    /// Reports headers that are not as the descriptor says.
    fn check<D, P>(
        &self,
        host: &mut Host<D, P>,
        place: Location,
        headers: &TxHeaders,
        sums: (bool, bool),
        whole: bool,
    ) {
        let rule = match headers.mismatch(&self.data, sums.0, sums.1, whole) {
            None => return,
            Some(Mismatch::PseudoHeader) => Rule::PseudoHeaderWrong,
            Some(_) => Rule::HeaderLengthsWrong,
        };
        host.counters.report(rule, place, self.first);
    }

    fn send_whole<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        place: Location,
        out: &mut impl FnMut(&mut Host<D, P>, &[u8]) -> bool,
    ) -> Result<(), (Option<Rule>, Loss)> {
        let wrong = |rule| Err((Some(rule), Loss::Descriptor));
        if !(SHORTEST_TX..=LONGEST).contains(&self.data.len()) {
            return wrong(Rule::TxLengthInvalid);
        }
        if self.pieces.len() > MOST_TX_BUFFERS {
            return wrong(Rule::TooManyBuffers);
        }
        let sums = (self.first & tx::IIPT_MASK == tx::IIPT_IPV4_CSUM, self.first & tx::L4T_MASK != 0);
        if sums.0 || sums.1 {
            let headers = self.headers(0);
            if sums.1 && headers.l4_len < headers.transport.header_len() {
                host.counters.report(Rule::TransportLengthWrong, place, self.first);
            }
            self.check(host, place, &headers, sums, true);
            if !headers.insert_checksums(&mut self.data, sums.0, sums.1) {
                return wrong(Rule::HeaderLengthsWrong);
            }
        }
        let mut frame = std::mem::take(&mut self.data);
        emit(host, self.first, &mut frame, out);
        self.data = frame;
        Ok(())
    }

    fn send_cut<D, P>(
        &mut self,
        host: &mut Host<D, P>,
        place: Location,
        context: u64,
        out: &mut impl FnMut(&mut Host<D, P>, &[u8]) -> bool,
    ) -> Result<(), (Option<Rule>, Loss)> {
        let wrong = |rule| Err((Some(rule), Loss::Descriptor));
        let mss = (context & tx_context::MSS_MASK) >> tx_context::MSS_SHIFT;
        let len = (context & tx_context::TSO_LEN_MASK) >> tx_context::TSO_LEN_SHIFT;
        let (least, most) = tx_context::MSS;
        if !(least..=most).contains(&mss) {
            return wrong(Rule::TsoInvalid);
        }
        let headers = self.headers(mss as usize);
        let Ok(cut) = headers.cut(self.data.len(), TCP_FLAGS) else { return wrong(Rule::HeaderLengthsWrong) };
        if cut.payload as u64 != len {
            return wrong(Rule::TsoInvalid);
        }
        if most_buffers(&self.pieces, cut.headers, headers.mss) > MOST_TX_BUFFERS {
            return wrong(Rule::TooManyBuffers);
        }
        self.check(host, place, &headers, (headers.ipv4, true), false);
        let mut frame = Vec::new();
        for n in 0..cut.segments() {
            cut.write(&self.data, n, &mut frame);
            emit(host, self.first, &mut frame, out);
        }
        Ok(())
    }
}
