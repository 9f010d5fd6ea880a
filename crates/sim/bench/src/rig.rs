//! Ports on models in this process, and the work they are given.

use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Packet, Pool};
use port::{Completion, Options, Port, RxQueue, TxQueue};
use testbed::inprocess::{self, Handle};

use crate::{CompletionName, DeviceName, Setting, Workload};
use crate::{Error, Result};

/// One port's queues, and the step of its model.
struct Lane {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    _port: Ixgbe,
}

/// Two ports, a pool and a batch.
pub struct Rig {
    lanes: [Lane; 2],
    handles: Vec<Handle>,
    pool: Pool,
    batch: Batch,
    workload: Workload,
    frame: usize,
}

/// What some calls did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Packets that were moved.
    pub packets: u64,
    /// Calls of the driver.
    pub calls: u64,
    /// Of these, calls that found nothing.
    pub empty: u64,
}

impl Rig {
    /// Opens both ports.
    pub fn new(setting: &Setting) -> Result<Rig> {
        let dma = Dma::new(memory::Options::default());
        let mut handles = Vec::new();
        let mut open = || -> Result<Lane> {
            let (pci, handle) = device(setting)?;
            let completion = match setting.completion {
                CompletionName::Report => Completion::Report,
                CompletionName::Head => Completion::Head,
            };
            let (rx_ring, tx_ring) = (setting.ring, setting.ring);
            let options = Options { rx_ring, tx_ring, completion, link_wait_ms: 0, ..Options::default() };
            let open = || Ixgbe::open(pci, &dma, options);
            let opened = inprocess::while_stepping(std::slice::from_ref(&handle), open);
            let mut port = opened.map_err(crate::two_cores::no_thread)??;
            handles.push(handle);
            let queues = (port.rx_queue(0), port.tx_queue(0));
            let (Some(rx), Some(tx)) = queues else { return Err(Error::new("a port without queues")) };
            Ok(Lane { rx, tx, _port: port })
        };
        let lanes = [open()?, open()?];
        let pool = Pool::new(&dma, 4 * setting.ring + 2 * Batch::MAX)?;
        let (batch, frame) = (Batch::with_limit(setting.batch), setting.size.saturating_sub(4));
        Ok(Rig { lanes, handles, pool, batch, workload: setting.workload, frame })
    }

    /// The models, to be stepped elsewhere.
    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// Steps both models.
    pub fn step(&self) {
        for handle in &self.handles {
            handle.step_now();
        }
    }

    /// The driver's part: one call for each port. Not inlined, so that callgrind
    /// can tell it from the model's part by name.
    #[inline(never)]
    pub fn driver_calls(&mut self, done: &mut Done) {
        let Rig { lanes: [a, b], pool, batch, workload, frame, .. } = self;
        let moved = match workload {
            Workload::Rx => [receive(a, pool, batch), receive(b, pool, batch)],
            Workload::Tx => [send(a, pool, batch, *frame), send(b, pool, batch, *frame)],
            Workload::Fwd => both_ways(a, b, pool, batch, |_| ()),
            Workload::Touch => both_ways(a, b, pool, batch, touch),
            Workload::Macswap => both_ways(a, b, pool, batch, swap_addresses),
        };
        for n in moved {
            done.packets += n as u64;
            done.calls += 1;
            done.empty += u64::from(n == 0);
        }
    }
}

/// A device that gives and takes as the workload asks.
fn device(setting: &Setting) -> Result<(bus::Pci, Handle)> {
    let wire = match setting.workload {
        Workload::Tx => "sink".to_owned(),
        _ => format!("gen:size={},rate=max,flows=64", setting.size),
    };
    match setting.device {
        DeviceName::Full => crate::device::model(&wire),
        DeviceName::Minimal => {
            crate::device::minimal(vec![testbed::minimal::outline(setting.size.saturating_sub(4))])
        }
    }
}

#[inline(always)]
fn receive(lane: &mut Lane, pool: &mut Pool, batch: &mut Batch) -> usize {
    let received = lane.rx.recv(pool, batch);
    pool.free_batch(batch);
    received
}

#[inline(always)]
fn send(lane: &mut Lane, pool: &mut Pool, batch: &mut Batch, frame: usize) -> usize {
    let room = batch.room();
    pool.alloc_batch(batch, room);
    for packet in batch.iter_mut() {
        // The bytes are whatever the buffer held: what a frame says is not the
        // driver's business.
        let _ = packet.set_len(frame);
    }
    let sent = lane.tx.send(pool, batch);
    pool.free_batch(batch);
    sent
}

#[inline(always)]
fn both_ways(
    a: &mut Lane,
    b: &mut Lane,
    pool: &mut Pool,
    batch: &mut Batch,
    work: impl Fn(&mut Packet),
) -> [usize; 2] {
    [forward(a, b, pool, batch, &work), forward(b, a, pool, batch, &work)]
}

#[inline(always)]
fn forward(
    from: &mut Lane,
    to: &mut Lane,
    pool: &mut Pool,
    batch: &mut Batch,
    work: &impl Fn(&mut Packet),
) -> usize {
    let received = from.rx.recv(pool, batch);
    if received == 0 {
        return 0;
    }
    batch.iter_mut().for_each(work);
    let sent = to.tx.send(pool, batch);
    pool.free_batch(batch);
    sent
}

#[inline(always)]
fn touch(packet: &mut Packet) {
    if let Some(byte) = packet.get_mut(1) {
        *byte = byte.wrapping_add(1);
    }
}

#[inline(always)]
fn swap_addresses(packet: &mut Packet) {
    if let Some(mut addresses) = wire::ethernet::Addresses::of_mut(packet) {
        addresses.swap();
    }
}
