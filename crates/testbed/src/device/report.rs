//! What a device tells of itself: counters, losses, and what its driver did
//! wrong.

use std::collections::BTreeMap;

use model::lint::Rule;
use serde::{Deserialize, Serialize};

use crate::wire::WireStats;

/// One thing that the driver did and should not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// How bad it is.
    pub severity: String,
    /// Where.
    pub register: String,
    /// The value, address or length at fault, of the first time.
    pub value: u64,
    /// The datasheet's section.
    pub section: String,
    /// What is wrong, in a sentence.
    pub sentence: String,
    /// What real hardware would do.
    pub consequence: String,
    /// How often.
    pub count: u64,
}

impl<R: Rule, P: std::fmt::Display> From<&model::lint::Finding<R, P>> for Finding {
    fn from(finding: &model::lint::Finding<R, P>) -> Finding {
        let words = finding.rule.words();
        Finding {
            rule: finding.rule.name().to_owned(),
            severity: words.severity.to_string(),
            register: finding.place.to_string(),
            value: finding.value,
            section: words.section.to_owned(),
            sentence: words.sentence.to_owned(),
            consequence: words.consequence.to_owned(),
            count: finding.count,
        }
    }
}

/// What a device counted; a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// The chip.
    pub chip: String,
    /// Packets the model moved, either way.
    pub packets: u64,
    /// Steps it made.
    pub steps: u64,
    /// Steps in which packets moved.
    pub busy_steps: u64,
    /// Interrupts sent.
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
    /// The cable.
    pub wire: WireStats,
    /// What the driver did wrong.
    pub findings: Vec<Finding>,
}
