//! A device's membership in an address space.

use std::sync::Weak;

use crate::region::Dma;

/// Keeps a device in a [`Dma`]; it leaves when this is dropped.
#[derive(Debug)]
pub struct Attachment {
    dma: Dma,
    device: u64,
}

impl Attachment {
    pub(crate) fn new(dma: Dma, device: u64) -> Attachment {
        Attachment { dma, device }
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
