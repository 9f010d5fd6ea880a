//! What all lanes counted, gathered by one of them while all run.
//!
//! Each lane counts for itself, without a thought for the others; whoever wants the
//! sum sends a letter round and waits. So nothing is paid while nobody asks.

use crate::cx::Cx;
use crate::lane::Figures;

/// An element and what all lanes counted for it.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// The element's full name.
    pub name: String,
    /// The name of its class.
    pub class: String,
    /// Why it drops packets, as in [`Figures::drops`].
    pub reasons: &'static [&'static str],
    /// The sums.
    pub figures: Figures,
}

impl Figures {
    /// Adds what another lane counted.
    pub fn add(&mut self, other: &Figures) {
        self.packets += other.packets;
        self.batches += other.batches;
        self.cycles = self.cycles.wrapping_add(other.cycles);
        self.drops.resize(self.drops.len().max(other.drops.len()), 0);
        self.drops.iter_mut().zip(&other.drops).for_each(|(sum, more)| *sum += more);
    }
}

impl Cx<'_> {
    /// What all lanes counted for every element, in order. A lane that does not
    /// answer in time is left out.
    pub fn count_all(&mut self) -> Vec<Counted> {
        let elements = self.lane.shared.plan.elements.iter();
        let mut all: Vec<Counted> = elements
            .map(|e| Counted {
                name: e.name.clone(),
                class: e.class.to_string(),
                reasons: e.kind.drops,
                figures: Figures::default(),
            })
            .collect();
        for lane in 0..self.lane.shared.inboxes.len() {
            let figures = self
                .lane
                .in_lane(lane, |lane| lane.slots.iter().map(|slot| slot.figures.clone()).collect::<Vec<_>>());
            for (counted, figures) in all.iter_mut().zip(figures.unwrap_or_default()) {
                counted.figures.add(&figures);
            }
        }
        all
    }
}
