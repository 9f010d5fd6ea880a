//! Virtual functions, as the physical function has them: pools of its queues, their mailboxes, and
//! the switch between pools and the wire (82599 datasheet rev. 3.4, sections 7.10 and 8.2.3.27).
//! What a virtual function does with its own memory is its own device's, [`Vf`].
//!
//! A unicast frame to an address of a pool goes to that pool alone, others that come from a pool go
//! to the wire as well. Not modelled: mirrors, pools by VLAN tag alone, several
//! pools of the physical function, traffic classes in pools.

mod pools;
mod slot;
mod vf;

pub use slot::SharedSlot;
pub use vf::{POLLED as VF_POLLED, Vf};

use regs::ixgbe::*;

use pools::{POOLS, Pools};
use slot::Settings;

use super::host::Counters;
use super::lint::{Register, Rule};
use super::registers::Registers;
use super::{Ixgbe, rx::Closed};
use crate::relay::{BURST, BURST_BYTES, next_in_turn};
use crate::{Dma, FrameError, MIN_FRAME, Pages, Wire};

/// Virtual functions of a port, at most: the last pool is the physical function's.
pub const MOST_VFS: usize = POOLS - 1;

/// Words of a mailbox.
const WORDS: usize = regs::ixgbevf::message::WORDS;
/// Registers of the physical function that hold for the queues of virtual functions as well.
const SHARED: [u32; 6] = [HLREG0::AT, MAXFRS::AT, RXCSUM::AT, RFCTL::AT, VLNCTRL::AT, DMATXCTL::AT];

/// What a port has of virtual functions.
#[derive(Debug)]
pub(super) struct Sriov {
    vfs: Vec<SharedSlot>,
    pools: Pools,
    /// Whose frames are looked for first.
    turn: usize,
}

impl Sriov {
    pub fn new(slots: &[SharedSlot], registers: &Registers) -> Sriov {
        let sriov = Sriov { vfs: slots.to_vec(), pools: Pools::new(registers), turn: 0 };
        sriov.reset();
        sriov
    }

    /// As a reset of the physical function leaves them.
    pub fn reset(&self) {
        self.vfs.iter().for_each(|slot| slot.lock().reset_by_pf());
    }

    /// Takes over the registers, and the link's.
    pub fn configure(&mut self, registers: &Registers, links: u32) {
        self.pools = Pools::new(registers);
        let mode = registers.read(MRQC::AT);
        let hashes = [MRQC::MRQE_32_POOLS_RSS, MRQC::MRQE_64_POOLS_RSS].contains(&(mode & MRQC::MRQE_MASK));
        let of_all = Settings {
            queues: self.pools.queues,
            may_send: false,
            links,
            rates: [0; _],
            hash: if hashes { mode } else { 0 },
            key: std::array::from_fn(|n| registers.read(RSSRK::at(n))),
            table: std::array::from_fn(|n| registers.read(RETA::at(n))),
            shared: SHARED.map(|at| registers.read(at)),
        };
        for (n, slot) in self.vfs.iter().enumerate() {
            let mut slot = slot.lock();
            let first = n * usize::from(self.pools.queues);
            let rates = std::array::from_fn(|queue| registers.rate(first + queue));
            let settings = Settings { may_send: self.pools.send >> n & 1 != 0, rates, ..of_all };
            slot.stale |= slot.settings != settings;
            slot.settings = settings;
        }
    }

    /// What STATUS tells: that there are virtual functions, and how many (8.2.3.1.2).
    pub fn status(&self) -> u32 {
        STATUS::IOV_ACTIVE | (self.vfs.len() as u32) << STATUS::NUM_VFS_SHIFT
    }

    /// Whether there are pools.
    fn has_pools(&self) -> bool {
        self.pools.queues > 0
    }

    /// The first queue of the physical function.
    pub fn first_queue(&self) -> u16 {
        u16::from(self.pools.default.unwrap_or(0)) * u16::from(self.pools.queues)
    }

    /// Offers a frame to pools, but for the one that sent it.
    fn offer(&self, counters: &mut Counters, frame: &[u8], from: Option<usize>) -> Offered {
        let (mut wanting, exact) = self.pools.wanting(frame);
        if wanting == 0 {
            // No pool's: the default one has it, if there is one.
            wanting = self.pools.default.map_or(0, |pool| 1 << pool);
        }
        let mut copied = 0;
        for (n, slot) in self.vfs.iter().enumerate().filter(|(n, _)| wanting >> n & 1 != 0) {
            match self.pools.receive >> n & 1 != 0 {
                _ if from == Some(n) => {}
                true => copied += slot.lock().frames.receive(frame),
                false => counters.drops.rx_pool_disabled += 1,
            }
        }
        let own = (self.vfs.len()..POOLS).any(|n| wanting >> n & 1 != 0);
        Offered { wanted: wanting != 0, own, exact, copied }
    }

