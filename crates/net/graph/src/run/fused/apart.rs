//! Programs that are taken apart: when the router is replaced, and when an element is
//! given another configuration than the one that stands in the code.

use std::any::Any;

use memory::Batch;

use super::Fused;
use crate::element::{Element, Next};
use crate::plan::Port;
use crate::run::cx::Cx;
use crate::run::lane::{Lane, Slot};

/// What stands in the slot of a program that is no more: sends packets on to the elements
/// that they came for.
struct Forward {
    /// The output of the first entry. Those before it are the program's: what it emitted
    /// may still be under way.
    first: usize,
}

impl Element for Forward {
    fn push(&mut self, _: &mut Cx<'_>, entry: usize, _: &mut Batch) -> Next {
        Next::Push(self.first + entry)
    }
}

/// Gives the elements of the program in a slot, if there is one, back to their own slots.
pub(super) fn dissolve(slots: &mut [Slot], hidden: usize) {
    let element = slots[hidden].element.as_deref();
    if !element.is_some_and(|element| (element as &dyn Any).is::<Fused>()) {
        return;
    }
    let element: Option<Box<dyn Any>> = slots[hidden].element.take().map(|element| element as _);
    let Some(Ok(fused)) = element.map(|element| element.downcast::<Fused>()) else { return };
    let Fused { program, members, entries, .. } = *fused;
    for (element, number) in program.dissolve().into_iter().zip(members) {
        slots[number].element = Some(element);
    }
    let mut outs = slots[hidden].outs.to_vec();
    slots[hidden].element = Some(Box::new(Forward { first: outs.len() }));
    outs.extend(entries.iter().map(|&(element, port)| Some(Port { element, port })));
    slots[hidden].outs = outs.into();
}

/// Gives a lane's elements back to their own slots.
pub(crate) fn dissolve_all(slots: &mut [Slot]) {
    (0..slots.len()).for_each(|hidden| dissolve(slots, hidden));
}

/// The element that packets enter by a port of a slot, which may be a program's, whole or apart.
pub(crate) fn entered(slots: &[Slot], to: Port) -> Option<usize> {
    let slot = slots.get(to.element)?;
    let element = slot.element.as_deref().map(|element| element as &dyn Any);
    let fused = element.and_then(|element| element.downcast_ref::<Fused>());
    let forward = element.and_then(|element| element.downcast_ref::<Forward>());
    match (fused, forward) {
        (Some(fused), _) => fused.entries.get(to.port).map(|&(element, _)| element),
        (None, Some(forward)) => {
            slot.outs.get(forward.first + to.port).copied().flatten().map(|to| to.element)
        }
        (None, None) => Some(to.element),
    }
}

impl Lane {
    /// Makes sure that an element's configuration is not in the code of a program: that
    /// is taken apart, and its elements go on as they are.
    pub(crate) fn take_apart(&mut self, element: usize) {
        let holds = |slot: &Slot| {
            let element_in = slot.element.as_deref().map(|element| element as &dyn Any);
            let fused = element_in.and_then(|element| element.downcast_ref::<Fused>());
            fused.is_some_and(|fused| fused.fixed.contains(&element))
        };
        if let Some(hidden) = self.slots.iter().position(holds) {
            dissolve(&mut self.slots, hidden);
        }
    }
}
