//! The table under whatever strangers may make of it: its bounds hold, no packet is
//! lost or doubled, and what is known is what was said last.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use memory::{Backing, Dma, Packet, Pool};
use neighbor::{Held, Limits, Resolution, Resolver, Table};
use proptest::prelude::*;
use wire::MacAddress;

const SECOND_NS: i64 = 1_000_000_000;

#[derive(Debug, Clone)]
enum Act {
    /// A packet for an address.
    Hold(u8),
    /// Somebody says who has it; or that nobody has.
    Say(u8, Option<u8>),
    /// The same, and what waits goes on waiting.
    Enter(u8, Option<u8>),
    Wait(i64),
    Expire,
    GiveUp,
    Clear,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..12_u8).prop_map(Act::Hold),
        4 => (0..12_u8, prop::option::weighted(0.8, 0..4_u8)).prop_map(|(a, m)| Act::Say(a, m)),
        2 => (0..12_u8, prop::option::weighted(0.8, 0..4_u8)).prop_map(|(a, m)| Act::Enter(a, m)),
        3 => (0..3 * SECOND_NS).prop_map(Act::Wait),
        1 => Just(Act::Expire),
        2 => Just(Act::GiveUp),
        1 => Just(Act::Clear),
    ]
}

fn address(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

fn mac(n: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, n])
}

/// A table, and where its packets are.
struct Watched {
    table: Table<Ipv4Addr>,
    pool: Pool,
    now_ns: i64,
    /// Packets that were given to it and did not come back.
    inside: usize,
}

impl Watched {
    fn back(&mut self, packets: impl IntoIterator<Item = Packet>) {
        for packet in packets {
            self.inside -= 1;
            self.pool.free(packet);
        }
    }

    fn hold(&mut self, n: u8) {
        let Some(packet) = self.pool.alloc() else { return };
        self.inside += 1;
        let mut gone = vec![];
        if let Held::Refused(packet) = self.table.hold(address(n), packet, self.now_ns, &mut gone) {
            gone.push(packet);
        }
        self.back(gone);
    }

    fn say(&mut self, n: u8, who: Option<u8>) {
        let mut gone = vec![];
        let ready = self.table.insert(address(n), who.map(mac), self.now_ns, &mut gone);
        self.back(ready);
        self.back(gone);
    }
}

/// Who was said to have an address, and when.
type Said = HashMap<u8, (Option<u8>, i64)>;

impl Watched {
    /// Does one of the acts; only with a limit may somebody be given up.
    fn act(
        &mut self,
        act: Act,
        said: &mut Said,
        held: &mut HashMap<u8, i64>,
        is_limited: bool,
    ) -> Result<(), TestCaseError> {
        let mut gone = vec![];
        match act {
            Act::Hold(n) => {
                self.hold(n);
                held.insert(n, self.now_ns);
            }
            Act::Say(n, who) => {
                self.say(n, who);
                said.insert(n, (who, self.now_ns));
            }
            Act::Enter(n, who) => {
                let waiting = self.table.waiting();
                self.table.enter(address(n), who.map(mac), self.now_ns, &mut gone);
                prop_assert_eq!(self.table.waiting() + gone.len(), waiting);
                said.insert(n, (who, self.now_ns));
            }
            Act::Wait(ns) => self.now_ns += ns,
            Act::Expire => self.table.expire(self.now_ns, &mut gone),
            Act::GiveUp => {
                let more = self.table.give_up(self.now_ns, &mut gone, |_, _| ());
                prop_assert!(is_limited || !more, "without a limit nobody gives up");
            }
            Act::Clear => {
                self.table.clear(&mut gone);
                said.clear();
                prop_assert!(self.table.is_empty());
            }
        }
        self.back(gone);
        Ok(())
    }