    /// The next frame that a virtual function has sent, and which: they take turns.
    fn next_sent(&mut self) -> Option<(usize, Vec<u8>)> {
        let vfs = &self.vfs;
        next_in_turn(&mut self.turn, vfs.len(), |n| vfs[n].lock().frames.sent())
    }

    /// The bits of so many virtual functions from `first` on for which something holds.
    fn bits(&self, first: usize, count: usize, holds: impl Fn(&slot::Slot) -> bool) -> u32 {
        let slots = self.vfs.iter().skip(first).take(count).enumerate();
        slots.filter(|(_, slot)| holds(&slot.lock())).fold(0, |bits, (n, _)| bits | 1 << n)
    }

    /// Reads a register of mailboxes and resets; `None` when it is another.
    pub fn read(&self, id: Id, n: usize) -> Option<u32> {
        let slot = |n: usize| self.vfs.get(n).map(SharedSlot::lock);
        Some(match id {
            PFMAILBOX::ID => slot(n).map_or(0, |mut slot| slot.mailbox.read_by_pf()),
            PFMBMEM::ID => slot(n / WORDS).map_or(0, |slot| slot.mailbox.memory[n % WORDS]),
            PFMBICR::ID => {
                let requests = self.bits(16 * n, 16, |slot| slot.mailbox.request);
                requests | self.bits(16 * n, 16, |slot| slot.mailbox.acknowledged) << PFMBICR::VFACK_SHIFT
            }
            // The first has another name at its place, too.
            CORESPARE::ID => self.bits(0, 32, |slot| slot.was_reset),
            PFVFLRE::ID => self.bits(32 * n, 32, |slot| slot.was_reset),
            PFVFLREC::ID => 0,
            _ => return None,
        })
    }

    /// Writes such a register; `false` when it is another.
    pub fn write(&self, counters: &mut Counters, id: Id, n: usize, value: u32) -> bool {
        let each = |first: usize, bits: u32, clear: fn(&mut slot::Slot)| {
            let slots = self.vfs.iter().skip(first).take(32).enumerate();
            slots.filter(|(n, _)| bits >> n & 1 != 0).for_each(|(_, slot)| clear(&mut slot.lock()));
        };
        match id {
            PFMAILBOX::ID => {
                self.vfs.get(n).into_iter().for_each(|slot| slot.lock().mailbox.write_by_pf(value))
            }
            PFMBMEM::ID => {
                let Some(mut slot) = self.vfs.get(n / WORDS).map(SharedSlot::lock) else { return true };
                if !slot.mailbox.writers().1 {
                    counters.report(Rule::MailboxNotHeld, Register::of(id, n), value.into());
                }
                slot.mailbox.memory[n % WORDS] = value;
            }
            PFMBICR::ID => {
                each(16 * n, value & PFMBICR::VFREQ_MASK, |slot| slot.mailbox.request = false);
                each(16 * n, value >> PFMBICR::VFACK_SHIFT, |slot| slot.mailbox.acknowledged = false);
            }
            PFVFLREC::ID => each(32 * n, value, |slot| slot.was_reset = false),
            CTRL_EXT::ID => {
                let resetting = value & CTRL_EXT::PFRSTD == 0;
                self.vfs.iter().for_each(|slot| slot.lock().mailbox.set_resetting(resetting));
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Virtual functions that were reset have no pool until the physical function gives it back
    /// (PFVFRE and PFVFTE); `true` when one was, or has sent something through its mailbox that is not
    /// masked.
    pub fn notice(&mut self, registers: &mut Registers) -> (bool, bool) {
        let (mut told, mut changed) = (false, false);
        for (n, slot) in self.vfs.iter().enumerate() {
            let mut slot = slot.lock();
            let event = std::mem::take(&mut slot.mailbox.pf_event);
            let masked = registers.read(PFMBIMR::at(n / 32)) >> (n % 32) & 1 == 0;
            told |= event && (slot.was_reset || !masked);
            for at in [PFVFRE::at(n / 32), PFVFTE::at(n / 32)].into_iter().filter(|_| event && slot.was_reset)
            {
                let bits = registers.read(at);
                changed |= bits >> (n % 32) & 1 != 0;
                registers.write(at, bits & !(1 << (n % 32)));
            }
        }
        (told, changed)
    }
}

/// What becomes of a frame among pools.
struct Offered {
    /// Some pool wants it.
    wanted: bool,
    /// The physical function's does.
    own: bool,
    /// It is to an address inside.
    exact: bool,
    /// Bytes that were copied.
    copied: usize,
}

impl Offered {
    /// The physical function alone has what cannot be received.
    const TO_OWN: Offered = Offered { wanted: true, own: true, exact: false, copied: 0 };
}

/// The wire, with the pools in front of the physical function's receive side.
struct Switched<'a, C> {
    wire: &'a mut C,
    sriov: &'a Sriov,
    counters: &'a mut Counters,
    /// Whether frames are received at all.
    open: bool,
}

impl<C: Wire> Switched<'_, C> {
    /// Takes frames from the wire; those for the physical function.
    fn take(&mut self, scratch: &mut [u8]) -> (usize, Vec<(Vec<u8>, FrameError)>) {
        let Switched { wire, sriov, counters, open } = self;
        let mut own = Vec::new();
        let taken = wire.receive_burst(scratch, BURST, &mut |frame, fault| {
            let sound = *open && fault == FrameError::None && frame.len() >= MIN_FRAME;
            let offered = if sound { sriov.offer(counters, frame, None) } else { Offered::TO_OWN };
            counters.drops.rx_no_pool += u64::from(!offered.wanted);
            if offered.own {
                own.push((frame.to_vec(), fault));
            }
        });
        (taken, own)
    }
}

impl<D: Dma, P: Pages> Ixgbe<D, P> {
    /// What virtual functions have done since the last step.
    pub(super) fn notice_vfs(&mut self) {
        let Some(sriov) = &mut self.sriov else { return };
        let (told, changed) = sriov.notice(&mut self.registers);
        self.stale |= changed;
        if told {
            self.host.counters.interrupts.cause_other(EICR::MAILBOX);
        }
    }

