//! Forwarding in fixed buffers: a port's receive ring and the transmit rings of its outputs have
//! the same buffers in the same order, and what came into a slot is sent from that slot. So a
//! packet needs no pool, no metadata and no second descriptor: the first output's ring *is* the
//! receive ring. This is TinyNF's model (Pirelli and Candea, OSDI 2020).
//!
//! What it cannot do: keep a packet, change the order of packets, put headers in front, receive
//! frames of several buffers. A buffer is received into again when all outputs are done with
//! it, so the slowest output holds up all; then the ring runs dry, and the device counts what
//! it misses. `ring` makes a ring of ports' queues, `queue` is a ring's share of a port.
//!
//! Section numbers are those of the 82599 datasheet, revision 3.4.

mod queue;
pub(crate) mod ring;

use std::hint;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bus::{Register, order};
use memory::{DATA_ROOM, Region};
use port::{OptionError, Options};
use regs::ixgbe::descriptor::{rx_legacy, tx_legacy};

use super::chip::ChipInfo;
use super::port::Init;
use super::scatter::scatters;
use crate::{Result, prefetch::prefetch_write, ring::DescriptorRing};
pub use queue::{FixedRx, FixedTx};

/// The bytes of a buffer: a frame is in the first of them, and behind it what earlier frames left.
pub type Frame = [u8; DATA_ROOM];

/// A descriptor, receive or transmit: address and command.
type Slot = [AtomicU64; 2];

/// The bits that tell a whole good frame of 1 to [`DATA_ROOM`] bytes from all else that a device
/// may write back (7.1.5), once one was subtracted from the length; and what they are then.
const WRITE_BACK_MASK: u64 =
    rx_legacy::DD | rx_legacy::EOP | rx_legacy::RXE | rx_legacy::LENGTH_MASK & !(DATA_ROOM as u64 - 1);
const WHOLE: u64 = rx_legacy::DD | rx_legacy::EOP;
const _: () = assert!(DATA_ROOM.is_power_of_two());
/// No descriptor has [`WRITE_BACK_MASK`] like this: while the rest of a long frame comes.
const REST: u64 = u64::MAX;

/// A descriptor that sends its bytes (7.2.3.2.2). One of no bytes sends nothing.
const SEND: u64 = tx_legacy::EOP | tx_legacy::IFCS;

/// What a chip does for fixed buffers beside what its queues need anyway.
pub trait FixedChip: Init {
    /// Has a transmit queue write its head in order.
    fn order_heads(&self, queue: usize);
    /// The head of a transmit queue, as a register.
    fn tx_head(&self, queue: usize) -> Register;
}

/// The options of a port that is opened, if fixed buffers go together with the others.
pub(super) fn checked(options: Options, info: &ChipInfo) -> Result<Options> {
    if !options.fixed_buffers {
        return Ok(options);
    }
    let options = Options { timestamps: false, ..options }; // there is no place for them
    let can = info.features.contains(&port::Feature::FixedBuffers);
    let refuse = |option, value, limit| Err(OptionError { option, value, limit }.into());
    let queues = options.rx_queues.max(options.tx_queues);
    match () {
        () if !can => refuse(
            "the number of fixed rings",
            1,
            "this device's driver has no fixed buffers: leave them out",
        ),
        () if queues > 1 => refuse("the number of queues", queues, "fixed buffers have one of each kind"),
        () if scatters(&options) => {
            refuse("the largest frame", options.max_frame, "with fixed buffers it has to fit one, of 2 KiB")
        }
        () if options.interrupts => refuse("interrupts", 1, "fixed buffers are polled: leave them out"),
        () if options.vlan_strip => {
            refuse("VLAN strip", 1, "fixed buffers have no place for a tag beside the frame: leave it out")
        }
        () => Ok(Options { completion: port::Completion::Head, ..options }),
    }
}

