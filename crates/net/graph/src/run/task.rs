//! Tasks and who comes next: stride scheduling.
//!
//! A task has tickets; each turn moves it back by a stride that is the smaller the
//! more tickets it has, and the task that is furthest ahead goes next (Waldspurger
//! and Weihl, *Stride Scheduling*, 1995).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::plan::schedule_info::{MAX_TICKETS, TICKETS};

/// A task of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskId {
    pub(crate) lane: usize,
    index: usize,
}

/// Fine enough that the strides of any two numbers of tickets are as they should be.
const STRIDE: u64 = 1 << 30;

#[derive(Debug)]
struct Task {
    element: usize,
    tickets: u32,
    pass: u64,
    scheduled: bool,
    /// Which entry of the heap is the valid one.
    entry: u64,
}

/// The tasks of a lane.
#[derive(Debug, Default)]
pub struct Tasks {
    tasks: Vec<Task>,
    /// By pass; equals in the order in which they came. Entries of tasks that are
    /// not scheduled any more, or elsewhere in the heap, are skipped.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    entries: u64,
    scheduled: usize,
    /// The tasks that have their turn: one within the other where an element waits
    /// and has others go on meanwhile.
    running: Vec<usize>,
    /// How far the task was that had its turn last.
    reached: u64,
    lane: usize,
}

impl Tasks {
    /// Those of a lane.
    pub(crate) fn of_lane(lane: usize) -> Tasks {
        Tasks { lane, ..Tasks::default() }
    }

    /// A new task of an element, not scheduled.
    pub(crate) fn add(&mut self, element: usize) -> TaskId {
        self.tasks.push(Task { element, tickets: TICKETS, pass: 0, scheduled: false, entry: 0 });
        self.id(self.tasks.len() - 1)
    }

    fn id(&self, index: usize) -> TaskId {
        TaskId { lane: self.lane, index }
    }

    /// The element a task belongs to.
    pub(crate) fn element(&self, task: TaskId) -> usize {
        self.tasks[task.index].element
    }

    /// The tasks of an element.
    pub(crate) fn of(&self, element: usize) -> impl Iterator<Item = TaskId> {
        let mine = self.tasks.iter().enumerate().filter(move |(_, t)| t.element == element);
        mine.map(|(i, _)| self.id(i))
    }

    /// Whether a task waits for its turn.
    pub fn is_scheduled(&self, task: TaskId) -> bool {
        self.tasks[task.index].scheduled
    }

