//! The times at which messages of PTP came, which the device keeps in four places (datasheet chapter 10).
//!
//! Stamped are event messages of version 2, in frames of their own and over UDP. The clock has to be told
//! what a tick adds to it, which is a matter of the link's speed: it is told anew whenever somebody asks
//! for the link and its speed is another. One function of each port has the clock.

use std::sync::Arc;

use port::Link;
use regs::i40e::*;

use super::device::Chip;
use crate::intel::Device;
use crate::intel::clock::{Clock, Words};
use crate::intel::latches::Latches;

/// From this version of the firmware on an XL710 stamps messages over UDP, by Linux's driver.
const DATAGRAMS_SINCE: u16 = 6;

/// The places of a device.
pub(super) fn latches(device: &Device) -> Arc<Latches> {
    let register = |offset| device.bar.register(offset);
    let time = |n| [PRTTSYN_RXTIME_L::at(n), PRTTSYN_RXTIME_H::at(n)].map(register);
    Arc::new(Latches::new(register(PRTTSYN_STAT_1::AT), (0..RX_TIMES).map(time).collect()))
}

impl Chip {
    /// The clock, if it is this function's.
    pub(super) fn port_clock(&self) -> Option<Clock> {
        let bar = &self.bar;
        let owner = (bar.read32(PRTTSYN_CTL0::AT) & PRTTSYN_CTL0::PF_ID_MASK) >> PRTTSYN_CTL0::PF_ID_SHIFT;
        let function = bar.read32(PF_FUNC_RID::AT) & PF_FUNC_RID::FUNCTION_NUMBER_MASK;
        let words = Words::Halves([PRTTSYN_TIME_L::AT, PRTTSYN_TIME_H::AT].map(|at| bar.register(at)));
        (owner == function).then(|| Clock::new(words, self.clock_turn.clone()).keeping(self.latches.clone()))
    }

    /// Has messages stamped, by a clock that begins at zero.
    pub(super) fn start_timestamps(&self) {
        let bar = &self.bar;
        bar.set32(PRTTSYN_CTL0::AT, PRTTSYN_CTL0::TSYNENA);
        // The lower half counts with the upper one.
        bar.write32(PRTTSYN_TIME_L::AT, 0);
        bar.write32(PRTTSYN_TIME_H::AT, 0);
        self.state().tick = Some(0);
        self.follow_link(Link::DOWN);
    }

    /// Tells the clock what a tick adds with this link, if messages are stamped.
    pub(super) fn follow_link(&self, link: Link) {
        let mut state = self.state();
        let factor = if link.up { tick_factor(link.speed_mbps).unwrap_or(0) } else { 1 };
        let Some(before) = state.tick.filter(|before| *before != factor) else { return };
        state.tick = Some(factor);
        drop(state);
        let bar = &self.bar;
        if factor == 0 {
            return bar.write32(PRTTSYN_CTL1::AT, 0);
        }
        let increment = INCREMENT_40G * factor;
        bar.write32(PRTTSYN_INC_L::AT, increment as u32);
        bar.write32(PRTTSYN_INC_H::AT, (increment >> 32) as u32);
        if before == 0 {
            self.latches.clear();
            let udp = if self.stamps_udp() { udp_ena::PORT_319 << PRTTSYN_CTL1::UDP_ENA_SHIFT } else { 0 };
            let events = tsyntype::V2_EVENT << PRTTSYN_CTL1::TSYNTYPE_SHIFT;
            bar.write32(PRTTSYN_CTL1::AT, PRTTSYN_CTL1::TSYNENA | events | udp);
        }
    }

    /// CONTRADICTION: DPDK's driver asks for messages over UDP in any case.
    fn stamps_udp(&self) -> bool {
        self.generation.stamps_udp || self.firmware().major() >= DATAGRAMS_SINCE
    }

    /// Stamps nothing any more: a reset of the function would leave it as it is.
    pub(super) fn stop_timestamps(&self) {
        if self.state().tick.take().is_some() {
            self.bar.write32(PRTTSYN_CTL1::AT, 0);
            self.bar.clear32(PRTTSYN_CTL0::AT, PRTTSYN_CTL0::TSYNENA);
        }
    }
}
