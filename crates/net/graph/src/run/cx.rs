//! What an element can do while it works: its view of the lane.

mod growth;
mod neighbors;
mod parts;
mod scarce;
mod wakeups;

use std::any::Any;
use std::sync::Arc;

pub use growth::LONGEST;
use memory::{Batch, Packet};

use crate::element::class::NOT_TAKEN_OVER;
use crate::element::{Complaint, Element, Refused};
use crate::plan::Port;
use crate::run::handlers::Named;
use crate::run::lane::Lane;
use crate::run::late::Late;
use crate::run::signal::{self, Signal, SignalKind, Signals, Waker};
use crate::run::task::TaskId;

/// Complaints of one call that are kept.
const MOST_COMPLAINTS: usize = 64;
/// How many bytes in front of its contents a copy of a packet has too: room for what is
/// stripped and put back, Ethernet with tags and IP.
pub const STRIPPED: usize = 64;

/// An element's view of its lane. See the [module](self).
pub struct Cx<'a> {
    pub(crate) lane: &'a mut Lane,
    pub(crate) me: usize,
}

/// What an element does with packets.
impl Cx<'_> {
    /// Sends a packet out at `output`, behind those sent before. Where there is no
    /// such output it is dropped, for the class's first reason.
    #[inline]
    pub fn emit(&mut self, output: usize, packet: Packet) {
        if output >= self.outputs() {
            return self.drop(0, packet);
        }
        self.lane.slots[self.me].emitted.get_or_insert_default().push(output, packet);
    }

    /// Drops a packet for a reason of the class's.
    #[inline]
    pub fn drop(&mut self, reason: usize, packet: Packet) {
        self.lane.drop_packet(self.me, reason, packet);
    }

    /// Drops all packets of a batch for a reason of the class's.
    pub fn drop_batch(&mut self, reason: usize, batch: &mut Batch) {
        self.lane.drop_batch(self.me, reason, batch);
    }

    /// Counts packets as dropped that somebody else freed.
    pub fn count_drops(&mut self, reason: usize, count: u64) {
        self.lane.count_drops(self.me, reason, count);
    }

    /// Frees packets that still wait here when the router ends: they are counted as held. Where another
    /// one took its place and did not take them over, they are dropped ([`NOT_TAKEN_OVER`]), and that is told, unless only what
    /// Click tells is to be: what is counted here ends with the router.
    pub fn end_waiting(&mut self, packets: impl IntoIterator<Item = Packet>) {
        let reasons = self.lane.shared.plan.elements[self.me].kind.drops;
        let reason = reasons.iter().position(|reason| *reason == NOT_TAKEN_OVER);
        let Some(reason) = reason.filter(|_| self.is_replaced()) else {
            return packets.into_iter().for_each(|packet| {
                self.lane.slots[self.me].counters.held += 1;
                self.lane.buffers.free(packet);
            });
        };
        let mut count = 0;
        for packet in packets {
            count += 1;
            self.drop(reason, packet);
        }
        if count > 0 && self.lane.shared.thorough {
            let (name, class, plural) = (self.name(), self.class(), if count == 1 { "" } else { "s" });
            self.say(&format!("{name} :: {class}: {NOT_TAKEN_OVER}, drops {count} packet{plural}\n"));
        }
    }

    /// How many packets this element dropped in this lane, for each reason.
    pub fn drops(&self) -> &[u64] {
        &self.lane.slots[self.me].counters.drops
    }

    /// Frees a packet that did what it was for.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        self.lane.slots[self.me].counters.ended += 1;
        self.lane.buffers.free(packet);
    }

    /// Frees packets that did what they were for.
    #[inline]
    pub fn free_batch(&mut self, batch: &mut Batch) {
        self.lane.slots[self.me].counters.ended += batch.len() as u64;
        self.lane.buffers.free_batch(batch);
    }

    /// Frees buffers that were taken off the end of a packet: no packet ends.
    #[inline]
    pub fn free_tail(&mut self, tail: Packet) {
        self.lane.buffers.free(tail);
    }

    /// Appends packets pulled at `input` to `batch`, as many as there are and fit;
    /// how many.
    #[inline]
    pub fn pull(&mut self, input: usize, batch: &mut Batch) -> usize {
        let before = batch.len();
        if let Some(from) = self.lane.slots[self.me].ins.get(input).copied().flatten() {
            self.lane.charge(self.me);
            if self.goes_singly() && batch.room() > 1 {
                let mut one = Batch::with_limit(1);
                self.lane.pull(from, &mut one);
                batch.take_from(&mut one, 1);
            } else {
                self.lane.pull(from, batch);
            }
        }
        let pulled = batch.len() - before;
        if pulled > 0 {
            self.lane.profiler.count(&mut self.lane.slots[self.me].counters, pulled);
        }
        pulled
    }

    /// As [`pull`](Self::pull), one after the other where packets go one by one: for a task that
    /// sends none of them on.
    pub fn pull_burst(&mut self, input: usize, batch: &mut Batch) -> usize {
        let before = batch.len();
        while batch.room() > 0 && self.pull(input, batch) > 0 && self.goes_singly() {}
        batch.len() - before
    }

    /// Whether packets come to the element, or are pulled by it, one by one.
    #[inline]
    pub fn goes_singly(&self) -> bool {
        self.lane.slots[self.me].single
    }

    /// One packet pulled at `input`.
    pub fn pull_one(&mut self, input: usize) -> Option<Packet> {
        let mut batch = Batch::with_limit(1);
        self.pull(input, &mut batch);
        batch.pop_front()
    }

    /// An empty packet of which nothing is known; `None` when the lane has no
    /// buffers left, which it counts.
    #[inline]
    pub fn alloc(&mut self) -> Option<Packet> {
        let packet = self.lane.buffers.alloc();
        self.count_made(usize::from(packet.is_some()));
        packet
    }

    /// Appends up to `count` packets to `batch`, each filled by `fill`; how many.
    #[inline]
    pub fn alloc_batch(
        &mut self,
        batch: &mut Batch,
        count: usize,
        mut fill: impl FnMut(&mut Packet),
    ) -> usize {
        let before = batch.len();
        self.lane.buffers.alloc_batch(batch, count);
        for packet in &mut batch[before..] {
            packet.clear_annotations();
            fill(packet);
        }
        let made = batch.len() - before;
        self.count_made(made);
        if made < count {
            self.lane.buffers.lacks(self.me);
        }
        made
    }

    /// A packet of these bytes, in as many buffers as they need. `None` when no buffers are
    /// left, or there are more bytes than [`LONGEST`].
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        let Some(mut packet) = self.lane.buffers.alloc() else {
            self.count_made(0);
            return None;
        };
        let packet = match packet.copy_from(bytes) {
            Ok(()) => Some(packet),
            Err(_) => {
                self.lane.buffers.free(packet);
                self.long_packet(bytes)
            }
        };
        self.count_made(usize::from(packet.is_some()));
        packet
    }

    /// A copy of a packet, annotations, stripped headers and all. Packets are never
    /// shared: what an element has, nobody else can change.
    pub fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        let copy = packet.copy_with(STRIPPED, || self.lane.buffers.alloc());
        self.count_made(usize::from(copy.is_some()));
        copy
    }
}

