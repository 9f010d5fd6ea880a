//! What a cable counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use port::Reason;

use super::{Cause, CheckStats};

/// One direction of a cable, in frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direction {
    /// Frames that were put in at one end.
    pub offered: u64,
    /// Frames that the cable itself made: injected duplicates.
    pub made: u64,
    /// Frames that came out at the other end.
    pub delivered: u64,
    /// Bytes of these, without CRC.
    pub bytes: u64,
    /// Frames that are still inside.
    pub waiting: u64,
    /// Frames that were lost, by cause.
    pub lost: BTreeMap<String, u64>,
}

impl Direction {
    /// Whether every frame is accounted for.
    pub fn balances(&self) -> bool {
        self.offered + self.made == self.delivered + self.waiting + self.lost.values().sum::<u64>()
    }

    pub(crate) fn lose(&mut self, cause: Cause, frames: u64) {
        if frames > 0 {
            *self.lost.entry(cause.name().to_owned()).or_default() += frames;
        }
    }
}

/// Both directions of a cable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireStats {
    /// The wire as it was asked for.
    pub wire: String,
    /// Toward the host: what the device received.
    pub to_host: Direction,
    /// From the host: what the device sent.
    pub from_host: Direction,
    /// Frames that were due while nobody stepped the device, and never offered.
    pub skipped: u64,
    /// What the sink found, where it was asked to check.
    pub check: Option<CheckStats>,
    /// Faults that were injected, by name.
    pub faults: BTreeMap<String, u64>,
    /// What a recorder did not write.
    pub not_recorded: NotRecorded,
}

impl WireStats {
    /// What the host sent and the other end never gets, when the host is done and the cable with
    /// it, by the registered reasons: frames that are still inside are lost with it.
    pub fn losses(&self) -> impl Iterator<Item = (Reason, u64)> {
        let lost = Cause::ALL.map(|cause| {
            let count = self.from_host.lost.get(cause.name()).copied();
            (cause.reason(), count.unwrap_or_default())
        });
        lost.into_iter().chain([(Reason::TxWireFull, self.from_host.waiting)]).filter(|(_, count)| *count > 0)
    }
}

/// Frames that are not in a recorder's file, though they passed the cable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRecorded {
    /// Why no more was written; `None` while that goes well.
    pub error: Option<String>,
    /// Frames that the file did not take.
    pub failed: u64,
    /// Frames that came after as many as were to be recorded.
    pub over_limit: u64,
}
