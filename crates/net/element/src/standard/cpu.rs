//! `CPUSwitch`, `CPUQueue`: a way, and a queue, for each thread.

use graph::class::{Handlers, positional, read};
use graph::element::kernel::Kernel;
use graph::well_known::{CAPACITY, LENGTH};
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;

use super::queue::{self, Queue};
use crate::kernels::each;

/// A way for each thread.
pub static SWITCH: Class = Class {
    name: "CPUSwitch",
    brief: "sends packets to the output of the thread that brings them",
    doc: "Packets of thread N go to output N, counted from the first one again where there are more threads \
          than outputs.",
    ports: "1/1-",
    processing: "h/h",
    example: "FromDevice(p) -> s :: CPUSwitch; s[0] -> Discard; s[1] -> Discard;",
    see: &["CPUQueue", "RoundRobinSwitch", "Pipeliner"],
    kernel: Kernel::Inside(each!(CpuSwitch)),
    make: |_, conf| conf.complete().map(|()| Each::boxed(CpuSwitch)),
    ..Class::BASE
};

/// A queue of all threads.
pub static QUEUE: Class = Class {
    name: "CPUQueue",
    brief: "stores packets first in, first out",
    doc: "A Queue of a smaller default capacity. Any threads may push and pull; a batch takes its lock once, \
          which is what Click's queue for each processor is to avoid for each packet.",
    arguments: &[positional("CAPACITY", "packets it holds; 128")],
    handlers: &Handlers::<Queue>(&[
        read(CAPACITY.as_str(), "packets it holds", Queue::capacity),
        read("drops", "packets dropped because it was full", Queue::drops),
        read(LENGTH.as_str(), "packets in it", Queue::length),
    ]),
    example: "FromDevice(p) -> CPUQueue -> ToDevice(q)",
    see: &["Queue", "Pipeliner", "CPUSwitch"],
    make: queue::make_for_threads,
    ..queue::SIMPLE
};

/// A `CPUSwitch` element; [`SWITCH`] says what it does.
#[derive(Debug, Clone)]
pub struct CpuSwitch;

impl PerPacket for CpuSwitch {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        Action::out(cx.lane() % cx.outputs().max(1))
    }

    fn replicate(&self) -> Option<CpuSwitch> {
        Some(CpuSwitch)
    }
}
