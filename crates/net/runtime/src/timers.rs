//! Timers of many connections: a hierarchical timing wheel (Varghese and Lauck, *Hashed
//! and Hierarchical Timing Wheels*, scheme 7) of six levels of 64 slots.
//!
//! Timers are numbers below a capacity, for example of a table of connections. Setting,
//! cancelling and taking an expired one cost the same however many there are: a timer
//! moves down a level five times at most. Memory is taken once. Time is passed in, in
//! nanoseconds of any clock that does not go back. No timer expires early, and none later
//! than the first look at the wheel a tick behind its deadline.

/// Bits of a tick's number that a level looks at.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 6;
/// The list of timers that were due when they were set, behind those of the slots.
const DUE: usize = LEVELS * SLOTS;
/// Ticks beyond the present that have slots. A timer further away waits in the last of
/// them and is looked at again.
const REACH: u64 = 1 << (BITS * LEVELS as u32);
/// The number of no timer, and of no list.
const NONE: u32 = u32::MAX;

/// A timer, linked into the list of its slot.
#[derive(Debug, Clone, Copy)]
struct Timer {
    /// The tick at which it expires.
    deadline: u64,
    list: u32,
    previous: u32,
    next: u32,
}

/// A wheel of timers.
#[derive(Debug)]
pub struct Timers {
    timers: Box<[Timer]>,
    /// The first timer of each list.
    heads: Box<[u32]>,
    /// For each level, a bit for each slot that is not empty.
    occupied: [u64; LEVELS],
    /// The tick up to which the slots were emptied.
    now: u64,
    start_ns: i64,
    tick_ns: i64,
}

impl Timers {
    /// `capacity` timers, none of them set. `tick_ns` is by how much a timer may be late, at
    /// least one nanosecond; `now_ns` the present.
    ///
    /// # Panics
    /// When there are 2³² - 1 timers or more.
    pub fn new(capacity: usize, tick_ns: i64, now_ns: i64) -> Timers {
        assert!(capacity < NONE as usize, "timers are numbered by 32 bits");
        let timer = Timer { deadline: 0, list: NONE, previous: NONE, next: NONE };
        Timers {
            timers: vec![timer; capacity].into(),
            heads: vec![NONE; DUE + 1].into(),
            occupied: [0; LEVELS],
            now: 0,
            start_ns: now_ns,
            tick_ns: tick_ns.max(1),
        }
    }

    /// Sets a timer, in place of what it was set to. One whose deadline has passed is among
    /// the next that [`expired`](Timers::expired) gives.
    ///
    /// # Panics
    /// When there is no such timer.
    #[inline]
    pub fn set(&mut self, timer: usize, deadline_ns: i64) {
        self.cancel(timer);
        // Rounded up, for it must not expire early.
        let after = deadline_ns.saturating_sub(self.start_ns).max(0) as u64;
        let deadline = after.div_ceil(self.tick_ns as u64);
        self.timers[timer].deadline = deadline;
        self.insert(timer as u32, self.list(deadline));
    }

    /// Cancels a timer, if it is set.
    ///
    /// # Panics
    /// When there is no such timer.
    #[inline]
    pub fn cancel(&mut self, timer: usize) {
        if self.timers[timer].list != NONE {
            self.remove(timer);
        }
    }

    /// Whether a timer is set.
    ///
    /// # Panics
    /// When there is no such timer.
    pub fn is_set(&self, timer: usize) -> bool {
        self.timers[timer].list != NONE
    }

    /// A timer that has expired, which is no longer set then; `None` when there is no other.
    /// Those of an earlier tick come first.
    #[inline]
    pub fn expired(&mut self, now_ns: i64) -> Option<usize> {
        let target = (now_ns.saturating_sub(self.start_ns).max(0) / self.tick_ns) as u64;
        loop {
            let head = self.heads[DUE];
            if head != NONE {
                self.remove(head as usize);
                return Some(head as usize);
            }
            match self.next_slot() {
                Some((tick, list)) if tick <= target => {
                    self.now = tick;
                    self.empty(list);
                }
                _ => {
                    self.now = self.now.max(target);
                    return None;
                }
            }
        }
    }