    /// Each answer is the last one, and not older than the time-out; `held` is when a packet came
    /// to wait for an address.
    fn knows_what_was_said_last(
        &mut self,
        said: &Said,
        held: &HashMap<u8, i64>,
        timeout: i64,
    ) -> Result<(), TestCaseError> {
        for (&n, &(who, _)) in said {
            if let Some((known, _)) = self.table.lookup(address(n), self.now_ns, 0) {
                prop_assert_eq!(Some(known), who.map(mac), "the last word counts");
            }
        }
        for neighbor in self.table.iter(self.now_ns).filter(|neighbor| neighbor.is_valid) {
            let n = neighbor.address.octets()[3];
            let (who, when) = said[&n];
            prop_assert_eq!(neighbor.mac, who.map(mac));
            // An address that a packet waits for is kept just this side of expiring,
            // as in Click: in the same millisecond its old answer still counts.
            let since = held.get(&n).map_or(when, |&held| when.max(held - timeout));
            prop_assert!(timeout == 0 || self.now_ns - since <= timeout + SECOND_NS / 1000);
        }
        Ok(())
    }
}

fn watched(limits: Limits) -> Watched {
    let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
    let pool = Pool::new(&dma, 64).unwrap();
    Watched { table: Table::new(limits), pool, now_ns: 1_000 * SECOND_NS, inside: 0 }
}

proptest! {
    #[test]
    fn bounds_hold_and_no_packet_is_lost(
        acts in prop::collection::vec(act(), 1..200),
        packets in 1..8_usize,
        packets_each in 1..5_usize,
        slim in 1..4_usize,
        addresses in 1..6_usize,
        incomplete in 1..6_usize,
        timeout in prop_oneof![Just(0), Just(2 * SECOND_NS)],
        wait in prop_oneof![Just(0), Just(SECOND_NS)],
    ) {
        let requests = 100;
        let (timeout_ns, wait_ns) = (timeout, wait);
        let limits = Limits { packets, packets_each, slim, addresses, incomplete, requests, timeout_ns, wait_ns };
        let mut it = watched(limits);
        let (mut said, mut held) = (Said::new(), HashMap::new());
        for act in acts {
            it.act(act, &mut said, &mut held, wait > 0)?;
            prop_assert_eq!(it.table.waiting(), it.inside);
            prop_assert!(it.inside <= packets.max(1), "{} of {packets} wait", it.inside);
            prop_assert!(it.table.len() <= addresses);
            it.knows_what_was_said_last(&said, &held, timeout)?;
        }
        let mut gone = vec![];
        it.table.clear(&mut gone);
        it.back(gone);
        prop_assert_eq!((it.inside, it.pool.available()), (0, it.pool.capacity()));
    }
}

/// A scan of a large network fills the table; a packet to one more address must not cost a
/// walk over those that were asked for before. At one for each, this takes an hour.
#[test]
fn a_scan_costs_each_packet_the_same() {
    let unlimited = Limits { addresses: usize::MAX, incomplete: usize::MAX, ..Limits::default() };
    let mut it = watched(Limits { packets: 8, slim: usize::MAX, ..unlimited });
    for n in 0..400_000_u32 {
        let mut gone = vec![];
        let packet = it.pool.alloc().expect("few wait");
        assert!(matches!(
            it.table.hold(Ipv4Addr::from_bits(0x0A00_0000 + n), packet, it.now_ns, &mut gone),
            Held::Waits { .. }
        ));
        gone.into_iter().for_each(|packet| it.pool.free(packet));
    }
    assert_eq!((it.table.len(), it.table.waiting()), (400_000, 8));
    let mut gone = vec![];
    it.table.clear(&mut gone);
    gone.into_iter().for_each(|packet| it.pool.free(packet));
}

/// A packet for each of so many addresses, at the same time; how many may be asked for.
fn scan(it: &mut Watched, from: u32, count: u32) -> u32 {
    let mut asked = 0;
    for n in from..from + count {
        let (mut gone, packet) = (vec![], it.pool.alloc().expect("few wait"));
        it.inside += 1;
        match it.table.hold(Ipv4Addr::from_bits(n), packet, it.now_ns, &mut gone) {
            Held::Waits { ask } => asked += u32::from(ask),
            Held::Refused(packet) => gone.push(packet),
        }
        it.back(gone);
    }
    asked
}

