//! Looking for elements through the graph, and at them: how full the queues behind
//! one are, say.

use std::collections::HashSet;

use crate::element::Refused;
use crate::element::class::{Class, Handler};
use crate::element::port_code;
use crate::element::well_known::HandlerName;
use crate::plan::Port;
use crate::run::cx::Cx;

impl Cx<'_> {
    /// Reads a handler of the copy that this lane has of an element: quick enough for
    /// every batch, since no other thread is asked. `None` where it has none, or the
    /// element is at work.
    pub fn read_here(&mut self, element: &str, handler: HandlerName) -> Option<String> {
        let index = self.find(element)?;
        self.lane.read_here(index, handler.as_str(), "").ok()
    }

    /// Reads a handler of another element.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn read_of(
        &mut self,
        element: &str,
        handler: HandlerName,
        parameter: &str,
    ) -> Result<String, Refused> {
        self.read(&format!("{element}.{handler}"), parameter)
    }

    /// Writes a handler of another element.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn write_of(&mut self, element: &str, handler: HandlerName, value: &str) -> Result<(), Refused> {
        self.write(&format!("{element}.{handler}"), value)
    }

    /// What is known of a handler of another element.
    ///
    /// # Errors
    /// When there is none.
    pub fn handler_of(&self, element: &str, handler: HandlerName) -> Result<Handler, Refused> {
        self.has_handler(&format!("{element}.{handler}"))
    }

    /// The names of the nearest elements of which `is` is true: behind output `port`, or
    /// before input `port`. None of those that are only reached through another one.
    pub fn nearest(&self, port: usize, behind: bool, is: impl Fn(&Class) -> bool) -> Vec<String> {
        let plan = &self.lane.shared.plan;
        let mut ports = vec![Port { element: self.me, port }];
        let (mut seen, mut found) = (HashSet::new(), vec![]);
        while let Some(port) = ports.pop() {
            let others: Vec<Port> = match behind {
                true => plan.beyond(port).collect(),
                false => plan.before(port).collect(),
            };
            for at in others {
                if !seen.insert(at) {
                    continue;
                }
                let planned = &plan.elements[at.element];
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
        found.into_iter().map(|element| plan.elements[element].name.to_string()).collect()
    }
}
