//! Flows held against a plain list of flows, whose times and limits are looked through for each
//! packet. Where the order does not say which flow goes, the list follows.

use graph::value::{Names, Scope};
use proptest::prelude::*;

use super::flow::{DATA, DONE, Times};
use super::flow_id::FlowId;
use super::flows::{Flows, Member, Without};
use super::hosts::Hosts;
use super::kind::{RewriterKind, TCP, UDP};
use super::spec::Input;

/// What happens to the flows and to the list alike.
#[derive(Debug, Clone)]
enum Step {
    /// A packet of a few that there may be comes to an input: its host, port and protocol, what
    /// becomes of its flow's marks, and the input.
    Packet(u32, u16, bool, u8, usize),
    /// A packet comes back that answers one of the flows, with these marks.
    Answer(usize, u8),
    /// So many milliseconds pass.
    Pass(i64),
    Reap,
    Capacity(usize),
}

/// A flow of the list.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Plain {
    map: usize,
    ids: [FlowId; 2],
    marks: u8,
    last: i64,
}

struct List {
    flows: Vec<Plain>,
    times: [Times; 2],
    capacity: usize,
    host_limit: usize,
    now: i64,
    /// By how much guarantees may end late, and flows of one slot be out of order.
    slack: i64,
}

impl List {
    fn guaranteed_to(&self, flow: &Plain) -> i64 {
        flow.last + self.times[flow.map].guarantee
    }

    /// When a flow expires if it is not guaranteed.
    fn end(&self, flow: &Plain) -> i64 {
        let times = &self.times[flow.map];
        let sides = |bit: u8| flow.marks & bit != 0 && flow.marks & (bit << 1) != 0;
        flow.last
            + match flow.map {
                0 if sides(DONE) => times.done,
                0 if sides(DATA) => times.busy,
                1 if flow.marks > 6 => times.busy,
                _ => times.idle,
            }
    }

    fn find(&self, map: usize, id: FlowId) -> Option<usize> {
        self.flows.iter().position(|flow| flow.map == map && flow.ids.contains(&id))
    }

    /// Flows that may have gone because one more came.
    fn may_make_place(&self, gone: &Plain) -> bool {
        let free = self.flows.iter().filter(|flow| self.guaranteed_to(flow) + self.slack <= self.now);
        let first = free.map(|flow| self.end(flow)).min();
        self.guaranteed_to(gone) <= self.now && first.is_none_or(|first| self.end(gone) <= first + self.slack)
    }

    /// Whether no flow must have made place for a new one.
    fn is_full(&self, new: &Plain) -> bool {
        let is_free = self.guaranteed_to(new) <= self.now;
        self.flows.iter().all(|flow| {
            self.guaranteed_to(flow) + self.slack > self.now
                || is_free && self.end(new) <= self.end(flow) + self.slack
        })
    }

    fn may_expire(&self, flow: &Plain) -> bool {
        self.guaranteed_to(flow) <= self.now && self.end(flow) <= self.now
    }

    fn must_expire(&self, flow: &Plain) -> bool {
        self.guaranteed_to(flow) + self.slack <= self.now && self.end(flow) + self.slack <= self.now
    }
}

/// Both, side by side.
struct Pair {
    flows: Flows,
    list: List,
}

impl Pair {
    fn new(times: [Times; 2], capacity: usize, host_limit: usize) -> Pair {
        let names = Names::default();
        let scope = Scope { element: "", names: &names };
        let input = |text| Input::parse(text, 2, &scope).expect("it is a specification");
        let inputs = vec![input("keep 0 1"), input("pattern 9.0.0.1 77 - - 0 1")];
        let mut flows = Flows::new(capacity);
        flows.members.push(Member::new(inputs, 2, times, Hosts::new(host_limit)));
        let slack = times.map(|times| (times.guarantee + 8191) / 8192 - 1).into_iter().max();
        let slack = slack.unwrap_or(0).max(0);
        let list = List { flows: vec![], times, capacity, host_limit, now: 1_000_000, slack };
        Pair { flows, list }
    }

    /// What there is, as the list has it.
    fn seen(&self) -> Vec<Plain> {
        let mut seen: Vec<Plain> = self
            .flows
            .all()
            .map(|flow| Plain { map: flow.map.into(), ids: flow.ids, marks: flow.marks, last: flow.last })
            .collect();
        seen.sort_by_key(|flow| (flow.map, flow.ids[0].src, flow.ids[0].src_port));
        seen
    }

