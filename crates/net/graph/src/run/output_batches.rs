//! What an element emitted, by output, until it is carried on.

use memory::{Batch, Packet};

/// Batches for the outputs of one element. They are kept when empty: after the first
/// packets nothing is allocated.
#[derive(Debug, Default)]
pub struct OutputBatches {
    /// By output; made when first used.
    ports: Vec<Option<Box<Batch>>>,
    /// Outputs with packets, in the order in which they got their first, with full
    /// batches that went before.
    order: Vec<usize>,
    full: Vec<(usize, Box<Batch>)>,
}

impl OutputBatches {
    /// Whether nothing waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Adds a packet.
    #[inline(always)]
    pub fn push(&mut self, output: usize, packet: Packet) {
        match self.ports.get_mut(output) {
            Some(Some(batch)) if !batch.is_empty() => match batch.push(packet) {
                None => {}
                Some(packet) => self.push_next(output, packet),
            },
            _ => self.push_first(output, packet),
        }
    }

    /// Adds the first packet of an output.
    #[inline(never)]
    fn push_first(&mut self, output: usize, packet: Packet) {
        if output >= self.ports.len() {
            self.ports.resize_with(output + 1, || None);
        }
        let _none = self.ports[output].get_or_insert_with(fresh).push(packet); // into an empty batch
        self.order.push(output);
    }

    /// Adds a packet behind a full batch.
    #[cold]
    fn push_next(&mut self, output: usize, packet: Packet) {
        if let Some(full) = self.ports[output].take() {
            self.full.push((output, full));
        }
        let _none = self.ports[output].insert(fresh()).push(packet);
    }

    /// Takes the packets of the output that got its first one first.
    #[inline]
    pub fn next(&mut self) -> Option<(usize, Box<Batch>)> {
        let output = *self.order.first()?;
        if let Some(at) = self.full.iter().position(|(o, _)| *o == output) {
            return Some(self.full.remove(at));
        }
        self.order.remove(0);
        Some((output, self.ports[output].take()?))
    }

    /// Keeps an emptied batch for later.
    #[inline]
    pub fn give_back(&mut self, output: usize, batch: Box<Batch>) {
        if batch.is_empty() {
            self.ports[output].get_or_insert(batch);
        }
    }

    /// Moves the packets of an output to the end of `to`, as many as fit; the rest
    /// stays for the next time.
    pub fn take(&mut self, output: usize, to: &mut Batch) {
        while let Some(at) = self.full.iter().position(|(o, _)| *o == output) {
            to.take_from(&mut self.full[at].1, Batch::MAX);
            if !self.full[at].1.is_empty() {
                return;
            }
            self.full.remove(at);
        }
        if let Some(Some(batch)) = self.ports.get_mut(output) {
            to.take_from(batch, Batch::MAX);
            if batch.is_empty() {
                self.order.retain(|o| *o != output);
            }
        }
    }
}

fn fresh() -> Box<Batch> {
    Box::new(Batch::with_limit(Batch::MAX))
}
