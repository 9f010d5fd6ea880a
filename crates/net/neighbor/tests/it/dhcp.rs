//! The client of DHCP in simulated time, with servers that do as they should, and others.

use std::net::Ipv4Addr;

use neighbor::Message;
use neighbor::dhcp::Client;
use proptest::prelude::*;
use wire::arp::{Operation, Repr};
use wire::dhcp::{self, MessageType as M, Options, option};
use wire::{Flow, MacAddress, ethernet, ip, ipv4, udp};

const SECOND_NS: i64 = 1_000_000_000;
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);
const LEASED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 50);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

/// What a client has sent.
#[derive(Debug, Clone, PartialEq)]
enum Sent {
    /// A message of DHCP: from where to where, and what it says.
    Dhcp { src: Ipv4Addr, dst: Ipv4Addr, kind: M, exchange: u32, server: Option<Ipv4Addr> },
    /// A question by ARP: from whom and for whom.
    Arp(Ipv4Addr, Ipv4Addr),
}

fn read(message: &Message) -> Sent {
    let frame = match message {
        Message::Frame(frame) => frame.clone(),
        // As a host puts a header in front of it.
        Message::Packet(packet) => {
            let link = ethernet::Header::between(OTHER, OWN, ethernet::EtherType::IPV4).into_inner();
            [&link[..], packet].concat()
        }
    };
    if let Some(asked) = neighbor::arp::parse(&frame) {
        assert_eq!((asked.operation, asked.sender_mac), (Operation::REQUEST, OWN));
        return Sent::Arp(asked.sender_ip, asked.target_ip);
    }
    let flow = Flow::of(&frame).unwrap();
    assert_eq!(flow.ports, Some((68, 67)));
    assert!(ipv4::Packet::new_checked(&frame[14..]).unwrap().verify_checksum());
    let datagram = udp::Datagram::new_checked(&frame[flow.l4_offset()..flow.end]).unwrap();
    assert!(datagram.verify_checksum(flow.addresses));
    let ip::Addresses::V4 { src, dst } = flow.addresses else { panic!("IPv4") };
    assert_eq!(dst.is_broadcast(), ethernet::Header::of(&frame).unwrap().dst() == MacAddress::BROADCAST);
    let bytes = datagram.payload();
    let header = dhcp::Header::of(bytes).unwrap();
    let find =
        |code| Options::new(&bytes[240..]).find(|(it, _)| *it == code).map(|(_, value)| value.to_vec());
    let server = find(option::SERVER).map(|it| Ipv4Addr::from(*it.first_chunk::<4>().unwrap()));
    let kind = M(find(option::MESSAGE_TYPE).unwrap()[0]);
    Sent::Dhcp { src, dst, kind, exchange: header.exchange(), server }
}

/// What a server says.
#[derive(Clone)]
struct Says {
    kind: M,
    exchange: u32,
    address: Ipv4Addr,
    mac: MacAddress,
    options: Vec<(u8, Vec<u8>)>,
}

impl Says {
    /// An answer with an address for some seconds.
    fn new(kind: M, exchange: u32, seconds: u32) -> Says {
        let options = vec![
            (option::SERVER, SERVER.octets().to_vec()),
            (option::LEASE_TIME, seconds.to_be_bytes().to_vec()),
            (option::SUBNET_MASK, vec![255, 255, 255, 0]),
            (option::ROUTER, ROUTER.octets().to_vec()),
            (option::MTU, vec![5, 120]),
        ];
        Says { kind, exchange, address: LEASED, mac: OWN, options }
    }

    /// With another value of an option, or without it.
    fn with(mut self, code: u8, value: Option<&[u8]>) -> Says {
        self.options.retain(|(it, _)| *it != code);
        self.options.extend(value.map(|value| (code, value.to_vec())));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut header = dhcp::Header::zeroed();
        header.set_kind(true);
        header.set_exchange(self.exchange);
        header.set_your_address(self.address);
        header.set_client_mac(self.mac);
        let mut bytes = header.into_inner().to_vec();
        bytes.extend([option::MESSAGE_TYPE, 1, self.kind.0]);
        for (code, value) in &self.options {
            bytes.extend([*code, value.len() as u8]);
            bytes.extend(value);
        }
        bytes.push(option::END);
        bytes
    }
}