/// The element and its place.
impl Cx<'_> {
    /// The view another element of this lane has, by its number: for code that does
    /// the work of several ([`fused`](crate::run::fused)).
    #[inline(always)]
    pub fn at(&mut self, element: usize) -> Cx<'_> {
        Cx { lane: self.lane, me: element }
    }

    /// The element's full name.
    pub fn name(&self) -> &str {
        self.lane.shared.name(self.me)
    }

    /// Its class's name.
    pub fn class(&self) -> &str {
        &self.lane.shared.plan.elements[self.me].class
    }

    /// Where names of addresses are looked up, as in the element's configuration.
    pub fn scope(&self) -> crate::element::value::Scope<'_> {
        crate::element::value::Scope { element: self.name(), names: &self.lane.shared.names }
    }

    /// How many outputs it has.
    #[inline(always)]
    pub fn outputs(&self) -> usize {
        self.lane.slots[self.me].outs.len()
    }

    /// How many inputs it has.
    #[inline]
    pub fn inputs(&self) -> usize {
        self.lane.slots[self.me].ins.len()
    }

    /// Whether packets are pulled at `input`.
    pub fn is_pull_input(&self, input: usize) -> bool {
        self.lane.slots[self.me].ins.get(input).is_some_and(Option::is_some)
    }

    /// Whether packets are pushed from `output`.
    pub fn is_push_output(&self, output: usize) -> bool {
        self.lane.slots[self.me].outs.get(output).is_some_and(Option::is_some)
    }

    /// The number of this lane.
    pub fn lane(&self) -> usize {
        self.lane.id
    }

    /// The lanes that can reach this element, a bit for each.
    pub fn lanes(&self) -> u64 {
        self.lane.shared.plan.elements[self.me].lanes
    }

    /// Whether this lane runs the element's tasks.
    pub fn is_home(&self) -> bool {
        self.lane.shared.plan.elements[self.me].homes >> self.lane.id & 1 == 1
    }

    /// Nanoseconds since 1970, or simulated.
    #[inline]
    pub fn now_ns(&self) -> i64 {
        self.lane.shared.clock.now_ns()
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        self.lane.shared.clock.is_simulated()
    }

    /// Whether time jumps to the next timer where nothing is left to run.
    pub fn time_jumps(&self) -> bool {
        self.lane.shared.clock.jumps()
    }

    /// Prints to the router's diagnostic output; give the line's end with it.
    pub fn say(&self, text: &str) {
        self.lane.shared.say(text);
    }

    /// Says what failed for good while the router goes on: its process ends with a failure.
    pub fn fail(&self, text: &str) {
        self.lane.shared.fail(text);
    }

    /// Has somebody told what the router says from now on.
    pub fn listen_to_all(&self, listener: crate::run::shared::Listener) {
        self.lane.shared.listen(listener);
    }

    /// Prints to the router's standard output.
    pub fn print(&self, text: &str) {
        self.lane.shared.print(text);
    }

    /// Says that this element would have the router stop. It does when as many said
    /// so as it waits for, one at first.
    pub fn stop(&mut self) {
        self.lane.shared.adjust_runs(-1);
    }

    /// Makes the router wait for more, or fewer, who want it to stop.
    pub fn adjust_runs(&mut self, by: i32) {
        self.lane.shared.adjust_runs(by);
    }

    /// Whether the router ends: who waits for something waits no longer.
    pub fn has_ended(&self) -> bool {
        self.lane.shared.has_ended() || self.lane.shared.runs() <= 0
    }

    /// Whether another router takes this one's place: who was asked for something and did
    /// not answer yet leaves it to that one.
    pub fn is_replaced(&self) -> bool {
        self.lane.shared.is_replaced()
    }

    /// The configuration changed: what its `config` handler reads from now on.
    pub fn set_config(&mut self, config: impl Into<String>) {
        self.lane.shared.set_config(self.me, config.into());
    }
}

