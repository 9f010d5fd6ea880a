//! Receive side scaling: the class of a packet, what is hashed of it, and the queue to which
//! the hash leads (datasheet 332464, chapter 7).

use regs::i40e::*;
use regs::iavf::{VFQF_HENA, VFQF_HKEY, VFQF_HLUT};
use wire::ethernet::EtherType;
use wire::ip::Protocol;
use wire::{ipv4, ipv6};

use super::family;
use super::registers::Registers;
use super::switch::Switch;
use crate::headers::{Headers, Network};
use crate::toeplitz::{INPUT, KEY, Toeplitz};

/// Entries of the table, whole and halved.
const WHOLE: u32 = 512;
const HALF: u32 = 128;

/// Entries of a virtual function's table, and their bits.
const VF_TABLE: u32 = 64;
const VF_ENTRY: u8 = 0xF;

/// What a virtual function's flows are spread by: its registers, and which classes' ports are hashed
/// on the card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hash {
    pub family: Family,
    pub classes: [u32; VFQF_HENA::COUNT],
    pub key: [u32; VFQF_HKEY::COUNT],
    pub table: [u32; VFQF_HLUT::COUNT],
    pub with_ports: u64,
}

/// The unit with its tables.
#[derive(Debug)]
pub(super) struct Rss {
    family: Family,
    toeplitz: Toeplitz,
    /// Classes that are hashed, a bit each.
    classes: u64,
    /// Classes whose ports are hashed too.
    with_ports: u64,
    table: Vec<u8>,
    size: u32,
}

impl Rss {
    pub fn new(family: Family) -> Rss {
        Rss {
            family,
            toeplitz: Toeplitz::new(),
            classes: 0,
            with_ports: 0,
            table: vec![0; WHOLE as usize],
            size: HALF,
        }
    }

    /// Takes over the registers, and the key that the VSI of an X722 has.
    pub fn configure(&mut self, registers: &Registers, switch: &Switch) {
        let mask = ((1u32 << family::port(self.family).entry_bits) - 1) as u8;
        let pair = |low, high| u64::from(registers.read(low)) | u64::from(registers.read(high)) << 32;
        self.classes = pair(PFQF_HENA::at(0), PFQF_HENA::at(1));
        self.with_ports = (0..64)
            .filter(|n| {
                pair(GLQF_HASH_INSET::at(2 * n), GLQF_HASH_INSET::at(2 * n + 1)) & inset::SRC_PORT != 0
            })
            .fold(0, |classes, n| classes | 1 << n);
        for (n, entries) in self.table.chunks_mut(4).enumerate() {
            let word = registers.read(PFQF_HLUT::at(n)).to_le_bytes();
            entries.iter_mut().zip(word).for_each(|(entry, value)| *entry = value & mask);
        }
        let whole = registers.read(PFQF_CTL_0::AT) & PFQF_CTL_0::HASHLUTSIZE_512 != 0;
        self.size = if whole { WHOLE } else { HALF };
        let mut key = [0; KEY];
        for (n, word) in key.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let value = match self.family {
                Family::Xl710 => registers.read(PFQF_HKEY::at(n)),
                Family::X722 => switch.key.get(n).copied().unwrap_or(0),
            };
            *word = value.to_le_bytes();
        }
        self.toeplitz.set_key(key);
    }

    /// Takes over what a virtual function was given; `with_ports` is the card's.
    pub fn configure_vf(&mut self, hash: &Hash) {
        self.family = hash.family;
        self.classes = u64::from(hash.classes[0]) | u64::from(hash.classes[1]) << 32;
        self.with_ports = hash.with_ports;
        let entries = hash.table.iter().flat_map(|word| word.to_le_bytes());
        self.table.iter_mut().zip(entries).for_each(|(entry, value)| *entry = value & VF_ENTRY);
        self.size = VF_TABLE;
        let mut key = [0; KEY];
        for (bytes, word) in key.as_chunks_mut::<4>().0.iter_mut().zip(hash.key) {
            *bytes = word.to_le_bytes();
        }
        self.toeplitz.set_key(key);
    }

    /// Classes whose ports are hashed too, a bit each.
    pub fn with_ports(&self) -> u64 {
        self.with_ports
    }

    /// Whether packets are hashed with a key of zeroes.
    pub fn lacks_key(&self) -> bool {
        self.classes != 0 && self.toeplitz.lacks_key()
    }

    /// A frame's hash; `None` when its class is not hashed.
    pub fn hash(&self, frame: &[u8], headers: &Headers) -> Option<u32> {
        let class = family::hashed_class(self.family, frame, headers)?;
        if self.classes >> class & 1 == 0 {
            return None;
        }
        let (at, len) = match headers.network {
            Network::V4 { .. } => (ipv4::offset::SRC, ipv4::HEADER_LEN - ipv4::offset::SRC),
            _ => (ipv6::offset::SRC, ipv6::HEADER_LEN - ipv6::offset::SRC),
        };
        let mut input = [0; INPUT];
        input[..len].copy_from_slice(frame.get(usize::from(headers.l3) + at..)?.get(..len)?);
        let mut used = len;
        if self.with_ports >> class & 1 != 0 && headers.l4 != 0 {
            input[len..len + 4].copy_from_slice(frame.get(usize::from(headers.l4)..)?.get(..4)?);
            used += 4;
        }
        Some(self.toeplitz.hash(&input[..used]))
    }

    /// Which of the VSI's queues a hash leads to.
    pub fn queue(&self, hash: u32) -> u16 {
        self.table[(hash % self.size) as usize].into()
    }
}

