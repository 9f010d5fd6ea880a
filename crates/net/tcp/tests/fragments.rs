//! A host and a peer whose packets are longer than the link takes: what comes in fragments is
//! answered, in fragments too, and what strangers make of it is dropped by name.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use common::ring::FrameRing;
use common::{Random, dma};
use memory::{Batch, DATA_ROOM, Pool};
use neighbor::Responder;
use port::{RxQueue, TxQueue};
use runtime::{Instant, Poller};
use tcp::{Addresses, Echo, Host, Neighbors, Options};
use wire::ethernet::{self, EtherType};
use wire::ip::{self, Protocol};
use wire::{Flow, MacAddress, icmpv4, icmpv6, ipv4, ipv6, udp};

const MAC: [MacAddress; 2] = [MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2])];
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 2)];
const ECHO: u16 = 7;
const MTU: usize = 1500;

/// From the peer to the host, over each version.
fn to_host() -> [ip::Addresses; 2] {
    [ip::Addresses::V4 { src: V4[1], dst: V4[0] }, ip::Addresses::V6 { src: V6[1], dst: V6[0] }]
}

/// A part of a packet: its addresses, protocol and number, where it begins, and whether it ends.
#[derive(Clone, Copy)]
struct Place {
    addresses: ip::Addresses,
    protocol: Protocol,
    number: u32,
    at: u16,
    more: bool,
}

/// A frame with a part of a packet from the peer.
fn fragment(place: Place, part: &[u8]) -> Vec<u8> {
    let Place { addresses, protocol, number, at, more } = place;
    let (ethertype, header) = match addresses {
        ip::Addresses::V4 { src, dst } => {
            let mut header = vec![0; ipv4::HEADER_LEN];
            let repr = ipv4::Repr {
                identification: number as u16,
                more_fragments: more,
                fragment_offset: at,
                ..ipv4::Repr::between(src, dst, protocol, part.len())
            };
            repr.emit(&mut ipv4::Packet::new_unchecked(&mut header[..]));
            (EtherType::IPV4, header)
        }
        ip::Addresses::V6 { src, dst } => {
            let mut header = vec![0; ipv6::HEADER_LEN];
            ipv6::Header::of_mut(&mut header).unwrap().fill(
                src,
                dst,
                Protocol::FRAGMENT,
                (ipv6::FRAGMENT_LEN + part.len()) as u16,
                64,
            );
            header.extend(ipv6::Fragment { offset: at, more, identification: number }.header(protocol));
            (EtherType::IPV6, header)
        }
    };
    [&ethernet::Header::between(MAC[0], MAC[1], ethertype).into_inner()[..], &header, part].concat()
}

/// A packet in fragments with so many bytes each.
fn cut(
    addresses: ip::Addresses,
    protocol: Protocol,
    number: u32,
    payload: &[u8],
    size: usize,
) -> Vec<Vec<u8>> {
    let parts = payload.chunks(size).enumerate().map(|(n, part)| {
        let more = n * size + part.len() < payload.len();
        fragment(Place { addresses, protocol, number, at: (n * size) as u16, more }, part)
    });
    parts.collect()
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 256) as u8).collect()
}

fn datagram(addresses: ip::Addresses, to: u16, len: usize) -> Vec<u8> {
    let repr = udp::Repr { src_port: 5000, dst_port: to, payload_len: len };
    let mut bytes = [&repr.header().into_inner()[..], &payload(len)].concat();
    udp::Datagram::new_unchecked(&mut bytes[..]).fill_checksum(addresses);
    bytes
}

/// A request for an echo of so many bytes, and its protocol.
fn request(addresses: ip::Addresses, len: usize) -> (Protocol, Vec<u8>) {
    let mut message = [&[0, 0, 0, 0, 0, 9, 0, 1][..], &payload(len)].concat();
    match addresses {
        ip::Addresses::V4 { .. } => {
            message[0] = icmpv4::ECHO_REQUEST;
            icmpv4::fill_checksum(&mut message);
            (Protocol::ICMP, message)
        }
        ip::Addresses::V6 { .. } => {
            message[0] = icmpv6::ECHO_REQUEST;
            icmpv6::Packet::new_unchecked(&mut message[..]).fill_checksum(addresses);
            (Protocol::ICMPV6, message)
        }
    }
}

