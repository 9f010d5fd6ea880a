//! What a host asks for is enough for all that it can be made to keep.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::dma;
use memory::{Batch, Pool};
use neighbor::Address as _;
use port::{RxQueue, RxStats, TxQueue, TxStats};
use runtime::{Instant, Poller};
use tcp::{Addresses, Echo, Event, Host, Io, Neighbors, Options, Service, Stack};
use wire::ethernet::{self, EtherType};
use wire::ip::{self, Protocol};
use wire::{MacAddress, ipv4, ipv6, tcp as tcp_header, udp};

const V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
const BUFFERS: usize = 128;

/// A wire on which nobody answers.
struct Nobody;

impl RxQueue for Nobody {
    fn recv(&mut self, _: &mut Pool, _: &mut Batch) -> usize {
        0
    }

    fn stats(&self) -> RxStats {
        RxStats::default()
    }
}

impl TxQueue for Nobody {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = batch.len();
        pool.free_batch(batch);
        count
    }

    fn clean(&mut self, _: &mut Pool) -> usize {
        0
    }

    fn stats(&self) -> TxStats {
        TxStats::default()
    }
}

/// A wire with some frames to receive.
struct Gives(Vec<Vec<u8>>);

impl RxQueue for Gives {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = self.0.len();
        for frame in self.0.drain(..) {
            let mut packet = pool.alloc().unwrap();
            packet.copy_from(&frame).unwrap();
            assert!(batch.push(packet).is_none());
        }
        count
    }

    fn stats(&self) -> RxStats {
        RxStats::default()
    }
}

/// A wire whose frames are counted.
struct Counts(Arc<AtomicUsize>);

impl TxQueue for Counts {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = batch.len();
        self.0.fetch_add(count, Ordering::Relaxed);
        pool.free_batch(batch);
        count
    }

    fn clean(&mut self, _: &mut Pool) -> usize {
        0
    }

    fn stats(&self) -> TxStats {
        TxStats::default()
    }
}

/// Opens connections to one address after the other.
#[derive(Default)]
struct Opens {
    count: u16,
}

impl Service for Opens {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        events.clear();
        for _ in 0..32 {
            self.count += 1;
            let [high, low] = self.count.to_be_bytes();
            let remote = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 1, self.count);
            let ends: [(IpAddr, IpAddr); 2] =
                [(V4.into(), [10, 1, high, low].into()), (V6.into(), remote.into())];
            for (local, remote) in ends {
                stack.connect(local, (remote, 9), io).unwrap();
            }
        }
    }

    fn deadline_ns(&self) -> Option<i64> {
        Some(0)
    }
}

/// Packets that wait for neighbours who do not answer leave connections all that they may keep.
#[test]
fn packets_that_wait_for_neighbours_are_asked_for() {
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    let addresses = Addresses { mac, v4: Some((V4, 8)), v6: Some((V6, 64)), gateways: (None, None) };
    let queues: (Box<dyn RxQueue>, Box<dyn TxQueue>) = (Box::new(Nobody), Box::new(Nobody));
    let service = Box::new(Opens::default());
    let mut host = Host::new(queues, addresses, &Neighbors::default(), Options::default(), service, BUFFERS);
    let mut pool = Pool::new(&dma(), host.buffers()).unwrap();
    let mut batch = Batch::with_limit(64);
    for turn in 0..200 {
        host.turn(Instant::now(), &mut pool, &mut batch);
        assert!(pool.available() >= BUFFERS, "{} are left after turn {turn}", pool.available());
    }
    let lost = |name| host.counters().iter().find(|counter| counter.name == name).unwrap().value;
    assert!(lost("tx_no_neighbor") > 1000, "more waited than may");
}

/// Opens so many connections to each of some addresses, 32 in a turn.
struct OpensAll {
    count: u16,
    hosts: u8,
    each: u16,
}

impl Service for OpensAll {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        events.clear();
        for _ in 0..32.min(u16::from(self.hosts) * self.each - self.count) {
            let (host, port) = (self.count / self.each, 1 + self.count % self.each);
            let remote = Ipv4Addr::new(10, 0, 1, host as u8);
            stack.connect(V4.into(), (remote.into(), port), io).unwrap();
            self.count += 1;
        }
    }

    fn deadline_ns(&self) -> Option<i64> {
        Some(0)
    }
}

