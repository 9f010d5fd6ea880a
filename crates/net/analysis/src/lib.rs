//! Click's elements of traffic analysis: printing, capture files and summaries of
//! packets; their times, and which of them belong together; active queue management.
//!
//! [`registry`] has them all by name. What they know of a packet beside its bytes is in
//! its annotations (`graph::annotation`); the other elements are the crate `element`,
//! which this one does not use, so that both are built at the same time.
// Elements are reached by their classes' names; `See [`CLASS`]` is for who reads the source.
#![allow(rustdoc::private_intra_doc_links)]
#![forbid(unsafe_code)]

mod aggregate;
mod anonymize;
mod aqm;
mod arp_print;
mod average_counter;
mod call;
mod file;
mod from_dump;
mod ip_print;
mod latency;
mod link;
mod md5;
mod notifier_debug;
mod output;
mod print;
mod push_or_pull;
mod sample;
mod summary;
mod text;
mod time_filter;
mod time_sorted;
mod timestamp;
mod to_dump;
mod transport_line;

use graph::{Class, Registry};

/// The classes of this crate.
const CLASSES: &[&Class] = &[
    &aggregate::counter::CLASS,
    &aggregate::filter::CLASS,
    &aggregate::flow_dumps::CLASS,
    &aggregate::flows::CLASS,
    &aggregate::ip::CLASS,
    &aggregate::keep::FIRST,
    &aggregate::keep::LAST,
    &aggregate::packet_counter::CLASS,
    &aggregate::pairs::CLASS,
    &aggregate::simple::LENGTH,
    &aggregate::simple::PAINTED,
    &anonymize::CLASS,
    &anonymize::ERASE,
    &aqm::codel::CLASS,
    &aqm::red::ADAPTIVE,
    &aqm::red::RED,
    &arp_print::CLASS,
    &average_counter::CLASS,
    &from_dump::CLASS,
    &ip_print::CLASS,
    &latency::CHECK,
    &latency::DIFF,
    &latency::RECORD,
    &notifier_debug::CLASS,
    &print::CLASS,
    &summary::from::CLASS,
    &summary::net_flow::CLASS,
    &summary::tcpdump::CLASS,
    &summary::to::CLASS,
    &time_filter::ACCUM,
    &time_filter::FILTER,
    &time_filter::RANGE,
    &time_sorted::CLASS,
    &timestamp::ADJUST,
    &timestamp::DELTA,
    &timestamp::SET,
    &timestamp::STORE,
    &to_dump::CLASS,
];

/// Other names of them.
const ALIASES: &[(&str, &str)] =
    &[("AverageCounterMP", "AverageCounter"), ("AverageCounterIMP", "AverageCounter")];

/// All classes of this crate.
pub fn registry() -> Registry {
    Registry::new(CLASSES, ALIASES)
}

// Why elements of some classes are no part of compiled programs.
const PRINT: &str = "it prints in the order of batches";
const CLOCK: &str = "it reads the clock once for a batch";
