//! Addresses from router advertisements, in simulated time, with routers that do as they should,
//! and others.

use std::net::Ipv6Addr;

use neighbor::autoconf::{Client, OnLink, address_of};
use neighbor::{Address, Message, nd};
use proptest::prelude::*;
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{MacAddress, icmpv6, ipv6, ndp};

const SECOND_NS: i64 = 1_000_000_000;
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);
const BOTH: u8 = ndp::ON_LINK | ndp::AUTONOMOUS;

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// A prefix as a router tells it: bits, flags, and for how long it is valid and preferred.
fn prefix(text: &str, bits: u8, flags: u8, valid: u32, preferred: u32) -> Vec<u8> {
    let mut option = ndp::PrefixOption::zeroed();
    option.set_prefix(ip(text), bits, flags);
    option.set_lifetimes_s(valid, preferred);
    option.into_inner().to_vec()
}

fn mtu(mtu: u32) -> Vec<u8> {
    let mut option = ndp::MtuOption::zeroed();
    option.set_mtu(mtu);
    option.into_inner().to_vec()
}

/// A frame with a router advertisement, as `change` leaves its packet before its checksum is made.
fn told_but(lifetime_s: u16, options: &[Vec<u8>], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut head = ndp::RouterAdvertisement::zeroed();
    head.set_kind();
    head.set_lifetime_s(lifetime_s);
    let message = [&head.into_inner()[..], &options.concat()].concat();
    let dst = MacAddress::of_ipv6_group(ndp::ALL_NODES);
    let link = ethernet::Header::between(dst, OTHER, EtherType::IPV6).into_inner();
    let mut header = ipv6::Header::zeroed();
    header.fill(ip("fe80::1"), ndp::ALL_NODES, Protocol::ICMPV6, message.len() as u16, 255);
    let mut packet = [&header.into_inner()[..], &message].concat();
    change(&mut packet);
    let addresses = ipv6::Header::of(&packet).unwrap().addresses();
    icmpv6::Packet::new_unchecked(&mut packet[40..]).fill_checksum(addresses);
    [&link[..], &packet].concat()
}

fn told(lifetime_s: u16, options: &[Vec<u8>]) -> Vec<u8> {
    told_but(lifetime_s, options, |_| ())
}

/// A client and the time.
struct Rig {
    client: Client,
    now_ns: i64,
}

impl Rig {
    fn new() -> Rig {
        Rig { client: Client::new(OWN, 0), now_ns: 0 }
    }

    /// With a link-local address, from which a router was asked for.
    fn ready() -> Rig {
        let mut rig = Rig::new();
        rig.wait();
        assert_eq!(rig.wait().len(), 1);
        rig
    }

    fn turn(&mut self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        self.client.turn(self.now_ns, &mut out);
        let frame = |message| match message {
            Message::Frame(frame) => frame,
            Message::Packet(packet) => panic!("{packet:?}"),
        };
        out.into_iter().map(frame).collect()
    }

    /// Goes on to when something is due, and what is sent then.
    fn wait(&mut self) -> Vec<Vec<u8>> {
        self.now_ns = self.client.due_ns().max(self.now_ns);
        self.turn()
    }

    /// What a router tells, and the time for the answers to what follows.
    fn learn(&mut self, frame: &[u8]) {
        assert!(self.client.hear(frame, self.now_ns));
        self.turn();
        self.now_ns += SECOND_NS;
        self.turn();
    }

    fn addresses(&self) -> Vec<Ipv6Addr> {
        self.client.addresses(self.now_ns).into_iter().map(|(address, _)| address).collect()
    }
}

/// What a frame asks for, which must be one that Linux and the standard take.
fn asked(frame: &[u8]) -> Ipv6Addr {
    let asked = nd::solicitation(frame).expect("a valid solicitation");
    assert!(asked.src.is_unspecified() && asked.src_mac == OWN);
    asked.target
}

