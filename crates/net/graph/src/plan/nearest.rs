//! Looking for elements through the graph.

use std::collections::HashSet;

use crate::element::class::Class;
use crate::element::port_code;
use crate::plan::{Plan, Port};

impl Plan {
    /// The names of the elements nearest to one of which `is` is true: behind output `port`, or
    /// before input `port`. None of those that are only reached through another one.
    pub(crate) fn nearest(
        &self,
        element: usize,
        port: usize,
        behind: bool,
        is: impl Fn(&Class) -> bool,
    ) -> Vec<String> {
        let mut ports = vec![Port { element, port }];
        let (mut seen, mut found) = (HashSet::new(), vec![]);
        while let Some(port) = ports.pop() {
            let others: Vec<Port> = match behind {
                true => self.beyond(port).collect(),
                false => self.before(port).collect(),
            };
            for at in others {
                if !seen.insert(at) {
                    continue;
                }
                let planned = &self.elements[at.element];
                if is(planned.kind) {
                    if !found.contains(&at.element) {
                        found.push(at.element);
                    }
                    continue;
                }
                let (inputs, outputs) = (planned.pull_inputs.len(), planned.pull_outputs.len());
                for other in 0..if behind { outputs } else { inputs } {
                    let (input, output) = if behind { (at.port, other) } else { (other, at.port) };
                    if port_code::joins(planned.kind.flow, input, inputs, output, outputs) {
                        ports.push(Port { element: at.element, port: other });
                    }
                }
            }
        }
        found.sort_unstable();
        found.into_iter().map(|element| self.elements[element].name.to_string()).collect()
    }
}
