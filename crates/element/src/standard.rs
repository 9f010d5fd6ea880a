//! Sources, sinks, queues, schedulers, switches: what looks at no header.

mod accepted;
mod bucket;
mod bypass;
mod counter;
mod cpu;
mod discard;
mod handler_aggregate;
mod idle;
mod infinite_source;
mod meter;
mod null;
mod number;
mod packet_type;
mod paint_ways;
mod pipeliner;
mod pull_switch;
mod queue;
mod rate;
mod rated_unqueue;
mod replay;
mod sched;
mod shaper;
mod small;
mod source;
mod store_data;
mod strip;
mod switch;
mod tee;
mod timed;
mod unqueue;
mod unstrip;

pub use counter::Counter;
pub use null::Null;
pub use small::{CheckLength, Pass, SetAnnoByte};
pub use strip::Strip;
pub use switch::{Hash, StaticSwitch, Switch};
pub use unstrip::{Truncate, Unstrip};

use graph::value::{Names, Scope, Value};
use graph::{Class, Refused};

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &accepted::CLASS,
    &bypass::BYPASS,
    &bypass::HUB,
    &bypass::PULL_TEE,
    &bypass::SUPPRESSOR,
    &counter::CLASS,
    &cpu::QUEUE,
    &cpu::SWITCH,
    &discard::CLASS,
    &handler_aggregate::CLASS,
    &idle::CLASS,
    &infinite_source::CLASS,
    &meter::BLOCK,
    &meter::BYTES,
    &meter::COMPARE,
    &meter::PACKETS,
    &null::CLASS,
    &null::PULL_NULL,
    &null::PUSH_NULL,
    &number::CLASS,
    &packet_type::CLASS,
    &paint_ways::EXACT,
    &paint_ways::ROUND_ROBIN,
    &pipeliner::CLASS,
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
    &replay::MULTI,
    &replay::PULL,
    &replay::UNQUEUE,
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
    &store_data::CLASS,
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
    ("AnnotationInfo", "ClickyInfo"),
    ("CounterAtomic", "Counter"),
    ("CounterLock", "Counter"),
    ("CounterMP", "Counter"),
    ("CounterRCU", "Counter"),
    ("DPDKInfo", "ClickyInfo"),
    ("DevirtualizeInfo", "ClickyInfo"),
    ("DiscardNoFree", "Discard"),
    ("Duplicate", "Tee"),
    ("EnsureDPDKBuffer", "Null"),
    ("EnsureHeadroom", "Null"),
    ("EnsureNetmapBuffer", "Null"),
    ("ExactCPUSwitch", "CPUSwitch"),
    ("FlowInfo", "ClickyInfo"),
    ("FullNoteQueue", "Queue"),
    ("JiffieClock", "ClickyInfo"),
    ("NetmapInfo", "ClickyInfo"),
    ("TSCClock", "ClickyInfo"),
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
