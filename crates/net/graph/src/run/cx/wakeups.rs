//! When an element has its turn: tasks, timers, and files that it waits for.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::run::cx::Cx;
use crate::run::lane::Lane;
use crate::run::task::TaskId;
use crate::run::timer::TimerId;
use crate::run::watch::{Until, WatchId};

/// Tasks, timers, files.
impl Cx<'_> {
    /// A new task of this element, not scheduled.
    pub fn new_task(&mut self) -> TaskId {
        let task = self.lane.tasks.add(self.me);
        self.lane.shared.note_task(self.me);
        if let Some(tickets) = self.lane.shared.tickets(self.me) {
            self.lane.tasks.set_tickets(task, tickets);
        }
        task
    }

    /// Gives a task a turn, if it does not wait for one. It may be another thread's, of an
    /// element that threads share behind a lock.
    #[inline]
    pub fn schedule(&mut self, task: TaskId) {
        match task.lane == self.lane.id {
            true => self.lane.tasks.schedule(task),
            false => self.lane.shared.mailboxes[task.lane].wake(task),
        }
    }

    /// Takes a task's turn away.
    pub fn unschedule(&mut self, task: TaskId) {
        self.there(task.lane, move |lane| lane.tasks.unschedule(task));
    }

    /// Whether a task of this lane waits for its turn.
    pub fn is_scheduled(&self, task: TaskId) -> bool {
        task.lane == self.lane.id && self.lane.tasks.is_scheduled(task)
    }

    /// Changes a task's tickets, 1 to [`MAX_TICKETS`](crate::plan::schedule_info::MAX_TICKETS).
    pub fn set_tickets(&mut self, task: TaskId, tickets: u32) {
        self.there(task.lane, move |lane| lane.tasks.set_tickets(task, tickets));
    }

    /// A new timer of this element, not set.
    pub fn new_timer(&mut self) -> TimerId {
        self.lane.timers.add(self.me)
    }

    /// Sets a timer, whatever it was set to; but another thread's never to a later time,
    /// since this one does not know what it is set to.
    #[inline]
    pub fn set_timer(&mut self, timer: TimerId, at_ns: i64) {
        if timer.lane == self.lane.id {
            return self.lane.timers.set(timer, at_ns);
        }
        self.there(timer.lane, move |lane| {
            if lane.timers.due(timer).is_none_or(|due| at_ns < due) {
                lane.timers.set(timer, at_ns);
            }
        });
    }

    /// Sets a timer to `after_ns` from now.
    pub fn set_timer_after(&mut self, timer: TimerId, after_ns: i64) {
        let at = self.now_ns().saturating_add(after_ns);
        self.set_timer(timer, at);
    }

    /// Takes a timer's time away.
    pub fn clear_timer(&mut self, timer: TimerId) {
        self.there(timer.lane, move |lane| lane.timers.clear(timer));
    }

    /// When a timer of this lane is due.
    pub fn timer_due(&self, timer: TimerId) -> Option<i64> {
        if timer.lane == self.lane.id { self.lane.timers.due(timer) } else { None }
    }

    /// Does something in a lane: here at once, elsewhere as soon as it reads its messages.
    fn there(&mut self, lane: usize, work: impl FnOnce(&mut Lane) + Send + 'static) {
        match lane == self.lane.id {
            true => work(self.lane),
            false => self.lane.shared.mailboxes[lane].send(Box::new(work)),
        }
    }

    /// Has [`Element::ready`](crate::Element::ready) called when a file can be read or written.
    pub fn watch(&mut self, file: Arc<OwnedFd>, until: Until) -> WatchId {
        self.lane.watches.add(self.me, file, until)
    }

    /// Changes what is waited for.
    pub fn change_watch(&mut self, watch: WatchId, until: Until) {
        self.lane.watches.change(watch, until);
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, watch: WatchId) {
        self.lane.watches.remove(watch);
    }
}
