//! The host as the data path meets it: its memory, the pages it shares, and what is
//! counted of what came from it and went to it.
//!
//! Every frame the wire offers is delivered, lost by one of the names here, or
//! still in the packet buffer; every packet the host queues is sent, or lost by
//! one of the names.

use super::interrupts::Interrupts;
use super::lint::{Lint, Register, Rule};
use super::statistics::Statistics;

crate::counters::drops! {
    /// The queue had no descriptor, and its DROP_EN was set.
    rx_no_descriptor,
    /// No address filter wanted it.
    rx_filtered_mac,
    /// The VLAN filter did not want it.
    rx_filtered_vlan,
    /// The packet buffer was full.
    rx_fifo_full,
    /// The CRC was wrong, or a symbol was illegal.
    rx_crc,
    /// It was shorter than 64 bytes with its CRC.
    rx_undersize,
    /// It was longer than MAXFRS allows.
    rx_oversize,
    /// It needs more descriptors than the ring has.
    rx_ring_too_small,
    /// A buffer's address is not mapped.
    rx_dma_fault,
    /// It was meant for a queue that is not enabled.
    rx_queue_disabled,
    /// Receive was off, or the link looped back.
    rx_disabled,
    /// It was in the packet buffer when the device was reset.
    rx_reset,
    /// The link was down when it came.
    rx_link_down,
    /// It was meant for a virtual function that may not receive (PFVFRE).
    rx_pool_disabled,
    /// No pool wants it, and there is no default one (PFVTCTL.Dis_Def_Pool).
    rx_no_pool,
    /// Its descriptors make no sense.
    tx_bad_descriptor,
    /// A buffer's address is not mapped.
    tx_dma_fault,
    /// It is longer than the device can send.
    tx_oversize,
    /// Software was to supply the CRC, and it is wrong.
    tx_bad_crc,
    /// Its queue was disabled, or the device reset, before its last descriptor.
    tx_disabled,
    /// A virtual function may not send from its address, or in its VLAN.
    tx_spoofed,
}

/// The host as the data path sees it.
#[derive(Debug)]
pub(super) struct Host<D, P> {
    /// The view of its memory.
    pub dma: D,
    /// The pages of BAR 0 that it maps.
    pub pages: P,
    pub counters: Counters,
}

/// What the data path has to tell, apart from packets.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub drops: Drops,
    pub statistics: Statistics,
    pub interrupts: Interrupts,
    pub lint: Lint,
    /// Bus Master Enable is clear: the device accesses no memory (9.3.3.3).
    pub dma_off: bool,
    /// Frames the wire gave, looped ones included.
    pub rx_offered: u64,
    /// Packets the host queued, each segment of a large one counting.
    pub tx_offered: u64,
}

impl Counters {
    /// Reports a rule broken; a new kind is logged.
    pub fn report(&mut self, rule: Rule, register: Register, value: u64) {
        if let Some(finding) = self.lint.report(rule, register, value) {
            tracing::debug!(%finding, "driver");
        }
    }
}
