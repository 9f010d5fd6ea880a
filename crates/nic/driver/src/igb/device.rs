//! The chip while it runs: link, modes, stopping and starting, and taking rings
//! back from the device when queues go.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use bus::Bar;
use port::{Counter, FlowTable, Link};
use regs::igb::*;

use super::NAME;
use super::info::{INFO, REGISTERS};
use crate::Result;
use crate::intel::ring_registers::{counters::Sums, rss};
use crate::intel::{self, ChipInfo, Device, Queues, RingRegisters, layout};

/// The 82576, as its port and queues share it.
pub struct Chip {
    device: Device,
    pub(super) sums: Mutex<Sums>,
    /// Held while RCTL and what depends on it change: the port and its queues may
    /// be in different threads.
    pub(super) receive: Mutex<()>,
}

impl Deref for Chip {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl intel::Chip for Chip {
    type Rx = layout::Rx82576;
    type Tx = layout::TxAdvanced;
    const DRIVER: &'static str = NAME;
    const INFO: &'static ChipInfo = &INFO;

    fn new(device: Device) -> Chip {
        Chip { device, sums: Mutex::new(Sums::new(REGISTERS.counters)), receive: Mutex::default() }
    }

    fn set_receiving(&self, on: bool) -> Result<()> {
        self.set_rctl(RCTL::RXEN, if on { RCTL::RXEN } else { 0 })
    }

    fn link(&self) -> Link {
        link_of(self.bar.read32(STATUS::AT))
    }

    fn mac(&self) -> Result<[u8; 6]> {
        self.eeprom_mac()
    }

    fn set_flow_queues(&self, changes: &[(usize, usize)], _: &FlowTable) -> Result<()> {
        rss::change(&self.bar, &REGISTERS, changes);
        Ok(())
    }

    fn counters(&self) -> Vec<Counter> {
        self.device_counters()
    }

    fn counter_names() -> Vec<&'static str> {
        REGISTERS.counters.iter().map(|source| source.name).collect()
    }

    fn set_modes(&self, unicast: bool, multicast: bool) -> Result<()> {
        let unicast = if unicast { RCTL::UPE } else { 0 };
        let multicast = if multicast { RCTL::MPE } else { 0 };
        self.set_rctl(RCTL::UPE | RCTL::MPE, unicast | multicast)
    }
}

/// The link, by STATUS (8.2.2).
pub(crate) fn link_of(status: u32) -> Link {
    if status == u32::MAX || status & STATUS::LU == 0 {
        return Link::DOWN;
    }
    match status & STATUS::SPEED_MASK {
        STATUS::SPEED_10M => Link::up(10),
        STATUS::SPEED_100M => Link::up(100),
        _ => Link::up(1_000), // both codes mean it
    }
}

impl Chip {
    /// Nothing signals, and nothing is pending.
    pub(super) fn mask_interrupts(&self) {
        self.bar.write32(EIMC::AT, u32::MAX);
        self.bar.write32(IMC::AT, u32::MAX);
        self.bar.read32(EICR::AT); // clears what was pending
        self.bar.read32(ICR::AT);
    }

    /// Changes bits of RCTL.
    pub(super) fn set_rctl(&self, clear: u32, set: u32) -> Result<()> {
        let _one_at_a_time = self.receive.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.write32(RCTL::AT, self.bar.read32(RCTL::AT) & !clear | set);
        self.health()
    }

    /// An error once the device is gone.
    pub(super) fn health(&self) -> Result<()> {
        Ok(self.pci.health()?)
    }

    /// Changes what must not change while a frame is being received; `change`
    /// says whether there is still a queue to receive into.
    fn with_rx_halted(&self, change: impl FnOnce(&Bar) -> bool) {
        let _one_at_a_time = self.receive.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = &self.bar;
        let rctl = bar.read32(RCTL::AT);
        bar.write32(RCTL::AT, rctl & !RCTL::RXEN);
        bar.read32(STATUS::AT); // the write has arrived
        let receive = if change(bar) { rctl } else { rctl & !RCTL::RXEN };
        bar.write32(RCTL::AT, receive);
    }
}

impl Queues for Chip {
    /// Frames are led elsewhere first, or not received when no queue is left for
    /// them (4.5.9.2).
    fn disable_rx(&self, n: usize) -> bool {
        self.with_rx_halted(|bar| {
            bar.clear32(RXDCTL::at(n), RXDCTL::ENABLE);
            rss::withdraw(bar, &REGISTERS, n)
        });
        let meaning = "the receive queue does not stop: its memory is kept";
        let stopped = self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, 0, meaning);
        self.flush_dma();
        self.has_released(stopped)
    }

    /// What was queued is sent first, if the link lets it (4.5.10.2).
    fn disable_tx(&self, n: usize) -> bool {
        let up = self.bar.read32(STATUS::AT) & STATUS::LU != 0;
        self.stop_tx(n, up, [TDH::REGISTER, TDT::REGISTER, TXDCTL::REGISTER])
    }

    fn device(&self) -> &Device {
        self
    }
}

impl Drop for Chip {
    fn drop(&mut self) {
        if self.pci.health().is_err() {
            return;
        }
        self.mask_interrupts();
        self.bar.clear32(CTRL_EXT::AT, CTRL_EXT::DRV_LOAD);
        self.leave(|bar| bar.set32(CTRL::AT, CTRL::RST));
    }
}
