//! Resetting a virtual function and giving it what it has (datasheet chapters 4, 7 and 10): a VSI
//! with its filters, queues, vectors, what its hash spreads.

use std::thread::sleep;
use std::time::{Duration, Instant};

use regs::i40e::admin::{Descriptor, bandwidth, opcode, promiscuous, vsi};
use regs::i40e::*;
use regs::iavf::{QUEUES, VFQF_HLUT};

use super::super::filter::Filters;
use super::super::hash::Owner;
use super::super::info::FILTERS;
use super::super::interrupt::NO_QUEUE;
use super::super::stats::OfVf;
use super::{FIRST_QUEUE, Host, Policy, VF_QUEUES, Vf, Vsi};
use crate::{Error, Result};

/// After which a virtual function that could not be brought up is tried again.
const AGAIN: Duration = Duration::from_millis(100);
/// After which VPGEN_VFRSTAT tells of a reset: the device's queues run empty meanwhile. The datasheet
/// does not say it, and Linux's driver waits as long.
pub(super) const DRAINED: Duration = Duration::from_millis(10);
/// How long a reset may take from then on, in milliseconds.
const LIMIT_MS: u64 = 100;
/// How often a reset is looked at where nothing else is to be done.
const PAUSE: Duration = Duration::from_millis(1);
/// What it means that a reset does not end.
const STAYS: &str = "the virtual function does not come out of reset";

/// What a virtual function waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    /// The end of a reset that has begun, which can be seen from then on.
    Reset { from: Instant },
    /// It could not be brought up, and is reset again then.
    Again { at: Instant },
}

impl Host {
    /// The function's queue that is the `n`-th of a virtual one.
    pub(super) fn queue(vf: usize, n: usize) -> usize {
        FIRST_QUEUE + vf * VF_QUEUES + n
    }

    /// Takes up the resets of virtual functions by their own drivers (FLR); how many.
    pub(super) fn take_resets(&mut self) -> Result<usize> {
        let mut done = 0;
        for n in 0..self.vfs.len() {
            // The bits are those of all virtual functions of the card.
            let (block, bit) =
                ((usize::from(self.first) + n) / 32, 1 << ((usize::from(self.first) + n) % 32));
            if block >= GLGEN_VFLRSTAT::COUNT || self.chip.bar.read32(GLGEN_VFLRSTAT::at(block)) & bit == 0 {
                continue;
            }
            // All ones from a device that is gone are no resets.
            self.chip.pci.health()?;
            self.chip.bar.write32(GLGEN_VFLRSTAT::at(block), bit);
            self.begin_reset(n, false);
            done += 1;
        }
        Ok(done)
    }

    /// Resets a virtual function, once more where a reset is under way. It has nothing from then on,
    /// and is given what it has when the reset is over: [`Host::go_on`].
    pub(super) fn begin_reset(&mut self, n: usize, reset: bool) {
        let bar = &self.chip.bar;
        bar.write32(VFGEN_RSTAT1::at(n), reset_state::IN_PROGRESS);
        if reset {
            bar.write32(VPGEN_VFRTRIG::at(n), bar.read32(VPGEN_VFRTRIG::at(n)) | VPGEN_VFRTRIG::VFSWR);
        }
        let vf = &mut self.vfs[n];
        (vf.active, vf.configured, vf.running) = (false, [0; 2], [0; 2]);
        vf.counters.discarded += u64::from(vf.switching.take().is_some());
        vf.counters.resets += 1;
        vf.waits = Some(Wait::Reset { from: Instant::now() + self.drain });
    }

    /// Goes on with a reset of a virtual function; `None` while it is not time.
    ///
    /// # Errors
    /// When the reset does not end, or what it is to have is refused.
    fn go_on(&mut self, n: usize) -> Option<Result<()>> {
        let now = Instant::now();
        match self.vfs[n].waits? {
            Wait::Again { at } if at > now => None,
            Wait::Again { .. } => {
                self.begin_reset(n, true);
                Some(Ok(()))
            }
            Wait::Reset { from } if from > now => None,
            Wait::Reset { from } => {
                let (register, offset) = ("VPGEN_VFRSTAT", VPGEN_VFRSTAT::at(n));
                let (mask, last) = (VPGEN_VFRSTAT::VFRD, self.chip.bar.read32(offset));
                let waited_ms = now.duration_since(from).as_millis() as u64;
                let over = last & mask != 0;
                if !over && waited_ms < LIMIT_MS {
                    return None;
                }
                self.vfs[n].waits = None;
                let device = self.chip.name.clone();
                let (wanted, meaning) = (mask, STAYS);
                let late =
                    Error::Timeout { device, register, offset, last, mask, wanted, waited_ms, meaning };
                Some(if over { self.bring_up(n) } else { Err(late) })
            }
        }
    }

