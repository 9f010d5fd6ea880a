//! Next hops of the underlay: which are asked, whose answers are used, and for how long.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use control::{Change, Far, Key, Owner, Value};
use neighbor::arp;
use overlay::Observation;
use port::Reason;
use vtep::{Config, Control, Frame, ToControl, channels};
use wire::MacAddress;

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const SECOND: i64 = 1_000_000_000;
const TEXT: &str = "[[underlay]]\nname = 'up'\nport = 'tap:x'\naddresses = ['192.0.2.1/24']\n\
                    [[network]]\nnumber = 5\nprotocol = 'vxlan'\nflood = ['192.0.2.2']\n";

struct Rig {
    control: Control,
    to_control: ToControl,
    requests: Receiver<Frame>,
}

impl Rig {
    fn new() -> Rig {
        let config = Config::parse(TEXT).unwrap();
        let (channels, to_control, requests) = channels();
        let control = Control::new(&config.underlay, &[MAC], config.desired(&[MAC]), channels, 0).unwrap();
        Rig { control, to_control, requests }
    }

    fn turn(&mut self, now_ns: i64) {
        assert!(self.control.turn(Duration::from_millis(1), || now_ns), "the lanes are there");
    }

    /// Whom the control asked for.
    fn asked(&self) -> Vec<Ipv4Addr> {
        self.requests.try_iter().map(|frame| arp::parse(frame.bytes()).unwrap().target_ip).collect()
    }

    /// An answer of somebody's who says to have an address.
    fn answer(&self, address: Ipv4Addr, mac: MacAddress) {
        let own = neighbor::Resolver::new(MAC, Ipv4Addr::new(192, 0, 2, 1));
        let asked = arp::parse(&own.request(address, None)).unwrap();
        let frame = arp::frame(&asked.reply(mac), MAC);
        self.to_control.frames.try_send(Frame::new(0, &frame).unwrap()).unwrap();
    }

    fn known(&self) -> Vec<(u16, IpAddr, MacAddress)> {
        self.control.neighbors().collect()
    }
}

#[test]
fn a_next_hop_is_asked_for_until_it_answers_and_again_when_it_is_old() {
    let peer = Ipv4Addr::new(192, 0, 2, 2);
    let mut rig = Rig::new();
    rig.turn(0);
    assert_eq!(rig.asked(), [peer]);
    rig.turn(SECOND / 2);
    assert_eq!(rig.asked(), [] as [Ipv4Addr; 0], "not more often than every second");
    rig.turn(SECOND);
    assert_eq!(rig.asked(), [peer]);
    rig.answer(peer, PEER);
    rig.turn(SECOND);
    assert_eq!(rig.known(), [(0, peer.into(), PEER)]);
    assert_eq!(rig.control.state().0.unresolved().count(), 0);
    rig.turn(20 * SECOND);
    assert_eq!(rig.asked(), [] as [Ipv4Addr; 0]);
    rig.turn(40 * SECOND);
    assert_eq!(rig.asked(), [peer], "its answer is old");
    // Another host has the address by now.
    let other = MacAddress([2, 0, 0, 0, 0, 3]);
    rig.answer(peer, other);
    rig.turn(41 * SECOND);
    assert_eq!(rig.known(), [(0, peer.into(), other)]);
    // Nobody answers any more: it is forgotten, and asked for like any other.
    for second in 42..200 {
        rig.turn(second * SECOND);
    }
    assert_eq!(rig.known(), []);
    assert_eq!(rig.control.state().0.unresolved().count(), 1);
}