/// What waited for neighbours who answer all at once is sent, or lost by name.
#[test]
fn packets_that_neighbours_answer_for_at_once_are_all_accounted_for() {
    const HOSTS: u8 = 6;
    const EACH: u16 = 60;
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    let addresses = Addresses { mac, v4: Some((V4, 8)), v6: None, gateways: (None, None) };
    let sent = Arc::new(AtomicUsize::new(0));
    let answers = Arc::new(std::sync::Mutex::new(Vec::new()));
    let queues: (Box<dyn RxQueue>, Box<dyn TxQueue>) =
        (Box::new(Answers(answers.clone())), Box::new(Counts(sent.clone())));
    let service = Box::new(OpensAll { count: 0, hosts: HOSTS, each: EACH });
    let mut host = Host::new(queues, addresses, &Neighbors::default(), Options::default(), service, 2000);
    let mut pool = Pool::new(&dma(), host.buffers()).unwrap();
    let (mut batch, now) = (Batch::with_limit(64), Instant::now());
    (0..30).for_each(|_| _ = host.turn(now, &mut pool, &mut batch));
    assert_eq!(sent.load(Ordering::Relaxed), usize::from(HOSTS), "one request for each address");
    *answers.lock().unwrap() = (0..HOSTS)
        .map(|n| {
            let request = V4.request(mac, Ipv4Addr::new(10, 0, 1, n), None);
            let asked = neighbor::arp::parse(&request).unwrap();
            let other = MacAddress([2, 0, 0, 0, 1, n]);
            neighbor::arp::frame(&asked.reply(other), mac).to_vec()
        })
        .collect();
    host.turn(now, &mut pool, &mut batch);
    let lost =
        host.counters().iter().filter(|counter| counter.loss.is_some()).map(|it| it.value).sum::<u64>();
    let waited = usize::from(HOSTS) * usize::from(EACH);
    assert!(lost > 0, "there is room for 256 frames");
    assert_eq!(sent.load(Ordering::Relaxed) - usize::from(HOSTS) + lost as usize, waited);
}

/// Gives what a test puts there.
struct Answers(Arc<std::sync::Mutex<Vec<Vec<u8>>>>);

impl RxQueue for Answers {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        Gives(std::mem::take(&mut *self.0.lock().unwrap())).recv(pool, batch)
    }

    fn stats(&self) -> RxStats {
        RxStats::default()
    }
}

/// A datagram to a port that nobody has, in a frame.
fn datagram(src: Ipv4Addr, mac: MacAddress) -> Vec<u8> {
    let header = udp::Repr { src_port: 5000, dst_port: 9, payload_len: 0 }.header().into_inner();
    let mut ip = [0; ipv4::HEADER_LEN];
    let repr = ipv4::Repr::between(src, V4, Protocol::UDP, header.len());
    repr.emit(&mut ipv4::Packet::new_unchecked(&mut ip[..]));
    [&ethernet::Header::between(mac, mac, EtherType::IPV4).into_inner()[..], &ip, &header].concat()
}

/// The same over IPv6, where a checksum must be.
fn datagram_v6(src: Ipv6Addr, mac: MacAddress) -> Vec<u8> {
    let mut datagram = udp::Repr { src_port: 5000, dst_port: 9, payload_len: 0 }.header().into_inner();
    let addresses = ip::Addresses::V6 { src, dst: V6 };
    udp::Datagram::new_unchecked(&mut datagram[..]).fill_checksum(addresses);
    let header = ipv6::Repr {
        src,
        dst: V6,
        next_header: Protocol::UDP,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        payload_len: datagram.len(),
    };
    let ethernet = ethernet::Header::between(mac, mac, EtherType::IPV6).into_inner();
    [&ethernet[..], &header.header().into_inner(), &datagram].concat()
}

