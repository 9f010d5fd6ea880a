//! What a device tells of itself: counters, losses, and what its driver did
//! wrong.

use std::collections::BTreeMap;

use model::lint::{Broken, BrokenAt, SHOWN_PLACES, times};
use serde::{Deserialize, Serialize};

use crate::wire::WireStats;

/// One rule that the driver broke, however often and at however many places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// How bad it is.
    pub severity: String,
    /// The datasheet's section.
    pub section: String,
    /// What is wrong, in a sentence.
    pub sentence: String,
    /// What real hardware would do.
    pub consequence: String,
    /// How often, at all places together.
    pub count: u64,
    /// Where, in the order of the first time; at most
    /// [`MOST_PLACES`](model::lint::MOST_PLACES).
    pub places: Vec<FindingPlace>,
    /// How often at further places.
    pub unlisted: u64,
}

/// One register, queue or other place at which a rule was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingPlace {
    /// The register or queue.
    pub register: String,
    /// The value, address or length at fault, of the first time.
    pub value: u64,
    /// How often it happened at this place.
    pub count: u64,
}

impl From<Broken> for Finding {
    fn from(broken: Broken) -> Finding {
        let Broken { rule, words, count, places, unlisted } = broken;
        let place = |BrokenAt { place, value, count }| FindingPlace { register: place, value, count };
        Finding {
            rule: rule.to_owned(),
            severity: words.severity.to_string(),
            section: words.section.to_owned(),
            sentence: words.sentence.to_owned(),
            consequence: words.consequence.to_owned(),
            count,
            places: places.into_iter().map(place).collect(),
            unlisted,
        }
    }
}

impl Finding {
    /// How often and where, in words: the first few places, and how many more.
    pub fn where_found(&self) -> String {
        let shown = self.places.iter().take(SHOWN_PLACES);
        let shown: Vec<_> =
            shown.map(|place| format!("{} value {:#x}", place.register, place.value)).collect();
        let mut text = format!("{} at {}", times(self.count), shown.join(", "));
        let more = self.places.len().saturating_sub(SHOWN_PLACES);
        if more > 0 {
            let open = if self.unlisted > 0 { " or more" } else { "" };
            text += &format!(" and {more}{open} other places");
        }
        text
    }
}

/// What a device counted; a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// The name of the chip that is modelled.
    pub chip: String,
    /// Packets the model moved, either way.
    pub packets: u64,
    /// Steps it made.
    pub steps: u64,
    /// Steps in which packets moved.
    pub busy_steps: u64,
    /// Interrupts that were sent to the driver.
    pub interrupts: u64,
    /// Interrupts of vectors that nobody listens to.
    pub interrupts_unwired: u64,
    /// Accesses of trapped registers.
    pub trapped: u64,
    /// Accesses of a width or alignment that no register has.
    pub odd_accesses: u64,
    /// Ranges of host memory that are mapped, and their bytes.
    pub mapped: (usize, u64),
    /// Clients that attached so far.
    pub clients: u64,
    /// The chip's own counters.
    pub counters: BTreeMap<String, u64>,
    /// Packets that the chip lost, by name.
    pub drops: BTreeMap<String, u64>,
    /// Faults of the device that were injected.
    pub faults: BTreeMap<String, u64>,
    /// What the cable in the port counted.
    pub wire: WireStats,
    /// What the driver did wrong: one entry for each rule, the worst first.
    pub findings: Vec<Finding>,
}
