//! What a thread polls.

use std::sync::Arc;

use port::{Batch, Pool, RxQueue, TxQueue};

use crate::{Instant, Wakeup};

/// What a thread runs over and over: a forwarder's direction, a generator, a protocol
/// stack. It is moved to its thread and stays there.
pub trait Poller: Send {
    /// One turn: receives, works and sends a batch, and does what is due `now`. Returns
    /// how many packets it moved, those that it took and kept or dropped among them: more may
    /// wait behind them, and a thread whose turns move nothing for a while sleeps or yields. `batch` comes empty and is to be left empty. Never blocks.
    fn turn(&mut self, now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize;

    /// Gives each queue it holds to `visit`, in an order that stays the same. Interrupts,
    /// statistics and the end of the run come to the queues in this way.
    fn queues<'a>(&'a mut self, visit: &mut dyn FnMut(Queue<'a>));

    /// Buffers that it may keep beside its rings' and one batch: packets to be sent again,
    /// or that wait for something. The pool of its thread has so many more for it.
    fn buffers(&self) -> usize {
        0
    }

    /// When it must have a turn though no packet came: a sleeping thread wakes in time.
    /// Asked before each sleep. A turn may come earlier, and finds out by its `now`.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// What other threads call when they have something for it: ends its thread's sleep.
    /// Asked once, before the first turn. One thread clears it: not for two pollers.
    fn wakeup(&self) -> Option<Arc<Wakeup>> {
        None
    }

    /// Whether it expects no packets for now, so that a thread that polls may sleep until the
    /// [`wakeup`](Poller::wakeup), for a short time: what comes all the same has to wait for that.
    fn rests(&self) -> bool {
        false
    }

    /// Whether packets that a full transmit ring refused are sent later, for which one that
    /// receives too must give a [`deadline`](Poller::deadline). If not, they are lost, and
    /// counted so.
    fn retries(&self) -> bool {
        false
    }

    /// Whether there is nothing left to do. A thread ends when all its pollers are done.
    fn is_done(&self) -> bool {
        false
    }

    /// An error that ends the run of all threads.
    fn failure(&mut self) -> Option<Box<dyn std::error::Error + Send + Sync>> {
        None
    }
}

/// A queue of a poller.
pub enum Queue<'a> {
    /// A queue that the poller receives from.
    Rx(&'a mut dyn RxQueue),
    /// A queue that the poller sends by.
    Tx(&'a mut dyn TxQueue),
}
