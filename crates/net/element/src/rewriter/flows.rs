//! Flows of one or several rewriters that share a capacity: bounded, found by
//! either direction's addresses, forgotten in the order in which they expire.
//!
//! A flow is guaranteed for a while after each packet; then it may be forgotten when
//! another one needs its place, the next to expire first. When all flows are
//! guaranteed a new one is refused.

use std::collections::HashMap;

use super::flow_id::{FlowId, Growth};
use super::heap::Heaps;
use super::hosts::Hosts;
use super::kind::Kind;
use super::sequence::Shift;
use super::spec::{Input, Rule};
use super::taken::{Chosen, Known, Taken};

/// What a rewriter's flows may be, when nobody says.
pub(crate) const CAPACITY: usize = 1 << 18;

/// How a flow's life is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// By its last packet.
    None,
    /// Whether it streams.
    Datagram,
    /// Whether both sides sent data, and ended.
    Tcp,
}

/// Times in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// How long an idle flow is remembered.
    pub idle: i64,
    /// How long it cannot be forgotten.
    pub guarantee: i64,
    /// How long one in full use is remembered.
    pub busy: i64,
    /// How long one that ended is remembered.
    pub done: i64,
}

/// A flow.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Of packets as they come: forward, and back.
    pub ids: [FlowId; 2],
    pub outputs: [usize; 2],
    pub member: usize,
    pub map: usize,
    pub input: usize,
    pub protocol: u8,
    pub tracking: Tracking,
    /// Bits and counts of [`tracking`](Self::tracking).
    pub marks: u8,
    pub guaranteed: bool,
    /// When it, or its guarantee, expires, in milliseconds.
    pub expiry: i64,
    /// An annotation of its first packet.
    pub annotation: u8,
    /// How sequence numbers shift, forward and back.
    pub shifts: Option<Box<[Shift; 2]>>,
    /// When it came, relative to others.
    number: u64,
    /// Where both its entries stand among others': one that took another's place has
    /// that one's.
    stands: [u64; 2],
}

/// TCP: an end sent FIN, forward; the other one's is the next bit.
pub(crate) const DONE: u8 = 1;
/// TCP: an end sent data, forward; the other one's is the next bit.
pub(crate) const DATA: u8 = 4;

impl Flow {
    /// What packets of a direction become.
    pub(crate) fn rewritten(&self, back: bool) -> FlowId {
        self.ids[usize::from(!back)].reversed()
    }

    /// How many flows came before it.
    pub(crate) fn place(&self) -> u64 {
        self.number - 1
    }

    fn idle_time(&self, times: &Times) -> i64 {
        match self.tracking {
            Tracking::Tcp if self.marks & (3 * DONE) == 3 * DONE => times.done,
            Tracking::Tcp if self.marks & (3 * DATA) == 3 * DATA => times.busy,
            Tracking::Datagram if self.marks > 6 => times.busy,
            _ => times.idle,
        }
    }
}

/// Which flow, in which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub flow: u32,
    pub back: bool,
}

/// A rewriter's part.
#[derive(Debug, Default)]
pub(crate) struct Member {
    pub inputs: Vec<Input>,
    /// The second is UDP's, where the protocols have one each.
    pub maps: [HashMap<FlowId, Entry>; 2],
    /// What of the maps' identities is taken.
    pub taken: [Taken; 2],
    pub growth: [Growth; 2],
    pub hosts: Hosts,
    pub times: [Times; 2],
    pub outputs: usize,
}

impl Member {
    /// Keeps what its inputs choose from, as far as it does not.
    pub(crate) fn keep_choices(&mut self, kind: Kind) {
        let chosen: Vec<Chosen> = self.inputs.iter().flat_map(Input::choices).collect();
        let kept = Chosen::ALL.map(|one| chosen.contains(&one));
        for (taken, map) in self.taken.iter_mut().zip(&self.maps) {
            if Chosen::ALL.map(|one| taken.keeps(one)) != kept {
                taken.keep(kind, kept, map.keys());
            }
        }
    }
}

/// The flows of a map, as patterns ask for them.
struct InMap<'a> {
    kind: Kind,
    map: &'a HashMap<FlowId, Entry>,
    taken: &'a Taken,
}

