//! What a virtual function and its physical one share: each is a device of its own, stepped by
//! itself, and reaches its own client's memory alone. So the mailbox, frames, and what the physical
//! function sets for its pool pass through a [`Slot`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regs::ixgbe::{PFMAILBOX, RETA, RSSRK};
use regs::ixgbevf::message::WORDS;
use regs::ixgbevf::{QUEUES, VFMAILBOX};

use crate::relay::Relay;

/// The mailbox (7.10.2.9): one buffer of sixteen words, which either side holds while it writes a
/// message, and a bit for each message and each acknowledgement.
#[derive(Debug, Default)]
pub(in crate::ixgbe) struct Mailbox {
    pub memory: [u32; WORDS],
    held_by_vf: bool,
    held_by_pf: bool,
    /// A reset of the virtual function took the buffer from the physical one, which cannot know it
    /// before it looks at PFMAILBOX.
    taken_by_reset: bool,
    /// What VFMAILBOX tells once: PFSTS, PFACK, RSTD.
    told: u32,
    /// The physical function's driver has not said that it is ready (CTRL_EXT.PFRSTD).
    pub resetting: bool,
    /// Causes of PFMBICR: a message, an acknowledgement.
    pub request: bool,
    pub acknowledged: bool,
    /// An interrupt is due, of the virtual function, and of the physical one.
    pub event: bool,
    pub pf_event: bool,
}

impl Mailbox {
    /// What a reset of the virtual function leaves.
    fn reset(&mut self) {
        let Mailbox { resetting, pf_event, .. } = *self;
        let taken_by_reset = self.held_by_pf || self.taken_by_reset;
        *self = Mailbox { resetting, pf_event, taken_by_reset, ..Mailbox::default() };
    }

    /// VFMAILBOX as the virtual function reads it, which clears what is told once.
    pub fn read_by_vf(&mut self) -> u32 {
        let level = [
            (self.held_by_vf, VFMAILBOX::VFU),
            (self.held_by_pf, VFMAILBOX::PFU),
            (self.resetting, VFMAILBOX::RSTI),
        ];
        bits(&level) | std::mem::take(&mut self.told)
    }

    /// VFMAILBOX is written: the buffer is the virtual function's if it asks for it and the
    /// physical one has it not.
    pub fn write_by_vf(&mut self, value: u32) {
        self.held_by_vf = value & VFMAILBOX::VFU != 0 && !self.held_by_pf;
        self.request |= value & VFMAILBOX::REQ != 0;
        self.acknowledged |= value & VFMAILBOX::ACK != 0;
        self.pf_event |= value & (VFMAILBOX::REQ | VFMAILBOX::ACK) != 0;
    }

    /// PFMAILBOX as the physical function reads it.
    pub fn read_by_pf(&mut self) -> u32 {
        self.taken_by_reset = false;
        bits(&[(self.held_by_vf, PFMAILBOX::VFU), (self.held_by_pf, PFMAILBOX::PFU)])
    }

    /// PFMAILBOX is written, likewise; RVFU takes the buffer away from a virtual function that has
    /// stopped with it.
    pub fn write_by_pf(&mut self, value: u32) {
        self.taken_by_reset = false;
        self.held_by_vf &= value & PFMAILBOX::RVFU == 0;
        self.held_by_pf = value & PFMAILBOX::PFU != 0 && !self.held_by_vf;
        let told = [
            (value & PFMAILBOX::STS != 0, VFMAILBOX::PFSTS),
            (value & PFMAILBOX::ACK != 0, VFMAILBOX::PFACK),
        ];
        self.tell(bits(&told));
    }

    /// Who may write to the buffer, as far as it can know: the virtual function, the physical one.
    pub fn writers(&self) -> (bool, bool) {
        (self.held_by_vf, self.held_by_pf || self.taken_by_reset)
    }

    /// The physical function is being reset, or says that this is done.
    pub fn set_resetting(&mut self, resetting: bool) {
        let done = std::mem::replace(&mut self.resetting, resetting) && !resetting;
        self.event |= resetting;
        self.tell(if done { VFMAILBOX::RSTD } else { 0 });
    }

    fn tell(&mut self, told: u32) {
        self.told |= told;
        self.event |= told != 0;
    }
}