/// A ring of buffers from one port to `N` others, used by one thread. Its queues stop when it
/// is dropped; what is under way is sent before.
pub struct FixedRing<const N: usize> {
    /// The first is the receive ring, too.
    rings: [DescriptorRing<Slot>; N],
    buffers: Box<[Buffer]>,
    /// The slot to be received from next, and sent from: free-running.
    next: u32,
    /// One past the last slot that the device may receive into, free-running.
    given: u32,
    /// What a slot with a whole frame has of [`WRITE_BACK_MASK`].
    whole: u64,
    /// So often a report is asked for, in slots: a power of two.
    period: u32,
    /// The last call found as much as it was to take.
    backlog: bool,
    dropped: u64,
    rx: FixedRx,
    tx: [FixedTx; N],
    /// Where the buffers are.
    memory: Vec<Region>,
}

/// Where a slot's frame lies.
struct Buffer(NonNull<Frame>);

// SAFETY: the ring has the only pointers to its buffers, in memory that it keeps.
unsafe impl Send for Buffer {}

/// What a call did.
struct Tally<const N: usize> {
    bytes: u64,
    /// Slots without a frame that could be used.
    refused: u64,
    /// Frames that go to no output.
    dropped: u64,
    /// Frames that do not go to an output; and bytes that it gets less than came, wrapping.
    unsent: [u64; N],
    unsent_bytes: [u64; N],
    /// Frames that are longer than a buffer, by the word of who made them.
    too_long: [u64; N],
}

impl<const N: usize> Tally<N> {
    const NOTHING: Tally<N> =
        Tally { bytes: 0, refused: 0, dropped: 0, unsent: [0; N], unsent_bytes: [0; N], too_long: [0; N] };

    /// The commands that send so many bytes of a frame of `len` to each output.
    #[inline(always)]
    fn commands(&mut self, len: usize, lengths: [usize; N]) -> [u64; N] {
        self.bytes += len as u64;
        self.dropped += u64::from(lengths == [0; N]);
        let mut commands = [SEND; N];
        for n in 0..N {
            let is_long = lengths[n] > DATA_ROOM;
            self.too_long[n] += u64::from(is_long);
            let sent = if is_long { 0 } else { lengths[n] as u64 };
            self.unsent[n] += u64::from(sent == 0);
            self.unsent_bytes[n] = self.unsent_bytes[n].wrapping_add(len as u64).wrapping_sub(sent);
            commands[n] |= sent;
        }
        commands
    }
}

impl<const N: usize> FixedRing<N> {
    /// Takes up to `limit` frames that came: `work` sees each with its length, may change it,
    /// and says how many bytes of it go to each output: zero for none. A frame that goes to no
    /// output is dropped. How many were taken, those that cannot be used among them; never blocks.
    #[inline(always)]
    pub fn forward(&mut self, limit: usize, mut work: impl FnMut(&mut Frame, usize) -> [usize; N]) -> usize {
        let (begin, owned) = (self.next, self.given.wrapping_sub(self.next));
        let end = begin.wrapping_add(owned.min(u32::try_from(limit).unwrap_or(u32::MAX)));
        let mut tally = Tally::NOTHING;
        while self.next != end {
            // To the next report at most, and with that not past the ring's end.
            let to_report = self.period - (self.next & (self.period - 1));
            let count = to_report.min(end.wrapping_sub(self.next));
            let taken = self.take(count, &mut tally, &mut work);
            self.next = self.next.wrapping_add(taken);
            if taken < count {
                break;
            }
            if count == to_report {
                self.ask_for_report();
            }
        }
        let moved = self.next.wrapping_sub(begin);
        self.backlog = moved > 0 && self.next == end;
        if moved == 0 {
            self.give_back();
            self.rx.stats.empty_polls += 1;
            // As in any receive queue: looking again at once would only take the line away.
            hint::spin_loop();
            return 0;
        }
        order::before_doorbell();
        self.tx.iter().for_each(|tx| tx.tail.write(self.rings[0].offset(self.next)));
        if (begin ^ self.next) & !(self.period - 1) != 0 {
            self.give_back();
        }
        self.count(u64::from(moved), &tally);
        moved as usize
    }