    /// Until when [`expired`](Timers::expired) need not be asked; `None` while no timer is
    /// set. It may be earlier than the first deadline, by the width of a slot.
    pub fn next_deadline_ns(&self) -> Option<i64> {
        if self.heads[DUE] != NONE {
            return Some(self.start_ns.saturating_add(ticks_ns(self.now, self.tick_ns)));
        }
        let (tick, _) = self.next_slot()?;
        Some(self.start_ns.saturating_add(ticks_ns(tick, self.tick_ns)))
    }

    /// The list for a deadline: at the level of the highest bits in which it is another tick
    /// than the present one.
    fn list(&self, deadline: u64) -> usize {
        if deadline <= self.now {
            return DUE;
        }
        let deadline = deadline.min(self.now + (REACH - 1));
        let level = (63 - (deadline ^ self.now).leading_zeros()) / BITS;
        // The top level goes round: what is beyond its last slot comes before the present one.
        let level = level.min(LEVELS as u32 - 1);
        level as usize * SLOTS + (deadline >> (BITS * level)) as usize % SLOTS
    }

    /// The first slot that is not empty, behind the present one: its first tick and its list.
    fn next_slot(&self) -> Option<(u64, usize)> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let shift = BITS * level as u32;
        let present = self.now >> shift;
        let ahead = self.occupied[level].rotate_right((present % SLOTS as u64) as u32 + 1).trailing_zeros();
        let slot = present + 1 + u64::from(ahead);
        Some((slot << shift, level * SLOTS + slot as usize % SLOTS))
    }

    /// Has the timers of a list that begins now expire, or wait at a lower level.
    fn empty(&mut self, list: usize) {
        while self.heads[list] != NONE {
            let timer = self.heads[list];
            self.remove(timer as usize);
            self.insert(timer, self.list(self.timers[timer as usize].deadline));
        }
    }

    fn insert(&mut self, timer: u32, list: usize) {
        let next = std::mem::replace(&mut self.heads[list], timer);
        let entry = &mut self.timers[timer as usize];
        (entry.list, entry.previous, entry.next) = (list as u32, NONE, next);
        if next != NONE {
            self.timers[next as usize].previous = timer;
        }
        if let Some(slots) = self.occupied.get_mut(list / SLOTS) {
            *slots |= 1 << (list % SLOTS);
        }
    }

    fn remove(&mut self, timer: usize) {
        let Timer { list, previous, next, .. } = self.timers[timer];
        self.timers[timer].list = NONE;
        match previous {
            NONE => self.heads[list as usize] = next,
            previous => self.timers[previous as usize].next = next,
        }
        if next != NONE {
            self.timers[next as usize].previous = previous;
        }
        let list = list as usize;
        if let (NONE, Some(slots)) = (self.heads[list], self.occupied.get_mut(list / SLOTS)) {
            *slots &= !(1 << (list % SLOTS));
        }
    }
}