/// Neighbours. While elements are initialized, all of a lane's are there but the one
/// that asks.
impl Cx<'_> {
    /// What tells whether there are packets to pull at `input`; `task` is woken when
    /// there are again.
    pub fn upstream(&mut self, input: usize, task: Option<TaskId>) -> Signals {
        let signals = signal::signals(self.lane, Port { element: self.me, port: input }, SignalKind::Packets);
        self.listen(signals, task)
    }

    /// What tells whether there is room behind `output`; `task` is woken when there
    /// is again.
    pub fn downstream(&mut self, output: usize, task: Option<TaskId>) -> Signals {
        let signals = signal::signals(self.lane, Port { element: self.me, port: output }, SignalKind::Room);
        self.listen(signals, task)
    }

    /// Has a task of this lane woken when a signal of the element's own rises.
    pub fn wake_on(&mut self, signal: &Signal, task: TaskId) {
        self.listen(Signals { list: vec![signal.clone()], always: false }, Some(task));
    }

    fn listen(&mut self, signals: Signals, task: Option<TaskId>) -> Signals {
        if let Some(task) = task {
            let mailbox = self.lane.shared.mailboxes[self.lane.id].clone();
            for signal in &signals.list {
                signal.listen(Waker { mailbox: mailbox.clone(), task });
            }
        }
        signals
    }

    /// An element of this name, looked for in the same compound, then further out.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.lane.shared.plan.find(name, Some(self.me))
    }

    /// What the element of this name shares ([`Setup::share`](crate::Setup::share)).
    pub fn shared<T: Any + Send + Sync>(&self, name: &str) -> Option<Arc<T>> {
        self.lane.shared.get(self.find(name)?)
    }

    /// What this element shares.
    pub fn own<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.lane.shared.get(self.me)
    }

    /// Lends an element of this lane, of the given type, to `work`.
    pub fn with_element<T: Element, R>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut T, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let index = self.find(name)?;
        let lent = |element: &mut dyn Element, cx: &mut Cx<'_>| {
            (element as &mut dyn Any).downcast_mut::<T>().map(|element| work(element, cx))
        };
        self.lane.with(index, lent).flatten()
    }

    /// The names of all elements, in order.
    pub fn elements(&self) -> Vec<String> {
        self.lane.shared.plan.elements.iter().map(|e| e.name.to_string()).collect()
    }
}

