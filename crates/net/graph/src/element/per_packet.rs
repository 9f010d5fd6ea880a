//! Elements that look at one packet at a time, and what makes elements of them.

use std::any::Any;

use memory::{Batch, Packet};

use crate::element::{Element, Next, Refused};
use crate::run::cx::Cx;
use crate::run::handlers::Named;
use crate::run::signal::{Notice, SignalKind};

/// Where one packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action(u32);

impl Action {
    const NOWHERE: u32 = 0xFFFF;
    /// To output 0.
    pub const ON: Action = Action(0);
    /// Nowhere yet: this packet and those behind it come once more, after the calls that
    /// the element asked for. Only of elements that [`PerPacket::calls`].
    pub const AGAIN: Action = Action(0xFFFE);

    /// To `output`; dropped for the class's first reason where that is not connected.
    #[inline(always)]
    pub const fn out(output: usize) -> Action {
        Action(output as u32 & 0xFFFF)
    }

    /// Dropped, for a reason of [`Class::drops`](crate::Class::drops).
    #[inline(always)]
    pub const fn drop(reason: usize) -> Action {
        Action(Self::NOWHERE | (reason as u32) << 16)
    }

    /// To `output`, or dropped for `reason` where that is not connected: what an
    /// element does with bad packets.
    #[inline(always)]
    pub const fn out_or_drop(output: usize, reason: usize) -> Action {
        Action(output as u32 & 0xFFFF | (reason as u32) << 16)
    }

    /// The output, whether it exists or not.
    #[inline(always)]
    pub const fn output(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }

    /// Why the packet is dropped, if it is.
    #[inline(always)]
    pub const fn reason(self) -> usize {
        (self.0 >> 16) as usize
    }
}

/// An element that deals with one packet at a time.
pub trait PerPacket: Send + 'static {
    /// As [`Element::check_names`].
    ///
    /// # Errors
    /// What is not there, or not what it must be.
    #[allow(unused_variables)]
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        Ok(())
    }

    /// As [`Element::init`].
    ///
    /// # Errors
    /// Why the router cannot run.
    #[allow(unused_variables)]
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Whether it has a [`fast_path`](Self::fast_path).
    const HAS_FAST_PATH: bool = false;

    /// Deals with a packet that came in at `input`; where it goes.
    fn packet(&mut self, cx: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action;

    /// Deals with a packet that goes to output 0, as most do, where that takes nothing but the
    /// packet and the element: whether it did. Of another packet nothing was changed, and
    /// [`packet`](Self::packet) deals with it. Elements that write it set
    /// [`HAS_FAST_PATH`](Self::HAS_FAST_PATH).
    #[allow(unused_variables)]
    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        false
    }

    /// Whether it may ask for calls ([`Cx::call`]) that decide what becomes of packets.
    fn calls(&self) -> bool {
        false
    }

    /// What the element tells those who wait for packets or for room, as [`Element::notice`] does.
    #[allow(unused_variables)]
    fn notice(&self, kind: SignalKind, port: usize) -> Notice {
        Notice::Continue
    }

    /// As [`Element::replicate`]; for elements without state of their own a clone.
    fn replicate(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// As [`Element::reconfigure`]: it becomes the new one, unless it keeps something.
    ///
    /// # Errors
    /// When it cannot.
    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Self) -> Result<(), Refused>
    where
        Self: Sized,
    {
        *self = new;
        self.init(cx).map_err(Refused::Failed)
    }

    /// Takes over what an element of the same name and class kept, as [`Element::take_over`] does.
    #[allow(unused_variables)]
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Self)
    where
        Self: Sized,
    {
    }
}

/// An [`Element`] made of a [`PerPacket`].
#[derive(Debug)]
pub struct Each<K>(pub K);

impl<K: PerPacket> Each<K> {
    /// As an element.
    pub fn boxed(kernel: K) -> Box<dyn Element> {
        Box::new(Each(kernel))
    }