/// RFC 826: a request says where its sender is, as an answer does. A router that another one stands
/// in for is there at once.
#[test]
fn a_next_hop_that_asks_itself_says_where_it_is() {
    let peer = Ipv4Addr::new(192, 0, 2, 2);
    let mut rig = Rig::new();
    let asks = |rig: &Rig, last, target, mac| {
        let own = neighbor::Resolver::new(mac, Ipv4Addr::new(192, 0, 2, last));
        let frame = own.request(Ipv4Addr::new(192, 0, 2, target), None);
        rig.to_control.asking.try_send(Frame::new(0, &frame).unwrap()).unwrap();
    };
    rig.turn(0);
    rig.answer(peer, PEER);
    rig.turn(SECOND);
    let (second, third) = (MacAddress([2, 0, 0, 0, 0, 3]), MacAddress([2, 0, 0, 0, 0, 4]));
    asks(&rig, 2, 2, second);
    rig.turn(2 * SECOND);
    assert_eq!(rig.known(), [(0, peer.into(), second)], "it asked for its own address");
    asks(&rig, 2, 1, third);
    asks(&rig, 9, 1, PEER);
    rig.turn(3 * SECOND);
    assert_eq!(rig.known(), [(0, peer.into(), third)], "it asked for ours, and so did a stranger");
    // What it asks does not say that it hears what is sent to it: it is asked all the same.
    rig.asked();
    for second in [12, 22, 32, 34] {
        asks(&rig, 2, 1, third);
        rig.turn(second * SECOND);
    }
    assert_eq!(rig.asked(), [peer]);
}

/// RFC 4861, section 7.2.3: so does a solicitation.
#[test]
fn an_ipv6_next_hop_that_asks_itself_says_where_it_is() {
    let text = TEXT.replace("192.0.2.1/24", "2001:db8::1/64").replace("192.0.2.2", "2001:db8::2");
    let config = Config::parse(&text).unwrap();
    let (channels, to_control, _requests) = channels();
    let mut control = Control::new(&config.underlay, &[MAC], config.desired(&[MAC]), channels, 0).unwrap();
    let (own, peer): (std::net::Ipv6Addr, _) =
        ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    control.turn(Duration::from_millis(1), || 0);
    for (second, mac) in (1..).zip([PEER, MacAddress([2, 0, 0, 0, 0, 3])]) {
        let frame = neighbor::Resolver::new(mac, peer).request(own, None);
        to_control.asking.try_send(Frame::new(0, &frame).unwrap()).unwrap();
        control.turn(Duration::from_millis(1), || second * SECOND);
        assert_eq!(control.neighbors().collect::<Vec<_>>(), [(0, peer.into(), mac)]);
    }
}

/// Two hosts that say to have an address have the headers of tunnels made anew once a second at most.
#[test]
fn an_address_that_two_hosts_have_changes_its_place_at_a_pace() {
    let peer = Ipv4Addr::new(192, 0, 2, 2);
    let second = MacAddress([2, 0, 0, 0, 0, 3]);
    let mut rig = Rig::new();
    rig.turn(0);
    rig.answer(peer, PEER);
    rig.turn(SECOND);
    let before = rig.control.state().0.rewritten();
    for tenth in 11..=40 {
        for mac in [second, PEER] {
            rig.answer(peer, mac);
            let frame = neighbor::Resolver::new(mac, peer).request(Ipv4Addr::new(192, 0, 2, 1), None);
            rig.to_control.asking.try_send(Frame::new(0, &frame).unwrap()).unwrap();
            rig.turn(tenth * SECOND / 10);
        }
    }
    let changes = rig.control.state().0.rewritten() - before;
    assert!((1..=3).contains(&changes), "{changes} in three seconds");
}

/// One that says where it is too early, and only once, is asked for when it may change its place.
#[test]
fn an_address_that_moves_twice_in_a_second_is_found() {
    let peer = Ipv4Addr::new(192, 0, 2, 2);
    let second = MacAddress([2, 0, 0, 0, 0, 3]);
    let mut rig = Rig::new();
    rig.turn(0);
    rig.answer(peer, PEER);
    rig.turn(SECOND);
    rig.answer(peer, second);
    rig.turn(21 * SECOND / 10);
    rig.answer(peer, PEER);
    rig.turn(25 * SECOND / 10);
    let asked = |rig: &Rig| -> Vec<MacAddress> {
        let frames = rig.requests.try_iter();
        frames.map(|frame| wire::ethernet::Header::of(frame.bytes()).unwrap().dst()).collect()
    };
    asked(&rig);
    let before = rig.control.state().0.rewritten();
    rig.turn(32 * SECOND / 10);
    assert_eq!(asked(&rig), [MacAddress::BROADCAST]);
    rig.answer(peer, PEER);
    rig.turn(33 * SECOND / 10);
    assert_eq!(rig.control.state().0.rewritten(), before + 1, "it is back");
    rig.turn(40 * SECOND / 10);
    assert_eq!(asked(&rig), []);
}

