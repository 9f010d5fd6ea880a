//! The common configuration structure (virtio 1.3, section 4.1.4.3).

use regs::Access;
use regs::virtio::Field;
use regs::virtio::device::status;
use regs::virtio::feature;
use regs::virtio::pci::NO_VECTOR;
use regs::virtio::pci::common::*;

use super::{Function, Setup};
use crate::Dma;
use crate::virtio::lint::{Location, Rule};

/// Features 32 to 63, or 0 to 31; there are no others.
fn half(features: u64, select: u32) -> u32 {
    match select {
        0 => features as u32,
        1 => (features >> 32) as u32,
        _ => 0,
    }
}

impl<D: Dma> Function<D> {
    pub(super) fn read_common(&mut self, at: u32, data: &mut [u8]) {
        self.check_width(at, data.len());
        for (offset, byte) in (at..).zip(data.iter_mut()) {
            let Some((field, part)) = lookup(offset) else { continue };
            *byte = self.value(field, part).to_le_bytes()[(offset - field.at(part)) as usize];
        }
        if (at..at + data.len() as u32).contains(&DEVICE_STATUS) && self.status == 0 {
            self.awaits_read = false;
        }
    }

    fn check_width(&mut self, at: u32, len: usize) {
        let fits =
            lookup(at).is_some_and(|(field, part)| field.at(part) == at && field.width as usize == len);
        if !fits {
            let name = lookup(at).map_or("common configuration", |(field, _)| field.name);
            self.net.report(Rule::WrongWidth, Location::Register(name, at), len as u64);
        }
    }

    /// The selected queue.
    fn setup(&self) -> Option<&Setup> {
        self.queues.get(usize::from(self.queue_select)).filter(|_| self.queue_select < self.count())
    }

    fn value(&self, field: &Field, part: u32) -> u32 {
        let of_queue = |value: fn(&Setup) -> u64| (self.setup().map_or(0, value) >> (32 * part)) as u32;
        match field.offset {
            DEVICE_FEATURE_SELECT => self.device_feature_select,
            DEVICE_FEATURE => half(self.net.offered(), self.device_feature_select),
            DRIVER_FEATURE_SELECT => self.driver_feature_select,
            DRIVER_FEATURE => half(self.driver_features, self.driver_feature_select),
            CONFIG_MSIX_VECTOR => self.config_vector.unwrap_or(NO_VECTOR).into(),
            NUM_QUEUES => self.count().into(),
            DEVICE_STATUS => self.shown_status().into(),
            CONFIG_GENERATION => self.net.config_generation().into(),
            QUEUE_SELECT => self.queue_select.into(),
            QUEUE_SIZE => of_queue(|queue| queue.place.size.into()),
            QUEUE_MSIX_VECTOR => of_queue(|queue| queue.vector.unwrap_or(NO_VECTOR).into()),
            QUEUE_ENABLE => of_queue(|queue| queue.is_enabled.into()),
            QUEUE_NOTIFY_OFF if self.setup().is_some() => self.queue_select.into(),
            QUEUE_DESC => of_queue(|queue| queue.place.descriptors),
            QUEUE_DRIVER => of_queue(|queue| queue.place.driver),
            QUEUE_DEVICE => of_queue(|queue| queue.place.device),
            _ => 0,
        }
    }

    fn shown_status(&self) -> u8 {
        let asks = self.net.needs_reset() && self.status != 0;
        self.status | if asks { status::NEEDS_RESET } else { 0 }
    }

    /// Whole fields only take what is written; a wider access is one for each.
    pub(super) fn write_common(&mut self, at: u32, data: &[u8]) {
        self.check_width(at, data.len());
        let (mut offset, mut rest) = (at, data);
        while !rest.is_empty() {
            let is_whole = |(field, part): &(&Field, u32)| {
                field.at(*part) == offset && field.width as usize <= rest.len()
            };
            let whole = lookup(offset).filter(is_whole);
            let step = whole.map_or(1, |(field, _)| field.width as usize);
            let (now, later) = rest.split_at(step);
            if let Some((field, part)) = whole {
                let value = now.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
                self.set(field, part, value);
            }
            (offset, rest) = (offset + step as u32, later);
        }
    }

