//! What a driver must have read before it goes on: the device and the function are in no reset
//! when the admin queue is enabled, a queue has started or stopped (datasheet 332464, chapters 4
//! and 8). Nothing here changes what the device does.

use regs::i40e::*;

use super::I40e;
use super::host::Counters;
use super::lint::{Location, Rule};
use super::ring::Awaited;
use crate::{Dma, Pages};

/// What the driver has seen since it enabled an admin queue last.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The device is in no reset.
    steady: bool,
    /// Its configuration is loaded.
    loaded: bool,
    /// It has reset the function, and not seen the end of that.
    resetting: bool,
    /// It was looked at since the function was reset: who enables the queue again after the whole
    /// card was reset under it tries whether that is over.
    checked: bool,
}

impl Seen {
    /// The driver resets the function.
    pub fn reset(&mut self) {
        (self.resetting, self.checked) = (true, false);
    }

    /// The driver has read a register.
    fn note(&mut self, id: Id, value: u32) {
        const LOADED: u32 = GLNVM_ULD::CONF_CORE_DONE | GLNVM_ULD::CONF_GLOBAL_DONE;
        match id {
            GLGEN_RSTAT::ID => self.steady = value & GLGEN_RSTAT::DEVSTATE_MASK == 0,
            GLNVM_ULD::ID => self.loaded = value & LOADED == LOADED,
            PFGEN_CTRL::ID => self.resetting &= value & PFGEN_CTRL::PFSWR != 0,
            _ => {}
        }
    }

    /// The driver enables the send queue, from which on it talks to the firmware.
    pub fn check(&mut self, counters: &mut Counters) {
        let Seen { steady, loaded, resetting, checked } = std::mem::take(self);
        self.checked = true;
        if checked {
            return;
        }
        if resetting {
            counters.report(Rule::ResetNotAwaited, Location::Register(PFGEN_CTRL::ID, 0), 0);
        }
        for (seen, id) in [(steady, GLGEN_RSTAT::ID), (loaded, GLNVM_ULD::ID)] {
            if !seen {
                counters.report(Rule::DeviceNotReady, Location::Register(id, 0), 0);
            }
        }
    }
}

impl<D: Dma, P: Pages> I40e<D, P> {
    /// The driver tells that it goes: it has seen that the queues which it stopped have done so.
    pub(super) fn check_stopped(&mut self) {
        let I40e { host, rx, tx, .. } = self;
        let rings = rx.queues.iter_mut().map(|queue| &mut queue.ring);
        for ring in rings.chain(tx.queues.iter_mut().map(|queue| &mut queue.ring)) {
            if ring.awaited.take_if(|awaited| *awaited == Awaited::Stop).is_some() {
                host.counters.report(Rule::DisableNotAwaited, ring.place, 0);
            }
        }
    }

    /// The driver has read what it may have waited for.
    pub(super) fn note_read(&mut self, id: Id, n: usize, value: u32) {
        let awaited = match id {
            QRX_ENA::ID => self.rx.queues.get_mut(n).map(|queue| &mut queue.ring.awaited),
            QTX_ENA::ID => self.tx.queues.get_mut(n).map(|queue| &mut queue.ring.awaited),
            _ => return self.seen.note(id, value),
        };
        let runs = if value & QTX_ENA::QENA_STAT != 0 { Awaited::Start } else { Awaited::Stop };
        awaited.into_iter().for_each(|awaited| _ = awaited.take_if(|awaited| *awaited == runs));
    }
}
