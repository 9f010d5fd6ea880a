//! Virtual functions, as the physical function has them: their VSIs at the bridge, their queues,
//! resets and messages (datasheet 332464, chapters 7 and 10). What a virtual function does with its
//! own memory is its own device's, [`Vf`].
//!
//! The bridge forwards by the filters of VSIs: a unicast frame to an address that a VSI has a
//! filter of goes to that one alone, others go to the wire as well. Not modelled: several bridges,
//! limits of bandwidth, mirrors, VMDq.

mod commands;
mod registers;
mod slot;
mod vf;

pub use slot::SharedSlot;
pub use vf::{POLLED as VF_POLLED, Vf};

use regs::i40e::admin::vsi;
use regs::i40e::*;
use regs::iavf::QUEUES;
use wire::ethernet::{ADDRESSES_LEN, EtherType};
use wire::vlan;

use super::switch::Switch;
use super::{I40e, registers::Registers};
use crate::headers::parse;
use crate::{Dma, Pages, Wire};

/// Virtual functions of a card, at most: each has four of the queues that the physical function
/// leaves.
pub const MOST_VFS: usize = 15;
/// Vectors of each, the mailbox's with them.
pub const VF_VECTORS: u16 = 5;
/// Frames of each that are forwarded in a step.
const BURST: usize = 64;

/// What a card has of virtual functions.
#[derive(Debug)]
pub(super) struct Sriov {
    pub vfs: Vec<Member>,
    /// Whose messages are looked for first.
    pub first: usize,
}

/// A virtual function.
#[derive(Debug)]
pub(super) struct Member {
    pub slot: SharedSlot,
    pub vsi: Option<Switch>,
}

/// Who took a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Offered {
    pub any: bool,
    /// A VSI that has a filter of its address: nobody else is asked.
    pub exact: bool,
}

impl Sriov {
    pub fn new(slots: &[SharedSlot]) -> Sriov {
        let member = |slot: &SharedSlot| Member { slot: slot.clone(), vsi: None };
        Sriov { vfs: slots.iter().map(member).collect(), first: 0 }
    }

    /// As a reset of the physical function leaves them: without queues and VSIs.
    pub fn reset(&mut self, registers: &mut Registers) {
        for vf in &mut self.vfs {
            vf.vsi = None;
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
            match vsi.port_vlan() {
                // Its tag is told nowhere.
                Some(_) if tag.is_some() => vf.slot.lock().receive(&untagged(frame)),
                _ => vf.slot.lock().receive(frame),
            }
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

/// The tag of a frame.
fn tag_of(frame: &[u8]) -> Option<u16> {
    parse(frame, 1, |ethertype| ethertype == EtherType::VLAN).tag
}

/// A frame without its tag.
fn untagged(frame: &[u8]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(ADDRESSES_LEN.min(frame.len()));
    [addresses, rest.get(vlan::HEADER_LEN..).unwrap_or_default()].concat()
}

/// A frame with a tag.
fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(ADDRESSES_LEN.min(frame.len()));
    [addresses, &EtherType::VLAN.0.to_be_bytes(), &tag.to_be_bytes(), rest].concat()
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
    /// Forwards what virtual functions have sent; frames moved.
    pub(super) fn forward<C: Wire>(&mut self, wire: &mut C) -> usize {
        let I40e { host, rx, director, switch, sriov, .. } = self;
        let Some(sriov) = sriov else { return 0 };
        let mut moved = 0;
        for n in 0..sriov.vfs.len() {
            let frames = sriov.vfs[n].slot.lock().sent(BURST);
            moved += frames.len();
            for frame in frames {
                let Some(vsi) = &sriov.vfs[n].vsi else {
                    host.counters.drops.tx_no_vsi += 1;
                    continue;
                };
                let loops = vsi.loops();
                let Some(frame) = vsi.admit(frame) else {
                    host.counters.drops.tx_spoofed += 1;
                    sriov.vfs[n].slot.lock().refused += 1;
                    continue;
                };
                let mut exact = false;
                if loops {
                    exact = sriov.offer(&frame, Some(Sender::Vf(n))).exact;
                    exact |= switch.is_own(&frame, tag_of(&frame));
                    // One that the VSI does not want goes to the wire alone.
                    let _ = rx.deliver(host, director, switch, &frame, true);
                }
                if !exact {
                    host.counters.from_vfs += 1;
                    host.counters.statistics.frame(super::statistics::TX, &frame);
                    wire.transmit(&frame);
                }
            }
        }
        rx.raise(host);
        moved
    }
}

/// A frame of the physical function: whether it goes to the wire, too.
pub(super) fn leaves(sriov: &mut Option<Sriov>, switch: &Switch, frame: &[u8]) -> bool {
    let Some(sriov) = sriov.as_mut().filter(|_| switch.loops()) else { return true };
    !sriov.offer(frame, Some(Sender::Pf)).exact
}
