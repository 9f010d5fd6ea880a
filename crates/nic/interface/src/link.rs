//! A network interface of the Linux kernel, as the ports on top of one see it:
//! its address, MTU, state and counters, asked over rtnetlink(7) by its index.
//!
//! By index, so that an interface that was renamed is still the same one, and
//! one that was removed and made again is not. Asking needs no privilege and no
//! system call that a confined program has lost. Not here: addresses, routes,
//! the number of queues in use (ethtool).

mod addresses;
mod netlink;

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use addresses::{Addresses, addresses, gateway};
use netlink::{Attributes, Message, Netlink};
use rustix::io::Errno;

use port::{Counter, Error, Link, Reason, Result};

/// Longest name (`IFNAMSIZ`, with its end).
const NAME_LEN: usize = 16;
/// Administratively up, and able to pass frames (linux/if.h).
const IFF_UP: u32 = 1 << 0;
const IFF_RUNNING: u32 = 1 << 6;
/// Bytes of an Ethernet header, which the MTU does not count.
const HEADER: usize = 14;

/// Attributes of a link (linux/if_link.h).
mod attribute {
    pub const ADDRESS: u16 = 1;
    pub const NAME: u16 = 3;
    pub const MTU: u16 = 4;
    pub const LINKINFO: u16 = 18;
    pub const INFO_KIND: u16 = 1;
    pub const STATS64: u16 = 23;
    pub const EXT_MASK: u16 = 29;
    pub const TX_QUEUES: u16 = 31;
    pub const RX_QUEUES: u16 = 32;
}
/// Leave the counters out of an answer (`RTEXT_FILTER_SKIP_STATS`).
const SKIP_STATS: u32 = 1 << 3;

/// An interface, found by its name.
#[derive(Debug)]
pub(crate) struct Interface {
    netlink: Netlink,
    /// The port's name, for messages.
    port: String,
    pub(crate) index: u32,
    /// The counters when the port was opened.
    before: [u64; COUNTERS.len()],
    /// The counters when they were last asked for.
    latest: Mutex<[u64; COUNTERS.len()]>,
    /// Mbit/s, zero where unknown.
    speed_mbps: u32,
    /// The driver of its device, where it has one and /sys shows it.
    pub(crate) driver: Option<String>,
}

/// What the kernel says of an interface now.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) index: u32,
    flags: u32,
    pub(crate) mac: [u8; 6],
    /// Bytes behind the Ethernet header.
    mtu: usize,
    /// Queues it was made with; fewer may be in use.
    pub(crate) rx_queues: usize,
    pub(crate) tx_queues: usize,
    /// The kind of a virtual one: `veth`, `tun`, ….
    pub(crate) kind: String,
    counters: [u64; COUNTERS.len()],
}

impl State {
    /// Whether somebody turned it on.
    pub(crate) fn is_up(&self) -> bool {
        self.flags & IFF_UP != 0
    }

    /// The longest frame, without CRC and VLAN tag.
    pub(crate) fn max_frame(&self) -> usize {
        self.mtu + HEADER
    }
}

/// Turns an interface on, unless somebody did. Needs CAP_NET_ADMIN.
///
/// # Errors
/// What the kernel says, or that there is no such interface.
pub fn turn_on(name: &str) -> io::Result<()> {
    let (interface, state) = Interface::open(name, name).map_err(io::Error::other)?;
    if state.is_up() { Ok(()) } else { interface.turn_on(None) }
}

/// The interface's counter of received frames that were dropped.
pub(crate) const RX_DROPPED: &str = "interface_rx_dropped";

