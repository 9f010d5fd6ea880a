//! What tests of routers are made of: elements that check packets, compare them, or only
//! have a task.

mod check_packet;
mod compare_packets;
mod random_seed;
mod sched_order;
mod tasks;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &check_packet::CLASS,
    &compare_packets::CLASS,
    &random_seed::CLASS,
    &sched_order::CLASS,
    &tasks::HANDLER,
    &tasks::NULL,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
