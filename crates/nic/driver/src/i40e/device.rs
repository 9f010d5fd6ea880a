//! The chip while it runs: its address, modes, counters, and taking rings back from the device
//! when queues go.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use port::{Counter, FlowTable, Link};
use regs::i40e::admin::{Descriptor, LAN_ADDR_VALID, PORT_ADDR_VALID, opcode};
use regs::i40e::*;
use wire::MacAddress;

use super::admin::{self, AdminQueue, FORGED};
use super::context::Contexts;
use super::filter::Filters;
use super::firmware::Firmware;
use super::flow::Director;
use super::generation::Generation;
use super::host::Inbox;
use super::info::INFO;
use super::stats::{Places, Totals};
use super::{I40eFault, NAME, layout, timestamps};
use crate::intel::clock::Clock;
use crate::intel::latches::Latches;
use crate::intel::{self, ChipInfo, Device, Queues};
use crate::{Error, Result};

/// After a receive queue tells that it is disabled, until it is, at the latest.
const RX_DRAINED: Duration = Duration::from_millis(50);

/// The chip, as its port and queues share it. Whoever locks several does so in their order here.
pub struct Chip {
    device: Device,
    /// The generation that it is of.
    pub(super) generation: &'static Generation,
    /// What programs filters for flows, from the first one on.
    director: Mutex<Option<Director>>,
    admin: Mutex<Option<AdminQueue>>,
    state: Mutex<State>,
    /// Held while a queue reads the clock of timestamps.
    pub(super) clock_turn: Arc<Mutex<()>>,
    /// Where the device keeps timestamps.
    pub(super) latches: Arc<Latches>,
}

/// What the driver knows of the chip.
#[derive(Default)]
pub(super) struct State {
    pub contexts: Option<Contexts>,
    pub vsi: Vsi,
    /// The SEID of the bridge that the VSI hangs on, if one was made.
    pub bridge: Option<u16>,
    /// The queue set of the VSI that programs filters for flows, if it was made.
    pub director_set: Option<u16>,
    /// The first transmit queue that was not opened.
    pub spare_queue: usize,
    /// What is known of the firmware.
    pub firmware: Arc<Firmware>,
    /// The table that spreads flows.
    pub table: Vec<u8>,
    /// What was hashed and compared of packets on the whole card before the driver changed it:
    /// registers, and what they had.
    pub insets: Vec<(u32, u32)>,
    pub filters: Filters,
    pub link: Link,
    /// By which factor a tick of the clock is longer than at 40 Gbit/s, zero where it does not stamp, in
    /// a port that was opened for timestamps.
    pub tick: Option<u64>,
    /// An event told that the link has changed, and it was not asked for since.
    pub link_changed: bool,
    /// Messages of virtual functions that nobody has looked at yet.
    pub inbox: Inbox,
    /// What was counted since the device was opened, and where it is.
    pub totals: Totals,
    pub places: Places,
}

/// The function's VSI, as the firmware made it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Vsi {
    pub seid: u16,
    /// Its number on the card.
    pub number: u16,
    /// The SEID of what it hangs on.
    pub uplink: u16,
    /// The queue set of its transmit queues.
    pub queue_set: u16,
}

impl Deref for Chip {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl intel::Chip for Chip {
    type Rx = layout::RxXl710;
    type Tx = layout::TxXl710;
    const DRIVER: &'static str = NAME;
    const INFO: &'static ChipInfo = &INFO;

    fn new(device: Device) -> Chip {
        let generation = Generation::of(device.id);
        let latches = timestamps::latches(&device);
        Chip {
            device,
            generation,
            director: Mutex::default(),
            admin: Mutex::default(),
            state: Mutex::default(),
            clock_turn: Arc::default(),
            latches,
        }
    }

    fn set_receiving(&self, on: bool) -> Result<()> {
        self.change_filters(|filters| filters.receiving = on)
    }

    fn link(&self) -> Link {
        self.link_by_events()
    }

    fn firmware(&self) -> Vec<(&'static str, String)> {
        Chip::firmware(self).rows()
    }

    fn mac(&self) -> Result<[u8; 6]> {
        const LEN: usize = 24;
        let mut command = Descriptor::new(opcode::MAC_ADDRESS_READ);
        command.set_param(0, &(LAN_ADDR_VALID | PORT_ADDR_VALID).to_le_bytes());
        let (answer, data) = self.with_admin(|admin| admin.read(command, LEN))?;
        let mac = data.first_chunk::<6>().copied().unwrap_or_default();
        let valid = answer.param16(0) & LAN_ADDR_VALID != 0 && MacAddress(mac).is_station();
        valid.then_some(mac).ok_or_else(|| Error::NoMacAddress { device: self.name.clone(), mac })
    }

    fn clock(&self) -> Option<Clock> {
        self.port_clock()
    }

    fn health(&self) -> Result<()> {
        match self.bar.read32(PF_MDET_TX::AT) & PF_MDET_TX::VALID {
            0 => Ok(()),
            _ => Err(I40eFault::Malicious { device: self.name.clone() }.into()),
        }
    }

    fn set_flow_queues(&self, changes: &[(usize, usize)], _: &FlowTable) -> Result<()> {
        self.change_table(|table| {
            for &(entry, queue) in changes {
                table.get_mut(entry).into_iter().for_each(|entry| *entry = queue as u8);
            }
        })
    }

    fn counters(&self) -> Vec<Counter> {
        let admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        let forged = admin.as_ref().map(AdminQueue::forged_counter);
        drop(admin);
        let state = &mut *self.state();
        state.totals.update(&self.bar, state.places, || self.pci.health().is_ok());
        state.totals.counters().into_iter().chain(forged).collect()
    }

