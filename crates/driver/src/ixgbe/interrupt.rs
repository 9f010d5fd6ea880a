//! Interrupts (datasheet 7.3): each receive queue has a vector of its own,
//! delivered as an eventfd. Polling is the default; a loop that finds nothing
//! for a while arms the interrupt and sleeps, and goes back to polling with the
//! first packet. The device masks the vector itself when it fires (EIAC and
//! EIAM through GPIE.EIAME), so that a busy loop is never interrupted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use bus::Bar;
use regs::ixgbe::{EIAC, EIAM_EX, EIMC_EX, EIMS_EX, EITR, GPIE, IVAR};

use super::device::Shared;
use super::options::Options;
use super::rx::RxQueue;
use crate::{Error, Result};

/// At most one interrupt per vector in this time: 2.048 µs units on a 10 Gbit/s
/// link, in bits 11:3 (8.2.3.5.12). 16 µs keeps latency low and a storm away.
const INTERVAL: u32 = 8 << 3;

/// Vectors that can be wired, the 82599's MSI-X table.
const VECTORS: usize = 64;

/// One queue's interrupt.
pub struct Signal {
    event: OwnedFd,
    vector: usize,
}

impl Signal {
    /// Wires the vector of receive queue `index`.
    fn new(shared: &Shared, index: usize) -> Result<Signal> {
        let vector = index % VECTORS.min(usize::from(shared.pci.interrupt_vectors()).max(1));
        let failed = |source: rustix::io::Errno| Error::EventFd { source: source.into() };
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        shared.pci.set_interrupt(vector as u16, Some(event.as_fd()))?;
        let bar = &shared.bar;
        // IVAR holds four causes: receive and transmit of two queues (8.2.3.5.14).
        let shift = 16 * (index as u32 & 1);
        let entry = (vector as u32 | IVAR::VALID) << shift;
        bar.write32(IVAR::at(index / 2), bar.read32(IVAR::at(index / 2)) & !(0xFF << shift) | entry);
        bar.write32(EITR::at(vector), INTERVAL);
        Ok(Signal { event, vector })
    }

    fn arm(&self, bar: &Bar) {
        bar.write32(EIMS_EX::at(self.vector / 32), 1 << (self.vector % 32));
    }

    fn disarm(&self, bar: &Bar) {
        bar.write32(EIMC_EX::at(self.vector / 32), 1 << (self.vector % 32));
    }
}

/// Wires the interrupt of each receive queue, where that is wanted and possible.
pub(super) fn wire(shared: &Shared, queues: &mut [RxQueue], options: &Options) -> Result<()> {
    if !options.interrupts || shared.pci.interrupt_vectors() == 0 {
        return Ok(());
    }
    enable(&shared.bar);
    for (n, queue) in queues.iter_mut().enumerate() {
        queue.signal = Some(Signal::new(shared, n)?);
    }
    Ok(())
}

/// Puts the device into MSI-X mode, every vector masking itself when it fires.
fn enable(bar: &Bar) {
    bar.write32(GPIE::AT, GPIE::MULTIPLE_MSIX | GPIE::PBA_SUPPORT | GPIE::EIAME | GPIE::OCD);
    bar.write32(EIAC::AT, 0xFFFF);
    (0..EIAM_EX::COUNT).for_each(|n| bar.write32(EIAM_EX::at(n), u32::MAX));
}

impl RxQueue {
    /// Arms the queue's interrupt and returns the eventfd that becomes readable
    /// with the next packet; `None` when the port was opened without
    /// interrupts. Poll the ring once more after arming: a packet that came
    /// before does not signal again.
    pub fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        let signal = self.signal.as_ref()?;
        signal.arm(&self.shared.bar);
        Some(signal.event.as_fd())
    }

    /// Ends what [`arm`](Self::arm) began: the loop polls again.
    pub fn disarm(&mut self) {
        if let Some(signal) = &self.signal {
            signal.disarm(&self.shared.bar);
            let mut count = [0; 8];
            // Nothing to read is the usual case when a time-out woke us.
            let _ = rustix::io::read(&signal.event, &mut count);
        }
    }
}
