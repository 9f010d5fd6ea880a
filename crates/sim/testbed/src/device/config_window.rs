//! Accesses of BARs by way of the configuration space, through a capability that
//! says which bytes of which BAR its data field stands for (virtio 1.3, section
//! 4.1.4.9).

use bus::config_space::ConfigSpace;
use regs::virtio::pci::capability;

/// The capability by which BARs are accessed (`VIRTIO_PCI_CAP_PCI_CFG`).
#[derive(Clone, Copy, Debug)]
pub struct ConfigWindow {
    /// Where it lies in the configuration space.
    pub at: u16,
}

impl ConfigWindow {
    /// What an access of `len` bytes at `offset` reaches: BAR, offset and length;
    /// `None` for one that is not of the data field, or not as long as it says.
    pub(super) fn target(self, config: &ConfigSpace, offset: u16, len: usize) -> Option<(usize, u64, usize)> {
        if offset != self.at + capability::PCI_CFG_DATA {
            return None;
        }
        let mut fields = [0; capability::BYTES_LONG as usize];
        config.read(self.at, &mut fields);
        let word =
            |at: u16| fields[usize::from(at)..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let wanted = word(capability::LENGTH) as usize;
        let whole = matches!(wanted, 1 | 2 | 4) && wanted <= len;
        whole.then_some((
            fields[usize::from(capability::BAR)].into(),
            word(capability::OFFSET).into(),
            wanted,
        ))
    }
}
