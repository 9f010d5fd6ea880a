//! `SchedOrderTest`: the order in which tasks have their turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::class::{Handlers, keyword, mandatory, read};
use graph::{Class, Cx, Element, Ran, TaskId};
use memory::Batch;

pub static CLASS: Class = Class {
    name: "SchedOrderTest",
    brief: "notes the order in which tasks have their turns",
    doc: "Each element of the class has a task that notes its ID when it has a turn, in a list that all of them \
          share. The list has room for the largest SIZE that one of them gives.",
    ports: "0/0",
    arguments: &[
        mandatory("ID", "the number that is noted"),
        keyword("SIZE", "how many turns are noted; 1024"),
        keyword("LIMIT", "turns of this element, 0 for no limit; 0"),
        keyword("STOP", "whether a turn that finds no room any more stops the router; false"),
    ],
    handlers: &Handlers::<SchedOrder>(&[read("order", "the IDs as they were noted", |test| {
        let ids: Vec<String> = test.noted().ids.iter().map(i32::to_string).collect();
        if ids.is_empty() { String::new() } else { ids.join(" ") + "\n" }
    })]),
    example: "a :: SchedOrderTest(1, SIZE 100, STOP true); SchedOrderTest(2); DriverManager(wait_stop, print a.order)",
    see: &["ScheduleInfo", "NullTask"],
    make: |setup, conf| {
        let id = conf.mandatory("ID")?;
        let size: usize = conf.keyword("SIZE")?.unwrap_or(0);
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let limit = conf.keyword("LIMIT")?.unwrap_or(0);
        conf.complete()?;
        let test = SchedOrder { id, limit, stop, count: 0, shared: setup.common() };
        let mut noted = test.noted();
        noted.size = noted.size.max(size);
        drop(noted);
        Ok(Box::new(test))
    },
    ..Class::BASE
};

/// How many turns are noted where nobody says so.
const USUAL_SIZE: usize = 1024;

/// What the elements of a router noted.
#[derive(Debug, Default)]
struct Noted {
    /// Zero where nobody gives one.
    size: usize,
    ids: Vec<i32>,
}

/// A `SchedOrderTest` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct SchedOrder {
    id: i32,
    limit: u32,
    stop: bool,
    count: u32,
    shared: Arc<Mutex<Noted>>,
}

impl SchedOrder {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Element for SchedOrder {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        let mut noted = self.noted();
        let size = if noted.size == 0 { USUAL_SIZE } else { noted.size };
        let has_room = noted.ids.len() < size;
        if has_room {
            noted.ids.push(self.id);
        }
        drop(noted);
        if !has_room && self.stop {
            cx.stop();
        }
        self.count = self.count.saturating_add(1);
        if self.limit == 0 || self.count < self.limit {
            cx.schedule(task);
        }
        Ran::done(true)
    }
}
