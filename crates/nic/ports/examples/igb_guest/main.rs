//! Looks at the igb driver on two 82576s joined by a cable, as QEMU has them, and
//! says `LAB: ok …` or `LAB: fail …` for each thing. Run in a guest of the lab as
//! `igb_guest 0000:01:00.0 0000:02:00.0`, both bound to vfio-pci; with `fwd` before
//! them it forwards what the host sends, until nothing comes any more; with `vf` they
//! are virtual functions of two cards, with `vf-reset` one waits for its reset (`vf.rs`).
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "frames in tunnels are for the tests of other chips")]
#[path = "../../../../sim/testbed/tests/it/common/frames.rs"]
mod frames;
mod vf;

use port::{Completion, Counter, Filters, Link, Options, Port, Rss, RxQueue as _, RxStats, TxQueue as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use driver::igb::{self, Igb};
use frames::Sums;
use memory::{Batch, Checksum, Dma, Packet, PacketType, Pool, TxOffload};

/// The driver that is looked at.
static DRIVER: OnceLock<&str> = OnceLock::new();

/// A port of such a driver.
trait Device: Port + Filters + Sized {
    const NAME: &'static str;
    /// Counters of what was sent, and of what has come at the other end.
    const COUNTERS: &'static [(&'static str, &'static str)];
    /// Receive queues with interrupts.
    const SLEEPERS: usize;
    type Rx: port::RxQueue;
    type Tx: port::TxQueue;

    #[expect(clippy::type_complexity, reason = "it is a port and its queues")]
    fn bring_up(
        pci: bus::Pci,
        dma: &Dma,
        options: Options,
    ) -> driver::Result<(Self, Vec<Self::Rx>, Vec<Self::Tx>)>;
}

impl Device for Igb {
    const NAME: &'static str = igb::NAME;
    const COUNTERS: &'static [(&'static str, &'static str)] =
        &[("GPTC", "GPRC"), ("GOTC", "GORC"), ("TPT", "TPR")];
    const SLEEPERS: usize = 2;
    type Rx = igb::RxQueue;
    type Tx = igb::TxQueue;

    fn bring_up(
        pci: bus::Pci,
        dma: &Dma,
        options: Options,
    ) -> driver::Result<(Igb, Vec<igb::RxQueue>, Vec<igb::TxQueue>)> {
        Ok(Igb::open(pci, dma, options)?.split())
    }
}

/// A port and its queues.
struct Side<D: Device> {
    port: D,
    rx: Vec<D::Rx>,
    tx: Vec<D::Tx>,
}

/// Two ports on a cable, and their memory.
struct Bench<D: Device> {
    sides: Vec<Side<D>>,
    pool: Pool,
}

/// Whom side `n` receives frames for, besides other addresses.
const ADDRESSES: [[u8; 6]; 2] = [frames::FROM, frames::TO];

/// A frame of so many bytes for one side.
fn for_side(n: usize, len: usize) -> Vec<u8> {
    let mut frame = frames::payload(len);
    frame[..6].copy_from_slice(&ADDRESSES[n]);
    frame[6..12].copy_from_slice(&ADDRESSES[1 - n]);
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    frame
}

impl<D: Device> Bench<D> {
    fn new(names: &[String], options: &Options) -> Bench<D> {
        let dma = Dma::new(memory::Options::default());
        let open = |name: &String| {
            let pci = bus::Pci::open_address(name.parse().unwrap()).unwrap();
            let (port, rx, tx) = D::bring_up(pci, &dma, options.clone()).unwrap();
            Side { port, rx, tx }
        };
        let sides = names.iter().map(open).collect();
        let mut bench = Bench { sides, pool: Pool::new(&dma, 8192).unwrap() };
        bench.recv_for(0, 0, 1, Duration::ZERO); // gives the rings their buffers
        bench.recv_for(1, 0, 1, Duration::ZERO);
        bench
    }

    /// Sends a frame, in several buffers if it is long.
    fn send(&mut self, from: usize, frame: &[u8], offload: TxOffload) {
        let pool = &mut self.pool;
        let mut pieces = frame.chunks(memory::DATA_ROOM).map(|piece| {
            let mut packet = pool.alloc().unwrap();
            packet.copy_from(piece).unwrap();
            packet
        });
        let mut packet = pieces.next().unwrap();
        pieces.for_each(|piece| packet.append(piece));
        packet.set_tx_offload(offload);
        let mut batch = Batch::default();
        batch.push(packet);
        let start = Instant::now();
        while self.sides[from].tx[0].send(&mut self.pool, &mut batch) == 0 {
            assert!(start.elapsed() < Duration::from_secs(30), "the ring stays full");
        }
    }

    /// Receives from every queue until there are `wanted`: queue and packet.
    fn recv_for(&mut self, at: usize, wanted: usize, rounds: usize, limit: Duration) -> Vec<(usize, Packet)> {
        let (start, mut found, mut n) = (Instant::now(), Vec::new(), 0);
        while n < rounds || (found.len() < wanted && start.elapsed() < limit) {
            n += 1;
            for (queue, rx) in self.sides[at].rx.iter_mut().enumerate() {
                let mut batch = Batch::default();
                rx.recv(&mut self.pool, &mut batch);
                found.extend(batch.drain().map(|packet| (queue, packet)));
            }
        }
        found
    }

    fn recv(&mut self, at: usize, wanted: usize) -> Vec<(usize, Packet)> {
        self.recv_for(at, wanted, 0, Duration::from_secs(30))
    }

    /// What arrives although it should not: looked for some time.
    fn none(&mut self, at: usize) -> bool {
        let more = self.recv_for(at, 1, 0, Duration::from_millis(200));
        more.is_empty()
    }

    fn one(&mut self, frame: &[u8], offload: TxOffload) -> Option<Packet> {
        self.send(0, frame, offload);
        self.recv(1, 1).pop().map(|(_, packet)| packet)
    }
}

fn bytes(packet: &Packet) -> Vec<u8> {
    packet.segments().flat_map(|segment| segment.to_vec()).collect()
}

fn say(name: &str, good: bool, seen: impl std::fmt::Debug) {
    let driver = DRIVER.get().unwrap_or(&igb::NAME);
    match good {
        true => println!("LAB: ok {driver} {name}"),
        false => println!("LAB: fail {driver} {name}: {seen:?}"),
    }
}

fn value(counters: &[Counter], name: &str) -> u64 {
    counters.iter().find(|counter| counter.name == name).unwrap().value
}

fn plain<D: Device>(names: &[String]) {
    let mut bench = Bench::<D>::new(names, &Options::default());
    for side in &bench.sides {
        say("link", side.port.link() == Link::up(1_000), side.port.link());
        println!("{} {:02x?}", side.port.name(), side.port.mac());
    }
    say("addresses differ", bench.sides[0].port.mac() != bench.sides[1].port.mac(), ());
    let (mut good, count) = (0, 3_000);
    for n in 0..count {
        let (from, to) = (n & 1, (n + 1) & 1);
        let mut frame = for_side(to, 60 + n * 7 % 1455);
        frame[14..18].copy_from_slice(&(n as u32).to_be_bytes());
        bench.send(from, &frame, TxOffload::default());
        let came = bench.recv(to, 1);
        good += usize::from(came.len() == 1 && bytes(&came[0].1) == frame);
    }
    say("frames of all sizes both ways", good == count, good);
    let [sent, received] = [0, 1].map(|n| bench.sides[n].port.stats().counters);
    let pair = |(out, into): &(&str, &str)| (value(&sent, out), value(&received, into));
    let pairs: Vec<(u64, u64)> = D::COUNTERS.iter().map(pair).collect();
    say("counters", pairs.iter().all(|(out, into)| out == into && *out >= 1_500), pairs);
}

fn stops(names: &[String]) {
    let mut bench = Bench::<Igb>::new(names, &Options::default());
    bench.sides[1].port.stop().unwrap();
    bench.send(0, &frames::payload(60), TxOffload::default());
    say("stopped", bench.none(1), ());
    bench.sides[1].port.start().unwrap();
    say("started again", bench.one(&frames::payload(60), TxOffload::default()).is_some(), ());
}

fn bursts<D: Device>(names: &[String], completion: Completion) {
    let mut bench = Bench::<D>::new(names, &Options { completion, ..Options::default() });
    let (mut sent, mut received, mut lost) = (0u32, 0u32, 0);
    let (start, mut idle) = (Instant::now(), Instant::now());
    while idle.elapsed() < Duration::from_millis(500) && start.elapsed() < Duration::from_secs(3) {
        let mut batch = Batch::default();
        while sent < 100_000 && batch.room() > 0 && sent - received < 256 {
            let mut packet = bench.pool.alloc().unwrap();
            let mut frame = for_side(1, 60);
            frame[14..18].copy_from_slice(&sent.to_be_bytes());
            packet.copy_from(&frame).unwrap();
            batch.push(packet);
            sent += 1;
        }
        while !batch.is_empty() {
            bench.sides[0].tx[0].send(&mut bench.pool, &mut batch);
        }
        for (_, packet) in bench.recv_for(1, 0, 1, Duration::ZERO) {
            let number = u32::from_be_bytes(packet[14..18].try_into().unwrap());
            lost += number - received;
            received = number + 1;
            idle = Instant::now();
        }
    }
    let rate = f64::from(received) / start.elapsed().as_secs_f64();
    say(
        &format!("bursts in order, {completion:?}, {rate:.0} a second"),
        lost == 0 && received == sent,
        (sent, received, lost),
    );
    let left = bench.sides[0].tx[0].clean(&mut bench.pool);
    say("every buffer comes back", left <= 1, left);
}

fn checksums<D: Device>(names: &[String]) {
    let mut bench = Bench::<D>::new(names, &Options::default());
    let data = frames::payload(300);
    for (name, frame) in [
        ("UDP over IPv4", frames::udp4(&data, Sums::Full)),
        ("TCP over IPv4", frames::tcp4(&data, Sums::Full)),
        ("TCP over IPv6", frames::tcp6(&data, Sums::Full)),
    ] {
        let packet = bench.one(&frame, TxOffload::default()).unwrap();
        let v4 = frame[12] == 8;
        let ip = if v4 { Checksum::Good } else { Checksum::Unknown };
        let kind = if v4 { PacketType::IPV4 } else { PacketType::IPV6 };
        let seen = (packet.ip_checksum(), packet.l4_checksum(), packet.packet_type());
        say(&format!("{name}: good"), seen.0 == ip && seen.1 == Checksum::Good && seen.2.has(kind), seen);
        let mut bad = frame.clone();
        *bad.last_mut().unwrap() ^= 1;
        let packet = bench.one(&bad, TxOffload::default()).unwrap();
        let seen = (packet.ip_checksum(), packet.l4_checksum());
        say(&format!("{name}: bad"), seen == (ip, Checksum::Bad) && bytes(&packet) == bad, seen);
        if v4 {
            bad = frame.clone();
            bad[24] ^= 1;
            let packet = bench.one(&bad, TxOffload::default()).unwrap();
            say(&format!("{name}: bad header"), packet.ip_checksum() == Checksum::Bad, packet.rx_flags());
        }
    }
    let stats: RxStats = bench.sides[1].rx[0].stats();
    say("wrong checksums are delivered", stats.bad_descriptor == 0, stats);
    let base = TxOffload { l2_len: 14, l3_len: 20, l4_len: 20, ..TxOffload::default() };
    let v4 = TxOffload::IP_CHECKSUM;
    for (name, frame, flags, l3_len) in [
        ("UDP over IPv4", frames::udp4(&data, Sums::Pseudo), v4 | TxOffload::UDP_CHECKSUM, 20),
        ("TCP over IPv4", frames::tcp4(&data, Sums::Pseudo), v4 | TxOffload::TCP_CHECKSUM, 20),
        ("TCP over IPv6", frames::tcp6(&data, Sums::Pseudo), TxOffload::IPV6 | TxOffload::TCP_CHECKSUM, 40),
        ("UDP over IPv6", frames::udp6(&data, Sums::Pseudo), TxOffload::IPV6 | TxOffload::UDP_CHECKSUM, 40),
    ] {
        let came = bench.one(&frame, TxOffload { flags, l3_len, ..base }).unwrap();
        say(&format!("{name}: filled in"), frames::is_right(&came), &came[..54]);
    }
    let long = frames::payload(9_000);
    let flags = TxOffload::SEGMENT | v4 | TxOffload::TCP_CHECKSUM;
    bench.send(
        0,
        &frames::tcp4(&long, Sums::PseudoNoLength),
        TxOffload { flags, segment_size: 1_000, ..base },
    );
    let came = bench.recv(1, 9);
    let payload: Vec<u8> = came.iter().flat_map(|(_, packet)| packet[54..].to_vec()).collect();
    say("cut into segments", payload == long && came.iter().all(|(_, p)| frames::is_right(p)), came.len());
}

fn vlans(names: &[String]) {
    let frame = frames::udp4(&frames::payload(100), Sums::Full);
    let mut bench = Bench::<Igb>::new(names, &Options { vlan_strip: true, ..Options::default() });
    let insert = TxOffload { flags: TxOffload::VLAN, vlan: 0x2042, l2_len: 14, ..TxOffload::default() };
    let came = bench.one(&frame, insert).unwrap();
    say("tag inserted and stripped", came.vlan() == Some(0x2042) && bytes(&came) == frame, came.vlan());
    let came = bench.one(&frame, TxOffload::default()).unwrap();
    say("no tag, none told", came.vlan().is_none(), came.vlan());
    let port = &mut bench.sides[1].port;
    port.set_vlan_filter(true).unwrap();
    bench.send(0, &frame, insert);
    say("VLAN filtered", bench.none(1), ());
    bench.sides[1].port.set_vlan(0x42, true).unwrap();
    say("VLAN let through", bench.one(&frame, insert).is_some(), ());
    drop(bench);
    let mut bench = Bench::<Igb>::new(names, &Options::default());
    let came = bench.one(&frame, insert).unwrap();
    say("tag stays where nobody strips it", bytes(&came) == frames::tagged(&frame, 0x2042), bytes(&came));
}

fn jumbo<D: Device>(names: &[String]) {
    let mut bench = Bench::<D>::new(names, &Options { max_frame: 9_000, ..Options::default() });
    for len in [60, 2_047, 2_048, 2_049, 4_096, 8_999, 9_000] {
        let frame = for_side(1, len);
        let came = bench.one(&frame, TxOffload::default());
        let came = came.map(|packet| (packet.segments().count(), bytes(&packet) == frame));
        say(&format!("{len} bytes"), came == Some((len.div_ceil(memory::DATA_ROOM), true)), came);
    }
    bench.send(0, &for_side(1, 9_100), TxOffload::default());
    say("too long is dropped", bench.none(1), ());
}

/// Addresses of nobody, and of a group that nobody has joined.
const STRANGERS: [[u8; 6]; 2] = [[0x02, 0x49, 0x58, 1, 2, 3], [0x01, 0, 0x5E, 1, 2, 3]];

/// Whether a frame for an address passes the second side's filters.
fn passes<D: Device>(bench: &mut Bench<D>, mac: [u8; 6]) -> bool {
    let mut frame = frames::ethernet(mac, 0x88B5, &[1; 60]);
    frame[6..12].copy_from_slice(&ADDRESSES[0]);
    bench.send(0, &frame, TxOffload::default());
    !bench.none(1)
}

fn filters<D: Device>(names: &[String]) -> Bench<D> {
    let mut bench = Bench::<D>::new(names, &Options { promiscuous: false, ..Options::default() });
    let own = bench.sides[1].port.mac();
    let [other, group] = STRANGERS;
    say("own address", passes(&mut bench, own), ());
    say("broadcast", passes(&mut bench, [0xFF; 6]), ());
    say("another's address", !passes(&mut bench, other), ());
    say("a group nobody joined", !passes(&mut bench, group), ());
    bench.sides[1].port.add_mac(other).unwrap();
    bench.sides[1].port.add_mac(group).unwrap();
    say("second address", passes(&mut bench, other), ());
    say("group", passes(&mut bench, group), ());
    assert!(bench.sides[1].port.remove_mac(other).unwrap());
    assert!(bench.sides[1].port.remove_mac(group).unwrap());
    say("second address removed", !passes(&mut bench, other), ());
    say("group left", !passes(&mut bench, group), ());
    bench
}

fn modes(mut bench: Bench<Igb>) {
    let [other, group] = STRANGERS;
    bench.sides[1].port.set_all_multicast(true).unwrap();
    say("all multicast", passes(&mut bench, group) && !passes(&mut bench, other), ());
    bench.sides[1].port.set_promiscuous(true).unwrap();
    say("promiscuous", passes(&mut bench, other), ());
}

fn flows(names: &[String]) {
    let queues = 8;
    let mut bench =
        Bench::<Igb>::new(names, &Options { rx_queues: queues, tx_queues: 2, ..Options::default() });
    let toeplitz = wire::toeplitz::Toeplitz::new(&Rss::KEY);
    let (mut seen, mut wrong) = ([0; 8], Vec::new());
    for port in 0..64u16 {
        let mut frame = frames::udp4(&frames::payload(40), Sums::Full);
        frame[34..36].copy_from_slice(&(1_000 + port * 7).to_be_bytes());
        bench.send(0, &frame, TxOffload::default());
        let came = bench.recv(1, 1);
        let expected = toeplitz.hash(&frame[26..38]);
        let Some((queue, packet)) = came.first() else { continue };
        seen[*queue] += 1;
        if packet.hash() != Some(expected) || *queue != (expected & 127) as usize % queues {
            wrong.push((*queue, packet.hash(), expected));
        }
    }
    say("flows spread, hash and queue right", wrong.is_empty() && seen.iter().all(|n| *n > 0), (seen, wrong));
    // A queue that goes leaves its flows to the others.
    bench.sides[1].rx.truncate(4);
    let mut came = 0;
    for port in 0..64u16 {
        let mut frame = frames::udp4(&frames::payload(40), Sums::Full);
        frame[34..36].copy_from_slice(&(1_000 + port * 7).to_be_bytes());
        bench.send(0, &frame, TxOffload::default());
        came += bench.recv(1, 1).len();
    }
    say("flows of queues that went", came == 64, came);
}

fn readable(fd: impl AsFd, limit_ms: i64) -> bool {
    let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: limit_ms / 1000, tv_nsec: limit_ms % 1000 * 1_000_000 };
    rustix::event::poll(&mut fds, Some(&limit)).unwrap() == 1
}