    /// The list forgets what is gone, which is told.
    fn follow(&mut self) -> Vec<Plain> {
        let seen = self.seen();
        let is_seen = |flow: &Plain| seen.iter().any(|one| (one.map, one.ids) == (flow.map, flow.ids));
        let (left, gone) = self.list.flows.iter().partition(|flow| is_seen(flow));
        self.list.flows = left;
        gone
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Packet(host, port, is_udp, marks, input) => {
                let id = FlowId { src: host, src_port: port, dst: 0x0200_0000 | host & 1, dst_port: 80 };
                self.packet(usize::from(is_udp), id, marks, input);
            }
            Step::Answer(which, marks) if !self.list.flows.is_empty() => {
                let flow = self.list.flows[which % self.list.flows.len()];
                self.packet(flow.map, flow.ids[1], marks, 0);
            }
            Step::Answer(..) => {}
            Step::Pass(ms) => self.list.now += ms,
            Step::Reap => {
                self.flows.reap(self.list.now);
                self.reaped();
            }
            Step::Capacity(capacity) => {
                (self.flows.capacity, self.list.capacity) = (capacity, capacity);
                self.flows.reap(self.list.now);
                self.shrunk();
            }
        }
        assert!(self.flows.len() <= self.list.capacity);
        let mut flows = self.list.flows.clone();
        flows.sort_by_key(|flow| (flow.map, flow.ids[0].src, flow.ids[0].src_port));
        assert_eq!(self.seen(), flows, "after {step:?}");
    }

    fn reaped(&mut self) {
        let gone = self.follow();
        assert!(gone.iter().all(|flow| self.list.may_expire(flow)), "{gone:?} lived");
        let late = self.list.flows.iter().find(|flow| self.list.must_expire(flow));
        assert!(late.is_none(), "{late:?} expired");
    }

    /// After a look for what expired, and a smaller capacity.
    fn shrunk(&mut self) {
        let List { now, capacity, .. } = self.list;
        let (before, gone) = (self.list.flows.len(), self.follow());
        let place = |flow: &Plain| match self.list.guaranteed_to(flow) {
            to if to > now => (true, to),
            _ => (false, self.list.end(flow)),
        };
        assert!(gone.iter().all(|flow| self.list.may_expire(flow) || before > capacity));
        // What has expired may go whether or not another's guarantee ends a little late.
        let last_gone = gone.iter().filter(|flow| !self.list.may_expire(flow)).map(place).max();
        let first_left = self.list.flows.iter().map(place).min();
        assert!(last_gone.is_none() || first_left.is_none() || last_gone <= first_left, "in order");
    }

    fn packet(&mut self, map: usize, id: FlowId, marks: u8, input: usize) {
        let (list, member) = (&mut self.list, 0);
        let now = list.now;
        self.flows.begin(1, now);
        let protocol = if map == 0 { TCP } else { UDP };
        let key = (map, protocol, id);
        let wanted = self.flows.wanted(RewriterKind::Ip, key);
        self.flows.prefetch(&wanted);
        let found = self.flows.lookup(member, &wanted);
        let entry = match (found, list.find(map, id)) {
            (Some(entry), Some(at)) => {
                let flow = &mut list.flows[at];
                assert_eq!(entry.back, flow.ids[1] == id);
                (flow.marks, flow.last) = (marks, now);
                entry
            }
            (None, None) => match self.create(key, input) {
                Some(entry) => {
                    self.list.flows.last_mut().expect("it was just made").marks = marks;
                    entry
                }
                None => return,
            },
            (found, known) => panic!("{found:?}, {known:?}"),
        };
        self.flows.parts(entry.flow).0.marks = marks;
        self.flows.refresh(entry.flow);
    }

    fn create(&mut self, key: (usize, u8, FlowId), input: usize) -> Option<super::flow::Entry> {
        let (map, _, id) = key;
        let outside = FlowId { src: 0x0900_0001, src_port: 77, ..id };
        let ids = [id, if input == 0 { id } else { outside }.reversed()];
        let new = Plain { map, ids, marks: 0, last: self.list.now };
        let begun = |list: &List| list.flows.iter().filter(|flow| flow.ids[0].src == id.src).count();
        let limit = self.list.host_limit;
        let was_full = limit > 0 && begun(&self.list) >= limit;
        let made = self.flows.create((RewriterKind::Ip, 0), key, input);
        if was_full {
            // Looked for what expired. One of these may have been of the host.
            let expired = self.list.flows.clone().into_iter().filter(|flow| self.list.must_expire(flow));
            let expired: Vec<Plain> = expired.collect();
            self.list.flows.retain(|flow| !expired.contains(flow));
            if made == Err(Without::HostFull) {
                self.reaped();
                assert!(begun(&self.list) >= limit);
                return None;
            }
        }
        // The one that had the identity, forward or back.
        self.list.flows.retain(|flow| flow.map != map || !flow.ids.contains(&ids[1]));
        self.list.flows.push(new);
        let is_too_much = self.list.flows.len() > self.list.capacity;
        let before = self.list.flows.clone();
        let gone = self.follow();
        match made {
            Ok(entry) => {
                assert!(gone.iter().all(|flow| {
                    let all = List { flows: before.clone(), ..self.copy() };
                    is_too_much && all.may_make_place(flow) || was_full && all.may_expire(flow)
                }));
                assert!(was_full || gone.len() == usize::from(is_too_much));
                Some(entry)
            }
            Err(Without::Full) => {
                assert!(gone == [new] || was_full);
                let others = before.into_iter().filter(|flow| *flow != new).collect();
                assert!(is_too_much && List { flows: others, ..self.copy() }.is_full(&new));
                None
            }
            other => panic!("{other:?}"),
        }
    }

    fn copy(&self) -> List {
        let List { times, capacity, host_limit, now, slack, .. } = self.list;
        List { flows: vec![], times, capacity, host_limit, now, slack }
    }
}

