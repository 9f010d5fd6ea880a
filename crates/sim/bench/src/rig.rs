//! Ports on models in this process, and the work they are given.

use driver::ixgbe::{self, FixedRing};
use memory::{Batch, Dma, Packet, Pool};
use port::{Completion, Options, RxQueue, TxQueue};
use testbed::inprocess::{self, Handle};

use crate::opened::{Given, Opened, close, open};
use crate::two_cores::no_thread;
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
    /// Instead of these, with fixed buffers: from each port to the other.
    fixed: Vec<FixedRing<1>>,
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

impl Done {
    #[inline(always)]
    fn add(&mut self, packets: usize) {
        self.packets += packets as u64;
        self.calls += 1;
        self.empty += u64::from(packets == 0);
    }
}

impl Rig {
    /// Opens both ports.
    pub fn new(setting: &Setting) -> Result<Rig> {
        let dma = Dma::new(memory::Options::default());
        let mut ports = [port(setting, &dma)?, port(setting, &dma)?];
        let handles = ports.iter().flat_map(|opened| opened.handles.clone()).collect();
        let mut lanes = Vec::with_capacity(setting.queues);
        let [a, b] = &mut ports;
        let fixed = match setting.workload.is_fixed() {
            true => join(a, b)?,
            false => Vec::new(),
        };
        for n in 0..if fixed.is_empty() { setting.queues } else { 0 } {
            lanes.push([lane(a, n)?, lane(b, n)?]);
        }
        let pool = Pool::new(&dma, 4 * setting.ring * setting.queues + 2 * Batch::MAX)?;
        let (batch, frame) = (Batch::with_limit(setting.batch), setting.size.saturating_sub(4));
        Ok(Rig { lanes, fixed, ports: ports.into(), handles, pool, batch, workload: setting.workload, frame })
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
        let Rig { lanes, fixed, pool, batch, workload, frame, .. } = self;
        for ring in fixed {
            let limit = batch.room();
            let moved = match workload {
                Workload::FixedTouch => ring.forward(limit, touch_fixed),
                _ => ring.forward(limit, |_, len| [len]),
            };
            done.add(moved);
        }
        for [a, b] in lanes {
            let moved = match workload {
                Workload::Rx => [receive(a, pool, batch), receive(b, pool, batch)],
                Workload::Tx => [send(a, pool, batch, *frame), send(b, pool, batch, *frame)],
                // With fixed buffers there are no lanes.
                Workload::Fwd | Workload::Fixed | Workload::FixedTouch => {
                    both_ways(a, b, pool, batch, |_| ())
                }
                Workload::Touch => both_ways(a, b, pool, batch, touch),
                Workload::Macswap => both_ways(a, b, pool, batch, swap_addresses),
            };
            moved.into_iter().for_each(|packets| done.add(packets));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        close(
            std::mem::take(&mut self.ports),
            (std::mem::take(&mut self.lanes), std::mem::take(&mut self.fixed)),
        );
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
    let fixed_buffers = setting.workload.is_fixed();
    let options = Options { completion, fixed_buffers, link_wait_ms: 0, ..rings };
    open(setting.device, Given { wire, frames }, dma, options)
}

/// From each port to the other in fixed buffers.
fn join(a: &mut Opened, b: &mut Opened) -> Result<Vec<FixedRing<1>>> {
    let handles: Vec<Handle> = [&*a, b].iter().flat_map(|opened| opened.handles.clone()).collect();
    let both = || -> port::Result<_> {
        let there = ixgbe::join(&mut *a.port, [&mut *b.port])?;
        Ok(vec![there, ixgbe::join(&mut *b.port, [&mut *a.port])?])
    };
    Ok(inprocess::while_stepping(&handles, both).map_err(no_thread)??)
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
fn touch_fixed(frame: &mut ixgbe::Frame, len: usize) -> [usize; 1] {
    frame[1] = frame[1].wrapping_add(1);
    [len]
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

    #[test]
    fn fixed_buffers_move_packets_where_a_driver_has_them() {
        let setting = |device, workload, queues| {
            let (batch, ring, size) = (16, 64, 64);
            Setting { device, workload, batch, ring, queues, size, completion: CompletionName::Report }
        };
        for device in [DeviceName::Minimal, DeviceName::Full] {
            for workload in [Workload::Fixed, Workload::FixedTouch] {
                let mut rig =
                    Rig::new(&setting(device, workload, 1)).unwrap_or_else(|error| panic!("{error}"));
                let mut done = Done::default();
                // Until both links are up, the port without one holds up the other.
                let begin = std::time::Instant::now();
                while done.packets < 10_000 && begin.elapsed().as_secs() < 60 {
                    rig.step();
                    rig.driver_calls(&mut done);
                }
                let reports = || rig.handles.iter().map(Handle::report).collect::<Vec<_>>();
                assert!(done.packets >= 10_000, "{device:?}, {workload:?}: {done:?}, {:#?}", reports());
                let sent = rig.fixed.iter_mut().map(|ring| ring.queues().1[0].stats().packets);
                assert_eq!(sent.sum::<u64>(), done.packets);
                assert_eq!(rig.pool.available(), rig.pool.capacity(), "none is on their way");
            }
        }
        for (device, queues) in [(DeviceName::Xl710, 1), (DeviceName::Vf82599, 1), (DeviceName::Full, 2)] {
            assert!(Rig::new(&setting(device, Workload::Fixed, queues)).is_err(), "{device:?}");
        }
    }

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
