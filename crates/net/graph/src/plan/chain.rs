//! Where a configuration has elements one behind the other that become a program when a
//! router is loaded.

use std::collections::HashSet;

use rustc_hash::FxHashSet;

use crate::element::chain::Chain;
use crate::element::class::Class;
use crate::plan::{Plan, Planned, Port};

/// Elements of a configuration that are a chain.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) chain: &'static Chain,
    /// For each class of the chain, its element.
    pub(crate) elements: Vec<Option<usize>>,
}

impl Found {
    /// The elements, in order.
    pub(crate) fn elements(&self) -> impl Iterator<Item = usize> {
        self.elements.iter().copied().flatten()
    }
}

/// Whether the elements of a class stay outside of programs.
pub(crate) fn is_never_fused(planned: &Planned) -> bool {
    planned.kind.kernel.inside().is_some_and(|inside| inside.path.is_empty())
}

/// What is asked of a configuration while its chains are looked for.
struct Search<'a> {
    chain: &'static Chain,
    plan: &'a Plan,
    used: &'a HashSet<usize>,
}

impl Search<'_> {
    /// Where an element stands in the chain, if it can be in it.
    fn place(&self, element: usize) -> Option<usize> {
        let planned = &self.plan.elements[element];
        let place = self.chain.classes.iter().position(|class| std::ptr::eq(*class, planned.kind))?;
        let pushed = planned.pull_inputs.iter().chain(&planned.pull_outputs).all(|pulled| !pulled);
        let one_way_in = planned.pull_inputs.len() == 1 && !planned.pull_outputs.is_empty();
        (pushed && one_way_in && !planned.locked && !self.used.contains(&element)).then_some(place)
    }

    /// The element behind one, if both can be neighbours in the chain, and its place.
    fn next(&self, element: usize, place: usize) -> Option<(usize, usize)> {
        let plan = self.plan;
        let only =
            |mut ports: Box<dyn Iterator<Item = Port> + '_>| ports.next().filter(|_| ports.next().is_none());
        let to = only(Box::new(plan.beyond(Port { element, port: 0 })))?;
        only(Box::new(plan.before(to)))?;
        let next = self.place(to.element).filter(|next| *next > place)?;
        let (one, other) = (&plan.elements[element], &plan.elements[to.element]);
        (one.lanes == other.lanes && one.single == other.single).then_some((to.element, next))
    }

    /// Whether an element is behind another one of the chain.
    fn is_behind(&self, element: usize) -> bool {
        self.plan.before(Port { element, port: 0 }).any(|from| {
            let place = self.place(from.element).filter(|_| from.port == 0);
            place.and_then(|place| self.next(from.element, place)).is_some()
        })
    }

    /// The chain that begins with an element.
    fn from(&self, element: usize) -> Option<Found> {
        let mut at = Some((element, self.place(element)?)).filter(|_| !self.is_behind(element));
        while let Some((element, place)) = at
            && is_never_fused(&self.plan.elements[element])
        {
            at = self.next(element, place); // it could not send itself what is too much
        }
        let mut elements = vec![None; self.chain.classes.len()];
        while let Some((element, place)) = at {
            elements[place] = Some(element);
            at = self.next(element, place);
        }
        let members =
            elements.iter().flatten().filter(|element| !is_never_fused(&self.plan.elements[**element]));
        (members.count() > 1).then_some(Found { chain: self.chain, elements })
    }
}

impl Plan {
    /// Finds the chains of a configuration. No element is in two.
    pub(crate) fn find_chains(&mut self, chains: &[&'static Chain]) {
        let mut used = HashSet::new();
        let kinds: FxHashSet<*const Class> =
            self.elements.iter().map(|planned| std::ptr::from_ref(planned.kind)).collect();
        let is_there =
            |chain: &&&Chain| chain.classes.iter().any(|class| kinds.contains(&std::ptr::from_ref(*class)));
        for &chain in chains.iter().filter(is_there) {
            for element in 0..self.elements.len() {
                let search = Search { chain, plan: self, used: &used };
                if let Some(one) = search.from(element) {
                    used.extend(one.elements());
                    self.chains.push(one);
                }
            }
        }
    }
}
