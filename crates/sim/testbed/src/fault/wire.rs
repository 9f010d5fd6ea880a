//! Faults of a cable: frames lost, changed, repeated, out of order.

use std::collections::{BTreeMap, VecDeque};

use model::FrameError;

use super::{Random, Spec};
use crate::wire::{Cause, Direction};

/// Frames that are held back at a time, to come later.
const MAX_HELD: usize = 8;
/// Held frames come after so long, whether others came or not.
const HOLD_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    drop: u64,
    corrupt: u64,
    crc: u64,
    truncate: u64,
    duplicate: u64,
    reorder: u64,
    link_down: u64,
}

/// A frame on its way out, and whether its CRC holds.
type Outgoing = (Vec<u8>, FrameError);

/// Injects faults into one direction.
#[derive(Debug)]
pub(crate) struct Injector {
    spec: Spec,
    random: Random,
    /// Whether a wrong CRC ends the frame: toward a sink, which counts none.
    crc_loses: bool,
    counts: Counts,
    /// Frames held back: how many may still overtake, and since when.
    held: VecDeque<(u64, u64, Vec<u8>)>,
    out: VecDeque<Outgoing>,
    begin_ns: Option<u64>,
    now_ns: u64,
}

impl Injector {
    /// `stream` tells the two directions' random numbers apart.
    pub(crate) fn new(spec: Spec, stream: u64, crc_loses: bool) -> Injector {
        Injector {
            spec,
            random: Random::new(spec.seed.wrapping_mul(2).wrapping_add(stream)),
            crc_loses,
            counts: Counts::default(),
            held: VecDeque::new(),
            out: VecDeque::new(),
            begin_ns: None,
            now_ns: 0,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        let elapsed = self.now_ns - self.begin_ns.unwrap_or(self.now_ns);
        self.spec.flap.is_none_or(|flap| flap.is_up(elapsed))
    }

    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns.max(self.now_ns);
        self.begin_ns.get_or_insert(self.now_ns);
        while self.held.front().is_some_and(|(_, since, _)| self.now_ns - since >= HOLD_NS) {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some((_, _, frame)) = self.held.pop_front() {
            self.out.push_back((frame, FrameError::None));
        }
    }

    /// Puts a frame in; what becomes of it comes out of [`Injector::pop`].
    pub(crate) fn push(&mut self, frame: &[u8]) {
        let Spec { drop, corrupt, crc, truncate, duplicate, reorder, .. } = self.spec;
        if !self.is_up() {
            self.counts.link_down += 1;
            return;
        }
        if self.random.happens(drop) {
            self.counts.drop += 1;
            return;
        }
        if self.random.happens(reorder) && self.held.len() < MAX_HELD {
            self.counts.reorder += 1;
            let overtaken_by = 1 + self.random.below(3);
            self.held.push_back((overtaken_by, self.now_ns, frame.to_owned()));
            return;
        }
        let mut frame = frame.to_owned();
        let mut fault = FrameError::None;
        if self.random.happens(corrupt) && !frame.is_empty() {
            self.counts.corrupt += 1;
            let bit = self.random.below(8 * frame.len() as u64) as usize;
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        if self.random.happens(truncate) && !frame.is_empty() {
            self.counts.truncate += 1;
            let len = self.random.below(frame.len() as u64) as usize;
            frame.truncate(len);
        }
        if self.random.happens(duplicate) {
            self.counts.duplicate += 1;
            self.out.push_back((frame.clone(), fault));
        }
        if self.random.happens(crc) {
            self.counts.crc += 1;
            fault = FrameError::Crc;
        }
        if fault == FrameError::None || !self.crc_loses {
            self.out.push_back((frame, fault));
        }
        self.overtake();
    }

    /// One more frame has passed those that are held.
    fn overtake(&mut self) {
        for (left, ..) in &mut self.held {
            *left = left.saturating_sub(1);
        }
        while self.held.front().is_some_and(|&(left, ..)| left == 0) {
            self.release();
        }
    }

    /// The next frame that comes out.
    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }

    /// Adds what was injected to the counters of a direction.
    pub(crate) fn add_to(&self, direction: &mut Direction, faults: &mut BTreeMap<String, u64>) {
        let counts = &self.counts;
        direction.made += counts.duplicate;
        direction.waiting += (self.held.len() + self.out.len()) as u64;
        direction.lose(Cause::FaultDropped, counts.drop);
        direction.lose(Cause::FaultLinkDown, counts.link_down);
        if self.crc_loses {
            direction.lose(Cause::FaultCrc, counts.crc);
        }
        let all = [
            ("drop", counts.drop),
            ("corrupt", counts.corrupt),
            ("crc", counts.crc),
            ("truncate", counts.truncate),
            ("duplicate", counts.duplicate),
            ("reorder", counts.reorder),
            ("link down", counts.link_down),
        ];
        for (name, count) in all.into_iter().filter(|&(_, count)| count > 0) {
            *faults.entry(name.to_owned()).or_default() += count;
        }
    }
}