fn times() -> impl Strategy<Value = Times> {
    let ms = |all: &'static [i64]| prop::sample::select(all);
    let lives = &[0, 1, 40, 5000, 6000, 90_000];
    (ms(lives), ms(&[0, 0, 1, 50, 5000, 8192, 8193, 60_000]), ms(lives), ms(lives))
        .prop_map(|(idle, guarantee, busy, done)| Times { idle, guarantee, busy, done })
}

fn step() -> impl Strategy<Value = Step> {
    let marks = prop::sample::select(&[0, 2, 3, 7, 12, 15][..]);
    let packet = (1..6_u32, 1..5_u16, any::<bool>(), marks.clone(), 0..2_usize);
    let packet = packet.prop_map(|(host, port, is_udp, marks, input)| {
        // The pattern's flows take each other's places.
        Step::Packet(host, port, is_udp, marks, usize::from(input == 1 && port == 1))
    });
    let ms = [1, 2, 7, 39, 50, 999, 4999, 5000, 8192, 20_000, 100_000, 10_000_000];
    prop_oneof![
        12 => packet,
        6 => (any::<usize>(), marks).prop_map(|(which, marks)| Step::Answer(which, marks)),
        4 => prop::sample::select(ms.to_vec()).prop_map(Step::Pass),
        1 => Just(Step::Reap),
        1 => prop::sample::select(vec![0, 1, 3, 8, 20]).prop_map(Step::Capacity),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn flows_live_and_go_as_in_a_plain_list(
        tcp in times(),
        udp in times(),
        capacity in prop::sample::select(vec![1_usize, 2, 5, 12, 100]),
        host_limit in prop::sample::select(vec![0_usize, 0, 1, 3]),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut pair = Pair::new([tcp, udp], capacity, host_limit);
        steps.iter().for_each(|step| pair.step(step));
    }
}

/// Many flows, so that the table has several pieces and the directory grows past some of its own.
#[test]
fn each_of_many_flows_is_found_both_ways_and_leaves_nothing_behind() {
    let times = Times { idle: 300_000, guarantee: 5000, busy: 300_000, done: 300_000 };
    let mut pair = Pair::new([times; 2], 5000, 0);
    let id = |n: u32| FlowId { src: 0x0A00_0000 + n, src_port: n as u16, dst: 0x0200_0001, dst_port: 80 };
    let find = |flows: &Flows, id| flows.lookup(0, &flows.wanted(RewriterKind::Ip, (1, UDP, id)));
    for n in 0..5000 {
        pair.flows.begin(1, i64::from(n));
        let made = pair.flows.create((RewriterKind::Ip, 0), (1, UDP, id(n)), 0);
        assert!(made.is_ok());
    }
    for n in 0..5000 {
        let [there, back] = [id(n), id(n).reversed()].map(|id| find(&pair.flows, id).expect("it is known"));
        assert!(there.flow == back.flow && !there.back && back.back);
    }
    // Guaranteed to 5,000 and 5,001 ms: the first one goes for the next.
    pair.flows.begin(1, 5000);
    assert_eq!(pair.flows.create((RewriterKind::Ip, 0), (1, UDP, id(5000)), 0).err(), None);
    assert!(find(&pair.flows, id(0)).is_none() && find(&pair.flows, id(1)).is_some());
    pair.flows.shrink(0);
    assert_eq!((pair.flows.len(), find(&pair.flows, id(7))), (0, None));
}