/// A SYN to a port on which the host listens, in a frame.
fn syn((src, dst): (IpAddr, IpAddr), src_port: u16, mac: MacAddress) -> Vec<u8> {
    let repr =
        tcp_header::Repr { src_port, dst_port: 80, flags: tcp_header::Flags::SYN, ..Default::default() };
    let mut segment = [0; tcp_header::HEADER_LEN];
    repr.emit(&mut tcp_header::Segment::new_unchecked(&mut segment[..]));
    let (addresses, ethertype, header) = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut ip = vec![0; ipv4::HEADER_LEN];
            let repr = ipv4::Repr::between(src, dst, Protocol::TCP, segment.len());
            repr.emit(&mut ipv4::Packet::new_unchecked(&mut ip[..]));
            (ip::Addresses::V4 { src, dst }, EtherType::IPV4, ip)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut ip = vec![0; ipv6::HEADER_LEN];
            let mut header = ipv6::Header::of_mut(&mut ip).unwrap();
            let addresses = header.fill(src, dst, Protocol::TCP, segment.len() as u16, 64);
            (addresses, EtherType::IPV6, ip)
        }
        _ => panic!("of two versions"),
    };
    tcp_header::Segment::new_unchecked(&mut segment[..]).fill_checksum(addresses);
    [&ethernet::Header::between(mac, mac, ethertype).into_inner()[..], &header, &segment].concat()
}

/// Whoever sends from such an address is none that could answer (RFC 1122, sections 3.2.1.3 and
/// 4.2.3.10): it takes no place, and has a name.
#[test]
fn connections_from_addresses_that_no_other_host_has_are_dropped() {
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    for (src, bits, is_taken) in [
        ("10.0.0.2", 24, true),
        ("10.0.0.1", 24, false),
        ("10.0.0.0", 24, false),
        ("10.0.0.255", 24, false),
        ("10.0.0.255", 23, true),
        ("10.0.0.0", 31, true),
        ("192.0.2.255", 24, true), // of another network nobody knows the length
        ("255.255.255.255", 24, false),
        ("224.0.0.1", 24, false),
        ("127.0.0.1", 24, false),
        ("0.0.0.0", 24, false),
        ("2001:db8::2", 64, true),
        ("2001:db8::1", 64, false),
        ("ff02::1", 64, false),
        ("::1", 64, false),
        ("::", 64, false),
    ] {
        let src: IpAddr = src.parse().unwrap();
        let dst: IpAddr = if src.is_ipv4() { V4.into() } else { V6.into() };
        let (v4, v6) = if src.is_ipv4() { (Some((V4, bits)), None) } else { (None, Some((V6, bits))) };
        // Also from the port that it is to.
        for port in [80, 5000] {
            let addresses = Addresses { mac, v4, v6, gateways: (None, None) };
            let frame = syn((src, dst), port, mac);
            let queues: (Box<dyn RxQueue>, Box<dyn TxQueue>) =
                (Box::new(Gives(vec![frame])), Box::new(Nobody));
            let service = Box::new(Echo::default());
            let mut host =
                Host::new(queues, addresses, &Neighbors::default(), Options::default(), service, BUFFERS);
            host.stack().listen(80);
            let mut pool = Pool::new(&dma(), host.buffers()).unwrap();
            host.turn(Instant::now(), &mut pool, &mut Batch::with_limit(64));
            let lost = host.counters().iter().find(|it| it.name == "rx_ip_source").unwrap().value;
            assert_eq!((host.stack().len(), lost), (is_taken.into(), u64::from(!is_taken)), "{src}/{bits}");
        }
    }
}

/// How many frames a host sends that gets one, which is of UDP to a port that nobody has.
fn answers_to(frame: Vec<u8>, addresses: Addresses) -> usize {
    let sent = Arc::new(AtomicUsize::new(0));
    let queues: (Box<dyn RxQueue>, Box<dyn TxQueue>) =
        (Box::new(Gives(vec![frame])), Box::new(Counts(sent.clone())));
    let service = Box::new(Echo::default());
    let mut host = Host::new(queues, addresses, &Neighbors::default(), Options::default(), service, BUFFERS);
    let mut pool = Pool::new(&dma(), host.buffers()).unwrap();
    host.turn(Instant::now(), &mut pool, &mut Batch::with_limit(64));
    let counters = host.counters();
    let came = |name| counters.iter().find(|counter| counter.name == name).unwrap().value;
    assert_eq!(came("rx_udp_no_port") + came("rx_ip_source"), 1);
    // The next hop is asked for.
    sent.load(Ordering::Relaxed)
}