fn clear(mut it: Watched) {
    let mut gone = vec![];
    it.table.clear(&mut gone);
    it.back(gone);
    assert_eq!(it.inside, 0);
}

/// RFC 6583, section 7.1: what is known is not forgotten for what nobody answers for, and a
/// scan sends so many requests and no more.
#[test]
fn a_scan_forgets_nobody_who_is_known_and_sends_few_requests() {
    let mut it = watched(Limits { packets: 8, ..Limits::default() });
    for n in 0..100 {
        it.say(n, Some(n));
    }
    it.now_ns += SECOND_NS;
    assert_eq!(scan(&mut it, 0x0B00_0000, 30_000), 10_000, "a second's worth");
    assert_eq!((it.table.len(), it.table.evictions(), it.table.suppressed()), (4196, 30_000 - 4096, 20_000));
    it.now_ns += SECOND_NS / 2;
    assert_eq!(scan(&mut it, 0x0C00_0000, 30_000), 5_000);
    for n in 0..100 {
        assert_eq!(it.table.lookup(address(n), it.now_ns, 0), Some((mac(n), false)), "host {n}");
    }
    clear(it);
}

/// A full table forgets addresses that nobody answered for before those that are known.
#[test]
fn a_full_table_makes_room_where_nobody_answered() {
    let mut it = watched(Limits { addresses: 10, ..Limits::default() });
    for n in 0..8 {
        it.say(n, Some(n));
    }
    scan(&mut it, 0x0B00_0000, 20);
    assert!((0..8).all(|n| it.table.lookup(address(n), it.now_ns, 0).is_some()));
    it.say(8, Some(8));
    it.say(9, Some(9));
    it.say(10, Some(10));
    assert_eq!(it.table.lookup(address(0), it.now_ns, 0), None, "the oldest of those that are known");
    assert_eq!(it.table.len(), 10);
    clear(it);
}

#[test]
fn an_address_is_asked_for_ten_times_quickly_and_then_slowly() {
    let mut it = watched(Limits::default());
    let mut asked = vec![];
    for tenth in 0..100_i64 {
        let packet = it.pool.alloc();
        let Some(packet) = packet else { break };
        let mut gone = vec![];
        let now_ns = it.now_ns + tenth * SECOND_NS / 10;
        match it.table.hold(address(1), packet, now_ns, &mut gone) {
            Held::Waits { ask: true } => asked.push(tenth),
            Held::Waits { ask: false } => {}
            Held::Refused(_) => panic!("there is room"),
        }
    }
    assert_eq!(asked[..12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 29, 49]);
    let mut gone = vec![];
    it.table.clear(&mut gone);
    gone.into_iter().for_each(|packet| it.pool.free(packet));
}

#[test]
fn packets_that_waited_too_long_are_given_up_and_others_are_asked_for() {
    let mut it = watched(Limits { wait_ns: 3 * SECOND_NS, ..Limits::default() });
    it.hold(1);
    it.now_ns += 2 * SECOND_NS;
    it.hold(2);
    let (mut gone, mut asked) = (vec![], vec![]);
    assert!(it.table.give_up(it.now_ns, &mut gone, |address, _| asked.push(address)));
    assert_eq!((gone.len(), asked), (0, vec![address(1)]), "the second was just asked for");
    it.now_ns += SECOND_NS;
    assert!(it.table.give_up(it.now_ns, &mut gone, |_, _| ()));
    assert_eq!((gone.len(), it.table.waiting()), (1, 1));
    it.back(gone);
    it.say(2, Some(9));
    assert_eq!(it.inside, 0);
    assert!(!it.table.give_up(it.now_ns, &mut vec![], |_, _| ()), "nobody waits");
}

