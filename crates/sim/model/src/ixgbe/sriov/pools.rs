//! Which pools a frame goes to, and what a pool may send (7.10.3): addresses, modes and VLANs of
//! pools, as the registers set them.

use regs::ixgbe::*;
use wire::ethernet::{ADDRESSES_LEN, Addresses};
use wire::vlan;

use super::super::registers::Registers;
use crate::relay::{tag_of, tagged};

/// The most pools.
pub const POOLS: usize = 64;

const ADDRESS: u64 = (1 << 48) - 1;

/// The pools of queues, one for each virtual function.
#[derive(Debug)]
pub struct Pools {
    /// Queues of each; none while there are no pools.
    pub queues: u8,
    /// The pool of frames that no other wants.
    pub default: Option<u8>,
    /// Frames are copied for several (PFVTCTL.REPLEN), and what a pool sends is offered to others
    /// (PFDTXGSWC).
    copies: bool,
    loops: bool,
    /// Bits of pools that may receive, and send.
    pub receive: u64,
    pub send: u64,
    /// Addresses with their pools.
    addresses: Vec<(u64, u64)>,
    /// VLANs with their pools, where the VLAN filter is on.
    vlans: Option<Vec<(u16, u64)>>,
    multicast: Option<[u32; MTA::COUNT]>,
    unicast: [u32; PFUTA::COUNT],
    hash_shift: u32,
    /// Bits of pools with each mode of PFVML2FLT.
    accepts_untagged: u64,
    by_multicast: u64,
    by_unicast: u64,
    broadcast: u64,
    all_multicast: u64,
    /// Bits of pools whose senders' addresses, and whose VLANs, are checked.
    check_address: u64,
    check_vlan: u64,
    insert: [u32; POOLS],
}

impl Pools {
    /// As the registers have them.
    pub fn new(registers: &Registers) -> Pools {
        let read = |at: u32| registers.read(at);
        let pair = |at: fn(usize) -> u32| u64::from(read(at(0))) | u64::from(read(at(1))) << 32;
        let (control, mode) = (read(PFVTCTL::AT), read(MRQC::AT) & MRQC::MRQE_MASK);
        let queues = match mode {
            _ if control & PFVTCTL::VT_ENA == 0 => 0,
            MRQC::MRQE_32_POOLS_RSS => 4,
            _ => 2,
        };
        let default = ((control & PFVTCTL::POOL_MASK) >> PFVTCTL::POOL_SHIFT) as u8;
        let with = |bit: u32| {
            (0..POOLS).filter(|n| read(PFVML2FLT::at(*n)) & bit != 0).fold(0, |bits, n| bits | 1 << n)
        };
        let spoof = |shift: u32| {
            let eight = |n: usize| u64::from(read(PFVFSPOOF::at(n)) >> shift & 0xFF) << (8 * n);
            (0..PFVFSPOOF::COUNT).map(eight).fold(0, |bits, eight| bits | eight)
        };
        Pools {
            queues,
            default: (control & PFVTCTL::DIS_DEF_POOL == 0).then_some(default),
            copies: control & PFVTCTL::REPLEN != 0,
            loops: read(PFDTXGSWC::AT) & PFDTXGSWC::LPE != 0,
            receive: pair(PFVFRE::at),
            send: pair(PFVFTE::at),
            addresses: addresses(registers),
            vlans: (read(VLNCTRL::AT) & VLNCTRL::VFE != 0).then(|| vlans(registers)),
            multicast: (read(MCSTCTRL::AT) & MCSTCTRL::MFE != 0)
                .then(|| std::array::from_fn(|n| read(MTA::at(n)))),
            unicast: std::array::from_fn(|n| read(PFUTA::at(n))),
            hash_shift: [4, 3, 2, 0][(read(MCSTCTRL::AT) & MCSTCTRL::MO_MASK) as usize],
            accepts_untagged: with(PFVML2FLT::AUPE),
            by_multicast: with(PFVML2FLT::ROMPE),
            by_unicast: with(PFVML2FLT::ROPE),
            broadcast: with(PFVML2FLT::BAM),
            all_multicast: with(PFVML2FLT::MPE),
            check_address: spoof(0),
            check_vlan: spoof(PFVFSPOOF::VLAN_SHIFT),
            insert: std::array::from_fn(|n| read(PFVMVIR::at(n))),
        }
    }

