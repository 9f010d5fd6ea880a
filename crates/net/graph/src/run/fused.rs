//! Fused elements: what `ixora compile` makes of a part of the graph.
//!
//! A [`Program`] is code written for one configuration. It has the elements of a
//! region in it, by type, and takes each packet through all of them before it turns
//! to the next: no virtual calls, no batches between elements, no sorting until the
//! region's end. It stands in a slot of the lane that no element of the configuration
//! has; the elements' own slots hold stand-ins, so that handlers, timers and packets
//! from elsewhere find them where they were.
//!
//! A packet that is too much for straight code leaves it in the middle
//! ([`Exit::aside`]), for the element it has come to; those behind it in the batch
//! wait until it went on, so that flows keep their order.

mod apart;
pub mod chain;
mod single;
mod stand_in;

use std::any::Any;
use std::collections::HashMap;

use memory::{Batch, Packet};

use crate::element::{Element, Next};
use crate::plan::Port;
use crate::plan::{Plan, Planned};
use crate::run::counters::Counters;
use crate::run::cx::Cx;
use crate::run::lane::{Ports, Slot};
use crate::run::locked::Copies;
use crate::run::output_batches::OutputBatches;

pub(crate) use apart::{dissolve_all, entered};
pub use single::{Single, ask};
pub(crate) use stand_in::StandIn;

/// How a packet leaves a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(u64);

impl Exit {
    const ASIDE: u64 = 1 << 62;
    const DROP: u64 = 1 << 63;
    /// By the one that most packets leave by: at the end of a chain.
    pub const END: Exit = Exit(u64::MAX);

    /// By an exit of [`Region::exits`].
    #[inline(always)]
    pub const fn to(exit: usize) -> Exit {
        Exit(exit as u64)
    }

    /// By an exit, before all packets behind it in the batch are looked at.
    #[inline(always)]
    pub const fn aside(exit: usize) -> Exit {
        Exit(exit as u64 | Exit::ASIDE)
    }

    /// Dropped by an element, for a reason of its class.
    #[inline(always)]
    pub const fn drop(element: usize, reason: usize) -> Exit {
        Exit(element as u64 | (reason as u64) << 32 | Exit::DROP)
    }

    #[inline(always)]
    const fn is_plain(self) -> bool {
        self.0 < Exit::ASIDE
    }

    #[inline(always)]
    const fn is_aside(self) -> bool {
        self.0 & (Exit::ASIDE | Exit::DROP) == Exit::ASIDE
    }

    const fn port(self) -> usize {
        self.0 as u32 as usize
    }

    const fn reason(self) -> usize {
        (self.0 >> 32) as usize & 0xFFFF
    }
}

/// The code of a region, with its elements.
pub trait Program: Send + 'static {
    /// Carries packets that came in at an entry to the region's ends, by
    /// [`EntryState::carry`].
    fn push(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, way: &mut EntryState) -> Next;

    /// An element, by its place in [`Region::members`].
    fn member(&mut self, place: usize) -> Option<&mut dyn Element>;

    /// The elements, in the order of [`Region::members`].
    fn dissolve(self: Box<Self>) -> Vec<Box<dyn Element>>;
}

/// A region of a configuration and how its program is made.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// The elements in it: number and full name.
    pub members: &'static [(usize, &'static str)],
    /// Where packets come in: element and input.
    pub entries: &'static [(usize, usize)],
    /// Where packets go to that leave: element and input.
    pub exits: &'static [(usize, usize)],
    /// The members that emit packets of their own: copies, say.
    pub emitters: &'static [usize],
    /// The elements whose configuration stands in the code.
    pub fixed: &'static [usize],
    /// Makes the program; `None` when an element is not of the type it should be.
    pub make: fn(&mut Members) -> Option<Box<dyn Program>>,
}

/// The elements of a region on their way into its program.
#[derive(Default)]
pub struct Members(Vec<Option<Box<dyn Element>>>);

impl Members {
    /// Takes the element of a place in [`Region::members`].
    pub fn take<T: Element>(&mut self, place: usize) -> Option<T> {
        let element: Box<dyn Any> = self.0.get_mut(place)?.take()?;
        element.downcast().ok().map(|element| *element)
    }
}

