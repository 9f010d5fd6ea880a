//! Pools of queues, and which frames go to them (7.10.3, 8.2.3.27).

use port::{Link, Options};
use regs::ixgbe::*;

use super::super::device::Chip;
use super::Host;
use crate::Result;
use crate::intel::RingRegisters;
use crate::intel::ring_registers::address::address_words;
use crate::intel::ring_registers::rss;

/// Entries of the address table that are nobody's own: the port's, and each virtual function's,
/// come before.
const FIRST_SHARED: usize = 1 + super::MOST_VFS;
/// How many those are.
pub(super) const SHARED: usize = RAL::COUNT - FIRST_SHARED;
/// The entry of the VLAN table that is always VLAN 0's, whose tag is a priority alone (802.1Q 6.9.3).
const PRIORITY: usize = 0;

/// Whose VLAN 0 is.
const PRIORITY_POOLS: [u32; 2] = [PFVLVFB::at(2 * PRIORITY), PFVLVFB::at(2 * PRIORITY + 1)];

/// An address beside its own of a virtual function, and the function's pool.
pub(super) type PoolAddress = ([u8; 6], usize);

impl Chip {
    /// Makes pools of so many queues each (4.6.10.1.4); nobody has any frames yet.
    pub(super) fn make_pools(&self, queues: usize, vfs: usize, options: &Options) -> Result<()> {
        let bar = &self.bar;
        let (mode, spread, limits) = match queues {
            4 => (2, MRQC::MRQE_32_POOLS_RSS, MTQC::POOLS_32),
            _ => (3, MRQC::MRQE_64_POOLS_RSS, MTQC::POOLS_64),
        };
        bar.write32(GCR_EXT::AT, bar.read32(GCR_EXT::AT) & !GCR_EXT::VT_MODE_MASK | mode | GCR_EXT::MSIX_EN);
        let modes = GPIE::MULTIPLE_MSIX | GPIE::PBA_SUPPORT | GPIE::EIAME;
        bar.write32(GPIE::AT, modes | mode << GPIE::VT_MODE_SHIFT);
        // The scheduler rests while its mode changes.
        bar.set32(RTTDCS::AT, RTTDCS::ARBDIS);
        bar.write32(MTQC::AT, MTQC::VT_ENA | limits);
        bar.clear32(RTTDCS::AT, RTTDCS::ARBDIS);
        let own = (vfs as u32) << PFVTCTL::POOL_SHIFT;
        bar.write32(PFVTCTL::AT, PFVTCTL::VT_ENA | PFVTCTL::REPLEN | PFVTCTL::DIS_DEF_POOL | own);
        bar.write32(PFDTXGSWC::AT, PFDTXGSWC::LPE);
        let info = Self::REGISTERS;
        rss::program_tables(bar, info, &options.rss, queues);
        let fields =
            (info.rss_addresses | if options.rss.ports { info.rss_ports } else { 0 }) & !MRQC::MRQE_MASK;
        bar.write32(MRQC::AT, spread | fields);
        for n in 0..RAL::COUNT {
            bar.write32(MPSAR_LO::at(n), 0);
            bar.write32(MPSAR_HI::at(n), 0);
        }
        (0..PFVLVF::COUNT).for_each(|n| bar.write32(PFVLVF::at(n), 0));
        (0..PFVLVFB::COUNT).for_each(|n| bar.write32(PFVLVFB::at(n), 0));
        (0..PFVML2FLT::COUNT).for_each(|n| bar.write32(PFVML2FLT::at(n), 0));
        (0..PFUTA::COUNT).for_each(|n| bar.write32(PFUTA::at(n), 0));
        (0..PFVMVIR::COUNT).for_each(|n| bar.write32(PFVMVIR::at(n), 0));
        (0..PFVFSPOOF::COUNT).for_each(|n| bar.write32(PFVFSPOOF::at(n), 0));
        for rows in [PFVFRE::REGISTER, PFVFTE::REGISTER] {
            (0..rows.len()).for_each(|n| bar.write32(rows.at(n), 0));
        }
        bar.set32(VLNCTRL::AT, VLNCTRL::VFE);
        bar.write32(MCSTCTRL::AT, MCSTCTRL::MFE);
        Ok(())
    }