/// What frames of a host carry, put together by their numbers, in the order in which they are whole.
fn join(frames: &[Vec<u8>]) -> Vec<(ip::Addresses, Protocol, Vec<u8>)> {
    let mut all = vec![];
    let mut parts: BTreeMap<u32, BTreeMap<usize, Vec<u8>>> = BTreeMap::new();
    for frame in frames {
        assert!(frame.len() <= ethernet::HEADER_LEN + MTU, "{} bytes", frame.len());
        let flow = Flow::of(frame).unwrap();
        let part = frame[flow.l4_offset()..flow.end].to_vec();
        let packet = &frame[flow.l3_offset()..flow.end];
        let (number, at, more) = match flow.addresses {
            _ if !flow.fragment => {
                all.push((flow.addresses, flow.protocol, part));
                continue;
            }
            ip::Addresses::V4 { .. } => {
                let ip = ipv4::Packet::new_checked(packet).unwrap();
                assert!(ip.verify_checksum() && !ip.dont_fragment());
                (ip.identification().into(), ip.fragment_offset(), ip.more_fragments())
            }
            ip::Addresses::V6 { .. } => {
                let it = ipv6::Packet::new_checked(packet).unwrap().upper_layer().unwrap().fragment.unwrap();
                (it.identification, it.offset, it.more)
            }
        };
        let parts = parts.entry(number).or_default();
        assert!(parts.insert(at.into(), part).is_none());
        if !more {
            let whole: Vec<u8> = std::mem::take(parts).into_iter().fold(vec![], |mut whole, (at, part)| {
                assert_eq!(at, whole.len(), "they are sent in order");
                whole.extend(part);
                whole
            });
            all.push((flow.addresses, flow.protocol, whole));
        }
    }
    assert!(parts.values().all(BTreeMap::is_empty), "a part is missing");
    all
}

/// A host with an echo of datagrams, and its peer.
struct Rig {
    host: Host,
    pool: Pool,
    rings: [FrameRing; 2],
    now: Instant,
}

impl Rig {
    fn new() -> Rig {
        Rig::with(Options::default())
    }

    fn with(options: Options) -> Rig {
        let addresses =
            Addresses { mac: MAC[0], v4: Some((V4[0], 24)), v6: Some((V6[0], 64)), gateways: (None, None) };
        let rings = <[FrameRing; 2]>::default();
        let queues: (Box<dyn RxQueue>, Box<dyn TxQueue>) =
            (Box::new(rings[0].clone()), Box::new(rings[1].clone()));
        let service = Box::new(Echo::default());
        let mut host = Host::new(queues, addresses, &Neighbors::default(), options, service, 128);
        host.speak_udp(Box::new(Echo::default())).bind(ECHO);
        let pool = Pool::new(&dma(), host.buffers() + 128).unwrap();
        Rig { host, pool, rings, now: Instant::now() }
    }

    /// Gives the host frames; what it sends, but for questions after its neighbour, which are answered.
    fn exchange(&mut self, frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
        let peer = Responder { mac: MAC[1], addresses: vec![V4[1].into(), V6[1].into()] };
        let mut frames = frames.into_iter().peekable();
        let (mut sent, mut quiet) = (vec![], 0);
        while quiet < 3 || frames.peek().is_some() {
            frames.by_ref().take(64).for_each(|frame| self.rings[0].put(frame));
            self.host.turn(self.now, &mut self.pool, &mut Batch::with_limit(64));
            quiet += 1;
            for frame in self.rings[1].take() {
                quiet = 0;
                let mut packet = self.pool.alloc().unwrap();
                match packet.copy_from(&frame).is_ok() && peer.answer(&mut packet) {
                    true => self.rings[0].put(packet.to_vec()),
                    false => sent.push(frame),
                }
                self.pool.free(packet);
            }
        }
        sent
    }

