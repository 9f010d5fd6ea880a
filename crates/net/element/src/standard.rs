//! Sources, sinks, queues, schedulers, switches: what looks at no header.

mod accepted;
mod bucket;
mod bypass;
mod content;
mod counter;
mod cpu;
mod crc;
mod delay;
mod discard;
mod handler_aggregate;
mod idle;
mod infinite_source;
mod meter;
mod null;
mod number;
mod packet_type;
mod paint_ways;
mod pattern;
mod pipeliner;
mod pull_switch;
mod queue;
pub(crate) mod rate;
mod rated_unqueue;
mod reframe;
mod replay;
mod round_robin_unqueue;
mod sched;
mod shaper;
mod simple;
mod source;
mod store_data;
pub(crate) mod strip;
mod switch;
mod tee;
mod timed;
mod unqueue;
mod unstrip;

pub(crate) use bypass::Gates;
pub use counter::Counter;
pub use cpu::CpuSwitch;
pub use crc::{CheckCrc, SetCrc};
pub use null::Null;
pub use packet_type::SetPacketType;
pub use paint_ways::ExactPaintSwitch;
pub use simple::{CheckLength, Pass, SetAnnoByte};
pub use store_data::StoreData;
pub use strip::Strip;
pub use switch::{Hash, StaticSwitch, Switch};
pub use tee::Tee;
pub use unstrip::{Pad, Truncate, Unstrip};

use std::any::Any;

use graph::value::{Value, parse_alone};
use graph::{Class, Element, Refused};

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &accepted::CLASS,
    &pattern::CHECK,
    &pattern::SEND,
    &reframe::CLASS,
    &round_robin_unqueue::CLASS,
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
    &delay::DELAY_SHAPER,
    &delay::DELAY_UNQUEUE,
    &delay::LINK_UNQUEUE,
    &shaper::SHAPER,
    &simple::ALIGN,
    &crc::CHECK,
    &simple::CHECK_LENGTH,
    &simple::CLIPBOARD,
    &simple::RANDOM_BIT_ERRORS,
    &simple::RANDOM_SAMPLE,
    &simple::SET_ANNO_BYTE,
    &crc::SET,
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
    &timed::BURSTER,
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
    ("SimpleIdle", "Idle"),
    ("Null1", "Null"),
    ("Null2", "Null"),
    ("Null3", "Null"),
    ("Null4", "Null"),
    ("Null5", "Null"),
    ("Null6", "Null"),
    ("Null7", "Null"),
    ("Null8", "Null"),
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
    ("Unqueue2", "Unqueue"),
    ("UnqueueN", "Unqueue"),
    ("PrioritySched", "PrioSched"),
    ("StaticRoundRobinSched", "RoundRobinSched"),
];

/// What is written to a handler, as a value of a configuration.
fn parsed<T: Value>(text: &str) -> Result<T, Refused> {
    parse_alone(text).map_err(Refused::from)
}

/// A fresh element whose configuration another one is to take, which is of its kind.
pub(crate) fn same_kind<T: Element>(new: Box<dyn Element>) -> Result<Box<T>, Refused> {
    (new as Box<dyn Any>).downcast().map_err(|_| "a new element of another kind".into())
}

/// A time span as handlers show it: `500ms`, `2.000000s`.
fn interval(ns: i64) -> String {
    match (ns / graph::clock::SECOND_NS, ns % graph::clock::SECOND_NS) {
        (0, ns) if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        (0, ns) if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        (0, ns) => format!("{ns}ns"),
        (seconds, ns) if ns % 1_000 == 0 => format!("{seconds}.{:06}s", ns / 1_000),
        (seconds, ns) => format!("{seconds}.{ns:09}s"),
    }
}

/// A rate of bytes as handlers show it: `1.5Mbps`, `80kbps`.
fn bandwidth(bytes: u32) -> String {
    // As decimals, without zeros at the end.
    let shown = |value: u64, digits: usize, unit: &str| {
        let scale = 10u64.pow(digits as u32);
        let text = format!("{}.{:0digits$}", value / scale, value % scale);
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    let bits = u64::from(bytes) * 8;
    match bytes {
        0x2000_0000.. => shown(bytes.into(), 6, "MBps"),
        125_000_000.. => shown(bits, 9, "Gbps"),
        125_000.. => shown(bits, 6, "Mbps"),
        _ => shown(bits, 3, "kbps"),
    }
}
