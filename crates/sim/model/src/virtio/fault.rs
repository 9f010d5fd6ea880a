//! What a device may do of its own accord, on purpose here: ask for a reset, be
//! reset behind the driver's back, change its configuration, even while it is
//! being read.
//!
//! virtio 1.3, sections 2.1.2 (DEVICE_NEEDS_RESET), 2.5 (configuration) and
//! 5.1.4. Tests and fault injection call these; the device itself only asks for
//! a reset when its driver broke a queue.

use regs::virtio::net::config;

use super::Net;
use super::pci::Function;
use crate::Dma;
use crate::chip::{DeviceFault, FaultInjection};

/// The speed that comes and goes while an unsettled configuration is read, in
/// Mbit/s: no byte of it is that of the usual 10,000.
pub const OTHER_SPEED: u32 = 0x6161_6161;
/// Likewise the address.
pub const OTHER_MAC: [u8; 6] = [0x62; 6];

/// What the configuration says where that is not what the device is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConfigFault {
    pairs: Option<u16>,
    mtu: Option<u16>,
    /// The speed and the address are others.
    is_other: bool,
    /// Accesses between which they change.
    unsettled: u32,
}

impl ConfigFault {
    /// Puts it over the configuration, where the fields are there.
    pub fn cover(&self, bytes: &mut [u8; config::BYTES as usize]) {
        let mut put = |at: u32, field: Option<&[u8]>| {
            let Some(field) = field else { return };
            let place = &mut bytes[at as usize..][..field.len()];
            if place.iter().any(|&byte| byte != 0) {
                place.copy_from_slice(field);
            }
        };
        put(config::MAX_VIRTQUEUE_PAIRS, self.pairs.map(u16::to_le_bytes).as_ref().map(|b| &b[..]));
        put(config::MTU, self.mtu.map(u16::to_le_bytes).as_ref().map(|b| &b[..]));
        if self.is_other {
            put(config::SPEED, Some(&OTHER_SPEED.to_le_bytes()));
            put(config::MAC, Some(&OTHER_MAC));
        }
    }
}

impl<D: Dma> Net<D> {
    /// Does what a device never should, now.
    pub(super) fn inject(&mut self, fault: DeviceFault) {
        match fault {
            DeviceFault::NeedsReset => {
                self.is_running = false;
                self.is_stale = true;
                self.needs_reset = true;
                self.host.interrupt_config();
                return;
            }
            DeviceFault::Reset => return self.reset(),
            DeviceFault::Pairs(pairs) => self.config_fault.pairs = Some(pairs),
            DeviceFault::Mtu(mtu) => self.config_fault.mtu = Some(mtu),
            DeviceFault::Unsettled(accesses) => {
                self.config_fault.unsettled = accesses;
                return;
            }
        }
        self.config_changed();
    }

    /// The configuration was accessed.
    pub(super) fn config_accessed(&mut self) {
        let Some(left) = self.config_fault.unsettled.checked_sub(1) else { return };
        self.config_fault.unsettled = left;
        self.config_fault.is_other ^= true;
        self.config_changed();
    }
}

impl<D: Dma> FaultInjection for Function<D> {
    fn inject(&mut self, fault: DeviceFault) {
        match fault {
            // The function as a whole; it forgets what the driver set.
            DeviceFault::Reset => self.reset(),
            other => self.net_mut().inject(other),
        }
    }
}