    /// Lets time pass, a little more than so much: seconds are no whole number of the clock's ticks.
    fn pass(&mut self, seconds: u64) -> Vec<Vec<u8>> {
        self.now = self.now + Duration::from_secs(seconds) + Duration::from_micros(1);
        self.exchange([])
    }

    fn count(&self, name: &str) -> u64 {
        self.host.counters().iter().find(|counter| counter.name == name).unwrap().value
    }

    /// Fragments that were dropped, by the end of the reason's name.
    fn lost(&self) -> Vec<(String, u64)> {
        let counters = self.host.counters();
        let lost = counters.iter().filter(|counter| counter.loss.is_some() && counter.value > 0);
        lost.map(|it| (it.name.replace("rx_ip_fragment", ""), it.value)).collect()
    }
}

fn back(addresses: ip::Addresses) -> ip::Addresses {
    match addresses {
        ip::Addresses::V4 { src, dst } => ip::Addresses::V4 { src: dst, dst: src },
        ip::Addresses::V6 { src, dst } => ip::Addresses::V6 { src: dst, dst: src },
    }
}

/// In order, from the last on, and with each twice.
#[test]
fn datagrams_come_and_go_in_fragments() {
    let mut rig = Rig::new();
    let free = rig.pool.available();
    for addresses in to_host() {
        for (number, len) in [(1, 1473), (2, 8000), (3, 40_000), (4, 65_507)] {
            for order in 0..3 {
                let bytes = datagram(addresses, ECHO, len);
                let mut frames = cut(addresses, Protocol::UDP, number, &bytes, 1448);
                match order {
                    0 => {}
                    1 => frames.reverse(),
                    _ => {
                        let last = frames.pop();
                        frames = frames.into_iter().flat_map(|frame| [frame.clone(), frame]).collect();
                        frames.extend(last);
                    }
                }
                let answers = join(&rig.exchange(frames));
                let [(from, protocol, answer)] = &answers[..] else { panic!("{} answers", answers.len()) };
                assert_eq!((*from, *protocol), (back(addresses), Protocol::UDP));
                let answer = udp::Datagram::new_checked(&answer[..]).unwrap();
                assert!(answer.verify_checksum(*from));
                assert_eq!((answer.src_port(), answer.dst_port()), (ECHO, 5000));
                assert_eq!(answer.payload(), payload(len));
            }
        }
    }
    assert_eq!((rig.count("ip_reassembled"), rig.lost()), (24, vec![]));
    assert_eq!(rig.pool.available(), free, "no buffer is kept");
}

#[test]
fn long_pings_are_answered() {
    let mut rig = Rig::new();
    for addresses in to_host() {
        for len in [100, 4000, 65_000] {
            let (protocol, message) = request(addresses, len);
            let answers = join(&rig.exchange(cut(
                addresses,
                protocol,
                7,
                &message,
                64.max(len / 400 * 8 * 8).min(1448),
            )));
            let [(from, of, answer)] = &answers[..] else { panic!("{} answers", answers.len()) };
            assert_eq!((*from, *of), (back(addresses), protocol));
            assert_eq!(answer[8..], message[8..]);
            match addresses {
                ip::Addresses::V4 { .. } => {
                    assert!(icmpv4::Packet::new_checked(&answer[..]).unwrap().verify_checksum());
                    assert_eq!(answer[0], icmpv4::ECHO_REPLY);
                }
                ip::Addresses::V6 { .. } => {
                    assert!(icmpv6::Packet::new_checked(&answer[..]).unwrap().verify_checksum(*from));
                    assert_eq!(answer[0], icmpv6::ECHO_REPLY);
                }
            }
        }
    }
    assert_eq!(rig.lost(), vec![]);
}

