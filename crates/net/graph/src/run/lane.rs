//! A lane: what one thread runs. Its elements, their tasks, timers and files, and
//! the way of packets from element to element.
//!
//! A lane takes an element out of its slot while it works, and gives it a view of
//! the rest ([`Cx`]); so nothing is locked and nothing is aliased. Packets an
//! element sends on are carried by the lane when the element is back in its slot.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memory::{Batch, Packet};
use smallvec::SmallVec;

use crate::element::{Complaint, Element, Next};
use crate::plan::Port;
use crate::run::buffers::Buffers;
use crate::run::counters::{Counters, Profiler};
use crate::run::cx::Cx;
use crate::run::fused::chain::Placed;
use crate::run::fused::{self, StandIn};
use crate::run::late::Late;
use crate::run::locked::Locked;
use crate::run::output_batches::OutputBatches;
use crate::run::shared::RouterShared;
use crate::run::task::Tasks;
use crate::run::timer::Timers;
use crate::run::watch::Watches;

/// How deep packets may branch before the rest waits: keeps the stack bounded.
const DEPTH: u32 = 64;
/// How many elements a batch goes through before others have a turn.
const HOPS: u32 = 4096;
/// How many waiting batches are carried on after one task.
const DEFERRED_A_TURN: usize = 64;

/// How packets come through an element.
#[derive(Debug, Clone)]
pub(crate) enum Pulled {
    /// It is asked itself.
    Asked,
    /// One of its inputs is pulled in its place ([`Setup::select_inputs`](crate::Setup::select_inputs)).
    Passed(Arc<[AtomicUsize]>),
    /// It is agnostic: what is pulled at this input is pushed through it.
    Through(usize),
}

/// Where an element's ports of one side lead, of which most elements have one at the most.
pub(crate) type Ports = SmallVec<[Option<Port>; 1]>;

/// An element's place in a lane.
pub(crate) struct Slot {
    /// Out while it works; `None` for good where another lane has it.
    pub(crate) element: Option<Box<dyn Element>>,
    /// Where each output leads.
    pub(crate) outs: Ports,
    /// For each input, which output it leads from, if it is a pull input.
    pub(crate) ins: Ports,
    /// For each output, how packets are pulled from it; empty where none is pulled from.
    pub(crate) pulled: Box<[Pulled]>,
    /// What it emitted and was not carried on yet.
    pub(crate) emitted: Option<Box<OutputBatches>>,
    /// Packets come to it one by one.
    pub(crate) single: bool,
    pub(crate) counters: Counters,
    /// Writes that came while it was at work: to which element, of which handler, what.
    pub(crate) late: Vec<Late>,
}

/// A batch that waits to be carried on.
struct Deferred {
    to: Port,
    batch: Box<Batch>,
}

/// What one thread runs.
pub struct Lane {
    pub(crate) id: usize,
    pub(crate) slots: Vec<Slot>,
    /// The chains of its elements, together or apart.
    pub(crate) chains: Vec<Placed>,
    pub(crate) shared: Arc<RouterShared>,
    pub(crate) buffers: Buffers,
    pub(crate) tasks: Tasks,
    pub(crate) timers: Timers,
    pub(crate) watches: Watches,
    /// The element without inputs that made packets in this turn.
    pub(crate) source: Option<usize>,
    depth: u32,
    /// Pulls at work, one within the other.
    pulls: u32,
    /// The agnostic elements that pulls at work go through.
    path: Vec<(Port, usize)>,
    deferred: VecDeque<Deferred>,
    scratch: Option<Box<Batch>>,
    pub(crate) profiler: Profiler,
    /// What elements complain of to those who called their handlers, one within the other.
    pub(crate) complaints: Vec<Vec<Complaint>>,
    /// The complaints of the handler that was called last.
    pub(crate) told: Vec<Complaint>,
}

impl Lane {
    pub(crate) fn new(id: usize, slots: Vec<Slot>, shared: Arc<RouterShared>, buffers: Buffers) -> Lane {
        Lane {
            id,
            slots,
            chains: vec![],
            shared,
            buffers,
            tasks: Tasks::of_lane(id),
            timers: Timers::of_lane(id),
            watches: Watches::default(),
            source: None,
            depth: 0,
            pulls: 0,
            path: vec![],
            deferred: VecDeque::new(),
            scratch: Some(Box::new(Batch::with_limit(Batch::MAX))),
            profiler: Profiler::default(),
            complaints: vec![],
            told: vec![],
        }
    }