    /// Sets a bit of a pool in one of a pair of registers.
    fn set_pool(&self, rows: [u32; 2], pool: usize, on: bool) {
        let (at, bit) = (rows[pool / 32], 1 << (pool % 32));
        match on {
            true => self.bar.set32(at, bit),
            false => self.bar.clear32(at, bit),
        }
    }

    /// Leads frames to an address to a pool; the entry may have been another's.
    fn set_address(&self, entry: usize, mac: [u8; 6], pool: usize) {
        let [low, high] = address_words(mac);
        self.clear_address(entry);
        self.bar.write32(RAL::at(entry), low);
        self.bar.write32(RAH::at(entry), high | RAH::AV);
        self.set_pool([MPSAR_LO::at(entry), MPSAR_HI::at(entry)], pool, true);
    }

    fn clear_address(&self, entry: usize) {
        let bar = &self.bar;
        for at in [RAH::at(entry), RAL::at(entry), MPSAR_LO::at(entry), MPSAR_HI::at(entry)] {
            bar.write32(at, 0);
        }
    }

    /// Whether a pool may receive, and send.
    fn set_working(&self, pool: usize, on: bool) {
        self.set_pool([PFVFRE::at(0), PFVFRE::at(1)], pool, on);
        self.set_pool([PFVFTE::at(0), PFVFTE::at(1)], pool, on);
    }
}

/// RTTBCNRC of each of so many queues that may send so many Mbit/s together. A link that is down is as
/// fast as it may become.
fn rate_of(link: Link, mbps: u32, queues: usize) -> u32 {
    let speed = if link.up { u64::from(link.speed_mbps) } else { 10_000 };
    let (whole, share) = ((speed * queues as u64) << RTTBCNRC::RF_INT_SHIFT, u64::from(mbps.max(1)));
    match whole.div_ceil(share) {
        // As much as the link takes.
        factor if factor <= 1 << RTTBCNRC::RF_INT_SHIFT => 0,
        factor => RTTBCNRC::RS_ENA | factor.min(RTTBCNRC::RF_MASK.into()) as u32,
    }
}

impl Host {
    /// Takes everything from a virtual function: it receives and sends nothing until its driver begins
    /// anew.
    pub(super) fn take_down(&mut self, n: usize) {
        self.vfs[n].ping = false;
        // Without a driver that began it has nothing.
        if !self.vfs[n].ready {
            return;
        }
        self.chip.set_working(n, false);
        self.chip.bar.write32(PFVML2FLT::at(n), 0);
        self.chip.clear_address(1 + n);
        self.chip.set_pool(PRIORITY_POOLS, n, false);
        let vlans = std::mem::take(&mut self.vfs[n].vlans);
        vlans.into_iter().for_each(|vlan| self.leave_vlan(n, vlan));
        let vf = &mut self.vfs[n];
        (vf.ready, vf.version, vf.all_multicast) = (false, 0, false);
        // Who drives it next is another, maybe.
        vf.mac = vf.first_mac;
        vf.unicast.clear();
        vf.multicast.clear();
        self.tell_addresses();
        self.tell_multicast();
    }