    /// Resets all virtual functions and brings them up.
    ///
    /// # Errors
    /// When one cannot be.
    pub(super) fn bring_up_all(&mut self) -> Result<()> {
        let all = 0..self.vfs.len();
        all.clone().for_each(|n| self.begin_reset(n, true));
        for n in all {
            while self.vfs[n].waits.is_some() {
                match self.go_on(n) {
                    Some(done) => done?,
                    None => sleep(PAUSE),
                }
            }
        }
        Ok(())
    }

    /// Goes on with all resets; how many had something to be done. When one cannot be brought up, that
    /// is this virtual function's alone: it stays in reset, is counted, and is tried again after a while.
    ///
    /// # Errors
    /// When the device itself fails.
    pub(super) fn go_on_with_resets(&mut self) -> Result<usize> {
        let mut done = 0;
        for n in 0..self.vfs.len() {
            let Some(ended) = self.go_on(n) else { continue };
            done += 1;
            let Err(error) = ended else { continue };
            let error = self.chip.unless_failed(error)?;
            tracing::warn!(port = self.chip.name, vf = n, "the virtual function stays in reset: {error}");
            let vf = &mut self.vfs[n];
            vf.counters.not_brought_up += 1;
            vf.waits = Some(Wait::Again { at: Instant::now() + AGAIN });
        }
        Ok(done)
    }

    /// Gives a virtual function that was reset what it has.
    fn bring_up(&mut self, n: usize) -> Result<()> {
        let chip = self.chip.clone();
        let bar = &chip.bar;
        // What it sent before is not the next one's, who may have other memory.
        chip.fetch_events()?;
        let discarded = chip.state().inbox.forget(usize::from(self.first) + n);
        self.vfs[n].counters.discarded += discarded;
        bar.write32(VFGEN_RSTAT1::at(n), reset_state::COMPLETED);
        let trigger = bar.read32(VPGEN_VFRTRIG::at(n));
        bar.write32(VPGEN_VFRTRIG::at(n), trigger & !VPGEN_VFRTRIG::VFSWR);
        bar.write32(VP_MDET_TX::at(n), VP_MDET_TX::VALID);
        bar.write32(VP_MDET_RX::at(n), VP_MDET_RX::VALID);
        if let Some(gone) = self.vfs[n].vsi {
            chip.delete(gone.seid)?;
            self.vfs[n].vsi = None;
        }
        let vsi = self.add_vsi(n)?;
        let vf = &mut self.vfs[n];
        vf.vsi = Some(vsi);
        vf.counted = OfVf::new(bar, vsi.counters, usize::from(self.first) + n);
        vf.filters = vf.first_filters(chip.firmware().api >= promiscuous::RX_ONLY_SINCE);
        let filters = &mut vf.filters;
        chip.with_admin(|admin| filters.tell(admin, vsi.seid, &chip.name))?;
        self.limit(n, vsi)?;
        self.map(n, vsi)?;
        bar.write32(VFGEN_RSTAT1::at(n), reset_state::ACTIVE);
        Ok(())
    }

