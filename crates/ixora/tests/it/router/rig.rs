//! A router on models of the 82599 or of another NIC, one for each port `$P0`, `$P1`, …; and
//! the hosts at their cables.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use element::io::router_ports::{Opener, RouterPorts, Wanted};
use graph::lang::{self, Source};
use graph::{Console, Router, Services};
use memory::{Backing, Dma};
use testbed::inprocess::{self, Handle, InProcess};
use testbed::wire::{self, Cable, Plug};
use testbed::{Device, Idle, Stepper, ixgbe};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A configuration of the project.
pub fn conf(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A router and the models that it drives. Ports end before the models' thread.
pub struct Rig {
    pub router: Router,
    printed: Arc<Mutex<String>>,
    handles: Vec<Handle>,
    _stepper: Stepper,
}

/// Opens a model as a port, by a name that ends in its number.
fn opener(pcis: Vec<bus::Pci>, dma: &Dma) -> Opener {
    let (mut pcis, dma) = (pcis.into_iter().map(Some).collect::<Vec<_>>(), dma.clone());
    Box::new(move |wanted: &[Wanted]| {
        let open = |wanted: &Wanted| {
            let number: usize = wanted.name["test:".len()..].parse().expect("a number");
            let pci = pcis[number].take().expect("opened once");
            // Deep rings: a thread that has to wait for its core loses nothing.
            let options = port::Options { rx_ring: 4096, ..wanted.options.clone() };
            let port = ports::open(pci, &dma, options).map_err(|error| error.to_string())?;
            let end = Instant::now() + LIMIT;
            while !port.link().up {
                assert!(Instant::now() < end, "no link");
                thread::sleep(Duration::from_millis(1));
            }
            Ok(port)
        };
        wanted.iter().map(open).collect()
    })
}

impl Rig {
    /// A router of a configuration, with a wire for each port. The first ports of a
    /// configuration are `names`.
    pub fn new(config: &str, names: &[&str], threads: usize, wires: &[String]) -> Rig {
        let open = |mac, cable| ixgbe::open(&ixgbe::Options::with_mac(mac), cable);
        Rig::on(open, config, names, threads, wires)
    }

    /// On models that `open` makes, each with an address.
    pub fn on(
        open: impl Fn([u8; 6], Cable) -> std::io::Result<Device>,
        config: &str,
        names: &[&str],
        threads: usize,
        wires: &[String],
    ) -> Rig {
        let plug = |(n, wire): (usize, &String)| {
            let spec = wire.parse().unwrap_or_else(|error| panic!("{wire}: {error}"));
            Plug { spec, mac: ixgbe::mac(n as u8) }
        };
        let plugs: Vec<Plug> = wires.iter().enumerate().map(plug).collect();
        let cables = wire::plug(&plugs, &Arc::default()).expect("cables");
        let device = |(cable, plug): (_, &Plug)| InProcess::new(open(plug.mac, cable).expect("a device"));
        let (pcis, handles): (Vec<_>, Vec<_>) = cables.into_iter().zip(&plugs).map(device).unzip();
        let stepper = inprocess::spawn(&handles, None, Idle::Yield).expect("a thread");
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, ..Default::default() });
        let router_ports = Arc::new(RouterPorts::new(opener(pcis, &dma)));
        let mut services = Services::default();
        services.add(router_ports.clone());
        let registry = element::registry();
        let defines = names.iter().enumerate().map(|(n, name)| ((*name).to_string(), format!("test:{n}")));
        let options = lang::Options {
            defines: defines.collect(),
            known_class: &|name| registry.find(name).is_some(),
            ..lang::Options::default()
        };
        let flat = lang::read(vec![Source::new("config", config)], &options).expect("a configuration");
        let printed = Arc::new(Mutex::new(String::new()));
        let options = graph::Options {
            threads,
            dma,
            services,
            measure: true,
            console: Console::Memory(printed.clone()),
            prepare: Some(Box::new(move |elements| router_ports.open(elements))),
            ..graph::Options::default()
        };
        let router = Router::build(config, flat, &registry, options).unwrap_or_else(|problems| {
            panic!("{:#?}", problems.iter().map(|p| &p.message).collect::<Vec<_>>())
        });
        Rig { router, printed, handles, _stepper: stepper }
    }

    /// Runs the router for as long as `work` takes.
    pub fn run<T: Send>(&mut self, work: impl FnOnce(&[Handle]) -> T + Send) -> T {
        let shared = self.router.shared();
        self.router.begin(); // what comes from now on waits in the rings
        let (router, handles) = (&mut self.router, &self.handles);
        let done = thread::scope(|scope| {
            let work = scope.spawn(move || {
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(handles)));
                shared.end();
                done
            });
            router.run();
            work.join().expect("panics are caught")
        });
        self.router.cleanup();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Packets that the models and the router lost, by name.
    pub fn drops(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        let mut lose = |name: String, count: u64| {
            if count > 0 {
                *all.entry(name).or_default() += count;
            }
        };
        for report in reports(&self.handles) {
            let wire = [report.wire.to_host.lost, report.wire.from_host.lost];
            wire.into_iter().chain([report.drops]).flatten().for_each(|(name, count)| lose(name, count));
        }
        let shared = self.router.shared();
        for (index, planned) in shared.plan.elements.iter().enumerate() {
            for lane in self.router.lanes() {
                for (reason, count) in planned.kind.drops.iter().zip(&lane.counters(index).drops) {
                    lose(format!("{}: {reason}", planned.class), *count);
                }
            }
        }
        all
    }

    /// Frames that came to the ports from their cables, and that left for them.
    pub fn passed(&self) -> (u64, u64) {
        let reports = reports(&self.handles);
        let sum = |of: &dyn Fn(&testbed::DeviceReport) -> u64| reports.iter().map(of).sum();
        (sum(&|r| r.wire.to_host.offered), sum(&|r| r.wire.from_host.delivered))
    }

    /// What drivers did wrong.
    pub fn findings(&self) -> Vec<testbed::Finding> {
        self.handles.iter().flat_map(|handle| handle.report().findings).collect()
    }

    /// Packets that came to the elements of a class, for each of them by thread.
    pub fn by_thread(&self, class: &str) -> Vec<Vec<u64>> {
        let shared = self.router.shared();
        let of_class = shared.plan.elements.iter().enumerate().filter(|(_, e)| &*e.class == class);
        let threads = |index: usize| self.router.lanes().iter().map(|l| l.counters(index).packets).collect();
        of_class.map(|(index, _)| threads(index)).collect()
    }

    /// What the router printed.
    pub fn printed(&self) -> String {
        self.printed.lock().expect("no panic").clone()
    }
}

