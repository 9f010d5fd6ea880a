//! Sources, sinks, queues, schedulers, switches: what looks at no header.

mod counter;
mod discard;
mod idle;
mod infinite_source;
mod null;
mod queue;
mod strip;
mod tee;
mod unqueue;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &counter::CLASS,
    &discard::CLASS,
    &idle::CLASS,
    &infinite_source::CLASS,
    &null::CLASS,
    &null::PULL_NULL,
    &null::PUSH_NULL,
    &queue::CLASS,
    &strip::CLASS,
    &tee::CLASS,
    &unqueue::CLASS,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[("SimpleQueue", "Queue"), ("NotifierQueue", "Queue")];
