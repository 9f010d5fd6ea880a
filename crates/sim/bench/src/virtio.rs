//! Our virtio driver beside DPDK's virtio-user, on the same device.
//!
//! The device is DPDK's vhost, in a `testpmd` of its own with a port for each
//! driver: it sends back what it gets, and some packets go round. The drivers
//! take turns, window by window, on the same two cores; whoever does not run is
//! stopped. Cycles are those of calls that found packets, as testpmd counts
//! them; packets per second are what came of it all. No root, no hugepages.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use driver::virtio::transport::VhostUser;
use driver::virtio::{RxQueue, TxQueue, Virtio};
use memory::{Batch, Dma, Pool};
use port::{Options, Port as _, RxQueue as _, TxQueue as _, VirtioOptions};
use regs::virtio::feature::RING_PACKED;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use testbed::testpmd::{self, Dpdk, Testpmd};

use crate::distance::{Line, is_near, near_or_all};
use crate::figures::Spread;
use crate::two_cores::distance;
use crate::{Error, Result};
use runtime::cores::pin;

/// How to measure.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Packets a call, at most.
    pub batch: usize,
    /// Descriptors in each ring.
    pub ring: u16,
    /// Windows for each driver and ring.
    pub windows: usize,
    /// The drivers' core and the device's.
    pub cores: [usize; 2],
}

/// Seconds in a window.
const WINDOW: f64 = 0.2;
/// Bursts of 32 packets that go round.
const BURSTS: u32 = 4;
/// Ring, driver and what DPDK's driver is told.
pub const PEERS: [(&str, &str, &str); 5] = [
    ("split", "DPDK default", ""),
    ("split", "DPDK in order", ",in_order=1,mrg_rxbuf=0"),
    ("split", "DPDK vector", ",mrg_rxbuf=0,vectorized=1"),
    ("packed", "DPDK default", ",packed_vq=1"),
    ("packed", "DPDK vector", ",packed_vq=1,in_order=1,mrg_rxbuf=0,vectorized=1"),
];

/// What one driver did in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    packets: u64,
    /// Ticks of calls that found packets.
    busy: u64,
    /// Ticks in all.
    ticks: u64,
    /// The longer of the round trips before and after.
    distance: u64,
}

impl Window {
    fn cycles(&self) -> f64 {
        self.busy as f64 / self.packets.max(1) as f64
    }

    fn mpps(&self) -> f64 {
        self.packets as f64 * bus::tsc::hz() as f64 / self.ticks.max(1) as f64 / 1e6
    }

    fn is_near(&self) -> bool {
        is_near(self.distance)
    }
}

/// Two drivers on one kind of ring, in turns.
#[derive(Debug, Serialize)]
pub struct Pair {
    /// The kind of ring.
    pub ring: &'static str,
    /// How DPDK's driver was told to work.
    pub peer: &'static str,
    /// TSC cycles of our driver for each packet.
    pub our_cycles: Spread,
    /// TSC cycles of DPDK's.
    pub their_cycles: Spread,
    /// Packets per second with our driver, in millions.
    pub our_mpps: Spread,
    /// Packets per second with DPDK's.
    pub their_mpps: Spread,
    /// Theirs over ours, of neighbouring windows of the same distance.
    pub cycles_ratio: Spread,
    /// Ours over theirs.
    pub mpps_ratio: Spread,
    /// Windows that were measured.
    pub windows: usize,
    /// Of these, windows between two near calibrations.
    pub near_windows: usize,
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::new(format!("{what}: {error}"))
}

/// Finds DPDK.
///
/// # Errors
/// When it is not there.
pub fn dpdk(root: Option<&Path>) -> Result<Dpdk> {
    match root {
        Some(root) => Dpdk::at(root).map_err(failed("no DPDK there")),
        None => Dpdk::find().ok_or_else(|| Error::Missing {
            cause: "DPDK is not installed".into(),
            fix: "apt install dpdk-dev, or --dpdk FOLDER with its packages".into(),
        }),
    }
}

/// Measures both drivers on one of [`PEERS`], in turns; `progress` is told each window's
/// number.
///
/// # Errors
/// When DPDK or a driver does not start, or our device ends in bad health.
pub fn measure(
    setup: &Setup,
    dpdk: &Dpdk,
    (ring, peer, options): (&'static str, &'static str, &str),
    progress: &mut dyn FnMut(usize),
) -> Result<Pair> {
    let [core, device] = setup.cores;
    let folder = tempfile::tempdir().map_err(failed("no folder for sockets"))?;
    let sockets = ["ours", "theirs"].map(|name| folder.path().join(name));
    let vhost = |n: usize| format!("net_vhost{n},iface={},queues=1", sockets[n].display());
    let device_side = testpmd::Setup {
        cores: [core, device],
        vdevs: vec![vhost(0), vhost(1)],
        ring: setup.ring,
        arguments: vec!["--port-topology=loop".to_owned()],
    };
    let broken = failed("testpmd");
    let mut back = Testpmd::start(dpdk, &device_side).map_err(&broken)?;
    let mut ours = Ours::open(setup, &sockets[0], ring == "packed")?;
    let virtio_user =
        format!("net_virtio_user0,path={},queue_size={}{options}", sockets[1].display(), setup.ring);
    let driver_side = testpmd::Setup {
        cores: [core, core],
        vdevs: vec![virtio_user],
        ring: setup.ring,
        arguments: Vec::new(),
    };
    let mut theirs = Testpmd::start(dpdk, &driver_side).map_err(&broken)?;
    for command in ["set record-core-cycles on", "start"] {
        theirs.say(command).map_err(&broken)?;
    }
    back.say(&format!("start tx_first {BURSTS}")).map_err(&broken)?;
    signal(&theirs, Signal::STOP);
    pin(core);
    let line = Arc::new(Line::default());
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for n in 0..setup.windows.max(1) {
        progress(n + 1);
        a.push(apart(&line, device, &back, || Ok(ours.window()))?);
        b.push(apart(&line, device, &back, || their_window(&mut theirs))?);
    }
    ours.device.health()?;
    Ok(Pair::of(ring, peer, &a, &b))
}