    /// Whether frames pass by pools.
    pub(super) fn has_pools(&self) -> bool {
        self.sriov.as_ref().is_some_and(Sriov::has_pools)
    }

    /// Moves frames between the wire, the physical function and pools.
    #[cold]
    pub(super) fn step_pools<C: Wire>(&mut self, wire: &mut C) -> usize {
        let up = self.link.is_up();
        let Ixgbe { host, rx, tx, sriov, .. } = self;
        let Some(sriov) = sriov else { return 0 };
        let mut moved = 0;
        if tx.enabled && up && !self.link.tx_paused(self.now_ns) && wire.takes_frames() {
            moved += tx.step(host, self.now_ns, &mut |host, frame| {
                let inside = sriov.pools.loops() && sriov.offer(&mut host.counters, frame, None).exact;
                if !inside {
                    wire.transmit(frame);
                }
            });
        }
        let mut scratch = vec![0; crate::MAX_FRAME];
        let open = rx.closed.is_none();
        let (taken, own) = Switched { wire, sriov, counters: &mut host.counters, open }.take(&mut scratch);
        host.counters.rx_offered += taken as u64;
        for (frame, fault) in &own {
            rx.arrive(host, frame, *fault, false);
        }
        moved += taken + rx.step(host, None::<&mut C>);
        let may_forward = rx.closed != Some(Closed::LinkDown) && up && wire.takes_frames();
        moved + if may_forward { self.forward(wire) } else { 0 }
    }

    /// Forwards what virtual functions have sent, some of it: each has its turn, frame by frame.
    fn forward<C: Wire>(&mut self, wire: &mut C) -> usize {
        let Ixgbe { host, rx, sriov, .. } = self;
        let Some(sriov) = sriov else { return 0 };
        let most = BURST * sriov.vfs.len();
        let (mut moved, mut bytes) = (0, 0);
        while moved < most && bytes < BURST_BYTES {
            let Some((n, frame)) = sriov.next_sent() else { break };
            moved += 1;
            bytes += frame.len();
            let Some(frame) = sriov.pools.admit(n, frame) else {
                host.counters.drops.tx_spoofed += 1;
                sriov.vfs[n].lock().spoofed += 1;
                continue;
            };
            let mut inside = false;
            if sriov.pools.loops() {
                let offered = sriov.offer(&mut host.counters, &frame, Some(n));
                (inside, bytes) = (offered.exact, bytes + offered.copied);
                if offered.own {
                    host.counters.rx_offered += 1;
                    rx.arrive(host, &frame, FrameError::None, false);
                }
            }
            if !inside {
                bytes += frame.len();
                wire.transmit(&frame);
            }
        }
        rx.finish(host);
        moved
    }
}
