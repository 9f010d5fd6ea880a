//! The ports of a router, shared by the elements that receive and send on them.
//!
//! Elements say what they want while they are made; when it is known which threads
//! reach them, each port is opened with a receive queue for each thread that
//! receives, and a transmit queue for each that sends. Where a port has fewer,
//! threads share one behind a lock (*Fast Userspace Packet Processing*, 5.5, 5.6).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::plan::Planned;
use port::{Port, RxQueue, TxQueue};

/// What an opener is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The port's name, as the configuration has it.
    pub name: String,
    /// Queues for each direction.
    pub queues: usize,
    /// Receive what is addressed to others as well.
    pub promiscuous: bool,
}

/// Opens ports, all at once.
pub type Opener = Box<dyn FnMut(&[Wanted]) -> Result<Vec<Box<dyn Port>>, String> + Send>;

/// A transmit queue: its thread's own, or shared.
pub type Transmit = Arc<Mutex<Box<dyn TxQueue>>>;

/// The ports of a router.
pub struct Outlets(Mutex<State>);

struct State {
    opener: Opener,
    outlets: Vec<Outlet>,
}

struct Outlet {
    name: String,
    promiscuous: bool,
    /// The element that receives from it.
    receiver: Option<usize>,
    /// The elements that send on it.
    senders: Vec<usize>,
    /// The threads that receive, and those that send, a bit for each.
    receiving: u64,
    sending: u64,
    port: Option<Box<dyn Port>>,
    rx: Vec<Option<Box<dyn RxQueue>>>,
    tx: Vec<Transmit>,
}

impl Outlets {
    /// Ports that `opener` opens.
    pub fn new(opener: Opener) -> Outlets {
        Outlets(Mutex::new(State { opener, outlets: vec![] }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An element wants to receive from a port.
    ///
    /// # Errors
    /// When another one does.
    pub fn receive(&self, name: &str, element: usize, promiscuous: bool) -> Result<(), String> {
        let mut state = self.state();
        let outlet = state.outlet(name);
        if outlet.receiver.is_some() {
            return Err(format!("{name} has a FromDevice already; put a Tee behind that one"));
        }
        (outlet.receiver, outlet.promiscuous) = (Some(element), promiscuous);
        Ok(())
    }

    /// An element wants to send on a port.
    pub fn send(&self, name: &str, element: usize) {
        self.state().outlet(name).senders.push(element);
    }

    /// The threads that receive for an element: the router's, shared out among the
    /// ports that are received from.
    pub fn homes(&self, element: usize, threads: usize) -> u64 {
        let state = self.state();
        let receivers = state.outlets.iter().filter_map(|o| o.receiver);
        let place = receivers.clone().position(|r| r == element).unwrap_or(0);
        let count = receivers.count().max(1);
        if threads <= count {
            return 1 << (place % threads.max(1));
        }
        (0..threads).filter(|t| t % count == place).fold(0, |mask, t| mask | 1 << t)
    }

    /// Opens all ports.
    ///
    /// # Errors
    /// What the opener says.
    pub fn open(&self, elements: &[Planned]) -> Result<(), String> {
        let mut state = self.state();
        let state = &mut *state;
        for outlet in &mut state.outlets {
            let lanes = |elements: &[Planned], i: usize| elements[i].lanes;
            outlet.receiving = outlet.receiver.map_or(0, |i| lanes(elements, i));
            outlet.sending = outlet.senders.iter().fold(0, |mask, &i| mask | lanes(elements, i));
        }
        let wanted: Vec<Wanted> = state.outlets.iter().map(Outlet::wanted).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let ports = (state.opener)(&wanted)?;
        for (outlet, mut port) in state.outlets.iter_mut().zip(ports) {
            let capabilities = port.capabilities();
            outlet.rx = (0..capabilities.rx_queues).map(|q| port.rx_queue(q)).collect();
            let queues = (0..capabilities.tx_queues).filter_map(|q| port.tx_queue(q));
            outlet.tx = queues.map(|queue| Arc::new(Mutex::new(queue))).collect();
            outlet.port = Some(port);
        }
        Ok(())
    }

    /// The receive queues of a thread: each belongs to one. More queues than threads
    /// are shared out among them.
    pub fn rx(&self, name: &str, lane: usize) -> Vec<Box<dyn RxQueue>> {
        let mut state = self.state();
        let outlet = state.outlet(name);
        let threads = outlet.receiving.count_ones() as usize;
        let place = place(outlet.receiving, lane);
        let mine = outlet.rx.iter_mut().enumerate().filter(|(q, _)| q % threads.max(1) == place);
        mine.filter_map(|(_, queue)| queue.take()).collect()
    }

    /// The transmit queue of a thread, and whether another thread sends on it too.
    pub fn tx(&self, name: &str, lane: usize) -> Option<(Transmit, bool)> {
        let mut state = self.state();
        let outlet = state.outlet(name);
        let queues = outlet.tx.len();
        let place = place(outlet.sending, lane);
        let queue = outlet.tx.get(place % queues.max(1))?.clone();
        Some((queue, (outlet.sending.count_ones() as usize) > queues))
    }

    /// Lends a port to `work`, when it is open.
    pub fn with_port<R>(&self, name: &str, work: impl FnOnce(&mut dyn Port) -> R) -> Option<R> {
        let mut state = self.state();
        let port = state.outlet(name).port.as_mut()?;
        Some(work(&mut **port))
    }

    /// All counters of a port, one a line.
    pub fn counters(&self, name: &str) -> Option<String> {
        let lines = |port: &mut dyn Port| {
            port.stats().counters.iter().map(|c| format!("{}: {}\n", c.name, c.value)).collect()
        };
        self.with_port(name, lines)
    }
}

impl Outlet {
    fn wanted(&self) -> Wanted {
        let queues = self.receiving.count_ones().max(self.sending.count_ones()).max(1) as usize;
        Wanted { name: self.name.clone(), queues, promiscuous: self.promiscuous }
    }
}

impl State {
    fn outlet(&mut self, name: &str) -> &mut Outlet {
        let place = self.outlets.iter().position(|o| o.name == name).unwrap_or_else(|| {
            self.outlets.push(Outlet {
                name: name.to_string(),
                promiscuous: true,
                receiver: None,
                senders: vec![],
                receiving: 0,
                sending: 0,
                port: None,
                rx: vec![],
                tx: vec![],
            });
            self.outlets.len() - 1
        });
        &mut self.outlets[place]
    }
}

/// Which of the threads in a mask one is.
fn place(mask: u64, lane: usize) -> usize {
    (mask & ((1 << lane) - 1)).count_ones() as usize
}
