//! The back end against our front end, whose messages are its own, and against
//! front ends that misbehave.

use std::io::{IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bus::vhost_user::{Frontend, PACKED_START, VhostRing};
use bus::{Backend, DmaRange, Mapping};
use model::Chip;
use model::chip::{RingSetup, Rings};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::*;
use crate::device::{Device, Edge, Parts, Vectors};
use crate::serve::{EndpointReport, Options, Serving};
use crate::stepper::Idle;
use crate::view::{Trust, View};
use crate::wire::Cable;

/// What the toy was asked, in words.
type Log = Arc<Mutex<Vec<String>>>;

/// A device that does nothing but write down what it is asked.
struct Toy {
    log: Log,
    broken: bool,
}

impl Toy {
    fn record(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }
}

impl Rings for Toy {
    fn features(&self) -> u64 {
        1 << 32 | 1 << 34
    }
    fn set_features(&mut self, features: u64) {
        self.record(format!("features {features:#x}"));
    }
    fn pairs(&self) -> u16 {
        1
    }
    fn start(&mut self, index: u16, ring: &RingSetup) -> bool {
        self.broken = ring.size == 13;
        self.record(format!("start {index} at {:#x} from {:#x}", ring.descriptors, ring.base));
        ring.size.is_power_of_two() || self.broken
    }
    fn enable(&mut self, index: u16, on: bool) {
        self.record(format!("enable {index} {on}"));
    }
    fn stop(&mut self, index: u16) -> u32 {
        self.record(format!("stop {index}"));
        7
    }
    fn is_broken(&self, _: u16) -> bool {
        self.broken
    }
}

impl Chip<Edge> for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }
    fn read(&mut self, _: u32) -> u32 {
        0
    }
    fn write(&mut self, _: u32, _: u32) {}
    fn step(&mut self, _: &mut Edge, _: u64) -> usize {
        0
    }
    fn reset(&mut self) {
        self.record("reset".to_owned());
    }
    fn counters(&mut self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn drops(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn rings(&mut self) -> Option<&mut dyn Rings> {
        Some(self)
    }
}

struct Served {
    serving: Serving,
    log: Log,
    directory: tempfile::TempDir,
}

fn serve() -> Served {
    let (log, directory) = (Log::default(), tempfile::tempdir().unwrap());
    let parts = Parts {
        chip: Box::new(Toy { log: log.clone(), broken: false }),
        shape: crate::ixgbe::shape(crate::ixgbe::DEVICE_SFP),
        view: View::new(Trust::Hostile),
        polled: None,
        vectors: Vectors::default(),
        edge: Edge::new(Cable::open(&"sink".parse().unwrap()).unwrap(), None),
        faults: None,
    };
    let endpoint = Endpoint { socket: directory.path().join("s"), device: Device::new(parts) };
    let options = Options { core: None, idle: Idle::Sleep };
    Served { serving: bind(vec![endpoint]).unwrap().serve(options).unwrap(), log, directory }
}

impl Served {
    fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }
    fn report(&self) -> EndpointReport {
        self.serving.report().endpoints.remove(0)
    }
    fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
    /// Waits for a fault that says `words`.
    fn fault(&self, words: &str) {
        let begin = Instant::now();
        loop {
            let report = self.report();
            match report.last_fault {
                Some(fault) if fault.contains(words) => return,
                other => assert!(begin.elapsed() < Duration::from_secs(8), "{words}: {other:?}"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
    fn until(&self, what: impl Fn(&EndpointReport) -> bool) {
        let begin = Instant::now();
        while !what(&self.report()) {
            assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", self.report());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Memory {
    file: std::os::fd::OwnedFd,
    mapping: Mapping,
}

fn memory() -> Memory {
    let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, 0x4000).unwrap();
    Memory { mapping: Mapping::new(&file, 0, 0x4000).unwrap(), file }
}

impl Memory {
    fn range(&self, iova: u64) -> DmaRange<'_> {
        let (addr, len) = (self.mapping.base(), self.mapping.len());
        // SAFETY: the front end hands it on and touches nothing; the back end
        // maps the file for itself.
        unsafe { DmaRange::new(addr, len, iova, Some((self.file.as_fd(), 0))) }
    }
}

fn event() -> std::os::fd::OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

fn ring(size: u16) -> VhostRing {
    let descriptors = 0x10_0000;
    VhostRing {
        size,
        descriptors,
        driver: descriptors + 0x1000,
        device: descriptors + 0x2000,
        base: PACKED_START,
    }
}

#[test]
fn a_session_from_begin_to_end() {
    let served = serve();
    let frontend = Frontend::connect(&served.socket()).unwrap();
    assert_eq!((frontend.features(), frontend.queue_pairs()), (1 << 32 | 1 << 34, 1));
    let memory = memory();
    frontend.map_dma(&memory.range(0x10_0000)).unwrap();
    frontend.set_features(1 << 32).unwrap();
    let (kick, call) = (event(), event());
    frontend.set_interrupt(1, Some(call.as_fd())).unwrap();
    frontend.start_ring(1, &ring(64), kick.as_fd(), Some(1)).unwrap();
    frontend.enable_ring(1, true).unwrap();
    assert_eq!(
        served.said(),
        ["features 0x100000000", "start 1 at 0x100000 from 0x80008000", "enable 1 false", "enable 1 true"]
    );
    assert_eq!(served.report().device.mapped, (1, 0x4000));
    assert_eq!(frontend.stop_ring(1).unwrap(), 7);
    assert_eq!(served.said(), ["stop 1"]);
    drop(frontend);
    served.until(|report| !report.attached);
    assert_eq!(served.said(), ["reset"]);
    assert_eq!((served.report().device.mapped, served.report().client_faults), ((0, 0), 0));
    assert_eq!(served.serving.stop().endpoints[0].last_fault, None);
}

#[test]
fn memory_that_goes_stops_its_rings() {
    let served = serve();
    let frontend = Frontend::connect(&served.socket()).unwrap();
    let (rings, other, kick) = (memory(), memory(), event());
    frontend.map_dma(&rings.range(0x10_0000)).unwrap();
    frontend.map_dma(&other.range(0x20_0000)).unwrap();
    frontend.start_ring(0, &ring(64), kick.as_fd(), None).unwrap();
    served.said();
    frontend.unmap_dma(0x20_0000, 0x4000).unwrap();
    assert_eq!(served.said(), Vec::<String>::new());
    frontend.unmap_dma(0x10_0000, 0x4000).unwrap();
    assert_eq!(served.said(), ["stop 0"]);
    assert_eq!(served.report().device.mapped, (0, 0));
}

#[test]
fn a_ring_that_breaks_is_told() {
    let served = serve();
    let frontend = Frontend::connect(&served.socket()).unwrap();
    let (memory, kick) = (memory(), event());
    frontend.map_dma(&memory.range(0x10_0000)).unwrap();
    frontend.start_ring(0, &ring(13), kick.as_fd(), None).unwrap();
    let begin = Instant::now();
    while frontend.health().is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(5));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(frontend.health().unwrap_err().to_string().contains("gave up a ring"));
}

#[test]
fn bad_rings_and_features_are_refused() {
    for case in 0..3 {
        let served = serve();
        let frontend = Frontend::connect(&served.socket()).unwrap();
        let (memory, kick) = (memory(), event());
        frontend.map_dma(&memory.range(0x10_0000)).unwrap();
        let start = |size| frontend.start_ring(0, &ring(size), kick.as_fd(), None);
        let refused = match case {
            0 => start(63).unwrap_err(),
            1 => {
                start(64).unwrap();
                start(64).unwrap_err()
            }
            _ => {
                start(64).unwrap();
                frontend.set_features(1 << 32).unwrap_err()
            }
        };
        assert!(matches!(refused, bus::Error::Refused { .. }), "{refused}");
        served.fault(["no ring has", "size changed", "features changed"][case]);
        served.until(|report| !report.attached && report.device.mapped == (0, 0));
    }
}

#[test]
fn what_is_no_eventfd_is_refused() {
    let memory = memory();
    let event = event();
    for (kick, call) in [(memory.file.as_fd(), None), (event.as_fd(), Some(memory.file.as_fd()))] {
        let served = serve();
        let frontend = Frontend::connect(&served.socket()).unwrap();
        frontend.map_dma(&memory.range(0x10_0000)).unwrap();
        frontend.set_interrupt(0, call).unwrap();
        let refused = frontend.start_ring(0, &ring(64), kick, Some(0)).unwrap_err();
        assert!(matches!(refused, bus::Error::Refused { .. }), "{refused}");
        served.fault("no eventfd");
    }
    // Our front end takes none from its caller to be told of errors by.
    let served = serve();
    let stream = UnixStream::connect(served.socket()).unwrap();
    let message = [head(14, 1, 8), vec![0; 8]].concat();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [memory.file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(&stream, &[IoSlice::new(&message)], &mut control, SendFlags::empty()).unwrap();
    served.fault("no eventfd");
}

#[test]
fn a_second_front_end_is_turned_away_and_a_third_served() {
    let served = serve();
    let first = Frontend::connect(&served.socket()).unwrap();
    assert!(matches!(Frontend::connect(&served.socket()), Err(bus::Error::HungUp { .. })));
    served.fault("turned away");
    first.set_features(1 << 32).unwrap();
    drop(first);
    served.until(|report| !report.attached);
    Frontend::connect(&served.socket()).unwrap();
}

/// The second connects before the back end has seen that the first is gone.
#[test]
fn a_front_end_that_hung_up_makes_room() {
    let served = serve();
    let second = served.serving.with_cable(0, |_| {
        // The session waits for the device, which is held here.
        drop(UnixStream::connect(served.socket()).unwrap());
        UnixStream::connect(served.socket()).unwrap()
    });
    Frontend::over(second.unwrap(), "second".to_owned(), Duration::from_secs(5)).unwrap();
    assert_eq!(served.report().last_fault, None);
}

/// Says `bytes` to the back end, and what came back until it hung up.
fn say(path: &Path, bytes: &[u8], close: bool) -> Vec<u8> {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(bytes).unwrap();
    if close {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn head(request: u32, flags: u32, size: u32) -> Vec<u8> {
    [request, flags, size].map(u32::to_le_bytes).concat()
}

#[test]
fn lies_end_the_session_by_name() {
    let served = serve();
    let fault = |bytes: &[u8], close, words: &str| {
        say(&served.socket(), bytes, close);
        served.fault(words);
    };
    fault(&head(1, 1, u32::MAX), false, "announces a message of 4294967295 bytes");
    fault(&head(1, 1, 8)[..5], true, "middle of a message");
    fault(&[head(2, 1, 8), vec![0; 3]].concat(), true, "middle of a message");
    fault(&head(99, 1, 0), false, "broke the protocol: invalid message");
    fault(&head(1, 2, 0), false, "broke the protocol: invalid message");
    let message = |request, body: &[u64]| {
        let body: Vec<u8> = body.iter().flat_map(|word| word.to_le_bytes()).collect();
        [head(request, 1, body.len() as u32), body].concat()
    };
    fault(&message(2, &[1 << 5]), false, "features that were not offered");
    fault(&message(8, &[9 | 64 << 32]), false, "invalid parameters");
    fault(&message(8, &[0x1_0000 << 32]), false, "more than 65535");
    fault(&message(5, &[1, 0, 4096, 0, 0]), false, "invalid message"); // no file
}

#[test]
fn silence_in_a_message_has_an_end() {
    let served = serve();
    let begin = Instant::now();
    say(&served.socket(), &head(1, 1, 8), false);
    served.fault("no end within 5s");
    assert!(begin.elapsed() < Duration::from_secs(7));
    // Nobody waits for a front end that says nothing to begin with.
    let _silent = UnixStream::connect(served.socket()).unwrap();
    thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    served.serving.stop();
    assert!(begin.elapsed() < Duration::from_secs(1));
}

/// Such a byte counts as here and is never read: whoever waited for it would wait for ever.
#[test]
fn a_byte_out_of_band_is_no_part_of_a_message() {
    let served = serve();
    for said in [head(1, 1, 0), [head(2, 1, 8), vec![0; 7]].concat()] {
        let faults = served.report().client_faults;
        let mut stream = UnixStream::connect(served.socket()).unwrap();
        // All of one message but its last byte.
        stream.write_all(&said[..said.len() - usize::from(said.len() == 12)]).unwrap();
        if rustix::net::send(&stream, &[0], SendFlags::OOB).is_err() {
            println!("passed over: this kernel has none (CONFIG_AF_UNIX_OOB)");
            return;
        }
        served.until(|report| report.client_faults > faults);
        served.fault("out of band");
        Frontend::connect(&served.socket()).unwrap();
        served.until(|report| !report.attached);
    }
}

#[test]
fn a_front_end_that_reads_no_answers_is_dropped() {
    let served = serve();
    let mut stream = UnixStream::connect(served.socket()).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    let questions = head(1, 1, 0).repeat(1000);
    while stream.write_all(&questions).is_ok() {}
    served.fault("does not read its answers");
}
