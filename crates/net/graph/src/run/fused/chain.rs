//! Chains: elements of well-known classes, one behind the other, that become a program when
//! a router is loaded.
//!
//! Most of what an element that looks at one packet costs is not what it does, but that it is
//! called, that its batch is walked, and that what it leaves is sent on. A chain is a type
//! which has the elements of a sequence of classes in it, each of which may be missing
//! ([`Then`]), so the compiler makes straight code of it beforehand. What it is for one
//! configuration `ixora compile` writes for all of it.
//!
//! Where packets and cycles are counted for each element there are no chains: they are taken
//! apart, and put together again when nobody counts any more.

use std::any::Any;
use std::collections::HashMap;

use memory::{Batch, Packet};

use super::{EntryState, Exit, Fused, Members, Part, Program, Single, apart, fuse};
use crate::element::{Action, Element, Next};
use crate::plan::chain::{Found, is_never_fused};
use crate::plan::{Plan, Port};
use crate::run::cx::Cx;
use crate::run::lane::{Lane, Slot};

/// What is known of an element in a chain.
#[derive(Debug, Clone, Default)]
pub struct Link {
    /// The element's number in the router.
    element: usize,
    /// How packets leave the chain by each of its outputs.
    outs: Box<[Exit]>,
    /// The exit to the element itself, if it stays outside.
    aside: usize,
}

impl Link {
    /// Takes a packet through an element that its fast path is not for: how it leaves, or
    /// [`Exit::END`] when it goes on to the next. It is cold, and no part of the loop over a batch, in
    /// which nothing of a link is at hand so that the elements have the registers.
    #[cold]
    #[inline(never)]
    fn slow_path(&self, stage: &mut impl Stage, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        match stage.packet(&mut cx.at(self.element), packet) {
            Some(Action::ON) => Exit::END,
            Some(action) => {
                let out = self.outs.get(action.output()).copied();
                out.unwrap_or(Exit::drop(self.element, action.reason()))
            }
            None => Exit::aside(self.aside),
        }
    }
}

/// The elements of a chain on their way into its program.
pub struct Links<'a> {
    slots: &'a [Slot],
    members: Members,
    /// For each class of the chain its element, if there is one, and its place in `members`.
    links: Vec<Option<(Link, usize)>>,
    end: Exit,
}

impl Links<'_> {
    /// An element that is part of the program.
    fn take<T: Element>(&mut self, class: usize) -> Option<Option<(T, Link)>> {
        let Some((link, place)) = self.links.get_mut(class)?.take() else { return Some(None) };
        Some(Some((self.members.take(place)?, link)))
    }

    /// What stands for an element that stays outside.
    fn guard<G: Guard>(&mut self, class: usize) -> Option<Option<(G, Link)>> {
        let Some((link, _)) = self.links.get_mut(class)?.take() else { return Some(None) };
        let element: &dyn Any = self.slots[link.element].element.as_deref()?;
        Some(Some((G::of(element.downcast_ref()?), link)))
    }
}

/// A test in the place of an element that most packets go through unchanged, to its first
/// output. Those that do not pass it are sent to the element itself.
pub trait Guard: Send + 'static {
    /// The element's type.
    type Of: Element;
    /// The test for an element as it is configured.
    fn of(element: &Self::Of) -> Self;
    /// Whether the element would send the packet on as it is.
    fn passes(&self, packet: &Packet) -> bool;
}

/// A place in a chain, for an element or the test in front of it.
pub trait Stage: Sized + Send + 'static {
    /// Takes the element of a class of the chain: `None` when it is of another type,
    /// `Some(None)` when there is none.
    fn take(links: &mut Links, class: usize) -> Option<Option<(Self, Link)>>;
    /// Deals with the packet if that is easy, as
    /// [`PerPacket::fast_path`](crate::PerPacket::fast_path) does; whether it did.
    fn fast_path(&mut self, packet: &mut Packet) -> bool;
    /// What the element does with a packet; `None` when it must have it itself.
    fn packet(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Option<Action>;
    /// The element, if it is part of the program.
    fn element(&mut self) -> Option<&mut dyn Element>;
    /// The element back.
    fn into_element(self) -> Option<Box<dyn Element>>;
}

