//! Which frames are received (datasheet 7.1.1). The filters may change only while
//! receive is off (8.2.3.7.1), so each change halts the receiver for a moment.

use std::sync::Mutex;

use bus::Bar;
use regs::ixgbe::{FCTRL, MCSTCTRL, VLNCTRL};

use super::{device::Chip, info::REGISTERS};
use crate::Result;
use crate::intel::ring_registers::counters::Sums;
use crate::intel::{Registers, RingRegisters};

impl RingRegisters for Chip {
    const REGISTERS: &'static Registers = &REGISTERS;

    fn sums(&self) -> &Mutex<Sums> {
        &self.sums
    }

    fn change_filters(&self, change: impl FnOnce(&Bar)) -> Result<()> {
        self.with_rx_halted(change)
    }

    fn use_multicast(bar: &Bar, on: bool) {
        bar.write32(MCSTCTRL::AT, if on { MCSTCTRL::MFE } else { 0 });
    }

    fn use_vlans(bar: &Bar, on: bool) {
        match on {
            true => bar.set32(VLNCTRL::AT, VLNCTRL::VFE),
            false => bar.clear32(VLNCTRL::AT, VLNCTRL::VFE),
        }
    }

    fn use_broadcast(bar: &Bar, on: bool) {
        match on {
            true => bar.set32(FCTRL::AT, FCTRL::BAM),
            false => bar.clear32(FCTRL::AT, FCTRL::BAM),
        }
    }
}