    /// Not all packets go the same way: the first `same` go `first`, the one after
    /// them goes `other`, the rest were not asked about yet. Compiled for each element: where
    /// traffic is mixed, most packets come here.
    #[cold]
    fn part(
        &mut self,
        cx: &mut Cx<'_>,
        input: usize,
        batch: &mut Batch,
        (first, same, other): (Action, usize, Action),
    ) -> Next {
        let outputs = cx.outputs();
        let stays = if first.output() < outputs { first } else { Action::ON };
        let sort = |cx: &mut &mut Cx<'_>, place: usize, packet: &mut Packet| {
            let action = match place {
                _ if place < same => first,
                _ if place == same => other,
                _ => self.0.packet(cx, input, packet),
            };
            // Two that go the same way for different reasons keep their order.
            (action.output() != stays.output()).then_some(action)
        };
        batch.split(&mut &mut *cx, sort, |cx, action, packet| send(cx, outputs, action, packet));
        Next::Push(stays.output())
    }
}

/// [`PerPacket::packet`] of an element, for what is compiled once for all of them.
type OnePacket<'a> = &'a mut dyn FnMut(&mut Cx<'_>, &mut Packet) -> Action;

/// Packets one after the other, until a call decides what becomes of the next.
#[cold]
fn until_call(cx: &mut Cx<'_>, input: usize, batch: &mut Batch, one: OnePacket<'_>) -> Next {
    let (outputs, mut waits) = (cx.outputs(), false);
    let sort = |cx: &mut &mut Cx<'_>, _: usize, packet: &mut Packet| {
        if waits {
            return None;
        }
        let action = one(cx, packet);
        waits = action == Action::AGAIN;
        (!waits).then_some(action)
    };
    batch.split(&mut &mut *cx, sort, |cx, action, packet| send(cx, outputs, action, packet));
    if waits { Next::Again(input) } else { Next::Done }
}

/// A packet on its way, of so many outputs.
fn send(cx: &mut Cx<'_>, outputs: usize, action: Action, packet: Packet) {
    if action.output() < outputs {
        cx.emit(action.output(), packet);
    } else {
        cx.drop(action.reason(), packet);
    }
}

impl<K: PerPacket> Element for Each<K> {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.0.check_names(named)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.0.init(cx)
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        if self.0.calls() {
            return until_call(cx, input, batch, &mut |cx, packet| self.0.packet(cx, input, packet));
        }
        let first = match batch.iter_mut().position(|packet| !self.0.fast_path(packet)) {
            None => Action::ON,
            Some(fast) => {
                let mut rest = batch.iter_mut().enumerate().skip(fast);
                let first = match rest.next() {
                    Some((0, packet)) => self.0.packet(cx, input, packet),
                    Some((_, packet)) => {
                        let action = self.0.packet(cx, input, packet);
                        if action != Action::ON {
                            return self.part(cx, input, batch, (Action::ON, fast, action));
                        }
                        action
                    }
                    None => return Next::Done,
                };
                for (same, packet) in rest {
                    let action = self.0.packet(cx, input, packet);
                    if action != first {
                        return self.part(cx, input, batch, (first, same, action));
                    }
                }
                first
            }
        };
        if first.output() < cx.outputs() {
            return Next::Push(first.output());
        }
        cx.drop_batch(first.reason(), batch);
        Next::Done
    }

    fn notice(&self, kind: SignalKind, port: usize) -> Notice {
        self.0.notice(kind, port)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        self.0.replicate().map(Each::boxed)
    }

    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        match (new as Box<dyn Any>).downcast::<Each<K>>() {
            Ok(new) => self.0.reconfigure(cx, new.0),
            Err(_) => Err("a new element of another kind".into()),
        }
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn Any).downcast_mut::<Each<K>>() {
            self.0.take_over(cx, &mut old.0);
        }
    }

    fn per_packet(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.0)
    }
}
