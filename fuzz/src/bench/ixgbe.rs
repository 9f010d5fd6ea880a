//! The driver of the 82599 on a hostile device.
//!
//! Opening takes milliseconds by the datasheet's leave, so a port is opened with
//! as many queues as there are, and each run uses up one pair of them.

use std::sync::Arc;

use bus::Pci;
use driver::ixgbe::{Ixgbe, RxQueue, TxQueue};
use memory::{Backing, Dma, Pool};
use port::{Completion, Options};
use regs::ixgbe::descriptor::{rx_high, tx};
use regs::ixgbe::{RDBAH, RDBAL, RDT, TDBAH, TDBAL, TDT, TDWBAH, TDWBAL};

use super::{Act, JUMBO, Layout, PACKETS, Pair, RING, Run, most_segments};
use crate::mutator::Mutator;

const QUEUES: usize = 128;

/// Its descriptors (7.1.6, 7.2.3).
struct Descriptors;

impl Layout for Descriptors {
    const RX_DONE: u64 = rx_high::DD;
    const RX_END: u64 = rx_high::EOP;
    const RX_ERROR: u64 = rx_high::RXE;
    const RX_LENGTH_SHIFT: u32 = rx_high::LENGTH_SHIFT;
    const TX_LAST: u64 = tx::EOP | tx::RS;

    fn sent(high: u64) -> u64 {
        high | tx::DD
    }

    fn bytes(high: u64) -> Option<u64> {
        assert_ne!(high & tx::DEXT, 0, "a legacy descriptor: {high:#x}");
        (high & tx::DTYP_MASK != tx::DTYP_CONTEXT).then_some(high & tx::LENGTH_MASK)
    }
}

/// An open port, its pools, and the queues no run has used yet.
pub struct Bench {
    device: Arc<Mutator>,
    _port: Ixgbe,
    rx: Vec<RxQueue>,
    tx: Vec<TxQueue>,
    pools: [Pool; 2],
    jumbo: bool,
}

impl Bench {
    /// Opens a port: with frames of several buffers, with head write-back.
    pub fn open(jumbo: bool, head: bool) -> Bench {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let device = Arc::new(Mutator::default());
        let options = Options {
            rx_queues: QUEUES,
            tx_queues: QUEUES,
            rx_ring: RING as usize,
            tx_ring: RING as usize,
            max_frame: if jumbo { JUMBO } else { 1514 },
            completion: if head { Completion::Head } else { Completion::Report },
            ..Options::default()
        };
        let opened = Ixgbe::open(Pci::new(device.clone()), &dma, options);
        let (port, rx, tx) = opened.unwrap_or_else(|error| panic!("{error}")).split();
        let pool = || Pool::new(&dma, PACKETS).unwrap_or_else(|error| panic!("{error}"));
        Bench { device, _port: port, rx, tx, pools: [pool(), pool()], jumbo }
    }

    /// Whether there are queues for one more run.
    pub fn is_fresh(&self) -> bool {
        !self.rx.is_empty() && !self.tx.is_empty()
    }

    /// One run, on queues of its own. Every buffer is back in its pool after it.
    pub fn run(&mut self, acts: &[Act]) {
        let (mut rx, mut tx) = (self.rx.pop().expect("fresh"), self.tx.pop().expect("fresh"));
        let n = self.rx.len(); // queues were taken from the end
        assert_eq!(n, self.tx.len());
        let (device, segments) = (self.pair(n), most_segments(self.jumbo));
        let (rx_queue, tx_queue, pools) = (&mut rx, &mut tx, &mut self.pools);
        let mut run = Run { device, rx: rx_queue, tx: tx_queue, pools, held: Vec::new(), segments };
        run.recv(1); // gives the device its first buffers
        acts.iter().for_each(|act| run.act(act));
        run.free_all();
        drop((rx, tx));
        for pool in &mut self.pools {
            assert_eq!(pool.available(), pool.capacity(), "a buffer is lost");
        }
    }

    /// A pair of queues from the device's side.
    fn pair(&self, n: usize) -> Pair<Descriptors> {
        let load = |register| u64::from(self.device.load(register));
        let word = |low, high| load(low) | load(high) << 32;
        let rings = [word(RDBAL::at(n), RDBAH::at(n)), word(TDBAL::at(n), TDBAH::at(n))];
        let head = word(TDWBAL::at(n), TDWBAH::at(n));
        let is_written = head & u64::from(TDWBAL::HEAD_WB_EN) != 0;
        let (memory, device) = (self.device.view(), self.device.clone());
        let tails = move || [RDT::at(n), TDT::at(n)].map(|register| device.load(register));
        Pair::new(memory, rings, is_written.then_some(head & !3), tails)
    }
}
