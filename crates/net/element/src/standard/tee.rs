//! `Tee`: every packet to every output.

use graph::class::positional;
use graph::element::kernel::Kernel;
use graph::fused::Single;
use graph::{Action, Class, ConfFault, Cx, Element, Next};
use memory::{Batch, Packet};
use port::Reason;

use crate::kernels::single;

pub static CLASS: Class = Class {
    name: "Tee",
    brief: "sends a copy of each packet to every output",
    doc: "Packets are copied, not shared: what is done to one copy is not seen in another.",
    ports: "1/1-",
    processing: "h/h",
    arguments: &[positional("N", "how many outputs there must be; as many as are connected")],
    drops: &[Reason::NoBuffers],
    example: "Tee(2)",
    see: &["PullTee", "PaintTee"],
    costs: "copies each packet once for each output but the last",
    kernel: Kernel::Inside(single!(Tee).emitting(|output, outputs| output + 1 == outputs)),
    make: |setup, conf| {
        let wanted = conf.positional("N")?.unwrap_or(setup.outputs);
        conf.complete()?;
        if wanted != setup.outputs {
            let outputs = setup.outputs;
            return Err(ConfFault::new(format!("{outputs} outputs implies {outputs} arms")));
        }
        Ok(Box::new(Tee))
    },
    ..Class::BASE
};

/// A `Tee` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Tee;

impl Tee {
    fn copy(cx: &mut Cx<'_>, output: usize, packet: &Packet) {
        match cx.copy(packet) {
            Some(copy) => cx.emit(output, copy),
            None => cx.count_drops(0, 1),
        }
    }
}

impl Single for Tee {
    fn single(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let last = cx.outputs() - 1;
        (0..last).for_each(|output| Tee::copy(cx, output, packet));
        Action::out(last)
    }
}

impl Element for Tee {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let last = cx.outputs() - 1;
        for output in 0..last {
            batch.iter().for_each(|packet| Tee::copy(cx, output, packet));
        }
        Next::Push(last)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Tee))
    }
}
