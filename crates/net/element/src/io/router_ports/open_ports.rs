//! Open ports, whichever router uses them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use port::{Link, Options, Port, PortStats, RxQueue, RxStats, TxStats};

use super::settings::{self, AllSaid};
use super::{Opener, Transmit, Wanted};

/// Ports that are open, and how more of them are opened. Routers that follow one
/// another share one.
pub struct OpenPorts {
    /// What ports are opened with, where the elements say nothing else.
    usual: Options,
    state: Mutex<State>,
}

struct State {
    open: Vec<Open>,
    /// Dropped after the ports, which may need what it keeps.
    opener: Opener,
}

/// An open port.
struct Open {
    name: String,
    /// What it was opened with, but for promiscuous mode, which is as it is now.
    options: Options,
    /// How many routers use it: two while one takes over from the other.
    users: usize,
    /// Those that nobody has; dropped before the port.
    rx: Vec<Option<Box<dyn RxQueue>>>,
    /// What each of them counted when it was looked at last.
    rx_stats: Vec<RxStats>,
    tx: Vec<Transmit>,
    port: Box<dyn Port>,
}

/// What a port counted since it was opened.
#[derive(Debug, Clone)]
pub struct PortCounts {
    /// The port's name.
    pub name: String,
    /// What drives it.
    pub driver: String,
    /// Its own address.
    pub mac: [u8; 6],
    /// Its link.
    pub link: Link,
    /// Its receive queues.
    pub rx: Vec<RxStats>,
    /// Its transmit queues.
    pub tx: Vec<TxStats>,
    /// The device, the driver and whoever stands between them.
    pub stats: PortStats,
}

impl OpenPorts {
    /// No port is open yet. They are opened with the `usual` options where elements
    /// say nothing else.
    pub fn new(usual: Options, opener: Opener) -> OpenPorts {
        OpenPorts { usual, state: Mutex::new(State { open: vec![], opener }) }
    }

    pub(super) fn usual(&self) -> &Options {
        &self.usual
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens those that are not open; how many queues of either kind each has.
    ///
    /// # Errors
    /// What the opener says; an option that a port does not have, or that an open port
    /// has otherwise. Nothing has changed then.
    pub(super) fn open(&self, wanted: &[Wanted], said: &[&AllSaid]) -> Result<Vec<(usize, usize)>, String> {
        let mut state = self.state();
        let state = &mut *state;
        let found = |w: &Wanted| state.open.iter().find(|o| o.name == w.name);
        for (wanted, open) in wanted.iter().filter_map(|w| Some((w, found(w)?))) {
            settings::check_open(&wanted.name, &open.options, &wanted.options)?;
        }
        let missing: Vec<Wanted> = wanted.iter().filter(|w| found(w).is_none()).cloned().collect();
        if !missing.is_empty() {
            let ports = (state.opener)(&missing)?;
            state.open.extend(missing.iter().zip(ports).map(|(wanted, port)| Open::new(wanted, port)));
        }
        let can = |w: &Wanted| state.open.iter().find(|o| o.name == w.name).map(|o| o.port.capabilities());
        let mut checks =
            wanted.iter().zip(said).map(|(w, said)| can(w).map_or(Ok(()), |can| said.check(&w.name, &can)));
        if let Err(error) = checks.try_for_each(|check| check) {
            state.open.retain(|open| open.users > 0);
            return Err(error);
        }
        let mut count = |wanted: &Wanted| {
            let open = state.open.iter_mut().find(|o| o.name == wanted.name)?;
            open.users += 1;
            Some((open.rx.len(), open.tx.len()))
        };
        Ok(wanted.iter().map(|w| count(w).unwrap_or_default()).collect())
    }

    /// A router no longer uses these ports; those that none uses are closed.
    pub(super) fn leave<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut state = self.state();
        for name in names {
            if let Some(open) = state.open.iter_mut().find(|o| o.name == name) {
                open.users = open.users.saturating_sub(1);
            }
        }
        state.open.retain(|open| open.users > 0);
    }

    /// Takes receive queues by number, those that are there, and receives what they
    /// should.
    pub(super) fn take_rx(
        &self,
        name: &str,
        numbers: &[usize],
        promiscuous: bool,
    ) -> Vec<(usize, Box<dyn RxQueue>)> {
        let mut state = self.state();
        let Some(open) = state.open.iter_mut().find(|o| o.name == name) else { return vec![] };
        if open.options.promiscuous != promiscuous {
            open.options.promiscuous = promiscuous;
            // A port that cannot be told goes on as it was opened.
            let _ = open.port.set_promiscuous(promiscuous);
        }
        let take = |&number: &usize| Some((number, open.rx.get_mut(number)?.take()?));
        numbers.iter().filter_map(take).collect()
    }

    pub(super) fn give_back(&self, name: &str, number: usize, rx: Box<dyn RxQueue>) {
        let mut state = self.state();
        let open = state.open.iter_mut().find(|o| o.name == name);
        if let Some(place) = open.and_then(|o| o.rx.get_mut(number)) {
            *place = Some(rx);
        }
    }

    pub(super) fn publish(&self, name: &str, number: usize, stats: RxStats) {
        let mut state = self.state();
        let open = state.open.iter_mut().find(|o| o.name == name);
        if let Some(place) = open.and_then(|o| o.rx_stats.get_mut(number)) {
            *place = stats;
        }
    }

    pub(super) fn counts(&self) -> Vec<PortCounts> {
        self.state().open.iter_mut().map(Open::counts).collect()
    }

    pub(super) fn tx(&self, name: &str, number: usize) -> Option<Transmit> {
        self.state().open.iter().find(|o| o.name == name)?.tx.get(number).cloned()
    }

    /// The error of a port whose device is lost. While ports are opened, which takes
    /// its time, nobody waits here: none is known.
    pub(super) fn lost(&self) -> Option<port::Error> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        state.open.iter().find_map(|open| open.port.health().err())
    }

    pub(super) fn with_port<R>(&self, name: &str, work: impl FnOnce(&mut dyn Port) -> R) -> Option<R> {
        let mut state = self.state();
        let open = state.open.iter_mut().find(|o| o.name == name)?;
        Some(work(&mut *open.port))
    }
}

impl Open {
    fn new(wanted: &Wanted, mut port: Box<dyn Port>) -> Open {
        let capabilities = port.capabilities();
        let rx = (0..capabilities.rx_queues).map(|q| port.rx_queue(q)).collect();
        let rx_stats = vec![RxStats::default(); capabilities.rx_queues];
        let tx = (0..capabilities.tx_queues).filter_map(|q| port.tx_queue(q));
        let tx = tx.map(|queue| Arc::new(Mutex::new(queue))).collect();
        let (name, options) = (wanted.name.clone(), wanted.options.clone());
        Open { name, options, users: 0, rx, rx_stats, tx, port }
    }

    fn counts(&mut self) -> PortCounts {
        for (queue, stats) in self.rx.iter().zip(&mut self.rx_stats) {
            if let Some(queue) = queue {
                *stats = queue.stats();
            }
        }
        let tx = |queue: &Transmit| queue.lock().unwrap_or_else(PoisonError::into_inner).stats();
        PortCounts {
            name: self.name.clone(),
            driver: self.port.capabilities().driver,
            mac: self.port.mac(),
            link: self.port.link(),
            rx: self.rx_stats.clone(),
            tx: self.tx.iter().map(tx).collect(),
            stats: self.port.stats(),
        }
    }
}