/// Counters of the interface that tell of packets nobody else counts: where they
/// stand in `rtnl_link_stats64`, and what they mean. They count everybody's
/// packets, not only the port's.
const COUNTERS: [(usize, &str, &str); 7] = [
    (4, "interface_rx_errors", "frames the interface could not receive"),
    (6, RX_DROPPED, "received frames the kernel dropped"),
    (11, "interface_rx_over_errors", "frames beyond the interface's ring"),
    (15, "interface_rx_missed", "frames the interface had no room for"),
    (5, "interface_tx_errors", "frames the interface could not send"),
    (7, "interface_tx_dropped", "frames the interface dropped instead of sending them"),
    (16, "interface_tx_aborted", "frames the interface gave up sending"),
];

impl Interface {
    /// Finds the interface `name`, for the port called `port`.
    pub(crate) fn open(port: &str, name: &str) -> Result<(Interface, State)> {
        let failed = |source| Error::System { port: port.to_owned(), doing: "asking the kernel", source };
        if name.is_empty() || name.len() >= NAME_LEN {
            let what = format!("{name:?} cannot be an interface: names have 1 to 15 bytes");
            return Err(Error::setup(port, what, "ip -brief link lists them"));
        }
        let netlink = Netlink::open().map_err(|errno| failed(errno.into()))?;
        let state = match ask(&netlink, 0, Some(name), true) {
            Ok(state) => state,
            Err(Errno::NODEV) => {
                let what = format!("there is no interface {name} in this network namespace");
                return Err(Error::setup(port, what, "ip -brief link lists them"));
            }
            Err(errno) => return Err(failed(errno.into())),
        };
        let (index, before) = (state.index, state.counters);
        let device = device(name, index);
        let speed_mbps = device.as_deref().map_or(0, speed);
        let driver = device.and_then(|device| {
            let driver = std::fs::read_link(device.join("device/driver")).ok()?;
            Some(driver.file_name()?.to_string_lossy().into_owned())
        });
        let (latest, port) = (Mutex::new(before), port.to_owned());
        Ok((Interface { netlink, port, index, before, latest, speed_mbps, driver }, state))
    }

    /// How it is now.
    ///
    /// # Errors
    /// [`Error::Lost`] when it is gone.
    pub(crate) fn look(&self) -> Result<State> {
        self.ask(false)
    }

    fn ask(&self, counters: bool) -> Result<State> {
        ask(&self.netlink, self.index, None, counters).map_err(|errno| match errno {
            Errno::NODEV => Error::Lost { port: self.port.clone(), what: "the interface is gone" },
            errno => {
                Error::System { port: self.port.clone(), doing: "asking the kernel", source: errno.into() }
            }
        })
    }

    /// An error once it is gone or down; else how it is.
    pub(crate) fn health(&self) -> Result<State> {
        let state = self.look()?;
        match state.is_up() {
            true => Ok(state),
            false => Err(Error::Down { port: self.port.clone() }),
        }
    }

    /// The link, down when the interface is gone.
    pub(crate) fn link(&self) -> Link {
        let up = self.look().is_ok_and(|state| state.is_up() && state.flags & IFF_RUNNING != 0);
        if up { Link::up(self.speed_mbps) } else { Link::DOWN }
    }

