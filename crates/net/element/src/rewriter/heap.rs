//! Numbers by their time, the earliest first, in two heaps: times can be changed,
//! and numbers move from one heap to the other.

/// Where a number is not in a heap.
const NOWHERE: (bool, u32) = (false, u32::MAX);

/// Two binary heaps.
#[derive(Debug, Default)]
pub(crate) struct Heaps {
    heaps: [Vec<(i64, u32)>; 2],
    /// In which heap each number is, and where.
    places: Vec<(bool, u32)>,
}

impl Heaps {
    pub(crate) fn len(&self) -> usize {
        self.heaps[0].len() + self.heaps[1].len()
    }

    /// The first of a heap, and its time.
    pub(crate) fn first(&self, heap: bool) -> Option<(u32, i64)> {
        self.heaps[usize::from(heap)].first().map(|(time, id)| (*id, *time))
    }

    /// Adds a number that is in none.
    pub(crate) fn add(&mut self, heap: bool, id: u32, time: i64) {
        if self.places.len() <= id as usize {
            self.places.resize(id as usize + 1, NOWHERE);
        }
        self.heaps[usize::from(heap)].push((time, id));
        let last = self.heaps[usize::from(heap)].len() - 1;
        self.rise(heap, last);
    }

    /// Removes a number, if it is in one.
    pub(crate) fn remove(&mut self, id: u32) {
        let (heap, place) = self.places[id as usize];
        if place == u32::MAX {
            return;
        }
        self.places[id as usize] = NOWHERE;
        let place = place as usize;
        self.heaps[usize::from(heap)].swap_remove(place);
        if place < self.heaps[usize::from(heap)].len() {
            let place = self.rise(heap, place);
            self.sink(heap, place);
        }
    }

    /// Gives a number another time, and another heap.
    pub(crate) fn change(&mut self, heap: bool, id: u32, time: i64) {
        let (old, place) = self.places[id as usize];
        if old != heap || place == u32::MAX {
            self.remove(id);
            return self.add(heap, id, time);
        }
        self.heaps[usize::from(heap)][place as usize].0 = time;
        let place = self.rise(heap, place as usize);
        self.sink(heap, place);
    }

    fn rise(&mut self, heap: bool, mut place: usize) -> usize {
        let all = &mut self.heaps[usize::from(heap)];
        while place > 0 && all[place].0 < all[(place - 1) / 2].0 {
            all.swap(place, (place - 1) / 2);
            self.places[all[place].1 as usize] = (heap, place as u32);
            place = (place - 1) / 2;
        }
        self.places[all[place].1 as usize] = (heap, place as u32);
        place
    }

    fn sink(&mut self, heap: bool, mut place: usize) {
        let all = &mut self.heaps[usize::from(heap)];
        loop {
            let children = place * 2 + 1..(place * 2 + 3).min(all.len());
            let Some(least) = children.min_by_key(|child| all[*child].0) else { break };
            if all[place].0 <= all[least].0 {
                break;
            }
            all.swap(place, least);
            self.places[all[place].1 as usize] = (heap, place as u32);
            place = least;
        }
        self.places[all[place].1 as usize] = (heap, place as u32);
    }
}
