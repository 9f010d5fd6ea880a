//! The books: what came, what was lost and why, and what the driver did wrong.
//!
//! Every frame the wire offers is delivered, lost by one of the names here, or
//! held until there is a buffer; every packet the host queues is sent, or lost
//! by one of the names.

use super::lint::{Lint, Place, Rule};

crate::books::drops! {
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

crate::books::counters! {
    /// What moved, and what the driver was told.
    Totals {
    /// Frames the wire gave.
        rx_offered,
    /// Frames that reached the host.
        rx_packets,
    /// Their bytes.
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
    /// Their bytes.
        tx_bytes,
    /// Checksums filled in.
        tx_checksums,
    /// Packets that were cut.
        tx_cut,
    /// Commands answered with OK, and with ERR.
        commands,
    /// Commands refused.
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

/// What the data path has to tell, apart from packets.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub drops: Drops,
    pub totals: Totals,
    pub lint: Lint,
}

impl Books {
    /// Reports a rule broken; a new kind is logged.
    #[cold]
    pub fn report(&mut self, rule: Rule, place: Place, value: u64) {
        if let Some(finding) = self.lint.report(rule, place, value) {
            tracing::debug!(%finding, "driver");
        }
    }
}