/// What is kept of packets' way from one entry.
#[derive(Debug)]
pub struct EntryState {
    /// How most packets left.
    usual: Exit,
    /// The output by which packets come back to this entry.
    again: usize,
    /// A packet that went aside, and those behind it.
    later: Option<(Exit, Box<Batch>)>,
    /// How each packet of a batch leaves; here, because clearing as much for each batch
    /// would cost more than to look at them.
    exits: Box<[Exit; Batch::MAX]>,
}

impl EntryState {
    fn new(again: usize) -> EntryState {
        EntryState { usual: Exit::to(0), again, later: None, exits: Box::new([Exit::to(0); Batch::MAX]) }
    }

    /// Takes each packet through `one`. First all find out how they leave, and then they
    /// do: in between nothing depends on it, and the processor need not guess.
    #[inline(always)]
    pub fn carry<P>(
        &mut self,
        program: &mut P,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        one: impl Fn(&mut P, &mut Cx<'_>, &mut Packet) -> Exit,
    ) -> Next {
        let mut looked = 0;
        for (packet, place) in batch.iter_mut().zip(self.exits.iter_mut()) {
            *place = one(program, cx, packet);
            if place.is_aside() {
                break;
            }
            looked += 1;
        }
        let first = self.exits[0];
        let all = &self.exits[..looked];
        if looked == batch.len() && first.is_plain() && all.iter().all(|exit| *exit == first) {
            self.usual = first;
            return Next::Push(first.port());
        }
        self.sort(cx, batch, looked)
    }

    /// As [`carry`](Self::carry), of a program that most packets leave at its end, for which
    /// `one` says [`Exit::END`]: nothing is written down for these.
    #[inline(always)]
    fn carry_on<P>(
        &mut self,
        program: &mut P,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        end: Exit,
        one: impl Fn(&mut P, &mut Cx<'_>, &mut Packet) -> Exit,
    ) -> Next {
        let (mut noted, mut looked) = (0, batch.len());
        for (place, packet) in batch.iter_mut().enumerate() {
            let exit = one(program, cx, packet);
            if exit != Exit::END {
                self.note(noted..place, end, exit);
                noted = place + 1;
                if exit.is_aside() {
                    looked = place;
                    break;
                }
            }
        }
        if noted == 0 && end.is_plain() {
            self.usual = end;
            return Next::Push(end.port());
        }
        self.exits.get_mut(noted..looked).into_iter().for_each(|rest| rest.fill(end));
        self.sort(cx, batch, looked)
    }

    /// Packets left at the end, and the one behind them by another exit.
    #[cold]
    fn note(&mut self, ended: std::ops::Range<usize>, end: Exit, exit: Exit) {
        if let Some(place) = self.exits.get_mut(ended.end) {
            *place = exit;
            self.exits[ended].fill(end);
        }
    }

    /// Sends packets on that do not all leave the same way. If most do, they stay in the
    /// batch.
    #[inline(never)]
    fn sort(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, looked: usize) -> Next {
        let (first, aside) = (self.exits[0], self.exits.get(looked).copied());
        if looked > 0 && first.is_plain() {
            self.usual = first;
        }
        let (usual, exits) = (self.usual, &self.exits[..looked]);
        let stays = exits.iter().filter(|exit| **exit == usual).count() * 4 >= looked * 3;
        let how = |_: &mut Sorting<'_, '_>, place: usize, _: &mut Packet| match exits.get(place) {
            Some(exit) => (*exit != usual || !stays).then_some(*exit),
            None => Some(Exit(Exit::ASIDE)),
        };
        let outs = cx.lane.slots[cx.me].emitted.take().unwrap_or_default();
        let mut sorting = Sorting { cx, outs, later: None };
        batch.split(&mut sorting, how, Sorting::leave);
        let Sorting { cx, outs, later } = sorting;
        cx.lane.slots[cx.me].emitted = Some(outs);
        self.later = aside.zip(later);
        Next::Push(usual.port())
    }

    /// Sends what went before the packet that goes aside, that packet, and what comes
    /// behind it, in this order.
    #[cold]
    fn part(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Some((aside, mut later)) = self.later.take() else { return };
        batch.drain().for_each(|packet| cx.emit(self.usual.port(), packet));
        if let Some(packet) = later.pop_front() {
            cx.emit(aside.port(), packet);
        }
        later.drain().for_each(|packet| cx.emit(self.again, packet));
    }
}

/// What is at hand while packets are sorted.
struct Sorting<'a, 'b> {
    cx: &'a mut Cx<'b>,
    outs: Box<OutputBatches>,
    later: Option<Box<Batch>>,
}

impl Sorting<'_, '_> {
    #[inline(always)]
    fn leave(&mut self, exit: Exit, packet: Packet) {
        match exit.is_plain() {
            true => self.outs.push(exit.port(), packet),
            false => self.end(exit, packet),
        }
    }

    /// A packet is dropped, or has to wait.
    #[cold]
    fn end(&mut self, exit: Exit, packet: Packet) {
        if exit.is_aside() {
            let later = self.later.get_or_insert_with(|| Box::new(Batch::with_limit(Batch::MAX)));
            let _none = later.push(packet); // as many as a batch holds at the most
            return;
        }
        self.cx.at(exit.port()).drop(exit.reason(), packet);
    }
}

impl Cx<'_> {
    /// A packet came to an element of a program. Where packets are not counted it is not
    /// called.
    #[inline(always)]
    pub fn count(&mut self, element: usize) {
        self.lane.slots[element].counters.packets += 1;
    }
}

/// A part of a configuration that is a program: as [`Region`].
struct Part {
    members: Box<[usize]>,
    entries: Box<[(usize, usize)]>,
    exits: Vec<(usize, usize)>,
    emitters: Box<[usize]>,
    fixed: Box<[usize]>,
}

impl From<&Region> for Part {
    fn from(region: &Region) -> Part {
        Part {
            members: region.members.iter().map(|(number, _)| *number).collect(),
            entries: region.entries.into(),
            exits: region.exits.into(),
            emitters: region.emitters.into(),
            fixed: region.fixed.into(),
        }
    }
}

/// A program in its slot.
struct Fused {
    program: Box<dyn Program>,
    members: Box<[usize]>,
    entries: Box<[(usize, usize)]>,
    emitters: Box<[usize]>,
    fixed: Box<[usize]>,
    ways: Vec<EntryState>,
}

impl Fused {
    fn member(&mut self, place: usize) -> Option<(&mut dyn Element, usize)> {
        let number = *self.members.get(place)?;
        Some((self.program.member(place)?, number))
    }

