//! Aggregates: packets that belong together, by a number that each carries. Some
//! elements set it, others count, choose or write by it.

pub(super) mod counter;
mod field;
pub(super) mod filter;
pub(super) mod flow_dumps;
mod flow_key;
mod flow_record;
pub(super) mod flows;
pub(super) mod ip;
pub(super) mod keep;
mod notice;
pub(super) mod packet_counter;
pub(super) mod pairs;
pub(super) mod simple;
mod trace_info;
mod tree;