    fn set(&mut self, field: &'static Field, part: u32, value: u32) {
        let place = Location::Register(field.name, field.at(part));
        if field.access == Access::RO {
            return self.net.report(Rule::ReadOnlyWritten, place, value.into());
        }
        if self.awaits_read && field.offset != DEVICE_STATUS {
            self.awaits_read = false;
            self.net.report(Rule::ResetNotAwaited, place, value.into());
        }
        match field.offset {
            DEVICE_FEATURE_SELECT => self.device_feature_select = value,
            DRIVER_FEATURE_SELECT => self.driver_feature_select = value,
            DRIVER_FEATURE => self.set_driver_feature(value),
            CONFIG_MSIX_VECTOR => {
                self.config_vector = self.vector(place, value);
                self.net.host.interrupter.config_vector = self.config_vector;
            }
            DEVICE_STATUS => self.set_status(value as u8),
            QUEUE_SELECT => self.queue_select = value as u16,
            _ => self.set_of_queue(field, part, value),
        }
    }

    fn set_driver_feature(&mut self, value: u32) {
        if self.status & status::FEATURES_OK != 0 {
            let place = Location::Register("driver_feature", DRIVER_FEATURE);
            return self.net.report(Rule::FeaturesAfterFeaturesOk, place, value.into());
        }
        let features = &mut self.driver_features;
        match self.driver_feature_select {
            0 => *features = *features & !0xFFFF_FFFF | u64::from(value),
            1 => *features = *features & 0xFFFF_FFFF | u64::from(value) << 32,
            _ if value == 0 => {}
            select => {
                self.net.report(
                    Rule::FeatureNotOffered,
                    Location::Register("driver_feature", DRIVER_FEATURE),
                    select.into(),
                );
            }
        }
    }

    /// A vector that there is, or none.
    fn vector(&mut self, place: Location, value: u32) -> Option<u16> {
        let vector = value as u16;
        if vector >= self.vectors && vector != NO_VECTOR {
            self.net.report(Rule::VectorOutOfRange, place, value.into());
        }
        (vector < self.vectors).then_some(vector)
    }

    fn set_of_queue(&mut self, field: &'static Field, part: u32, value: u32) {
        let index = self.queue_select;
        let place = Location::Register(field.name, field.at(part));
        if self.setup().is_none() {
            return self.net.report(Rule::QueueSelectOutOfRange, place, index.into());
        }
        match field.offset {
            QUEUE_MSIX_VECTOR => {
                let vector = self.vector(place, value);
                self.queues[usize::from(index)].vector = vector;
                self.net.set_vector(index, vector);
            }
            QUEUE_ENABLE => self.enable_queue(index, value),
            QUEUE_RESET => self.reset_queue(index, value),
            _ => self.set_place(index, field.offset, part, value),
        }
    }

    fn set_place(&mut self, index: u16, field: u32, part: u32, value: u32) {
        let queue = &mut self.queues[usize::from(index)];
        if queue.is_enabled {
            let place = Location::Queue(index);
            return self.net.report(Rule::QueueChangedWhileEnabled, place, value.into());
        }
        let place = &mut queue.place;
        let address = match field {
            QUEUE_SIZE => {
                place.size = value as u16;
                return;
            }
            QUEUE_DESC => &mut place.descriptors,
            QUEUE_DRIVER => &mut place.driver,
            _ => &mut place.device,
        };
        let shift = 32 * part;
        *address = *address & !(0xFFFF_FFFF << shift) | u64::from(value) << shift;
    }

    fn enable_queue(&mut self, index: u16, value: u32) {
        let place = Location::Queue(index);
        if value != 1 {
            return self.net.report(Rule::QueueEnableZeroWritten, place, value.into());
        }
        if self.status & status::FEATURES_OK == 0 {
            return self.net.report(Rule::QueueEnabledBeforeFeaturesOk, place, self.status.into());
        }
        let setup = self.queues[usize::from(index)];
        if !setup.is_enabled && self.net.set_up(index, setup.place, None) {
            self.queues[usize::from(index)].is_enabled = true;
            self.net.set_vector(index, setup.vector);
        }
    }

    /// Takes one queue back (2.6.1); it is done at once.
    fn reset_queue(&mut self, index: u16, value: u32) {
        let negotiated = self.net.features() & feature::RING_RESET != 0;
        if value == 1 && negotiated {
            self.net.take_down(index);
            let setup = &mut self.queues[usize::from(index)];
            setup.is_enabled = false;
            setup.place.size = self.net.queue_size();
        } else {
            self.net.report(
                Rule::ReadOnlyWritten,
                Location::Register("queue_reset", QUEUE_RESET),
                value.into(),
            );
        }
    }
}