    /// Lends an element out with a view of the lane, if it is here and not at work.
    #[inline(always)]
    pub(crate) fn with<R>(
        &mut self,
        element: usize,
        work: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut taken = self.slots[element].element.take()?;
        let result = work(&mut *taken, &mut Cx { lane: self, me: element });
        self.slots[element].element = Some(taken);
        Some(result)
    }

    /// As [`with`](Self::with), of the element itself where a stand-in is in its slot:
    /// behind its lock, or in its program. For what is done now and then, not for packets.
    pub(crate) fn with_real<R>(
        &mut self,
        element: usize,
        work: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let lend = |element: &mut dyn Element, cx: &mut Cx<'_>| {
            if let Some(stand_in) = (&*element as &dyn Any).downcast_ref::<StandIn>() {
                return stand_in.lend(cx, work);
            }
            Some(Locked::behind(element, |element| work(element, cx)))
        };
        self.with(element, lend).flatten()
    }

    /// The slot that an element works in: its own, or its program's.
    pub(crate) fn holder(&self, element: usize) -> usize {
        let in_slot = self.slots[element].element.as_deref().map(|element| element as &dyn Any);
        in_slot.and_then(|element| element.downcast_ref::<StandIn>()).map_or(element, StandIn::hidden)
    }

    /// Carries packets to an element, and on from there as far as they go: one by one,
    /// where that makes a difference.
    pub(crate) fn push(&mut self, to: Port, batch: &mut Batch) {
        match self.takes_single(to, batch) {
            true => self.push_singly(to, batch),
            false => self.carry(to, batch),
        }
    }

    /// Whether packets must be taken apart for an element.
    #[inline(always)]
    fn takes_single(&self, to: Port, batch: &Batch) -> bool {
        batch.len() > 1 && self.slots[to.element].single
    }

    fn push_singly(&mut self, to: Port, batch: &mut Batch) {
        let mut one = Batch::with_limit(1);
        while let Some(packet) = batch.pop_front() {
            one.push(packet);
            self.carry(to, &mut one);
            self.buffers.free_batch(&mut one);
        }
    }

    fn carry(&mut self, mut to: Port, batch: &mut Batch) {
        if self.depth >= DEPTH {
            return self.defer(to, batch);
        }
        self.depth += 1;
        for hop in 0.. {
            if hop == HOPS {
                self.defer(to, batch); // perhaps it goes in circles
                break;
            }
            self.profiler.count(&mut self.slots[to.element].counters, batch.len());
            let next = self.with(to.element, |element, cx| element.push(cx, to.port, batch));
            self.charge(to.element);
            let Some(next) = next else {
                self.defer(to, batch);
                break;
            };
            match self.forward(to.element, next, batch) {
                // What a queue has no room for, say, came to it in a batch.
                Some(on) if self.takes_single(on, batch) => {
                    self.push_singly(on, batch);
                    break;
                }
                Some(on) => to = on,
                None => break,
            }
        }
        self.depth -= 1;
    }

    /// An element has returned: carries on what it emitted; where what it left in
    /// the batch goes.
    #[inline(always)]
    fn forward(&mut self, element: usize, next: Next, batch: &mut Batch) -> Option<Port> {
        let slot = &self.slots[element];
        if !slot.late.is_empty() || slot.emitted.as_ref().is_some_and(|outs| !outs.is_empty()) {
            self.deliver(element);
        }
        if batch.is_empty() {
            return None;
        }
        let output = match next {
            Next::Push(output) => output,
            Next::Again(port) => return Some(Port { element, port }),
            Next::Done => {
                self.slots[element].counters.ended += batch.len() as u64;
                self.buffers.free_batch(batch);
                return None;
            }
        };
        let on = self.slots[element].outs.get(output).copied().flatten();
        if on.is_none() {
            self.drop_batch(element, 0, batch);
        }
        on
    }

    /// Carries on what an element emitted, and writes what was meant for it.
    #[inline(never)]
    pub(crate) fn deliver(&mut self, element: usize) {
        if let Some(mut outs) = self.slots[element].emitted.take() {
            while let Some((output, mut batch)) = outs.next() {
                match self.slots[element].outs.get(output).copied().flatten() {
                    Some(to) => self.push(to, &mut batch),
                    None => self.drop_batch(element, 0, &mut batch),
                }
                outs.give_back(output, batch);
            }
            let slot = &mut self.slots[element];
            slot.emitted.get_or_insert(outs);
        }
        for late in std::mem::take(&mut self.slots[element].late) {
            self.write_late(late);
        }
    }

    /// Keeps packets for later: the element is at work, or the stack is deep.
    #[cold]
    fn defer(&mut self, to: Port, batch: &mut Batch) {
        let mut kept = Box::new(Batch::with_limit(Batch::MAX));
        kept.take_from(batch, Batch::MAX);
        self.deferred.push_back(Deferred { to, batch: kept });
    }

    /// Carries on what was kept for later.
    pub(crate) fn run_deferred(&mut self) {
        self.source = None;
        for _ in 0..DEFERRED_A_TURN {
            let Some(Deferred { to, mut batch }) = self.deferred.pop_front() else { return };
            self.push(to, &mut batch);
        }
    }

    /// Whether packets wait to be carried on.
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Packets that wait to be carried on, by the element that they are for.
    pub(crate) fn deferred(&self) -> impl Iterator<Item = (usize, usize)> {
        let entered = |deferred: &Deferred| fused::entered(&self.slots, deferred.to);
        self.deferred.iter().filter_map(move |deferred| Some((entered(deferred)?, deferred.batch.len())))
    }

    /// Appends packets pulled from an output to `batch`, at most as many as fit.
    pub(crate) fn pull(&mut self, from: Port, batch: &mut Batch) {
        if self.pulls >= DEPTH {
            return; // schedulers nested that deep pull nothing
        }
        self.pulls += 1;
        match self.slots[from.element].pulled.get(from.port) {
            Some(Pulled::Through(_)) => self.pull_through(from, batch),
            Some(Pulled::Asked) => self.ask(from, batch),
            Some(Pulled::Passed(ways)) => {
                let input = ways.get(from.port).map(|input| input.load(Ordering::Relaxed));
                let ins = &self.slots[from.element].ins;
                if let Some(next) = input.and_then(|input| ins.get(input).copied().flatten()) {
                    self.pull(next, batch);
                }
            }
            None => {}
        }
        self.pulls -= 1;
    }

    /// Asks an element for packets.
    fn ask(&mut self, from: Port, batch: &mut Batch) {
        if self.with(from.element, |element, cx| element.pull(cx, from.port, batch)).is_some() {
            self.charge(from.element);
            self.collect(from, batch);
        }
    }

    /// Pulls through agnostic elements: what comes from behind them is pushed through
    /// one after the other, however many there are.
    fn pull_through(&mut self, from: Port, batch: &mut Batch) {
        let base = self.path.len();
        let mut behind = from;
        // The path is a stack for all pulls at work; no path visits an element twice.
        while let Some(&Pulled::Through(input)) = self.slots[behind.element].pulled.get(behind.port) {
            self.path.push((behind, input));
            match self.slots[behind.element].ins.get(input).copied().flatten() {
                Some(next) if self.path.len() - base <= self.slots.len() => behind = next,
                _ => return self.path.truncate(base),
            }
        }
        let mut pulled = Batch::with_limit(batch.room());
        self.pull(behind, &mut pulled);
        while self.path.len() > base && !pulled.is_empty() {
            if let Some((at, input)) = self.path.pop() {
                self.push_through(at, input, &mut pulled);
            }
        }
        self.path.truncate(base);
        batch.take_from(&mut pulled, Batch::MAX);
    }

    /// Pushes pulled packets into an agnostic element; what it sends to the output
    /// that is asked stays in the batch.
    fn push_through(&mut self, at: Port, input: usize, pulled: &mut Batch) {
        self.profiler.count(&mut self.slots[at.element].counters, pulled.len());
        let mut kept: Option<Batch> = None;
        for _ in 0..HOPS {
            let next = self.with(at.element, |element, cx| element.push(cx, input, pulled));
            self.charge(at.element);
            let next = match next {
                Some(Next::Push(output)) if output == at.port => break,
                Some(next) => next,
                // It is at work, and pulls itself.
                None => {
                    self.drop_batch(at.element, 0, pulled);
                    break;
                }
            };
            // What it emitted here was pulled: only the rest is carried on.
            let kept = kept.get_or_insert_with(|| Batch::with_limit(Batch::MAX));
            if let Some(outs) = &mut self.slots[at.element].emitted {
                outs.take(at.port, kept);
            }
            match (self.forward(at.element, next, pulled), next) {
                (Some(_), Next::Again(_)) => {}
                (Some(to), _) => {
                    self.push(to, pulled);
                    break;
                }
                (None, _) => break,
            }
        }
        if let Some(mut kept) = kept {
            kept.take_from(pulled, Batch::MAX);
            pulled.take_from(&mut kept, Batch::MAX);
        }
        self.collect(at, pulled);
    }

    /// What an element emitted while it was pulled from: at the output in question it
    /// was pulled, at others it is pushed.
    fn collect(&mut self, from: Port, batch: &mut Batch) {
        if let Some(outs) = &mut self.slots[from.element].emitted {
            outs.take(from.port, batch);
        }
        let slot = &self.slots[from.element];
        if !slot.late.is_empty() || slot.emitted.as_ref().is_some_and(|outs| !outs.is_empty()) {
            self.deliver(from.element);
        }
    }

    /// Drops packets for a reason of the element's.
    #[cold]
    pub(crate) fn drop_batch(&mut self, element: usize, reason: usize, batch: &mut Batch) {
        self.count_drops(element, reason, batch.len() as u64);
        self.buffers.free_batch(batch);
    }

    /// Drops one packet for a reason of the element's.
    pub(crate) fn drop_packet(&mut self, element: usize, reason: usize, packet: Packet) {
        self.count_drops(element, reason, 1);
        self.buffers.free(packet);
    }

    pub(crate) fn count_drops(&mut self, element: usize, reason: usize, count: u64) {
        let drops = &mut self.slots[element].counters.drops;
        if let Some(drops) = drops.get_mut(reason) {
            *drops += count;
        }
    }

    /// Charges an element with the time since the last one was charged, in a turn that
    /// is timed.
    #[inline(always)]
    pub(crate) fn charge(&mut self, element: usize) {
        if self.profiler.times {
            self.profiler.charge(&mut self.slots[element].counters);
        }
    }

    /// A task, timer or file has its turn: nothing was made in it yet.
    #[inline(always)]
    pub(crate) fn begin_turn(&mut self) {
        self.source = None;
        self.profiler.begin();
    }

    /// Runs the task whose turn it is; whether there was one, and whether it worked.
    pub(crate) fn run_task(&mut self) -> Option<bool> {
        let task = self.tasks.begin()?;
        let element = self.tasks.element(task);
        let mut batch = self.scratch.take().unwrap_or_else(|| Box::new(Batch::with_limit(Batch::MAX)));
        self.begin_turn();
        let (mut worked, mut had_turn, mut again) = (false, false, true);
        while again {
            let ran = self.with(element, |element, cx| element.run(cx, task, &mut batch));
            had_turn = ran.is_some();
            let Some(ran) = ran else { break };
            (worked, again) = (worked | ran.worked, ran.again);
            if self.profiler.counts && ran.worked {
                self.count_run(element, batch.len());
            }
            if let Some(to) = self.forward(element, ran.next, &mut batch) {
                self.push(to, &mut batch);
            }
            self.buffers.free_batch(&mut batch);
            if again {
                self.run_deferred();
            }
        }
        if !had_turn {
            self.tasks.schedule(task); // its element is at work further up: it comes later
        }
        self.scratch = Some(batch);
        self.run_deferred();
        self.profiler.end();
        self.tasks.end(task, worked);
        Some(worked)
    }

    /// A task did something. What a source makes came in there; what others push was
    /// counted when it was pulled.
    fn count_run(&mut self, element: usize, packets: usize) {
        self.charge(element);
        let slot = &mut self.slots[element];
        if slot.ins.is_empty() && packets > 0 {
            self.profiler.count(&mut slot.counters, packets);
        }
    }

    /// What was counted for an element in this lane.
    pub fn counters(&self, element: usize) -> &Counters {
        &self.slots[element].counters
    }

    /// Whether packets were wanted and not had, or not let wait, for want of buffers.
    pub fn has_lacked_buffers(&self) -> bool {
        self.buffers.missing > 0
    }
}
