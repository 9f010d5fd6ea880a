//! How a ring of fixed buffers comes and goes: ports' queues are started with its memory, and
//! it has them from then on.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bus::order;
use memory::{DATA_ROOM, Dma, Region};
use port::{Error, Reason, RxStats, TxStats};

use super::{Buffer, FixedChip, FixedRing, FixedRx, FixedTx, Frame, WHOLE};
use crate::intel::chip::{Chip, Device, Queues};
use crate::intel::layout::RxLayout;
use crate::intel::{Port, TxQueue};
use crate::ring::DescriptorRing;

/// Bytes from one buffer to the next: an odd number of cache lines, so that the first lines of
/// neighbours are not all in the same sets of the cache.
const STRIDE: usize = DATA_ROOM + 64;
/// Buffers in a piece of memory, which has to be contiguous for devices (up to 2 MiB are).
const PIECE: usize = 64;
/// A report is asked for this often at most, as in TinyNF: the tail of the receive ring is
/// written as often.
const REPORT_EVERY: u32 = 64;

/// A queue's chip once a fixed ring has the queue: there is nothing left to take back.
struct Taken(Arc<dyn Queues>);

impl Queues for Taken {
    fn disable_rx(&self, _queue: usize) -> bool {
        true
    }

    fn disable_tx(&self, _queue: usize) -> bool {
        true
    }

    fn device(&self) -> &Device {
        self.0.device()
    }
}

/// Takes what stops a queue out of it: dropping it does nothing to the device from then on.
fn take_owner(owner: &mut Arc<dyn Queues>) -> Arc<dyn Queues> {
    let taken = Arc::new(Taken(owner.clone()));
    mem::replace(owner, taken)
}

/// Whether a port may give a queue for fixed buffers, which it has once.
fn given<C: Chip, Q>(port: &Port<C>, queue: Option<Q>) -> port::Result<Q> {
    let refused = |what: &str, fix| Error::setup(&port.chip.name, what.to_owned(), fix);
    queue.ok_or_else(|| refused("another ring has its queue", "open the port again, or another one"))
}

/// Joins the queues of ports.
pub(crate) fn join<C, const N: usize>(from: &mut Port<C>, to: Vec<&mut Port<C>>) -> port::Result<FixedRing<N>>
where
    C: FixedChip<Rx: RxLayout<Descriptor = [AtomicU64; 2]>>,
{
    const { assert!(N > 0, "a ring has an output") };
    check(from, &to)?;
    // What queues are started with goes after them, if one does not start.
    let (dma, size) = (from.chip.dma.clone(), from.options.rx_ring);
    let mut rings = Vec::with_capacity(N);
    for _ in 0..N {
        rings.push(DescriptorRing::new(&dma, size)?);
    }
    let (memory, buffers) = buffers(&dma, &rings)?;
    let rx = from.rx.first_mut().and_then(Option::take);
    let mut rx = given(from, rx)?;
    let mut outputs = Vec::with_capacity(N);
    for (port, ring) in to.into_iter().zip(&mut rings) {
        let queue = port.tx.first_mut().and_then(Option::take);
        let mut queue = given(port, queue)?;
        port.chip.order_heads(queue.index);
        mem::swap(&mut queue.ring, ring);
        let started = port.chip.enable_tx(&queue);
        mem::swap(&mut queue.ring, ring);
        started?;
        outputs.push((&*port.chip, queue));
    }
    mem::swap(&mut rx.ring, &mut rings[0]);
    let started = from.chip.enable_rx(&rx, &from.options).and_then(|()| from.chip.set_receiving(true));
    mem::swap(&mut rx.ring, &mut rings[0]);
    started?;
    let mut tx = Vec::with_capacity(N);
    for (chip, queue) in outputs {
        tx.push(output(chip, queue, size as u32 - 1)?);
    }
    let whole = || Error::setup(&from.chip.name, "too few outputs".to_owned(), "name as many as there are");
    let tx = tx.try_into().map_err(|_| whole())?;
    let rings: [DescriptorRing<_>; N] = rings.try_into().map_err(|_| whole())?;
    let (index, tail) = (rx.index, from.chip.bar.register(from.chip.info.rdt.at(rx.index)));
    let (stats, losses) = (RxStats::default(), from.chip.add_losses(Reason::RxBadDescriptor));
    let rx = FixedRx { owner: take_owner(&mut rx.owner), index, tail, stats, losses };
    let given = size as u32 - 1;
    let period = REPORT_EVERY.min(size as u32 / 4);
    let (next, backlog, dropped) = (0, false, 0);
    let ring =
        FixedRing { rings, buffers, next, given, whole: WHOLE, period, backlog, dropped, rx, tx, memory };
    order::before_doorbell();
    ring.rx.tail.write(given);
    Ok(ring)
}