/// A fragment that is all of its packet is taken by itself, also beside others with its number (RFC
/// 6946).
#[test]
fn atomic_fragments_are_whole_packets() {
    let mut rig = Rig::new();
    let [_, addresses] = to_host();
    let bytes = datagram(addresses, ECHO, 800);
    let place = Place { addresses, protocol: Protocol::UDP, number: 5, at: 0, more: true };
    assert!(rig.exchange([fragment(place, &bytes[..400])]).is_empty());
    let alone = Place { more: false, ..place };
    let answers = join(&rig.exchange([fragment(alone, &datagram(addresses, ECHO, 9))]));
    assert_eq!(answers[0].2[udp::HEADER_LEN..], payload(9));
    let (protocol, message) = request(addresses, 60);
    let answers = join(&rig.exchange([fragment(Place { protocol, ..alone }, &message)]));
    assert_eq!((answers[0].1, answers[0].2[0]), (protocol, icmpv6::ECHO_REPLY));
    let answers = join(&rig.exchange([fragment(Place { at: 400, ..alone }, &bytes[400..])]));
    assert_eq!(answers[0].2[udp::HEADER_LEN..], payload(800));
    assert_eq!(rig.lost(), vec![]);
}

/// A part of a packet: where it begins, its bytes, and whether others follow.
type Cut<'a> = (u16, &'a [u8], bool);

#[test]
fn fragments_that_make_no_packet_are_dropped_by_name() {
    for addresses in to_host() {
        let bytes = datagram(addresses, ECHO, 992);
        let parts = |rig: &mut Rig, parts: &[Cut]| {
            let frames = parts.iter().map(|(at, part, more)| {
                let place = Place { addresses, protocol: Protocol::UDP, number: 1, at: *at, more: *more };
                fragment(place, part)
            });
            let answers = rig.exchange(frames.collect::<Vec<_>>());
            (answers.len(), rig.lost())
        };
        let other = vec![0xA5; 1000];
        let lost = |name: &str, count| (0, vec![(name.to_owned(), count)]);
        let cases: [(&[Cut], _); 8] = [
            // What comes of it later is dropped as well.
            (
                &[(0, &bytes[..600], true), (592, &other[592..], false), (600, &bytes[600..], false)],
                lost("_overlap", 3),
            ),
            (&[(400, &bytes[400..800], true), (0, &other[..600], true)], lost("_overlap", 2)),
            (&[(0, &bytes[..600], true), (0, &other[..600], true)], lost("_overlap", 2)),
            (&[(600, &bytes[600..], false), (800, &other[..800], true)], lost("", 2)),
            (&[(600, &bytes[600..], false), (600, &bytes[600..992], false)], lost("", 2)),
            (&[(8, &bytes[8..9], true)], lost("_short", 1)),
            (&[(8, &[], false)], lost("_short", 1)),
            (&[(65_528, &bytes[..40], false)], lost("_long", 1)),
        ];
        for (n, (sent, expected)) in cases.into_iter().enumerate() {
            assert_eq!(parts(&mut Rig::new(), sent), expected, "case {n} of {addresses:?}");
        }
        // A header above IP that ends in the second fragment hides from whoever looks at the first.
        let place = Place { addresses, protocol: Protocol::TCP, number: 1, at: 0, more: true };
        let mut rig = Rig::new();
        rig.exchange([fragment(place, &bytes[..16])]);
        assert_eq!(rig.lost(), lost("_short", 1).1);
    }
}