fn interrupts<D: Device>(names: &[String]) {
    let options = Options { interrupts: true, rx_queues: D::SLEEPERS, ..Options::default() };
    let mut bench = Bench::<D>::new(names, &options);
    let arm =
        |bench: &mut Bench<D>, queue: usize, limit| readable(bench.sides[1].rx[queue].arm().unwrap(), limit);
    say("quiet when nothing comes", !arm(&mut bench, 0, 100), ());
    let frame = frames::ethernet(frames::TO, 0x88B5, &[0; 60]);
    for n in 0..3 {
        bench.send(0, &frame, TxOffload::default());
        say("wakes", arm(&mut bench, 0, 2_000), n);
        bench.sides[1].rx[0].disarm();
        say("and there it is", bench.recv(1, 1).len() == 1, n);
    }
    for other in 1..D::SLEEPERS {
        say("the other queue slept", !arm(&mut bench, other, 100), ());
    }
    let failed = D::bring_up(
        bus::Pci::open_address(names[0].parse().unwrap()).unwrap(),
        &Dma::new(memory::Options::default()),
        Options { interrupts: true, rx_queues: 16, ..Options::default() },
    );
    println!("more queues than vectors, or in use: {:?}", failed.err().map(|error| error.to_string()));
}

/// One direction: takes from one port, gives to the other, until nothing has come
/// for three seconds. What it says at the end, the host compares with its own count.
fn forward(mut rx: Box<dyn port::RxQueue>, mut tx: Box<dyn port::TxQueue>, mut pool: Pool, name: &str) {
    let (mut last, mut batch) = (None, Batch::default());
    while last.is_none_or(|last: Instant| last.elapsed() < Duration::from_secs(3)) {
        if rx.recv(&mut pool, &mut batch) > 0 {
            last = Some(Instant::now());
        }
        tx.send(&mut pool, &mut batch);
        pool.free_batch(&mut batch);
    }
    let (rx, tx) = (rx.stats(), tx.stats());
    println!("FORWARD {name} {} {} {}", rx.packets, tx.packets, tx.ring_full);
    println!("{rx:?} {tx:?}");
}

