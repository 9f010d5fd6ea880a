//! Flows of one or several rewriters that share a capacity: bounded, found by
//! either direction's addresses, forgotten in the order in which they expire.
//!
//! A flow is guaranteed for a while after each packet; then it may be forgotten when
//! another one needs its place, the next to expire first. When all flows are
//! guaranteed a new one is refused.

use super::flow::{Entry, Flow, Rare, Times};
use super::flow_id::{FlowId, Growth};
use super::hosts::Hosts;
use super::kind::RewriterKind;
use super::order::Order;
use super::spec::{Input, Rule};
use super::table::Table;
use super::taken::{Chosen, Known, Taken};

/// What a rewriter's flows may be, when nobody says.
pub(crate) const CAPACITY: usize = 1 << 18;
/// The most flows that a table has numbers for.
const MOST: usize = 1 << 30;
/// Flows whose guarantees are looked at for each packet at most, while nobody needs to know.
const CHECKS_PER_PACKET: usize = 4;

/// A rewriter's part.
#[derive(Debug, Default)]
pub(crate) struct Member {
    pub inputs: Vec<Input>,
    /// Entries of each map: two of most flows. The second map is UDP's, where the protocols have
    /// one each.
    entries: [usize; 2],
    /// What of the maps' identities is taken.
    taken: [Taken; 2],
    growth: [Growth; 2],
    pub hosts: Hosts,
    /// In which order the flows of the maps expire.
    orders: [Order; 2],
    pub outputs: usize,
}

impl Member {
    /// A part without flows, with the times of its maps.
    pub(crate) fn new(inputs: Vec<Input>, outputs: usize, times: [Times; 2], hosts: Hosts) -> Member {
        Member { inputs, outputs, orders: times.map(Order::new), hosts, ..Member::default() }
    }
}

/// The flows of a map, as patterns ask for them.
struct InMap<'a> {
    kind: RewriterKind,
    table: &'a Table,
    /// The member, and its map.
    place: (usize, usize),
    taken: &'a Taken,
}

impl Known for InMap<'_> {
    fn is_free(&self, id: FlowId) -> bool {
        let answer = self.kind.complete(id).reversed();
        self.table.find(self.table.hash(answer), self.place, answer).is_none()
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
    table: Table,
    pub capacity: usize,
    pub members: Vec<Member>,
    /// Flows forgotten before their time.
    pub evicted: u64,
    count: u64,
    /// The latest time that was told: threads read their clocks before they wait for the lock.
    now: i64,
}

/// What a packet's flow is looked for by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The map, the protocol and the identity, as [`RewriterKind::key`] gives them.
    pub key: (usize, u8, FlowId),
    /// What it may be known by, and the hashes of that.
    known_by: (FlowId, u32),
    or_by: Option<(FlowId, u32)>,
}