/// Who sent the first fragment is told that others did not come, and nobody else is.
#[test]
fn fragments_wait_for_others_for_a_limited_time() {
    let mut rig = Rig::new();
    for (addresses, seconds) in to_host().into_iter().zip([30, 60]) {
        let bytes = datagram(addresses, ECHO, 992);
        let place = Place { addresses, protocol: Protocol::UDP, number: 1, at: 0, more: true };
        let before = rig.count("rx_ip_fragment_late");
        rig.exchange([fragment(place, &bytes[..800])]);
        rig.exchange([fragment(Place { number: 2, at: 800, ..place }, &bytes[..80])]);
        assert!(rig.pass(seconds - 1).is_empty());
        assert_eq!(rig.count("rx_ip_fragment_late"), before);
        let told = join(&rig.pass(1));
        assert_eq!(rig.count("rx_ip_fragment_late"), before + 2);
        let [(from, protocol, message)] = &told[..] else { panic!("{} are told", told.len()) };
        let (kind, fixed) = match addresses {
            ip::Addresses::V4 { .. } => (icmpv4::TIME_EXCEEDED, ipv4::HEADER_LEN),
            ip::Addresses::V6 { .. } => (icmpv6::TIME_EXCEEDED, ipv6::HEADER_LEN + 8),
        };
        assert_eq!((*from, *protocol), (back(addresses), request(addresses, 0).0));
        assert_eq!(message[..2], [kind, 1]);
        let about = &fragment(place, &bytes[..800])[ethernet::HEADER_LEN..];
        assert!(about.starts_with(&message[8..]) && message.len() > 8 + fixed + 8);
        // What comes after all is of a packet that nobody waits for.
        assert!(rig.exchange([fragment(Place { at: 800, more: false, ..place }, &bytes[800..])]).is_empty());
        rig.pass(100);
    }
}

/// Errors are as few as for ports that nobody has.
#[test]
fn late_fragments_are_told_of_so_often_in_a_second() {
    let mut rig = Rig::new();
    let [addresses, _] = to_host();
    let mut told = 0;
    for round in 0..10 {
        let frames = (0..16).map(|n| {
            let place =
                Place { addresses, protocol: Protocol::UDP, number: round * 16 + n, at: 0, more: true };
            fragment(place, &[0; 16])
        });
        rig.exchange(frames.collect::<Vec<_>>());
        told += rig.pass(30).len();
    }
    assert_eq!(told, 160, "16 in each second");
    // Those of datagrams to no port count in the same second.
    let part =
        |number| fragment(Place { addresses, protocol: Protocol::UDP, number, at: 0, more: true }, &[0; 16]);
    rig.exchange((0..16).map(part));
    rig.now = rig.now + Duration::from_millis(29_900);
    let refused = datagram(addresses, 9, 10);
    let whole = Place { addresses, protocol: Protocol::UDP, number: 1, at: 0, more: false };
    assert_eq!(rig.exchange((0..90).map(|_| fragment(whole, &refused))).len(), 90);
    rig.now = rig.now + Duration::from_millis(101);
    assert_eq!((rig.exchange([]).len(), rig.count("tx_icmp_limit")), (10, 6));
}

/// No error is sent about an error (RFC 1122, section 3.2.2; RFC 4443, section 2.4): other messages
/// are told of.
#[test]
fn late_fragments_of_errors_are_not_told_of() {
    for (addresses, kinds) in to_host().into_iter().zip([
        [icmpv4::UNREACHABLE, icmpv4::TIME_EXCEEDED, icmpv4::ECHO_REQUEST],
        [icmpv6::UNREACHABLE, icmpv6::TIME_EXCEEDED, icmpv6::ECHO_REQUEST],
    ]) {
        for (kind, expected) in kinds.into_iter().zip([0, 0, 1]) {
            let mut rig = Rig::new();
            let (protocol, mut message) = request(addresses, 56);
            message[0] = kind;
            let place = Place { addresses, protocol, number: 1, at: 0, more: true };
            rig.exchange([fragment(place, &message)]);
            assert_eq!(rig.pass(60).len(), expected, "type {kind} between {addresses:?}");
            assert_eq!(rig.count("rx_ip_fragment_late"), 1);
        }
    }
}

/// A length that is none for packets is taken as the nearest one that is.
#[test]
fn datagrams_are_cut_for_any_length_of_packets() {
    for (mtu, longest) in [(0, 576), (40, 576), (1000, 1000), (9000, DATA_ROOM)] {
        let mut rig = Rig::with(Options { mtu, ..Options::default() });
        for addresses in to_host() {
            let bytes = datagram(addresses, ECHO, 4000);
            let answers = rig.exchange(cut(addresses, Protocol::UDP, 1, &bytes, 1448));
            let flows: Vec<_> = answers.iter().map(|frame| Flow::of(frame).unwrap()).collect();
            let sent: usize = flows.iter().map(|flow| flow.end - flow.l4_offset()).sum();
            assert_eq!(sent, bytes.len(), "{mtu}, {addresses:?}");
            assert!(flows.iter().all(|flow| flow.fragment && flow.end - flow.l3_offset() <= longest));
        }
        assert_eq!(rig.lost(), vec![]);
    }
}

