//! TCP sequence numbers that shift, because something in the stream grew or shrank
//! (RFC 9293, 3.4): each byte behind that place has another number.

/// Numbers further ahead than this make a place forgotten.
const FAR: u32 = 1 << 30;
/// Places that are remembered for one direction.
const MOST: usize = 64;

/// How the numbers of one direction shift.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shift {
    /// Of what comes before all places.
    base: u32,
    /// Places, the oldest first: from which number on, and by how much.
    places: Vec<(u32, u32)>,
}

/// Whether `a` is not before `b`.
fn reaches(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) >= 0
}

impl Shift {
    /// From number `from` on, numbers shift by `by` more; whether that place is not
    /// before the last one.
    pub(crate) fn add(&mut self, from: u32, by: i32) -> bool {
        if self.places.last().is_some_and(|(last, _)| !reaches(from, *last)) {
            return false;
        }
        self.places.pop_if(|(last, _)| *last == from);
        let total = self.newest().wrapping_add(by as u32);
        if self.places.len() == MOST {
            self.base = self.places.remove(0).1;
        }
        self.places.push((from, total));
        true
    }

    fn newest(&self) -> u32 {
        self.places.last().map_or(self.base, |(_, by)| *by)
    }

    /// By how much the newest numbers shift.
    pub(crate) fn by(&self) -> i32 {
        self.newest() as i32
    }

    /// Whether any number does.
    pub(crate) fn is_none(&self) -> bool {
        self.base == 0 && self.places.is_empty()
    }

    /// The sender is at `number`: what is far behind is forgotten.
    pub(crate) fn advance(&mut self, number: u32) {
        if self.places.last().is_some_and(|(last, _)| reaches(number, last.wrapping_add(FAR))) {
            self.base = self.newest();
            self.places.clear();
        }
    }

    /// What a number of the sender's becomes.
    pub(crate) fn forth(&self, number: u32) -> u32 {
        let place = self.places.iter().rev().find(|(from, _)| reaches(number, *from));
        number.wrapping_add(place.map_or(self.base, |(_, by)| *by))
    }

    /// What a number that the receiver acknowledges is to the sender.
    pub(crate) fn back(&self, number: u32) -> u32 {
        let place = self.places.iter().rev().find(|(from, by)| reaches(number.wrapping_sub(*by), *from));
        number.wrapping_sub(place.map_or(self.base, |(_, by)| *by))
    }
}