#[test]
fn a_deadline_stands_while_packets_wait_for_a_limited_time() {
    let mut it = watched(Limits::default());
    it.hold(1);
    assert_eq!(it.table.next_deadline(), None, "packets may wait for as long as there is room");
    it.say(1, Some(9));

    let mut it = watched(Limits { wait_ns: 3 * SECOND_NS, ..Limits::default() });
    let begin_ns = it.now_ns;
    assert_eq!(it.table.next_deadline(), None);
    it.hold(1);
    it.now_ns += SECOND_NS / 2;
    it.hold(2);
    let (mut gone, mut asked, mut deadlines) = (vec![], vec![], vec![]);
    while let Some(deadline_ns) = it.table.next_deadline() {
        it.now_ns = deadline_ns;
        it.table.give_up(deadline_ns, &mut gone, |address, _| asked.push(address));
        deadlines.push((deadline_ns - begin_ns) / (SECOND_NS / 2));
    }
    assert_eq!(deadlines, [2, 4, 6, 8], "each second, until nobody waits");
    assert_eq!(asked, [address(1), address(1), address(2), address(2)]);
    assert_eq!((gone.len(), it.table.waiting()), (2, 0));
    it.back(gone);
}

#[test]
fn a_resolver_knows_groups_asks_for_hosts_and_learns_from_answers() {
    let own = Resolver {
        broadcast: Some(address(255)),
        poll_ns: 60 * SECOND_NS,
        ..Resolver::new(mac(1), address(1))
    };
    let mut it = watched(Limits::default());
    let groups = [
        (address(255), [0xFF; 6]),
        (Ipv4Addr::BROADCAST, [0xFF; 6]),
        (Ipv4Addr::new(224, 129, 2, 3), [1, 0, 0x5E, 1, 2, 3]),
    ];
    for (group, expected) in groups {
        assert_eq!(own.lookup(&mut it.table, group, it.now_ns), Resolution::Known(MacAddress(expected)));
    }
    assert_eq!(own.lookup(&mut it.table, Ipv4Addr::UNSPECIFIED, it.now_ns), Resolution::Unspecified);
    assert_eq!(own.lookup(&mut it.table, address(2), it.now_ns), Resolution::Unknown);
    it.hold(2);
    let asked = neighbor::arp::parse(&own.request(address(2), None)).unwrap();
    assert_eq!((asked.sender_ip, asked.target_ip), (address(1), address(2)));
    let answer = neighbor::arp::frame(&asked.reply(mac(2)), mac(1));
    let learned = it.table.learn(&answer, it.now_ns, &mut vec![]).unwrap();
    assert_eq!((learned.address, learned.mac, learned.released.len()), (address(2), mac(2), 1));
    it.back(learned.released);
    // It is asked for again when it has been used for a minute: itself, unless all are.
    assert_eq!(own.lookup(&mut it.table, address(2), it.now_ns), Resolution::Known(mac(2)));
    it.now_ns += 60 * SECOND_NS;
    assert_eq!(own.lookup(&mut it.table, address(2), it.now_ns), Resolution::Refresh(mac(2)));
    assert_eq!(own.lookup(&mut it.table, address(2), it.now_ns), Resolution::Known(mac(2)));
    assert_eq!(own.request(address(2), Some(mac(2)))[..6], mac(2).0);
    assert_eq!(Resolver { polls_all: true, ..own }.request(address(2), Some(mac(2)))[..6], [0xFF; 6]);
    // Neither requests nor what a group says are learnt, nor who has no address.
    let request = neighbor::arp::frame(&wire::arp::Repr { sender_ip: address(3), ..asked }, mac(1));
    let from_group = neighbor::arp::frame(&asked.reply(MacAddress([3; 6])), mac(1));
    let probe = wire::arp::Repr { target_ip: Ipv4Addr::UNSPECIFIED, ..asked };
    let nobody = neighbor::arp::frame(&probe.reply(mac(4)), mac(1));
    for frame in [&request[..], &from_group, &nobody, &answer[..41], b""] {
        assert!(it.table.learn(frame, it.now_ns, &mut vec![]).is_none());
    }
    assert_eq!(it.table.len(), 1);
}
