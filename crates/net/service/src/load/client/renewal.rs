//! Connections that have had all their requests, and those that take their places.

use tcp::{Io, Stack};

use super::{Connection, Load, Phase};
use crate::load::workload::Workload;

impl<W: Workload> Load<W> {
    /// Resets a connection that has had all its answers, and opens another in its place. A reset is sent
    /// once: it waits where there is no room for it, for the server would keep the connection without it.
    pub(super) fn renew(&mut self, number: usize, stack: &mut Stack, io: &mut Io) {
        let is_done = |it: &Connection<W>| {
            it.is_open && it.expected.is_empty() && self.settings.messages == Some(it.requests)
        };
        let (Phase::Running(step, _) | Phase::Draining(step)) = self.phase else { return };
        let Some(old) = self.connections.get(number).filter(|it| is_done(it)).map(|it| it.id) else { return };
        if io.out.room() == 0 {
            return self.to_renew.push_back(number);
        }
        let _ = stack.abort(old, io);
        let new = self.open(number, stack, io);
        self.results.steps[step].lost += u64::from(new.is_none());
        let connection = &mut self.connections[number];
        (connection.is_open, connection.is_opening) = (false, new.is_some());
        (connection.id, connection.requests) = (new.unwrap_or(old), 0);
        connection.reader = W::Reader::default();
        connection.unsent.clear();
    }

    /// Resets connections with wrong answers, as many as there is room for.
    pub(super) fn reset_waiting(&mut self, stack: &mut Stack, io: &mut Io) {
        while io.out.room() > 0
            && let Some(id) = self.to_reset.pop_front()
        {
            let _ = stack.abort(id, io);
        }
    }

    /// Renews connections for whose resets there was no room. Between steps it forgets them: the next one
    /// looks at all.
    pub(super) fn renew_waiting(&mut self, stack: &mut Stack, io: &mut Io) {
        while io.out.room() > 0
            && let Some(number) = self.to_renew.pop_front()
        {
            self.renew(number, stack, io);
        }
    }
}
