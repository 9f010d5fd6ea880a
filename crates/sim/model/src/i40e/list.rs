//! The list of queues that each vector has: it begins in a register of the vector's and goes on in
//! those of queues (datasheet 332464, chapter 7).

use regs::i40e::*;

use super::lint::{Location, Rule};
use super::{I40e, QUEUES};
use crate::{Dma, Pages};

/// Kinds of queues, as the list's entries have them.
const RX: usize = 0;
const TX: usize = 1;
/// The index that ends a list.
const END: u32 = 0x7FF;

/// Queues of both kinds, a bit each.
type Set = [u128; 2];

const _: () = assert!(QUEUES as u32 <= u128::BITS);

impl<D: Dma, P: Pages> I40e<D, P> {
    /// The driver wrote the control register of a vector, and with it may have enabled the vector.
    pub(super) fn check_list(&mut self, vector: usize, control: u32) {
        let enables =
            control & (PFINT_DYN_CTLN::INTENA | PFINT_DYN_CTLN::INTENA_MSK) == PFINT_DYN_CTLN::INTENA;
        let raised_by = if enables { self.raised_by(vector) } else { [0; 2] };
        if raised_by == [0; 2] {
            return;
        }
        let listed = self.listed(vector);
        if !listed.is_some_and(|listed| (0..2).all(|kind| raised_by[kind] & !listed[kind] == 0)) {
            let place = match vector {
                0 => Location::Register(PFINT_LNKLST0::ID, 0),
                n => Location::Register(PFINT_LNKLSTN::ID, n as u16 - 1),
            };
            self.host.counters.report(Rule::InterruptListBroken, place, vector as u64);
        }
    }

    /// The queues that run and raise a vector.
    fn raised_by(&self, vector: usize) -> Set {
        let raises = |runs: bool, cause: u32| {
            let of_vector = (cause & QINT_RQCTL::MSIX_INDX_MASK) as usize == vector;
            u128::from(runs && cause & QINT_RQCTL::CAUSE_ENA != 0 && of_vector)
        };
        let rx = self.rx.queues.iter().map(|queue| raises(queue.ring.enabled, queue.cause));
        let tx = self.tx.queues.iter().map(|queue| raises(queue.ring.enabled, queue.cause));
        let bits = |set: u128, (n, bit): (usize, u128)| set | bit << n;
        [rx.enumerate().fold(0, bits), tx.enumerate().fold(0, bits)]
    }

    /// The queues in a vector's list; `None` for a list that does not end, or names what is no queue.
    fn listed(&self, vector: usize) -> Option<Set> {
        let first = match vector {
            0 => self.registers.read(PFINT_LNKLST0::AT),
            n => self.registers.read(PFINT_LNKLSTN::at(n - 1)),
        };
        let kind = |kind: u32| (kind & 3) as usize;
        let mut next =
            (kind(first >> PFINT_LNKLSTN::FIRSTQ_TYPE_SHIFT), first & PFINT_LNKLSTN::FIRSTQ_INDX_MASK);
        let mut listed = [0; 2];
        while next.1 != END {
            let (of_kind, n) = (listed.get_mut(next.0)?, next.1);
            let bit = 1u128.checked_shl(n)?;
            if *of_kind & bit != 0 {
                return None;
            }
            *of_kind |= bit;
            let control = match next.0 {
                RX => self.registers.read(QINT_RQCTL::at(n as usize)),
                TX => self.registers.read(QINT_TQCTL::at(n as usize)),
                _ => return None,
            };
            let index = (control & QINT_RQCTL::NEXTQ_INDX_MASK) >> QINT_RQCTL::NEXTQ_INDX_SHIFT;
            next = (kind(control >> QINT_RQCTL::NEXTQ_TYPE_SHIFT), index);
        }
        Some(listed)
    }
}
