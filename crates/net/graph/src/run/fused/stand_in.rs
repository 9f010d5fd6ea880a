//! What stands in the slot of an element that is part of a program: all that is meant
//! for the element is handed to it there.

use std::any::Any;

use memory::Batch;

use super::Fused;
use crate::element::{Element, Next, Ran};
use crate::run::cx::Cx;
use crate::run::task::TaskId;
use crate::run::timer::TimerId;
use crate::run::watch::WatchId;

/// A stand-in for an element.
pub(crate) struct StandIn {
    /// The program's slot.
    pub(super) hidden: usize,
    /// The element's place in the program.
    pub(super) place: usize,
}

impl StandIn {
    /// The program's slot.
    pub(crate) fn hidden(&self) -> usize {
        self.hidden
    }

    /// Lends the element out; `None` while its program is at work.
    pub(crate) fn lend<R>(
        &self,
        cx: &mut Cx<'_>,
        work: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let lent = |element: &mut dyn Element, cx: &mut Cx<'_>| {
            let fused = (element as &mut dyn Any).downcast_mut::<Fused>()?;
            let (member, number) = fused.member(self.place)?;
            Some(work(member, &mut cx.at(number)))
        };
        cx.lane.with(self.hidden, lent).flatten()
    }
}

impl Element for StandIn {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.lend(cx, |element, cx| element.init(cx)).unwrap_or(Ok(()))
    }

    /// Packets from where the program has no entry go through the element alone.
    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        self.lend(cx, |element, cx| element.push(cx, input, batch)).unwrap_or(Next::Done)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, output: usize, batch: &mut Batch) {
        self.lend(cx, |element, cx| element.pull(cx, output, batch));
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        self.lend(cx, |element, cx| element.run(cx, task, batch)).unwrap_or(Ran::IDLE)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.lend(cx, |element, cx| element.fire(cx, timer));
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        self.lend(cx, |element, cx| element.ready(cx, watch));
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.lend(cx, |element, cx| element.begin(cx));
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.lend(cx, |element, cx| element.cleanup(cx));
    }
}
