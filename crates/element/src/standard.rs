//! Sources, sinks, queues, schedulers, switches: what looks at no header.

mod bucket;
mod bypass;
mod counter;
mod discard;
mod idle;
mod infinite_source;
mod null;
mod pull_switch;
mod queue;
mod rated_unqueue;
mod sched;
mod shaper;
mod small;
mod source;
mod strip;
mod switch;
mod tee;
mod timed;
mod unqueue;
mod unstrip;

use graph::value::{Names, Scope, Value};
use graph::{Class, Refused};

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &bypass::BYPASS,
    &bypass::HUB,
    &bypass::PULL_TEE,
    &bypass::SUPPRESSOR,
    &counter::CLASS,
    &discard::CLASS,
    &idle::CLASS,
    &infinite_source::CLASS,
    &null::CLASS,
    &null::PULL_NULL,
    &null::PUSH_NULL,
    &pull_switch::CLASS,
    &pull_switch::SIMPLE,
    &pull_switch::STATIC,
    &queue::CLASS,
    &queue::FRONT_DROP,
    &queue::MIXED,
    &queue::NOTIFIER,
    &queue::SIMPLE,
    &rated_unqueue::BANDWIDTH,
    &rated_unqueue::BANDWIDTH_SPLITTER,
    &rated_unqueue::CLASS,
    &rated_unqueue::SPLITTER,
    &sched::DRR,
    &sched::PRIO,
    &sched::ROUND_ROBIN,
    &sched::STRIDE,
    &sched::STRIDE_SWITCH,
    &shaper::BANDWIDTH,
    &shaper::DELAY_SHAPER,
    &shaper::DELAY_UNQUEUE,
    &shaper::LINK_UNQUEUE,
    &shaper::SHAPER,
    &small::ALIGN,
    &small::CHECK_CRC,
    &small::CHECK_LENGTH,
    &small::CLIPBOARD,
    &small::RANDOM_BIT_ERRORS,
    &small::RANDOM_SAMPLE,
    &small::SET_ANNO_BYTE,
    &small::SET_CRC,
    &source::RANDOM,
    &source::RATED,
    &source::TIMED,
    &strip::CLASS,
    &switch::CLASS,
    &switch::HASH,
    &switch::INPUT,
    &switch::RANDOM,
    &switch::ROUND_ROBIN,
    &switch::STATIC,
    &tee::CLASS,
    &timed::SINK,
    &timed::UNQUEUE,
    &unqueue::CLASS,
    &unstrip::PAD,
    &unstrip::RESIZE,
    &unstrip::TRUNCATE,
    &unstrip::UNSTRIP,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[
    ("FullNoteQueue", "Queue"),
    ("QuickNoteQueue", "Queue"),
    ("ThreadSafeQueue", "Queue"),
    ("MSQueue", "Queue"),
    ("SimpleRoundRobinSched", "RoundRobinSched"),
    ("SimplePrioSched", "PrioSched"),
    ("ProbSplitter", "RandomSample"),
    ("Burster", "TimedUnqueue"),
    ("Unqueue2", "Unqueue"),
    ("UnqueueN", "Unqueue"),
    ("PrioritySched", "PrioSched"),
    ("StaticRoundRobinSched", "RoundRobinSched"),
];

/// What is written to a handler, as a value of a configuration.
fn parsed<T: Value>(text: &str) -> Result<T, Refused> {
    T::parse(text, &Scope { element: "", names: &Names::default() }).map_err(Refused::from)
}

/// A time span as handlers show it: `0.5`, `2`.
fn seconds(ns: i64) -> String {
    (ns as f64 / graph::clock::SECOND_NS as f64).to_string()
}