/// A next hop that does not answer where it was is asked for everywhere.
#[test]
fn a_next_hop_that_went_silent_is_asked_for_by_all() {
    let peer = Ipv4Addr::new(192, 0, 2, 2);
    let mut rig = Rig::new();
    rig.turn(0);
    rig.answer(peer, PEER);
    rig.turn(SECOND);
    let asked_whom = |rig: &mut Rig, seconds: std::ops::Range<i64>| {
        let mut asked = Vec::new();
        for second in seconds {
            rig.turn(second * SECOND);
            let frames = rig.requests.try_iter();
            asked.extend(frames.map(|frame| wire::ethernet::Header::of(frame.bytes()).unwrap().dst()));
        }
        asked
    };
    asked_whom(&mut rig, 0..2);
    let asked = asked_whom(&mut rig, 31..40);
    assert_eq!((asked[0], asked[1]), (PEER, MacAddress::BROADCAST), "{asked:?}");
    assert!(asked[1..].iter().all(|dst| *dst == MacAddress::BROADCAST));
    // One that answered is asked alone the next time.
    rig.answer(peer, PEER);
    rig.turn(40 * SECOND);
    assert_eq!(asked_whom(&mut rig, 40..73)[0], PEER);
}

/// Whom the table sends an address to.
fn remote(rig: &Rig) -> Option<IpAddr> {
    rig.control.state().0.get(5, 9).map(|tunnel| tunnel.remote)
}

#[test]
fn the_file_has_its_way_and_others_have_theirs_where_it_says_nothing() {
    let mut rig = Rig::new();
    let far =
        |last| Far { remote: [192, 0, 2, last].into(), local: [192, 0, 2, 1].into(), vni: 5, port: None };
    let entry = |last| Change { key: Key::of(5, 9), value: Some(Value::Entry(far(last))) };
    let flood = Change { key: Key::Flood(5), value: Some(Value::Flood(vec![far(8)])) };
    assert_eq!(rig.control.change(Owner::Kernel, vec![entry(7), flood], 1), 1, "the file has a flood list");
    assert_eq!(remote(&rig), Some([192, 0, 2, 7].into()));
    let with = Config::parse(&format!("{TEXT}[[network.entry]]\nkey = 9\nremote = '192.0.2.2'\nttl = 9\n"));
    rig.control.apply(with.unwrap().desired(&[MAC]), 2).unwrap();
    assert_eq!(remote(&rig), Some([192, 0, 2, 2].into()));
    assert_eq!(rig.control.state().0.get(5, 9).unwrap().ttl, 9, "with all that the file says");
    assert_eq!(rig.control.change(Owner::Kernel, vec![entry(6)], 3), 0);
    // The file gives up its entry and its flood list; a network that is another one keeps what
    // others want of it.
    let without = Config::parse(&TEXT.replace("flood = ['192.0.2.2']", "unknown = 'drop'")).unwrap();
    rig.control.apply(without.desired(&[MAC]), 4).unwrap();
    assert_eq!(remote(&rig), Some([192, 0, 2, 6].into()));
    let flood: Vec<IpAddr> = rig.control.state().0.flood(5).map(|tunnel| tunnel.remote).collect();
    assert_eq!(flood, [IpAddr::from([192, 0, 2, 8])]);
    assert!(rig.control.program().compare_table(rig.control.state().0).is_empty());
}