    /// Gives a virtual function its pool, with what its policy says.
    pub(super) fn bring_up(&mut self, n: usize) {
        let (policy, mac) = (self.vfs[n].policy, self.vfs[n].mac);
        self.chip.set_address(1 + n, mac, n);
        let insert = policy.vlan.map_or(0, |vlan| PFVMVIR::ALWAYS | u32::from(vlan));
        self.chip.bar.write32(PFVMVIR::at(n), insert);
        let checks = 1 << (n % 8) | 1 << (PFVFSPOOF::VLAN_SHIFT + n as u32 % 8);
        match policy.spoof_check {
            true => self.chip.bar.set32(PFVFSPOOF::at(n / 8), checks),
            false => self.chip.bar.clear32(PFVFSPOOF::at(n / 8), checks),
        }
        // Frames with a priority alone are as those without a tag.
        self.chip.set_pool(PRIORITY_POOLS, n, policy.vlan.is_none());
        if let Some(vlan) = policy.vlan
            && !self.join_vlan(n, vlan)
        {
            self.vfs[n].counters.not_brought_up += 1;
        }
        // What has no descriptor is dropped, and holds up nobody else (8.2.3.8.11).
        for queue in n * self.queues..(n + 1) * self.queues {
            self.chip.bar.write32(PFQDE::AT, 1 << 16 | (queue as u32) << 8 | 1);
        }
        self.vfs[n].ready = true;
        self.set_mode(n);
        self.chip.set_working(n, true);
    }

    /// Limits what virtual functions send, as their policies say (7.7.2.2): each of their queues, by a
    /// factor of the link's speed, has its share.
    pub(super) fn limit(&self) {
        let bar = &self.chip.bar;
        let limited = |vf: &super::Vf| vf.policy.rate_mbps.is_some();
        if !self.vfs.iter().any(limited) {
            return;
        }
        bar.write32(RTTBCNRM::AT, RTTBCNRM::MMW_SIZE_9728);
        for (n, vf) in self.vfs.iter().enumerate() {
            let Some(mbps) = vf.policy.rate_mbps else { continue };
            let rate = rate_of(self.link, mbps, self.queues);
            for queue in n * self.queues..(n + 1) * self.queues {
                bar.write32(RTTDQSEL::AT, queue as u32);
                bar.write32(RTTBCNRC::AT, rate);
            }
        }
    }

    /// Which frames come without an address of their own.
    pub(super) fn set_mode(&self, n: usize) {
        let vf = &self.vfs[n];
        let untagged = if vf.policy.vlan.is_none() { PFVML2FLT::AUPE } else { 0 };
        let some = if vf.multicast.is_empty() { 0 } else { PFVML2FLT::ROMPE };
        let all = if vf.all_multicast { PFVML2FLT::MPE } else { 0 };
        self.chip.bar.write32(PFVML2FLT::at(n), PFVML2FLT::BAM | untagged | some | all);
    }

    /// Writes the addresses beside their own of all virtual functions, as far as they are not written
    /// yet: others' frames go on meanwhile. `false` when there is no room for them all.
    pub(super) fn tell_addresses(&mut self) -> bool {
        let Host { chip, vfs, shared, .. } = self;
        let of = |(n, vf): (usize, &super::Vf)| vf.unicast.iter().map(|mac| (*mac, n)).collect::<Vec<_>>();
        let all: Vec<PoolAddress> = vfs.iter().enumerate().flat_map(of).collect();
        for (n, there) in shared.iter_mut().enumerate() {
            if there.is_some_and(|there| !all.contains(&there)) {
                chip.clear_address(FIRST_SHARED + n);
                *there = None;
            }
        }
        let mut fits = true;
        for (mac, pool) in all {
            if shared.contains(&Some((mac, pool))) {
                continue;
            }
            match shared.iter().position(Option::is_none) {
                Some(free) => {
                    chip.set_address(FIRST_SHARED + free, mac, pool);
                    shared[free] = Some((mac, pool));
                }
                None => fits = false,
            }
        }
        fits
    }

    /// Writes the hashes of the multicast addresses of all virtual functions, where they change.
    pub(super) fn tell_multicast(&mut self) {
        let mut words = [0; MTA::COUNT];
        for hash in self.vfs.iter().flat_map(|vf| &vf.multicast) {
            words[usize::from(hash >> 5) % MTA::COUNT] |= 1 << (hash & 31);
        }
        for (n, (word, there)) in words.iter().zip(&mut self.hashes).enumerate() {
            if std::mem::replace(there, *word) != *word {
                self.chip.bar.write32(MTA::at(n), *word);
            }
        }
    }