    /// Adds the VSI of a virtual function.
    fn add_vsi(&self, n: usize) -> Result<Vsi> {
        let Policy { vlan, spoof_check, .. } = self.vfs[n].policy;
        let mut properties = [0; vsi::LEN];
        let mut put = |at: usize, value: u16| properties[at..at + 2].copy_from_slice(&value.to_le_bytes());
        let mut sections = vsi::SWITCH_VALID | vsi::SECURITY_VALID | vsi::VLAN_VALID | vsi::QUEUE_MAP_VALID;
        let by_commands = self.chip.generation.hash_by_commands;
        sections |= if by_commands { vsi::QUEUE_OPT_VALID } else { 0 };
        put(vsi::VALID_SECTIONS, sections);
        put(vsi::SWITCH_ID, vsi::ALLOW_LB);
        put(vsi::PVID, vlan.unwrap_or(0));
        put(vsi::MAPPING_FLAGS, vsi::MAPPING_LIST);
        for queue in 0..VF_QUEUES.min(vsi::MAPPED) {
            put(vsi::QUEUE_MAPPING + 2 * queue, Host::queue(n, queue) as u16);
        }
        put(vsi::TC_MAPPING, (VF_QUEUES.ilog2() as u16) << vsi::TC_NUMBER_SHIFT);
        properties[vsi::SECURITY] = if spoof_check { vsi::ENABLE_MAC_CHK | vsi::ENABLE_VLAN_CHK } else { 0 };
        properties[vsi::PORT_VLAN_FLAGS] = port_vlan_flags(vlan, false);
        properties[vsi::QUEUE_OPTIONS] = if by_commands { vsi::RSS_LUT_VSI } else { 0 };
        let mut add = Descriptor::new(opcode::ADD_VSI);
        add.set_param(0, &self.bridge.to_le_bytes());
        add.set_param(vsi::CONNECTION, &[vsi::CONNECTION_NORMAL]);
        add.set_param(vsi::VF_ID, &[(self.first as usize + n) as u8]);
        add.set_param(vsi::FLAGS, &vsi::TYPE_VF.to_le_bytes());
        let added = self.chip.with_admin(|admin| admin.write(add, &properties))?;
        let (seid, number) = (added.param16(0), added.param16(vsi::NUMBER));
        self.read_vsi(seid, number).inspect_err(|_| {
            // It is nobody's, and there is one for each virtual function.
            if let Err(error) = self.chip.delete(seid) {
                tracing::debug!(port = self.chip.name, "{error}");
            }
        })
    }

    /// Limits what a virtual function sends, as its policy says; a VSI has no limit at first.
    fn limit(&self, n: usize, vsi: Vsi) -> Result<()> {
        let Some(mbps) = self.vfs[n].policy.rate_mbps else { return Ok(()) };
        let units = (mbps / bandwidth::UNIT_MBPS).clamp(1, bandwidth::HIGHEST.into()) as u16;
        let mut limit = Descriptor::new(opcode::CONFIGURE_VSI_BW_LIMIT);
        limit.set_param(0, &vsi.seid.to_le_bytes());
        limit.set_param(bandwidth::LIMIT, &units.to_le_bytes());
        self.chip.with_admin(|admin| admin.command(limit)).map(|_| ())
    }

    /// What the firmware says of a VSI that it added.
    fn read_vsi(&self, seid: u16, number: u16) -> Result<Vsi> {
        let mut get = Descriptor::new(opcode::GET_VSI);
        get.set_param(0, &seid.to_le_bytes());
        let (_, made) = self.chip.with_admin(|admin| admin.read(get, vsi::LEN))?;
        if made.len() < vsi::LEN || usize::from(number) >= VSILAN_QBASE::COUNT {
            return Err(self.chip.nonsense("ADD_VSI", "there is no such VSI"));
        }
        let half = |at: usize| u16::from_le_bytes([made[at], made[at + 1]]);
        let counters = usize::from(half(vsi::STAT_COUNTER)).min(GLV_RDPC::COUNT - 1);
        Ok(Vsi { seid, number, queue_set: half(vsi::QS_HANDLE), counters })
    }

