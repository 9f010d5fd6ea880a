//! Virtual functions, as the physical function has them: their VSIs at the bridge, their queues,
//! resets and messages (datasheet 332464, chapters 7 and 10). What a virtual function does with its
//! own memory is its own device's, [`Vf`].
//!
//! The bridge forwards by the filters of VSIs: a unicast frame to an address that a VSI has a
//! filter of goes to that one alone, others go to the wire as well. What one sends can be limited.
//! Not modelled: several bridges, other limits of bandwidth, mirrors, VMDq.

mod commands;
mod registers;
mod slot;
mod vf;

pub use slot::SharedSlot;
pub use vf::{POLLED as VF_POLLED, Vf};

use regs::i40e::admin::vsi;
use regs::i40e::*;
use regs::iavf::QUEUES;
use wire::ethernet::ADDRESSES_LEN;

use super::switch::Switch;
use super::{I40e, registers::Registers};
use crate::relay::{BURST, BURST_BYTES, Limiter, next_in_turn, tag_of, tagged, untagged};
use crate::{Dma, Pages, Wire};

/// Virtual functions of a card, at most: each has four of the queues that the physical function
/// leaves.
pub const MOST_VFS: usize = 15;
/// Vectors of each, the mailbox's with them.
pub const VF_VECTORS: u16 = 5;

/// What a card has of virtual functions.
#[derive(Debug)]
pub(super) struct Sriov {
    pub vfs: Vec<Member>,
    /// The number of the first on the card.
    pub base: usize,
    /// Whose messages are looked for first, and whose frames.
    pub first: usize,
    turn: usize,
}

/// A virtual function.
#[derive(Debug)]
pub(super) struct Member {
    pub slot: SharedSlot,
    pub vsi: Option<Switch>,
    /// What it may send, as long as it has its VSI.
    pub limiter: Limiter,
}

/// Who took a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Offered {
    pub any: bool,
    /// Bytes that were copied.
    pub copied: usize,
    /// A VSI that has a filter of its address: nobody else is asked.
    pub exact: bool,
}

impl Sriov {
    pub fn new(slots: &[SharedSlot]) -> Sriov {
        let member =
            |slot: &SharedSlot| Member { slot: slot.clone(), vsi: None, limiter: Limiter::default() };
        Sriov { vfs: slots.iter().map(member).collect(), base: 0, first: 0, turn: 0 }
    }

    /// As a reset of the physical function leaves them: without queues and VSIs.
    pub fn reset(&mut self, registers: &mut Registers) {
        for vf in &mut self.vfs {
            (vf.vsi, vf.limiter) = (None, Limiter::default());
            vf.slot.lock().reset();
        }
        for n in 0..VPLAN_QTABLE::COUNT {
            registers.write(VPLAN_QTABLE::at(n), VPLAN_QTABLE::QINDEX_MASK);
        }
    }

    /// Which virtual function has a queue of the physical one's, and which that is there.
    pub fn owner(&self, queue: usize, registers: &Registers) -> Option<(usize, usize)> {
        let mapped = |vf: &usize| registers.read(VPLAN_MAPENA::at(*vf)) & VPLAN_MAPENA::TXRX_ENA != 0;
        (0..self.vfs.len()).filter(mapped).find_map(|vf| {
            let entry = |n: usize| registers.read(VPLAN_QTABLE::at(row(n, vf))) & VPLAN_QTABLE::QINDEX_MASK;
            (0..QUEUES).find(|n| entry(*n) as usize == queue).map(|n| (vf, n))
        })
    }

    /// The next frame that a virtual function has sent and may send now, and which: they take turns.
    fn next_sent(&mut self, now_ns: u64) -> Option<(usize, Vec<u8>)> {
        let vfs = &mut self.vfs;
        next_in_turn(&mut self.turn, vfs.len(), |n| {
            let Member { slot, limiter, .. } = &mut vfs[n];
            let frame = limiter.is_open(now_ns).then(|| slot.lock().frames.sent()).flatten()?;
            limiter.count(frame.len(), now_ns);
            Some(frame)
        })
    }

    /// Gives a frame to the virtual functions that want it, but for the one that sent it; without a
    /// sender it came from the wire.
    pub fn offer(&mut self, frame: &[u8], from: Option<Sender>) -> Offered {
        let tag = tag_of(frame);
        let mut offered = Offered::default();
        for (n, vf) in self.vfs.iter_mut().enumerate() {
            let Some(vsi) = vf.vsi.as_ref().filter(|_| from != Some(Sender::Vf(n))) else { continue };
            if vsi.accept(frame, tag, from.is_some()).is_err() {
                continue;
            }
            offered.any = true;
            offered.exact |= vsi.is_own(frame, tag);
            offered.copied += match vsi.port_vlan() {
                // Its tag is told nowhere.
                Some(_) if tag.is_some() => vf.slot.lock().frames.receive(&untagged(frame)),
                _ => vf.slot.lock().frames.receive(frame),
            };
        }
        offered
    }
}

