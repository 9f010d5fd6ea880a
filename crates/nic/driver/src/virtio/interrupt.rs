//! Interrupts (virtio 1.3, 2.7.7, 2.8.10, 4.1.5.1): each receive queue has a
//! vector of its own, delivered as an eventfd. Polling is the default; a loop that
//! finds nothing for a while arms the interrupt and sleeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use super::transport::Transport;
use crate::{Error, Result};

/// One queue's interrupt.
pub(super) struct Signal {
    event: OwnedFd,
    /// The vector, which the device is told with the queue.
    pub(super) vector: u16,
}

impl Signal {
    /// Wires a vector for receive queue `index`, where there are any.
    pub(super) fn wire(transport: &dyn Transport, index: u16) -> Result<Option<Signal>> {
        let vectors = transport.vectors();
        if vectors == 0 {
            return Ok(None);
        }
        let vector = index % vectors;
        let failed = |source: rustix::io::Errno| Error::EventFd { source: source.into() };
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        transport.pci().set_interrupt(vector, Some(event.as_fd()))?;
        Ok(Some(Signal { event, vector }))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Forgets what was signalled.
    pub(super) fn clear(&self) {
        // Nothing to take is the usual case when a time-out woke us.
        let _ = bus::eventfd::take(&self.event);
    }
}
