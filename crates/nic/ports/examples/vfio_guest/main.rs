//! Looks at a driver on two NICs joined by a cable, and says `LAB: ok …` or `LAB: fail …` for
//! each thing. Run in a guest of the lab as `vfio_guest DRIVER 0000:01:00.0 0000:02:00.0`, both
//! bound to vfio-pci: `igb` (`igb.rs`) and `igbvf` (`igbvf.rs`) on what QEMU has, the others on our
//! models. `DRIVER-reset` of a virtual function waits for its reset by its host (`reset.rs`).
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "frames in tunnels are for the tests of other chips")]
#[path = "../../../../sim/testbed/tests/it/common/frames.rs"]
mod frames;
mod igb;
mod igbvf;
mod reset;

use port::{Completion, Counter, Filters, Link, Options, Port, RxQueue as _, RxStats, TxQueue as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use frames::Sums;
use memory::{Batch, Checksum, Dma, Packet, PacketType, Pool, TxOffload};

/// The driver that is looked at.
static DRIVER: OnceLock<&str> = OnceLock::new();

/// A port of such a driver.
trait Device: Port + Filters + Sized {
    const NAME: &'static str;
    /// Counters of what was sent, and of the same that has come at the other end.
    const COUNTERS: &'static [(&'static str, &'static str)];
    /// Receive queues with interrupts.
    const SLEEPERS: usize;
    /// The speed of its link, Mbit/s.
    const SPEED: u32;
    type Rx: port::RxQueue;
    type Tx: port::TxQueue;

    #[expect(clippy::type_complexity, reason = "it is a port and its queues")]
    fn bring_up(
        pci: bus::Pci,
        dma: &Dma,
        options: Options,
    ) -> driver::Result<(Self, Vec<Self::Rx>, Vec<Self::Tx>)>;
}

/// Drivers, their counters, queues that sleep, and the speed of their links, Mbit/s.
macro_rules! devices {
    ($($name:ident::$port:ident $sleepers:literal $speed:literal $counters:expr;)*) => {$(
        impl Device for driver::$name::$port {
            const NAME: &'static str = driver::$name::NAME;
            const COUNTERS: &'static [(&'static str, &'static str)] = &$counters;
            const SLEEPERS: usize = $sleepers;
            const SPEED: u32 = $speed;
            type Rx = driver::$name::RxQueue;
            type Tx = driver::$name::TxQueue;

            fn bring_up(
                pci: bus::Pci,
                dma: &Dma,
                options: Options,
            ) -> driver::Result<(Self, Vec<Self::Rx>, Vec<Self::Tx>)> {
                Ok(Self::open(pci, dma, options)?.split())
            }
        }
    )*};
}

devices! {
    igb::Igb 2 1_000 [("GPTC", "GPRC"), ("GOTC", "GORC"), ("TPT", "TPR")];
    igbvf::Igbvf 1 1_000 [("VFGPTC", "VFGPRC"), ("VFGOTC", "VFGORC")];
    ixgbe::Ixgbe 2 10_000 [("GPTC", "GPRC"), ("GOTC", "GORC")];
    ixgbevf::Ixgbevf 2 10_000 [("VFGPTC", "VFGPRC"), ("VFGOTC", "VFGORC")];
    i40e::I40e 2 40_000 [("PTC", "PRC"), ("GOTC", "GORC")];
    // Of a virtual function's bytes the card counts checksums of what came alone.
    iavf::Iavf 2 40_000 [("PTC", "PRC")];
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
    let driver = DRIVER.get().unwrap_or(&"?");
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
        say("link", side.port.link() == Link::up(D::SPEED), side.port.link());
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

fn bursts<D: Device>(names: &[String], completion: Completion) {
    let mut bench = Bench::<D>::new(names, &Options { completion, ..Options::default() });
    let (mut sent, mut received, mut lost) = (0u32, 0u32, 0);
    let (start, mut idle) = (Instant::now(), Instant::now());
    while idle.elapsed() < Duration::from_millis(500) {
        let mut batch = Batch::default();
        let sends = sent < 100_000 && start.elapsed() < Duration::from_secs(2);
        while sends && batch.room() > 0 && sent - received < 256 {
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
}

/// A device that is open is not reset by this process.
fn opened_once<D: Device>(names: &[String]) {
    let _bench = Bench::<D>::new(names, &Options::default());
    let again = bus::Pci::open_address(names[0].parse().unwrap()).map_err(|error| error.to_string());
    let refused = again.as_ref().is_err_and(|error| error.contains("this process has the device open"));
    say("opened once at a time", refused, again);
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
    opened_once::<D>(names);
}

/// What those of our models do.
fn modelled<D: Device>(names: &[String]) {
    everywhere::<D>(names);
    filters::<D>(names);
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (driver, names) = words.split_first().unwrap();
    match driver.as_str() {
        driver::igb::NAME => igb::features(names),
        driver::igbvf::NAME => igbvf::features(names),
        "igbvf-reset" => reset::reset::<driver::igbvf::Igbvf>(names),
        "ixgbevf-reset" => reset::reset::<driver::ixgbevf::Ixgbevf>(names),
        "iavf-reset" => reset::reset::<driver::iavf::Iavf>(names),
        driver::ixgbe::NAME => modelled::<driver::ixgbe::Ixgbe>(names),
        driver::ixgbevf::NAME => modelled::<driver::ixgbevf::Ixgbevf>(names),
        driver::i40e::NAME => modelled::<driver::i40e::I40e>(names),
        driver::iavf::NAME => modelled::<driver::iavf::Iavf>(names),
        other => say("driver", false, other),
    }
}
