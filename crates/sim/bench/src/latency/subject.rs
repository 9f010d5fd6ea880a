//! What is measured, on ports that wires join with the tester's.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use app::forward::Forward;
use driver::ixgbe::Ixgbe;
use element::io::router_ports::RouterPorts;
use graph::Services;
use memory::{Batch, Dma, Pool};
use port::{Options, Port};
use runtime::{OnPanic, Poller, Runtime};
use testbed::inprocess::{self, Handle};

use super::tester::Tester;
use super::{Mode, Setup, Work};
use crate::graph::window;
use crate::graph::workload::OnPorts;
use crate::two_cores::no_thread;
use crate::{Error, Result};
use runtime::cores::pin;

/// The longest sleep: an interrupt that does not come costs as much.
const SLEEP: Duration = Duration::from_millis(100);

/// Models whose drivers are open, all in one address space.
struct Bench {
    dma: Dma,
    handles: Vec<Handle>,
    ring: usize,
}

impl Bench {
    /// Opens a port on a model.
    fn open(&mut self, (pci, handle): (bus::Pci, Handle), interrupts: bool) -> Result<Ixgbe> {
        let (rx_ring, tx_ring) = (self.ring, self.ring);
        let options = Options { rx_ring, tx_ring, interrupts, ..Options::default() };
        self.handles.push(handle);
        let dma = &self.dma;
        Ok(inprocess::while_stepping(&self.handles, || Ixgbe::open(pci, dma, options))
            .map_err(no_thread)??)
    }

    fn tester(&self, mut to: Ixgbe, mut from: Ixgbe) -> Result<Tester> {
        let (Some(tx), Some(rx)) = (to.tx_queue(0), from.rx_queue(0)) else {
            return Err(Error::new("a port without queues"));
        };
        let pool = Pool::new(&self.dma, 4 * self.ring + 2 * Batch::MAX)?;
        Ok(Tester { tx, rx, pool, handles: self.handles.clone(), _ports: vec![to, from] })
    }
}

/// Makes what is measured, and has the tester do its work meanwhile.
pub(super) fn with<T: Send>(setup: &Setup, work: impl FnOnce(&mut Tester) -> Result<T> + Send) -> Result<T> {
    let dma = Dma::new(memory::Options::default());
    let mut bench = Bench { dma, handles: vec![], ring: setup.ring };
    let interrupts = setup.mode == Mode::Interrupt;
    let [to, first] = crate::device::pair()?;
    let to = bench.open(to, false)?;
    let first = bench.open(first, interrupts)?;
    if setup.work == Work::Wire {
        pin(setup.cores[1]);
        return work(&mut bench.tester(to, first)?);
    }
    let [second, from] = crate::device::pair()?;
    let (second, from) = (bench.open(second, interrupts)?, bench.open(from, false)?);
    match setup.work {
        Work::Router => router(setup, bench, [to, from], vec![first, second], work),
        _ => forward(setup, &bench, [to, from], [first, second], work),
    }
}

fn forward<T>(
    setup: &Setup,
    bench: &Bench,
    [to, from]: [Ixgbe; 2],
    [mut first, mut second]: [Ixgbe; 2],
    work: impl FnOnce(&mut Tester) -> Result<T>,
) -> Result<T> {
    let (Some(rx), Some(tx)) = (first.rx_queue(0), second.tx_queue(0)) else {
        return Err(Error::new("a port without queues"));
    };
    let options = runtime::Options {
        name: "forward",
        threads: 1,
        cores: vec![setup.cores[0]],
        sleep: (setup.mode == Mode::Interrupt).then_some(SLEEP),
        batch: setup.batch,
        rx_ring: setup.ring,
        tx_ring: setup.ring,
        max_frame: Options::default().max_frame,
        count: None,
    };
    let mut tester = bench.tester(to, from)?;
    let pollers: Vec<Box<dyn Poller>> = vec![Box::new(Forward { rx, tx, touch: false })];
    let failed = |error: runtime::Error| Error::new(error.to_string());
    let runtime = Runtime::new(&bench.dma, pollers, &options, &Arc::default(), &Arc::default());
    let running = runtime.map_err(failed)?.start(|| Ok(()));
    pin(setup.cores[1]);
    let done = work(&mut tester);
    let finished = inprocess::while_stepping(&bench.handles, || running.end()).map_err(no_thread)?;
    finished.failure.map_or(done, |failure| Err(failed(failure)))
}

fn router<T: Send>(
    setup: &Setup,
    mut bench: Bench,
    [to, from]: [Ixgbe; 2],
    mut ports: Vec<Ixgbe>,
    work: impl FnOnce(&mut Tester) -> Result<T> + Send,
) -> Result<T> {
    let on = OnPorts::new("router", setup.batch)?;
    while ports.len() < on.ports {
        ports.push(bench.open(crate::device::model("sink")?, false)?);
    }
    let mut tester = bench.tester(to, from)?;
    let ports: Mutex<Vec<Box<dyn Port>>> = Mutex::new(ports.into_iter().map(|p| Box::new(p) as _).collect());
    let router_ports = Arc::new(RouterPorts::new(Box::new(move |_| {
        ports.lock().map(|mut ports| std::mem::take(&mut *ports)).map_err(|error| error.to_string())
    })));
    let mut services = Services::default();
    services.add(router_ports.clone());
    let options = graph::Options {
        cores: vec![setup.cores[0]],
        dma: bench.dma.clone(),
        services,
        prepare: Some(Box::new(move |elements| router_ports.open(elements))),
        ..Default::default()
    };
    let mut router = window::build(&on.text, on.defines.clone(), &[], options)?;
    let shared = router.shared();
    let done = thread::scope(|scope| {
        let tester = scope.spawn(|| {
            let _others = OnPanic(|| shared.end());
            pin(setup.cores[1]);
            let done = work(&mut tester);
            shared.end();
            done
        });
        router.run();
        tester.join().unwrap_or_else(|_| Err(Error::new("the tester panicked")))
    });
    router.cleanup();
    // A driver waits for its device to let go of its rings.
    inprocess::while_stepping(&bench.handles, || drop(router)).map_err(no_thread)?;
    done
}
