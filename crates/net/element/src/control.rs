//! Scripts, information for other elements, and control from outside.

mod change_uid;
mod chatter;
mod clients;
pub(crate) mod exposition;
mod information;
mod kernel_filter;
mod listener;
mod metrics;
pub mod policy;
mod progress_bar;
pub mod protocol;
mod quit_watcher;
mod sched;
mod script;
pub mod signals;
mod socket;
mod socket_file;
mod spinlock;

use graph::Class;

pub(crate) use script::cause;
pub(crate) use socket_file::SocketFile;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &change_uid::CLASS,
    &chatter::CLASS,
    &kernel_filter::CLASS,
    &progress_bar::CLASS,
    &script::CLASS,
    &script::DRIVER_MANAGER,
    &quit_watcher::CLASS,
    &sched::BALANCED_THREAD_SCHED,
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
    &spinlock::ACQUIRE,
    &spinlock::INFO,
    &spinlock::PATH,
    &spinlock::PUSH,
    &spinlock::RELEASE,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] =
    &[("ErrorElement", "Error"), ("MessageElement", "Message"), ("SortedTaskSched", "BalancedThreadSched")];