/// A client and the time.
struct Rig {
    client: Client,
    now_ns: i64,
}

impl Rig {
    fn new() -> Rig {
        Rig { client: Client::new(OWN, [1, 2], 0), now_ns: 0 }
    }

    /// What is sent now.
    fn turn(&mut self) -> Vec<Sent> {
        let mut out = Vec::new();
        self.client.turn(self.now_ns, &mut out);
        out.iter().map(read).collect()
    }

    /// Goes on to when something is due, and what is sent then.
    fn wait(&mut self) -> Vec<Sent> {
        self.now_ns = self.client.due_ns().max(self.now_ns);
        self.turn()
    }

    fn hear(&mut self, says: &Says) -> bool {
        self.client.receive(&says.bytes(), self.now_ns)
    }

    /// The exchange of the only message that is sent now, which is of a kind.
    fn exchange(&mut self, wanted: M) -> u32 {
        match self.wait()[..] {
            [Sent::Dhcp { kind, exchange, .. }] if kind == wanted => exchange,
            ref sent => panic!("{sent:?}"),
        }
    }

    /// With a lease for some seconds, asked for at the time that is returned.
    fn leased(seconds: u32) -> (Rig, i64) {
        let mut rig = Rig::new();
        let exchange = rig.exchange(M::DISCOVER);
        assert!(rig.hear(&Says::new(M::OFFER, exchange, seconds)));
        assert_eq!(rig.exchange(M::REQUEST), exchange);
        let asked_ns = rig.now_ns;
        assert!(rig.hear(&Says::new(M::ACK, exchange, seconds)));
        while rig.client.lease().is_none() {
            rig.wait();
        }
        (rig, asked_ns)
    }
}

fn from_nobody(kind: M, exchange: u32, server: Option<Ipv4Addr>) -> Sent {
    Sent::Dhcp { src: Ipv4Addr::UNSPECIFIED, dst: Ipv4Addr::BROADCAST, kind, exchange, server }
}

#[test]
fn an_address_is_asked_for_probed_and_announced() {
    let mut rig = Rig::new();
    let exchange = rig.exchange(M::DISCOVER);
    rig.now_ns += SECOND_NS;
    assert_eq!(rig.turn(), [], "it waits for offers");
    assert!(rig.hear(&Says::new(M::OFFER, exchange, 3600)));
    assert_eq!(rig.turn(), [from_nobody(M::REQUEST, exchange, Some(SERVER))]);
    assert!(rig.hear(&Says::new(M::ACK, exchange, 3600)));
    assert!(rig.client.lease().is_none() && rig.client.is_probing());
    let probe = Sent::Arp(Ipv4Addr::UNSPECIFIED, LEASED);
    assert_eq!((rig.wait(), rig.wait(), rig.wait()), (vec![probe.clone()], vec![probe.clone()], vec![probe]));
    assert_eq!(rig.wait(), [Sent::Arp(LEASED, LEASED)], "it is announced");
    let lease = *rig.client.lease().unwrap();
    assert_eq!((lease.address, lease.bits, lease.router, lease.server), (LEASED, 24, Some(ROUTER), SERVER));
    assert_eq!((lease.mtu, lease.until_ns), (Some(1400), Some(SECOND_NS + 3600 * SECOND_NS)));
    assert_eq!((rig.client.counters().leases, rig.client.counters().refused), (1, 0));
}