    fn counter_names() -> Vec<&'static str> {
        Totals::names().chain([FORGED]).collect()
    }

    fn set_modes(&self, unicast: bool, multicast: bool) -> Result<()> {
        self.change_filters(|filters| (filters.all_unicast, filters.all_multicast) = (unicast, multicast))
    }
}

impl Chip {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What programs filters for flows.
    pub(super) fn director(&self) -> MutexGuard<'_, Option<Director>> {
        self.director.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the admin queue, which runs from the reset on.
    pub(super) fn with_admin<T>(&self, work: impl FnOnce(&mut AdminQueue) -> Result<T>) -> Result<T> {
        match self.lock_admin()?.as_mut() {
            Some(admin) => work(admin),
            None => Err(self.without_admin()),
        }
    }

    /// The admin queue of a device that is there, held until it is dropped. This and the error
    /// below stand outside of `with_admin`, which is compiled for each of its callers.
    #[inline(never)]
    fn lock_admin(&self) -> Result<MutexGuard<'_, Option<AdminQueue>>> {
        self.pci.health()?;
        Ok(self.admin.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cold]
    fn without_admin(&self) -> Error {
        I40eFault::Stuck { device: self.name.clone(), command: "a command" }.into()
    }

    /// Starts the admin queue.
    pub(super) fn start_admin(&self) -> Result<()> {
        let queue = AdminQueue::new(&self.bar, admin::PF, &self.name, &self.dma)?;
        *self.admin.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue);
        Ok(())
    }

    /// Takes what the firmware sent unsolicited.
    pub(super) fn take_events(&self, admin: &mut AdminQueue) {
        let mut state = self.state();
        admin.events(|event, bytes| match event.opcode {
            opcode::GET_LINK_STATUS => state.link_changed = true,
            opcode::SEND_MSG_TO_PF => state.inbox.put(event, bytes),
            _ => {}
        });
    }

    /// Whether the device reaches a ring no more that it was told to stop.
    fn has_released(&self, stopped: Result<()>) -> bool {
        // What the device wrote before it answers a read has arrived with the answer.
        self.bar.read32(GLGEN_RSTAT::AT);
        self.device.has_released(stopped)
    }
}

impl Queues for Chip {
    /// Frames are led elsewhere first; those that still come are dropped and counted.
    ///
    /// INCORRECT, by errata that Linux's driver knows of: QENA_STAT clears before the device
    /// has written its last descriptor. Each queue waits by itself, for its buffers go back to
    /// their pool with it.
    fn disable_rx(&self, n: usize) -> bool {
        self.withdraw(n);
        self.undirect_queue(n);
        self.bar.write32(QINT_RQCTL::at(n), 0);
        self.bar.write32(QRX_ENA::at(n), 0);
        let meaning = "the receive queue does not stop: its memory is kept";
        let stopped = self.wait(100, "QRX_ENA", QRX_ENA::at(n), QRX_ENA::QENA_STAT, 0, meaning);
        if stopped.is_ok() {
            sleep(RX_DRAINED);
        }
        self.has_released(stopped)
    }

    /// What was queued is sent first, if the link lets it.
    fn disable_tx(&self, n: usize) -> bool {
        if self.state().link.up {
            let tail = self.bar.read32(QTX_TAIL::at(n));
            let meaning = "packets that were queued are not sent";
            // A full ring of jumbo frames takes 30 ms at 10 Gbit/s.
            if let Err(error) = self.wait(100, "QTX_HEAD", QTX_HEAD::at(n), u32::MAX, tail, meaning) {
                tracing::debug!("{error}");
            }
        }
        self.announce_tx(n, GLLAN_TXPRE_QDIS::SET_QDIS);
        sleep(super::init::PREPARED);
        self.bar.write32(QTX_ENA::at(n), 0);
        let meaning = "the transmit queue does not stop: its memory is kept";
        let stopped = self.wait(100, "QTX_ENA", QTX_ENA::at(n), QTX_ENA::QENA_STAT, 0, meaning);
        self.has_released(stopped)
    }

    fn device(&self) -> &Device {
        self
    }
}

impl Drop for Chip {
    /// Leaves the device as it was found, quiesced and reset, no bus master.
    fn drop(&mut self) {
        if self.pci.health().is_err() {
            return;
        }
        let director = self.director().as_ref().map(Director::queue);
        director.into_iter().for_each(|queue| _ = self.disable_tx(queue));
        self.stop_timestamps();
        let restored = self.restore_insets();
        let stopped = self.with_admin(|admin| admin.command(Descriptor::new(opcode::QUEUE_SHUTDOWN)));
        for error in [restored.err(), stopped.err()].into_iter().flatten() {
            tracing::debug!("{error}");
        }
        // A function that its own register does not reset is reset by the bus (a function level reset);
        // one that is gone by then does no DMA.
        match self.reset_function() {
            Err(error) if self.pci.reset().is_err() && self.pci.health().is_ok() => {
                tracing::error!("{error}");
                // The device may still reach what was lent.
                self.admin
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .iter()
                    .for_each(AdminQueue::leak);
                let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
                state.contexts.iter().for_each(Contexts::leak);
                let director = self.director.get_mut().unwrap_or_else(PoisonError::into_inner);
                director.iter().for_each(Director::leak);
            }
            _ => self.was_reset(),
        }
        // Whoever opens it next may do so at once.
        sleep(Duration::from_millis(1));
        self.release_bus();
    }
}