#[test]
fn an_address_is_made_of_a_prefix_once_nobody_has_it() {
    let mut rig = Rig::new();
    let local = ip("fe80::ff:fe00:9");
    assert_eq!(rig.wait().iter().map(|frame| asked(frame)).collect::<Vec<_>>(), [local]);
    assert!(rig.addresses().is_empty() && rig.client.is_probing());
    let sent = rig.wait();
    assert_eq!((rig.now_ns, rig.addresses()), (SECOND_NS, vec![local]));
    // A router is asked for from there: fe80::ff:fe00:9 to ff02::2, with the Ethernet address.
    assert_eq!(sent[0][..6], [0x33, 0x33, 0, 0, 0, 2]);
    let header = ipv6::Header::of(&sent[0][14..]).unwrap();
    assert_eq!((header.src(), header.dst(), header.hop_limit()), (local, ip("ff02::2"), 255));
    assert_eq!(sent[0][54..56], [133, 0]);
    assert_eq!(sent[0][62..], [1, 1, 2, 0, 0, 0, 0, 9]);
    assert!(icmpv6::Packet::new_checked(&sent[0][54..]).unwrap().verify_checksum(header.addresses()));

    let frame = told(1800, &[prefix("2001:db8:1::", 64, BOTH, 7200, 3600), mtu(1400)]);
    assert!(rig.client.hear(&frame, rig.now_ns));
    let global = ip("2001:db8:1::ff:fe00:9");
    assert_eq!(rig.wait().iter().map(|frame| asked(frame)).collect::<Vec<_>>(), [global]);
    assert_eq!(rig.addresses(), [local], "it is not sure yet");
    assert!(rig.wait().is_empty());
    let found = rig.client.addresses(rig.now_ns);
    assert_eq!(found.iter().map(|(address, _)| *address).collect::<Vec<_>>(), [global, local]);
    assert_eq!(found[0].1.until_ns, Some(7201 * SECOND_NS));
    assert!(found[0].1.is_preferred && found[1].1.until_ns.is_none());
    assert_eq!((rig.client.router(), rig.client.mtu()), (Some(ip("fe80::1")), Some(1400)));
    let on_link = |text: &str| rig.client.on_link().iter().any(|prefix| prefix.has(ip(text)));
    assert!(on_link("2001:db8:1::77") && on_link("fe80::5") && !on_link("2001:db8:2::77"));
    // No other router is asked for; the router's time is over, then that of the preference, then all.
    assert!(rig.wait().is_empty());
    assert_eq!((rig.now_ns, rig.client.router()), (1801 * SECOND_NS, None));
    assert!(!rig.client.addresses(3602 * SECOND_NS)[0].1.is_preferred);
    assert!(rig.wait().is_empty());
    assert_eq!((rig.now_ns, rig.addresses()), (7201 * SECOND_NS, vec![local]));
    assert_eq!(rig.client.on_link().len(), 1);
}

#[test]
fn without_a_router_it_is_asked_for_three_times() {
    let mut rig = Rig::ready();
    let mut times = vec![rig.now_ns / SECOND_NS];
    while rig.client.due_ns() < i64::MAX {
        times.extend(rig.wait().iter().map(|_| rig.now_ns / SECOND_NS));
    }
    assert_eq!(times, [1, 5, 9]);
    rig.learn(&told(1800, &[prefix("2001:db8:1::", 64, BOTH, 7200, 3600)]));
    assert_eq!(rig.addresses().len(), 2, "one that comes later is heard");
}

#[test]
fn an_address_that_somebody_has_is_not_taken() {
    let local = address_of(ip("fe80::"), OWN);
    // Its owner answers; another asks for it in the same moment.
    let owner =
        nd::solicitation(&Ipv6Addr::from_bits(1).request(OWN, local, None)).unwrap().advertise(OTHER, false);
    let mut other = Client::new(OWN, 0);
    let mut out = Vec::new();
    other.turn(0, &mut out);
    let Message::Frame(mut rival) = out.remove(0) else { panic!("a frame") };
    let own = rival.clone();
    rival[6..12].copy_from_slice(&OTHER.0);
    for frame in [&owner[..], &rival] {
        let mut rig = Rig::new();
        rig.wait();
        assert!(!rig.client.hear(&own, 0), "its own question, which a switch has sent back");
        assert!(rig.client.is_probing());
        assert!(!rig.client.hear(frame, 0));
        assert!(!rig.client.is_probing() && rig.client.counters().conflicts == 1);
        assert!(rig.wait().is_empty());
        rig.now_ns += 100 * SECOND_NS;
        assert!(rig.turn().is_empty() && rig.addresses().is_empty(), "it asks for nothing more");
    }
    // Later it is too late.
    let mut rig = Rig::ready();
    assert!(!rig.client.hear(&owner, rig.now_ns));
    assert_eq!((rig.addresses(), rig.client.counters().conflicts), (vec![local], 0));
}