/// A window between two measurements of the cores' distance, for which the
/// device stands still.
fn apart(
    line: &Arc<Line>,
    device: usize,
    back: &Testpmd,
    window: impl FnOnce() -> Result<Window>,
) -> Result<Window> {
    signal(back, Signal::STOP);
    let before = distance(line, device);
    signal(back, Signal::CONT);
    let window = window()?;
    signal(back, Signal::STOP);
    let after = distance(line, device);
    signal(back, Signal::CONT);
    Ok(Window { distance: before.max(after), ..window })
}

fn signal(process: &Testpmd, signal: Signal) {
    if let Some(id) = Pid::from_raw(process.id() as i32) {
        let _ = kill_process(id, signal); // one that is gone is noticed elsewhere
    }
}

fn their_window(theirs: &mut Testpmd) -> Result<Window> {
    let testpmd = failed("testpmd");
    signal(theirs, Signal::CONT);
    let (before, start) = (theirs.cycles().map_err(&testpmd)?, bus::tsc::now());
    sleep(Duration::from_secs_f64(WINDOW));
    let (after, end) = (theirs.cycles().map_err(&testpmd)?, bus::tsc::now());
    signal(theirs, Signal::STOP);
    let (packets, busy) = (after.packets - before.packets, after.cycles - before.cycles);
    Ok(Window { packets, busy, ticks: end - start, distance: 0 })
}

/// Our driver on its device, with its queues and the packets that go round.
struct Ours {
    device: Virtio,
    rx: RxQueue,
    tx: TxQueue,
    pool: Pool,
    batch: Batch,
}

impl Ours {
    fn open(setup: &Setup, socket: &std::path::Path, packed: bool) -> Result<Ours> {
        let ring = usize::from(setup.ring);
        let features = if packed { u64::MAX } else { !RING_PACKED };
        let virtio = VirtioOptions { features, ..VirtioOptions::default() };
        let options = Options { rx_ring: ring, tx_ring: ring, virtio, ..Options::default() };
        let dma = Dma::new(memory::Options::default());
        let pool = Pool::new(&dma, 4 * ring + 2 * Batch::MAX)?;
        let transport = VhostUser::connect(socket, None)?;
        let (device, mut rx, mut tx) = Virtio::open_on(Arc::new(transport), &dma, options)?.split();
        let (Some(rx), Some(tx)) = (rx.pop(), tx.pop()) else {
            return Err(Error::new("a port without queues"));
        };
        let mut ours = Ours { device, rx, tx, pool, batch: Batch::with_limit(setup.batch) };
        ours.forward(); // gives the device its buffers
        Ok(ours)
    }

    /// As testpmd's `io`: what is received is sent; ticks if there was any.
    #[inline(always)]
    fn forward(&mut self) -> (u64, u64) {
        let start = bus::tsc::now();
        let received = self.rx.recv(&mut self.pool, &mut self.batch);
        if received == 0 {
            return (0, 0);
        }
        self.tx.send(&mut self.pool, &mut self.batch);
        self.pool.free_batch(&mut self.batch);
        (received as u64, bus::tsc::now() - start)
    }

    fn window(&mut self) -> Window {
        let length = (bus::tsc::hz() as f64 * WINDOW) as u64;
        let warm = bus::tsc::now();
        while bus::tsc::now() - warm < length / 10 {
            self.forward();
        }
        let (mut window, start) = (Window::default(), bus::tsc::now());
        while bus::tsc::now() - start < length {
            for _ in 0..64 {
                let (packets, ticks) = self.forward();
                window.packets += packets;
                window.busy += ticks;
            }
        }
        window.ticks = bus::tsc::now() - start;
        window
    }
}

impl Pair {
    fn of(ring: &'static str, peer: &'static str, ours: &[Window], theirs: &[Window]) -> Pair {
        let both: Vec<_> = ours.iter().zip(theirs).collect();
        let windows = both.len();
        let (used, near_windows) = near_or_all(both, |(a, b)| a.is_near() && b.is_near());
        let spread = |figure: &dyn Fn(&Window, &Window) -> f64| {
            Spread::of(used.iter().map(|(a, b)| figure(a, b)).collect())
        };
        Pair {
            ring,
            peer,
            our_cycles: spread(&|a, _| a.cycles()),
            their_cycles: spread(&|_, b| b.cycles()),
            our_mpps: spread(&|a, _| a.mpps()),
            their_mpps: spread(&|_, b| b.mpps()),
            cycles_ratio: spread(&|a, b| b.cycles() / a.cycles()),
            mpps_ratio: spread(&|a, b| a.mpps() / b.mpps()),
            windows,
            near_windows,
        }
    }
}
