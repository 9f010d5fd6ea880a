//! The ports of a router, shared by the elements that receive and send on them.
//!
//! Elements say what they want while they are made; when it is known which threads
//! reach them, each port is opened with a receive queue for each thread that
//! receives, and a transmit queue for each that sends. Where a port has fewer,
//! threads share one behind a lock (*Fast Userspace Packet Processing*, 5.5, 5.6).
//!
//! A router that takes another one's place has [`RouterPorts`] of its own over the same
//! [`OpenPorts`]: ports that both name stay open, and their queues change hands.

mod assignment;
mod open_ports;
mod series;
pub(super) mod settings;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::lang::Problem;
use graph::plan::Planned;
use graph::run::shared::PortSeries;
use port::{Options, Port, RxQueue, RxStats, TxQueue};

use super::thread_assignment::{self, ThreadRequest};
pub use open_ports::{OpenPorts, PortCounts};
pub use series::exposition;
use settings::{AllSaid, Said};

/// What an opener is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The port's name, as the configuration has it.
    pub name: String,
    /// How it is opened; it may have fewer queues.
    pub options: Options,
}

/// Opens ports, all at once. What it says of one begins with the name of that.
pub type Opener = Box<dyn FnMut(&[Wanted]) -> Result<Vec<Box<dyn Port>>, String> + Send>;

/// A transmit queue: its thread's own, or shared.
pub type Transmit = Arc<Mutex<Box<dyn TxQueue>>>;

/// Where threads and ports are.
#[derive(Default)]
pub struct Topology {
    /// The node of each thread's core; `None` for one that is not bound.
    pub threads: Vec<Option<usize>>,
    /// The node of a port, by its name.
    pub port: Option<fn(&str) -> Option<usize>>,
}

/// What an element says of the queues it receives from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Receiving {
    /// From this queue on.
    pub queue: Option<usize>,
    /// So many queues.
    pub queues: Option<usize>,
    /// Others may receive from the port as well, from queues of theirs.
    pub shares: bool,
    /// Which threads are to receive, as the element's arguments say.
    pub request: ThreadRequest,
    /// Its port's node does not matter.
    pub anywhere: bool,
}

/// What an element says of the queues it sends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sending {
    /// From this queue on.
    pub queue: Option<usize>,
    /// So many queues.
    pub queues: Option<usize>,
}

/// A queue in use: which thread, for which element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The port's name.
    pub port: String,
    /// Packets come from it; else they go out.
    pub receives: bool,
    /// The queue's number.
    pub queue: usize,
    /// The element's number.
    pub element: usize,
    /// The number of the router's thread that polls the queue.
    pub lane: usize,
    /// Another thread uses it too, and waits for it at times.
    pub shared: bool,
    /// The node of the port.
    pub node: Option<usize>,
}

/// The ports of a router.
pub struct RouterPorts {
    open_ports: Arc<OpenPorts>,
    topology: Topology,
    router_ports: Mutex<Vec<RouterPort>>,
}

#[derive(Debug)]
struct RouterPort {
    name: String,
    node: Option<usize>,
    receivers: Vec<Receiver>,
    senders: Vec<Sender>,
    /// What they say of its options.
    said: AllSaid,
    /// Which queue is for which element and thread.
    rx: Vec<assignment::Assigned>,
    tx: Vec<assignment::Assigned>,
    /// It is open, and this router uses it.
    uses: bool,
}

/// An element that receives.
#[derive(Debug)]
struct Receiver {
    element: usize,
    says: Receiving,
    lanes: u64,
}

/// An element that sends.
#[derive(Debug)]
struct Sender {
    element: usize,
    says: Sending,
    lanes: u64,
}

impl RouterPorts {
    /// Ports that `opener` opens, with the usual options.
    pub fn new(opener: Opener) -> RouterPorts {
        RouterPorts::of(Arc::new(OpenPorts::new(Options::default(), opener)), Topology::default())
    }

    /// A router's ports, over ports of which some may be open.
    pub fn of(open_ports: Arc<OpenPorts>, topology: Topology) -> RouterPorts {
        RouterPorts { open_ports, topology, router_ports: Mutex::default() }
    }

    fn router_ports(&self) -> MutexGuard<'_, Vec<RouterPort>> {
        self.router_ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends what is known of a port to `work`, which makes it known.
    fn router_port<R>(&self, name: &str, work: impl FnOnce(&mut RouterPort) -> R) -> R {
        let mut router_ports = self.router_ports();
        let place = router_ports.iter().position(|o| o.name == name).unwrap_or_else(|| {
            let node = self.topology.port.and_then(|node| node(name));
            router_ports.push(RouterPort::new(name, node));
            router_ports.len() - 1
        });
        work(&mut router_ports[place])
    }