/// An element that is part of the program.
pub struct Member<T>(T);

impl<T: Single> Stage for Member<T> {
    fn take(links: &mut Links, class: usize) -> Option<Option<(Self, Link)>> {
        Some(links.take(class)?.map(|(element, link)| (Member(element), link)))
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        self.0.fast_path(packet)
    }

    fn packet(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Option<Action> {
        Some(self.0.single(cx, 0, packet))
    }

    fn element(&mut self) -> Option<&mut dyn Element> {
        Some(&mut self.0)
    }

    fn into_element(self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.0))
    }
}

/// An element that stays outside.
pub struct Unfused<G>(G);

impl<G: Guard> Stage for Unfused<G> {
    fn take(links: &mut Links, class: usize) -> Option<Option<(Self, Link)>> {
        Some(links.guard(class)?.map(|(guard, link)| (Unfused(guard), link)))
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        self.0.passes(packet)
    }

    fn packet(&mut self, _: &mut Cx<'_>, packet: &mut Packet) -> Option<Action> {
        self.0.passes(packet).then_some(Action::ON)
    }

    fn element(&mut self) -> Option<&mut dyn Element> {
        None
    }

    fn into_element(self) -> Option<Box<dyn Element>> {
        None
    }
}

/// Places in a chain, from one of them on.
pub trait Stages: Sized + Send + 'static {
    /// Takes the elements of the classes from this one on.
    fn take(links: &mut Links, class: usize) -> Option<Self>;
    /// Takes a packet through all elements; how it leaves, [`Exit::END`] behind the last.
    fn packet(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit;
    /// How packets leave behind the last element.
    fn end(&self) -> Exit;
    /// The element of a place among those that are part of the program.
    fn member(&mut self, place: usize) -> Option<&mut dyn Element>;
    /// The elements back, in order.
    fn dissolve(self, elements: &mut Vec<Box<dyn Element>>);
}

/// A place, and those behind it.
pub struct Then<S, R> {
    first: Option<(S, Link)>,
    rest: R,
}

/// The end of a chain.
pub struct End(Exit);

impl<S: Stage, R: Stages> Stages for Then<S, R> {
    fn take(links: &mut Links, class: usize) -> Option<Self> {
        Some(Then { first: S::take(links, class)?, rest: R::take(links, class + 1)? })
    }

    #[inline(always)]
    fn packet(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        if let Some((stage, link)) = &mut self.first
            && !stage.fast_path(packet)
        {
            let exit = link.slow_path(stage, cx, packet);
            if exit != Exit::END {
                return exit;
            }
        }
        self.rest.packet(cx, packet)
    }

    fn end(&self) -> Exit {
        self.rest.end()
    }

    fn member(&mut self, place: usize) -> Option<&mut dyn Element> {
        match self.first.as_mut().and_then(|(stage, _)| stage.element()) {
            Some(element) if place == 0 => Some(element),
            Some(_) => self.rest.member(place - 1),
            None => self.rest.member(place),
        }
    }

    fn dissolve(self, elements: &mut Vec<Box<dyn Element>>) {
        elements.extend(self.first.and_then(|(stage, _)| stage.into_element()));
        self.rest.dissolve(elements);
    }
}

impl Stages for End {
    fn take(links: &mut Links, _: usize) -> Option<Self> {
        Some(End(links.end))
    }

    #[inline(always)]
    fn packet(&mut self, _: &mut Cx<'_>, _: &mut Packet) -> Exit {
        Exit::END
    }

    fn end(&self) -> Exit {
        self.0
    }

    fn member(&mut self, _: usize) -> Option<&mut dyn Element> {
        None
    }

    fn dissolve(self, _: &mut Vec<Box<dyn Element>>) {}
}

struct Linked<R>(R);

impl<R: Stages> Program for Linked<R> {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch, way: &mut EntryState) -> Next {
        let end = self.0.end();
        way.carry_on(self, cx, batch, end, |program, cx, packet| program.0.packet(cx, packet))
    }

    fn member(&mut self, place: usize) -> Option<&mut dyn Element> {
        self.0.member(place)
    }

    fn dissolve(self: Box<Self>) -> Vec<Box<dyn Element>> {
        let mut elements = vec![];
        self.0.dissolve(&mut elements);
        elements
    }
}

