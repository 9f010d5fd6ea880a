//! Tables that stand in no router and in no host: a cache's items, stations that an overlay learns,
//! and what a virtual function asks its host to receive.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bus::Bar;
use driver::ixgbe::host::{Host, Policy};
use memory::{Backing, Dma};
use overlay::{Learning, Network, Observation, Overlay, Protocol, Tunnel};
use regs::ixgbevf::message::{INFO_SHIFT, SUCCESS, kind};
use regs::ixgbevf::{VFMAILBOX, VFMBMEM};
use service::memcached::{Limits, Session};
use service::{Buffer, Memcached, Protocol as _};
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::wire::Cable;
use testbed::{Device, ixgbe};

use super::strangers::{self, BURST};
use super::{Case, Counter, Figures, resident};
use crate::{Error, Result};

/// A table and who fills it.
pub(super) trait Table {
    /// Brings keys from one number to before another.
    fn fill(&mut self, from: u64, to: u64);
    /// How many entries there are.
    fn entries(&mut self) -> u64;
    /// What was forgotten or refused.
    fn counter(&mut self) -> (&'static str, u64);
}

/// Makes a table.
pub(super) type Make = fn() -> Result<Box<dyn Table>>;

/// Fills a table.
pub(super) fn measure(case: &'static Case, mut table: Box<dyn Table>, packets: u64) -> Result<Figures> {
    let mut windows = strangers::windows(packets, case);
    let before = resident();
    for from in (0..packets).step_by(BURST as usize) {
        let to = packets.min(from + BURST);
        let begin = bus::tsc::now();
        table.fill(from, to);
        strangers::account(&mut windows, to - 1, bus::tsc::now().wrapping_sub(begin));
    }
    let bytes = resident().saturating_sub(before);
    let (name, count) = table.counter();
    let counters = (count > 0).then(|| Counter { name: name.into(), count }).into_iter().collect();
    Ok(Figures {
        case: case.name.into(),
        packets,
        windows: windows.iter().map(strangers::Sum::window).collect(),
        entries: table.entries(),
        bound: case.bound,
        bytes,
        counters,
    })
}

/// Items of a cache, each with a value of 8 bytes: one connection stores them.
struct Cache {
    server: Memcached,
    session: Session,
    output: Buffer,
}

/// Memory of a cache in which fewer items are than come.
const CACHE_BYTES: usize = 1 << 20;

pub(super) fn cache() -> Result<Box<dyn Table>> {
    let limits = Limits { memory: CACHE_BYTES, ..Limits::default() };
    let server = Memcached::servers(limits, 1_700_000_000).pop();
    let server = server.ok_or_else(|| Error::new("a cache has a thread at least"))?;
    Ok(Box::new(Cache { server, session: Session::default(), output: Buffer::default() }))
}

impl Cache {
    fn ask(&mut self, request: &str) -> String {
        let mut rest = request.as_bytes();
        while !rest.is_empty() {
            self.output.room = usize::MAX;
            rest = &rest[self.server.take(&mut self.session, rest, &mut self.output).used..];
        }
        String::from_utf8_lossy(&std::mem::take(&mut self.output.bytes)).into_owned()
    }