    /// Whether what pools send is offered to others.
    pub fn loops(&self) -> bool {
        self.loops
    }

    /// The pools that have an address, a bit each.
    fn with_address(&self, address: u64) -> u64 {
        let same = self.addresses.iter().filter(|(other, _)| *other == address);
        same.fold(0, |bits, (_, pools)| bits | pools)
    }

    /// The pools of a VLAN, or of frames without one.
    fn with_tag(&self, tag: Option<u16>) -> u64 {
        let Some(tag) = tag else { return self.accepts_untagged };
        let Some(vlans) = &self.vlans else { return u64::MAX };
        let same = vlans.iter().filter(|(id, _)| *id == tag & vlan::ID);
        same.fold(0, |bits, (_, pools)| bits | pools)
    }

    /// The pools that want a frame, a bit each, and whether it is to an address that one of them has:
    /// such a frame stays inside.
    pub fn wanting(&self, frame: &[u8]) -> (u64, bool) {
        let Some(addresses) = Addresses::of(frame) else { return (0, false) };
        let [a, b, c, d, e, f] = addresses.dst().0;
        let destination = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        let hash = ((destination >> 32) as u32 >> self.hash_shift) as usize & 0xFFF;
        let hit = |table: &[u32]| table.get(hash >> 5).is_some_and(|word| word >> (hash & 31) & 1 != 0);
        let exact = self.with_address(destination);
        let by_mode = match destination {
            ADDRESS => self.broadcast,
            multicast if multicast & 1 != 0 => {
                let by_hash = self.multicast.as_ref().is_some_and(|table| hit(table));
                self.all_multicast | if by_hash { self.by_multicast } else { 0 }
            }
            _ if hit(&self.unicast) => self.by_unicast,
            _ => 0,
        };
        let wanting = (exact | by_mode) & self.with_tag(tag_of(frame));
        match destination & 1 != 0 && !self.copies {
            true => (0, false),
            false => (wanting, exact & wanting != 0 && destination & 1 == 0),
        }
    }

    /// What a frame of a pool becomes that it may send (7.10.3.9); `None` for one that it may not.
    pub fn admit(&self, pool: usize, frame: Vec<u8>) -> Option<Vec<u8>> {
        let source: &[u8; 6] = frame.get(ADDRESSES_LEN / 2..)?.first_chunk()?;
        let [a, b, c, d, e, f] = *source;
        let bit = 1 << pool;
        let source = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        if self.check_address & bit != 0 && self.with_address(source) & bit == 0 {
            return None;
        }
        let (insert, tag) = (self.insert[pool], tag_of(&frame));
        if insert & PFVMVIR::ACTION_MASK == PFVMVIR::ALWAYS {
            // One that brings a tag of its own would have two.
            return tag.is_none().then(|| tagged(&frame, (insert & PFVMVIR::TAG_MASK) as u16));
        }
        let foreign = tag.is_some() && self.with_tag(tag) & bit == 0;
        (self.check_vlan & bit == 0 || !foreign).then_some(frame)
    }
}

/// Receive addresses with the pools of each.
fn addresses(registers: &Registers) -> Vec<(u64, u64)> {
    let entry = |n: usize| {
        let (low, high) = (registers.read(RAL::at(n)), registers.read(RAH::at(n)));
        let address = u64::from(high & RAH::ADDRESS_MASK) << 32 | u64::from(low);
        let pools =
            u64::from(registers.read(MPSAR_LO::at(n))) | u64::from(registers.read(MPSAR_HI::at(n))) << 32;
        (high & RAH::AV != 0 && pools != 0).then_some((address, pools))
    };
    (0..RAL::COUNT).filter_map(entry).collect()
}

/// VLANs with the pools of each.
fn vlans(registers: &Registers) -> Vec<(u16, u64)> {
    let entry = |n: usize| {
        let vlan = registers.read(PFVLVF::at(n));
        let pools = u64::from(registers.read(PFVLVFB::at(2 * n)))
            | u64::from(registers.read(PFVLVFB::at(2 * n + 1))) << 32;
        (vlan & PFVLVF::VALID != 0).then_some(((vlan & PFVLVF::ID_MASK) as u16, pools))
    };
    (0..PFVLVF::COUNT).filter_map(entry).collect()
}
