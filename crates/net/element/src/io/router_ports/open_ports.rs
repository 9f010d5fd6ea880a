//! Open ports, whichever router uses them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use port::{Link, Options, Port, PortStats, RxQueue, RxStats, TxStats};

use super::settings::{self, AllSaid};
use super::{Opener, Transmit, Wanted};

/// Ports that are open, and how more of them are opened. Routers that follow one
/// another share one.
pub struct OpenPorts {
    /// What ports are opened with, where the elements say nothing else.
    usual: Options,
    open: Mutex<Vec<Open>>,
    /// What receive queues counted, as the threads that have them told. Nothing else is done
    /// while this lock is held: packet threads take it.
    published: Mutex<Vec<Published>>,
    /// Held while ports are opened, which may take seconds; nobody else takes it. Dropped
    /// after the ports, which may need what it keeps.
    opener: Mutex<Opener>,
}

/// What the receive queues of a port counted when they were looked at last.
struct Published {
    port: String,
    rx: Vec<RxStats>,
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
    /// Whether the port has a link, and its speed.
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
        let (open, published) = (Mutex::default(), Mutex::default());
        OpenPorts { usual, open, published, opener: Mutex::new(opener) }
    }

    pub(super) fn usual(&self) -> &Options {
        &self.usual
    }

    fn ports(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn published(&self) -> MutexGuard<'_, Vec<Published>> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens those that are not open; how many queues of either kind each has. Those that
    /// are open go on meanwhile: nobody who uses them waits for the opener.
    ///
    /// # Errors
    /// What the opener says; an option that a port does not have, or that an open port
    /// has otherwise. Nothing has changed then.
    pub(super) fn open(&self, wanted: &[Wanted], said: &[&AllSaid]) -> Result<Vec<(usize, usize)>, String> {
        let mut opener = self.opener.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = self.join(wanted)?;
        let opened = if missing.is_empty() { Ok(vec![]) } else { opener(&missing) };
        let new = opened
            .map(|ports| missing.iter().zip(ports).map(|(wanted, port)| Open::new(wanted, port)).collect());
        let checked = new.and_then(|new: Vec<Open>| self.add(new, wanted, said));
        // Those that the opener did not open are not there, and are passed over.
        checked.inspect_err(|_| self.leave(wanted.iter().map(|w| w.name.as_str())))
    }

    /// One router more uses those of the wanted ports that are open, so that they stay open;
    /// the others.
    fn join(&self, wanted: &[Wanted]) -> Result<Vec<Wanted>, String> {
        let mut open = self.ports();
        for wanted in wanted {
            if let Some(open) = open.iter().find(|o| o.name == wanted.name) {
                settings::check_open(&wanted.name, &open.options, &wanted.options)?;
            }
        }
        let mut missing = vec![];
        for wanted in wanted {
            match open.iter_mut().find(|o| o.name == wanted.name) {
                Some(open) => open.users += 1,
                None => missing.push(wanted.clone()),
            }
        }
        Ok(missing)
    }

    /// Adds ports that were opened; how many queues of either kind each wanted one has.
    fn add(
        &self,
        new: Vec<Open>,
        wanted: &[Wanted],
        said: &[&AllSaid],
    ) -> Result<Vec<(usize, usize)>, String> {
        let published =
            |open: &Open| Published { port: open.name.clone(), rx: vec![RxStats::default(); open.rx.len()] };
        self.published().extend(new.iter().map(published));
        let mut open = self.ports();
        open.extend(new);
        let find = |wanted: &Wanted| open.iter().find(|o| o.name == wanted.name);
        for (open, said) in wanted.iter().zip(said).filter_map(|(w, said)| Some((find(w)?, said))) {
            said.check(&open.name, &open.port.capabilities())?;
        }
        let count = |wanted| find(wanted).map_or((0, 0), |open| (open.rx.len(), open.tx.len()));
        Ok(wanted.iter().map(count).collect())
    }

    /// The descriptors of the largest ring that a port can have; none of one that has no rings.
    pub(super) fn largest_ring(&self, name: &str) -> usize {
        let ports = self.ports();
        let open = ports.iter().find(|open| open.name == name);
        open.map_or(0, |open| open.port.capabilities().limits.ring.1)
    }

    /// A router no longer uses these ports; those that none uses are closed.
    pub(super) fn leave<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut ports = self.ports();
        for name in names {
            if let Some(open) = ports.iter_mut().find(|o| o.name == name) {
                open.users = open.users.saturating_sub(1);
            }
        }
        ports.retain(|open| open.users > 0);
        self.published().retain(|published| ports.iter().any(|open| open.name == published.port));
    }

    /// Takes receive queues by number, those that are there, and receives what they
    /// should.
    pub(super) fn take_rx(
        &self,
        name: &str,
        numbers: &[usize],
        promiscuous: bool,
    ) -> Vec<(usize, Box<dyn RxQueue>)> {
        let mut ports = self.ports();
        let Some(open) = ports.iter_mut().find(|o| o.name == name) else { return vec![] };
        if open.options.promiscuous != promiscuous {
            open.options.promiscuous = promiscuous;
            // A port that cannot be told goes on as it was opened.
            let _ = open.port.set_promiscuous(promiscuous);
        }
        let take = |&number: &usize| Some((number, open.rx.get_mut(number)?.take()?));
        numbers.iter().filter_map(take).collect()
    }

    pub(super) fn give_back(&self, name: &str, number: usize, rx: Box<dyn RxQueue>) {
        let mut ports = self.ports();
        let open = ports.iter_mut().find(|o| o.name == name);
        if let Some(place) = open.and_then(|o| o.rx.get_mut(number)) {
            *place = Some(rx);
        }
    }

    pub(super) fn publish(&self, name: &str, number: usize, stats: RxStats) {
        let mut published = self.published();
        let port = published.iter_mut().find(|p| p.port == name);
        if let Some(place) = port.and_then(|p| p.rx.get_mut(number)) {
            *place = stats;
        }
    }

    pub(super) fn counts(&self) -> Vec<PortCounts> {
        let counts = |open: &mut Open| {
            for (number, queue) in open.rx.iter().enumerate() {
                if let Some(queue) = queue {
                    self.publish(&open.name, number, queue.stats());
                }
            }
            let rx = self.published().iter().find(|p| p.port == open.name).map(|p| p.rx.clone());
            open.counts(rx.unwrap_or_default())
        };
        self.ports().iter_mut().map(counts).collect()
    }

    pub(super) fn tx(&self, name: &str, number: usize) -> Option<Transmit> {
        self.ports().iter().find(|o| o.name == name)?.tx.get(number).cloned()
    }

    /// Has the ports receive that do not yet; the others go on.
    pub(super) fn start(&self) -> port::Result<()> {
        self.ports().iter_mut().try_for_each(|open| open.port.start())
    }

    /// The error of a port whose device is lost.
    pub(super) fn lost(&self) -> Option<port::Error> {
        self.ports().iter().find_map(|open| open.port.health().err())
    }

    pub(super) fn with_port<R>(&self, name: &str, work: impl FnOnce(&mut dyn Port) -> R) -> Option<R> {
        let mut ports = self.ports();
        let open = ports.iter_mut().find(|o| o.name == name)?;
        Some(work(&mut *open.port))
    }
}

