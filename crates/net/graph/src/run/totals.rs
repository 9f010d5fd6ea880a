//! What all lanes counted, results by one of them while all run.
//!
//! Each lane counts independently of the others; whoever wants the
//! sum asks each lane and waits. So it costs nothing while nobody asks.

use std::fmt::Write;

use crate::run::counters::Counters;
use crate::run::cx::Cx;
use crate::run::lane::Lane;

/// An element and what all lanes counted for it.
#[derive(Debug, Clone, Default)]
pub struct ElementTotals {
    /// The element's full name.
    pub name: String,
    /// The name of its class.
    pub class: String,
    /// Why it drops packets, as in [`Counters::drops`].
    pub reasons: &'static [port::Reason],
    /// The sums over all lanes.
    pub counters: Counters,
}

impl Counters {
    /// Adds what another lane counted.
    pub fn add(&mut self, other: &Counters) {
        self.packets += other.packets;
        self.batches += other.batches;
        self.cycles = self.cycles.wrapping_add(other.cycles);
        self.timings += other.timings;
        self.made += other.made;
        self.ended += other.ended;
        self.held += other.held;
        self.drops.resize(self.drops.len().max(other.drops.len()), 0);
        self.drops.iter_mut().zip(&other.drops).for_each(|(sum, more)| *sum += more);
    }
}

impl Lane {
    /// What all lanes counted for every element, in order. A lane that does not
    /// answer in time is left out.
    pub(crate) fn count_all(&mut self) -> Vec<ElementTotals> {
        let elements = self.shared.plan.elements.iter();
        let mut all: Vec<ElementTotals> = elements
            .map(|e| ElementTotals {
                name: e.name.to_string(),
                class: e.class.to_string(),
                reasons: e.kind.drops,
                counters: Counters::default(),
            })
            .collect();
        for lane in 0..self.shared.mailboxes.len() {
            let counters = self.in_lane(lane, |lane| {
                lane.slots.iter_mut().filter_map(|slot| slot.element.as_mut()).for_each(|e| e.publish());
                lane.slots.iter().map(|slot| slot.counters.clone()).collect::<Vec<_>>()
            });
            for (counted, counters) in all.iter_mut().zip(counters.unwrap_or_default()) {
                counted.counters.add(&counters);
            }
        }
        all
    }

    /// Packets that an element dropped in all lanes. A lane that does not answer in time is left out.
    pub(crate) fn dropped_by(&mut self, element: usize) -> u64 {
        let in_one = move |lane: &mut Lane| lane.slots[element].counters.drops.iter().sum::<u64>();
        (0..self.shared.mailboxes.len()).filter_map(|lane| self.in_lane(lane, in_one).ok()).sum()
    }

    /// The global handler `ports`: what the ports counted, with the queues of all lanes.
    pub(crate) fn ports_text(&mut self) -> String {
        self.count_all();
        self.shared.ports.as_ref().map_or(String::new(), |ports| ports())
    }

    /// Has all lanes count packets and cycles from now on, or no longer.
    pub(crate) fn measure_all(&mut self, counts: bool) {
        for lane in 0..self.shared.mailboxes.len() {
            let set = move |lane: &mut Lane| lane.set_measured(counts);
            if self.in_lane(lane, set).is_err() {
                self.send_job(lane, set); // done when it reads its messages
            }
        }
    }

    /// The global handler `counters`: a line about the time (two of them tell how fast the
    /// TSC ticks), then one for each element:
    /// name, class, packets, batches, cycles, timings, and each reason for drops with its count,
    /// separated by tabs.
    pub(crate) fn counters_text(&mut self) -> String {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let (tsc, threads) = (bus::tsc::now(), self.shared.mailboxes.len());
        let mut out =
            format!("tsc={tsc}\ttime_ns={now}\tthreads={threads}\tmeasured={}\n", self.profiler.counts);
        for ElementTotals { name, class, reasons, counters } in self.count_all() {
            let Counters { packets, batches, cycles, timings, drops, .. } = counters;
            let _ = write!(out, "{name}\t{class}\t{packets}\t{batches}\t{cycles}\t{timings}");
            for (reason, count) in reasons.iter().zip(drops) {
                let _ = write!(out, "\t{reason}={count}");
            }
            out.push('\n');
        }
        out
    }
}

impl Cx<'_> {
    /// What all lanes counted for every element, in order. A lane that does not
    /// answer in time is left out.
    pub fn count_all(&mut self) -> Vec<ElementTotals> {
        self.lane.count_all()
    }

    /// What the ports counted up to the last [`count_all`](Self::count_all), as lines of
    /// Prometheus's text format; empty without ports.
    pub fn port_series(&self) -> String {
        self.lane.shared.ports.as_ref().map_or(String::new(), |ports| ports())
    }

    /// How many threads run the router.
    pub fn threads(&self) -> usize {
        self.lane.shared.mailboxes.len()
    }

    /// The time stamp counter now.
    pub fn tsc(&self) -> u64 {
        bus::tsc::now()
    }

    /// Whether packets and cycles are counted.
    #[inline]
    pub fn is_measured(&self) -> bool {
        self.lane.profiler.counts
    }
}