    /// Counts a batch for the element it came in at, and charges that with all the time
    /// since: within a program nothing can be timed.
    #[cold]
    fn measure(&self, cx: &mut Cx<'_>, entry: usize) {
        let element = self.entries[entry].0;
        cx.lane.slots[element].counters.batches += 1;
        cx.lane.charge(element);
    }

    /// Sends on what members emitted.
    #[inline(always)]
    fn emitters(&self, cx: &mut Cx<'_>) {
        for &member in &self.emitters {
            if cx.lane.slots[member].emitted.as_ref().is_some_and(|outs| !outs.is_empty()) {
                self.send_on(cx, member);
            }
        }
    }

    /// Sends on what a member emitted.
    #[cold]
    fn send_on(&self, cx: &mut Cx<'_>, member: usize) {
        let Some(mut emitted) = cx.lane.slots[member].emitted.take() else { return };
        while let Some((output, mut batch)) = emitted.next() {
            let to = cx.lane.slots[member].outs.get(output).copied().flatten();
            let exit = cx.lane.slots[cx.me].outs.iter().position(|out| *out == to);
            for packet in batch.drain() {
                match exit {
                    Some(exit) => cx.emit(exit, packet),
                    None => cx.at(member).drop(0, packet),
                }
            }
            emitted.give_back(output, batch);
        }
        cx.lane.slots[member].emitted = Some(emitted);
    }
}

impl Element for Fused {
    fn push(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch) -> Next {
        let Some(way) = self.ways.get_mut(entry) else { return Next::Done };
        let next = self.program.push(cx, entry, batch, way);
        self.emitters(cx);
        if let Some(way) = self.ways.get_mut(entry).filter(|way| way.later.is_some()) {
            way.part(cx, batch);
        }
        if cx.is_measured() {
            self.measure(cx, entry);
        }
        next
    }
}

/// Whether a region can be fused with these elements: none of them is behind a lock.
fn is_free(region: &Region, elements: &[Planned]) -> bool {
    region.members.iter().all(|(number, _)| elements.get(*number).is_some_and(|e| !e.locked))
}

/// Gives lanes that reach some of a region's elements the others as well. Of each
/// element there are copies with their lanes, the last lane first.
pub(crate) fn complete(regions: &[Region], elements: &[Planned], copies: &mut [Copies]) {
    for region in regions.iter().filter(|region| is_free(region, elements)) {
        let reach = |n: &(usize, &str)| elements[n.0].lanes;
        let lanes = region.members.iter().map(reach).fold(0, |all, lanes| all | lanes);
        for &(number, _) in region.members {
            let mine = &mut copies[number];
            for lane in (0..64).filter(|lane| lanes >> lane & 1 == 1) {
                let at = mine.partition_point(|(other, _)| *other > lane);
                if mine.get(at).is_none_or(|(other, _)| *other != lane)
                    && let Some(more) = mine.first().and_then(|(_, element)| element.replicate())
                {
                    mine.insert(at, (lane, more));
                }
            }
        }
    }
}

/// Puts the regions' programs into a lane.
pub(crate) fn install(regions: &'static [Region], plan: &Plan, slots: &mut Vec<Slot>) -> Result<(), String> {
    let mut entries = HashMap::new();
    let named = |&(number, name): &(usize, &str)| plan.elements.get(number).is_some_and(|e| &*e.name == name);
    if !regions.iter().flat_map(|region| region.members).all(named) {
        return Err("this program was made from another configuration: compile it again".into());
    }
    for region in regions.iter().filter(|region| is_free(region, &plan.elements)) {
        if region.members.iter().any(|(number, _)| slots[*number].element.is_none()) {
            continue; // this lane does not come here
        }
        let hidden = slots.len();
        for (entry, &(element, port)) in region.entries.iter().enumerate() {
            entries.insert(Port { element, port }, Port { element: hidden, port: entry });
        }
        let slot = fuse(region.into(), hidden, slots, |mut members, _| (region.make)(&mut members));
        slots.push(slot.ok_or("this program was made for another Ixora: compile it again")?);
    }
    for out in slots.iter_mut().flat_map(|slot| slot.outs.iter_mut()) {
        *out = out.map(|to| entries.get(&to).copied().unwrap_or(to));
    }
    Ok(())
}

/// Moves elements into their program, and the program into a slot. `None` when one of them is
/// not what the program expects.
fn fuse(
    part: Part,
    hidden: usize,
    slots: &mut [Slot],
    make: impl FnOnce(Members, &[Slot]) -> Option<Box<dyn Program>>,
) -> Option<Slot> {
    let Part { members, entries, exits, emitters, fixed } = part;
    let single = members.iter().any(|&number| slots[number].single);
    let mut outs: Vec<Option<Port>> = vec![];
    outs.extend(exits.iter().map(|&(element, port)| Some(Port { element, port })));
    outs.extend((0..entries.len()).map(|entry| Some(Port { element: hidden, port: entry })));
    outs.extend(emitters.iter().flat_map(|&emitter| slots[emitter].outs.iter().copied()));
    let stand_ins = members.iter().enumerate().map(|(place, &number)| {
        let stand_in = StandIn { hidden, place };
        slots[number].element.replace(Box::new(stand_in))
    });
    let taken = Members(stand_ins.collect());
    let program = make(taken, slots)?;
    let again = |entry| EntryState::new(exits.len() + entry);
    let ways = (0..entries.len()).map(again).collect();
    Some(Slot {
        element: Some(Box::new(Fused { program, members, entries, emitters, fixed, ways })),
        outs: outs.into(),
        ins: Ports::default(),
        pulled: Box::default(),
        emitted: None,
        single,
        counters: Counters::default(),
        late: vec![],
    })
}