    /// Takes what there is of the next `count` slots, which do not go past the ring's end; how
    /// many.
    #[inline(always)]
    fn take(
        &mut self,
        count: u32,
        tally: &mut Tally<N>,
        work: &mut impl FnMut(&mut Frame, usize) -> [usize; N],
    ) -> u32 {
        let (start, backlog, mut whole, mut taken) = (self.next, self.backlog, self.whole, 0);
        let Some((first, others)) = self.rings.split_first_mut() else { return 0 };
        let buffers = self.buffers.get(first.offset(start) as usize..).unwrap_or_default();
        let (slots, _) = first.slice(start, count);
        if backlog {
            prefetch_write(slots); // whatever is in them
        }
        for (slot, buffer) in slots.iter().zip(buffers) {
            let word = slot[1].load(Relaxed);
            // From no bytes at all it borrows, and the length's upper bits are ones.
            let commands = if word.wrapping_sub(1) & WRITE_BACK_MASK == whole {
                order::after_ready(); // all that the device wrote before the done bit
                let len = (word & rx_legacy::LENGTH_MASK) as usize;
                // SAFETY: otherwise the bits would not be those of a whole frame.
                unsafe { hint::assert_unchecked((1..=DATA_ROOM).contains(&len)) };
                // SAFETY: the device is done with the buffer, which is ours until a tail
                // gives it away; nobody else has a pointer to it.
                tally.commands(len, work(unsafe { &mut *buffer.0.as_ptr() }, len))
            } else if word & rx_legacy::DD == 0 {
                break;
            } else {
                whole = self.rx.refuse(word);
                tally.refused += 1;
                [SEND; N]
            };
            slot[1].store(commands[0], Relaxed);
            for (ring, command) in others.iter().zip(&commands[1..]) {
                ring.at(start.wrapping_add(taken))[1].store(*command, Relaxed);
            }
            taken += 1;
        }
        self.whole = whole;
        taken
    }

    /// Has the devices tell how far they are when they are done with the last slot.
    #[inline(always)]
    fn ask_for_report(&mut self) {
        for ring in &self.rings {
            let command = &ring.at(self.next.wrapping_sub(1))[1];
            command.store(command.load(Relaxed) | tx_legacy::RS, Relaxed);
        }
    }

    /// Gives the buffers with which all outputs are done to the device that receives.
    #[inline(never)]
    fn give_back(&mut self) {
        let next = self.next;
        let behind = self.tx.iter_mut().map(|tx| tx.with_device(next)).max();
        // One slot stays empty: head = tail means that the device owns nothing (7.1.9).
        let given = next.wrapping_sub(behind.unwrap_or(0)).wrapping_add(self.rings[0].size() - 1);
        if given != self.given {
            self.given = given;
            order::before_doorbell();
            self.rx.tail.write(self.rings[0].offset(given));
        }
    }

    /// Adds what a call did to the statistics.
    #[inline(always)]
    fn count(&mut self, slots: u64, tally: &Tally<N>) {
        let frames = slots - tally.refused;
        self.dropped += tally.dropped;
        let stats = &mut self.rx.stats;
        stats.packets += frames;
        stats.bytes += tally.bytes;
        stats.bursts += u64::from(frames > 0);
        for (n, tx) in self.tx.iter_mut().enumerate() {
            let sent = frames - tally.unsent[n];
            tx.stats.packets += sent;
            tx.stats.bytes += tally.bytes.wrapping_sub(tally.unsent_bytes[n]);
            tx.stats.bursts += u64::from(sent > 0);
            tx.posted = self.next;
            if tally.too_long[n] > 0 {
                tx.unsendable.add(tally.too_long[n]);
            }
        }
    }

    /// Frames that went to no output, by the word of who looked at them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Its queues, for their statistics: of the port that receives, and of the outputs.
    pub fn queues(&mut self) -> (&mut FixedRx, &mut [FixedTx; N]) {
        (&mut self.rx, &mut self.tx)
    }
}
