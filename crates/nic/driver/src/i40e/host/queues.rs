//! Queues of virtual functions: their contexts, which the physical function writes, their
//! vectors, starting and stopping (datasheet chapters 8 and 10).

use std::thread::sleep;
use std::time::Instant;

use regs::i40e::descriptor::MOST_RX_BUFFERS;
use regs::i40e::*;
use regs::virtchnl::message::{QueuePair, Queues, Vectors};

use super::super::init::PREPARED;
use super::super::interrupt::NO_QUEUE;
use super::{Host, VF_QUEUES, Vsi};
use crate::Result;

/// A ring's base, and a buffer, are in so many bytes.
const UNIT: u64 = 128;
/// The longest ring, and buffers of a receive queue: the smallest and the largest.
const LONGEST_RING: u64 = 8160;
const BUFFERS: std::ops::RangeInclusive<u32> = 1024..=16_256;
/// The longest frame, and the shortest that a queue can be limited to.
const FRAMES: std::ops::RangeInclusive<u32> = 64..=9728;
/// How long a queue may take to start or to stop, in milliseconds.
const LIMIT_MS: u64 = 100;
/// Kinds of queues in the list of a vector.
const RX_TYPE: u32 = 0;
const TX_TYPE: u32 = 1;

/// Whether the device can use a ring.
fn is_ring(address: u64, len: u64) -> bool {
    let longest = (1..=LONGEST_RING).contains(&len) && len.is_multiple_of(context::RING_MULTIPLE);
    longest && address != 0 && address.is_multiple_of(UNIT) && address / UNIT <= context::tx::BASE.max()
}

/// Whether the device can use what a driver says of a pair of queues.
fn is_good(pair: &QueuePair) -> bool {
    let buffers = MOST_RX_BUFFERS as u64 * u64::from(pair.rx_buffer);
    let rx = pair.rx_len == 0
        || is_ring(pair.rx_ring, pair.rx_len.into())
            && BUFFERS.contains(&pair.rx_buffer)
            && FRAMES.contains(&pair.rx_max)
            && u64::from(pair.rx_max) <= buffers;
    let tx = pair.tx_len == 0 || is_ring(pair.tx_ring, pair.tx_len.into());
    usize::from(pair.queue) < VF_QUEUES && rx && tx
}

impl Host {
    /// Writes the contexts of queues; `false` when one cannot be, or runs.
    pub(super) fn configure(&mut self, n: usize, vsi: Vsi, queues: &Queues) -> bool {
        let stopped = |pair: &QueuePair| {
            let bit = 1u32.checked_shl(pair.queue.into()).unwrap_or(0);
            self.vfs[n].running.iter().all(|running| running & bit == 0)
        };
        if queues.pairs.len() > VF_QUEUES || !queues.pairs.iter().all(|pair| is_good(pair) && stopped(pair)) {
            return false;
        }
        for pair in &queues.pairs {
            let (queue, bit) = (Host::queue(n, pair.queue.into()), 1 << pair.queue);
            if pair.rx_len > 0 {
                self.put_rx(queue, pair);
                self.vfs[n].configured[0] |= bit;
            }
            if pair.tx_len > 0 {
                self.put_tx(n, queue, vsi, pair);
                self.vfs[n].configured[1] |= bit;
            }
        }
        true
    }

    fn put_rx(&self, queue: usize, pair: &QueuePair) {
        let mut words = [0; context::rx::LEN / 8];
        for (field, value) in [
            (context::rx::BASE, pair.rx_ring / UNIT),
            (context::rx::QLEN, pair.rx_len.into()),
            (context::rx::DBUFF, u64::from(pair.rx_buffer) / UNIT),
            // virtchnl has no word for the size of descriptors: they have 32 bytes, with any host.
            (context::rx::DSIZE, 1),
            (context::rx::CRCSTRIP, 1),
            (context::rx::L2TSEL, 1),
            (context::rx::RXMAX, pair.rx_max.into()),
            (context::rx::LRXQTHRESH, 1),
            (context::rx::PREFENA, 1),
        ] {
            field.put(&mut words, value);
        }
        self.chip.state().contexts.iter().for_each(|contexts| contexts.put_rx(queue, &words));
    }

    fn put_tx(&self, n: usize, queue: usize, vsi: Vsi, pair: &QueuePair) {
        let mut words = [0; context::tx::LEN / 8];
        let mut put = |field: context::Field, value| field.put(&mut words, value);
        put(context::tx::NEW_CONTEXT, 1);
        put(context::tx::BASE, pair.tx_ring / UNIT);
        put(context::tx::QLEN, pair.tx_len.into());
        put(context::tx::RDYLIST, vsi.queue_set.into());
        if let Some(head) = pair.tx_head {
            put(context::tx::HEAD_WB_ENA, 1);
            put(context::tx::HEAD_WB_ADDR, head);
        }
        self.chip.state().contexts.iter().for_each(|contexts| contexts.put_tx(queue, &words));
        let function = self.chip.bar.read32(PF_FUNC_RID::AT) & PF_FUNC_RID::FUNCTION_NUMBER_MASK;
        let number = (u32::from(self.first) + n as u32) << QTX_CTL::VFVM_INDX_SHIFT;
        let owner = QTX_CTL::PFVF_Q_VF | number | function << QTX_CTL::PF_INDX_SHIFT;
        self.chip.bar.write32(QTX_CTL::at(queue), owner);
    }

