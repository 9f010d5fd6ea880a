//! `StaticThreadSched`, `BalancedThreadSched` and `ScheduleInfo`: which thread runs an
//! element's tasks, and how often.

use graph::class::{positional, rest};
use graph::lang::args::words;
use graph::plan::schedule_info::TICKETS;
use graph::{Class, ConfFault, Element};

pub static STATIC_THREAD_SCHED: Class = Class {
    name: "StaticThreadSched",
    brief: "says which thread runs an element's tasks",
    doc: "Each argument names an element, or a compound element, and a thread, from 0. Elements it does not \
          name run on thread 0, and receive queues on the threads that are shared out among ports. A thread \
          that is written `1/2`, in FastClick the third core of socket 1, is thread 2: threads have no \
          sockets here.",
    ports: "0/0",
    arguments: &[rest("ELEMENT THREAD", "an element and its thread")],
    phase: Class::INFORMATION,
    example: "StaticThreadSched(u 1, FromDevice@1 0)",
    see: &["BalancedThreadSched", "ScheduleInfo"],
    make: |setup, conf| {
        for argument in conf.rest() {
            let (element, thread) = match words(&argument)[..] {
                [element, thread] => (element, thread),
                [] | [_] => return Err(ConfFault::new("THREAD: required argument missing")),
                _ => return Err(ConfFault::new("too many arguments")),
            };
            let expected = |_| "THREAD: expected integer";
            let thread: i32 = match thread.split_once('/') {
                Some((socket, core)) => {
                    let _: u32 = socket.parse().map_err(expected)?;
                    core.parse().map_err(expected)?
                }
                None => thread.parse().map_err(expected)?,
            };
            let known = usize::try_from(thread).ok().filter(|thread| *thread < setup.threads);
            if known.is_none() {
                setup.warn(format!("thread preference {thread} out of range"));
            }
            setup.assign_thread(element, known.unwrap_or(0));
        }
        Ok(Box::new(Nothing))
    },
    ..Class::BASE
};

pub static BALANCED_THREAD_SCHED: Class = Class {
    name: "BalancedThreadSched",
    brief: "shares elements' tasks out among the threads",
    doc: "Elements with tasks go to the threads in turn, in the order of the configuration, unless a \
          StaticThreadSched names them. An element stays on its thread while the router runs: with each \
          thread there are copies of what it can reach, and moving those would cost more than it gains. \
          Receive queues of ports are shared out anyway.",
    ports: "0/0",
    arguments: &[
        positional("INTERVAL", "accepted: nothing moves; 1000 ms"),
        positional("INCREASING", "accepted: nothing moves; true"),
    ],
    phase: Class::INFORMATION,
    example: "BalancedThreadSched(100)",
    see: &["StaticThreadSched", "ScheduleInfo"],
    make: |setup, conf| {
        let _interval: Option<u32> = conf.positional("INTERVAL")?;
        let _increasing: Option<bool> = conf.positional("INCREASING")?;
        conf.complete()?;
        setup.balance();
        Ok(Box::new(Nothing))
    },
    ..Class::BASE
};

pub static SCHEDULE_INFO: Class = Class {
    name: "ScheduleInfo",
    brief: "says how often an element's tasks have a turn",
    doc: "Each argument names an element and a factor: a task with 2 has twice the turns of one with 1. The \
          factor of a compound element multiplies with those of the elements in it; what is said further \
          out of an element holds.",
    ports: "0/0",
    arguments: &[rest("ELEMENT FACTOR", "an element and its share")],
    phase: Class::INFORMATION,
    example: "ScheduleInfo(u 0.5, src 2)",
    see: &["StaticThreadSched"],
    make: |setup, conf| {
        let mut wrong = vec![];
        for argument in conf.rest() {
            match words(&argument)[..] {
                [] => {}
                [element, factor] => match factor.parse::<f64>() {
                    Ok(factor) if factor >= 0.0 => {
                        setup.assign_tickets(element, (f64::from(TICKETS) * factor) as u32);
                    }
                    _ => wrong.push("expected 'ELEMENTNAME PARAM'"),
                },
                _ => wrong.push("expected 'ELEMENTNAME PARAM'"),
            }
        }
        if wrong.is_empty() { Ok(Box::new(Nothing)) } else { Err(ConfFault::new(wrong.join("\n"))) }
    },
    ..Class::BASE
};

/// An element that said all it had to when it was made.
#[derive(Debug)]
pub struct Nothing;

impl Element for Nothing {}
