//! `StaticThreadSched` and `ScheduleInfo`: which thread runs an element's tasks, and
//! how often.

use graph::class::rest;
use graph::lang::args::words;
use graph::task::TICKETS;
use graph::{Class, Element, Fault};

/// Which thread.
pub static STATIC_THREAD_SCHED: Class = Class {
    name: "StaticThreadSched",
    brief: "says which thread runs an element's tasks",
    doc: "Each argument names an element and a thread, from 0. Elements it does not name run on thread 0, and \
          receive queues on the threads that are shared out among ports.",
    ports: "0/0",
    arguments: &[rest("ELEMENT THREAD", "an element and its thread")],
    phase: Class::INFORMATION,
    example: "StaticThreadSched(u 1, FromDevice@1 0)",
    see: &["ScheduleInfo"],
    make: |setup, conf| {
        for argument in conf.rest() {
            let [element, thread] = words(&argument)[..] else {
                return Err(Fault::new("expected 'ELEMENT THREAD'"));
            };
            let thread = thread.parse().map_err(|_| "THREAD must be integer")?;
            setup.assign_thread(element, thread);
        }
        Ok(Box::new(Nothing))
    },
    ..Class::BASE
};

/// How often.
pub static SCHEDULE_INFO: Class = Class {
    name: "ScheduleInfo",
    brief: "says how often an element's tasks have a turn",
    doc: "Each argument names an element and a factor: a task with 2 has twice the turns of one with 1.",
    ports: "0/0",
    arguments: &[rest("ELEMENT FACTOR", "an element and its share")],
    phase: Class::INFORMATION,
    example: "ScheduleInfo(u 0.5, src 2)",
    see: &["StaticThreadSched"],
    make: |setup, conf| {
        for argument in conf.rest() {
            let [element, factor] = words(&argument)[..] else {
                return Err(Fault::new("expected 'ELEMENT FACTOR'"));
            };
            let factor: f64 =
                factor.parse().ok().filter(|f| *f >= 0.0).ok_or("expected scheduling parameter")?;
            setup.assign_tickets(element, ((f64::from(TICKETS) * factor) as u32).max(1));
        }
        Ok(Box::new(Nothing))
    },
    ..Class::BASE
};

/// An element that said all it had to when it was made.
#[derive(Debug)]
pub struct Nothing;

impl Element for Nothing {}