/// A chain's program, for [`Chain::make`](crate::element::chain::Chain::make).
pub fn program<R: Stages>(links: &mut Links) -> Option<Box<dyn Program>> {
    Some(Box::new(Linked(R::take(links, 0)?)))
}

/// A chain in a lane, and the slot of its program.
pub(crate) struct Placed {
    found: Found,
    hidden: usize,
}

/// Puts the programs of chains into a lane.
pub(crate) fn install(plan: &Plan, slots: &mut Vec<Slot>) -> Vec<Placed> {
    let mut placed = vec![];
    for found in &plan.chains {
        let hidden = slots.len();
        if let Some(slot) = link(found, hidden, slots, plan) {
            slots.push(slot);
            placed.push(Placed { found: found.clone(), hidden });
        }
    }
    let entry = |placed: &Placed| Some((placed.found.elements().next()?, placed.hidden));
    let entries: HashMap<usize, usize> = placed.iter().filter_map(entry).collect();
    for to in slots.iter_mut().flat_map(|slot| slot.outs.iter_mut()).flatten() {
        if let Some(&hidden) = entries.get(&to.element) {
            *to = Port { element: hidden, port: 0 };
        }
    }
    placed
}

/// Moves a chain's elements into its program: the slot for it. `None` when one of them is not
/// there, or not of its class's type.
fn link(found: &Found, hidden: usize, slots: &mut [Slot], plan: &Plan) -> Option<Slot> {
    let fits = |number: usize| {
        let element = slots[number].element.as_deref()?;
        plan.elements[number].kind.kernel.fits(element).then_some(())
    };
    found.elements().try_for_each(fits)?;
    let (mut exits, mut links, mut members) = (vec![], vec![], vec![]);
    let mut exit = |to: Port| {
        let place = exits.iter().position(|exit| *exit == to);
        place.unwrap_or_else(|| {
            exits.push(to);
            exits.len() - 1
        })
    };
    for element in &found.elements {
        let Some(element) = *element else {
            links.push(None);
            continue;
        };
        let outs = slots[element].outs.iter();
        let outs = outs.map(|out| out.map_or(Exit::drop(element, 0), |to| Exit::to(exit(to)))).collect();
        let outside = is_never_fused(&plan.elements[element]);
        let aside = if outside { exit(Port { element, port: 0 }) } else { 0 };
        links.push(Some((Link { element, outs, aside }, members.len())));
        members.extend((!outside).then_some(element));
    }
    let end = links.iter().flatten().last().and_then(|(link, _)| link.outs.first().copied())?;
    let emits =
        |element: &usize| plan.elements[*element].kind.kernel.inside().is_some_and(|inside| inside.emits);
    let part = Part {
        entries: [(found.elements().next()?, 0)].into(),
        exits: exits.iter().map(|exit| (exit.element, exit.port)).collect(),
        emitters: members.iter().copied().filter(emits).collect(),
        // What is as it was configured is read when the program is made.
        fixed: found.elements().filter(|element| is_never_fused(&plan.elements[*element])).collect(),
        members: members.into(),
    };
    let make = |members, slots: &[Slot]| (found.chain.make)(&mut Links { slots, members, links, end });
    fuse(part, hidden, slots, make)
}

impl Lane {
    /// Counts packets and cycles for each element from now on, or no longer.
    pub(crate) fn set_measured(&mut self, counts: bool) {
        self.profiler.counts = counts;
        match counts {
            true => self.chains.iter().for_each(|placed| apart::dissolve(&mut self.slots, placed.hidden)),
            false => self.link_again(),
        }
    }

    /// Puts chains together that were taken apart.
    pub(crate) fn link_again(&mut self) {
        let shared = self.shared.clone();
        for Placed { found, hidden } in &self.chains {
            let hidden = *hidden;
            let element = self.slots[hidden].element.as_deref().map(|element| element as &dyn Any);
            if self.profiler.counts || element.is_none_or(|element| element.is::<Fused>()) {
                continue;
            }
            if let Some(slot) = link(found, hidden, &mut self.slots, &shared.plan) {
                (self.slots[hidden].element, self.slots[hidden].outs) = (slot.element, slot.outs);
            }
        }
    }
}