/// RFC 7348, section 4.1: stations are learned behind whom they were heard of, as the file says;
/// with others' entries in front, for a while, and no longer than the file says so.
#[test]
fn stations_that_were_heard_of_are_learned() {
    let mut rig = Rig::new();
    let config = |learning: &str| {
        let text = format!("{TEXT}{learning}[[network.entry]]\nkey = 7\nremote = '192.0.2.2'\n");
        Config::parse(&text).unwrap().desired(&[MAC])
    };
    let hear = |rig: &mut Rig, station: u64, last: u8, second: i64| {
        let observed = Observation { network: 5, station, remote: [192, 0, 2, last].into() };
        rig.to_control.observed.try_send(observed).unwrap();
        rig.turn(second * SECOND);
    };
    let way = |rig: &Rig, key| {
        let table = rig.control.state().0;
        table.entry(5, key).map(|entry| (entry.owner, table.get(5, key).unwrap().remote))
    };
    let at = |owner, last: u8| Some((owner, [192, 0, 2, last].into()));
    hear(&mut rig, 9, 8, 1);
    assert_eq!(way(&rig, 9), None, "nothing is learned unless it is asked for");
    rig.control.apply(config("learning = { ageing = 20, limit = 2 }\n"), 0).unwrap();
    hear(&mut rig, 9, 8, 2);
    hear(&mut rig, 7, 8, 2);
    assert_eq!((way(&rig, 9), way(&rig, 7)), (at(Owner::Learned, 8), at(Owner::Static, 2)));
    assert_eq!(rig.control.state().0.get(5, 9).unwrap().identifier, Some(5));
    // It moves. The file that says the same changes nothing.
    hear(&mut rig, 9, 6, 3);
    let changes = rig.control.apply(config("learning = { ageing = 20, limit = 2 }\n"), 0).unwrap();
    assert_eq!((changes.set, way(&rig, 9)), (0, at(Owner::Learned, 6)));
    assert_eq!(rig.control.program().compare_table(rig.control.state().0), []);
    // No more than the limit, and those heard of last.
    hear(&mut rig, 10, 6, 4);
    hear(&mut rig, 11, 6, 5);
    assert_eq!([9, 10, 11].map(|key| way(&rig, key).is_some()), [false, true, true]);
    rig.turn(24 * SECOND + SECOND / 2);
    assert_eq!([10, 11].map(|key| way(&rig, key).is_some()), [false, true]);
    rig.control.apply(config("learning = false\n"), 25 * SECOND).unwrap();
    assert_eq!((way(&rig, 11), rig.control.state().0.entries(5)), (None, 1));
    hear(&mut rig, 9, 8, 26);
    assert_eq!(way(&rig, 9), None);
    // A network that is another one learns as well.
    rig.control.apply(config("learning = true\n"), 0).unwrap();
    rig.control.apply(config("learning = true\nunknown = 'drop'\n"), 0).unwrap();
    hear(&mut rig, 9, 8, 27);
    assert_eq!(way(&rig, 9), at(Owner::Learned, 8));
}

/// A link that is down is a name for what would go by it, at once, and all else goes on.
#[test]
fn a_link_that_goes_down_is_in_the_table_at_once() {
    let text = "[[underlay]]\nname = 'a'\nport = 'tap:a'\naddresses = ['192.0.2.1/24']\n\
                neighbors = { '192.0.2.2' = '02:00:00:00:00:02', '192.0.2.3' = '02:00:00:00:00:03' }\n\
                [[underlay]]\nname = 'b'\nport = 'tap:b'\naddresses = ['198.51.100.1/24']\n\
                neighbors = { '198.51.100.2' = '02:00:00:00:00:04' }\n\
                [[network]]\nnumber = 5\nprotocol = 'vxlan'\n\
                [[network.entry]]\nkey = 1\nremote = '192.0.2.2'\n\
                [[network.entry]]\nkey = 2\nremote = '198.51.100.2'\nlocal = '198.51.100.1'\n\
                [[network.entry]]\nkey = 3\n\
                remotes = ['192.0.2.3', { remote = '198.51.100.2', local = '198.51.100.1' }]\n";
    let config = Config::parse(text).unwrap();
    let (channels, ..) = channels();
    let desired = || config.desired(&[MAC; 2]);
    let mut control = Control::new(&config.underlay, &[MAC; 2], desired(), channels, 0).unwrap();
    let problems = |control: &Control| [1, 2, 3].map(|key| control.state().0.problem(5, key));
    let before = control.state().0.rewritten();
    assert_eq!(problems(&control), [None; 3]);
    control.set_link(0, false, 1);
    assert_eq!(problems(&control), [Some(Reason::OverlayLinkDown), None, None]);
    assert_eq!(control.state().0.rewritten() - before, 3, "two tunnels and the group");
    control.set_link(0, false, 2);
    assert_eq!(control.state().0.rewritten() - before, 3, "it was down");
    // The file knows nothing of links.
    control.apply(desired(), 3).unwrap();
    assert_eq!(problems(&control), [Some(Reason::OverlayLinkDown), None, None]);
    control.set_link(1, false, 4);
    assert_eq!(problems(&control), [Some(Reason::OverlayLinkDown); 3]);
    control.set_link(0, true, 5);
    assert_eq!(problems(&control), [None, Some(Reason::OverlayLinkDown), None]);
    control.set_link(7, false, 6);
}

