//! How the host is woken: MSI-X messages. The interrupt status is kept as well,
//! though there is no line that would make a driver read it.
//!
//! virtio 1.3, sections 4.1.4.5 and 4.1.5.3.

use regs::virtio::pci::isr;

use super::books::Totals;
use crate::Interrupts;

/// The device's interrupts.
#[derive(Default)]
pub(super) struct Bell {
    pub host: Option<Box<dyn Interrupts>>,
    /// Cleared when read.
    pub isr: u8,
    /// The vector for configuration changes.
    pub config_vector: Option<u16>,
}

impl Bell {
    #[inline]
    pub fn ring_queue(&mut self, vector: Option<u16>, totals: &mut Totals) {
        self.isr |= isr::QUEUE;
        totals.interrupts += u64::from(self.raise(vector));
    }

    pub fn ring_config(&mut self, totals: &mut Totals) {
        self.isr |= isr::CONFIG;
        totals.config_interrupts += u64::from(self.raise(self.config_vector));
    }

    fn raise(&mut self, vector: Option<u16>) -> bool {
        let (Some(host), Some(vector)) = (&mut self.host, vector) else { return false };
        host.raise(vector);
        true
    }
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bell").field("isr", &self.isr).field("config_vector", &self.config_vector).finish()
    }
}