/// A host that believed the least of these would send nothing any more.
#[test]
fn an_mtu_that_no_link_has_is_not_taken() {
    for (told, taken) in [(0, None), (68, None), (575, None), (576, Some(576)), (u16::MAX, Some(u16::MAX))] {
        let mut rig = Rig::new();
        let exchange = rig.exchange(M::DISCOVER);
        let says = |kind| Says::new(kind, exchange, 3600).with(option::MTU, Some(&told.to_be_bytes()));
        assert!(rig.hear(&says(M::OFFER)));
        assert_eq!(rig.exchange(M::REQUEST), exchange);
        assert!(rig.hear(&says(M::ACK)));
        while rig.client.lease().is_none() {
            rig.wait();
        }
        assert_eq!(rig.client.lease().unwrap().mtu, taken, "{told}");
    }
}

#[test]
fn nobody_answers_and_it_asks_less_and_less_often() {
    let mut rig = Rig::new();
    let (mut exchanges, mut times) = (vec![], vec![]);
    for _ in 0..8 {
        exchanges.push(rig.exchange(M::DISCOVER));
        times.push(rig.now_ns);
    }
    assert!(exchanges.iter().all(|it| *it == exchanges[0]), "RFC 2131, section 4.1, has one for all");
    for (pair, most) in times.windows(2).zip([4, 8, 16, 32, 64, 64, 64]) {
        let waited = pair[1] - pair[0];
        assert!((waited - most * SECOND_NS).abs() <= SECOND_NS, "{waited} for {most}");
    }
    let other = Client::new(OWN, [3, 4], 0);
    let mut other = Rig { client: other, now_ns: 0 };
    assert_ne!(other.exchange(M::DISCOVER), exchanges[0], "nobody can predict the number");
}

#[test]
fn a_lease_is_renewed_with_its_server_then_with_all_and_ends() {
    let (mut rig, asked_ns) = Rig::leased(1000);
    let renewal = rig.wait();
    assert_eq!(rig.now_ns - asked_ns, 500 * SECOND_NS);
    let [Sent::Dhcp { src: LEASED, dst: SERVER, kind: M::REQUEST, exchange, server: None }] = renewal[..]
    else {
        panic!("{renewal:?}")
    };
    // The answer counts from when it was asked for, and takes other values with it.
    rig.now_ns += SECOND_NS;
    let more = Says::new(M::ACK, exchange, 2000).with(option::ROUTER, None);
    assert!(rig.hear(&more));
    let lease = *rig.client.lease().unwrap();
    assert_eq!((lease.until_ns, lease.router), (Some(asked_ns + 2500 * SECOND_NS), None));
    assert_eq!(rig.client.counters().renewals, 1);
    assert!(!rig.hear(&more), "nothing was asked for any more");
    // Now nobody answers.
    let (began_ns, mut to) = (asked_ns + 500 * SECOND_NS, vec![]);
    while rig.client.lease().is_some() {
        for sent in rig.wait() {
            let Sent::Dhcp { src, dst, kind: M::REQUEST, .. } = sent else { panic!("{sent:?}") };
            assert_eq!(src, LEASED);
            to.push(((rig.now_ns - began_ns) / SECOND_NS, dst));
        }
    }
    let all = Ipv4Addr::BROADCAST;
    let wanted = [
        (1000, SERVER),
        (1375, SERVER),
        (1562, SERVER),
        (1656, SERVER),
        (1716, SERVER),
        (1750, all),
        (1875, all),
        (1937, all),
        (1997, all),
    ];
    assert_eq!(to, wanted);
    assert_eq!(rig.now_ns - began_ns, 2000 * SECOND_NS, "the address is given up in time");
    assert_eq!(rig.client.counters().lost, 1);
    rig.exchange(M::DISCOVER);
}

#[test]
fn times_of_the_server_are_kept_if_they_make_sense() {
    for (first, second, due) in [(100, 200, 100), (0, 200, 500), (300, 200, 500), (200, 1000, 500)] {
        let mut rig = Rig::new();
        let exchange = rig.exchange(M::DISCOVER);
        rig.hear(&Says::new(M::OFFER, exchange, 1000));
        rig.exchange(M::REQUEST);
        let seconds = |seconds: u32| seconds.to_be_bytes();
        let says = Says::new(M::ACK, exchange, 1000)
            .with(option::RENEWAL, Some(&seconds(first)))
            .with(option::REBINDING, Some(&seconds(second)));
        assert!(rig.hear(&says));
        while rig.client.lease().is_none() {
            rig.wait();
        }
        assert_eq!(rig.client.due_ns(), due * SECOND_NS, "{first} {second}");
    }
    let (rig, _) = Rig::leased(u32::MAX);
    assert_eq!((rig.client.lease().unwrap().until_ns, rig.client.due_ns()), (None, i64::MAX));
}