/// How an element calls handlers.
impl Cx<'_> {
    /// Reads a handler: `element.handler`, or a global one.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn read(&mut self, name: &str, parameter: &str) -> Result<String, Refused> {
        self.lane.read(Some(self.me), name, parameter)
    }

    /// Writes a handler: `element.handler`, or a global one.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn write(&mut self, name: &str, value: &str) -> Result<(), Refused> {
        self.lane.write(Some(self.me), name, value)
    }

    /// Writes a handler as soon as this element has returned, and before packets that come
    /// to it once more ([`Next::Again`](crate::Next::Again)): what is called can read and
    /// write handlers of this element. What it complains of is printed.
    #[cold]
    pub fn call(&mut self, handler: &str, value: &str) {
        let (handler, value) = (handler.to_string(), value.to_string());
        let at_work = self.lane.holder(self.me);
        self.lane.slots[at_work].late.push(Late { of: None, from: self.me, handler, value });
    }

    /// Tells whoever calls a handler of this element that something is wrong, beside what
    /// the handler says. False when nobody does.
    pub fn complain(&mut self, text: impl Into<String>) -> bool {
        self.tell(false, text.into())
    }

    /// As [`complain`](Self::complain), of what need not be wrong.
    pub fn warn(&mut self, text: impl Into<String>) -> bool {
        self.tell(true, text.into())
    }

    fn tell(&mut self, is_warning: bool, text: String) -> bool {
        let Some(frame) = self.lane.complaints.last_mut() else { return false };
        if frame.len() < MOST_COMPLAINTS {
            frame.push(Complaint { is_warning, text });
        }
        true
    }

    /// What the handler that this element called last complained of.
    pub fn take_complaints(&mut self) -> Vec<Complaint> {
        std::mem::take(&mut self.lane.told)
    }

    /// The full name of a handler, as this element names it.
    pub fn full_name(&self, name: &str) -> String {
        self.named().full_name(name)
    }

    /// The elements and handlers there are, as this element names them.
    pub fn named(&self) -> Named<'_> {
        self.lane.named(Some(self.me))
    }

    /// Where the element is declared, as messages have it: `file:line`.
    pub fn landmark(&self) -> String {
        self.lane.shared.plan.elements[self.me].place.landmark()
    }

    /// The names of all handlers in the router's classes that fit.
    pub fn handlers_that(&self, fit: fn(&crate::element::class::Handler) -> bool) -> Vec<&'static str> {
        let classes = self.lane.shared.plan.elements.iter().map(|element| element.kind);
        let mut names: Vec<&str> =
            classes.flat_map(|class| class.handlers()).filter(fit).map(|handler| handler.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