    /// Gives queues their vectors; `false` when there is no such vector or queue. The queues of a
    /// vector are a list, of which each names the next.
    pub(super) fn map_vectors(&mut self, n: usize, map: &Vectors) -> bool {
        let all = (1u16 << VF_QUEUES) - 1;
        let is_known = |vector: u16| vector < self.vectors;
        if !map.vectors.iter().all(|one| is_known(one.vector) && (one.rx | one.tx) & !all == 0) {
            return false;
        }
        let bar = &self.chip.bar;
        for one in &map.vectors {
            let mut list = Vec::new();
            for queue in 0..VF_QUEUES {
                let index = Host::queue(n, queue) as u32;
                list.extend((one.rx >> queue & 1 != 0).then_some((RX_TYPE, index, one.rx_itr)));
                list.extend((one.tx >> queue & 1 != 0).then_some((TX_TYPE, index, one.tx_itr)));
            }
            let first = list
                .first()
                .map_or(NO_QUEUE, |(kind, index, _)| index | kind << VPINT_LNKLSTN::FIRSTQ_TYPE_SHIFT);
            match one.vector {
                0 => bar.write32(VPINT_LNKLST0::at(n), first),
                vector => {
                    let register = self.vector_registers(n).nth(usize::from(vector) - 1);
                    register.into_iter().for_each(|at| bar.write32(VPINT_LNKLSTN::at(at), first));
                }
            }
            for (place, (kind, index, itr)) in list.iter().enumerate() {
                let (next_kind, next) = list.get(place + 1).map_or((0, NO_QUEUE), |next| (next.0, next.1));
                let cause = u32::from(one.vector)
                    | u32::from(itr & 3) << QINT_RQCTL::ITR_INDX_SHIFT
                    | next << QINT_RQCTL::NEXTQ_INDX_SHIFT
                    | next_kind << QINT_RQCTL::NEXTQ_TYPE_SHIFT
                    | QINT_RQCTL::CAUSE_ENA;
                let index = *index as usize;
                let register = if *kind == RX_TYPE { QINT_RQCTL::at(index) } else { QINT_TQCTL::at(index) };
                bar.write32(register, cause);
            }
        }
        true
    }

    /// Starts queues, a bit each: receive, transmit.
    ///
    /// # Errors
    /// When one does not start: then its ring is not in memory that the virtual function reaches.
    pub(super) fn start(&mut self, n: usize, [rx, tx]: [u32; 2]) -> Result<()> {
        let on = QRX_ENA::QENA_STAT;
        let meaning = "a queue of a virtual function does not start: its ring is not in its memory";
        for at in (0..VF_QUEUES).filter(|at| rx >> at & 1 != 0) {
            let (chip, queue) = (&self.chip, Host::queue(n, at));
            chip.bar.write32(QRX_ENA::at(queue), QRX_ENA::QENA_REQ);
            if let Err(error) = chip.wait(LIMIT_MS, "QRX_ENA", QRX_ENA::at(queue), on, on, meaning) {
                chip.bar.write32(QRX_ENA::at(queue), 0);
                return Err(error);
            }
            self.vfs[n].running[0] |= 1 << at;
        }
        for at in (0..VF_QUEUES).filter(|at| tx >> at & 1 != 0) {
            let (chip, queue) = (&self.chip, Host::queue(n, at));
            chip.bar.write32(QTX_HEAD::at(queue), 0);
            chip.announce_tx(queue, GLLAN_TXPRE_QDIS::CLEAR_QDIS);
            chip.bar.write32(QTX_ENA::at(queue), QTX_ENA::QENA_REQ);
            if let Err(error) = chip.wait(LIMIT_MS, "QTX_ENA", QTX_ENA::at(queue), on, on, meaning) {
                chip.bar.write32(QTX_ENA::at(queue), 0);
                return Err(error);
            }
            self.vfs[n].running[1] |= 1 << at;
        }
        Ok(())
    }

    /// Stops queues, likewise, all of them in the time that one has.
    ///
    /// # Errors
    /// When one does not stop: the first of these. It runs still, as far as is known here.
    pub(super) fn stop(&mut self, n: usize, [rx, tx]: [u32; 2]) -> Result<()> {
        let stat = QRX_ENA::QENA_STAT;
        let meaning = "a queue of a virtual function does not stop";
        let [rx, tx] = [rx & self.vfs[n].running[0], tx & self.vfs[n].running[1]];
        let queues = |bits: u32| (0..VF_QUEUES).filter(move |at| bits >> at & 1 != 0);
        queues(tx).for_each(|at| self.chip.announce_tx(Host::queue(n, at), GLLAN_TXPRE_QDIS::SET_QDIS));
        if tx != 0 {
            sleep(PREPARED);
        }
        let tx = queues(tx).map(|at| (1, at, "QTX_ENA", QTX_ENA::at(Host::queue(n, at))));
        let rx = queues(rx).map(|at| (0, at, "QRX_ENA", QRX_ENA::at(Host::queue(n, at))));
        let all: Vec<(usize, usize, &str, u32)> = tx.chain(rx).collect();
        all.iter().for_each(|(.., offset)| self.chip.bar.write32(*offset, 0));
        let (begun, mut stopped) = (Instant::now(), Ok(()));
        for (kind, at, register, offset) in all {
            let left_ms = LIMIT_MS.saturating_sub(begun.elapsed().as_millis() as u64);
            match self.chip.wait(left_ms, register, offset, stat, 0, meaning) {
                Ok(()) => self.vfs[n].running[kind] &= !(1 << at),
                Err(error) => stopped = stopped.and(Err(error)),
            }
        }
        stopped
    }
}
