//! The device status: what a driver has to do in which order (virtio 1.3,
//! sections 2.1 and 3.1.1).

use regs::virtio::device::status::{ACKNOWLEDGE, DRIVER, DRIVER_OK, FAILED, FEATURES_OK};
use regs::virtio::feature::{ACCESS_PLATFORM, VERSION_1};
use regs::virtio::pci::common::DEVICE_STATUS;

use super::Function;
use crate::Dma;
use crate::virtio::lint::{Location, Rule};

const PLACE: Location = Location::Register("device_status", DEVICE_STATUS);

impl<D: Dma> Function<D> {
    pub(super) fn set_status(&mut self, value: u8) {
        if value == 0 {
            self.reset();
            self.awaits_read = true;
            return;
        }
        if self.awaits_read {
            self.awaits_read = false;
            self.net.report(Rule::ResetNotAwaited, PLACE, value.into());
        }
        if !self.was_reset {
            self.was_reset = true;
            self.net.report(Rule::NotResetFirst, PLACE, value.into());
        }
        if self.status & !value != 0 {
            self.net.report(Rule::StatusBitCleared, PLACE, value.into());
        }
        let new = value & !self.status & (ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK | FAILED);
        self.check_order(new);
        self.status |= new & !FEATURES_OK;
        if new & FEATURES_OK != 0 && self.agree() {
            self.status |= FEATURES_OK;
        }
        if new & DRIVER_OK != 0 {
            if self.status & FEATURES_OK == 0 {
                self.net.report(Rule::DriverOkWithoutFeaturesOk, PLACE, value.into());
            } else {
                self.net.run(true);
            }
        }
        if new & FAILED != 0 {
            self.net.run(false);
        }
    }

    fn check_order(&mut self, new: u8) {
        let all = self.status | new;
        let skipped = |bit: u8, before: u8| new & bit != 0 && all & before != before;
        if skipped(DRIVER, ACKNOWLEDGE) || skipped(FEATURES_OK, DRIVER) || skipped(DRIVER_OK, DRIVER) {
            self.net.report(Rule::StatusOutOfOrder, PLACE, all.into());
        }
    }

    /// Whether the device takes the driver's features.
    fn agree(&mut self) -> bool {
        let lacks = |feature| self.net.offered() & feature != 0 && self.driver_features & feature == 0;
        let (old, untranslated) = (lacks(VERSION_1), lacks(ACCESS_PLATFORM));
        if untranslated {
            self.net.report(Rule::AccessPlatformNotAccepted, PLACE, self.driver_features);
        }
        if old {
            self.net.report(Rule::Version1NotAccepted, PLACE, self.driver_features);
            return false;
        }
        let agreed = self.net.set_features(self.driver_features);
        // Packed rings need not have a power of two of entries.
        let size = self.net.queue_size();
        self.queues.iter_mut().for_each(|queue| queue.place.size = size);
        agreed
    }
}
