//! Ports on models in this process, and the work they are given.

use memory::{Batch, Dma, Packet, Pool};
use port::{Completion, Options, RxQueue, TxQueue};
use testbed::inprocess::Handle;

use crate::opened::{Given, Opened, close, open};
use crate::{CompletionName, DeviceName, Setting, Workload};
use crate::{Error, Result};

/// A pair of queues of a port.
struct Lane {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
}

/// Two ports, a pool and a batch.
pub struct Rig {
    /// Both ports' pairs of each number.
    lanes: Vec<[Lane; 2]>,
    ports: Vec<Opened>,
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
        let mut ports = [port(setting, &dma)?, port(setting, &dma)?];
        let handles = ports.iter().flat_map(|opened| opened.handles.clone()).collect();
        let mut lanes = Vec::with_capacity(setting.queues);
        for n in 0..setting.queues {
            let [a, b] = &mut ports;
            lanes.push([lane(a, n)?, lane(b, n)?]);
        }
        let pool = Pool::new(&dma, 4 * setting.ring * setting.queues + 2 * Batch::MAX)?;
        let (batch, frame) = (Batch::with_limit(setting.batch), setting.size.saturating_sub(4));
        Ok(Rig { lanes, ports: ports.into(), handles, pool, batch, workload: setting.workload, frame })
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

    /// The driver's part: one call for each pair of queues of each port. Not inlined, so that
    /// callgrind can tell it from the model's part by name.
    #[inline(never)]
    pub fn driver_calls(&mut self, done: &mut Done) {
        let Rig { lanes, pool, batch, workload, frame, .. } = self;
        for [a, b] in lanes {
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
}

impl Drop for Rig {
    fn drop(&mut self) {
        close(std::mem::take(&mut self.ports), std::mem::take(&mut self.lanes));
    }
}

/// A port on a device that gives and takes as the workload asks.
fn port(setting: &Setting, dma: &Dma) -> Result<Opened> {
    // A source without a rate waits for the card's own queues, which have no buffers where it hosts
    // virtual functions: those get frames faster than any takes them.
    let rate = match setting.device {
        DeviceName::Vf82599 | DeviceName::Xl710Vf => "100M",
        _ => "max",
    };
    let wire = match setting.workload {
        Workload::Tx => "sink".to_owned(),
        _ => format!("gen:size={},rate={rate},flows=64", setting.size),
    };
    let frames = vec![testbed::minimal::outline(setting.size.saturating_sub(4))];
    let completion = match setting.completion {
        CompletionName::Report => Completion::Report,
        CompletionName::Head => Completion::Head,
    };
    let (rx_ring, tx_ring, queues) = (setting.ring, setting.ring, setting.queues);
    let rings = Options { rx_ring, tx_ring, rx_queues: queues, tx_queues: queues, ..Options::default() };
    let options = Options { completion, link_wait_ms: 0, ..rings };
    open(setting.device, Given { wire, frames }, dma, options)
}

/// One of its pairs of queues.
fn lane(opened: &mut Opened, n: usize) -> Result<Lane> {
    match (opened.port.rx_queue(n), opened.port.tx_queue(n)) {
        (Some(rx), Some(tx)) => Ok(Lane { rx, tx }),
        _ => Err(Error::new("a port without queues")),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves packets on every kind of device; steps and calls are bounded.
    #[test]
    fn every_device_moves_packets_of_all_queues() {
        for (device, name, _) in DeviceName::ALL {
            for workload in [Workload::Rx, Workload::Tx, Workload::Fwd] {
                let setting = Setting {
                    device: *device,
                    workload,
                    batch: 16,
                    ring: 64,
                    queues: 2,
                    size: 64,
                    completion: CompletionName::Report,
                };
                let mut rig = Rig::new(&setting).unwrap_or_else(|error| panic!("{name}: {error}"));
                let mut done = Done::default();
                for _ in 0..1000 {
                    rig.step();
                    rig.driver_calls(&mut done);
                }
                let reports = || rig.handles.iter().map(Handle::report).collect::<Vec<_>>();
                assert!(done.packets >= 10_000, "{name}, {workload:?}: {done:?}, {:#?}", reports());
                let received: Vec<u64> =
                    rig.lanes.iter().flatten().map(|lane| lane.rx.stats().packets).collect();
                let sent: Vec<u64> = rig.lanes.iter().flatten().map(|lane| lane.tx.stats().packets).collect();
                assert!(workload == Workload::Tx || received.iter().all(|n| *n > 0), "{name}: {received:?}");
                assert!(workload == Workload::Rx || sent.iter().all(|n| *n > 0), "{name}: {sent:?}");
                let pool = rig.pool.capacity();
                assert!(rig.pool.available() < pool, "{name}: queues own buffers");
            }
        }
    }
}
