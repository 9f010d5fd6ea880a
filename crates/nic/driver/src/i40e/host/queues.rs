//! Queues of virtual functions: their contexts, which the physical function writes, their
//! vectors, starting and stopping (datasheet chapters 8 and 10).

use std::time::{Duration, Instant};

use regs::i40e::descriptor::MOST_RX_BUFFERS;
use regs::i40e::*;
use regs::virtchnl::message::{QueuePair, Queues, Vectors};
use regs::virtchnl::{op, status};

use super::super::init::PREPARED;
use super::super::interrupt::NO_QUEUE;
use super::messages::{Answer, NOTHING};
use super::{Host, VF_QUEUES, Vsi};
use crate::Result;

/// A ring's base, and a buffer, are in so many bytes.
const UNIT: u64 = 128;
/// The longest ring, and buffers of a receive queue: the smallest and the largest.
const LONGEST_RING: u64 = 8160;
const BUFFERS: std::ops::RangeInclusive<u32> = 1024..=16_256;
/// The longest frame, and the shortest that a queue can be limited to.
const FRAMES: std::ops::RangeInclusive<u32> = 64..=9728;
/// How long queues may take to start or to stop.
const LIMIT: Duration = Duration::from_millis(100);
/// Places of the kinds of queues, which are their numbers in the list of a vector, too.
const RX: usize = 0;
const TX: usize = 1;
const RX_TYPE: u32 = RX as u32;
const TX_TYPE: u32 = TX as u32;

/// Queues of a virtual function that are being started or stopped. Nobody waits for them: its driver is
/// answered when all have, or not in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switching {
    /// They are being started.
    on: bool,
    /// Those that have not yet, a bit each: receive, transmit.
    left: [u32; 2],
    /// The device was told to; since when, or since when those that send are announced.
    asked: bool,
    since: Instant,
}

/// The function's queues that are some of a virtual one, a bit each, with their kinds.
fn queues(n: usize, bits: [u32; 2]) -> impl Iterator<Item = (usize, usize)> {
    let of = move |kind: usize| (0..VF_QUEUES).filter(move |at| bits[kind] >> at & 1 != 0);
    [RX, TX].into_iter().flat_map(move |kind| of(kind).map(move |at| (kind, Host::queue(n, at))))
}

/// The register that starts and stops a queue; QRX_ENA and QTX_ENA have the same bits.
fn enable_at(kind: usize, queue: usize) -> u32 {
    if kind == RX { QRX_ENA::at(queue) } else { QTX_ENA::at(queue) }
}

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

    /// Has the device start queues, a bit each: receive, transmit.
    pub(super) fn start(&mut self, n: usize, left: [u32; 2]) {
        let bar = &self.chip.bar;
        for (kind, queue) in queues(n, left) {
            if kind == RX {
                bar.write32(QRX_ENA::at(queue), QRX_ENA::QENA_REQ);
                continue;
            }
            bar.write32(QTX_HEAD::at(queue), 0);
            self.chip.announce_tx(queue, GLLAN_TXPRE_QDIS::CLEAR_QDIS);
            bar.write32(QTX_ENA::at(queue), QTX_ENA::QENA_REQ);
        }
        self.vfs[n].switching = Some(Switching { on: true, left, asked: true, since: Instant::now() });
    }

    /// Has the device stop queues, likewise: those that send are announced first.
    pub(super) fn stop(&mut self, n: usize, left: [u32; 2]) {
        self.announce_stop(n, left);
        let asked = left[TX] == 0;
        if asked {
            self.ask_to_stop(n, left);
        }
        self.vfs[n].switching = Some(Switching { on: false, left, asked, since: Instant::now() });
    }

    fn announce_stop(&self, n: usize, left: [u32; 2]) {
        for (_, queue) in queues(n, left).filter(|(kind, _)| *kind == TX) {
            self.chip.announce_tx(queue, GLLAN_TXPRE_QDIS::SET_QDIS);
        }
    }

    fn ask_to_stop(&self, n: usize, left: [u32; 2]) {
        queues(n, left).for_each(|(kind, queue)| self.chip.bar.write32(enable_at(kind, queue), 0));
    }

    /// Answers those whose queues have started or stopped, or not in time; how many.
    ///
    /// # Errors
    /// When the device itself fails.
    pub(super) fn go_on_with_queues(&mut self) -> Result<usize> {
        let mut done = 0;
        for n in 0..self.vfs.len() {
            let Some(Switching { on, .. }) = self.vfs[n].switching else { continue };
            if let Some(answer) = self.go_on_with(n)? {
                self.reply(n, if on { op::ENABLE_QUEUES } else { op::DISABLE_QUEUES }, answer);
                done += 1;
            }
        }
        Ok(done)
    }

    /// Looks at queues that are being started or stopped; the answer, once all have, or not in time.
    pub(super) fn go_on_with(&mut self, n: usize) -> Result<Option<Answer>> {
        let Some(mut switching) = self.vfs[n].switching else { return Ok(None) };
        if !switching.asked {
            if switching.since.elapsed() < PREPARED {
                return Ok(None);
            }
            self.ask_to_stop(n, switching.left);
            (switching.asked, switching.since) = (true, Instant::now());
        }
        let Switching { on, left, since, .. } = switching;
        // Before they are looked at: whoever looks late does not take one for late that is not.
        let is_late = since.elapsed() >= LIMIT;
        for at in 0..VF_QUEUES {
            for kind in [RX, TX].into_iter().filter(|kind| left[*kind] >> at & 1 != 0) {
                if self.runs(kind, Host::queue(n, at))? == on {
                    switching.left[kind] &= !(1 << at);
                    self.vfs[n].running[kind] ^= 1 << at;
                }
            }
        }
        let all = switching.left == [0; 2];
        self.vfs[n].switching = (!all && !is_late).then_some(switching);
        if all || !is_late {
            return Ok(all.then_some(NOTHING));
        }
        let what = if on { "start: its ring is not in its memory" } else { "stop" };
        tracing::debug!(port = self.chip.name, vf = n, "a queue of a virtual function does not {what}");
        if on {
            self.announce_stop(n, switching.left);
            self.ask_to_stop(n, switching.left);
        }
        // What does not stop runs still, as far as is known here.
        Ok(Some(Err(status::ERR_ADMIN_QUEUE_ERROR)))
    }

    /// Whether the device says that a queue runs.
    fn runs(&self, kind: usize, queue: usize) -> Result<bool> {
        let control = self.chip.bar.read32(enable_at(kind, queue));
        // So all registers of a device read that is gone.
        if control == u32::MAX {
            self.chip.pci.health()?;
        }
        Ok(control & QRX_ENA::QENA_STAT != 0)
    }
}