#[test]
fn a_lifetime_is_not_cut_short_by_whoever_is_on_the_link() {
    let mut rig = Rig::ready();
    let with = |valid, preferred| told(1800, &[prefix("2001:db8:1::", 64, BOTH, valid, preferred)]);
    rig.learn(&with(90_000, 40_000));
    let left_s = |rig: &Rig| {
        rig.client.addresses(rig.now_ns)[0].1.until_ns.map(|until_ns| (until_ns - rig.now_ns) / SECOND_NS)
    };
    rig.learn(&with(0, 0));
    assert_eq!(left_s(&rig), Some(7199), "RFC 4862, section 5.5.3 e) 3");
    assert!(!rig.client.addresses(rig.now_ns)[0].1.is_preferred);
    rig.learn(&with(100, 100));
    assert_eq!(left_s(&rig), Some(7198), "e) 2");
    rig.learn(&with(8000, 8000));
    assert_eq!(left_s(&rig), Some(7999), "e) 1");
    rig.learn(&with(ndp::INFINITE, ndp::INFINITE));
    assert_eq!(left_s(&rig), None);
    // What is on the link and who forwards is as the last word was.
    rig.learn(&told(0, &[prefix("2001:db8:1::", 64, BOTH, 0, 0)]));
    assert_eq!((rig.client.on_link().len(), rig.client.router(), rig.addresses().len()), (1, None, 2));
}

#[test]
fn advertisements_that_are_not_valid_are_not_looked_at() {
    let option = prefix("2001:db8:1::", 64, BOTH, 7200, 3600);
    let wrong = [
        ("forwarded", told_but(1800, std::slice::from_ref(&option), |packet| packet[7] = 254)),
        ("not of the link", told_but(1800, std::slice::from_ref(&option), |packet| packet[8] = 0x20)),
        ("a code", told_but(1800, std::slice::from_ref(&option), |packet| packet[41] = 1)),
        (
            "an option without a length",
            told_but(1800, std::slice::from_ref(&option), |packet| packet[57] = 0),
        ),
        ("an option beyond the end", told_but(1800, std::slice::from_ref(&option), |packet| packet[57] = 5)),
        ("a wrong checksum", {
            let mut frame = told(1800, &[option]);
            frame[56] ^= 1;
            frame
        }),
    ];
    for (what, frame) in wrong {
        let mut rig = Rig::ready();
        assert!(!rig.client.hear(&frame, rig.now_ns), "{what}");
        assert_eq!((rig.client.router(), rig.client.counters().advertisements), (None, 0), "{what}");
    }
    // In valid ones: prefixes that nobody can make an address of, and an MTU that is too short.
    let mut rig = Rig::ready();
    let odd = [
        prefix("2001:db8:1::", 65, ndp::AUTONOMOUS, 7200, 3600),
        prefix("2001:db8:1::", 64, ndp::AUTONOMOUS, 3600, 7200),
        prefix("fe80::", 64, BOTH, 7200, 3600),
        prefix("ff02::", 64, BOTH, 7200, 3600),
        prefix("2001:db8:1::", 200, BOTH, 7200, 3600),
        mtu(1279),
        mtu(70_000),
    ];
    rig.learn(&told(1800, &odd));
    assert_eq!((rig.addresses().len(), rig.client.on_link().len(), rig.client.mtu()), (1, 1, None));
    assert_eq!(rig.client.counters().refused, odd.len() as u64);
    assert!(OnLink { prefix: ip("::"), bits: 0 }.has(ip("2001:db8::1")));
}

#[test]
fn a_storm_of_advertisements_is_bounded() {
    let mut rig = Rig::ready();
    for n in 0..2000_u16 {
        let options =
            (0..20_u16).map(|m| prefix(&format!("2001:db8:{:x}::", n * 20 + m), 64, BOTH, 7200, 3600));
        let frame = told_but(1800, &options.collect::<Vec<_>>(), |packet| {
            packet[22..24].copy_from_slice(&n.to_be_bytes());
        });
        assert!(rig.client.hear(&frame, rig.now_ns));
        let sent = rig.turn().len();
        assert!(sent <= 4, "{sent}");
        rig.now_ns += 1_000_000;
    }
    rig.now_ns += SECOND_NS;
    rig.turn();
    assert_eq!((rig.addresses().len(), rig.client.on_link().len()), (5, 9));
    let counted = rig.client.counters();
    assert!(counted.advertisements <= 48 && counted.limited >= 1900, "{counted:?}");
    assert!(counted.refused > 0, "{counted:?}");
}

proptest! {
    /// Whatever comes, there is no panic, and what is kept and sent is bounded.
    #[test]
    fn any_options_at_any_time(steps in prop::collection::vec((any::<u16>(), any::<Vec<u8>>(), 0_u32..5_000), 1..60)) {
        let mut rig = Rig::ready();
        for (lifetime, options, milliseconds) in steps {
            rig.now_ns += i64::from(milliseconds) * 1_000_000;
            rig.client.hear(&told(lifetime, &[options]), rig.now_ns);
            prop_assert!(rig.turn().len() <= 5);
            prop_assert!(rig.addresses().len() <= 5 && rig.client.on_link().len() <= 9);
        }
    }
}