/// Who sent a frame that did not come from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Pf,
    Vf(usize),
}

impl Switch {
    /// What a frame of the VSI's becomes that it may send; `None` for one that it may not.
    fn admit(&self, frame: Vec<u8>) -> Option<Vec<u8>> {
        let security = self.own().bytes()[vsi::SECURITY];
        let source = frame.get(ADDRESSES_LEN / 2..)?.first_chunk::<6>()?;
        if security & vsi::ENABLE_MAC_CHK != 0 && !self.has_address(source) {
            return None;
        }
        let tag = tag_of(&frame);
        match (self.port_vlan(), tag) {
            (Some(own), None) => Some(tagged(&frame, own)),
            (Some(_), Some(_)) => None,
            (None, Some(tag)) if security & vsi::ENABLE_VLAN_CHK != 0 && !self.has_vlan(tag) => None,
            (None, _) => Some(frame),
        }
    }
}

impl<D: Dma, P: Pages> I40e<D, P> {
    /// Forwards what virtual functions have sent, some of it: each has its turn, frame by frame.
    /// Frames moved.
    pub(super) fn forward<C: Wire>(&mut self, wire: &mut C) -> usize {
        let most = BURST * self.vfs();
        let (mut moved, mut bytes) = (0, 0);
        while moved < most && bytes < BURST_BYTES {
            let Some((n, frame)) = self.sriov.as_mut().and_then(|sriov| sriov.next_sent(self.now_ns)) else {
                break;
            };
            moved += 1;
            bytes += frame.len() + self.forward_one(wire, n, frame);
        }
        if moved > 0 {
            self.rx.raise(&mut self.host);
        }
        moved
    }

    /// Forwards a frame of a virtual function; bytes that were copied for others, or sent.
    fn forward_one<C: Wire>(&mut self, wire: &mut C, n: usize, frame: Vec<u8>) -> usize {
        let I40e { host, rx, director, switch, sriov, .. } = self;
        let Some(sriov) = sriov else { return 0 };
        let Some(vsi) = &sriov.vfs[n].vsi else {
            host.counters.drops.tx_no_vsi += 1;
            return 0;
        };
        if switch.drops_sent(&frame) {
            host.counters.drops.tx_control += 1;
            sriov.vfs[n].slot.lock().control += 1;
            return 0;
        }
        let loops = vsi.loops();
        let Some(frame) = vsi.admit(frame) else {
            host.counters.drops.tx_spoofed += 1;
            sriov.vfs[n].slot.lock().refused += 1;
            return 0;
        };
        let mut offered = Offered::default();
        if loops {
            offered = sriov.offer(&frame, Some(Sender::Vf(n)));
            offered.exact |= switch.is_own(&frame, tag_of(&frame));
            // One that the VSI does not want goes to the wire alone.
            if rx.deliver(host, director, switch, &frame, true).is_ok() {
                offered.copied += frame.len();
            }
        }
        if !offered.exact {
            offered.copied += frame.len();
            host.counters.from_vfs += 1;
            host.counters.statistics.frame(super::statistics::TX, &frame);
            wire.transmit(&frame);
        }
        offered.copied
    }
}

/// A frame of the physical function: whether it goes to the wire, too.
pub(super) fn leaves(sriov: &mut Option<Sriov>, switch: &Switch, frame: &[u8]) -> bool {
    let Some(sriov) = sriov.as_mut().filter(|_| switch.loops()) else { return true };
    !sriov.offer(frame, Some(Sender::Pf)).exact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_functions_take_turns_in_sending() {
        let slots = [(); 3].map(|()| SharedSlot::default());
        let mut sriov = Sriov::new(&slots);
        for (slot, count) in slots.iter().zip([4, 0, 2]) {
            slot.lock().frames.send((0..count).map(|n| vec![n; 60]));
        }
        let sent: Vec<_> =
            std::iter::from_fn(|| sriov.next_sent(0)).map(|(n, frame)| (n, frame[0])).collect();
        assert_eq!(sent, [(0, 0), (2, 0), (0, 1), (2, 1), (0, 2), (0, 3)]);
    }
}
