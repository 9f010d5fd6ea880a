//! Whether the other side takes what is sent to it. One that keeps its window closed and
//! answers what it is asked may do so for as long as it likes (RFC 9293, section 3.8.6.1),
//! unless others need the packets that are kept for it (RFC 6429), or nobody on this side
//! wants the connection any more. Then the connection is reset.
//!
//! A byte now and then is no progress: an eighth must be acknowledged of what was queued when
//! the other side made progress last, or two full segments, which is all that a slow reader's
//! window opens by (RFC 9293, section 3.8.6.2.2). They are of the default size at least (section
//! 3.7.1): one that wants smaller ones may not hold packets for longer.

use crate::connection::{Connection, Deadline, Io, Next, StackShared};
use crate::event::Reason;
use crate::options::SECOND_NS;
use crate::queue::NONE;

/// How long the other side may take too little while packets are scarce, and how often that is
/// looked at while anything is queued.
const STALL_NS: i64 = 10 * SECOND_NS;

/// What two full segments have at least, in bytes.
const TWO_SEGMENTS: u32 = 2 * 536;

/// Since when the other side takes too little.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// When it made progress last.
    pub since_ns: i64,
    /// With so many acknowledged bytes in all it will have made progress again.
    goal: u64,
}

impl Connection {
    /// Looks after what is queued, from now on if nothing was queued before.
    #[inline]
    pub fn watch_progress(&mut self, now_ns: i64) {
        if self.deadlines[Deadline::Progress as usize] == crate::connection::NEVER {
            self.begin_progress(now_ns);
        }
    }

    fn begin_progress(&mut self, now_ns: i64) {
        let share = (self.end.since(self.una) / 8).min(TWO_SEGMENTS.max(2 * self.payload_size()));
        self.progress =
            Progress { since_ns: now_ns, goal: self.bytes_acknowledged + u64::from(share.max(1)) };
        self.set(Deadline::Progress, now_ns + STALL_NS);
    }

    /// It is time to look whether the other side made progress.
    pub fn check_progress(&mut self, shared: &mut StackShared, io: &mut Io) -> Next {
        if self.queue.head == NONE {
            return Next::Keep;
        }
        if self.bytes_acknowledged >= self.progress.goal {
            self.begin_progress(io.now_ns);
            return Next::Keep;
        }
        let stalled_ns = io.now_ns - self.progress.since_ns;
        let is_orphan = self.is.is_released && stalled_ns >= shared.options.fin_wait_ns;
        if is_orphan || stalled_ns >= STALL_NS && shared.is_scarce() {
            shared.counters.stalled += 1;
            self.send_reset(shared, io);
            return Next::End(Reason::TimedOut);
        }
        self.set(Deadline::Progress, io.now_ns + STALL_NS);
        Next::Keep
    }
}
