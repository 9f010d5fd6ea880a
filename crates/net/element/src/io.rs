//! Ports: where packets come in and go out.
//!
//! `FromDevice(PORT)` and `ToDevice(PORT)` work on whatever a port is: a driver of
//! ours, a model, an interface of Linux's. [`router_ports`] opens each port once, with as
//! many queues as threads use it.

mod flow_rule;
pub mod flow_source;
mod from_device;
mod kernel_tun;
mod names;
mod raw_socket;
pub mod router_ports;
mod socket;
pub mod thread_assignment;
mod to_device;

use graph::{Class, Conf, ConfFault, Setup};

pub use names::PortNumbers;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &flow_source::CLASS,
    &from_device::CLASS,
    &kernel_tun::TAP,
    &kernel_tun::TUN,
    &raw_socket::CLASS,
    &socket::CLASS,
    &socket::FROM,
    &socket::TO,
    &to_device::CLASS,
];

/// Other names of them: what FastClick and Click call them for other frameworks.
pub(crate) const ALIASES: &[(&str, &str)] = &[
    ("FromDPDKDevice", "FromDevice"),
    ("FromNetmapDevice", "FromDevice"),
    ("FromDevice.u", "FromDevice"),
    ("PollDevice", "FromDevice"),
    ("FromHost", "FromDevice"),
    ("ToDPDKDevice", "ToDevice"),
    ("ToNetmapDevice", "ToDevice"),
    ("ToDevice.u", "ToDevice"),
    ("ToHost", "ToDevice"),
];

/// Takes keywords that mean nothing here, with a note that says why.
fn ignore(setup: &mut Setup<'_>, conf: &mut Conf<'_>, words: &[(&str, &str)]) -> Result<(), ConfFault> {
    for (word, why) in words {
        if conf.ignore(word) {
            setup.note(format!("{word} is not needed: {why}"));
        }
    }
    Ok(())
}
