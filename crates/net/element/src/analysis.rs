//! Printing, dumps and summaries of packets; their times, and what belongs together;
//! queue management.

pub(crate) mod aggregate;
mod anonymize;
mod aqm;
mod arp_print;
mod average_counter;
pub(crate) mod call;
pub(crate) mod file;
mod ip_print;
mod latency;
mod md5;
mod notifier_debug;
mod output;
mod print;
pub(crate) mod sample;
mod summary;
pub(crate) mod text;
mod time_filter;
mod time_sorted;
mod timestamp;
pub(crate) mod transport_line;

use graph::Class;

pub(crate) use summary::draft::chained;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
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
    &aqm::red::ADAPTIVE,
    &aqm::red::RED,
    &arp_print::CLASS,
    &average_counter::CLASS,
    &ip_print::CLASS,
    &latency::CHECK,
    &latency::DIFF,
    &latency::RECORD,
    &notifier_debug::CLASS,
    &print::CLASS,
    &summary::from::CLASS,
    &summary::to::CLASS,
    &time_filter::ACCUM,
    &time_filter::FILTER,
    &time_filter::RANGE,
    &time_sorted::CLASS,
    &timestamp::ADJUST,
    &timestamp::DELTA,
    &timestamp::SET,
    &timestamp::STORE,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] =
    &[("AverageCounterMP", "AverageCounter"), ("AverageCounterIMP", "AverageCounter")];
