//! The host as the data path meets it: its memory, how it is woken, and what is
//! counted of what came from it and went to it.
//!
//! Every frame the wire offers is delivered, lost by one of the names here, or
//! held until there is a buffer; every packet the host queues is sent, or lost
//! by one of the names.

use regs::virtio::pci::isr;

use super::lint::{Lint, Location, Rule};
use crate::Interrupts;

crate::counters::drops! {
    /// The queue had no buffer, and as many frames as may wait waited already.
    rx_no_buffer,
    /// The queue was not set up, or broken.
    rx_queue_off,
    /// The driver was not ready.
    rx_not_running,
    /// No address filter wanted it.
    rx_filtered_mac,
    /// The VLAN filter did not want it.
    rx_filtered_vlan,
    /// The CRC was wrong, or a symbol was illegal.
    rx_crc,
    /// It was shorter than 64 bytes with its CRC.
    rx_undersize,
    /// It was longer than the MTU allows.
    rx_oversize,
    /// It is longer than the buffer, and merging was not negotiated; or longer
    /// than all of the ring's buffers.
    rx_buffer_too_small,
    /// A buffer's address is not mapped.
    rx_dma_fault,
    /// It was held when the device was reset.
    rx_reset,
    /// The link was down when it came.
    rx_link_down,
    /// The buffer holds no packet: no header, or a part to be written.
    tx_bad_buffer,
    /// A buffer's address is not mapped.
    tx_dma_fault,
    /// It is longer than the device can send.
    tx_oversize,
    /// Its header asks for what was not negotiated or cannot be done.
    tx_bad_offload,
    /// The link was down.
    tx_link_down,
}

crate::counters::counters! {
    /// What moved, and what the driver was told.
    Totals {
    /// Frames the wire gave.
        rx_offered,
    /// Frames that reached the host.
        rx_packets,
    /// Bytes of the frames that reached the host.
        rx_bytes,
    /// Of these, with a checksum that was found right.
        rx_checksum_good,
    /// Of these, with a checksum that the driver is to fill in.
        rx_checksum_partial,
    /// Receive buffers used; with merging, several for a packet.
        rx_buffers,
    /// Packets the host queued, each segment of a large one counting.
        tx_offered,
    /// Frames that reached the wire.
        tx_packets,
    /// Bytes of the frames that reached the wire.
        tx_bytes,
    /// Checksums filled in.
        tx_checksums,
    /// Packets that were cut.
        tx_cut,
    /// Commands answered with OK, and with ERR.
        commands,
    /// Commands answered with ERR.
        commands_refused,
    /// Notifications of queues that arrived.
        kicks,
    /// Interrupts sent for queues.
        interrupts,
    /// Interrupts sent for the configuration.
        config_interrupts,
    /// Queues stopped because the driver broke them.
        broken_queues,
    /// Resets by the driver.
        resets,
    }
}

/// The host's side of a device, and what is counted at it.
#[derive(Debug)]
pub(super) struct Host<D> {
    /// The view of its memory.
    pub dma: D,
    pub counters: Counters,
    pub interrupter: Interrupter,
}

impl<D> Host<D> {
    /// Tells the driver that a queue has used buffers.
    #[inline]
    pub fn interrupt_queue(&mut self, vector: Option<u16>) {
        self.interrupter.raise_queue(vector, &mut self.counters.totals);
    }

    /// Tells the driver that the configuration has changed.
    pub fn interrupt_config(&mut self) {
        self.interrupter.raise_config(&mut self.counters.totals);
    }
}

/// How the host is woken: MSI-X messages (4.1.5.3). The interrupt status (4.1.4.5) is
/// kept as well, though there is no line that would make a driver read it.
#[derive(Default)]
pub(super) struct Interrupter {
    /// Where messages go.
    pub messages: Option<Box<dyn Interrupts>>,
    /// Cleared when read.
    pub isr: u8,
    /// The vector for configuration changes.
    pub config_vector: Option<u16>,
}

impl Interrupter {
    #[inline]
    fn raise_queue(&mut self, vector: Option<u16>, totals: &mut Totals) {
        self.isr |= isr::QUEUE;
        totals.interrupts += u64::from(self.raise(vector));
    }

    fn raise_config(&mut self, totals: &mut Totals) {
        self.isr |= isr::CONFIG;
        totals.config_interrupts += u64::from(self.raise(self.config_vector));
    }

    fn raise(&mut self, vector: Option<u16>) -> bool {
        let (Some(messages), Some(vector)) = (&mut self.messages, vector) else { return false };
        messages.raise(vector);
        true
    }
}

impl std::fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupter")
            .field("isr", &self.isr)
            .field("config_vector", &self.config_vector)
            .finish()
    }
}

/// What the data path has to tell, apart from packets.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub drops: Drops,
    pub totals: Totals,
    pub lint: Lint,
}

impl Counters {
    /// Reports a rule broken; a new kind is logged.
    #[cold]
    pub fn report(&mut self, rule: Rule, place: Location, value: u64) {
        if let Some(finding) = self.lint.report(rule, place, value) {
            tracing::debug!(%finding, "driver");
        }
    }
}
