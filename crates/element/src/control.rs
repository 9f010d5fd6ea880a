//! Scripts, information for other elements, and control from outside.

mod sched;
mod script;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] =
    &[&script::CLASS, &script::DRIVER_MANAGER, &sched::STATIC_THREAD_SCHED, &sched::SCHEDULE_INFO];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
