//! A device that writes where nobody told it to: over all the memory that it was given,
//! while the driver and the application hold packets in it. What is in the packets is
//! then the device's; where they are, how long they are and whose, is not.

use std::collections::BTreeSet;
use std::ptr;
use std::sync::{Arc, Mutex};

use crate::common::between::{Between, in_front_of};
use crate::common::virtio::{RINGS, offer};
use crate::common::{frames, virtio};
use bus::{DmaRange, Mapping, Pci, Result};
use memory::annotation::Header;
use memory::{Dma, Packet, Pool, RxFlags, TxOffload};
use port::Options;
use testbed::inprocess::{Handle, InProcess, while_stepping};

/// More than small regions take, so that buffers have memory of their own.
const BUFFERS: usize = 4096;

/// In front of a model: knows all memory that the device can reach, through files as a
/// device in another process does.
#[derive(Debug, Default)]
struct Intruder {
    reach: Mutex<Vec<(u64, Mapping)>>,
}

impl Between for Intruder {
    fn map_dma(&self, inner: &Pci, range: &DmaRange<'_>) -> Result<()> {
        let mapping = Mapping::new(range.fd().unwrap(), range.fd_offset(), range.len())?;
        self.reach.lock().unwrap().push((range.iova(), mapping));
        inner.map_dma(range)
    }

    fn unmap_dma(&self, inner: &Pci, iova: u64, len: usize) -> Result<()> {
        self.reach.lock().unwrap().retain(|(start, _)| *start != iova);
        inner.unmap_dma(iova, len)
    }
}

impl Intruder {
    /// Writes over every byte of the memory in which an address is, or of all there is.
    fn overwrite(&self, at: Option<u64>, with: u8) {
        let reach = self.reach.lock().unwrap();
        let mut written = 0;
        for (iova, mapping) in reach.iter() {
            if at.is_none_or(|at| (*iova..iova + mapping.len() as u64).contains(&at)) {
                // SAFETY: all of a mapping of our own, of memory that is shared with
                // devices; no slice of it is borrowed in this thread, the only one.
                unsafe { ptr::write_bytes(mapping.base(), with, mapping.len()) };
                written += mapping.len();
            }
        }
        assert!(written >= BUFFERS * memory::DATA_ROOM, "{written} bytes, not all buffers");
    }
}

/// Two ports joined by a cable, whatever their driver.
trait Ports {
    fn pool(&mut self) -> &mut Pool;
    fn run(&self);
    fn send(&mut self, from: usize, frame: &[u8]);
    fn recv(&mut self, at: usize) -> Vec<Packet>;
    /// Closes the ports; the pool that is left.
    fn close(self) -> Pool;
}

impl Ports for crate::common::Bench {
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }
    fn run(&self) {
        self.run_until_idle();
    }
    fn send(&mut self, from: usize, frame: &[u8]) {
        self.send(from, frame, TxOffload::default());
    }
    fn recv(&mut self, at: usize) -> Vec<Packet> {
        self.recv(at)
    }
    fn close(self) -> Pool {
        let crate::common::Bench { pcis: _held, sides, handles, pool, .. } = self;
        while_stepping(&handles, || drop(sides)).unwrap();
        pool
    }
}

impl Ports for virtio::Bench {
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }
    fn run(&self) {
        self.run_until_idle();
    }
    fn send(&mut self, from: usize, frame: &[u8]) {
        self.try_send(from, 0, frame, TxOffload::default());
    }
    fn recv(&mut self, at: usize) -> Vec<Packet> {
        self.recv(at)
    }
    fn close(self) -> Pool {
        let virtio::Bench { pcis: _held, sides, handles, pool, .. } = self;
        while_stepping(&handles, || drop(sides)).unwrap();
        pool
    }
}

/// Puts the intruder in front of every device.
fn intruded((pcis, handles): (Vec<Pci>, Vec<Handle>)) -> ((Vec<Pci>, Vec<Handle>), Arc<Intruder>) {
    let intruder = Arc::new(Intruder::default());
    // One is enough: all memory is given to both. The other's mapping would be the same.
    let mut pcis = pcis.into_iter();
    let first = in_front_of(pcis.next().unwrap(), intruder.clone());
    (([first].into_iter().chain(pcis).collect(), handles), intruder)
}

fn of_82599() -> (impl Ports, Arc<Intruder>) {
    let (devices, intruder) = intruded(crate::common::devices(&["pair", "pair"]));
    (crate::common::Bench::over(devices, &Options::default(), BUFFERS), intruder)
}

fn of_virtio(ring: u64) -> (impl Ports, Arc<Intruder>) {
    let devices = virtio::devices(&["pair", "pair"], &virtio::model(offer(ring, 0)), None);
    let ((pcis, handles), intruder) = intruded(devices.into_iter().map(InProcess::new).unzip());
    let dma = Dma::new(Default::default());
    let pool = Pool::new(&dma, BUFFERS).unwrap();
    let mut bench = virtio::Bench { pcis, sides: Vec::new(), handles, dma, pool };
    for at in 0..2 {
        let side = bench.reopen(at, &virtio::small_rings());
        bench.sides.push(side);
    }
    (bench, intruder)
}

/// Frames that differ from each other.
fn some(from: usize) -> Vec<Vec<u8>> {
    let payload = |n: usize| [&[n as u8; 4][..], &frames::payload(40 + n % 1000)].concat();
    (from..from + 16).map(|n| frames::ethernet([0xFF; 6], 0x88B5, &payload(n))).collect()
}

