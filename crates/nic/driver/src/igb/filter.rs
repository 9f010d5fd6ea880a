//! Which frames are received (datasheet 7.1.1). The tables may change while frames
//! come in; RCTL has one writer at a time.

use std::sync::{Mutex, PoisonError};

use bus::Bar;
use regs::igb::RCTL;

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
        let _one_at_a_time = self.receive.lock().unwrap_or_else(PoisonError::into_inner);
        change(&self.bar);
        self.health()
    }

    /// It always is.
    fn use_multicast(_: &Bar, _: bool) {}

    fn use_vlans(bar: &Bar, on: bool) {
        match on {
            true => bar.set32(RCTL::AT, RCTL::VFE),
            false => bar.clear32(RCTL::AT, RCTL::VFE),
        }
    }

    fn use_broadcast(bar: &Bar, on: bool) {
        match on {
            true => bar.set32(RCTL::AT, RCTL::BAM),
            false => bar.clear32(RCTL::AT, RCTL::BAM),
        }
    }
}