/// The bits that hold.
fn bits(all: &[(bool, u32)]) -> u32 {
    all.iter().filter(|(holds, _)| *holds).fold(0, |bits, (_, bit)| bits | bit)
}

/// What the physical function's registers set for the queues of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ixgbe) struct Settings {
    /// Queues of a pool; none without pools.
    pub queues: u8,
    /// PFVFTE: what the pool has queued is sent.
    pub may_send: bool,
    /// The port's link, as LINKS tells it.
    pub links: u32,
    /// RTTBCNRC of each of its transmit queues; those behind them are others'.
    pub rates: [u32; QUEUES],
    /// MRQC, if flows are spread over a pool's queues, or zero; and its key and table.
    pub hash: u32,
    pub key: [u32; RSSRK::COUNT],
    pub table: [u32; RETA::COUNT],
    /// HLREG0, MAXFRS, RXCSUM, RFCTL, VLNCTRL, DMATXCTL.
    pub shared: [u32; super::SHARED.len()],
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            queues: 0,
            may_send: false,
            links: 0,
            rates: [0; _],
            hash: 0,
            key: [0; _],
            table: [0; _],
            shared: [0; _],
        }
    }
}

/// What both share.
#[derive(Debug, Default)]
pub(in crate::ixgbe) struct Slot {
    /// Counts resets of the virtual function's queues and interrupts.
    pub resets: u64,
    /// PFVFLRE: the virtual function was reset by its own driver or its client.
    pub was_reset: bool,
    pub mailbox: Mailbox,
    pub settings: Settings,
    /// The settings have changed.
    pub stale: bool,
    pub frames: Relay,
    /// Frames that its pool may not send.
    pub spoofed: u64,
}

impl Slot {
    /// A reset of the physical function: queues stop, and the mailbox says so.
    pub fn reset_by_pf(&mut self) {
        self.resets += 1;
        self.mailbox.reset();
        self.mailbox.taken_by_reset = false; // its own
        self.mailbox.set_resetting(true);
        (self.settings, self.stale, self.was_reset) = (Settings::default(), true, false);
        self.frames.clear();
    }

    /// A reset by the driver of the virtual function (VFCTRL.RST), or by its client, as an FLR.
    pub fn reset_by_vf(&mut self) {
        self.resets += 1;
        self.mailbox.reset();
        self.mailbox.pf_event = true;
        self.was_reset = true;
        self.frames.clear();
    }
}

/// A slot, as either side has it.
#[derive(Debug, Clone, Default)]
pub struct SharedSlot(Arc<Mutex<Slot>>);

impl SharedSlot {
    /// Nobody waits for anything else while holding it.
    pub(in crate::ixgbe) fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_at_a_time_holds_the_buffer() {
        let mut mailbox = Mailbox::default();
        mailbox.write_by_pf(PFMAILBOX::PFU);
        mailbox.write_by_vf(VFMAILBOX::VFU);
        assert_eq!((mailbox.writers(), mailbox.read_by_vf()), ((false, true), VFMAILBOX::PFU));
        mailbox.write_by_pf(PFMAILBOX::STS);
        assert_eq!(mailbox.read_by_vf(), VFMAILBOX::PFSTS, "a message lets go of the buffer");
        assert_eq!(mailbox.read_by_vf(), 0, "and is told once");
        mailbox.write_by_vf(VFMAILBOX::VFU);
        mailbox.write_by_pf(PFMAILBOX::PFU);
        assert_eq!(mailbox.read_by_pf(), PFMAILBOX::VFU);
        mailbox.write_by_pf(PFMAILBOX::RVFU);
        assert_eq!((mailbox.writers(), mailbox.request), ((false, false), false));
    }

    #[test]
    fn a_reset_is_told_while_it_lasts_and_once_it_is_done() {
        let mut slot = Slot::default();
        slot.reset_by_pf();
        assert_eq!([slot.mailbox.read_by_vf(), slot.mailbox.read_by_vf()], [VFMAILBOX::RSTI; 2]);
        slot.mailbox.set_resetting(false);
        assert_eq!([slot.mailbox.read_by_vf(), slot.mailbox.read_by_vf()], [VFMAILBOX::RSTD, 0]);
        slot.mailbox.set_resetting(false);
        assert_eq!(slot.mailbox.read_by_vf(), 0, "that it is ready still is no news");
    }
}