/// RFC 4443, section 2.4 (e): an error goes to an address of one node.
#[test]
fn errors_over_ipv6_go_to_single_hosts_only() {
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    for (src, bits, is_told) in [
        ("2001:db8::2", 64, true),
        ("2001:db8:1::", 64, true), // of another prefix nobody knows the length
        ("2001:db8::1", 64, false),
        ("::1", 64, false),
        ("2001:db8::", 64, false), // any of the routers (RFC 4291, section 2.6.1)
        ("2001:db8::", 127, true), // RFC 6164, section 5.1
    ] {
        let gateways = (None, Some(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0xFE)));
        let addresses = Addresses { mac, v4: None, v6: Some((V6, bits)), gateways };
        let sent = answers_to(datagram_v6(src.parse().unwrap(), mac), addresses);
        assert_eq!(sent, usize::from(is_told), "{src}/{bits}");
    }
}

/// RFC 1122, section 3.2.2: an error goes to a single host.
#[test]
fn errors_go_to_single_hosts_only() {
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    for (src, bits, is_told) in [
        ([10, 0, 0, 2], 24, true),
        ([192, 0, 2, 255], 24, true), // of another prefix nobody knows the length
        ([0, 0, 0, 1], 24, false),
        ([127, 0, 0, 1], 24, false),
        ([240, 0, 0, 1], 24, false),
        ([10, 0, 0, 1], 24, false),
        ([10, 0, 0, 0], 24, false),
        ([10, 0, 0, 255], 24, false),
        ([10, 0, 0, 0], 31, true),
        ([10, 0, 0, 0], 32, true),
    ] {
        let gateways = (Some(Ipv4Addr::new(10, 0, 0, 254)), None);
        let addresses = Addresses { mac, v4: Some((V4, bits)), v6: None, gateways };
        let sent = answers_to(datagram(src.into(), mac), addresses);
        assert_eq!(sent, usize::from(is_told), "{src:?}/{bits}");
    }
}

/// Who looks at a host is shown all its connections, some in each turn, and what it counted.
#[test]
fn a_host_shows_its_connections_some_in_each_turn() {
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    let addresses = Addresses { mac, v4: Some((V4, 8)), v6: Some((V6, 64)), gateways: (None, None) };
    let queues: (Box<dyn RxQueue>, Box<dyn TxQueue>) = (Box::new(Nobody), Box::new(Nobody));
    let service = Box::new(Opens::default());
    let mut host = Host::new(queues, addresses, &Neighbors::default(), Options::default(), service, BUFFERS);
    let watch = host.watch();
    let mut pool = Pool::new(&dma(), host.buffers()).unwrap();
    let mut batch = Batch::with_limit(64);
    let mut turn = |host: &mut Host| _ = host.turn(Instant::now(), &mut pool, &mut batch);
    (0..20).for_each(|_| turn(&mut host)); // 64 connections in each
    for limit in [usize::MAX, 300, 0] {
        watch.ask(limit);
        let mut turns = 0;
        let shown = loop {
            turn(&mut host);
            turns += 1;
            assert!(turns < 20, "it is never shown");
            if let Some(shown) = watch.shown() {
                break shown;
            }
        };
        assert_eq!(shown.open, host.stack().len());
        assert_eq!(shown.connections.len(), shown.open.min(limit));
        assert!(turns >= shown.connections.len() / 256, "{turns} turns");
        assert!(shown.connections.iter().all(|(_, info)| info.state == tcp::State::SynSent));
        assert!(shown.counters.iter().any(|counter| counter.name == "tcp_segments_sent"));
    }
    // Places in which there is no connection are looked at as others are: some in each turn.
    let ids: Vec<tcp::Id> = host.stack().connections().skip(1).map(|(id, _)| id).collect();
    let now_ns = 1_000_000_000_000;
    for id in ids {
        let mut io = tcp::Io { now_ns, pool: &mut pool, out: &mut batch };
        host.stack().abort(id, &mut io).unwrap();
        while let Some(packet) = batch.pop_front() {
            pool.free(packet);
        }
    }
    let places = host.stack().places();
    watch.ask(usize::MAX);
    let mut turns = 0;
    while watch.shown().is_none() {
        host.turn(Instant::now(), &mut pool, &mut batch);
        turns += 1;
    }
    assert!(places > 1000 && turns >= places / 256, "{turns} turns for {places} places");
}