#[test]
fn a_refusal_ends_what_was_asked_for_and_nothing_else() {
    let (mut rig, _) = Rig::leased(1000);
    let no = |exchange| Says::new(M::NAK, exchange, 0);
    assert!(!rig.hear(&no(0)) && rig.client.lease().is_some(), "nothing was asked");
    let [Sent::Dhcp { exchange, .. }] = rig.wait()[..] else { panic!("one request") };
    assert!(!rig.hear(&no(exchange.wrapping_add(1))) && rig.client.lease().is_some());
    let other = no(exchange).with(option::SERVER, Some(&[10, 0, 0, 3]));
    assert!(!rig.hear(&other) && rig.client.lease().is_some(), "another server was not asked");
    assert!(rig.hear(&no(exchange)));
    assert!(rig.client.lease().is_none());
    assert_eq!((rig.client.counters().lost, rig.client.counters().refused), (1, 3));
    // A server that offers and refuses without an end is asked less and less often.
    let mut times = vec![];
    for _ in 0..8 {
        let exchange = rig.exchange(M::DISCOVER);
        times.push(rig.now_ns);
        assert!(rig.hear(&Says::new(M::OFFER, exchange, 1000)));
        rig.exchange(M::REQUEST);
        assert!(rig.hear(&no(exchange)));
    }
    let waited: Vec<i64> = times.windows(2).map(|pair| (pair[1] - pair[0]) / SECOND_NS).collect();
    assert_eq!(waited, [2, 4, 8, 16, 32, 64, 64]);
}

#[test]
fn an_address_that_somebody_has_is_declined() {
    let reply = |ip| Repr {
        operation: Operation::REPLY,
        sender_mac: OTHER,
        sender_ip: ip,
        target_mac: OWN,
        target_ip: Ipv4Addr::UNSPECIFIED,
    };
    let probe = Repr { operation: Operation::REQUEST, target_ip: LEASED, ..reply(Ipv4Addr::UNSPECIFIED) };
    for said in [reply(LEASED), probe] {
        let mut rig = Rig::new();
        let exchange = rig.exchange(M::DISCOVER);
        rig.hear(&Says::new(M::OFFER, exchange, 1000));
        rig.exchange(M::REQUEST);
        rig.hear(&Says::new(M::ACK, exchange, 1000));
        rig.wait();
        let frame = |said: &Repr| neighbor::arp::frame(said, OWN);
        let own = Repr { sender_mac: OWN, ..said };
        for harmless in [frame(&reply(SERVER)), frame(&own)] {
            rig.client.hear(&harmless, rig.now_ns);
            assert!(rig.client.is_probing());
        }
        rig.client.hear(&frame(&said), rig.now_ns);
        assert_eq!(rig.client.counters().conflicts, 1);
        let declined_ns = rig.now_ns;
        let sent = rig.turn();
        let [Sent::Dhcp { exchange: another, .. }] = sent[..] else { panic!("{sent:?}") };
        assert_eq!(sent, [from_nobody(M::DECLINE, another, Some(SERVER))]);
        rig.exchange(M::DISCOVER);
        assert_eq!(rig.now_ns - declined_ns, 10 * SECOND_NS, "RFC 2131, section 3.1, 5");
    }
}