impl Flows {
    pub(crate) fn new(capacity: usize) -> Flows {
        Flows { table: Table::new(), capacity, members: vec![], evicted: 0, count: 0, now: i64::MIN }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// A flow, and what few packets need of it.
    #[inline]
    pub(crate) fn parts(&mut self, id: u32) -> (&mut Flow, &mut Rare) {
        self.table.parts(id)
    }

    /// It is this time now, or already later.
    fn pass_to(&mut self, now: i64) {
        self.now = self.now.max(now);
    }

    /// So many packets come now.
    pub(crate) fn begin(&mut self, packets: usize, now: i64) {
        self.pass_to(now);
        for order in self.members.iter_mut().flat_map(|member| &mut member.orders) {
            order.advance(&mut self.table, self.now, CHECKS_PER_PACKET * packets);
        }
    }

    /// What to look for. Its place in the table is brought towards the cache.
    #[inline]
    pub(crate) fn wanted(&self, kind: RewriterKind, key: (usize, u8, FlowId)) -> Wanted {
        let hashed = |id: FlowId| {
            let hash = self.table.hash(id);
            self.table.prefetch_bucket(hash);
            (id, hash)
        };
        let id = key.2;
        let (known_by, or_by) = match kind {
            RewriterKind::Address => {
                let back = FlowId { dst: id.dst, ..FlowId::default() };
                (hashed(FlowId { src: id.src, ..FlowId::default() }), Some(hashed(back)))
            }
            _ => (hashed(id), None),
        };
        Wanted { key, known_by, or_by }
    }

    /// Brings towards the cache what is looked at first.
    #[inline]
    pub(crate) fn prefetch(&self, wanted: &Wanted) {
        self.table.prefetch_first(wanted.known_by.1);
        if let Some((_, hash)) = wanted.or_by {
            self.table.prefetch_first(hash);
        }
    }

    /// The flow of a packet.
    #[inline]
    pub(crate) fn lookup(&self, member: usize, wanted: &Wanted) -> Option<Entry> {
        let place = (member, wanted.key.0);
        let find = |(id, hash)| self.table.find(hash, place, id);
        find(wanted.known_by).or_else(|| find(wanted.or_by?))
    }

    /// A flow for somebody who is not the rewriter itself, by addresses and ports.
    pub(crate) fn ask(
        &mut self,
        (kind, member): (RewriterKind, usize),
        (protocol, id): (u8, FlowId),
        ask: Ask,
        now: i64,
    ) -> Option<Entry> {
        let (map, id) = kind.asked(protocol, id, ask == Ask::Back)?;
        self.pass_to(now);
        let found = self.lookup(member, &self.wanted(kind, (map, protocol, id)));
        if let Some(entry) = found {
            let own = self.table.flow(entry.flow).protocol;
            return (own == 0 || own == protocol).then_some(entry);
        }
        let Ask::At(input) = ask else { return None };
        self.create((kind, member), (map, protocol, id), input).ok()
    }

    /// Makes a flow for a packet that has none, which came now.
    pub(crate) fn create(
        &mut self,
        (kind, member): (RewriterKind, usize),
        (map, protocol, id): (usize, u8, FlowId),
        input: usize,
    ) -> Result<Entry, Without> {
        let id = kind.forward(id);
        self.admit(member, input, id.src)?;
        let Member { inputs, taken, outputs, .. } = &mut self.members[member];
        let known = InMap { kind, table: &self.table, place: (member, map), taken: &taken[map] };
        let outputs = *outputs;
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
        let flow = Flow {
            ids: [id, new.reversed()],
            next: [0; 2],
            last: self.now,
            outputs: [forward, reply].map(|output| output as u32),
            member: member as u32,
            input: input as u32,
            map: map as u8,
            protocol: kind.protocol(protocol),
            tracking: kind.tracking(protocol),
            marks: 0,
            annotation: 0,
            is_shifted: false,
            rests: None,
        };
        self.store(flow, Rare { number: self.count, ..Rare::default() })
    }

    /// Whether an input makes flows, and one more for this host.
    fn admit(&mut self, member: usize, input: usize, host: u32) -> Result<(), Without> {
        let spec = self.members[member].inputs.get(input).ok_or(Without::Unwanted)?;
        match spec.rule {
            Rule::Drop | Rule::Named(..) => return Err(Without::Unwanted),
            Rule::Pass => return Err(Without::Pass(spec.forward)),
            Rule::Keep | Rule::Pattern(_) | Rule::Mapper(_) => {}
        }
        if self.members[member].hosts.is_full(host) {
            self.reap(self.now);
            let Member { inputs, hosts, .. } = &mut self.members[member];
            if hosts.is_full(host) {
                return Err(inputs[input].refuse(Without::HostFull));
            }
        }
        Ok(())
    }

    /// Adds a flow, which takes the place of another if that must be.
    fn store(&mut self, flow: Flow, rare: Rare) -> Result<Entry, Without> {
        let (member, map, input) = (flow.member as usize, usize::from(flow.map), flow.input as usize);
        let id = self.enter(flow, rare);
        self.members[member].orders[map].add(&mut self.table, id, self.now);
        if self.len() > self.capacity.min(MOST) {
            let gone = self.next_to_go().unwrap_or(id);
            self.forget(gone);
            if gone == id {
                return Err(self.members[member].inputs[input].refuse(Without::Full));
            }
            self.evicted += 1;
            self.members[member].orders[map].put_first(&mut self.table, id);
        }
        self.note_growth(member, map, id);
        Ok(Entry { flow: id, back: false })
    }

    /// Adds a flow to the table, where it is found from now on: its number.
    fn enter(&mut self, flow: Flow, rare: Rare) -> u32 {
        let (member, map, input, ids) =
            (flow.member as usize, usize::from(flow.map), flow.input as usize, flow.ids);
        let (number, directions) = (rare.number, flow.directions());
        let id = self.table.add(flow, rare);
        let mut stands = [2 * number, 2 * number + 1];
        for &back in directions {
            let key = ids[usize::from(back)];
            if let Some(old) = self.table.find(self.table.hash(key), (member, map), key) {
                stands[usize::from(back)] = self.table.rare(old.flow).stands[usize::from(old.back)];
                self.forget(old.flow);
            }
            self.members[member].taken[map].insert(key);
            self.table.enter(Entry { flow: id, back });
            self.members[member].entries[map] += 1;
        }
        self.table.parts(id).1.stands = stands;
        self.members[member].inputs[input].count += 1;
        self.members[member].hosts.add(ids[0].src);
        id
    }

    /// Notes that a map may have grown by a flow.
    fn note_growth(&mut self, member: usize, map: usize, id: u32) {
        let Member { entries, growth, .. } = &mut self.members[member];
        growth[map].note(entries[map], 2 * self.table.rare(id).number + 1);
    }

    /// A packet of a flow came now: it lives on.
    #[inline]
    pub(crate) fn refresh(&mut self, id: u32) {
        let now = self.now;
        let flow = self.table.flow_mut(id);
        match flow.rests {
            None => flow.last = now,
            Some(among) if flow.last == now && among == flow.in_use() => {}
            Some(_) => {
                let (member, map) = (flow.member as usize, usize::from(flow.map));
                self.members[member].orders[map].wake(&mut self.table, id, now);
            }
        }
    }

    /// The flow that expires first of those that are guaranteed no longer.
    fn next_to_go(&mut self) -> Option<u32> {
        let now = self.now;
        let orders = self.members.iter_mut().flat_map(|member| &mut member.orders);
        let firsts = orders.filter_map(|order| {
            order.advance(&mut self.table, now, usize::MAX);
            order.first(&self.table)
        });
        firsts.min_by_key(|(end, _)| *end).map(|(_, id)| id)
    }

    /// Forgets what expired, and what is too much.
    pub(crate) fn reap(&mut self, now: i64) {
        self.pass_to(now);
        for at in 0..2 * self.members.len() {
            let (member, map) = (at / 2, at % 2);
            self.members[member].orders[map].advance(&mut self.table, self.now, usize::MAX);
            while let Some((end, id)) = self.members[member].orders[map].first(&self.table)
                && end <= self.now
            {
                self.forget(id);
            }
        }
        self.shrink(self.capacity);
    }

    /// Forgets the next to expire until so many are left, those that are guaranteed last.
    pub(crate) fn shrink(&mut self, left: usize) {
        let too_many = self.len().saturating_sub(left);
        if too_many == 0 {
            return;
        }
        let place = |(id, flow): (u32, &Flow)| {
            let order = &self.members[flow.member as usize].orders[usize::from(flow.map)];
            let guaranteed_to = flow.last + order.times().guarantee;
            match guaranteed_to > self.now {
                true => (true, guaranteed_to, id),
                false => (false, order.end_of(flow), id),
            }
        };
        let mut all: Vec<(bool, i64, u32)> = self.table.iter().map(place).collect();
        all.sort_unstable();
        all.into_iter().take(too_many).for_each(|(.., id)| self.forget(id));
    }

    /// Forgets the flows of an input.
    pub(crate) fn forget_input(&mut self, member: usize, input: usize) {
        let is_of = |flow: &Flow| (flow.member as usize, flow.input as usize) == (member, input);
        let all: Vec<u32> = self.table.iter().filter(|(_, flow)| is_of(flow)).map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.forget(id));
    }

