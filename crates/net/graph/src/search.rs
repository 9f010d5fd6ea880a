//! Looking for signals through the graph.

use std::collections::HashSet;

use crate::flow;
use crate::lane::{Lane, Port};
use crate::signal::{Kind, Notice, Signals};

/// What tells whether there are packets behind an input, or room behind an output.
pub(crate) fn signals(lane: &Lane, port: Port, kind: Kind) -> Signals {
    let mut search = Search { lane, kind, seen: HashSet::new(), found: Signals::default() };
    search.beyond(port);
    search.found
}

struct Search<'a> {
    lane: &'a Lane,
    kind: Kind,
    seen: HashSet<Port>,
    found: Signals,
}

impl Search<'_> {
    /// Asks all that stand at the other end of a port.
    fn beyond(&mut self, port: Port) {
        let mut ports = vec![port];
        while let Some(port) = ports.pop() {
            let plan = &self.lane.shared.plan;
            let (packets, others): (_, Vec<Port>) = match self.kind {
                Kind::Packets => (true, plan.before(port).collect()),
                Kind::Room => (false, plan.beyond(port).collect()),
            };
            for other in others {
                if self.seen.insert(other) {
                    self.ask(other, packets, &mut ports);
                }
            }
        }
    }

    fn ask(&mut self, at: Port, packets: bool, ports: &mut Vec<Port>) {
        let planned = &self.lane.shared.plan.elements[at.element];
        // One that is at work is the one that asks, or one that waits for it.
        let element = self.lane.slots[at.element].element.as_ref();
        let notice = element.map_or(Notice::Always, |e| e.notice(self.kind, at.port));
        let goes_on = matches!(notice, Notice::Continue | Notice::Both(_));
        self.found.add(notice);
        if !goes_on {
            return;
        }
        let (inputs, outputs) = (planned.pull_inputs.len(), planned.pull_outputs.len());
        let mut ends = true;
        for port in 0..if packets { inputs } else { outputs } {
            let (input, output) = if packets { (port, at.port) } else { (at.port, port) };
            let pulled = if packets { planned.pull_inputs[port] } else { !planned.pull_outputs[port] };
            if pulled && flow::joins(planned.kind.flow, input, inputs, output, outputs) {
                ports.push(Port { element: at.element, port });
                ends = false;
            }
        }
        // Here packets begin, or end, without a word: always worth a try.
        self.found.always |= ends;
    }
}