impl Open {
    fn new(wanted: &Wanted, mut port: Box<dyn Port>) -> Open {
        let capabilities = port.capabilities();
        let rx = (0..capabilities.rx_queues).map(|q| port.rx_queue(q)).collect();
        let tx = (0..capabilities.tx_queues).filter_map(|q| port.tx_queue(q));
        let tx = tx.map(|queue| Arc::new(Mutex::new(queue))).collect();
        let (name, options) = (wanted.name.clone(), wanted.options.clone());
        Open { name, options, users: 1, rx, tx, port }
    }

    fn counts(&mut self, rx: Vec<RxStats>) -> PortCounts {
        let tx = |queue: &Transmit| queue.lock().unwrap_or_else(PoisonError::into_inner).stats();
        PortCounts {
            name: self.name.clone(),
            driver: self.port.capabilities().driver,
            mac: self.port.mac(),
            link: self.port.link(),
            rx,
            tx: self.tx.iter().map(tx).collect(),
            stats: self.port.stats(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use port::{Batch, Capabilities, Pool};

    use super::*;

    /// How long anything may take.
    const LIMIT: Duration = Duration::from_secs(60);

    /// A port with a receive queue to which nothing comes.
    struct Silent;

    impl Port for Silent {
        fn name(&self) -> &str {
            "silent"
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { rx_queues: 1, ..Capabilities::default() }
        }

        fn mac(&self) -> [u8; 6] {
            [2, 0, 0, 0, 0, 1]
        }

        fn link(&self) -> Link {
            Link::DOWN
        }

        fn stats(&mut self) -> PortStats {
            PortStats::default()
        }

        fn rx_queue(&mut self, _: usize) -> Option<Box<dyn RxQueue>> {
            Some(Box::new(Silent))
        }

        fn tx_queue(&mut self, _: usize) -> Option<Box<dyn port::TxQueue>> {
            None
        }

        fn set_promiscuous(&mut self, _: bool) -> port::Result<()> {
            Ok(())
        }

        fn stop(&mut self) -> port::Result<()> {
            Ok(())
        }
    }

    impl RxQueue for Silent {
        fn recv(&mut self, _: &mut Pool, _: &mut Batch) -> usize {
            0
        }

        fn stats(&self) -> RxStats {
            RxStats { packets: 3, ..RxStats::default() }
        }
    }

    fn wanted(names: &[&str]) -> Vec<Wanted> {
        names.iter().map(|&name| Wanted { name: name.into(), options: Options::default() }).collect()
    }

    fn said(count: usize) -> Vec<AllSaid> {
        (0..count).map(|_| AllSaid::default()).collect()
    }

    /// Opens ports; one that is called `slow` when `go` tells it, `wrong` never.
    fn opener(begun: mpsc::Sender<()>, go: mpsc::Receiver<()>) -> Opener {
        Box::new(move |wanted| {
            if wanted.iter().any(|w| w.name == "wrong") {
                return Err("no such port".into());
            }
            if wanted.iter().any(|w| w.name == "slow") {
                begun.send(()).expect("the test waits");
                go.recv_timeout(LIMIT).expect("the test goes on");
            }
            Ok(wanted.iter().map(|_| Box::new(Silent) as Box<dyn Port>).collect())
        })
    }

    fn open(ports: &OpenPorts, names: &[&str]) -> Result<Vec<(usize, usize)>, String> {
        ports.open(&wanted(names), &said(names.len()).iter().collect::<Vec<_>>())
    }

    #[test]
    fn figures_do_not_wait_for_a_port_that_is_being_opened() {
        let ((begun, begins), (go, goes)) = (mpsc::channel(), mpsc::channel());
        let ports = Arc::new(OpenPorts::new(Options::default(), opener(begun, goes)));
        assert_eq!(open(&ports, &["quick"]), Ok(vec![(1, 0)]));
        let queue = ports.take_rx("quick", &[0], true);
        let (opens, counts) = (ports.clone(), ports.clone());
        let slow = std::thread::spawn(move || open(&opens, &["quick", "slow"]));
        begins.recv_timeout(LIMIT).expect("the second opening begins");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            counts.publish("quick", 0, RxStats { packets: 7, ..RxStats::default() });
            counts.leave(["quick"].into_iter());
            let _ = tell.send((counts.counts(), counts.lost()));
        });
        let (counted, lost) = told.recv_timeout(LIMIT / 4).expect("figures while a port is opened");
        assert_eq!((counted.len(), counted[0].rx[0].packets), (1, 7), "and it stays open");
        assert!(lost.is_none());
        go.send(()).expect("the opener waits");
        assert_eq!(slow.join().expect("no panic"), Ok(vec![(1, 0), (1, 0)]));
        ports.give_back("quick", 0, queue.into_iter().next().expect("the queue").1);
        assert_eq!(ports.counts()[0].rx[0].packets, 3, "a queue that nobody has is asked");
    }

    #[test]
    fn an_opening_that_fails_changes_nothing() {
        let ((begun, _begins), (_go, goes)) = (mpsc::channel(), mpsc::channel());
        let ports = OpenPorts::new(Options::default(), opener(begun, goes));
        open(&ports, &["quick"]).expect("opened");
        assert_eq!(open(&ports, &["quick", "wrong"]), Err("no such port".into()));
        assert_eq!(ports.counts().len(), 1);
        ports.leave(["quick"].into_iter());
        assert!(ports.counts().is_empty() && ports.published().is_empty(), "one router used it");
    }
}