/// Nanoseconds of so many ticks; as many as there can be where they are more.
fn ticks_ns(ticks: u64, tick_ns: i64) -> i64 {
    i64::try_from(ticks).map_or(i64::MAX, |ticks| ticks.saturating_mul(tick_ns))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const TICK: i64 = 1_000_000;
    const START: i64 = 77_123_456;
    const CAPACITY: usize = 24;

    fn all(timers: &mut Timers, now_ns: i64) -> Vec<usize> {
        std::iter::from_fn(|| timers.expired(now_ns)).collect()
    }

    #[derive(Debug, Clone)]
    enum Step {
        Set(usize, i64),
        Cancel(usize),
        Pass(i64),
        Jump,
    }

    /// Times of all sizes, from less than a tick to more than the wheel can hold.
    fn time() -> impl Strategy<Value = i64> {
        (0u32..62, any::<i64>()).prop_map(|(bits, any)| any & ((1 << bits) - 1))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..CAPACITY, time()).prop_map(|(timer, after)| Step::Set(timer, after)),
            1 => (0..CAPACITY, -3 * TICK..3 * TICK).prop_map(|(timer, after)| Step::Set(timer, after)),
            1 => (0..CAPACITY).prop_map(Step::Cancel),
            2 => time().prop_map(Step::Pass),
            2 => Just(Step::Jump),
        ]
    }

    proptest! {
        /// A sorted set of deadlines says what must expire.
        #[test]
        fn what_expires_is_what_a_sorted_set_says(steps in prop::collection::vec(step(), 1..200)) {
            let mut timers = Timers::new(CAPACITY, TICK, START);
            let mut set = BTreeSet::<(i64, usize)>::new();
            let mut now = START;
            for step in steps {
                match step {
                    Step::Set(timer, after) => {
                        let deadline = now.saturating_add(after);
                        timers.set(timer, deadline);
                        set.retain(|(_, other)| *other != timer);
                        set.insert((deadline, timer));
                    }
                    Step::Cancel(timer) => {
                        timers.cancel(timer);
                        set.retain(|(_, other)| *other != timer);
                    }
                    Step::Pass(time) => now = now.saturating_add(time),
                    Step::Jump => {
                        let next = timers.next_deadline_ns();
                        prop_assert_eq!(next.is_none(), set.is_empty());
                        if let (Some(next), Some((first, _))) = (next, set.first()) {
                            prop_assert!(next <= first.saturating_add(TICK - 1).max(now));
                            now = now.max(next);
                        }
                    }
                }
                // Tick by tick: due is what lies in ticks that have begun.
                let tick = |ns: i64| ns.saturating_sub(START).max(0);
                let mut due: Vec<usize> = set
                    .iter()
                    .filter(|(deadline, _)| {
                        tick(*deadline).unsigned_abs().div_ceil(TICK as u64) <= (tick(now) / TICK) as u64
                    })
                    .map(|(_, timer)| *timer)
                    .collect();
                let mut expired = all(&mut timers, now);
                set.retain(|(_, timer)| !due.contains(timer));
                due.sort_unstable();
                expired.sort_unstable();
                prop_assert_eq!(expired, due);
                for timer in 0..CAPACITY {
                    prop_assert_eq!(timers.is_set(timer), set.iter().any(|(_, other)| *other == timer));
                }
            }
        }
    }

    #[test]
    fn none_is_early_and_earlier_ticks_come_first() {
        let mut timers = Timers::new(3, TICK, 0);
        timers.set(0, 5 * TICK + 1);
        timers.set(1, 5 * TICK);
        timers.set(2, 70 * TICK);
        assert!(all(&mut timers, 5 * TICK - 1).is_empty());
        assert_eq!(all(&mut timers, 6 * TICK - 1), [1]);
        assert_eq!(all(&mut timers, 100 * TICK), [0, 2]);
        assert_eq!(timers.next_deadline_ns(), None);
    }

    #[test]
    fn sleeping_until_the_next_deadline_takes_a_few_looks() {
        for after in [1, 63, 64, 4095, 4096, 1 << 20, 1 << 35, 1 << 36, 1 << 38] {
            let mut timers = Timers::new(1, 1, 0);
            timers.set(0, after);
            let mut looks = 0;
            let mut now = 0;
            while timers.expired(now).is_none() {
                now = timers.next_deadline_ns().expect("it is set");
                looks += 1;
            }
            assert_eq!(now, after, "not early, not late");
            assert!(looks <= LEVELS + (after >> 36) as usize + 1, "{looks} looks for {after}");
        }
    }

    #[test]
    fn a_deadline_that_has_passed_is_due_at_once() {
        let mut timers = Timers::new(2, TICK, 0);
        assert!(all(&mut timers, 9 * TICK).is_empty());
        timers.set(1, 3 * TICK);
        timers.set(0, i64::MIN);
        assert_eq!(timers.next_deadline_ns(), Some(9 * TICK));
        assert_eq!(all(&mut timers, 9 * TICK).len(), 2);
        timers.set(0, i64::MAX);
        assert!(all(&mut timers, 1 << 50).is_empty());
        assert!(timers.is_set(0));
    }
}
