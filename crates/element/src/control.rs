//! Scripts, information for other elements, and control from outside.

mod clients;
mod door;
mod information;
mod metrics;
pub mod protocol;
mod sched;
mod script;
mod socket;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &script::CLASS,
    &script::DRIVER_MANAGER,
    &sched::STATIC_THREAD_SCHED,
    &sched::SCHEDULE_INFO,
    &information::ADDRESS_INFO,
    &information::ALIGNMENT_INFO,
    &information::ERROR,
    &information::IP_NAME_INFO,
    &information::MESSAGE,
    &information::PORT_INFO,
    &metrics::CLASS,
    &socket::CLASS,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[("MessageElement", "Message"), ("ErrorElement", "Error")];