    fn stat(&mut self, name: &str) -> u64 {
        let all = self.ask("stats\r\n");
        let line = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

impl Table for Cache {
    fn fill(&mut self, from: u64, to: u64) {
        let requests: String = (from..to).map(|n| format!("set key{n} 0 0 8\r\n12345678\r\n")).collect();
        self.ask(&requests);
    }

    fn entries(&mut self) -> u64 {
        self.stat("curr_items")
    }

    fn counter(&mut self) -> (&'static str, u64) {
        ("evictions", self.stat("evictions"))
    }
}

/// Stations behind one tunnel.
struct Stations(Overlay);

const NETWORK: u32 = 8;

pub(super) fn stations() -> Result<Box<dyn Table>> {
    let told = |error: overlay::Error| Error::new(error.to_string());
    let vxlan = Protocol::named("vxlan").ok_or_else(|| Error::new("there is no VXLAN"))?;
    let [local, remote] = [1, 2].map(|n| IpAddr::from(Ipv4Addr::new(192, 0, 2, n)));
    let tunnel = Tunnel::new(vxlan, local, remote).with_identifier(100);
    let mut overlay = Overlay::new();
    overlay.add_network(NETWORK, Network::bridged()).map_err(told)?;
    overlay.add_end(NETWORK, &tunnel, false).map_err(told)?;
    let learning = Learning { tunnels: vec![tunnel], limit: 4096, age: Duration::from_secs(300) };
    overlay.set_learning(NETWORK, Some(learning)).map_err(told)?;
    Ok(Box::new(Stations(overlay)))
}

impl Table for Stations {
    fn fill(&mut self, from: u64, to: u64) {
        for n in from..to {
            let remote = Ipv4Addr::new(192, 0, 2, 2).into();
            let observed = Observation { network: NETWORK, station: 0x0200_0000_0000 | n, remote };
            self.0.learn(&observed, Duration::from_secs(1));
        }
        // As an endpoint does with what was observed in a turn.
        self.0.publish();
    }

    fn entries(&mut self) -> u64 {
        let counts = self.0.learning(NETWORK);
        counts.learned - counts.evicted
    }

    fn counter(&mut self) -> (&'static str, u64) {
        ("evicted", self.0.learning(NETWORK).evicted)
    }
}

/// Addresses that a virtual function of an 82599 wants to receive, each by a message to its host.
struct Filters {
    host: Host,
    vf: Bar,
    handles: Vec<Handle>,
    given: u64,
}

pub(super) fn filters() -> Result<Box<dyn Table>> {
    let told = |error: &dyn std::fmt::Display| Error::new(error.to_string());
    let cable = Cable::open(&"sink".parse().map_err(|error| told(&error))?).map_err(|error| told(&error))?;
    let options = ixgbe::Options::with_mac(ixgbe::mac(0));
    let (card, vfs) = ixgbe::open_with_vfs(&options, cable, 1).map_err(|error| told(&error))?;
    let devices: Vec<Device> = [card].into_iter().chain(vfs).collect();
    let (pcis, handles): (Vec<_>, Vec<_>) = devices.into_iter().map(InProcess::new).unzip();
    let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
    let options = port::Options { link_wait_ms: 0, ..port::Options::default() };
    let open = || Host::open(pcis[0].clone(), &dma, options, &[Policy::default()]);
    let host = while_stepping(&handles, open).map_err(|error| told(&error))?;
    let host = host.map_err(|error| told(&error))?;
    let vf = pcis[1].bar(0).map_err(|error| told(&error))?;
    let mut filters = Filters { host, vf, handles, given: 0 };
    filters.ask([kind::RESET, 0, 0]);
    Ok(Box::new(filters))
}

impl Filters {
    /// Sends a message; whether it was done.
    fn ask(&mut self, words: [u32; 3]) -> bool {
        self.vf.write32(VFMAILBOX::AT, VFMAILBOX::VFU);
        words.iter().enumerate().for_each(|(n, word)| self.vf.write32(VFMBMEM::at(n), *word));
        self.vf.write32(VFMAILBOX::AT, VFMAILBOX::REQ);
        self.handles.iter().for_each(|handle| _ = handle.step_now());
        let polled = self.host.poll().is_ok();
        self.handles.iter().for_each(|handle| _ = handle.step_now());
        self.vf.read32(VFMAILBOX::AT);
        polled && self.vf.read32(VFMBMEM::at(0)) & SUCCESS != 0
    }
}

impl Table for Filters {
    fn fill(&mut self, from: u64, to: u64) {
        for n in from..to {
            // A number above 1 adds to the list.
            let message = kind::SET_MACVLAN | 2 << INFO_SHIFT;
            self.given += u64::from(self.ask([message, 2 | (n as u32) << 16, (n >> 16) as u32]));
        }
    }

    fn entries(&mut self) -> u64 {
        self.given
    }

    fn counter(&mut self) -> (&'static str, u64) {
        ("refused", self.host.counters(0).refused)
    }
}