/// Whether each thread of this process that wants a processor had one since `before`, where
/// the time of each is noted: on a busy machine packets stand still with the threads.
fn all_ran(before: &mut BTreeMap<String, u64>) -> bool {
    let mut all = true;
    for task in std::fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (stat, schedule) = (read("stat"), read("schedstat"));
        let wants = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'));
        let time = schedule.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        let name = task.file_name().to_string_lossy().into_owned();
        all &= before.insert(name, time) != Some(time) || !wants;
    }
    all
}

/// Has all sources that hold give what they have, and waits until nothing moves any more.
pub fn quiet(handles: &[Handle]) {
    let end = Instant::now() + LIMIT;
    handles.iter().for_each(|handle| handle.with_cable(wire::Cable::start_source));
    let (mut before, mut still, mut times) = (0, 0, BTreeMap::new());
    while still < 15 {
        assert!(Instant::now() < end, "packets still move after {LIMIT:?}: {:#?}", reports(handles));
        thread::sleep(Duration::from_millis(20));
        let done = handles.iter().all(|handle| handle.with_cable(|cable| cable.is_source_done()));
        let moved = handles.iter().map(|handle| handle.report().packets).sum();
        still = match done && moved == before {
            true => still + u32::from(all_ran(&mut times)),
            false => 0,
        };
        before = moved;
    }
    handles.iter().for_each(|handle| handle.with_cable(wire::Cable::flush));
}

fn reports(handles: &[Handle]) -> Vec<testbed::DeviceReport> {
    handles.iter().map(Handle::report).collect()
}

/// The hosts on the cable of a port, as one socket of frames.
pub struct Hosts {
    socket: UnixDatagram,
    port: PathBuf,
}

impl Hosts {
    /// For each of so many ports; and the wires that lead to them.
    pub fn on(place: &Path, ports: usize) -> (Vec<Hosts>, Vec<String>) {
        let host = |n: usize| {
            let (port, here) = (place.join(format!("port{n}")), place.join(format!("host{n}")));
            let socket = UnixDatagram::bind(&here).expect("a socket");
            socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a limit");
            let wire = format!("unix:{},remote={}", port.display(), here.display());
            (Hosts { socket, port }, wire)
        };
        (0..ports).map(host).unzip()
    }

    /// Sends a frame.
    pub fn send(&self, frame: &[u8]) {
        self.socket.send_to(frame, &self.port).expect("the port is there");
    }

    /// The next frame that comes, if one does within so many milliseconds.
    pub fn hear(&self, ms: u64) -> Option<Vec<u8>> {
        let end = Instant::now() + Duration::from_millis(ms);
        let mut frame = [0; 1 << 14];
        while Instant::now() < end {
            if let Ok(len) = self.socket.recv(&mut frame) {
                return Some(frame[..len].to_vec());
            }
        }
        None
    }

    /// The next frame that comes; one must.
    pub fn next(&self) -> Vec<u8> {
        self.hear(5000).expect("a frame")
    }

    /// No frame comes for some time.
    pub fn silent(&self) {
        let heard = self.hear(150);
        assert!(heard.is_none(), "{:02x?}", heard.unwrap_or_default());
    }
}
