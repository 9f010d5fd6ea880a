//! Timers: elements woken at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A timer of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId {
    pub(crate) lane: usize,
    index: usize,
}

#[derive(Debug)]
struct Timer {
    element: usize,
    /// When, and which entry of the heap is the valid one.
    set: Option<(i64, u64)>,
}

/// The timers of a lane.
#[derive(Debug, Default)]
pub struct Timers {
    timers: Vec<Timer>,
    heap: BinaryHeap<Reverse<(i64, u64, usize)>>,
    entries: u64,
    lane: usize,
}

impl Timers {
    /// Those of a lane.
    pub(crate) fn of_lane(lane: usize) -> Timers {
        Timers { lane, ..Timers::default() }
    }

    /// A new timer of an element, not set.
    pub(crate) fn add(&mut self, element: usize) -> TimerId {
        self.timers.push(Timer { element, set: None });
        TimerId { lane: self.lane, index: self.timers.len() - 1 }
    }

    /// Sets a timer, whatever it was set to.
    pub(crate) fn set(&mut self, timer: TimerId, at_ns: i64) {
        self.entries += 1;
        self.timers[timer.index].set = Some((at_ns, self.entries));
        self.heap.push(Reverse((at_ns, self.entries, timer.index)));
        // Entries that were set anew pile up only as far as there are timers.
        if self.heap.len() > 64 + 4 * self.timers.len() {
            let timers = &self.timers;
            self.heap.retain(|Reverse((_, entry, i))| timers[*i].set.is_some_and(|(_, e)| e == *entry));
        }
    }

    /// Takes a timer's time away.
    pub(crate) fn clear(&mut self, timer: TimerId) {
        self.timers[timer.index].set = None;
    }

    /// When a timer is due.
    pub(crate) fn due(&self, timer: TimerId) -> Option<i64> {
        self.timers[timer.index].set.map(|(at, _)| at)
    }

    /// When the first timer is due.
    pub(crate) fn first(&mut self) -> Option<i64> {
        while let Some(Reverse((at, entry, index))) = self.heap.peek() {
            if self.timers[*index].set.is_some_and(|(_, e)| e == *entry) {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the first timer that is due, with its element.
    pub(crate) fn take(&mut self, now_ns: i64) -> Option<(TimerId, usize)> {
        self.first().filter(|at| *at <= now_ns)?;
        let Reverse((_, _, index)) = self.heap.pop()?;
        let timer = &mut self.timers[index];
        timer.set = None;
        Some((TimerId { lane: self.lane, index }, timer.element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_due_in_order_and_once() {
        let mut timers = Timers::default();
        let [a, b, c] = [timers.add(0), timers.add(1), timers.add(2)];
        timers.set(a, 30);
        timers.set(b, 10);
        timers.set(c, 20);
        timers.set(b, 40);
        timers.clear(c);
        assert_eq!(timers.first(), Some(30));
        assert_eq!(timers.take(29), None);
        assert_eq!(timers.take(100), Some((a, 0)));
        assert_eq!(timers.take(100), Some((b, 1)));
        assert_eq!(timers.take(100), None);
    }

    #[test]
    fn a_timer_set_again_and_again_takes_no_memory() {
        let mut timers = Timers::default();
        let timer = timers.add(0);
        (0..100_000).for_each(|at| timers.set(timer, at));
        assert!(timers.heap.len() < 100);
        assert_eq!(timers.take(i64::MAX), Some((timer, 0)));
    }
}
