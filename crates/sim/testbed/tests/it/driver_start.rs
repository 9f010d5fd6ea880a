//! Ports that are opened to start later: frames come from before they are opened, their queues are
//! filled one after the other, and no frame finds a queue without descriptors.

use std::io::Write as _;
use std::thread;

use bus::Pci;
use interface::pcap::{PacketOptions, Writer};
use memory::{Batch, Dma, Pool};
use port::{Options, Port, Reason, RxQueue};
use regs::ixgbe::SECRXSTAT;
use testbed::inprocess::{Handle, spawn};
use testbed::{Idle, Stepper, ixgbe};

use crate::common::broken::{Broken, Faults};
use crate::common::frames::{ethernet, payload};
use crate::common::limit::Limit;
use crate::common::{devices, i40e, sound};

/// Frames of many flows that come in a second: a ring has room for those of half a second, in which
/// the test may get no core.
const WIRE: &str = "gen:rate=1k,flows=64";

/// A port that waits for its start, and its queues.
struct Rig {
    port: Box<dyn Port>,
    rx: Vec<Box<dyn RxQueue>>,
    handles: Vec<Handle>,
    stepper: Stepper,
    /// Held to the end: a device that nobody has forgets what was mapped.
    _pcis: Vec<Pci>,
    pool: Pool,
    received: u64,
}

impl Rig {
    fn open((pcis, handles): (Vec<Pci>, Vec<Handle>), queues: usize) -> Rig {
        let stepper = spawn(&handles, None, Idle::Yield).unwrap();
        let dma = Dma::new(Default::default());
        let pool = Pool::new(&dma, 4096).unwrap();
        let options = Options { rx_queues: queues, deferred_start: true, ..Options::default() };
        let mut port = ports::open(pcis[0].clone(), &dma, options).unwrap();
        let rx = (0..queues).map(|n| port.rx_queue(n).unwrap()).collect();
        Rig { port, rx, handles, stepper, _pcis: pcis, pool, received: 0 }
    }

    /// How many frames the wire has brought.
    fn offered(&self) -> u64 {
        self.handles[0].report().counters["rx_offered"]
    }

    /// Waits for so many frames more on the wire, with `work` to do meanwhile.
    fn come(&mut self, frames: u64, mut work: impl FnMut(&mut Rig)) {
        let (begin, mut limit) = (self.offered(), Limit::time("frames on the wire"));
        while self.offered() < begin + frames {
            limit.check();
            work(self);
            thread::yield_now();
        }
        work(self);
    }

    /// Fills the ring of a queue.
    fn fill(&mut self, queue: usize) {
        let received = self.rx[queue].recv(&mut self.pool, &mut Batch::with_limit(0));
        assert_eq!(received, 0);
    }

    /// Takes all that has come.
    fn poll(&mut self) {
        let mut batch = Batch::default();
        for queue in &mut self.rx {
            while queue.recv(&mut self.pool, &mut batch) > 0 {
                self.received += batch.len() as u64;
                self.pool.free_batch(&mut batch);
            }
        }
    }

    /// Nothing was lost for want of a descriptor, as the port counts and as the model does.
    fn has_lost_none(&mut self) {
        assert_eq!(self.port.stats().lost(Reason::RxNoDescriptor), 0);
        assert_eq!(self.handles[0].report().drops.get("rx_no_descriptor"), None);
    }

    /// Closes it; the linter is content.
    fn close(self) {
        let Rig { port, rx, handles, mut pool, stepper, .. } = self;
        drop((port, rx));
        drop(stepper);
        assert_eq!(pool.available(), pool.capacity());
        sound(&handles[0].report());
    }
}

/// Runs a test on both kinds of devices, with a port of so many queues.
fn on_both(queues: usize, test: fn(Rig)) {
    test(Rig::open(devices(&[WIRE]), queues));
    test(Rig::open(i40e::devices(&[WIRE]), queues));
}

#[test]
fn no_frame_finds_a_queue_without_descriptors() {
    for queues in [1, 2, 4] {
        on_both(queues, |mut rig| {
            for queue in 0..rig.rx.len() {
                rig.come(50, |_| ());
                rig.fill(queue);
            }
            rig.come(50, Rig::poll);
            assert_eq!(rig.received, 0, "it was not started");
            rig.port.start().unwrap();
            rig.come(200, Rig::poll);
            assert!(rig.received >= 150, "{} of 200", rig.received);
            rig.has_lost_none();
            rig.close();
        });
    }
}

