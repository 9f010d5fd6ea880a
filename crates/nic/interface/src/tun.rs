//! A TUN or TAP interface with an address of the host's own: what Click's KernelTun and
//! KernelTap stand on (Linux's `Documentation/networking/tuntap.rst`). The interface is
//! made, named, addressed and turned on, and goes away with its file.
//!
//! Not a [`Port`](port::Port): it has one file, read and written packet by packet by
//! whoever holds it. Needs CAP_NET_ADMIN.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use crate::link::Interface;
use crate::tap::attach;

/// What the interface is to be.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its name; the kernel chooses one without.
    pub name: Option<String>,
    /// Ethernet frames come and go, not mere IP packets.
    pub tap: bool,
    /// The host's address on it.
    pub address: Ipv4Addr,
    /// Bits of its prefix.
    pub prefix: u8,
    /// Where the host sends what it knows no better way for.
    pub gateway: Option<Ipv4Addr>,
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Bytes of the longest packet, without an Ethernet header.
    pub mtu: u32,
}

/// An interface, while its file is open.
#[derive(Debug)]
pub struct Tun {
    /// A packet is read, and written, with one call each; none waits.
    pub file: OwnedFd,
    /// The interface's name, as the kernel has it.
    pub name: String,
}

/// What could not be done, and why.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub struct Failed {
    /// What was being done.
    pub doing: &'static str,
    /// Why it could not be.
    pub source: io::Error,
}

impl Tun {
    /// Makes the interface and turns it on.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn open(wanted: &Wanted) -> Result<Tun, Failed> {
        let failed = |doing| move |source| Failed { doing, source };
        let opened = attach::open_any(wanted.name.as_deref().unwrap_or_default(), wanted.tap);
        let (file, name) = opened.map_err(failed("/dev/net/tun"))?;
        let (interface, _) = Interface::open(&name, &name).map_err(|error| Failed {
            doing: "finding the interface",
            source: io::Error::other(error.to_string()),
        })?;
        if let Some(mac) = wanted.mac.filter(|_| wanted.tap) {
            interface.set_address(mac).map_err(failed("setting the Ethernet address"))?;
        }
        interface.add_ipv4(wanted.address, wanted.prefix).map_err(failed("setting the address"))?;
        interface.turn_on(Some(wanted.mtu)).map_err(failed("turning the interface on"))?;
        if let Some(gateway) = wanted.gateway {
            interface.add_default_route(gateway).map_err(failed("setting the default route"))?;
        }
        Ok(Tun { file, name })
    }
}
