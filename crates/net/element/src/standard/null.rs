//! `Null`, `PushNull`, `PullNull`: packets go through unchanged.

use graph::element::kernel::Kernel;
use graph::fused::Single;
use graph::{Action, Class, Cx, Element, Next};
use memory::{Batch, Packet};

use crate::kernels::single;

/// The agnostic one.
pub static CLASS: Class = Class {
    name: "Null",
    brief: "passes packets on unchanged",
    doc: "Does nothing to packets: a place to connect to, or to measure what an element costs.",
    example: "Null",
    see: &["PushNull", "PullNull"],
    kernel: Kernel::Inside(single!(Null)),
    make: |_, conf| conf.complete().map(|()| Box::new(Null) as Box<dyn Element>),
    ..Class::BASE
};

/// The one that is pushed.
pub static PUSH_NULL: Class = Class {
    name: "PushNull",
    brief: "passes pushed packets on unchanged",
    processing: "h/h",
    see: &["Null", "PullNull"],
    example: "PushNull",
    ..CLASS
};

/// The one that is pulled.
pub static PULL_NULL: Class = Class {
    name: "PullNull",
    brief: "passes pulled packets on unchanged",
    processing: "l/l",
    see: &["Null", "PushNull"],
    example: "PullNull",
    kernel: Kernel::Unwritten,
    ..CLASS
};

/// A `Null`, `PushNull` or `PullNull` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Null;

impl Element for Null {
    fn push(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Batch) -> Next {
        Next::Push(0)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        cx.pull(0, batch);
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Null))
    }
}

impl Single for Null {
    #[inline(always)]
    fn single(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        Action::ON
    }
}
