//! The modern PCI transport over [`Net`]: common configuration, notifications,
//! interrupt status and device configuration in one BAR.
//!
//! virtio 1.3, section 4.1. Every access is trapped. The capabilities that say
//! where the structures are belong to the configuration space, which whoever
//! serves the device has; [`STRUCTURES`] says what goes into them. No legacy
//! interface.

mod common;
mod status;

use regs::virtio::feature;
use regs::virtio::net::config;
use regs::virtio::pci::{capability, common as fields};

use super::lint::{Location, Rule};
use super::{Net, Options, RingAddresses};
use crate::{Dma, Interrupts, Wire};

/// Bytes of the BAR.
pub const BAR_BYTES: u32 = 0x4000;

/// Distance of two queues' notification addresses.
pub const NOTIFY_MULTIPLIER: u32 = 4;

/// A structure in the BAR: a capability's type, offset and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Structure {
    /// The capability's `cfg_type`.
    pub kind: u8,
    /// Bytes from the BAR's begin.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
}

const COMMON: Structure = Structure { kind: capability::TYPE_COMMON, offset: 0, length: fields::BYTES_ALL };
const ISR: Structure = Structure { kind: capability::TYPE_ISR, offset: 0x1000, length: 1 };
const DEVICE: Structure = Structure { kind: capability::TYPE_DEVICE, offset: 0x2000, length: config::BYTES };
const NOTIFY: Structure = Structure { kind: capability::TYPE_NOTIFY, offset: 0x3000, length: 0x1000 };

/// What the BAR holds.
pub const STRUCTURES: [Structure; 4] = [COMMON, NOTIFY, ISR, DEVICE];

impl Structure {
    /// Where an access lies in it.
    fn inside(self, offset: u32, len: usize) -> Option<u32> {
        let at = offset.checked_sub(self.offset)?;
        (u64::from(at) + len as u64 <= u64::from(self.length)).then_some(at)
    }
}

/// A queue as its registers have it.
#[derive(Debug, Clone, Copy)]
struct Setup {
    place: RingAddresses,
    vector: Option<u16>,
    is_enabled: bool,
}

/// A PCI function.
pub struct Function<D: Dma> {
    net: Net<D>,
    /// Interrupt vectors it has.
    vectors: u16,
    status: u8,
    device_feature_select: u32,
    driver_feature_select: u32,
    driver_features: u64,
    config_vector: Option<u16>,
    queue_select: u16,
    queues: Vec<Setup>,
    /// The driver has reset it since power-on, and seen that it is done.
    was_reset: bool,
    awaits_read: bool,
}

impl<D: Dma> Function<D> {
    /// A device that was just powered on, with so many MSI-X vectors.
    pub fn new(dma: D, options: &Options, vectors: u16) -> Function<D> {
        let net = Net::new(dma, options);
        let mut function = Function {
            vectors,
            status: 0,
            device_feature_select: 0,
            driver_feature_select: 0,
            driver_features: 0,
            config_vector: None,
            queue_select: 0,
            queues: Vec::new(),
            was_reset: false,
            awaits_read: false,
            net,
        };
        function.clear();
        function
    }

    /// The device behind it.
    pub fn net(&self) -> &Net<D> {
        &self.net
    }

    /// The device behind it.
    pub fn net_mut(&mut self) -> &mut Net<D> {
        &mut self.net
    }

    /// Where interrupts go.
    pub fn set_interrupts(&mut self, host: Option<Box<dyn Interrupts>>) {
        self.net.set_interrupts(host);
    }

    /// Moves packets between queues and wire, as [`Net::step`] does.
    #[inline]
    pub fn step<C: Wire>(&mut self, wire: &mut C, now_ns: u64) -> usize {
        self.net.step(wire, now_ns)
    }

    /// A reset of the whole function, as by FLR or power.
    pub fn reset(&mut self) {
        self.net.reset();
        self.clear();
        (self.was_reset, self.awaits_read) = (true, false);
    }

    fn clear(&mut self) {
        let place = RingAddresses { size: self.net.queue_size(), ..RingAddresses::default() };
        let setup = Setup { place, vector: None, is_enabled: false };
        self.queues = vec![setup; usize::from(self.net.queues())];
        (self.status, self.driver_features, self.queue_select) = (0, 0, 0);
        (self.device_feature_select, self.driver_feature_select) = (0, 0);
        self.config_vector = None;
    }

    /// Queues the driver may select.
    fn count(&self) -> u16 {
        let control = self.net.offered() & feature::net::CTRL_VQ != 0;
        self.net.queues() - u16::from(!control)
    }

    /// Reads `data.len()` bytes of the BAR at `offset`. What is not there reads
    /// as zero.
    pub fn read(&mut self, offset: u32, data: &mut [u8]) {
        data.fill(0);
        if let Some(at) = COMMON.inside(offset, data.len()) {
            self.read_common(at, data);
        } else if let (Some(_), [byte]) = (ISR.inside(offset, 1), &mut *data) {
            *byte = std::mem::take(&mut self.net.host.interrupter.isr);
        } else if let Some(at) = DEVICE.inside(offset, data.len()) {
            let fits = config::lookup(at)
                .is_some_and(|(field, part)| field.at(part) == at && field.width as usize == data.len());
            if !fits {
                let place = Location::Register("device configuration", at);
                self.net.report(Rule::ConfigWrongWidth, place, data.len() as u64);
            }
            self.net.read_config(at, data);
            self.net.config_accessed();
        } else if NOTIFY.inside(offset, data.len()).is_none() {
            self.net.report(Rule::UnknownRegister, Location::Offset(offset), 0);
        }
    }

    /// Writes to the BAR. What is not there takes nothing.
    pub fn write(&mut self, offset: u32, data: &[u8]) {
        let value = data.iter().take(8).rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        if let Some(at) = NOTIFY.inside(offset, data.len()) {
            self.notify(at, data.len(), value);
        } else if let Some(at) = COMMON.inside(offset, data.len()) {
            self.write_common(at, data);
        } else if let Some(at) = DEVICE.inside(offset, data.len()) {
            self.net.report(Rule::ConfigWritten, Location::Register("device configuration", at), value);
        } else {
            self.net.report(Rule::UnknownRegister, Location::Offset(offset), value);
        }
    }

    /// A queue has buffers (4.1.5.2): 16 bits with its number, or 32 that say how
    /// far the driver is, too.
    fn notify(&mut self, at: u32, len: usize, value: u64) {
        let width = if self.net.features() & feature::NOTIFICATION_DATA != 0 { 4 } else { 2 };
        let queue = (at / NOTIFY_MULTIPLIER) as u16;
        let named = value as u16;
        if len != width || !at.is_multiple_of(NOTIFY_MULTIPLIER) {
            return self.net.report(Rule::WrongWidth, Location::Register("notification", at), len as u64);
        }
        if named != queue {
            return self.net.report(Rule::NotifyWrongQueue, Location::Queue(queue), named.into());
        }
        if self.status & regs::virtio::device::status::DRIVER_OK == 0 {
            return self.net.report(Rule::NotifyBeforeDriverOk, Location::Queue(queue), self.status.into());
        }
        if !self.queues.get(usize::from(queue)).is_some_and(|queue| queue.is_enabled) {
            return self.net.report(Rule::NotifyDisabledQueue, Location::Queue(queue), 0);
        }
        if self.net.is_broken(queue) {
            self.net.report(Rule::UsedAfterNeedsReset, Location::Queue(queue), 0);
        }
        self.net.kick(queue);
    }
}
