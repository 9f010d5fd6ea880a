//! How many bytes each connection keeps, and which of them keep most.
//!
//! Connections stand in classes by powers of two of what they keep, each a list linked by the
//! connections' places. So a change, and finding one that keeps at least half as much as any
//! other, cost the same however many connections there are.

/// Classes: of 1, of 2 and 3, of 4 to 7 bytes, and so on.
const CLASSES: usize = usize::BITS as usize;
/// The index that means that there is no connection.
const NONE: usize = usize::MAX;

/// A connection's bytes, and its neighbours in the list of its class.
#[derive(Debug, Clone, Copy)]
struct Holding {
    bytes: usize,
    before: usize,
    behind: usize,
}

const EMPTY: Holding = Holding { bytes: 0, before: NONE, behind: NONE };

/// What all connections keep.
#[derive(Debug)]
pub(crate) struct Holdings {
    /// By the connections' places.
    places: Vec<Holding>,
    /// The first place of each class.
    first: [usize; CLASSES],
    /// A bit for each class that has a connection.
    occupied: usize,
    total: usize,
    /// Places that were read or written.
    #[cfg(test)]
    pub(crate) touched: usize,
}

impl Default for Holdings {
    fn default() -> Holdings {
        Holdings {
            places: Vec::new(),
            first: [NONE; CLASSES],
            occupied: 0,
            total: 0,
            #[cfg(test)]
            touched: 0,
        }
    }
}

impl Holdings {
    /// Bytes that all connections keep.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Notes that the connection at a place keeps so many bytes; how many it kept before.
    pub fn set(&mut self, place: usize, bytes: usize) -> usize {
        if self.places.len() <= place {
            if bytes == 0 {
                return 0;
            }
            self.places.resize(place + 1, EMPTY);
        }
        let before = self.place(place).bytes;
        self.total = self.total - before + bytes;
        if class_of(before) == class_of(bytes) {
            self.place(place).bytes = bytes;
            return before;
        }
        self.unlink(place);
        self.link(place, bytes);
        before
    }

    /// The place of a connection that keeps at least half as much as the one that keeps most,
    /// if any keeps something.
    pub fn large(&self) -> Option<usize> {
        self.occupied.checked_ilog2().map(|class| self.first[class as usize])
    }

    fn place(&mut self, place: usize) -> &mut Holding {
        #[cfg(test)]
        {
            self.touched += 1;
        }
        &mut self.places[place]
    }

    fn unlink(&mut self, place: usize) {
        let Holding { bytes, before, behind } = std::mem::replace(self.place(place), EMPTY);
        let Some(class) = class_of(bytes) else { return };
        match before {
            NONE => self.first[class] = behind,
            _ => self.place(before).behind = behind,
        }
        if behind != NONE {
            self.place(behind).before = before;
        }
        if self.first[class] == NONE {
            self.occupied &= !(1 << class);
        }
    }

    fn link(&mut self, place: usize, bytes: usize) {
        let Some(class) = class_of(bytes) else { return };
        let behind = std::mem::replace(&mut self.first[class], place);
        *self.place(place) = Holding { bytes, before: NONE, behind };
        if behind != NONE {
            self.place(behind).before = place;
        }
        self.occupied |= 1 << class;
    }
}

/// The class of who keeps so many bytes; none for who keeps nothing.
fn class_of(bytes: usize) -> Option<usize> {
    bytes.checked_ilog2().map(|class| class as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_list(changes in prop::collection::vec((0_usize..40, 0_u32..20, any::<u16>()), 0..400)) {
            let mut holdings = Holdings::default();
            let mut plain = [0; 40];
            for (place, shift, low) in changes {
                let bytes = usize::from(low) >> shift;
                prop_assert_eq!(holdings.set(place, bytes), std::mem::replace(&mut plain[place], bytes));
                prop_assert_eq!(holdings.total(), plain.iter().sum::<usize>());
                let most = plain.iter().max().copied().unwrap_or(0);
                match holdings.large() {
                    Some(place) => prop_assert!(plain[place] > 0 && plain[place] > most / 2, "{place}"),
                    None => prop_assert_eq!(most, 0),
                }
            }
            // All can be taken out, the large ones first.
            let mut last = usize::MAX;
            while let Some(place) = holdings.large() {
                let bytes = holdings.set(place, 0);
                prop_assert!(bytes > 0 && class_of(bytes) <= class_of(last));
                last = bytes;
            }
            prop_assert_eq!(holdings.total(), 0);
        }
    }
}
