//! Which threads can reach which elements: a bit for each thread.
//!
//! A thread that runs an element's tasks pushes packets down from it and pulls them
//! up to it. Both end at elements that packets wait in: those that are pushed into
//! and pulled from. (*Fast Userspace Packet Processing*, section 5.6.)

use crate::plan::neighbors::Neighbors;
use crate::plan::{Planned, Wire};

/// Fills in [`Planned::lanes`]. `homes` are the threads that run each element's
/// tasks, zero for elements that run none.
pub(crate) fn spread(elements: &mut [Planned], wires: &[Wire], homes: &[u64]) {
    let is_pulled = |wire: &Wire| elements[wire.from.element].pull_outputs[wire.from.port];
    let next = Neighbors::new(
        elements.len(),
        wires.iter().map(|wire| match is_pulled(wire) {
            true => (wire.to.element, wire.from.element),
            false => (wire.from.element, wire.to.element),
        }),
    );
    let mut work: Vec<(usize, u64)> = homes.iter().copied().enumerate().filter(|(_, h)| *h != 0).collect();
    while let Some((element, threads)) = work.pop() {
        let planned = &mut elements[element];
        let new = threads & !planned.lanes;
        if new == 0 {
            continue;
        }
        planned.lanes |= new;
        // What is pulled from below goes no further than to where packets wait, and
        // what is pushed from above as well; nor past an element that hands it over to
        // its own threads.
        let waits = planned.hands_over
            || planned.pull_outputs.contains(&true) && planned.pull_inputs.contains(&false);
        if !waits || homes[element] & new != 0 {
            work.extend(next.of(element).map(|next| (next, new)));
        }
    }
    elements.iter_mut().zip(homes).for_each(|(planned, homes)| planned.homes = *homes);
    for planned in elements.iter_mut().filter(|e| e.lanes == 0) {
        planned.lanes = 1; // nobody comes here but handlers
    }
}

/// Whether an element runs tasks by its ports alone: it begins pushing, or pulling.
pub(crate) fn drives(planned: &Planned) -> bool {
    let pushes = planned.pull_outputs.contains(&false) && !planned.pull_inputs.contains(&false);
    let pulls = planned.pull_inputs.contains(&true) && !planned.pull_outputs.contains(&true);
    pushes || pulls || (planned.pull_inputs.is_empty() && planned.pull_outputs.is_empty())
}