    /// What the interface counted since the port was opened; once it is gone, what it had
    /// counted when it was asked for the last time.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(state) = self.ask(true) {
            *latest = state.counters;
        }
        let since = latest.iter().zip(self.before).map(|(now, before)| now.saturating_sub(before));
        let named = COUNTERS.iter().zip(since);
        let counter = |(&(_, name, what), value): (&(usize, &'static str, &'static str), u64)| {
            let loss = if name.contains("_rx_") { Reason::RxInterface } else { Reason::TxInterface };
            Counter { name, value, loss: Some(loss), what }
        };
        named.map(counter).collect()
    }

    /// Turns it on, and sets its MTU if asked to. Needs CAP_NET_ADMIN.
    pub(crate) fn turn_on(&self, mtu: Option<u32>) -> io::Result<()> {
        let mut message = Message::new_link(self.index, IFF_UP, IFF_UP);
        if let Some(mtu) = mtu {
            message.attribute(attribute::MTU, &mtu.to_ne_bytes());
        }
        Ok(self.netlink.ask(message, |_| ())?)
    }

    /// Sets its Ethernet address. Needs CAP_NET_ADMIN, as what follows.
    pub(crate) fn set_address(&self, mac: [u8; 6]) -> io::Result<()> {
        let mut message = Message::new_link(self.index, 0, 0);
        message.attribute(attribute::ADDRESS, &mac);
        Ok(self.netlink.ask(message, |_| ())?)
    }

    /// Gives the host an address on it.
    pub(crate) fn add_ipv4(&self, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut message = Message::new_address(self.index, prefix);
        // IFA_LOCAL and IFA_ADDRESS: the same, as it is no point-to-point link.
        message.attribute(2, &address.octets());
        message.attribute(1, &address.octets());
        Ok(self.netlink.ask(message, |_| ())?)
    }

    /// Has the host send over it what it knows no better way for.
    pub(crate) fn add_default_route(&self, gateway: Ipv4Addr) -> io::Result<()> {
        let mut message = Message::new_default_route();
        // RTA_GATEWAY and RTA_OIF.
        message.attribute(5, &gateway.octets());
        message.attribute(4, &self.index.to_ne_bytes());
        Ok(self.netlink.ask(message, |_| ())?)
    }
}

fn ask(netlink: &Netlink, index: u32, name: Option<&str>, counters: bool) -> rustix::io::Result<State> {
    let mut message = Message::find_link(index);
    if let Some(name) = name {
        message.attribute(attribute::NAME, &[name.as_bytes(), &[0]].concat());
    }
    if !counters {
        message.attribute(attribute::EXT_MASK, &SKIP_STATS.to_ne_bytes());
    }
    let mut found = None;
    netlink.ask(message, |link| found = read(link))?;
    found.ok_or(Errno::NODEV)
}

/// Reads the answer: an `ifinfomsg` and its attributes.
fn read(link: &[u8]) -> Option<State> {
    let (head, rest) = link.split_at_checked(netlink::LINK_LEN)?;
    let word = |bytes: &[u8]| Some(u32::from_ne_bytes(*bytes.first_chunk()?));
    let mut state = State {
        index: word(&head[netlink::LINK_INDEX..])?,
        flags: word(&head[netlink::LINK_FLAGS..])?,
        ..State::default()
    };
    for (kind, value) in Attributes(rest) {
        match kind {
            attribute::ADDRESS => state.mac = value.try_into().unwrap_or_default(),
            attribute::MTU => state.mtu = word(value)? as usize,
            attribute::TX_QUEUES => state.tx_queues = word(value)? as usize,
            attribute::RX_QUEUES => state.rx_queues = word(value)? as usize,
            attribute::LINKINFO => {
                let kind = Attributes(value).find(|&(kind, _)| kind == attribute::INFO_KIND);
                let text = kind.map(|(_, text)| String::from_utf8_lossy(text));
                state.kind = text.unwrap_or_default().trim_end_matches('\0').to_owned();
            }
            attribute::STATS64 => {
                let at = |n: usize| value.get(n * 8..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
                state.counters = COUNTERS.map(|(n, ..)| at(n).unwrap_or(0));
            }
            _ => {}
        }
    }
    Some(state)
}

/// Where /sys shows an interface that has a device, if it shows the same one: it may be of another
/// network namespace.
fn device(name: &str, index: u32) -> Option<PathBuf> {
    let folder = Path::new("/sys/class/net").join(name);
    let found = number(&folder, "ifindex") == Some(index) && folder.join("device/uevent").exists();
    found.then_some(folder)
}

/// Its speed. Virtual ones have none, or make one up; it is -1 when the link is down.
fn speed(folder: &Path) -> u32 {
    number(folder, "speed").unwrap_or(0)
}

fn number(folder: &Path, file: &str) -> Option<u32> {
    std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}
