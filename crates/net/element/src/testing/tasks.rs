//! `NullTask`, `HandlerTask`: tasks that do nothing with packets.

use graph::class::{Handlers, action, both, keyword, mandatory, read};
use graph::value::{Raw, Value, parse_alone};
use graph::{Class, ConfFault, Cx, Element, Named, Ran, Refused, TaskId};
use memory::Batch;

/// The class of what does nothing.
pub static NULL: Class = Class {
    name: "NullTask",
    brief: "has a task that does nothing",
    doc: "The task has its turns until there were LIMIT of them.",
    ports: "0/0",
    arguments: &[
        keyword("LIMIT", "turns, 0 for no limit; 0"),
        keyword("STOP", "stop the router at the limit; false"),
        keyword("ACTIVE", "whether the task runs from the start on; true"),
    ],
    handlers: &Handlers::<Task>(&[
        read("count", "turns", |task| task.count.to_string()),
        both(
            "limit",
            "turns in all",
            |task| task.limit.to_string(),
            |task, _, value| {
                task.limit = parsed(value)?;
                Ok(())
            },
        ),
        action("reset", "counts from zero", |task, _| task.count = 0),
    ]),
    example: "NullTask(LIMIT 1000000, STOP true)",
    see: &["HandlerTask", "ScheduleInfo"],
    make: |_, conf| {
        let limit = conf.keyword("LIMIT")?.unwrap_or(0);
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        conf.complete()?;
        Ok(Box::new(Task { limit, stop, active, again: true, ..Task::default() }))
    },
    ..Class::BASE
};

/// The class of what writes a handler.
pub static HANDLER: Class = Class {
    name: "HandlerTask",
    brief: "writes a handler in each turn of a task",
    doc: "The task has one turn, or more with RESCHEDULE; writing its handler `scheduled` gives it another.",
    ports: "0/0",
    arguments: &[
        mandatory("HANDLER", "`HANDLER VALUE`: what is written"),
        keyword("ACTIVE", "whether the task runs from the start on; true"),
        keyword("RESCHEDULE", "whether it runs again and again; false"),
    ],
    handlers: &Handlers::<Task>(&[
        read("count", "turns", |task| task.count.to_string()),
        both(
            "reschedule",
            "whether it runs again and again",
            |task: &Task| task.again.to_string(),
            |task, _, value| {
                task.again = parsed(value)?;
                Ok(())
            },
        ),
    ]),
    example: "HandlerTask(c.reset); src -> c :: Counter -> Discard",
    see: &["NullTask", "Script"],
    make: |_, conf| {
        let call: Raw = conf.mandatory("HANDLER")?;
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let again = conf.keyword("RESCHEDULE")?.unwrap_or(false);
        conf.complete()?;
        let call = call.0.trim();
        let (handler, value) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
        if handler.is_empty() {
            return Err(ConfFault::new("HANDLER: expected handler"));
        }
        let call = Some((handler.to_string(), value.trim().to_string()));
        Ok(Box::new(Task { call, active, again, ..Task::default() }))
    },
    ..Class::BASE
};

fn parsed<T: Value>(value: &str) -> Result<T, Refused> {
    parse_alone(value).map_err(Refused::from)
}

/// A `NullTask` or `HandlerTask` element; [`NULL`] and [`HANDLER`] say what they do.
#[derive(Debug, Default)]
pub struct Task {
    /// What is written in each turn, and where.
    call: Option<(String, String)>,
    /// Turns in all; zero for no limit.
    limit: u64,
    stop: bool,
    active: bool,
    /// Whether there is another turn behind each.
    again: bool,
    count: u64,
}

impl Element for Task {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        let Some((handler, _)) = &self.call else { return Ok(()) };
        named.can_write(handler).map_err(|refused| refused.to_string())
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        if self.active {
            cx.schedule(task);
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        self.count += 1;
        if let Some((handler, value)) = &self.call {
            cx.call(handler, value);
        }
        let is_over = self.limit != 0 && self.count >= self.limit;
        if self.again && !is_over {
            cx.schedule(task);
        }
        if is_over && self.stop {
            cx.stop();
        }
        Ran::done(true)
    }
}