#[test]
fn a_server_that_acknowledges_nothing_is_left() {
    let mut rig = Rig::new();
    let first = rig.exchange(M::DISCOVER);
    rig.hear(&Says::new(M::OFFER, first, 1000));
    for _ in 0..4 {
        assert_eq!(rig.exchange(M::REQUEST), first);
        // Another's address, another server's word, and what was offered before.
        let other = Says { address: Ipv4Addr::new(10, 0, 0, 51), ..Says::new(M::ACK, first, 1000) };
        let server = Says::new(M::ACK, first, 1000).with(option::SERVER, Some(&[10, 0, 0, 3]));
        assert!(!rig.hear(&other) && !rig.hear(&server) && !rig.hear(&Says::new(M::OFFER, first, 1000)));
    }
    assert_eq!(rig.wait(), []);
    assert_ne!(rig.exchange(M::DISCOVER), first);
    assert!((60 - 4..=60 + 4).contains(&(rig.now_ns / SECOND_NS)), "{}", rig.now_ns);
}

#[test]
fn offers_that_make_no_sense_are_not_taken() {
    let mut rig = Rig::new();
    let exchange = rig.exchange(M::DISCOVER);
    let sound = Says::new(M::OFFER, exchange, 1000);
    let at = |address: [u8; 4]| Says { address: address.into(), ..sound.clone() };
    let wrong = [
        Says::new(M::OFFER, exchange.wrapping_add(1), 1000),
        Says { mac: OTHER, ..sound.clone() },
        Says::new(M::OFFER, exchange, 0),
        Says::new(M::OFFER, exchange, 9),
        Says::new(M::ACK, exchange, 1000),
        Says::new(M::NAK, exchange, 1000),
        Says { kind: M(99), ..sound.clone() },
        sound.clone().with(option::SERVER, None),
        sound.clone().with(option::SERVER, Some(&[0; 4])),
        sound.clone().with(option::SERVER, Some(&[10, 0])),
        sound.clone().with(option::SERVER, Some(&LEASED.octets())),
        sound.clone().with(option::LEASE_TIME, None),
        sound.clone().with(option::SUBNET_MASK, Some(&[255, 0, 255, 0])),
        sound.clone().with(option::SUBNET_MASK, Some(&[0; 4])),
        at([0; 4]),
        at([127, 0, 0, 1]),
        at([224, 0, 0, 1]),
        at([255; 4]),
        at([10, 0, 0, 0]),
        at([10, 0, 0, 255]),
    ];
    for (n, says) in wrong.iter().enumerate() {
        assert!(!rig.hear(says), "{n}");
        assert_eq!(rig.turn(), [], "{n}");
    }
    assert_eq!(rig.client.counters().refused, wrong.len() as u64);
    // Of what a host can do without, the rest is taken.
    let router = LEASED.octets();
    assert!(rig.hear(&sound.with(option::ROUTER, Some(&router)).with(option::SUBNET_MASK, None)));
}

proptest! {
    /// Whatever comes, there is no panic, and no address is kept beyond its time.
    #[test]
    fn any_answers_at_any_time(steps in prop::collection::vec((0_u8..9, any::<u32>(), any::<[u8; 12]>()), 1..200)) {
        let mut rig = Rig::new();
        let mut exchange = 0;
        for (kind, number, noise) in steps {
            rig.now_ns += i64::from(number % 100_000) * 1_000_000;
            let mut out = Vec::new();
            rig.client.turn(rig.now_ns, &mut out);
            prop_assert!(out.len() <= 1);
            for message in &out {
                if let Sent::Dhcp { exchange: it, .. } = read(message) {
                    exchange = it;
                }
            }
            let mut says = Says::new(M(kind), exchange, number);
            if number % 3 == 0 {
                says.options.push((noise[0], noise[1..].to_vec()));
                says.options.swap(0, usize::from(noise[1] % 6));
            }
            rig.client.receive(&says.bytes(), rig.now_ns);
            rig.client.receive(&noise, rig.now_ns);
            rig.client.hear(&noise, rig.now_ns);
            if let Some(lease) = rig.client.lease() {
                prop_assert!(lease.until_ns.is_none_or(|until_ns| until_ns > rig.now_ns || rig.client.due_ns() <= rig.now_ns));
            }
        }
    }
}
