//! The chip while it runs: link, modes, stopping and starting, and taking rings
//! back from the device when queues go.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bus::Bar;
use port::{Counter, FlowTable, Link};
use regs::ixgbe::*;

use super::NAME;
use super::info::{INFO, REGISTERS};
use crate::Result;
use crate::intel::clock::Clock;
use crate::intel::ring_registers::{counters::Sums, rss};
use crate::intel::{self, ChipInfo, Device, Queues, RingRegisters, layout};

/// The 82599 and its relatives, as their port and queues share them.
pub struct Chip {
    device: Device,
    pub(super) sums: Mutex<Sums>,
    /// Held while receive is halted to change filters or queues.
    rx_halt: Mutex<()>,
    /// Held while a queue reads the clock of timestamps.
    pub(super) systime: Arc<Mutex<()>>,
}

impl Deref for Chip {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl intel::Chip for Chip {
    type Rx = layout::Rx82599;
    type Tx = layout::TxAdvanced;
    const DRIVER: &'static str = NAME;
    const INFO: &'static ChipInfo = &INFO;

    fn new(device: Device) -> Chip {
        Chip {
            device,
            sums: Mutex::new(Sums::new(REGISTERS.counters)),
            rx_halt: Mutex::default(),
            systime: Arc::default(),
        }
    }

    fn set_receiving(&self, on: bool) -> Result<()> {
        self.halt_rx(|_| Some(on))
    }

    /// By LINKS (8.2.3.22.20).
    fn link(&self) -> Link {
        link_of(self.bar.read32(LINKS::AT))
    }

    fn mac(&self) -> Result<[u8; 6]> {
        self.eeprom_mac()
    }

    fn set_flow_queues(&self, changes: &[(usize, usize)], _: &FlowTable) -> Result<()> {
        rss::change(&self.bar, &REGISTERS, changes);
        Ok(())
    }

    fn clock(&self) -> Option<Clock> {
        self.system_time()
    }

    fn counters(&self) -> Vec<Counter> {
        self.device_counters()
    }

    fn counter_names() -> Vec<&'static str> {
        REGISTERS.counters.iter().map(|source| source.name).collect()
    }

    fn set_modes(&self, unicast: bool, multicast: bool) -> Result<()> {
        let unicast = if unicast { FCTRL::UPE } else { 0 };
        let multicast = if multicast { FCTRL::MPE } else { 0 };
        self.with_rx_halted(|bar| {
            let others = bar.read32(FCTRL::AT) & !(FCTRL::UPE | FCTRL::MPE);
            bar.write32(FCTRL::AT, others | unicast | multicast);
        })
    }
}

impl Chip {
    pub(super) fn mask_interrupts(&self) {
        // Bit 31 is reserved (8.2.3.5.4).
        self.bar.write32(EIMC::AT, 0x7FFF_FFFF);
        self.bar.read32(EICR::AT); // clears what was pending
    }

    /// Changes filters while no frame is being received.
    pub(super) fn with_rx_halted(&self, change: impl FnOnce(&Bar)) -> Result<()> {
        self.halt_rx(|bar| {
            change(bar);
            None
        })
    }

    /// Halts the receiver (4.6.7, 8.2.3.7.1): the security block in front of it
    /// holds frames back meanwhile. `change` says whether it shall receive
    /// afterwards, or `None` for as before.
    fn halt_rx(&self, change: impl FnOnce(&Bar) -> Option<bool>) -> Result<()> {
        let _one_at_a_time = self.rx_halt.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = &self.bar;
        bar.set32(SECRXCTRL::AT, SECRXCTRL::RX_DIS);
        let meaning = "the receive path does not empty";
        let ready = SECRXSTAT::SECRX_RDY;
        let emptied = self.wait(100, "SECRXSTAT", SECRXSTAT::AT, ready, ready, meaning);
        if emptied.is_ok() {
            let receiving = bar.read32(RXCTRL::AT) & RXCTRL::RXEN;
            bar.clear32(RXCTRL::AT, RXCTRL::RXEN);
            let receive = change(bar).unwrap_or(receiving != 0);
            if receive {
                bar.set32(RXCTRL::AT, RXCTRL::RXEN);
            }
        }
        bar.clear32(SECRXCTRL::AT, SECRXCTRL::RX_DIS);
        emptied
    }
}

/// What LINKS tells.
pub(crate) fn link_of(links: u32) -> Link {
    if links == u32::MAX || links & LINKS::LINK_UP == 0 {
        return Link::DOWN;
    }
    match links & LINKS::LINK_SPEED_MASK {
        LINKS::LINK_SPEED_10G => Link::up(10_000),
        LINKS::LINK_SPEED_1G => Link::up(1_000),
        LINKS::LINK_SPEED_100M => Link::up(100),
        _ => Link::up(0),
    }
}

impl Queues for Chip {
    /// Frames are led elsewhere first (4.6.7.1.2), or not received when no queue
    /// is left for them.
    fn disable_rx(&self, n: usize) -> bool {
        let withdrawn = self.halt_rx(|bar| {
            bar.clear32(RXDCTL::at(n), RXDCTL::ENABLE);
            (!rss::withdraw(bar, &REGISTERS, n)).then_some(false)
        });
        if let Err(error) = withdrawn {
            tracing::debug!("{error}");
            self.bar.clear32(RXDCTL::at(n), RXDCTL::ENABLE);
        }
        let meaning = "the receive queue does not stop: its memory is kept";
        let stopped = self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, 0, meaning);
        self.flush_dma();
        self.has_released(stopped)
    }

    /// What was queued is sent first, if the link lets it (4.6.8.1.2).
    fn disable_tx(&self, n: usize) -> bool {
        let up = self.bar.read32(LINKS::AT) & LINKS::LINK_UP != 0;
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
        self.leave(|bar| bar.set32(CTRL::AT, CTRL::RST | CTRL::LRST));
    }
}