/// Whether ports can be joined.
fn check<C: Chip>(from: &Port<C>, to: &[&mut Port<C>]) -> port::Result<()> {
    for port in to.iter().map(|port| &**port).chain([from]) {
        let refused = |what: &str, fix| Err(Error::setup(&port.chip.name, what.to_owned(), fix));
        if !port.options.fixed_buffers {
            return refused("it was opened without fixed buffers", "set Options::fixed_buffers");
        }
        if !port.chip.dma.is_same(&from.chip.dma) {
            return refused("its memory is another than the other ports'", "open all with one Dma");
        }
    }
    Ok(())
}

/// Memory for a frame in each slot, whose address all rings have from here on.
fn buffers(
    dma: &Dma,
    rings: &[DescriptorRing<[AtomicU64; 2]>],
) -> port::Result<(Vec<Region>, Box<[Buffer]>)> {
    let size = rings.first().map_or(0, DescriptorRing::size);
    let (mut memory, mut buffers) = (Vec::new(), Vec::new());
    for slot in 0..size {
        let place = slot as usize % PIECE * STRIDE;
        if place == 0 {
            memory.push(dma.alloc(PIECE * STRIDE)?);
        }
        let Some(piece) = memory.last() else { continue };
        // SAFETY: a piece has room for as many.
        buffers.push(Buffer(unsafe { piece.ptr().add(place) }.cast::<Frame>()));
        for ring in rings {
            ring.at(slot)[0].store(piece.iova(place), Relaxed);
        }
    }
    Ok((memory, buffers.into()))
}

/// The share that an output's port has in a ring of so many slots, less one. The queue was
/// started.
fn output<C: FixedChip>(chip: &C, mut queue: TxQueue<C::Tx>, mask: u32) -> port::Result<FixedTx> {
    let index = queue.index;
    let missing = || Error::setup(&chip.name, "it writes no heads".to_owned(), "set Completion::Head");
    Ok(FixedTx {
        written: queue.head.take().ok_or_else(missing)?,
        tail: chip.bar.register(chip.info.tdt.at(index)),
        head: chip.tx_head(index),
        unsendable: chip.add_losses(Reason::TxUnsendable),
        owner: take_owner(&mut queue.owner),
        stats: TxStats::default(),
        index,
        done: 0,
        posted: 0,
        mask,
    })
}

impl<const N: usize> Drop for FixedRing<N> {
    fn drop(&mut self) {
        tracing::debug!("a ring of fixed buffers, of {N} outputs: taken back from the devices");
        // All must be quiesced before the memory goes: the receiver writes into what others send.
        let mut running = Vec::new();
        if !self.rx.owner.disable_rx(self.rx.index) {
            running.push(&self.rx.owner);
        }
        running.extend(self.tx.iter().filter(|tx| !tx.owner.disable_tx(tx.index)).map(|tx| &tx.owner));
        if running.is_empty() {
            return;
        }
        let heads: Vec<_> = self.tx.iter().map(|tx| tx.written.memory()).collect();
        let rings: Vec<_> = self.rings.iter_mut().map(DescriptorRing::take_memory).collect();
        let all = Arc::new(Mutex::new((rings, heads, mem::take(&mut self.memory))));
        running.into_iter().for_each(|owner| owner.device().retire(Box::new(all.clone())));
    }
}
