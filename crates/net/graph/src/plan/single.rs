//! Where packets go one by one. Most elements do the same with packets whether these come
//! alone or in a batch. A script that looks at a counter in front of it and sets a switch
//! behind it does not: by the time a batch comes to the script, all of it is counted. So
//! packets on their way to such an element go one by one, each as far as it goes, as in
//! Click.

use crate::plan::neighbors::Neighbors;
use crate::plan::{Planned, Wire};

/// Which packets go one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Batching {
    /// Those on their way to an element that asks for it
    /// ([`Setup::take_one_by_one`](crate::Setup::take_one_by_one)).
    #[default]
    Auto,
    /// No packets do.
    Always,
    /// All packets do.
    Never,
}

/// Fills in [`Planned::single`]: for elements that `asked` for it, for those
/// in front of them as far as to where packets wait or are made, and for those that pull
/// through them.
pub(crate) fn spread(elements: &mut [Planned], wires: &[Wire], asked: &[usize], batching: Batching) {
    let mut work: Vec<usize> = match batching {
        Batching::Always => return,
        Batching::Never => (0..elements.len()).collect(),
        Batching::Auto => asked.to_vec(),
    };
    if work.is_empty() {
        return;
    }
    let is_pulled = |wire: &&Wire| elements[wire.from.element].pull_outputs[wire.from.port];
    let before = wires.iter().map(|wire| (wire.to.element, wire.from.element));
    let pulled = wires.iter().filter(is_pulled).map(|wire| (wire.from.element, wire.to.element));
    let (before, pullers) = (Neighbors::new(elements.len(), before), Neighbors::new(elements.len(), pulled));
    while let Some(index) = work.pop() {
        if std::mem::replace(&mut elements[index].single, true) {
            continue;
        }
        let waits =
            |planned: &Planned| planned.pull_outputs.contains(&true) && planned.pull_inputs.contains(&false);
        // Packets wait here: how they came in makes no difference to how they go on.
        work.extend(before.of(index).filter(|&other| !waits(&elements[other])));
        if !waits(&elements[index]) {
            work.extend(pullers.of(index));
        }
    }
}
