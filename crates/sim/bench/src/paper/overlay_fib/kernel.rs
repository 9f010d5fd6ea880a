//! The kernel's own devices beside the paper's figures: an application's UDP socket sends by each
//! of them to a device that takes everything. The network namespace must be one that nobody else
//! uses; devices and addresses are made with `ip`.
//!
//! What is counted is all of a system call, of which the tunnel is the part that the row without
//! one lacks. Of the figure's protocols Linux has devices for some, and a kernel not for all of
//! these.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::figures::Spread;
use crate::{Error, Result};
use wire::{ethernet, ipv4, udp};

/// The row without a tunnel.
pub const NONE: &str = "none";
/// Names as the figures have them, and what `ip link add` makes of them.
const DEVICES: [(&str, &str); 5] = [
    ("IPIP", "ipip remote 192.0.2.2 local 192.0.2.1"),
    ("GRE", "gre remote 192.0.2.2 local 192.0.2.1"),
    ("GRETAP", "gretap remote 192.0.2.2 local 192.0.2.1"),
    ("VXLAN", "vxlan id 100 remote 192.0.2.2 local 192.0.2.1 dstport 4789 noudpcsum"),
    ("Geneve", "geneve id 100 remote 192.0.2.2 dstport 6081 noudpcsum"),
];
/// Whom packets inside are for, without a tunnel and with one.
const PLAIN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
/// The Ethernet address of whoever is at the other end.
const STATION: &str = "02:00:00:00:00:02";
/// Packets in a window, at most: a system call takes longer than the ways beside it.
const MOST: u64 = 100_000;

/// What a packet costs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KernelRow {
    /// The protocol, or [`NONE`].
    pub name: String,
    /// Bytes of the packet as a frame without a tunnel.
    pub size: usize,
    /// TSC cycles per packet.
    pub cycles: Spread,
}

/// What was measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Kernel {
    /// Rows of the devices that there are.
    pub rows: Vec<KernelRow>,
    /// What there is not, and why.
    pub notes: Vec<String>,
}

/// Measures all devices with packets of these sizes.
///
/// # Errors
/// When the namespace is in use, or no device can be made that takes everything.
pub fn measure(sizes: &[usize], packets: u64, windows: usize) -> Result<Kernel> {
    // In a new one not even the loopback device is up.
    if !ip("-o link show up")?.is_empty() {
        return Err(Error::new("this network namespace is in use"));
    }
    let mut kernel = Kernel::default();
    kernel.notes.push(sink()?);
    let row = |name: &str, to: Ipv4Addr, kernel: &mut Kernel| -> Result<()> {
        for &size in sizes {
            let cycles = Spread::of(cycles(to, size, packets.clamp(1, MOST), windows)?);
            kernel.rows.push(KernelRow { name: name.to_owned(), size, cycles });
        }
        Ok(())
    };
    row(NONE, PLAIN, &mut kernel)?;
    for (name, device) in DEVICES {
        match tunnel(device) {
            Ok(()) => row(name, INSIDE, &mut kernel)?,
            Err(why) => kernel.notes.push(format!("this kernel has no {name} device: {why}")),
        }
        let _ = ip("link del t0"); // it may never have been made
    }
    Ok(kernel)
}

/// Makes the device that takes everything; what it is.
fn sink() -> Result<String> {
    ip("link set lo up")?;
    let note = match ip("link add d0 type dummy") {
        Ok(_) => "the kernel's packets go to a dummy device".to_owned(),
        Err(_) => {
            ip("link add d0 type veth peer name d1")?;
            ip("link set d1 addrgenmode none mtu 9000 up")?;
            "the kernel's packets go to a veth pair, as it has no dummy device: what the other end's \
             receiving takes is counted"
                .to_owned()
        }
    };
    ip("link set d0 addrgenmode none mtu 9000 up")?;
    ip("addr add 192.0.2.1/24 dev d0")?;
    for host in ["192.0.2.2".to_owned(), PLAIN.to_string()] {
        ip(&format!("neigh replace {host} lladdr {STATION} dev d0 nud permanent"))?;
    }
    Ok(note)
}

/// Makes a tunnel device, by which [`INSIDE`] is reached.
fn tunnel(device: &str) -> Result<()> {
    ip(&format!("link add t0 type {device}"))?;
    ip("link set t0 addrgenmode none up")?;
    ip("addr add 10.1.0.1/24 dev t0")?;
    // Devices without Ethernet headers have no neighbours.
    let _ = ip(&format!("neigh replace {INSIDE} lladdr {STATION} dev t0 nud permanent"));
    Ok(())
}

/// Sends datagrams that are such frames without a tunnel: cycles of each, by window.
fn cycles(to: Ipv4Addr, size: usize, packets: u64, windows: usize) -> Result<Vec<f64>> {
    let failed = |error: std::io::Error| Error::new(format!("the kernel does not send: {error}"));
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed)?;
    socket.connect((to, 9)).map_err(failed)?;
    let headers = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;
    let payload = vec![0; size.saturating_sub(headers)];
    let window = || {
        let start = bus::tsc::now();
        for _ in 0..packets {
            socket.send(&payload)?;
        }
        Ok((bus::tsc::now() - start) as f64 / packets as f64)
    };
    window().map_err(failed)?; // fills the caches
    (0..windows.max(1)).map(|_| window().map_err(failed)).collect()
}

/// What `ip` prints.
fn ip(arguments: &str) -> Result<String> {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    let done = done.map_err(|error| Error::new(format!("cannot run ip: {error}")))?;
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.lines().next().unwrap_or_default();
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(Error::new(format!("ip {arguments}: {said}"))),
    }
}