    /// Whether any task waits for its turn.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.scheduled > 0
    }

    /// A task's tickets.
    pub fn tickets(&self, task: TaskId) -> u32 {
        self.tasks[task.index].tickets
    }

    /// Changes a task's tickets.
    pub(crate) fn set_tickets(&mut self, task: TaskId, tickets: u32) {
        self.tasks[task.index].tickets = tickets.clamp(1, MAX_TICKETS);
    }

    /// Gives a task a turn, behind those that are as far as it.
    pub(crate) fn schedule(&mut self, task: TaskId) {
        let head = self.head_pass();
        let record = &mut self.tasks[task.index];
        if record.scheduled {
            return;
        }
        record.scheduled = true;
        self.scheduled += 1;
        if self.running.contains(&task.index) {
            return; // goes back into the heap when its turn is over
        }
        // The only one besides may have its turn just now, and be in no heap.
        record.pass = head.unwrap_or(self.reached).max(record.pass);
        self.enter(task.index);
    }

    /// Takes a task's turn away.
    pub(crate) fn unschedule(&mut self, task: TaskId) {
        let record = &mut self.tasks[task.index];
        if record.scheduled {
            (record.scheduled, record.entry) = (false, 0);
            self.scheduled -= 1;
        }
    }

    fn enter(&mut self, index: usize) {
        self.entries += 1;
        let record = &mut self.tasks[index];
        record.entry = self.entries;
        self.heap.push(Reverse((record.pass, self.entries, index)));
    }

    /// Drops entries that are no longer valid from the front.
    fn tidy(&mut self) {
        while let Some(Reverse((_, entry, index))) = self.heap.peek() {
            if self.tasks[*index].entry == *entry {
                return;
            }
            self.heap.pop();
        }
    }

    fn head_pass(&mut self) -> Option<u64> {
        self.tidy();
        self.heap.peek().map(|Reverse((pass, ..))| *pass)
    }

    /// Begins the turn of the task that is furthest ahead.
    #[inline]
    pub(crate) fn begin(&mut self) -> Option<TaskId> {
        self.tidy();
        let Reverse((_, _, index)) = self.heap.pop()?;
        let record = &mut self.tasks[index];
        (record.scheduled, record.entry) = (false, 0);
        self.scheduled -= 1;
        self.reached = record.pass;
        self.running.push(index);
        Some(self.id(index))
    }

    /// Ends a task's turn. One that did nothing goes behind the next one.
    #[inline]
    pub(crate) fn end(&mut self, task: TaskId, worked: bool) {
        self.running.pop();
        let head = self.head_pass();
        let record = &mut self.tasks[task.index];
        record.pass += STRIDE / u64::from(record.tickets);
        if record.scheduled {
            if let Some(head) = head.filter(|_| !worked) {
                record.pass = record.pass.max(head);
            }
            self.enter(task.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(tasks: &mut Tasks, count: usize) -> Vec<usize> {
        let turn = |tasks: &mut Tasks| {
            let task = tasks.begin().expect("all go on");
            tasks.schedule(task);
            tasks.end(task, true);
            task.index
        };
        (0..count).map(|_| turn(tasks)).collect()
    }

    #[test]
    fn turns_are_shared_out_by_tickets() {
        let mut tasks = Tasks::default();
        let [a, b] = [tasks.add(0), tasks.add(1)];
        tasks.set_tickets(b, 3 * TICKETS);
        tasks.schedule(a);
        tasks.schedule(b);
        let turns = turns(&mut tasks, 400);
        let of_a = turns.iter().filter(|t| **t == a.index).count();
        assert!((98..=102).contains(&of_a), "{of_a} of 400");
    }

    #[test]
    fn equals_take_turns() {
        let mut tasks = Tasks::default();
        for element in 0..3 {
            let task = tasks.add(element);
            tasks.schedule(task);
        }
        assert_eq!(turns(&mut tasks, 7), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn who_was_away_for_long_gets_no_more_than_others_afterwards() {
        let mut tasks = Tasks::default();
        let [a, b] = [tasks.add(0), tasks.add(1)];
        tasks.schedule(a);
        turns(&mut tasks, 1000);
        tasks.schedule(b);
        let turns = turns(&mut tasks, 100);
        assert!(turns.iter().filter(|t| **t == b.index).count() <= 51);
    }

    #[test]
    fn who_is_woken_in_anothers_turn_gets_no_more_than_it_afterwards() {
        let mut tasks = Tasks::default();
        let [a, b] = [tasks.add(0), tasks.add(1)];
        tasks.schedule(a);
        turns(&mut tasks, 1000);
        let turn = tasks.begin().expect("it goes on");
        tasks.schedule(b);
        tasks.schedule(turn);
        tasks.end(turn, true);
        let turns = turns(&mut tasks, 100);
        assert!(turns.iter().filter(|t| **t == b.index).count() <= 51);
    }

    #[test]
    fn an_unscheduled_task_has_no_turn() {
        let mut tasks = Tasks::default();
        let task = tasks.add(0);
        tasks.schedule(task);
        tasks.unschedule(task);
        assert!(tasks.begin().is_none() && !tasks.any());
        tasks.schedule(task);
        tasks.schedule(task);
        assert_eq!(tasks.begin(), Some(task));
        tasks.end(task, true);
        assert!(tasks.begin().is_none(), "once scheduled, one turn");
    }
}