#[test]
fn a_second_start_changes_nothing_and_a_stop_is_undone_by_one() {
    on_both(2, |mut rig| {
        (0..2).for_each(|queue| rig.fill(queue));
        rig.port.stop().unwrap();
        rig.come(50, Rig::poll);
        assert_eq!(rig.received, 0);
        rig.port.start().unwrap();
        rig.port.start().unwrap();
        rig.come(200, Rig::poll);
        assert!(rig.received >= 150, "{} of 200", rig.received);
        rig.port.stop().unwrap();
        rig.poll();
        let before = rig.received;
        rig.come(50, Rig::poll);
        assert!(rig.received <= before + 5, "{} after the stop", rig.received - before);
        rig.port.start().unwrap();
        rig.come(200, Rig::poll);
        assert!(rig.received >= before + 150, "{} of 200", rig.received - before);
        rig.has_lost_none();
        rig.close();
    });
}

#[test]
fn filters_that_change_before_the_start_let_nothing_in() {
    on_both(2, |mut rig| {
        (0..2).for_each(|queue| rig.fill(queue));
        for on in [false, true] {
            rig.port.set_promiscuous(on).unwrap();
            rig.port.filters().unwrap().add_mac([2, 0, 0, 0, 1, on.into()]).unwrap();
        }
        rig.come(50, Rig::poll);
        assert_eq!(rig.received, 0);
        rig.port.start().unwrap();
        rig.come(200, Rig::poll);
        assert!(rig.received >= 150, "{} of 200", rig.received);
        rig.close();
    });
}

#[test]
fn a_port_that_never_starts_closes() {
    on_both(2, |mut rig| {
        rig.fill(1);
        rig.come(20, |_| ());
        rig.has_lost_none();
        rig.close();
    });
}

/// Frames of a file come when they are asked for, so that none is lost.
#[test]
fn all_frames_of_a_file_are_received() {
    const FRAMES: u64 = 300;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&capture(FRAMES)).unwrap();
    let wire = format!("pcap:{}", file.path().display());
    for devices in [devices(&[&wire]), i40e::devices(&[&wire])] {
        let mut rig = Rig::open(devices, 2);
        (0..2).for_each(|queue| rig.fill(queue));
        rig.poll();
        let steps = |rig: &Rig| rig.handles[0].report().steps;
        let (before, mut limit) = (steps(&rig), Limit::time("steps of the model"));
        while steps(&rig) < before + 100 {
            limit.check();
            thread::yield_now();
        }
        assert_eq!(rig.offered(), 0, "they wait for the start");
        rig.port.start().unwrap();
        rig.come(FRAMES, Rig::poll);
        let mut limit = Limit::time("frames of a file");
        while rig.received < FRAMES {
            limit.check();
            rig.poll();
        }
        assert_eq!(rig.received, FRAMES, "{:?}", rig.handles[0].report().drops);
        rig.close();
    }
}

/// Frames to the port, to all, to another, of which it receives all, too, and to a group.
fn capture(frames: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &["wire"]).unwrap();
    for n in 0..frames {
        let to = [ixgbe::mac(0), [0xFF; 6], ixgbe::mac(9), [1, 0, 0x5E, 0, 0, 9]];
        let frame = ethernet(to[n as usize % to.len()], 0x88B5, &payload(50));
        writer.write(0, n, &frame, PacketOptions::default()).unwrap();
    }
    writer.into_inner()
}

/// A start that fails says why, and can be tried again.
#[test]
fn a_start_that_fails_is_told_and_can_be_tried_again() {
    let (mut pcis, handles) = devices(&[WIRE]);
    let (pci, faults) = Broken::new(pcis.remove(0), Faults::default());
    let mut rig = Rig::open((vec![pci], handles), 2);
    (0..2).for_each(|queue| rig.fill(queue));
    faults.lock().unwrap().stuck = vec![(SECRXSTAT::AT, SECRXSTAT::SECRX_RDY, 0)];
    let error = rig.port.start().unwrap_err().to_string();
    assert!(error.contains("SECRXSTAT") && error.contains("the receive path does not empty"), "{error}");
    rig.come(20, Rig::poll);
    assert_eq!(rig.received, 0);
    faults.lock().unwrap().stuck = vec![];
    rig.port.start().unwrap();
    rig.come(200, Rig::poll);
    assert!(rig.received >= 150, "{} of 200", rig.received);
    rig.close();
}
