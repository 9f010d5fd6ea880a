//! The host as the data path meets it: its memory, the pages it shares, and what is counted.
//!
//! Every frame the wire offers is delivered or lost by one of the names here; every packet
//! the host queues is sent, or lost by one of the names.

use super::interrupts::Interrupts;
use super::lint::{Lint, Location, Rule};
use super::statistics::{Statistics, TX};
use super::timesync::TimeSync;
use crate::headers::Headers;

crate::counters::drops! {
    /// The queue had no descriptor.
    rx_no_descriptor,
    /// No filter wanted it.
    rx_filtered_mac,
    /// Its VLAN was not wanted.
    rx_filtered_vlan,
    /// A filter of Flow Director drops its flow.
    rx_filtered_flow,
    /// The CRC was wrong, or a symbol was illegal.
    rx_crc,
    /// It was shorter than 64 bytes with its CRC.
    rx_undersize,
    /// It was longer than the MAC or the queue's context allows.
    rx_oversize,
    /// A buffer's address is not mapped.
    rx_dma_fault,
    /// It was meant for a queue that is not enabled.
    rx_queue_disabled,
    /// The link was down when it came.
    rx_link_down,
    /// Too many frames waited for its virtual function.
    rx_vf_full,
    /// Its descriptors make no sense.
    tx_bad_descriptor,
    /// A buffer's address is not mapped.
    tx_dma_fault,
    /// Its queue was disabled, or the device reset, before its last descriptor.
    tx_disabled,
    /// Its source or its VLAN is none that its VSI may send.
    tx_spoofed,
    /// Its virtual function has no VSI.
    tx_no_vsi,
    /// A filter of control frames drops what is sent.
    tx_control,
}

/// The host as the data path sees it.
#[derive(Debug)]
pub(super) struct Host<D, P> {
    /// The view of its memory.
    pub dma: D,
    /// The pages of BAR 0 that it maps: the queues' tails.
    pub pages: P,
    pub counters: Counters,
}

/// What the data path has to tell, apart from packets.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub drops: Drops,
    pub statistics: Statistics,
    pub interrupts: Interrupts,
    pub time_sync: TimeSync,
    pub lint: Lint,
    /// Bus Master Enable is clear: the device accesses no memory.
    pub dma_off: bool,
    /// A transmit queue was stopped for what it was given, and the driver did not clear that.
    pub malicious: bool,
    /// Frames the wire gave, and packets the host queued, each segment counting.
    pub rx_offered: u64,
    /// Frames of the wire that virtual functions alone received.
    pub rx_for_vfs: u64,
    /// Frames of virtual functions that went to the wire.
    pub from_vfs: u64,
    pub tx_offered: u64,
    /// Commands that the firmware answered.
    pub commands: u64,
}

impl Counters {
    /// The switch drops a control frame that the physical function has sent, which counted as sent.
    pub fn drop_control(&mut self, frame: &[u8]) {
        self.drops.tx_control += 1;
        self.statistics.packets[TX] -= 1;
        self.statistics.bytes[TX] -= frame.len() as u64;
    }

    /// The place that keeps the time of a frame that comes from the wire now, if one does.
    #[inline]
    pub fn keep_time(&mut self, frame: &[u8], headers: &Headers) -> Option<usize> {
        if !self.time_sync.looks() {
            return None;
        }
        let kept = self.time_sync.keep(frame, headers);
        self.report_time_sync();
        kept
    }

    /// Reports what was done wrong with the clock and the times that are kept.
    pub fn report_time_sync(&mut self) {
        if let Some((rule, place, value)) = self.time_sync.violation() {
            self.report(rule, place, value);
        }
    }

    /// Reports a rule broken; a new kind is logged.
    pub fn report(&mut self, rule: Rule, place: Location, value: u64) {
        if let Some(finding) = self.lint.report(rule, place, value) {
            tracing::debug!(%finding, "driver");
        }
    }
}
