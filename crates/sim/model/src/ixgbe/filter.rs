//! Which frames the host wants, and those that go to a queue of their own.
//!
//! 82599 datasheet rev. 3.4, sections 7.1.1 (address and VLAN filters) and
//! 7.1.2 (EtherType, SYN and five-tuple filters). Flow Director and pools are
//! not modelled.

use regs::ixgbe::*;
use wire::ethernet::EtherType;
use wire::ip::Protocol;
use wire::tcp::{self, Flags};
use wire::{ipv4, vlan};

use super::headers::Headers;
use super::registers::Registers;

/// How a destination address passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// By an exact match or a mode that takes all.
    Exact,
    /// By a hash table.
    Inexact,
    /// Not at all.
    No,
}

/// A five-tuple filter: what is compared is selected by the masks.
#[derive(Debug, Clone, Copy)]
struct Tuple {
    priority: u32,
    addresses: [u32; 2],
    address_masks: [u32; 2],
    ports: u32,
    port_mask: u32,
    protocol: Option<u32>,
    queue: u8,
}

/// The filters as the registers set them.
#[derive(Debug)]
pub(super) struct Filter {
    unicast_all: bool,
    multicast_all: bool,
    broadcast: bool,
    /// RAL/RAH 0, by far the most frequent match; `u64::MAX` when not valid.
    own: u64,
    addresses: Vec<u64>,
    hash_shift: u32,
    multicast_table: Option<[u32; 128]>,
    unicast_table: Option<[u32; 128]>,
    vlans: Option<Box<[u32; 128]>>,
    /// The tag's type.
    pub vlan_type: u16,
    ethertypes: Vec<(u16, u8, Option<u8>)>,
    syn: Option<(u8, bool)>,
    tuples: Vec<Tuple>,
}

const ADDRESS: u64 = (1 << 48) - 1;

impl Filter {
    pub fn new(registers: &Registers) -> Filter {
        let table = |at: fn(usize) -> u32| std::array::from_fn::<u32, 128, _>(|n| registers.read(at(n)));
        let (fctrl, vlnctrl, mcstctrl) =
            (registers.read(FCTRL::AT), registers.read(VLNCTRL::AT), registers.read(MCSTCTRL::AT));
        let address = |n| {
            let (low, high) = (registers.read(RAL::at(n)), registers.read(RAH::at(n)));
            (high & RAH::AV != 0).then_some(u64::from(high & 0xFFFF) << 32 | u64::from(low))
        };
        let unicast_table = table(PFUTA::at);
        Filter {
            unicast_all: fctrl & FCTRL::UPE != 0,
            multicast_all: fctrl & FCTRL::MPE != 0,
            broadcast: fctrl & FCTRL::BAM != 0,
            own: address(0).unwrap_or(u64::MAX),
            addresses: (1..RAL::COUNT).filter_map(address).collect(),
            hash_shift: [4, 3, 2, 0][(mcstctrl & MCSTCTRL::MO_MASK) as usize],
            multicast_table: (mcstctrl & MCSTCTRL::MFE != 0).then(|| table(MTA::at)),
            unicast_table: unicast_table.iter().any(|&word| word != 0).then_some(unicast_table),
            vlans: (vlnctrl & VLNCTRL::VFE != 0).then(|| Box::new(table(VFTA::at))),
            vlan_type: (vlnctrl & VLNCTRL::VET_MASK) as u16,
            ethertypes: ethertypes(registers),
            syn: syn(registers),
            tuples: tuples(registers),
        }
    }

    /// Whether a frame passes without looking further.
    #[inline(always)]
    pub fn wants(&self, frame: &[u8; 8]) -> bool {
        let destination = u64::from_le_bytes(*frame) & ADDRESS;
        let all = if destination & 1 == 0 { self.unicast_all } else { self.multicast_all };
        all || destination == self.own
    }

    /// Whether a frame's destination is wanted (7.1.1.1).
    pub fn address(&self, frame: &[u8; 8]) -> Pass {
        let destination = u64::from_le_bytes(*frame) & ADDRESS;
        let multicast = destination & 1 != 0;
        if destination == self.own || (!multicast && self.unicast_all) || (multicast && self.multicast_all) {
            return Pass::Exact;
        }
        self.address_of_many(destination)
    }

    fn address_of_many(&self, destination: u64) -> Pass {
        if destination == ADDRESS && self.broadcast || self.addresses.contains(&destination) {
            return Pass::Exact;
        }
        let table = if destination & 1 != 0 { &self.multicast_table } else { &self.unicast_table };
        // Twelve of the last two bytes' bits.
        let hash = ((destination >> 32) as u32 >> self.hash_shift) & 0xFFF;
        match table {
            Some(table) if table[hash as usize >> 5] >> (hash & 31) & 1 != 0 => Pass::Inexact,
            _ => Pass::No,
        }
    }

    /// Whether a frame's VLAN is wanted (7.1.1.2).
    #[inline(always)]
    pub fn vlan(&self, headers: &Headers) -> bool {
        match (&self.vlans, headers.tag) {
            (Some(table), Some(tag)) => {
                let id = usize::from(tag & vlan::ID);
                table[id >> 5] >> (id & 31) & 1 != 0
            }
            _ => true,
        }
    }

