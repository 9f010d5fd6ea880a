//! The queues as applications hold them, over either kind of ring: one branch a
//! batch says which.

use std::os::fd::BorrowedFd;

use memory::{Batch, Pool};
use port::{RxStats, TxStats};

use super::packed::Packed;
use super::ring::Virtqueue as _;
use super::rx::Rx;
use super::split::Split;
use super::tx::Tx;

/// A receive queue.
pub struct RxQueue(pub(super) RxKind);

/// A transmit queue.
pub struct TxQueue(pub(super) TxKind);

#[expect(clippy::large_enum_variant, reason = "a queue is made once and stays where it is")]
pub(super) enum RxKind {
    Split(Rx<Split>),
    Packed(Rx<Packed>),
}

#[expect(clippy::large_enum_variant, reason = "a queue is made once and stays where it is")]
pub(super) enum TxKind {
    Split(Tx<Split>),
    Packed(Tx<Packed>),
}

macro_rules! both {
    ($kind:ident, $queue:expr, $q:ident => $do:expr) => {
        match $queue {
            $kind::Split($q) => $do,
            $kind::Packed($q) => $do,
        }
    };
}

impl port::RxQueue for RxQueue {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        both!(RxKind, &mut self.0, q => q.recv(pool, batch))
    }

    fn stats(&self) -> RxStats {
        both!(RxKind, &self.0, q => q.stats)
    }

    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        both!(RxKind, &mut self.0, q => {
            q.signal.as_ref()?;
            q.ring.arm();
            q.signal.as_ref().map(super::interrupt::Signal::fd)
        })
    }

    fn disarm(&mut self) {
        both!(RxKind, &mut self.0, q => {
            if let Some(signal) = &q.signal {
                q.ring.disarm();
                signal.clear();
            }
        });
    }
}

impl TxQueue {
    /// Buffers that a packet may have, whether its header stands apart or in front of it.
    pub(super) fn buffers(&self) -> usize {
        let parts = both!(TxKind, &self.0, q => q.able.parts);
        parts.saturating_sub(1).max(1)
    }
}

impl port::TxQueue for TxQueue {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        both!(TxKind, &mut self.0, q => q.send(pool, batch))
    }

    fn clean(&mut self, pool: &mut Pool) -> usize {
        both!(TxKind, &mut self.0, q => q.clean(pool))
    }

    fn stats(&self) -> TxStats {
        both!(TxKind, &self.0, q => q.stats)
    }
}