    /// An element wants to receive from a port.
    ///
    /// # Errors
    /// When another one does, from the same queues.
    pub fn receive(&self, name: &str, element: usize, mut says: Receiving) -> Result<(), String> {
        self.router_port(name, |router_port| {
            for other in &router_port.receivers {
                let apart = says.queue.is_some() && other.says.queue.is_some();
                if !(apart || says.shares && other.says.shares) {
                    // Two words that are alike are one model, and not two.
                    let apart = match name.starts_with("model:") {
                        true => ", or give a second model another name (\"model:82599,wire=sink\")",
                        false => "",
                    };
                    return Err(format!("{name} has a FromDevice already; put a Tee behind that one{apart}"));
                }
                if apart && assignment::overlap(&says, &other.says) {
                    return Err(format!("another element receives from these queues of {name}"));
                }
            }
            says.request.node = router_port.node.filter(|_| !says.anywhere).or(says.request.node);
            router_port.receivers.push(Receiver { element, says, lanes: 0 });
            Ok(())
        })
    }

    /// An element wants to send on a port.
    pub fn send(&self, name: &str, element: usize, says: Sending) {
        self.router_port(name, |router_port| router_port.senders.push(Sender { element, says, lanes: 0 }));
    }

    /// An element says how a port is to be opened.
    ///
    /// # Errors
    /// When another one says something else.
    pub fn say(&self, name: &str, element: &str, said: &[Said]) -> Result<(), String> {
        self.router_port(name, |router_port| router_port.said.add(name, element, said))
    }

    /// The threads that receive for an element: the router's, shared out among the
    /// ports that are received from, but those that are `taken` for something else.
    pub fn homes(&self, element: usize, threads: usize, taken: u64) -> u64 {
        let router_ports = self.router_ports();
        let mut receivers: Vec<&Receiver> = router_ports.iter().flat_map(|o| &o.receivers).collect();
        receivers.sort_by_key(|receiver| receiver.element);
        let requests: Vec<ThreadRequest> = receivers.iter().map(|r| r.says.request).collect();
        let mut nodes = self.topology.threads.clone();
        nodes.resize(threads, None);
        let place = receivers.iter().position(|r| r.element == element);
        place
            .and_then(|place| thread_assignment::share(&requests, &nodes, taken).get(place).copied())
            .unwrap_or(1)
    }

    /// Opens the ports that are not open.
    ///
    /// # Errors
    /// What the opener says, at the element that named the port first; nothing has changed then.
    pub fn open(&self, elements: &[Planned]) -> Result<(), Box<Problem>> {
        let mut router_ports = self.router_ports();
        for router_port in router_ports.iter_mut() {
            router_port.receivers.iter_mut().for_each(|r| r.lanes = elements[r.element].lanes);
            router_port.senders.iter_mut().for_each(|s| s.lanes = elements[s.element].lanes);
        }
        let usual = self.open_ports.usual();
        let wanted: Vec<Wanted> = router_ports.iter().map(|router_port| router_port.wanted(usual)).collect();
        let said: Vec<&AllSaid> = router_ports.iter().map(|router_port| &router_port.said).collect();
        let opened = self.open_ports.open(&wanted, &said).map_err(|said| {
            let about = router_ports.iter().filter(|router_port| said.starts_with(&router_port.name));
            let about = about.max_by_key(|router_port| router_port.name.len());
            match about.and_then(RouterPort::first).and_then(|element| elements.get(element)) {
                Some(element) => Box::new(element.initializing(said)),
                None => Problem::of_ports(said),
            }
        })?;
        for (router_port, (rx, tx)) in router_ports.iter_mut().zip(opened) {
            router_port.rx = assignment::rx(&router_port.receivers, rx);
            router_port.tx = assignment::tx(&router_port.senders, tx);
            router_port.uses = true;
        }
        Ok(())
    }

    /// How many receive queues of a port an element has in a thread.
    pub fn rx_queues(&self, name: &str, element: usize, lane: usize) -> usize {
        self.router_port(name, |router_port| {
            router_port.rx.iter().filter(|hand| hand.is(element, lane)).count()
        })
    }

    /// How many of a router's packet buffers a receive ring of a port holds: none where packets are
    /// copied out of memory that the port has itself.
    pub fn rx_ring(&self, name: &str) -> usize {
        let ring = |router_port: &mut RouterPort| router_port.wanted(self.open_ports.usual()).options.rx_ring;
        self.router_port(name, ring).min(self.open_ports.largest_ring(name))
    }

    /// Takes the receive queues of an element in a thread; those that another router
    /// still has are not among them.
    pub fn rx(&self, name: &str, element: usize, lane: usize) -> Vec<(usize, Box<dyn RxQueue>)> {
        let (numbers, promiscuous): (Vec<usize>, bool) = self.router_port(name, |router_port| {
            let mine = router_port.rx.iter().filter(|hand| hand.is(element, lane)).map(|hand| hand.queue);
            (mine.collect(), router_port.wanted(self.open_ports.usual()).options.promiscuous)
        });
        self.open_ports.take_rx(name, &numbers, promiscuous)
    }

