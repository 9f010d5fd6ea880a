//! In which order the flows of a map expire, at a constant cost for each packet however many
//! flows there are.
//!
//! A flow whose guarantee lasts stands in a slot of a wheel: that in which its guarantee ended
//! when it was put there. A packet only writes its time into the flow. When the slot's time has
//! come, [`Order::advance`] looks at the flow: if packets came, it goes to a later slot, else it
//! rests. Flows rest in lists by their use ([`Use`]), which have the same time to live in a list;
//! they come there in the order of their last packets, so the first of each list is that list's
//! next to expire. A packet of a flow that rests takes it out again.
//!
//! Slots have a millisecond each, or more where that makes more than [`MOST_SLOTS`] of them; then
//! guarantees end up to a slot late, and flows of one slot are in no order.

use super::flow::{Flow, Times, Use};
use super::table::{Link, Table};

/// Slots of a wheel at most, but for two.
const MOST_SLOTS: i64 = 8192;
/// The numbers from here on are those of lists, which are their own ends, not of flows.
const LISTS: u32 = 1 << 31;

/// The flows of a map.
#[derive(Debug, Default)]
pub(crate) struct Order {
    times: Times,
    /// Milliseconds of a slot.
    slot_ms: i64,
    /// The ends of the lists: one for each use, then one for each slot. None before the first
    /// flow comes.
    ends: Vec<Link>,
    /// The slot that is emptied next, counted from the beginning of time.
    cursor: i64,
    /// Flows in slots.
    guaranteed: usize,
}

impl Order {
    /// No flows, which will live as long as `times` says.
    pub(crate) fn new(times: Times) -> Order {
        // Rounded up.
        let slot_ms = (times.guarantee + MOST_SLOTS - 1) / MOST_SLOTS;
        Order { times, slot_ms: slot_ms.max(1), ..Order::default() }
    }

    /// How long its flows live.
    pub(crate) fn times(&self) -> &Times {
        &self.times
    }

    /// When a flow expires, guaranteed or not.
    pub(crate) fn end_of(&self, flow: &Flow) -> i64 {
        flow.last + flow.in_use().time(&self.times)
    }

    /// Adds a flow. Where several were seen at other times than now, the earliest comes first.
    pub(crate) fn add(&mut self, table: &mut Table, id: u32, now: i64) {
        if self.ends.is_empty() {
            let slots = self.times.guarantee / self.slot_ms + 2;
            let lists = Use::ALL.len() as u32 + slots as u32;
            self.ends.extend((LISTS..LISTS + lists).map(|own| Link { previous: own, next: own }));
        }
        if self.guaranteed == 0 {
            self.cursor = now.div_euclid(self.slot_ms);
        }
        match self.times.guarantee {
            0 => self.rest(table, id),
            _ => self.guarantee(table, id),
        }
    }

    /// Takes a flow out.
    pub(crate) fn remove(&mut self, table: &mut Table, id: u32) {
        let Link { previous, next } = table.link(id);
        self.link_mut(table, previous).next = next;
        self.link_mut(table, next).previous = previous;
        self.guaranteed -= usize::from(table.flow(id).rests.is_none());
    }

    /// A packet of a flow that rests came at this time.
    pub(crate) fn wake(&mut self, table: &mut Table, id: u32, now: i64) {
        self.remove(table, id);
        table.flow_mut(id).last = now;
        self.add(table, id, now);
    }

    /// Has the flows rest whose guarantee has ended, looking at so many at most.
    pub(crate) fn advance(&mut self, table: &mut Table, now: i64, most: usize) {
        let (mut left, now) = (most, now.div_euclid(self.slot_ms));
        while self.guaranteed > 0 && self.cursor <= now {
            let slot = self.slot(self.cursor);
            let mut id = self.end(slot).next;
            while id != slot {
                if left == 0 {
                    return;
                }
                left -= 1;
                let next = table.link(id).next;
                if next != slot {
                    table.prefetch(next);
                }
                self.remove(table, id);
                match self.slot_of(table.flow(id)) <= self.cursor {
                    true => self.rest(table, id),
                    false => self.guarantee(table, id),
                }
                id = next;
            }
            self.cursor += 1;
        }
    }

    /// The flow that rests and expires first, and when.
    pub(crate) fn first(&self, table: &Table) -> Option<(i64, u32)> {
        let firsts = Use::ALL.into_iter().filter_map(|in_use| {
            let id = self.ends.get(in_use as usize)?.next;
            (id < LISTS).then(|| (table.flow(id).last + in_use.time(&self.times), id))
        });
        firsts.min_by_key(|(end, _)| *end)
    }

    /// The flow, which just came, is the next of those that rest and had their last packet in the
    /// same millisecond. So it stands in Click, whose heap puts the newest flow into the place of
    /// one that it gave up.
    pub(crate) fn put_first(&mut self, table: &mut Table, id: u32) {
        let flow = table.flow(id);
        let Some(among) = flow.rests else { return };
        let first = self.end(LISTS + among as u32).next;
        if first == id || table.flow(first).last != flow.last {
            return;
        }
        self.remove(table, id);
        self.insert(table, id, first);
    }

    /// Puts a flow into the slot in which its guarantee ends.
    fn guarantee(&mut self, table: &mut Table, id: u32) {
        let slots = (self.ends.len() - Use::ALL.len()) as i64;
        // What is further away is looked at again: time may have passed since the last look.
        let slot = self.slot_of(table.flow(id)).clamp(self.cursor, self.cursor + slots - 1);
        table.flow_mut(id).rests = None;
        self.guaranteed += 1;
        self.insert(table, id, self.slot(slot));
    }

    /// Puts a flow behind all that rest and are used as it is.
    fn rest(&mut self, table: &mut Table, id: u32) {
        let flow = table.flow_mut(id);
        let among = flow.in_use();
        flow.rests = Some(among);
        self.insert(table, id, LISTS + among as u32);
    }

    /// The slot at whose beginning a flow's guarantee has ended, counted from the beginning of
    /// time.
    fn slot_of(&self, flow: &Flow) -> i64 {
        (flow.last + self.times.guarantee - 1).div_euclid(self.slot_ms) + 1
    }

    /// The number of a slot's list.
    fn slot(&self, slot: i64) -> u32 {
        let slots = (self.ends.len() - Use::ALL.len()) as i64;
        LISTS + Use::ALL.len() as u32 + slot.rem_euclid(slots) as u32
    }

    /// Puts a flow in front of another, or at the end of a list.
    fn insert(&mut self, table: &mut Table, id: u32, before: u32) {
        let previous = std::mem::replace(&mut self.link_mut(table, before).previous, id);
        self.link_mut(table, previous).next = id;
        *table.link_mut(id) = Link { previous, next: before };
    }

    fn end(&self, list: u32) -> Link {
        self.ends[(list - LISTS) as usize]
    }

    fn link_mut<'a>(&'a mut self, table: &'a mut Table, number: u32) -> &'a mut Link {
        match number.checked_sub(LISTS) {
            Some(list) => &mut self.ends[list as usize],
            None => table.link_mut(number),
        }
    }
}
