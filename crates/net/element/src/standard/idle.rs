//! `Idle`: never sends, drops what it gets.

use graph::signal::SignalKind;
use graph::{Class, Cx, Element, Next, Notice};
use memory::Batch;
use port::Reason;

pub static CLASS: Class = Class {
    name: "Idle",
    brief: "never sends a packet, drops those it gets",
    doc: "Has any number of inputs and outputs. Pushed packets are dropped; nothing can be pulled from it, \
          and it tells those who would.",
    ports: "-/-",
    processing: "a/a",
    flow: "x/y",
    drops: &[Reason::PushedIntoIdle],
    example: "Idle -> Discard",
    see: &["Discard", "Null"],
    make: |_, conf| conf.complete().map(|()| Box::new(Idle) as Box<dyn Element>),
    ..Class::BASE
};

/// An `Idle` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Idle;

impl Element for Idle {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        cx.drop_batch(0, batch);
        Next::Done
    }

    fn notice(&self, _: SignalKind, _: usize) -> Notice {
        Notice::Never
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Idle))
    }
}
