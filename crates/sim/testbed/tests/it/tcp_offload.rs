//! Our TCP over our driver on two models: what the stack leaves to the NIC arrives right.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::Bench;
use crate::common::limit::Limit;
use crate::common::virtio::{Bench as VirtioBench, model, offer};
use memory::{Batch, Packet, Pool};
use port::{Capabilities, Options, Port as _, RxQueue, TxQueue};
use regs::virtio::feature;
use runtime::{Instant, Poller as _, Queue};
use tcp::{
    Addresses, Datagram, Datagrams, Echo, Event, Host, Id, Io, Neighbors, Offload, Service, Stack, Udp,
};
use testbed::inprocess::Handle;
use wire::MacAddress;

const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const HOSTS_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 2)];
const PORT: u16 = 9;
const BYTES: usize = 1_000_000;
/// How much of the time of both hosts a turn of each takes.
const ROUND: Duration = Duration::from_micros(10);

fn byte(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

/// Sends, or checks what comes.
struct Stream {
    /// This end and the other, of the one that opens the connection.
    ends: Option<(IpAddr, IpAddr)>,
    id: Option<Id>,
    done: Arc<AtomicUsize>,
}

impl Stream {
    fn fill(&mut self, stack: &mut Stack, io: &mut Io) {
        let Some(id) = self.id.filter(|_| self.ends.is_some()) else { return };
        loop {
            let at = self.done.load(Ordering::Relaxed);
            let bytes: Vec<u8> = (at..BYTES.min(at + 10_000)).map(byte).collect();
            match stack.write(id, &bytes, io).unwrap() {
                0 => return,
                written => _ = self.done.fetch_add(written, Ordering::Relaxed),
            }
        }
    }

    fn check(&mut self, id: Id, packet: Packet, stack: &mut Stack, io: &mut Io) {
        let at = self.done.fetch_add(packet.len(), Ordering::Relaxed);
        let is_right = packet.iter().enumerate().all(|(n, got)| *got == byte(at + n));
        assert!(is_right, "{} bytes from {at} on", packet.len());
        stack.consume(id, packet.len(), io).unwrap();
        io.pool.free(packet);
    }
}

impl Service for Stream {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        if let Some((local, remote)) = self.ends {
            self.id = Some(stack.connect(local, (remote, PORT), io).unwrap());
        }
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Received { connection, packet } => self.check(connection, packet, stack, io),
                Event::Connected { .. } | Event::Sent { .. } => self.fill(stack, io),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A port's Ethernet address and a pair of its queues.
type Queues = ([u8; 6], Box<dyn RxQueue>, Box<dyn TxQueue>);

/// The first pair of queues of both ports of a bench.
fn queues(bench: &mut Bench) -> [Queues; 2] {
    [0, 1].map(|n| {
        let side = &mut bench.sides[n];
        (side.device.mac(), Box::new(side.rx.remove(0)) as _, Box::new(side.tx.remove(0)) as _)
    })
}

/// Two hosts on these queues, the first of which sends to the second.
fn hosts(queues: [Queues; 2], is_v6: bool, offload: Offload) -> ([Host; 2], [Arc<AtomicUsize>; 2]) {
    let done = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let mut n = 0;
    let hosts = queues.map(|(mac, rx, tx)| {
        let addresses = Addresses {
            mac: MacAddress(mac),
            v4: Some((HOSTS[n], 24)),
            v6: Some((HOSTS_V6[n], 64)),
            gateways: (None, None),
        };
        let ends = match is_v6 {
            true => (HOSTS_V6[0].into(), HOSTS_V6[1].into()),
            false => (HOSTS[0].into(), HOSTS[1].into()),
        };
        let service = Stream { ends: (n == 0).then_some(ends), id: None, done: done[n].clone() };
        let options = tcp::Options { key: [1, n as u64], offload, ..tcp::Options::default() };
        let mut host =
            Host::new((rx, tx), addresses, &Neighbors::default(), options, Box::new(service), 2048);
        host.stack().listen(PORT);
        n += 1;
        host
    });
    (hosts, done)
}

fn count(host: &Host, name: &str) -> u64 {
    host.counters().iter().find(|counter| counter.name == name).unwrap().value
}

/// What a transfer took: segments that the stack sent and sent again, packets that the driver
/// was given, and frames that the wire had.
struct Took {
    segments: u64,
    again: u64,
    packets: u64,
    frames: u64,
}

/// Sends a megabyte over a pair of 82599s.
fn transfer(is_v6: bool, offload: impl FnOnce(&Capabilities) -> Offload) -> Took {
    let mut bench = Bench::with_pool(&["pair", "pair"], &Options::default(), 8192);
    let offload = offload(&bench.sides[0].device.capabilities());
    let pool = std::mem::replace(&mut bench.pool, Pool::new(&bench.dma, 8).unwrap());
    let hosts = hosts(queues(&mut bench), is_v6, offload);
    transfer_between(hosts, &bench.handles, pool)
}

/// Sends a megabyte over a pair of virtio devices that lack some features, and what the sender
/// leaves to its device.
fn transfer_over_virtio(without: u64, max_frame: usize, is_v6: bool) -> (Took, Offload) {
    let model = model(offer(0, without));
    let options = Options { max_frame, tx_checksum: port::Offload::On, ..Options::default() };
    let mut bench = VirtioBench::with_faults(&["pair", "pair"], &model, &options, None, 8192);
    let offload = Offload::from(&bench.sides[0].device.capabilities());
    let pool = std::mem::replace(&mut bench.pool, Pool::new(&bench.dma, 8).unwrap());
    let queues = [0, 1].map(|n| {
        let side = &mut bench.sides[n];
        (side.device.mac(), Box::new(side.rx.remove(0)) as _, Box::new(side.tx.remove(0)) as _)
    });
    (transfer_between(hosts(queues, is_v6, offload), &bench.handles, pool), offload)
}

/// Sends a megabyte from the first host to the second.
fn transfer_between(
    (mut hosts, done): ([Host; 2], [Arc<AtomicUsize>; 2]),
    handles: &[Handle],
    mut pool: Pool,
) -> Took {
    let mut limit = Limit::rounds(1_000_000, "a megabyte to cross the wire");
    let mut batch = Batch::with_limit(64);
    // Of its own, so that nothing is sent again because the machine had other things to do.
    let mut now = Instant::now();
    while done[1].load(Ordering::Relaxed) < BYTES {
        limit.check();
        now = now + ROUND;
        for host in &mut hosts {
            host.turn(now, &mut pool, &mut batch);
        }
        handles.iter().for_each(|handle| _ = handle.step_now());
    }
    assert_eq!(count(&hosts[1], "rx_tcp_checksum"), 0);
    let mut took = Took {
        segments: count(&hosts[0], "tcp_segments_sent"),
        again: count(&hosts[0], "tcp_segments_resent"),
        packets: 0,
        frames: handles[0].report().counters["tx_packets"],
    };
    hosts[0].queues(&mut |queue| {
        if let Queue::Tx(queue) = queue {
            assert_eq!(queue.stats().unsendable, 0);
            took.packets = queue.stats().packets;
        }
    });
    for host in &mut hosts {
        host.stack().clear(&mut Io { now_ns: 0, pool: &mut pool, out: &mut Batch::default() });
    }
    testbed::inprocess::while_stepping(handles, || drop(hosts)).unwrap();
    took
}

#[test]
fn checksums_are_left_to_the_nic() {
    for is_v6 in [false, true] {
        let took = transfer(is_v6, |can| {
            assert!(Offload::from(can).checksum, "the 82599 has it, and it is on by default");
            Offload { checksum: true, buffers: 0 }
        });
        assert!(took.segments >= (BYTES / 1460) as u64 && took.packets >= took.segments);
    }
}

/// A packet of many segments is one to the driver and many on the wire.
#[test]
fn segments_are_cut_by_the_nic() {
    for is_v6 in [false, true] {
        let took = transfer(is_v6, |can| {
            let offload = Offload::from(can);
            assert!(offload.buffers > 8, "{offload:?}");
            offload
        });
        assert_eq!(took.again, 0, "nothing was lost");
        assert!(took.segments >= (BYTES / 1460) as u64 && took.frames >= took.segments);
        assert!(4 * took.packets < took.segments, "{} for {}", took.packets, took.segments);
    }
}

/// Without tables of descriptors a queue sends as many buffers in one packet as its longest
/// frame needs, and large packets have no more than that.
#[test]
fn large_packets_have_no_more_buffers_than_a_virtio_queue_sends() {
    for (without, max_frame, buffers) in
        [(0, 1514, 33), (feature::INDIRECT_DESC, 9014, 5), (feature::INDIRECT_DESC, 1514, 0)]
    {
        for is_v6 in [false, true] {
            let (took, offload) = transfer_over_virtio(without, max_frame, is_v6);
            assert_eq!((took.again, offload.buffers), (0, buffers));
            assert_eq!(2 * took.packets < took.segments, buffers > 0);
        }
    }
}

/// A device that cuts packets of one version of IP is asked to cut none.
#[test]
fn large_packets_are_cut_over_both_versions_or_none() {
    for without in [feature::net::HOST_TSO4, feature::net::HOST_TSO6] {
        for is_v6 in [false, true] {
            let (took, offload) = transfer_over_virtio(without, 1514, is_v6);
            assert_eq!((took.again, offload.buffers), (0, 0));
        }
    }
}

/// Asks an echo service, and checks what comes back.
struct Asks {
    is_v6: bool,
    back: Arc<AtomicUsize>,
}

impl Datagrams for Asks {
    fn begin(&mut self, udp: &mut Udp, io: &mut Io) {
        let [own, other] = match self.is_v6 {
            true => HOSTS_V6.map(IpAddr::from),
            false => HOSTS.map(IpAddr::from),
        };
        udp.bind(5000);
        for len in [0, 1, 333, 1400] {
            let mut packet = io.pool.alloc().unwrap();
            packet.copy_from(&(0..len).map(byte).collect::<Vec<_>>()).unwrap();
            udp.send((own, 5000), (other, PORT), packet, io).unwrap();
        }
        // In fragments, for which there are no checksums of the NIC's.
        let bytes: Vec<u8> = (0..4000).map(byte).collect();
        let parts = bytes.chunks(2000).map(|part| {
            let mut packet = io.pool.alloc().unwrap();
            packet.copy_from(part).unwrap();
            packet
        });
        let whole = parts.reduce(|mut first, rest| {
            first.append(rest);
            first
        });
        udp.send((own, 5000), (other, PORT), whole.unwrap(), io).unwrap();
    }

    fn serve(&mut self, datagrams: &mut Vec<Datagram>, _: &mut Udp, io: &mut Io) {
        for datagram in datagrams.drain(..) {
            let payload = datagram.payload();
            assert!(payload.iter().enumerate().all(|(n, got)| *got == byte(n)));
            self.back.fetch_add(payload.len() + 1, Ordering::Relaxed);
            io.pool.free(datagram.packet);
        }
    }
}

#[test]
fn checksums_of_datagrams_are_left_to_the_nic() {
    for is_v6 in [false, true] {
        let mut bench = Bench::with_pool(&["pair", "pair"], &Options::default(), 8192);
        let offload = Offload::from(&bench.sides[0].device.capabilities());
        let (mut hosts, _) = hosts(queues(&mut bench), is_v6, offload);
        let back = Arc::new(AtomicUsize::new(0));
        hosts[0].speak_udp(Box::new(Asks { is_v6, back: back.clone() }));
        hosts[1].speak_udp(Box::new(Echo::default())).bind(PORT);
        let mut limit = Limit::rounds(100_000, "datagrams to come back");
        let mut batch = Batch::with_limit(64);
        let mut pool = std::mem::replace(&mut bench.pool, Pool::new(&bench.dma, 8).unwrap());
        while back.load(Ordering::Relaxed) < 333 + 1400 + 4000 + 1 + 5 {
            limit.check();
            for host in &mut hosts {
                host.turn(Instant::now(), &mut pool, &mut batch);
            }
            bench.handles.iter().for_each(|handle| _ = handle.step_now());
        }
        for host in &mut hosts {
            assert_eq!((count(host, "udp_received"), count(host, "rx_udp_checksum")), (5, 0));
            host.stack().clear(&mut Io { now_ns: 0, pool: &mut pool, out: &mut Batch::default() });
        }
        testbed::inprocess::while_stepping(&bench.handles, || drop(hosts)).unwrap();
    }
}
