//! How often something is done for others in a second.

use crate::options::SECOND_NS;

/// What was done in the second that runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rate {
    /// When the second began.
    since_ns: i64,
    count: u32,
}

impl Rate {
    /// Whether it may be done once more, `most` times in a second; counts it.
    pub fn allows(&mut self, most: u32, now_ns: i64) -> bool {
        if now_ns - self.since_ns >= SECOND_NS {
            *self = Rate { since_ns: now_ns, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count <= most
    }
}
