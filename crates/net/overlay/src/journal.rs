//! What changed in the table, in order, for one who follows it (`nic`): so many changes as there is
//! room for. A follower who comes later than that goes over the whole table.

use std::collections::VecDeque;

use crate::hop::TunnelId;
use crate::table::Overlay;

/// Something that is not as it was. What it is now the table tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A network came or went.
    Network(u32),
    /// An entry of a network came, went or leads elsewhere. Those of a network that goes are not told.
    Entry(u32, u128),
    /// The headers of a tunnel are others, or there is a way or none now.
    Tunnel(TunnelId),
}

/// The last changes. Each has a number, one more than the one before it.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    limit: usize,
    /// The number of the first change that is still here.
    first: u64,
    changes: VecDeque<Change>,
}

impl Journal {
    /// Keeps so many changes from now on.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        while self.changes.len() > limit {
            self.drop_first();
        }
    }

    pub(crate) fn note(&mut self, change: Change) {
        self.changes.push_back(change);
        if self.changes.len() > self.limit {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        self.changes.pop_front();
        self.first += 1;
    }

    /// The number of the next change.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// The changes from this number on; `None` when some of them are not here any more.
    pub(crate) fn since(&self, number: u64) -> Option<impl Iterator<Item = Change> + Clone + '_> {
        let from = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (from <= self.changes.len()).then(|| self.changes.range(from..).copied())
    }
}

impl Overlay {
    /// Keeps so many of the last changes, 32 bytes each, for a [`NicTable`](crate::NicTable), which
    /// then looks at these alone. Without, none is kept.
    pub fn keep_changes(&mut self, limit: usize) {
        self.journal.set_limit(limit);
    }
}
