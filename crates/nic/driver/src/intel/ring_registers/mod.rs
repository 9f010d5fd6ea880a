//! Chips whose rings, filters and counters are registers of BAR 0, as the 82599's and
//! the 82576's are: a ring is an address in a register, the table that spreads flows is
//! RETA, a vector is a bit of EIMS, counters clear when they are read. A chip that has
//! contexts in memory and an admin queue has none of this. Section numbers are the
//! 82599's.

pub(crate) mod address;
pub(crate) mod counters;
mod filter;
pub(crate) mod rss;

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use bus::Bar;
use port::Counter;
use regs::Register;
use regs::ixgbe::{CTRL, STATUS};
use wire::MacAddress;

use super::chip::Device;
use super::interrupt::{Signal, Write};
use crate::{Error, Result};
use counters::{Source, Sums};

/// Where a chip has these registers.
pub struct Registers {
    pub ral: Register,
    pub rah: Register,
    /// Multicast by hash, and VLANs: a bit for each.
    pub mta: Register,
    pub vfta: Register,
    pub rxdctl: Register,
    pub reta: Register,
    pub rssrk: Register,
    pub mrqc: Register,
    /// MRQC for several queues: the mode and the fields of addresses; and the
    /// fields of ports.
    pub rss_addresses: u32,
    pub rss_ports: u32,
    /// Interrupt mask, set and clear: a bit for each vector.
    pub eims: Register,
    pub eimc: Register,
    /// Counters that clear when they are read.
    pub counters: &'static [Source],
}

/// A chip with these registers.
pub trait RingRegisters: Deref<Target = Device> {
    /// Where the chip has its registers of rings, interrupts and counters.
    const REGISTERS: &'static Registers;

    /// What its counters come to so far.
    fn sums(&self) -> &Mutex<Sums>;
    /// Changes the filters' tables in the way in which the chip lets them be changed.
    fn change_filters(&self, change: impl FnOnce(&Bar)) -> Result<()>;
    /// Whether the multicast table is looked at; the tables are being changed.
    fn use_multicast(bar: &Bar, on: bool);
    /// Whether the VLAN table is looked at; the tables are being changed.
    fn use_vlans(bar: &Bar, on: bool);
    /// Whether broadcast frames are received; the tables are being changed.
    fn use_broadcast(bar: &Bar, on: bool);

    /// The address that the EEPROM put into the first receive address register.
    fn eeprom_mac(&self) -> Result<[u8; 6]> {
        let [a, b, c, d] = self.bar.read32(Self::REGISTERS.ral.at(0)).to_le_bytes();
        let [e, f, _, _] = self.bar.read32(Self::REGISTERS.rah.at(0)).to_le_bytes();
        let mac = [a, b, c, d, e, f];
        MacAddress(mac)
            .is_station()
            .then_some(mac)
            .ok_or_else(|| Error::NoMacAddress { device: self.name.clone(), mac })
    }

    /// Starts counting at zero: counters clear when read (4.6.5).
    fn clear_counters(&self) {
        Sums::new(Self::REGISTERS.counters).update(&self.bar);
    }

    /// Every counter of the device, summed since it was opened.
    fn device_counters(&self) -> Vec<Counter> {
        let mut sums = self.sums().lock().unwrap_or_else(PoisonError::into_inner);
        // All ones from a device that is gone are not counts.
        if self.pci.health().is_ok() {
            sums.update(&self.bar);
        }
        sums.counters()
    }

    /// The interrupt of receive queue `index`: its vector is a bit of EIMS and EIMC.
    fn signal(&self, index: usize) -> Result<Signal> {
        let info = Self::REGISTERS;
        let masks = [info.eims, info.eimc];
        Signal::new(self, index, |vector| {
            masks.map(|mask| {
                let register = self.bar.register(mask.at(vector / 32));
                Write { register, value: 1 << (vector % 32) }
            })
        })
    }

    /// Stops DMA as 5.2.5.3.2 asks for before a reset; a device that has
    /// transactions pending may hang the bus otherwise. The bits are the same
    /// in every chip here.
    fn quiesce(&self) {
        self.bar.set32(CTRL::AT, CTRL::PCIE_MASTER_DISABLE);
        let meaning = "bus mastering does not stop";
        let idle = self.wait(100, "STATUS", STATUS::AT, STATUS::PCIE_MASTER_ENABLE, 0, meaning);
        if let Err(error) = idle {
            // The datasheet's answer is a second reset; it follows in any case.
            tracing::debug!("{error}");
        }
    }

    /// Leaves the device as it was found, quiesced and reset by `reset`, no bus
    /// master. The caller has masked its interrupts.
    fn leave(&self, reset: impl FnOnce(&Bar)) {
        tracing::debug!(port = self.name, "left: quiesced and reset, no bus master");
        self.quiesce();
        reset(&self.bar);
        // Whoever opens it next may do so at once (4.6.3.2: 10 ms).
        sleep(Duration::from_millis(10));
        self.release_bus();
    }
}
