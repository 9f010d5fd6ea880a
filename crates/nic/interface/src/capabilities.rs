//! The capabilities that ports on interfaces need (capabilities(7)), and the one message
//! for who lacks some.
//!
//! `setcap` gives a file exactly what it is told, and takes what it had before. So the
//! message names all that the port needs at any step, and of those that interfaces need what
//! the process has already: a second message never undoes what the first one advised.

use rustix::thread::{CapabilitySet, capabilities};

use port::Error;

/// What a packet socket needs.
pub(crate) const AF_PACKET: CapabilitySet = CapabilitySet::NET_RAW;

/// What AF_XDP needs: sockets, a program (`BPF`) at an interface (`NET_ADMIN`), and packet
/// memory beyond the limit on locked memory (`IPC_LOCK`).
pub(crate) const AF_XDP: CapabilitySet = CapabilitySet::NET_RAW
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::IPC_LOCK);

/// The user lacks the capabilities `missing` for `what`, of `all` that the port needs.
pub(crate) fn lacking(port: &str, what: &str, missing: CapabilitySet, all: CapabilitySet) -> Error {
    Error::setup(port, format!("{what} needs {}", names(missing).join(" and ")), granting(all))
}

/// How the user is given `all`, and keeps what he has of those that interfaces need.
pub(crate) fn granting(all: CapabilitySet) -> String {
    // Of what he has, only what ports of this crate use: root's set is not for a file.
    let has = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted);
    let words = names(all | has & (AF_PACKET | AF_XDP)).join(",").to_lowercase();
    format!("run as root, or: setcap {words}+ep $(command -v ixora)")
}

fn names(capabilities: CapabilitySet) -> Vec<String> {
    capabilities.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}