    fn forget(&mut self, id: u32) {
        drop(self.remove(id));
    }

    fn remove(&mut self, id: u32) -> Option<(Flow, Rare)> {
        let flow = self.table.flow(id);
        let (member, map, ids) = (&mut self.members[flow.member as usize], usize::from(flow.map), flow.ids);
        for &back in flow.directions() {
            if self.table.leave(Entry { flow: id, back }) {
                member.taken[map].remove(ids[usize::from(back)]);
                member.entries[map] -= 1;
            }
        }
        member.orders[map].remove(&mut self.table, id);
        let (flow, rare) = self.table.remove(id)?;
        member.inputs[flow.input as usize].count -= 1;
        member.hosts.remove(flow.ids[0].src);
        Some((flow, rare))
    }

    /// Keeps of a part what its inputs choose from, as far as it does not.
    pub(crate) fn keep_choices(&mut self, kind: RewriterKind, member: usize) {
        let chosen: Vec<Chosen> = self.members[member].inputs.iter().flat_map(Input::choices).collect();
        let kept = Chosen::ALL.map(|one| chosen.contains(&one));
        for map in 0..2 {
            if Chosen::ALL.map(|one| self.members[member].taken[map].keeps(one)) != kept {
                let keys: Vec<FlowId> = self.entries(member, map).map(|(id, ..)| id).collect();
                self.members[member].taken[map].keep(kind, kept, keys.iter());
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = &Flow> {
        self.table.iter().map(|(_, flow)| flow)
    }

    /// What is found in a map: the identity, the flow and the direction.
    fn entries(&self, member: usize, map: usize) -> impl Iterator<Item = (FlowId, u32, bool)> {
        let is_of = move |flow: &Flow| (flow.member as usize, usize::from(flow.map)) == (member, map);
        let flows = self.table.iter().filter(move |(_, flow)| is_of(flow));
        flows.flat_map(|(id, flow)| {
            flow.directions().iter().map(move |&back| (flow.ids[usize::from(back)], id, back))
        })
    }

    /// Takes over the flows of a rewriter's part of an old configuration, as far as
    /// their inputs' specifications are still the same. Where there are more than there may be, the
    /// next to expire are forgotten.
    pub(crate) fn adopt(&mut self, member: usize, (old, theirs): (&mut Flows, usize), now: i64) {
        self.pass_to(now);
        let Member { inputs, outputs, .. } = &mut self.members[member];
        let pairs = inputs.iter_mut().zip(&old.members[theirs].inputs);
        let same: Vec<bool> = pairs.map(|(new, old)| new.resume(old)).collect();
        let outputs = *outputs as u32;
        let own = old.table.iter().filter(|(_, flow)| flow.member as usize == theirs);
        let mut ids: Vec<(u64, u32)> = own.map(|(id, _)| (old.table.rare(id).number, id)).collect();
        ids.sort_unstable();
        let mut adopted = vec![];
        for (flow, rare) in ids.into_iter().filter_map(|(_, id)| old.remove(id)) {
            let fits = flow.outputs.iter().all(|output| *output < outputs);
            if fits && same.get(flow.input as usize).is_some_and(|same| *same) {
                self.count += 1;
                let (last, map) = (flow.last, usize::from(flow.map));
                let flow = Flow { member: member as u32, rests: None, ..flow };
                let id = self.enter(flow, Rare { number: self.count, ..rare });
                self.note_growth(member, map, id);
                adopted.push((last, map, id));
            }
        }
        adopted.sort_unstable();
        for (_, map, id) in adopted {
            self.members[member].orders[map].add(&mut self.table, id, self.now);
        }
        self.shrink(self.capacity);
    }

    /// All flows of a map, in both directions, in the order in which Click lists them.
    pub(crate) fn list(&self, kind: RewriterKind, member: usize, map: usize, now: i64) -> String {
        let stands = |(key, id, back): (FlowId, u32, bool)| {
            (self.table.rare(id).stands[usize::from(back)], key, (id, back))
        };
        let mut entries: Vec<_> = self.entries(member, map).map(stands).collect();
        entries.sort_unstable_by_key(|(stands, ..)| *stands);
        let order = self.members[member].growth[map].in_order(entries.into_iter());
        order.into_iter().map(|(id, back)| self.line(kind, id, back, now)).collect()
    }

    fn line(&self, kind: RewriterKind, id: u32, back: bool, now: i64) -> String {
        let (flow, rare) = (self.table.flow(id), self.table.rare(id));
        let shift = rare.shifts.as_ref().map_or(0, |shifts| shifts[usize::from(back)].by());
        let shift = if shift == 0 { String::new() } else { format!(" seq {shift:+}") };
        let [first, second] = if back { ["", "*"] } else { ["*", ""] };
        let [forward, reply] = flow.outputs;
        let order = &self.members[flow.member as usize].orders[usize::from(flow.map)];
        let left = (order.end_of(flow) + 500 - now).max(0) / 1000;
        let what = kind.unparse(flow.ids[usize::from(back)], flow.rewritten(back));
        format!("{what}{shift} [{first}{forward} {second}{reply}] i{} exp{left}\n", flow.input)
    }
}