    /// Whether any filter chooses a queue.
    #[inline(always)]
    pub fn steers(&self) -> bool {
        !(self.ethertypes.is_empty() && self.tuples.is_empty() && self.syn.is_none())
    }

    /// The number of the EtherType filter that matches.
    pub fn ethertype(&self, headers: &Headers) -> Option<u8> {
        let found = self.ethertypes.iter().find(|filter| filter.0 == headers.ethertype);
        found.map(|filter| filter.1)
    }

    /// The queue a filter chooses, in the order of 7.1.2.
    #[cold]
    pub fn queue(&self, frame: &[u8], headers: &Headers) -> Option<u8> {
        let of_type = self.ethertypes.iter().find(|filter| filter.0 == headers.ethertype);
        if let Some(queue) = of_type.and_then(|filter| filter.2) {
            return Some(queue);
        }
        let is_syn = || {
            let flags = frame.get(usize::from(headers.l4) + tcp::offset::FLAGS);
            flags.is_some_and(|&flags| flags & (Flags::SYN | Flags::ACK).0 == Flags::SYN.0)
        };
        let tcp = Protocol(headers.protocol) == Protocol::TCP && headers.l4 != 0;
        let syn = self.syn.filter(|_| tcp && is_syn());
        match syn {
            Some((queue, true)) => Some(queue),
            Some((queue, false)) => self.tuple(frame, headers).or(Some(queue)),
            None => self.tuple(frame, headers),
        }
    }

    fn tuple(&self, frame: &[u8], headers: &Headers) -> Option<u8> {
        // Five-tuples are of IPv4.
        if headers.ethertype != EtherType::IPV4.0 || headers.l3 == 0 || self.tuples.is_empty() {
            return None;
        }
        let word = |at: usize| Some(u32::from_le_bytes(*frame.get(at..)?.first_chunk()?));
        let l3 = usize::from(headers.l3);
        let addresses = [word(l3 + ipv4::offset::SRC)?, word(l3 + ipv4::offset::DST)?];
        let ports = if headers.l4 == 0 { None } else { word(usize::from(headers.l4)) };
        let protocol = match Protocol(headers.protocol) {
            Protocol::TCP => 0,
            Protocol::UDP => 1,
            Protocol::SCTP => 2,
            _ => 3,
        };
        let matches = |tuple: &&Tuple| {
            (0..2).all(|n| (tuple.addresses[n] ^ addresses[n]) & tuple.address_masks[n] == 0)
                && (tuple.port_mask == 0
                    || ports.is_some_and(|ports| (ports ^ tuple.ports) & tuple.port_mask == 0))
                && tuple.protocol.is_none_or(|wanted| wanted == protocol)
        };
        self.tuples.iter().find(matches).map(|tuple| tuple.queue)
    }
}

fn ethertypes(registers: &Registers) -> Vec<(u16, u8, Option<u8>)> {
    let enabled = (0..ETQF::COUNT).filter(|&n| registers.read(ETQF::at(n)) & ETQF::ENABLE != 0);
    let filter = |n: usize| {
        let queue = registers.read(ETQS::at(n));
        let to = (queue & ETQS::QUEUE_ENABLE != 0).then_some((queue >> ETQS::QUEUE_SHIFT & 0x7F) as u8);
        ((registers.read(ETQF::at(n)) & ETQF::TYPE_MASK) as u16, n as u8, to)
    };
    enabled.map(filter).collect()
}

/// SYNQF: enable in bit 0, queue in 7:1, priority over five-tuples in bit 31.
fn syn(registers: &Registers) -> Option<(u8, bool)> {
    let value = registers.read(SYNQF::AT);
    (value & 1 != 0).then_some(((value >> 1 & 0x7F) as u8, value >> 31 != 0))
}

fn tuples(registers: &Registers) -> Vec<Tuple> {
    let enabled = (0..FTQF::COUNT).filter(|&n| registers.read(FTQF::at(n)) & FTQF::ENABLE != 0);
    let filter = |n: usize| {
        let ftqf = registers.read(FTQF::at(n));
        // A mask bit set takes its field out of the comparison.
        let compared = |bit: u32| ftqf >> (FTQF::MASK_SHIFT + bit) & 1 == 0;
        let mask = |bit: u32, bits: u32| if compared(bit) { bits } else { 0 };
        Tuple {
            priority: ftqf >> FTQF::PRIORITY_SHIFT & 7,
            addresses: [registers.read(SAQF::at(n)), registers.read(DAQF::at(n))],
            address_masks: [mask(0, u32::MAX), mask(1, u32::MAX)],
            ports: registers.read(SDPQF::at(n)),
            port_mask: mask(2, 0xFFFF) | mask(3, 0xFFFF_0000),
            protocol: compared(4).then_some(ftqf & FTQF::PROTOCOL_MASK),
            queue: (registers.read(L34TIMIR::at(n)) >> L34TIMIR::QUEUE_SHIFT & 0x7F) as u8,
        }
    };
    let mut found: Vec<Tuple> = enabled.map(filter).collect();
    // 7 is the highest priority; the lower index wins among equals.
    found.sort_by_key(|tuple| std::cmp::Reverse(tuple.priority));
    found
}
