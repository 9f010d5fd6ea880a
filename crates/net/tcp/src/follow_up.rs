//! What follows when something of a connection has changed: it ends, has its turn to send, or waits
//! for the earliest of its deadlines.

use runtime::Timers;

use crate::connection::{Connection, Io, Next};
use crate::event::Event;
use crate::stack::Stack;

impl Stack {
    /// What follows from a change of a connection: it ends, sends, or waits.
    pub(crate) fn follow_up(&mut self, index: u32, next: Next, io: &mut Io) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        match next {
            Next::Keep | Next::Refuse => {}
            Next::Forget => return self.remove(index, io),
            Next::End(reason) => {
                if connection.is.is_known {
                    self.shared.events.push(Event::Closed { connection: connection.id(index), reason });
                }
                self.keep_fast_place(index, reason, io.now_ns);
                return self.remove(index, io);
            }
        }
        self.go_on(index);
    }

    /// What follows from a change of a connection that stays: it sends, or waits.
    #[inline]
    pub(crate) fn go_on(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if !connection.is.is_ready && connection.wants_to_send() {
            connection.is.is_ready = true;
            self.ready.push_back(index);
        }
        // The wheel of one that is ready is set when it has had its turn to send, if there are turns.
        if !connection.is.is_ready || self.is_stalled {
            arm(connection, index, &mut self.timers, &mut self.wheel_due_ns);
        }
    }
}

/// Sets the wheel for a connection, if that waits for something earlier than before. It is set
/// earlier at once, and later only when it is looked at, which is not before `wheel_due_ns`.
#[inline]
pub fn arm(connection: &mut Connection, index: u32, timers: &mut Timers, wheel_due_ns: &mut i64) {
    if !std::mem::take(&mut connection.is.to_arm) {
        return;
    }
    let deadline_ns = connection.next_deadline_ns();
    if deadline_ns < connection.armed_ns {
        connection.armed_ns = deadline_ns;
        timers.set(index as usize, deadline_ns);
        *wheel_due_ns = deadline_ns.min(*wheel_due_ns);
    }
}
