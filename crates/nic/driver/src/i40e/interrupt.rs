//! Which receive queue has which vector (datasheet chapter 7): vector 0 is the admin queue's,
//! which is polled, so that queues have those from 1 on. A vector disables itself when it is
//! sent.

use regs::i40e::*;

use super::RxQueue;
use super::device::Chip;
use crate::Result;
use crate::intel::interrupt::{Signal, Write};

/// At most one interrupt per vector in this time, in units of 2 microseconds.
const INTERVAL: u32 = 8;
/// No queue follows in a vector's list.
pub(super) const NO_QUEUE: u32 = 0x7FF;

/// Gives each receive queue its vector.
pub(super) fn init(chip: &Chip, queues: &mut [RxQueue]) -> Result<()> {
    let bar = &chip.bar;
    for (n, queue) in queues.iter_mut().enumerate() {
        let signal = Signal::new(chip, n, |vector| {
            // The registers of vectors begin with vector 1.
            let register = || bar.register(PFINT_DYN_CTLN::at(vector - 1));
            let none = PFINT_DYN_CTLN::ITR_INDX_NONE;
            let on = none | PFINT_DYN_CTLN::INTENA | PFINT_DYN_CTLN::CLEARPBA;
            [Write { register: register(), value: on }, Write { register: register(), value: none }]
        })?;
        let vector = signal.vector;
        bar.write32(PFINT_ITRN::at(vector - 1), INTERVAL);
        let list = NO_QUEUE << QINT_RQCTL::NEXTQ_INDX_SHIFT | QINT_RQCTL::CAUSE_ENA;
        bar.write32(QINT_RQCTL::at(queue.index), vector as u32 | list);
        bar.write32(PFINT_LNKLSTN::at(vector - 1), queue.index as u32);
        queue.signal = Some(signal);
    }
    Ok(())
}