#[test]
fn a_next_hop_that_the_kernel_knows_is_not_asked_for() {
    let peer = Ipv4Addr::new(192, 0, 2, 2);
    let mut rig = Rig::new();
    rig.turn(0);
    assert_eq!(rig.asked(), [peer]);
    let known = |mac| Change { key: Key::Neighbor(0, peer.into()), value: mac };
    rig.control.change(Owner::Kernel, vec![known(Some(Value::Neighbor(PEER)))], 1);
    // An answer that was under way, of somebody else by now.
    rig.answer(peer, MacAddress([2, 0, 0, 0, 0, 3]));
    rig.turn(2 * SECOND);
    assert_eq!((rig.known(), rig.asked()), (vec![], vec![]));
    assert_eq!(rig.control.state().0.unresolved().count(), 0);
    rig.control.change(Owner::Kernel, vec![known(None)], 1);
    rig.turn(4 * SECOND);
    assert_eq!(rig.asked(), [peer], "the kernel forgot it");
}

#[test]
fn a_stranger_fills_nothing() {
    let mut rig = Rig::new();
    rig.turn(0);
    for last in 3..200 {
        rig.answer(Ipv4Addr::new(192, 0, 2, last), PEER);
    }
    rig.turn(SECOND);
    assert_eq!(rig.known(), []);
    assert_eq!(rig.control.state().0.unresolved().count(), 1);
}

#[test]
fn a_next_hop_that_nothing_goes_by_is_forgotten_when_its_answer_is_old() {
    let peer = Ipv4Addr::new(192, 0, 2, 2);
    let mut rig = Rig::new();
    rig.turn(0);
    rig.answer(peer, PEER);
    rig.turn(SECOND);
    let none = Config::parse(&TEXT.replace("flood = ['192.0.2.2']\n", "")).unwrap();
    rig.control.apply(none.desired(&[MAC]), SECOND).unwrap();
    rig.turn(20 * SECOND);
    assert_eq!((rig.asked(), rig.known().len()), (vec![peer], 1), "at the start, and it may be used again");
    rig.turn(40 * SECOND);
    assert_eq!((rig.asked(), rig.known().len()), (vec![], 0));
}

#[test]
fn many_that_are_silent_keep_none_from_being_asked_for() {
    let mut rig = Rig::new();
    let entry = |n: u32| {
        let [.., high, low] = n.to_be_bytes();
        format!("[[network.entry]]\nkey = {}\nremote = '192.0.{}.{low}'\n", n + 1, 64 + high)
    };
    let text = TEXT.replace("/24", "/16") + &(0..600).map(entry).collect::<String>();
    let config = Config::parse(&text).unwrap();
    rig.control.apply(config.desired(&[MAC]), 0).unwrap();
    let mut asked = std::collections::BTreeSet::new();
    for turn in 0..4 {
        rig.turn(turn * 2 * SECOND);
        asked.extend(rig.asked());
    }
    assert_eq!(asked.len(), 601);
}

#[test]
fn what_was_found_stays_when_the_file_is_read_again() {
    let peer = Ipv4Addr::new(192, 0, 2, 2);
    let mut rig = Rig::new();
    rig.turn(0);
    rig.answer(peer, PEER);
    rig.turn(SECOND);
    let again = Config::parse(&format!("{TEXT}[[network.entry]]\nkey = 9\nremote = '192.0.2.2'\n")).unwrap();
    let changes = rig.control.apply(again.desired(&[MAC]), SECOND).unwrap();
    assert_eq!((changes.set, changes.removed), (1, 0));
    assert_eq!(rig.control.state().0.unresolved().count(), 0);
    assert_eq!(rig.control.state().0.problem(5, 9), None, "its packets can be sent at once");
    // What a table refuses changes nothing.
    let mut wrong = again.desired(&[MAC]);
    wrong.networks.clear();
    assert!(rig.control.apply(wrong, SECOND).is_err());
    assert_eq!(rig.control.state().0.entries(5), 1);
}
