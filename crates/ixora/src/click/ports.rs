//! The ports a configuration names, opened when it is known how many queues they
//! need; kept by the configuration that takes its place.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use element::io::router_ports::{OpenPorts, Opener, RouterPorts, Topology, Wanted};
use graph::{Predecessor, Router};
use memory::{Backing, Dma};
use port::Port;
use ports::Name;
use runtime::confine::Needs;

use super::Click;
use crate::Failure;
use crate::janitor::CleanUp;
use crate::open::{self, Linter, PortFindings, Ports};

/// The most queues that RSS spreads flows over on any device of ours.
const RSS_QUEUES: usize = 16;

/// The linters of the models that a router's ports are. Clones share the list: it
/// can be read when the ports are closed.
#[derive(Clone, Default)]
pub struct Linters(Arc<Mutex<Vec<Linter>>>);

impl Linters {
    /// What they found.
    pub fn findings(&self) -> Vec<PortFindings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Linter::findings).collect()
    }
}

/// What routers that follow one another share: the packets' memory and open ports.
#[derive(Clone)]
pub struct RouterResources {
    /// The packets' memory.
    pub dma: Dma,
    open_ports: Arc<OpenPorts>,
    kept: Kept,
    given_up: Arc<OnceLock<GivenUp>>,
    running: Arc<Mutex<Option<Arc<Predecessor>>>>,
}

/// What the process that the routers run in gave up, beside what is never asked for later.
#[derive(Clone, Copy, Debug)]
pub struct GivenUp {
    /// Starting programs; privileges always.
    pub programs: bool,
    /// Being root: it is this user now.
    pub user: Option<u32>,
}

/// What comes with open ports and must stay as long as they do.
type Kept = Arc<Mutex<Vec<Ports>>>;

impl RouterResources {
    /// For the first of them.
    pub fn new(click: &Click, flat: &graph::lang::Flat, linters: &Linters) -> RouterResources {
        // The memory outlives the configuration: a later one may have devices.
        let devices = click.allow_reconfigure || flat.elements.iter().any(|e| e.class.contains("Device"));
        let backing = if devices { Backing::Auto } else { Backing::Memfd };
        let dma = Dma::new(memory::Options { backing, ..Default::default() });
        let kept = Kept::default();
        let open_ports = Arc::new(OpenPorts::new(click.port_options(), opener(&dma, linters, &kept)));
        RouterResources { dma, open_ports, kept, given_up: Arc::default(), running: Arc::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Ports>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What must be put in order after the ports when the process has ended.
    pub fn clean_up(&self) -> CleanUp {
        let mut all = CleanUp::default();
        for ports in self.kept().iter() {
            all.sockets.extend_from_slice(&ports.clean_up().sockets);
            all.devices.extend_from_slice(&ports.clean_up().devices);
        }
        all
    }

    /// Adds what the ports need while they are used.
    pub fn add_needs(&self, needs: &mut Needs) {
        self.kept().iter().for_each(|ports| ports.add_needs(needs));
    }

    /// Does something while no thread steps models.
    pub fn with_models_paused<R>(&self, work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        let mut kept = self.kept();
        kept.iter_mut().for_each(Ports::pause);
        let done = work()?;
        kept.iter_mut().try_for_each(Ports::resume)?;
        Ok(done)
    }

    /// The ports receive: sources of models' wires begin that waited for it.
    pub fn start_sources(&self) {
        self.kept().iter().for_each(Ports::start_sources);
    }

    /// This router runs from now on.
    pub fn set_running(&self, router: &Router) {
        let running = Arc::new(Predecessor(Arc::downgrade(&router.shared().plan)));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
    }

    /// The router that runs, for one that is to take its place.
    pub fn running(&self) -> Option<Arc<Predecessor>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This is given up from now on; said once.
    pub fn set_given_up(&self, what: GivenUp) {
        let _ = self.given_up.set(what);
    }

    /// What was given up; `None` if nothing was.
    pub fn given_up(&self) -> Option<GivenUp> {
        self.given_up.get().copied()
    }

    /// The ports of one of them.
    pub fn router_ports(&self, click: &Click) -> Arc<RouterPorts> {
        Arc::new(RouterPorts::of(self.open_ports.clone(), topology(click)))
    }
}

/// Where a router's threads and ports are.
pub fn topology(click: &Click) -> Topology {
    let threads = click.cores().into_iter().map(node_of_core).collect();
    Topology { threads, port: Some(node_of_port) }
}

/// Opens ports by their names, as all of ixora's commands do. What keeps them alive,
/// the models behind some of them and what must be tidied up after others, stays as
/// long as the opener.
fn opener(dma: &Dma, linters: &Linters, kept: &Kept) -> Opener {
    let (dma, linters, kept) = (dma.clone(), linters.clone(), kept.clone());
    Box::new(move |wanted: &[Wanted]| open(&dma, &kept, &linters, wanted))
}

fn open(
    dma: &Dma,
    kept: &Mutex<Vec<Ports>>,
    linters: &Linters,
    wanted: &[Wanted],
) -> Result<Vec<Box<dyn Port>>, String> {
    let each: Vec<port::Options> = wanted.iter().map(options).collect();
    let each: Vec<(&str, &port::Options)> =
        wanted.iter().zip(&each).map(|(wanted, options)| (wanted.name.as_str(), options)).collect();
    let never = Arc::new(AtomicBool::new(false));
    let mut ports = open::ports_each(|_| dma.clone(), &each, &never).map_err(|failure| failure.said())?;
    linters.0.lock().unwrap_or_else(PoisonError::into_inner).extend(ports.linters());
    let list = std::mem::take(&mut ports.list);
    kept.lock().unwrap_or_else(PoisonError::into_inner).push(ports);
    Ok(list)
}

/// With as many queues as are wanted, if the port can have them.
fn options(wanted: &Wanted) -> port::Options {
    let queues = queues(wanted);
    port::Options { rx_queues: queues, tx_queues: queues, ..wanted.options.clone() }
}

/// How many queues a port is opened with: as many as are wanted, if it can have them.
pub fn queues(wanted: &Wanted) -> usize {
    let name = wanted.name.parse::<Name>().ok();
    let most = name.and_then(|name| name.most_queues()).unwrap_or(RSS_QUEUES);
    wanted.options.rx_queues.min(most)
}

/// The NUMA node of a core.
pub fn node_of_core(core: usize) -> Option<usize> {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
}

/// The NUMA node of a port: of a device by its address, of an interface by its name.
fn node_of_port(name: &str) -> Option<usize> {
    let file = match name.parse::<Name>().ok()? {
        Name::Interface(_, interface) => {
            let interface = interface.split(',').next().unwrap_or(&interface);
            format!("/sys/class/net/{interface}/device/numa_node")
        }
        Name::Pci(address, _) => format!("/sys/bus/pci/devices/{address}/numa_node"),
        _ => return None,
    };
    std::fs::read_to_string(file).ok()?.trim().parse().ok() // -1 where there is but one
}
