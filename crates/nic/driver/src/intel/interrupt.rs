//! Interrupts (82599 datasheet 7.3, 82576 datasheet 7.3): each receive queue has
//! a vector of its own, delivered as an eventfd. Polling is the default; a loop
//! that finds nothing for a while arms the interrupt and sleeps, and goes back to
//! polling with the first packet. The device masks the vector itself when it
//! fires (EIAC and EIAM through GPIE.EIAME), so that a busy loop is never
//! interrupted. Which queue has which vector, each chip's `interrupt.rs` tells it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use super::chip::Device;
use super::rx::RxQueue;
use crate::{Error, Result};

/// One queue's interrupt.
pub struct Signal {
    event: OwnedFd,
    pub(crate) vector: usize,
}

impl Signal {
    /// Joins a vector of the device to an eventfd, for receive queue `index`.
    pub(crate) fn new(device: &Device, index: usize) -> Result<Signal> {
        let vectors = device.facts.vectors.min(usize::from(device.pci.interrupt_vectors()));
        if index >= vectors {
            // Two queues at one eventfd would take each other's wake-ups.
            let (option, limit) =
                ("receive queues with interrupts", "each needs an MSI-X vector of the device");
            return Err(Error::Option { option, value: index + 1, limit });
        }
        let failed = |source: rustix::io::Errno| Error::EventFd { source: source.into() };
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        device.pci.set_interrupt(index as u16, Some(event.as_fd()))?;
        Ok(Signal { event, vector: index })
    }
}

impl RxQueue {
    /// Arms the queue's interrupt and returns the eventfd that becomes readable
    /// with the next packet; `None` when the port was opened without
    /// interrupts. Poll the ring once more after arming: a packet that came
    /// before does not signal again.
    pub fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        let signal = self.signal.as_ref()?;
        let (facts, vector) = (self.shared.facts, signal.vector);
        self.shared.bar.write32(facts.eims.at(vector / 32), 1 << (vector % 32));
        Some(signal.event.as_fd())
    }

    /// Ends what [`arm`](Self::arm) began: the loop polls again.
    pub fn disarm(&mut self) {
        if let Some(signal) = &self.signal {
            let (facts, vector) = (self.shared.facts, signal.vector);
            self.shared.bar.write32(facts.eimc.at(vector / 32), 1 << (vector % 32));
            let mut count = [0; 8];
            // Nothing to read is the usual case when a time-out woke us.
            let _ = rustix::io::read(&signal.event, &mut count);
        }
    }
}
