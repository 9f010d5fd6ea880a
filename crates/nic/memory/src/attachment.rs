//! A device's membership in an address space.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use bus::sigbus;

use crate::region::Dma;

/// Keeps a device in a [`Dma`]; it leaves when this is dropped.
#[derive(Debug)]
pub struct Attachment {
    dma: Dma,
    device: u64,
    /// [`sigbus::losses`] when nothing of the space was lost for the last time.
    losses: AtomicU64,
}

impl Attachment {
    pub(crate) fn new(dma: Dma, device: u64) -> Attachment {
        Attachment { dma, device, losses: AtomicU64::new(sigbus::losses()) }
    }

    /// Whether all memory of the space is still there. A device keeps to the pages that it
    /// was given, so where a peer of any device took some away, this one's packets are in
    /// memory that the process no longer sees.
    ///
    /// # Errors
    /// [`bus::Error::packet_memory_lost`].
    pub fn health(&self) -> bus::Result<()> {
        let losses = sigbus::losses();
        if self.losses.load(Ordering::Relaxed) == losses {
            return Ok(());
        }
        let chunks: Vec<_>; // dropped after the lock, which Chunk::drop takes
        let state = self.dma.state();
        chunks = state.chunks.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        if chunks.iter().any(|chunk| chunk.is_lost()) {
            return Err(bus::Error::packet_memory_lost());
        }
        self.losses.store(losses, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let chunks: Vec<_>; // dropped after the lock, which Chunk::drop takes
        let mut state = self.dma.state();
        chunks = state.chunks.iter().filter_map(Weak::upgrade).collect();
        let Some(i) = state.devices.iter().position(|&(id, _)| id == self.device) else { return };
        let (_, pci) = state.devices.swap_remove(i);
        for (iova, _, len) in chunks.iter().flat_map(|c| c.stretches()) {
            if let Err(error) = pci.unmap_dma(iova, len) {
                tracing::debug!(device = pci.name(), iova, "cannot unmap: {error}");
            }
        }
    }
}
