//! Our front end and our back end with the virtio model behind it, and a driver
//! made by hand that breaks the protocol.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use bus::vhost_user::{Frontend, PACKED_START, SPLIT_START, VhostRing};
use bus::{Backend, DmaRange, Mapping};
use regs::virtio::feature::{RING_PACKED, VERSION_1};
use rustix::event::{EventfdFlags, eventfd};
use testbed::serve::{Endpoint, Options, Serving};
use testbed::vhost_user;
use testbed::virtio;
use testbed::wire::Cable;

const LEN: usize = 1 << 16;
const IOVA: u64 = 0x4000_0000;

/// Memory with a ring of four at its beginning, and a session.
struct Join {
    frontend: Frontend,
    serving: Serving,
    file: File,
    kick: OwnedFd,
    _mapping: Mapping,
    _folder: tempfile::TempDir,
}

impl Join {
    fn open(features: u64) -> Join {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let cable = Cable::open(&"sink".parse().unwrap()).unwrap();
        let device = virtio::open(&virtio::Options::default(), cable);
        let endpoint = Endpoint { socket: socket.clone(), device };
        let serving = vhost_user::bind(vec![endpoint]).unwrap().serve(Options::default()).unwrap();
        let frontend = Frontend::connect(&socket).unwrap();
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, LEN as u64).unwrap();
        let mapping = Mapping::new(&file, 0, LEN).unwrap();
        // SAFETY: the mapping lives as long as the session, in `Join`.
        let range = unsafe { DmaRange::new(mapping.base(), LEN, IOVA, Some((file.as_fd(), 0))) };
        frontend.map_dma(&range).unwrap();
        frontend.set_features(features).unwrap();
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        Join { frontend, serving, file: file.into(), kick, _mapping: mapping, _folder: folder }
    }

    /// Starts the transmit ring, of four.
    fn start(&self, base: u32) {
        let ring = VhostRing { size: 4, descriptors: IOVA, driver: IOVA + 0x100, device: IOVA + 0x200, base };
        self.frontend.start_ring(1, &ring, self.kick.as_fd(), None).unwrap();
        self.frontend.enable_ring(1, true).unwrap();
    }

    fn write(&self, at: u64, data: &[u8]) {
        self.file.write_all_at(data, at).unwrap();
    }

    fn read16(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        u16::from_le_bytes(bytes)
    }

    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let begin = Instant::now();
        while !done() {
            assert!(begin.elapsed() < Duration::from_secs(5), "{what}: {:?}", self.serving.report());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn split(address: u64, len: u32, flags: u16, next: u16) -> Vec<u8> {
    [&address.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
}

fn packed(address: u64, len: u32, id: u16, flags: u16) -> Vec<u8> {
    [&address.to_le_bytes()[..], &len.to_le_bytes(), &id.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn a_packet_goes_out_over_either_ring_and_the_base_says_how_far() {
    let join = Join::open(VERSION_1);
    join.start(SPLIT_START);
    join.write(0, &split(IOVA + 0x1000, 72, 0, 0));
    join.write(0x102, &1_u16.to_le_bytes());
    join.until("used", || join.read16(0x202) == 1);
    assert_eq!(join.frontend.stop_ring(1), Ok(1));

    let join = Join::open(VERSION_1 | RING_PACKED);
    join.start(PACKED_START);
    join.write(0, &packed(IOVA + 0x1000, 72, 7, 0x80)); // AVAIL differs from USED
    join.until("used", || join.read16(14) & 0x8080 == 0x8080);
    assert_eq!(join.read16(12), 7, "the buffer's id");
    assert_eq!(join.frontend.stop_ring(1), Ok(0x8001_8001));
    let report = join.serving.stop().endpoints.remove(0);
    assert_eq!((report.device.counters["tx_packets"], report.device.counters["tx_bytes"]), (1, 60));
}

#[test]
fn a_ring_that_breaks_the_rules_is_given_up_and_told() {
    // Descriptors in a circle; an index beyond the table; an index that jumps.
    for (descriptor, available) in [
        (split(IOVA + 0x1000, 72, 1, 0), [0, 1, 0, 0]),
        (split(IOVA + 0x1000, 72, 0, 0), [0, 1, 9, 0]),
        (split(IOVA + 0x1000, 72, 0, 0), [0, 77, 0, 0]),
    ] {
        let join = Join::open(VERSION_1);
        join.start(SPLIT_START);
        join.write(0, &descriptor);
        join.write(0x104, &available.map(u16::to_le_bytes).concat()[4..]);
        join.write(0x102, &u16::to_le_bytes(available[1]));
        join.until("told", || join.frontend.health().is_err());
        assert!(join.frontend.health().unwrap_err().to_string().contains("gave up a ring"));
        let report = join.serving.report().endpoints.remove(0);
        assert_eq!(report.device.counters["broken_queues"], 1, "{:?}", report.device.findings);
    }
}

#[test]
fn memory_that_is_taken_back_is_not_touched() {
    let join = Join::open(VERSION_1);
    join.start(SPLIT_START);
    join.frontend.unmap_dma(IOVA, LEN).unwrap();
    join.write(0x102, &1_u16.to_le_bytes());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(join.read16(0x202), 0);
    assert_eq!(join.serving.report().endpoints[0].device.mapped, (0, 0));
}