impl Known for InMap<'_> {
    fn is_free(&self, id: FlowId) -> bool {
        !self.map.contains_key(&self.kind.complete(id).reversed())
    }

    fn first_free(&self, chosen: Chosen, id: FlowId, first: u32, last: u32) -> Option<u32> {
        match self.taken.keeps(chosen) {
            true => self.taken.first_free(chosen, id, first, last),
            false => (first..=last).find(|&value| self.is_free(chosen.set(id, value))),
        }
    }
}

/// Why a packet without a flow got none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Without {
    /// It passes unchanged, at this output.
    Pass(usize),
    /// Nobody wants it.
    Unwanted,
    /// No address or port is free.
    Exhausted,
    /// All flows that there may be are guaranteed.
    Full,
    /// Its host has as many flows as it may have.
    HostFull,
}

/// Who asks for a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// A flow that exists.
    Known,
    /// A flow that exists, by a packet of the other direction.
    Back,
    /// A flow, made if need be as if a packet had come at this input.
    At(usize),
}

/// All flows that share a capacity.
#[derive(Debug)]
pub(crate) struct Flows {
    slots: Vec<Option<Flow>>,
    free: Vec<u32>,
    heaps: Heaps,
    pub capacity: usize,
    pub members: Vec<Member>,
    /// Flows forgotten before their time.
    pub evicted: u64,
    count: u64,
}