    /// Maps queues and vectors of a virtual function (chapter 10).
    fn map(&self, n: usize, vsi: Vsi) -> Result<()> {
        let chip = &self.chip;
        let bar = &chip.bar;
        let number = usize::from(vsi.number);
        chip.write_receive_register(VSILAN_QBASE::at(number), VSILAN_QBASE::VSIQTABLE_ENA)?;
        let none = VPLAN_QTABLE::QINDEX_MASK;
        let queue = |at: usize| if at < VF_QUEUES { Host::queue(n, at) as u32 } else { none };
        for at in 0..QUEUES {
            bar.write32(VPLAN_QTABLE::at(row(at, n)), queue(at));
        }
        bar.write32(VPLAN_MAPENA::at(n), VPLAN_MAPENA::TXRX_ENA);
        for at in 0..QUEUES / 2 {
            let both = queue(2 * at) | queue(2 * at + 1) << VSILAN_QTABLE::QINDEX_1_SHIFT;
            // Rows of the VSIs' table have 512 registers.
            bar.write32(VSILAN_QTABLE::at(row(2 * at, 0) + number), both);
        }
        bar.write32(VPINT_LNKLST0::at(n), NO_QUEUE);
        bar.write32(VFINT_DYN_CTL0::at(n), VFINT_DYN_CTL0::CLEARPBA);
        for vector in self.vector_registers(n) {
            bar.write32(VPINT_LNKLSTN::at(vector), NO_QUEUE);
            bar.write32(VFINT_DYN_CTLN::at(vector), VFINT_DYN_CTLN::CLEARPBA);
        }
        for queue in (0..VF_QUEUES).map(|at| Host::queue(n, at)) {
            bar.write32(QINT_RQCTL::at(queue), 0);
            bar.write32(QINT_TQCTL::at(queue), 0);
        }
        // No reset of a virtual function clears its hash: nothing of the one before stays. Until its
        // driver sets a key, there is one that spreads.
        let owner = Owner::Vf { n, vsi: vsi.number };
        chip.set_key(owner, &port::Options::default().rss.key)?;
        chip.set_table(owner, &[0; 4 * VFQF_HLUT::COUNT])?;
        let classes = chip.generation.hashed();
        chip.write_receive_register(VFQF_HENA1::at(row(0, n)), classes as u32)?;
        chip.write_receive_register(VFQF_HENA1::at(row(1, n)), (classes >> 32) as u32)
    }

    /// Which registers the vectors of a virtual function from 1 on have.
    pub(super) fn vector_registers(&self, n: usize) -> std::ops::Range<usize> {
        let each = usize::from(self.vectors.saturating_sub(1));
        (n * each).min(VPINT_LNKLSTN::COUNT)..((n + 1) * each).min(VPINT_LNKLSTN::COUNT)
    }

    /// Takes from a virtual function that is being reset what it has, for good. All resets have the time
    /// of one, from `begun` on.
    pub(super) fn take_down(&mut self, n: usize, begun: Instant) {
        let bar = &self.chip.bar;
        let (offset, done) = (VPGEN_VFRSTAT::at(n), VPGEN_VFRSTAT::VFRD);
        let left_ms = LIMIT_MS.saturating_sub(begun.elapsed().as_millis() as u64);
        if let Err(error) = self.chip.wait(left_ms, "VPGEN_VFRSTAT", offset, done, done, STAYS) {
            tracing::warn!(port = self.chip.name, vf = n, "{error}");
        }
        bar.write32(VPLAN_MAPENA::at(n), 0);
        bar.write32(VPGEN_VFRTRIG::at(n), 0);
        if let Some(vsi) = self.vfs[n].vsi.take()
            && let Err(error) = self.chip.delete(vsi.seid)
        {
            tracing::debug!(port = self.chip.name, "{error}");
        }
    }
}

impl Vf {
    /// What a virtual function receives at first: its own address and broadcasts.
    fn first_filters(&self, rx_only: bool) -> Filters {
        let mut filters = Filters::new(self.mac);
        (filters.receiving, filters.rx_only, filters.port_vlan) = (true, rx_only, self.policy.vlan);
        filters.others = FILTERS - self.limits.filters;
        filters
    }
}

/// What is done to tags.
pub(super) fn port_vlan_flags(vlan: Option<u16>, strip: bool) -> u8 {
    match (vlan, strip) {
        (Some(_), _) => vsi::PVLAN_MODE_TAGGED | vsi::PVLAN_INSERT_PVID | vsi::PVLAN_EMOD_STRIP_UNTOLD,
        (None, true) => vsi::PVLAN_MODE_ALL | vsi::PVLAN_EMOD_STRIP,
        (None, false) => vsi::PVLAN_MODE_ALL | vsi::PVLAN_EMOD_NOTHING,
    }
}
