//! Interrupts (82599 datasheet 7.3, 82576 datasheet 7.3): each receive queue has
//! a vector of its own, delivered as an eventfd. Polling is the default; a loop
//! that finds nothing for a while arms the interrupt and sleeps, and goes back to
//! polling with the first packet. The device masks the vector itself when it
//! fires (EIAC and EIAM through GPIE.EIAME), so that a busy loop is never
//! interrupted. Which queue has which vector, each chip's `interrupt.rs` tells it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bus::Register;
use port::OptionError;
use rustix::event::{EventfdFlags, eventfd};

use super::chip::Device;
use crate::{Error, Result};

/// What is written to a register.
pub struct Write {
    pub(crate) register: Register,
    pub(crate) value: u32,
}

/// One queue's interrupt.
pub struct Signal {
    event: OwnedFd,
    pub(crate) vector: usize,
    /// Lets the vector through.
    unmask: Write,
    mask: Write,
}

impl Signal {
    /// Joins a vector of the device to an eventfd, for receive queue `index`; `writes`
    /// gives what unmasks and what masks a vector.
    pub(crate) fn new(
        device: &Device,
        index: usize,
        writes: impl FnOnce(usize) -> [Write; 2],
    ) -> Result<Signal> {
        let Some(vector) = device.vectors().nth(index) else {
            // Two queues at one eventfd would take each other's wake-ups.
            let (option, limit) =
                ("receive queues with interrupts", "each needs an MSI-X vector of the device");
            return Err(OptionError { option, value: index + 1, limit }.into());
        };
        let failed = |source: rustix::io::Errno| Error::EventFd { source: source.into() };
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        device.pci.set_interrupt(vector as u16, Some(event.as_fd()))?;
        let [unmask, mask] = writes(vector);
        Ok(Signal { event, vector, unmask, mask })
    }

    /// Lets the vector through; the eventfd that it makes readable.
    pub(crate) fn arm(&self) -> BorrowedFd<'_> {
        self.unmask.register.write(self.unmask.value);
        self.event.as_fd()
    }

    /// Masks the vector and forgets what it signalled.
    pub(crate) fn disarm(&self) {
        self.mask.register.write(self.mask.value);
        // Nothing to take is the usual case when a time-out woke us.
        let _ = bus::eventfd::take(&self.event);
    }
}
