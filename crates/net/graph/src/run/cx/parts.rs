//! Batches whose packets go out at several outputs.

use memory::{Batch, Packet};

use crate::run::cx::Cx;
use crate::run::output_batches::OutputBatches;

impl Cx<'_> {
    /// Sends packets of a batch out where `output` says by their place. Those that go to `stays`
    /// stay in the batch, those of which it says nothing are given to `other`.
    #[inline(always)]
    pub fn emit_parts(
        &mut self,
        batch: &mut Batch,
        stays: usize,
        output: impl Fn(usize) -> Option<usize>,
        mut other: impl FnMut(&mut Cx<'_>, Packet),
    ) {
        let outputs = self.outputs();
        let outs = self.lane.slots[self.me].emitted.take().unwrap_or_default();
        let sort = |_: &mut (&mut Cx<'_>, Box<OutputBatches>), place: usize, _: &mut Packet| {
            let to = output(place);
            (to != Some(stays)).then_some(to)
        };
        let mut parts = (&mut *self, outs);
        batch.split(&mut parts, sort, |(cx, outs), to, packet| match to {
            Some(to) if to < outputs => outs.push(to, packet),
            Some(_) => cx.drop(0, packet),
            None => other(cx, packet),
        });
        let (_, outs) = parts;
        if let Some(mut late) = self.lane.slots[self.me].emitted.replace(outs) {
            self.emit_late(&mut late);
        }
    }

    /// Sends on what was sent while packets were sorted.
    #[cold]
    fn emit_late(&mut self, late: &mut OutputBatches) {
        while let Some((output, mut batch)) = late.next() {
            batch.drain().for_each(|packet| self.emit(output, packet));
        }
    }
}