/// The class of a packet; `None` for what has none.
pub(super) fn class_of(frame: &[u8], headers: &Headers) -> Option<u32> {
    let transport = Some(Protocol(headers.protocol)).filter(|_| headers.l4 != 0);
    match headers.network {
        Network::None => None,
        Network::V4 { .. } => {
            let fragment =
                || ipv4::Header::of(frame.get(headers.l3.into()..)?).map(|header| header.is_fragment());
            Some(match transport {
                Some(Protocol::TCP) => class::IPV4_TCP,
                Some(Protocol::UDP) => class::IPV4_UDP,
                Some(_) => class::IPV4_SCTP,
                None if fragment() == Some(true) => class::IPV4_FRAGMENT,
                None => class::IPV4_OTHER,
            })
        }
        Network::V6 { .. } => Some(match transport {
            Some(Protocol::TCP) => class::IPV6_TCP,
            Some(Protocol::UDP) => class::IPV6_UDP,
            Some(_) => class::IPV6_SCTP,
            None if Protocol(headers.protocol) == Protocol::FRAGMENT => class::IPV6_FRAGMENT,
            None => class::IPV6_OTHER,
        }),
    }
}

/// The packet type of a frame, as the write-back has it.
pub(super) fn packet_type(frame: &[u8], headers: &Headers) -> u8 {
    use descriptor::ptype;
    match class_of(frame, headers) {
        Some(class::IPV4_TCP) => ptype::IPV4_TCP,
        Some(class::IPV4_UDP) => ptype::IPV4_UDP,
        Some(class::IPV4_SCTP) => ptype::IPV4_SCTP,
        Some(class::IPV4_FRAGMENT) => ptype::IPV4_FRAGMENT,
        Some(class::IPV4_OTHER) => ptype::IPV4,
        Some(class::IPV6_TCP) => ptype::IPV6_TCP,
        Some(class::IPV6_UDP) => ptype::IPV6_UDP,
        Some(class::IPV6_SCTP) => ptype::IPV6_SCTP,
        Some(class::IPV6_FRAGMENT) => ptype::IPV6_FRAGMENT,
        Some(_) => ptype::IPV6,
        None if headers.ethertype == EtherType::ARP.0 => ptype::ARP,
        None if headers.ethertype == EtherType::PTP.0 => ptype::TIMESYNC,
        None => ptype::L2,
    }
}
