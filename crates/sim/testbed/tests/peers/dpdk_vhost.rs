//! The vhost-user front end against DPDK's vhost, with a split ring made by hand
//! so that no driver stands between.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use bus::vhost_user::{Frontend, SPLIT_START, VhostRing};
use bus::{Backend, DmaRange, Error, Mapping};
use rustix::event::{EventfdFlags, eventfd};
use testbed::testpmd::{Setup, Testpmd};

const SIZE: u64 = 64;
const HEADER: u64 = 12;
const FRAME: u64 = 60;
const BUFFER: u64 = 2048;
/// Where the parts of a ring lie, from its beginning.
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const BUFFERS: u64 = 0x3000;
const BYTES: u64 = BUFFERS + SIZE * BUFFER;
const IOVA: u64 = 0x1_0000_0000;

/// A ring and its buffers, written through the file that the back end maps.
struct Hand {
    file: File,
    at: u64,
    kick: OwnedFd,
}

impl Hand {
    fn new(file: &File, index: u64) -> Hand {
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        Hand { file: file.try_clone().unwrap(), at: index * BYTES, kick }
    }

    fn ring(&self) -> VhostRing {
        let at = IOVA + self.at;
        VhostRing {
            size: SIZE as u16,
            descriptors: at,
            driver: at + AVAILABLE,
            device: at + USED,
            base: SPLIT_START,
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.file.write_all_at(data, self.at + offset).unwrap();
    }

    /// Descriptor `n` is buffer `n`; all of them are available, in order.
    fn describe(&self, len: u32, device_writes: bool) {
        for n in 0..SIZE {
            let buffer = IOVA + self.at + BUFFERS + n * BUFFER;
            let flags: u16 = if device_writes { 2 } else { 0 };
            let descriptor = [&buffer.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &[0; 2]];
            self.write(n * 16, &descriptor.concat());
            self.write(AVAILABLE + 4 + n * 2, &(n as u16).to_le_bytes());
        }
    }

    fn offer(&self, index: u16) {
        self.write(AVAILABLE + 2, &index.to_le_bytes());
        rustix::io::write(&self.kick, &1_u64.to_ne_bytes()).unwrap();
    }

    fn read<const N: usize>(&self, offset: u64) -> [u8; N] {
        let mut data = [0; N];
        self.file.read_exact_at(&mut data, self.at + offset).unwrap();
        data
    }

    fn await_used(&self, index: u16) -> bool {
        let begin = Instant::now();
        while u16::from_le_bytes(self.read(USED + 2)) != index {
            if begin.elapsed() > Duration::from_secs(5) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

#[test]
fn frames_come_back_from_dpdk() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vhost");
    let vdevs = vec![format!("net_vhost0,iface={},queues=1", socket.display())];
    let setup = Setup { cores: [0, 1], vdevs, ring: 256, arguments: Vec::new() };
    let mut testpmd = Testpmd::start(&dpdk, &setup).unwrap();
    testpmd.say("start").unwrap();

    let frontend = Frontend::connect(&socket).unwrap();
    let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&memory, 2 * BYTES).unwrap();
    let mapping = Mapping::new(&memory, 0, (2 * BYTES) as usize).unwrap();
    // SAFETY: the front end hands it on and touches nothing; the back end maps
    // the file for itself.
    let range = unsafe { DmaRange::new(mapping.base(), mapping.len(), IOVA, Some((memory.as_fd(), 0))) };
    frontend.map_dma(&range).unwrap();
    let file = File::from(memory.try_clone().unwrap());
    let (rx, tx) = (Hand::new(&file, 0), Hand::new(&file, 1));
    rx.describe(BUFFER as u32, true);
    tx.describe((HEADER + FRAME) as u32, false);
    for n in 0..SIZE {
        tx.write(BUFFERS + n * BUFFER + HEADER, &[n as u8 + 1; FRAME as usize]);
    }
    frontend.set_features(1 << 32).unwrap();
    for (index, hand) in [(0, &rx), (1, &tx)] {
        frontend.start_ring(index, &hand.ring(), hand.kick.as_fd(), None).unwrap();
        frontend.enable_ring(index, true).unwrap();
    }
    // It waits for DRIVER_OK (virtio 1.3, 2.1) since it is told of the status.
    frontend.set_status(0xF).unwrap();
    rx.offer(SIZE as u16);
    tx.offer(32);

    let said = |testpmd: &Testpmd| testpmd.transcript();
    assert!(tx.await_used(32) && rx.await_used(32), "{}", said(&testpmd));
    for n in 0..32 {
        let length = u32::from_le_bytes(rx.read(USED + 4 + n * 8 + 4));
        let frame: [u8; FRAME as usize] = rx.read(BUFFERS + n * BUFFER + HEADER);
        assert_eq!((length, frame), ((HEADER + FRAME) as u32, [n as u8 + 1; FRAME as usize]));
    }
    let port = testpmd.port().unwrap();
    assert_eq!((port.rx_packets, port.tx_packets, port.tx_bytes), (32, 32, 32 * FRAME));

    // Stopped, and started where they were: the rest goes through.
    assert_eq!([0, 1].map(|index| frontend.stop_ring(index).unwrap()), [32, 32]);
    for (index, hand) in [(0, &rx), (1, &tx)] {
        let ring = VhostRing { base: 32, ..hand.ring() };
        frontend.start_ring(index, &ring, hand.kick.as_fd(), None).unwrap();
        frontend.enable_ring(index, true).unwrap();
    }
    tx.offer(SIZE as u16);
    assert!(rx.await_used(SIZE as u16), "{}", said(&testpmd));

    frontend.health().unwrap();
    testpmd.quit();
    assert!(matches!(frontend.health(), Err(Error::HungUp { .. })), "{:?}", frontend.health());
}