    /// Which entry of the VLAN table has one, or is free.
    fn vlan_entry(&self, vlan: u16) -> (Option<usize>, Option<usize>) {
        let mut free = None;
        for n in PRIORITY + 1..PFVLVF::COUNT {
            let entry = self.chip.bar.read32(PFVLVF::at(n));
            match entry & PFVLVF::VALID != 0 {
                true if entry & PFVLVF::ID_MASK == u32::from(vlan) => return (Some(n), free),
                false => free = free.or(Some(n)),
                true => {}
            }
        }
        (None, free)
    }

    /// Takes the entries of VLANs that policies give, for good: other functions' drivers may fill the rest.
    /// There are as many entries as virtual functions at the most.
    pub(super) fn keep_vlans(&self) {
        self.enter_vlan(PRIORITY, 0);
        for vlan in self.vfs.iter().filter_map(|vf| vf.policy.vlan) {
            if let (None, Some(free)) = self.vlan_entry(vlan) {
                self.enter_vlan(free, vlan);
            }
        }
    }

    fn enter_vlan(&self, entry: usize, vlan: u16) {
        self.chip.bar.write32(PFVLVF::at(entry), PFVLVF::VALID | u32::from(vlan));
        self.chip.bar.set32(VFTA::at(usize::from(vlan >> 5) & 127), 1 << (vlan & 31));
    }

    /// A pool receives a VLAN's frames; `false` when there is no room for one more.
    pub(super) fn join_vlan(&mut self, n: usize, vlan: u16) -> bool {
        let (found, free) = self.vlan_entry(vlan);
        let Some(entry) = found.or(free) else { return false };
        self.chip.set_pool([PFVLVFB::at(2 * entry), PFVLVFB::at(2 * entry + 1)], n, true);
        self.enter_vlan(entry, vlan);
        if !self.vfs[n].vlans.contains(&vlan) {
            self.vfs[n].vlans.push(vlan);
        }
        true
    }

    /// And no longer. A VLAN that nobody has frees its entry, if no policy gives it.
    pub(super) fn leave_vlan(&mut self, n: usize, vlan: u16) {
        self.vfs[n].vlans.retain(|other| *other != vlan);
        let (Some(entry), _) = self.vlan_entry(vlan) else { return };
        let rows = [PFVLVFB::at(2 * entry), PFVLVFB::at(2 * entry + 1)];
        self.chip.set_pool(rows, n, false);
        let kept = self.vfs.iter().any(|vf| vf.policy.vlan == Some(vlan));
        if !kept && rows.iter().all(|at| self.chip.bar.read32(*at) == 0) {
            self.chip.bar.write32(PFVLVF::at(entry), 0);
            self.chip.bar.clear32(VFTA::at(usize::from(vlan >> 5) & 127), 1 << (vlan & 31));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_factor_of_the_links_speed_and_never_more_than_was_asked_for() {
        let of = |mbps| rate_of(Link::up(10_000), mbps, 4);
        // 10,000 Mbit/s divided by 100 are four times 25.
        assert_eq!(of(400), 1 << 31 | 100 << 14);
        assert_eq!(rate_of(Link::up(1_000), 400, 4), 1 << 31 | 10 << 14);
        assert_eq!(rate_of(Link::DOWN, 400, 4), of(400));
        assert_eq!(of(0), 1 << 31 | 0xFF_FFFF, "the lowest that there is");
        assert_eq!((of(40_000), of(u32::MAX)), (0, 0), "no limit");
        for mbps in (41..40_000).step_by(97) {
            let factor = u64::from(of(mbps) & RTTBCNRC::RF_MASK);
            assert!((10_000 << 14) * 4 <= u64::from(mbps) * factor, "{mbps}");
        }
    }
}
