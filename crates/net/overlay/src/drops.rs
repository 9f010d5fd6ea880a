//! A counter of dropped packets for each reason of an overlay.

use port::Reason;

/// How many packets were dropped for each reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drops([u64; Reason::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Drops([0; Reason::ALL.len()])
    }
}

impl Drops {
    /// One packet more was dropped.
    #[inline]
    pub fn count(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }

    /// Packets that were dropped for this reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// The reasons for which packets were dropped, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL
            .iter()
            .zip(self.0)
            .filter(|(_, count)| *count != 0)
            .map(|(reason, count)| (*reason, count))
    }

    /// Packets that were dropped.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