fn forwarder(names: &[String]) {
    let dma = Dma::new(memory::Options::default());
    let mut ports: Vec<_> = names
        .iter()
        .map(|name| {
            let pci = bus::Pci::open_address(name.parse().unwrap()).unwrap();
            ports::open(pci, &dma, Options::default()).unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for (from, to, name) in [(0, 1, "there"), (1, 0, "back")] {
            let (rx, tx) = (ports[from].rx_queue(0).unwrap(), ports[to].tx_queue(0).unwrap());
            let pool = Pool::new(&dma, 4096).unwrap();
            scope.spawn(move || forward(rx, tx, pool, name));
        }
        println!("LAB: ready");
    });
    for port in &mut ports {
        let stats = port.stats();
        let losses: Vec<_> = stats.losses().collect();
        println!("{}: {} in, {} out, {losses:?}", port.name(), stats.rx_packets, stats.tx_packets);
        say("no loss in the device", losses.is_empty(), losses);
    }
}

/// What every driver here does.
fn everywhere<D: Device>(names: &[String]) {
    DRIVER.set(D::NAME).unwrap();
    plain::<D>(names);
    bursts::<D>(names, Completion::Report);
    bursts::<D>(names, Completion::Head);
    checksums::<D>(names);
    jumbo::<D>(names);
    interrupts::<D>(names);
}

fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    match names[0].as_str() {
        "fwd" => return forwarder(&names.split_off(1)),
        "vf" => return vf::features(&names.split_off(1)),
        "vf-reset" => return vf::reset(&names.split_off(1)),
        _ => {}
    }
    everywhere::<Igb>(&names);
    stops(&names);
    vlans(&names);
    modes(filters(&names));
    flows(&names);
}