    /// Whether a port takes VLAN tags off what it receives.
    pub fn strips_vlan(&self, name: &str) -> bool {
        self.router_port(name, |router_port| router_port.wanted(self.open_ports.usual()).options.vlan_strip)
    }

    /// Gives a receive queue back: to the router that comes next.
    pub fn give_back(&self, name: &str, queue: usize, rx: Box<dyn RxQueue>) {
        self.open_ports.give_back(name, queue, rx);
    }

    /// The transmit queue of an element in a thread.
    pub fn tx(&self, name: &str, element: usize, lane: usize) -> Option<Transmit> {
        let queue = self.router_port(name, |router_port| {
            router_port.tx.iter().find(|hand| hand.is(element, lane)).copied()
        });
        self.open_ports.tx(name, queue?.queue)
    }

    /// Has ports receive that were opened to wait for buffers ([`Options::deferred_start`]): when the
    /// router has begun, with which each receive queue of its elements has them.
    ///
    /// # Errors
    /// What a port says that does not start.
    pub fn start(&self) -> port::Result<()> {
        self.open_ports.start()
    }

    /// Lends a port to `work`, when it is open.
    pub fn with_port<R>(&self, name: &str, work: impl FnOnce(&mut dyn Port) -> R) -> Option<R> {
        self.open_ports.with_port(name, work)
    }

    /// The error of a port whose device is lost: unplugged, or its server gone.
    pub fn lost(&self) -> Option<port::Error> {
        self.open_ports.lost()
    }

    /// All counters of a port, one a line.
    pub fn counters(&self, name: &str) -> Option<String> {
        let lines = |port: &mut dyn Port| {
            port.stats().counters.iter().map(|c| format!("{}: {}\n", c.name, c.value)).collect()
        };
        self.with_port(name, lines)
    }

    /// What a receive queue counted, which only the thread that has it can read.
    pub(super) fn publish(&self, name: &str, queue: usize, stats: RxStats) {
        self.open_ports.publish(name, queue, stats);
    }

    /// What the open ports counted, and their queues as far as they were published.
    pub fn counts(&self) -> Vec<PortCounts> {
        self.open_ports.counts()
    }

    /// The same for Prometheus.
    pub fn series(&self) -> PortSeries {
        let open_ports = self.open_ports.clone();
        Arc::new(move || exposition(&open_ports.counts()))
    }

    /// A port's queues and the threads that have them, one a line.
    pub fn queues_in_words(&self, name: &str) -> String {
        let line = |u: Use| {
            let (way, shared) =
                (if u.receives { "rx" } else { "tx" }, if u.shared { ", shared" } else { "" });
            format!("{way} {}: thread {}{shared}\n", u.queue, u.lane)
        };
        self.uses().into_iter().filter(|u| u.port == name).map(line).collect()
    }

    /// The ports that elements named, each with the element that did first, of those that
    /// receive or else of those that send.
    pub fn named(&self) -> Vec<(String, usize)> {
        let first = |router_port: &RouterPort| Some((router_port.name.clone(), router_port.first()?));
        self.router_ports().iter().filter_map(first).collect()
    }

    /// All queues in use, by port, those that receive first.
    pub fn uses(&self) -> Vec<Use> {
        let mut uses = vec![];
        for router_port in self.router_ports().iter() {
            for (receives, hands) in [(true, &router_port.rx), (false, &router_port.tx)] {
                uses.extend(hands.iter().map(|hand| Use {
                    port: router_port.name.clone(),
                    receives,
                    queue: hand.queue,
                    element: hand.element,
                    lane: hand.lane,
                    shared: hands.iter().any(|h| h.queue == hand.queue && h.lane != hand.lane),
                    node: router_port.node,
                }));
            }
        }
        uses
    }
}

impl RouterPort {
    fn new(name: &str, node: Option<usize>) -> RouterPort {
        RouterPort {
            name: name.to_owned(),
            node,
            receivers: vec![],
            senders: vec![],
            said: AllSaid::default(),
            rx: vec![],
            tx: vec![],
            uses: false,
        }
    }

    /// The usual options, with queues for all threads, as the elements change them.
    fn wanted(&self, usual: &Options) -> Wanted {
        let queues = assignment::rx_wanted(&self.receivers).max(assignment::tx_wanted(&self.senders)).max(1);
        let mut options = Options { rx_queues: queues, tx_queues: queues, ..usual.clone() };
        self.said.apply(&mut options, self.receivers.len());
        Wanted { name: self.name.clone(), options }
    }

    /// The element that named it first, of those that receive or else of those that send.
    fn first(&self) -> Option<usize> {
        let receiver = self.receivers.first().map(|receiver| receiver.element);
        receiver.or(self.senders.first().map(|sender| sender.element))
    }
}

impl Drop for RouterPorts {
    fn drop(&mut self) {
        let router_ports = std::mem::take(&mut *self.router_ports());
        self.open_ports.leave(router_ports.iter().filter(|o| o.uses).map(|o| o.name.as_str()));
    }
}
