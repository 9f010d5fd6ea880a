//! Places of networks in a NIC. Packets are marked with them, so that one which had a place has it
//! again, and no other network has it for a time, in which packets that are marked with it leave.

use std::collections::BTreeMap;

/// The places that networks had.
#[derive(Debug, Default)]
pub(super) struct NetworkPlaces {
    /// Of networks that the device lost, or that went and may come again at once.
    before: BTreeMap<u32, u16>,
    /// Of networks that went since places were let go the last time, and before.
    left: Vec<u16>,
    resting: Vec<u16>,
    /// Behind the last place that was given.
    next: u16,
}

impl NetworkPlaces {
    /// A network is in its place no longer.
    pub(super) fn leave(&mut self, number: u32, place: u16) {
        self.before.insert(number, place);
    }

    /// Networks that had a place, with it.
    pub(super) fn before(&self) -> Vec<(u32, u16)> {
        self.before.iter().map(|(number, place)| (*number, *place)).collect()
    }

    /// Networks have their places again; those of the others rest.
    pub(super) fn settle(&mut self, is_there: impl Fn(u32) -> bool) {
        let gone = std::mem::take(&mut self.before).into_iter().filter(|(number, _)| !is_there(*number));
        self.left.extend(gone.map(|(_, place)| place));
    }

    /// Whether any place rests.
    pub(super) fn rest(&self) -> bool {
        !self.left.is_empty() || !self.resting.is_empty()
    }

    /// Lets the places go that have rested since the last time; whether there are some.
    pub(super) fn let_go(&mut self) -> bool {
        let rested = std::mem::replace(&mut self.resting, std::mem::take(&mut self.left));
        !rested.is_empty()
    }

    /// A place of so many beside those that are held, as long as possible none that another network had.
    pub(super) fn free(&mut self, held: impl Iterator<Item = u16>, places: u16) -> Option<u16> {
        let mut used = vec![false; places.into()];
        for place in held.chain(self.left.iter().copied()).chain(self.resting.iter().copied()) {
            if let Some(used) = used.get_mut(usize::from(place)) {
                *used = true;
            }
        }
        let from = self.next.min(places);
        let place = (from..places).chain(0..from).find(|place| !used[usize::from(*place)])?;
        self.next = place + 1;
        Some(place)
    }
}
