//! Receive queues and ports of one thread: minimal 82599s that step between the driver's
//! calls, which alone are timed.

use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Pool};
use port::{Options, Port, RxQueue, TxQueue};
use testbed::inprocess::{self, Handle};

use super::{Axis, Point, Seen, Setup};
use crate::{Error, Result};

/// Descriptors in each ring.
const RING: usize = 512;
/// Bytes of a frame, without CRC.
const LENGTH: usize = 60;
/// Packets that a device gives to a queue in one step.
const STEP: usize = 64;

/// A receive queue, and where its packets go.
struct QueuePath {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
}

/// The ports of a thread.
struct Rig {
    ways: Vec<QueuePath>,
    handles: Vec<Handle>,
    pool: Pool,
    batch: Batch,
    _ports: Vec<Ixgbe>,
}

/// Forwards what each queue receives: of queues to the transmit queue of the same number, of
/// ports to the next port.
pub(super) fn measure(point: &Point, setup: &Setup) -> Result<Seen> {
    let (ports, queues) = match point.axis {
        Axis::Queues => (1, point.x as usize),
        _ => (point.x as usize, 1),
    };
    let mut rig = Rig::new(ports, queues, setup.batch)?;
    rig.window(setup.packets / 4)?;
    let cycles = (0..setup.windows).map(|_| rig.window(setup.packets)).collect::<Result<_>>()?;
    Ok(Seen { cycles, windows: setup.windows, ..Seen::default() })
}

impl Rig {
    fn new(ports: usize, queues: usize, batch: usize) -> Result<Rig> {
        let dma = Dma::new(memory::Options::default());
        let (mut opened, mut handles) = (vec![], vec![]);
        for _ in 0..ports {
            let (pci, handle) = crate::device::minimal(vec![testbed::minimal::outline(LENGTH)])?;
            let options = Options {
                rx_ring: RING,
                tx_ring: RING,
                rx_queues: queues,
                tx_queues: queues,
                link_wait_ms: 0,
                ..Options::default()
            };
            let open = || Ixgbe::open(pci, &dma, options);
            let port = inprocess::while_stepping(std::slice::from_ref(&handle), open);
            opened.push(port.map_err(crate::two_cores::no_thread)??);
            handles.push(handle);
        }
        let without = || Error::new("a port without queues");
        let (mut rx, mut tx) = (vec![], vec![]);
        for port in &mut opened {
            for queue in 0..queues {
                rx.push(port.rx_queue(queue).ok_or_else(without)?);
                tx.push(port.tx_queue(queue).ok_or_else(without)?);
            }
        }
        tx.rotate_left(if ports > 1 { queues } else { 0 });
        let ways = rx.into_iter().zip(tx).map(|(rx, tx)| QueuePath { rx, tx }).collect();
        let pool = Pool::new(&dma, 2 * ports * queues * RING + 2 * Batch::MAX)?;
        Ok(Rig { ways, handles, pool, batch: Batch::with_limit(batch), _ports: opened })
    }

    /// TSC cycles for each packet.
    fn window(&mut self, packets: u64) -> Result<f64> {
        let calls = (STEP / self.batch.room()).clamp(1, STEP);
        let (mut ticks, mut done, mut idle) = (0, 0, 0);
        while done < packets {
            self.handles.iter().for_each(|handle| {
                handle.step_now();
            });
            let start = bus::tsc::now();
            let moved: u64 = (0..calls).map(|_| self.turn()).sum();
            ticks += bus::tsc::now() - start;
            done += moved;
            idle = if moved == 0 { idle + 1 } else { 0 };
            if idle > 1_000_000 {
                return Err(Error::new("the devices move no packets: nothing can be measured"));
            }
        }
        Ok(ticks as f64 / done.max(1) as f64)
    }

    /// One call for each queue.
    fn turn(&mut self) -> u64 {
        let Rig { ways, pool, batch, .. } = self;
        let mut moved = 0;
        for way in ways {
            let received = way.rx.recv(pool, batch);
            if received > 0 {
                way.tx.send(pool, batch);
                pool.free_batch(batch);
            }
            moved += received as u64;
        }
        moved
    }
}
