//! Ports: where packets come in and go out.
//!
//! `FromDevice(PORT)` and `ToDevice(PORT)` work on whatever a port is: a driver of
//! ours, a model, an interface of Linux's. [`outlets`] opens each port once, with as
//! many queues as threads use it.

pub mod flow_source;
mod from_device;
pub mod outlets;
mod to_device;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[&flow_source::CLASS, &from_device::CLASS, &to_device::CLASS];

/// Other names of them: what FastClick and Click call them for other frameworks.
pub(crate) const ALIASES: &[(&str, &str)] = &[
    ("FromDPDKDevice", "FromDevice"),
    ("FromNetmapDevice", "FromDevice"),
    ("FromDevice.u", "FromDevice"),
    ("PollDevice", "FromDevice"),
    ("ToDPDKDevice", "ToDevice"),
    ("ToNetmapDevice", "ToDevice"),
    ("ToDevice.u", "ToDevice"),
];
