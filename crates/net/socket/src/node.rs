//! A host on a port, with an application and a thread of its own.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use memory::Dma;
use port::{Counter, Port};
use runtime::{Running, Runtime};
use tcp::{Addresses, Host, KeepAlive, Neighbors, Offload, Report, Service};
use wire::{MacAddress, ethernet};

/// The longest sleep of the thread: how late it notices a packet whose interrupt was lost.
const SLEEP: Duration = Duration::from_millis(50);
/// Packets that connections may keep.
const BUFFERS: usize = 8192;

/// Who a host is, and how its stack works.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its IPv4 address and the bits of its prefix.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// Its IPv6 address and the bits of its prefix.
    pub v6: Option<(Ipv6Addr, u8)>,
    /// Who forwards to addresses outside of the prefixes.
    pub gateways: (Option<Ipv4Addr>, Option<Ipv6Addr>),
    /// Ports that it listens on from the beginning, for an application of events.
    pub listen: Vec<u16>,
    /// How its stack works. The key is chosen at random, and what the port does for the stack is
    /// asked of it: `key` and `offload` here are of no effect.
    pub options: tcp::Options,
    /// Packets that its connections may keep.
    pub buffers: usize,
    /// The core that its thread is pinned to.
    pub core: Option<usize>,
    /// Whether its thread sleeps when nothing comes, on ports that were opened with interrupts;
    /// else it polls.
    pub sleeps: bool,
}

impl Setup {
    /// A host of one address, with the bits of its prefix; the rest can be changed.
    pub fn at(address: IpAddr, bits: u8) -> Setup {
        let (v4, v6) = match address {
            IpAddr::V4(address) => (Some((address, bits)), None),
            IpAddr::V6(address) => (None, Some((address, bits))),
        };
        let options =
            tcp::Options { nagle: false, keep_alive: Some(KeepAlive::default()), ..tcp::Options::default() };
        let gateways = (None, None);
        Setup { v4, v6, gateways, listen: Vec::new(), options, buffers: BUFFERS, core: None, sleeps: true }
    }

    /// The same, listening on a port.
    #[must_use]
    pub fn listening_on(mut self, port: u16) -> Setup {
        self.listen.push(port);
        self
    }
}

/// Why a host could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its port's first queues were taken before.
    #[error("{0} has no queues left")]
    NoQueues(String),
    /// Memory, a thread, a core or a file descriptor cannot be had.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

/// How a host ended.
#[derive(Debug)]
pub struct Ended {
    /// What its stack counted; an application's counters go where it reports to.
    pub counters: Vec<Counter>,
    /// Buffers that did not come back.
    pub missing_buffers: usize,
    /// What ended it before it was told to.
    pub failure: Option<runtime::Error>,
}

/// A host that runs, on the first pair of queues of a port. It ends when it is dropped.
pub struct Node {
    running: Option<Running>,
    /// Behind the threads in the order of being dropped, which use its queues.
    port: Option<Box<dyn Port>>,
    report: Report,
}

impl Node {
    /// Starts a host on a port that was opened with `opened`, in the memory `dma`.
    ///
    /// # Errors
    /// When the port's queues are taken, and what a thread needs cannot be had.
    pub fn start(
        mut port: Box<dyn Port>,
        opened: &port::Options,
        dma: &Dma,
        setup: &Setup,
        service: Box<dyn Service>,
    ) -> Result<Node, Error> {
        let (Some(rx), Some(tx)) = (port.rx_queue(0), port.tx_queue(0)) else {
            return Err(Error::NoQueues(port.name().to_owned()));
        };
        let Setup { v4, v6, gateways, .. } = *setup;
        let addresses = Addresses { mac: MacAddress(port.mac()), v4, v6, gateways };
        // The standard library's hasher has a random key.
        let random = RandomState::new();
        let can = port.capabilities();
        let longest = can.max_frame.saturating_sub(ethernet::HEADER_LEN);
        let options = tcp::Options {
            key: [random.hash_one(1), random.hash_one(2)],
            offload: Offload::from(&can),
            mtu: setup.options.mtu.min(u16::try_from(longest).unwrap_or(u16::MAX)),
            ..setup.options
        };
        let mut host = Host::new((rx, tx), addresses, &Neighbors::default(), options, service, setup.buffers);
        setup.listen.iter().for_each(|port| host.stack().listen(*port));
        let report = Report::default();
        host.report_to(&report);
        let options = runtime::Options {
            name: "node",
            threads: 1,
            cores: setup.core.into_iter().collect(),
            sleep: setup.sleeps.then_some(SLEEP),
            batch: 64,
            rx_ring: opened.rx_ring,
            tx_ring: opened.tx_ring,
            max_frame: opened.max_frame,
            count: None,
        };
        let runtime = Runtime::new(dma, vec![Box::new(host)], &options, &Arc::default(), &Arc::default())?;
        let running = runtime.start(|| Ok(port.start()?));
        Ok(Node { running: Some(running), port: Some(port), report })
    }

    /// Whether its thread runs: it ends early when the application panics.
    pub fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_running)
    }

    /// Ends it, and closes the port.
    pub fn end(mut self) -> Ended {
        let finished = self.running.take().map(Running::end);
        self.port = None;
        let counters = std::mem::take(&mut *self.report.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(mut finished) = finished else {
            return Ended { counters, missing_buffers: 0, failure: None };
        };
        Ended { counters, missing_buffers: finished.missing_buffers(), failure: finished.failure.take() }
    }
}

impl Drop for Node {
    /// Waits for the thread.
    fn drop(&mut self) {
        self.running.take().map(Running::end);
    }
}
