//! From one phase of a load to the next.

use std::sync::atomic::Ordering;

use tcp::{Io, Stack};

use super::{LIMIT_NS, Load, POLL_INTERVAL_NS, Phase, TELL_NS};
use crate::load::result::Step;
use crate::load::workload::Workload;

impl<W: Workload> Load<W> {
    /// Goes on to the next phases where it is time to.
    pub(super) fn advance(&mut self, stack: &mut Stack, io: &mut Io) {
        loop {
            let before = self.phase;
            self.leave(stack, io);
            if self.phase == before {
                return;
            }
        }
    }

    /// Leaves a phase where it is time to.
    fn leave(&mut self, stack: &mut Stack, io: &mut Io) {
        let now_ns = io.now_ns;
        let is_late = now_ns - self.since_ns >= LIMIT_NS;
        match self.phase {
            Phase::Connecting => {
                self.connect(stack, io);
                if self.settled() + self.unopened >= self.settings.connections || is_late {
                    // Who has not answered by now is taken for somebody who refuses.
                    let late = self.connections.iter().filter(|connection| !connection.is_settled);
                    late.for_each(|connection| _ = stack.abort(connection.id, io));
                    self.results.refused = self.settings.connections as u64 - self.results.connected;
                    self.enter(Phase::Preparing, now_ns);
                    (0..self.connections.len()).for_each(|number| self.fill(number, stack, io));
                }
            }
            Phase::Preparing if self.under_way == 0 => self.arrive_at(0, stack, io),
            Phase::Waiting(step) if self.is_open(step) => self.start(step, stack, io),
            Phase::Waiting(_) => self.poll_ns = now_ns + POLL_INTERVAL_NS,
            Phase::Preparing if is_late => self.close(stack, io),
            Phase::Running(step, until_ns) if now_ns >= until_ns => {
                self.results.steps[step].elapsed_ns = now_ns - self.since_ns;
                self.enter(Phase::Draining(step), now_ns);
            }
            Phase::Draining(step) if is_late || (self.under_way == 0 && self.waiting.is_empty()) => {
                self.give_up(step, now_ns);
                self.arrive_at(step + 1, stack, io);
            }
            Phase::Closing if is_late || self.is_closed() => {
                self.enter(Phase::Over, now_ns);
                self.live.keep(self.results.clone());
                self.live.is_over.store(true, Ordering::Relaxed);
                if self.settings.group.as_ref().is_none_or(|group| group.end()) {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }

    /// Counts what has no answer at the end of a step, with the time that it has waited.
    pub(super) fn give_up(&mut self, step: usize, now_ns: i64) {
        let Some(step) = self.results.steps.get_mut(step) else { return };
        let sent = self.connections.iter_mut().flat_map(|connection| &mut connection.expected);
        for sent in sent.filter(|sent| !sent.is_given_up) {
            sent.is_given_up = true;
            step.leave(now_ns - sent.since_ns);
        }
        self.waiting.drain(..).for_each(|since_ns| step.leave(now_ns - since_ns));
        self.under_way = 0;
    }

    /// Whether all connections have ended, and the other side was told.
    fn is_closed(&self) -> bool {
        self.to_reset.is_empty() && self.connections.iter().all(|connection| !connection.is_open)
    }

    pub(super) fn enter(&mut self, phase: Phase, now_ns: i64) {
        (self.phase, self.since_ns) = (phase, now_ns);
    }

    /// Is ready for a step, which begins when all others are.
    fn arrive_at(&mut self, step: usize, stack: &mut Stack, io: &mut Io) {
        if step >= self.settings.rates.len() || !self.is_some_open() {
            return self.start(step, stack, io);
        }
        self.be_ready(step + 1);
        self.enter(Phase::Waiting(step), io.now_ns);
    }

    /// Tells others that it is ready for all steps in front of this one.
    pub(super) fn be_ready(&mut self, steps: usize) {
        if let Some(group) = &self.settings.group {
            group.arrive(self.ready..steps);
        }
        self.ready = self.ready.max(steps);
    }

    fn is_open(&self, step: usize) -> bool {
        self.settings.group.as_ref().is_none_or(|group| group.is_open(step))
    }

    /// Begins a step, or the end behind the last.
    fn start(&mut self, step: usize, stack: &mut Stack, io: &mut Io) {
        let Some(rate) = self.settings.rates.get(step).copied().filter(|_| self.is_some_open()) else {
            self.results.is_whole = step >= self.settings.rates.len();
            return self.close(stack, io);
        };
        self.results.steps.push(Step::new(rate));
        self.enter(Phase::Running(step, io.now_ns + self.settings.step_ns), io.now_ns);
        self.next_ns = io.now_ns as f64;
        self.tell_ns = io.now_ns + TELL_NS;
        for number in 0..self.connections.len() {
            // Its last answer may have come between the steps.
            self.renew(number, stack, io);
            self.fill(number, stack, io);
        }
    }

    fn close(&mut self, stack: &mut Stack, io: &mut Io) {
        // Nobody waits for it any more.
        self.be_ready(self.settings.rates.len());
        self.enter(Phase::Closing, io.now_ns);
        for connection in &mut self.connections {
            let _ = match std::mem::take(&mut connection.is_opening) {
                true => stack.abort(connection.id, io),
                false => stack.finish(connection.id, io),
            };
        }
    }
}