/// One sender has a quarter of the places and half of the memory: others' packets stay.
#[test]
fn a_sender_of_many_does_not_crowd_others_out() {
    let mut rig = Rig::new();
    let [addresses, _] = to_host();
    let bytes = datagram(addresses, ECHO, 3000);
    let frames = cut(addresses, Protocol::UDP, 1, &bytes, 1480);
    rig.exchange([frames[0].clone()]);
    let other = ip::Addresses::V4 { src: Ipv4Addr::new(10, 0, 0, 3), dst: V4[0] };
    let flood = (0..5000).map(|n| {
        let at = (n % 40) as u16 * 1480;
        fragment(
            Place { addresses: other, protocol: Protocol::UDP, number: n / 4, at, more: true },
            &[1; 1480],
        )
    });
    let free = rig.pool.available();
    rig.exchange(flood.collect::<Vec<_>>());
    assert_eq!(rig.pool.available(), free, "they take no buffers");
    assert!(rig.count("rx_ip_fragment_room") > 4000);
    let answers = join(&rig.exchange(frames[1..].to_vec()));
    assert_eq!(answers[0].2[udp::HEADER_LEN..], payload(3000));
}

#[test]
fn datagrams_to_no_port_are_refused_as_whole_ones_are() {
    let mut rig = Rig::new();
    for addresses in to_host() {
        let bytes = datagram(addresses, 9, 4000);
        let told = join(&rig.exchange(cut(addresses, Protocol::UDP, 1, &bytes, 1448)));
        let [(_, protocol, message)] = &told[..] else { panic!("{} are told", told.len()) };
        let (kind, code) = match addresses {
            ip::Addresses::V4 { .. } => (icmpv4::UNREACHABLE, icmpv4::PORT_UNREACHABLE),
            ip::Addresses::V6 { .. } => (icmpv6::UNREACHABLE, icmpv6::PORT_UNREACHABLE),
        };
        assert_eq!((*protocol, [message[0], message[1]]), (request(addresses, 0).0, [kind, code]));
    }
}

/// Fragments as a stranger makes them, of few packets: none panics or keeps a buffer.
#[test]
fn any_fragments_leave_the_host_sound() {
    let mut random = Random(27);
    let mut rig = Rig::new();
    let free = rig.pool.available();
    let mut sent = 0;
    for _ in 0..3000 {
        let frames: Vec<Vec<u8>> = (0..8)
            .map(|_| {
                let addresses = to_host()[random.below(2) as usize];
                let protocols =
                    [Protocol::UDP, Protocol::TCP, Protocol::ICMP, Protocol::ICMPV6, Protocol(60)];
                let place = Place {
                    addresses,
                    protocol: protocols[random.below(5) as usize],
                    number: random.below(4) as u32,
                    at: [0, 8, 64, 1448, 65_528][random.below(5) as usize] & !7,
                    more: random.below(2) == 0,
                };
                let len = [0, 8, 56, 1384, 7][random.below(5) as usize];
                let mut frame = fragment(place, &payload(len));
                if random.in_thousand(100) {
                    let at = 14 + random.below(frame.len() as u64 - 14) as usize;
                    frame[at] ^= random.next() as u8;
                }
                frame
            })
            .collect();
        sent += frames.len();
        rig.exchange(frames);
        rig.now = rig.now + Duration::from_millis(random.below(3000));
    }
    rig.pass(100);
    assert_eq!(rig.pool.available(), free);
    assert!(rig.count("rx_not_for_host") < sent as u64 / 10);
    let lost: u64 = rig.lost().iter().map(|(_, count)| *count).sum();
    assert!(lost > sent as u64 / 2, "{lost} of {sent}: {:?}", rig.lost());
}