/// All that a driver or an application knows of a packet beside its bytes.
fn beside(packet: &Packet) -> impl PartialEq + std::fmt::Debug + use<> {
    let of = |packet: &Packet| {
        let received = (packet.rx_flags(), packet.packet_type(), packet.hash(), packet.vlan());
        let place = (packet.iova(), packet.as_ptr(), packet.len(), packet.headroom());
        (received, place, packet.tx_offload(), packet.user(), *packet.annotations())
    };
    packet.segments().map(of).collect::<Vec<_>>()
}

/// Where the buffers of packets begin; no buffer may come twice.
fn places<'a>(packets: impl IntoIterator<Item = &'a Packet>) -> BTreeSet<u64> {
    let mut places = BTreeSet::new();
    for segment in packets.into_iter().flat_map(Packet::segments) {
        assert!(places.insert(segment.rx_iova()), "two packets in the buffer at {:#x}", segment.rx_iova());
    }
    places
}

/// All buffers of a pool that has them all.
fn buffers(pool: &mut Pool) -> BTreeSet<u64> {
    assert_eq!(pool.available(), BUFFERS, "every buffer is back");
    let all: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    places(&all)
}

/// Received packets of which an application noted something, some of them in a chain.
fn held(ports: &mut impl Ports) -> Vec<Packet> {
    some(0).iter().for_each(|frame| ports.send(0, frame));
    ports.run();
    let mut held = ports.recv(1);
    assert_eq!(held.len(), 16);
    for (n, packet) in held.iter_mut().enumerate() {
        packet.clear_annotations();
        packet.set_user(n as u64 + 1);
        packet.set_header(Header::Network, 14);
        packet.annotations_mut().timestamp_ns = n as i64;
        packet.set_tx_offload(TxOffload { vlan: n as u16, ..TxOffload::default() });
        packet.pull_front(n % 4).unwrap();
    }
    let (second, third) = (held.pop().unwrap(), held.pop().unwrap());
    held[0].append(second);
    held[0].append(third);
    held
}

/// Buffers everywhere: with the application, in receive rings, received, in transmit
/// rings, on their way back from another thread, free. Then all bytes are overwritten.
fn overwritten(ports: &mut impl Ports, intruder: &Intruder, with: u8, rings_too: bool) {
    let held = held(ports);
    let before: Vec<_> = held.iter().map(beside).collect();
    some(20).iter().for_each(|frame| ports.send(0, frame));
    ports.run(); // received, and not yet taken
    some(40).iter().for_each(|frame| ports.send(1, frame)); // not yet sent
    let dropped: Vec<Packet> = (0..8).map(|_| ports.pool().alloc().unwrap()).collect();
    std::thread::spawn(move || drop(dropped)).join().unwrap();

    let at = held[0].iova();
    intruder.overwrite((!rings_too).then_some(at), with);
    assert_eq!(held.iter().map(beside).collect::<Vec<_>>(), before, "what stands beside the bytes");
    for segment in held.iter().flat_map(Packet::segments) {
        assert!(segment.iter().all(|&byte| byte == with), "the bytes are the device's");
        let stripped = (segment.user() - 1) as usize % 4;
        assert_eq!(segment.header(Header::Network).unwrap().len() + 14, segment.len() + stripped);
    }
    let mut taken = held;
    for at in [0, 1] {
        ports.run();
        taken.extend(ports.recv(at));
    }
    places(&taken);
    taken.into_iter().for_each(|packet| ports.pool().free(packet));
}

/// Frames cross, both ways.
fn works(ports: &mut impl Ports) {
    for (from, to) in [(0, 1), (1, 0)] {
        for round in 0..40 {
            let sent = some(round * 16);
            sent.iter().for_each(|frame| ports.send(from, frame));
            ports.run();
            let got = ports.recv(to);
            assert_eq!(got.iter().map(crate::common::contents).collect::<Vec<_>>(), sent);
            assert!(got.iter().all(|packet| packet.user() == 0 && packet.rx_flags().0 & RxFlags::VLAN == 0));
        }
    }
}

/// Buffers are overwritten time and again; the ports work on, and no buffer is lost.
fn buffers_are_overwritten((mut ports, intruder): (impl Ports, Arc<Intruder>)) {
    for with in [0, 0xFF, 0xA5, 0x08] {
        overwritten(&mut ports, &intruder, with, false);
        works(&mut ports);
    }
    let mut pool = ports.close();
    assert_eq!(buffers(&mut pool).len(), BUFFERS);
}

/// Likewise the rings: the ports may stop, but no buffer is lost or used twice.
fn all_is_overwritten<P: Ports>(open: impl Fn() -> (P, Arc<Intruder>)) {
    for with in [0, 0xFF, 0xA5, 0x08] {
        let (mut ports, intruder) = open();
        overwritten(&mut ports, &intruder, with, true);
        let mut pool = ports.close();
        assert_eq!(buffers(&mut pool).len(), BUFFERS);
    }
}

#[test]
fn the_82599s_driver_works_on_over_memory_that_was_overwritten() {
    buffers_are_overwritten(of_82599());
}

#[test]
fn the_virtio_driver_works_on_over_memory_that_was_overwritten() {
    for (_, ring) in RINGS {
        buffers_are_overwritten(of_virtio(ring));
    }
}

#[test]
fn no_buffer_is_lost_or_used_twice_when_rings_are_overwritten_too() {
    all_is_overwritten(of_82599);
    for (_, ring) in RINGS {
        all_is_overwritten(|| of_virtio(ring));
    }
}