impl Flows {
    pub(crate) fn new(capacity: usize) -> Flows {
        let (slots, free, members) = (vec![], vec![], vec![]);
        Flows { slots, free, heaps: Heaps::default(), capacity, members, evicted: 0, count: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.heaps.len()
    }

    pub(crate) fn flow(&mut self, id: u32) -> &mut Flow {
        self.slots[id as usize].as_mut().expect("entries name flows that exist")
    }

    pub(crate) fn find(&self, member: usize, map: usize, id: FlowId) -> Option<Entry> {
        self.members[member].maps[map].get(&id).copied()
    }

    /// The flow of a packet with this identity, as [`Kind::key`] gives it.
    pub(crate) fn lookup(&self, kind: Kind, member: usize, map: usize, id: FlowId) -> Option<Entry> {
        match kind {
            Kind::Address => self
                .find(member, map, FlowId { src: id.src, ..FlowId::default() })
                .or_else(|| self.find(member, map, FlowId { dst: id.dst, ..FlowId::default() })),
            _ => self.find(member, map, id),
        }
    }

    /// A flow for somebody who is not the rewriter itself, by addresses and ports.
    pub(crate) fn ask(
        &mut self,
        (kind, member): (Kind, usize),
        (protocol, id): (u8, FlowId),
        ask: Ask,
        now: i64,
    ) -> Option<Entry> {
        let (map, id) = kind.asked(protocol, id, ask == Ask::Back)?;
        let found = self.lookup(kind, member, map, id);
        if let Some(entry) = found {
            let own = self.flow(entry.flow).protocol;
            return (own == 0 || own == protocol).then_some(entry);
        }
        let Ask::At(input) = ask else { return None };
        self.create((kind, member), (map, protocol, id), input, now).ok()
    }

    /// Makes a flow for a packet that has none.
    pub(crate) fn create(
        &mut self,
        (kind, member): (Kind, usize),
        (map, protocol, id): (usize, u8, FlowId),
        input: usize,
        now: i64,
    ) -> Result<Entry, Without> {
        let id = kind.forward(id);
        self.admit(member, input, id.src, now)?;
        let Member { inputs, maps, taken, outputs, times, .. } = &mut self.members[member];
        let known = InMap { kind, map: &maps[map], taken: &taken[map] };
        let (outputs, times) = (*outputs, times[map]);
        let spec = inputs.get_mut(input).ok_or(Without::Unwanted)?;
        let fixed = (spec.forward, spec.reply);
        let made = match &mut spec.rule {
            Rule::Drop | Rule::Named(..) | Rule::Pass => return Err(Without::Unwanted),
            Rule::Keep => Some((id, fixed.0, fixed.1)),
            Rule::Pattern(pattern) => pattern.rewrite(id, &known).map(|new| (new, fixed.0, fixed.1)),
            Rule::Mapper(mapper) => mapper.rewrite(id, &known),
        };
        let Some((new, forward, reply)) = made else { return Err(spec.refuse(Without::Exhausted)) };
        let new = kind.complete(new);
        if !kind.can_become(new) || forward >= outputs || reply >= outputs {
            return Err(Without::Unwanted);
        }
        self.count += 1;
        let guaranteed = times.guarantee > 0;
        let flow = Flow {
            ids: [id, new.reversed()],
            outputs: [forward, reply],
            member,
            map,
            input,
            protocol: kind.protocol(protocol),
            tracking: kind.tracking(protocol),
            marks: 0,
            guaranteed,
            expiry: now + if guaranteed { times.guarantee } else { times.idle },
            annotation: 0,
            shifts: None,
            number: self.count,
            stands: [0; 2],
        };
        self.store(flow, now)
    }

    /// Whether an input makes flows, and one more for this host.
    fn admit(&mut self, member: usize, input: usize, host: u32, now: i64) -> Result<(), Without> {
        let spec = self.members[member].inputs.get(input).ok_or(Without::Unwanted)?;
        match spec.rule {
            Rule::Drop | Rule::Named(..) => return Err(Without::Unwanted),
            Rule::Pass => return Err(Without::Pass(spec.forward)),
            Rule::Keep | Rule::Pattern(_) | Rule::Mapper(_) => {}
        }
        if self.members[member].hosts.is_full(host) {
            self.reap(now);
            let Member { inputs, hosts, .. } = &mut self.members[member];
            if hosts.is_full(host) {
                return Err(inputs[input].refuse(Without::HostFull));
            }
        }
        Ok(())
    }

    fn store(&mut self, flow: Flow, now: i64) -> Result<Entry, Without> {
        let (member, map, input, ids) = (flow.member, flow.map, flow.input, flow.ids);
        let (guaranteed, expiry, number) = (flow.guaranteed, flow.expiry, flow.number);
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[id as usize] = Some(flow);
        for (key, back) in ids.into_iter().zip([false, true]) {
            self.members[member].taken[map].insert(key);
            let old = self.members[member].maps[map].insert(key, Entry { flow: id, back });
            let stands = old.map(|old| self.flow(old.flow).stands[usize::from(old.back)]);
            self.flow(id).stands[usize::from(back)] = stands.unwrap_or(2 * number + u64::from(back));
            if let Some(old) = old.filter(|old| old.flow != id) {
                self.forget(old.flow);
            }
        }
        self.heaps.add(guaranteed, id, expiry);
        self.members[member].inputs[input].count += 1;
        self.members[member].hosts.add(ids[0].src);
        if self.len() > self.capacity {
            self.end_guarantees(now);
            let gone = self.heaps.first(false).map_or(id, |(first, _)| first);
            self.forget(gone);
            if gone == id {
                return Err(self.members[member].inputs[input].refuse(Without::Full));
            }
            self.evicted += 1;
        }
        let Member { maps, growth, .. } = &mut self.members[member];
        growth[map].note(maps[map].len(), 2 * number + 1);
        Ok(Entry { flow: id, back: false })
    }

    /// A packet of a flow came: it lives on.
    pub(crate) fn refresh(&mut self, id: u32, now: i64) {
        let flow = self.slots[id as usize].as_mut().expect("entries name flows that exist");
        let times = self.members[flow.member].times[flow.map];
        let guaranteed = times.guarantee > 0;
        let after = if guaranteed { times.guarantee } else { flow.idle_time(&times) };
        if (flow.guaranteed, flow.expiry) != (guaranteed, now + after) {
            (flow.guaranteed, flow.expiry) = (guaranteed, now + after);
            self.heaps.change(guaranteed, id, now + after);
        }
    }

    /// When a flow expires, guaranteed or not.
    fn end_of(&self, flow: &Flow) -> i64 {
        let times = &self.members[flow.member].times[flow.map];
        match flow.guaranteed {
            true => flow.expiry + flow.idle_time(times) - times.guarantee,
            false => flow.expiry,
        }
    }

    /// Flows whose guarantee expired are guaranteed no longer.
    fn end_guarantees(&mut self, now: i64) {
        while let Some((id, _)) = self.heaps.first(true).filter(|(_, expiry)| *expiry <= now) {
            let flow = self.slots[id as usize].as_ref().expect("heaps name flows that exist");
            let end = self.end_of(flow);
            let flow = self.flow(id);
            (flow.guaranteed, flow.expiry) = (false, end);
            self.heaps.change(false, id, end);
        }
    }

    /// Forgets what expired, and what is too much.
    pub(crate) fn reap(&mut self, now: i64) {
        self.end_guarantees(now);
        while let Some((id, _)) = self.heaps.first(false).filter(|(_, expiry)| *expiry <= now) {
            self.forget(id);
        }
        self.shrink(self.capacity);
    }

    /// Forgets the next to expire until so many are left.
    pub(crate) fn shrink(&mut self, left: usize) {
        while self.len() > left {
            let Some((id, _)) = self.heaps.first(false).or_else(|| self.heaps.first(true)) else { return };
            self.forget(id);
        }
    }

    /// Forgets the flows of an input.
    pub(crate) fn forget_input(&mut self, member: usize, input: usize) {
        for id in 0..self.slots.len() {
            if self.slots[id].as_ref().is_some_and(|flow| flow.member == member && flow.input == input) {
                self.forget(id as u32);
            }
        }
    }

    fn forget(&mut self, id: u32) {
        drop(self.remove(id));
    }

    fn remove(&mut self, id: u32) -> Option<Flow> {
        let flow = self.slots[id as usize].take()?;
        self.heaps.remove(id);
        let member = &mut self.members[flow.member];
        for key in flow.ids {
            if member.maps[flow.map].get(&key).is_some_and(|entry| entry.flow == id) {
                member.maps[flow.map].remove(&key);
                member.taken[flow.map].remove(key);
            }
        }
        member.inputs[flow.input].count -= 1;
        member.hosts.remove(flow.ids[0].src);
        self.free.push(id);
        Some(flow)
    }

    /// Takes over the flows of a rewriter's part of an old configuration, as far as
    /// their inputs' specifications are still the same.
    pub(crate) fn adopt(&mut self, member: usize, (old, theirs): (&mut Flows, usize), now: i64) {
        let Member { inputs, outputs, .. } = &mut self.members[member];
        let pairs = inputs.iter_mut().zip(&old.members[theirs].inputs);
        let same: Vec<bool> = pairs.map(|(new, old)| new.resume(old)).collect();
        let outputs = *outputs;
        let own = |(id, flow): (usize, &Option<Flow>)| {
            let flow = flow.as_ref().filter(|flow| flow.member == theirs)?;
            Some((flow.number, id as u32))
        };
        let mut ids: Vec<(u64, u32)> = old.slots.iter().enumerate().filter_map(own).collect();
        ids.sort_unstable();
        for flow in ids.into_iter().filter_map(|(_, id)| old.remove(id)) {
            let fits = flow.outputs.iter().all(|output| *output < outputs);
            if fits && same.get(flow.input).is_some_and(|same| *same) {
                self.count += 1;
                // Where there is no room, it is forgotten as others would be.
                let _ = self.store(Flow { member, number: self.count, ..flow }, now);
            }
        }
    }

    /// All flows of a map, in both directions, in the order in which Click lists them.
    pub(crate) fn list(&self, kind: Kind, member: usize, map: usize, now: i64) -> String {
        let known = |flow: &Flow, back: bool| {
            let entry = self.find(member, map, flow.ids[usize::from(back)]);
            entry.is_some_and(|entry| entry.back == back)
        };
        let mut entries = vec![];
        for flow in self.slots.iter().flatten().filter(|flow| (flow.member, flow.map) == (member, map)) {
            for back in [false, true].into_iter().filter(|back| known(flow, *back)) {
                entries.push((flow.stands[usize::from(back)], flow.ids[usize::from(back)], (flow, back)));
            }
        }
        entries.sort_unstable_by_key(|(stands, ..)| *stands);
        let order = self.members[member].growth[map].in_order(entries.into_iter());
        order.into_iter().map(|(flow, back)| self.line(kind, flow, back, now)).collect()
    }

    fn line(&self, kind: Kind, flow: &Flow, back: bool, now: i64) -> String {
        let shift = flow.shifts.as_ref().map_or(0, |shifts| shifts[usize::from(back)].by());
        let shift = if shift == 0 { String::new() } else { format!(" seq {shift:+}") };
        let [first, second] = if back { ["", "*"] } else { ["*", ""] };
        let [forward, reply] = flow.outputs;
        let left = (self.end_of(flow) + 500 - now).max(0) / 1000;
        let what = kind.unparse(flow.ids[usize::from(back)], flow.rewritten(back));
        format!("{what}{shift} [{first}{forward} {second}{reply}] i{} exp{left}\n", flow.input)
    }
}
