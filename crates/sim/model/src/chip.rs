//! What every model does for whoever puts it into a PCI function: its first BAR,
//! steps, counters and findings. What only some can do is a trait of its own, which
//! [`Chip`] gives where there is one.

mod words;

pub use words::copy_word;

use crate::Wire;
use crate::lint::Broken;

/// A model of a chip, whatever chip it is, with a wire `W` in its port.
pub trait Chip<W: Wire>: Send {
    /// What it is called: `82599`.
    fn name(&self) -> &'static str;
    /// Reads aligned 32 bits of BAR 0.
    fn read(&mut self, offset: u32) -> u32;
    /// Writes aligned 32 bits of BAR 0.
    fn write(&mut self, offset: u32, value: u32);
    /// An access of `len` bytes at `offset` was made, a width or alignment that no
    /// register has.
    fn odd(&mut self, offset: u32, len: usize) {
        let _ = (offset, len);
    }
    /// Reads bytes of BAR 0; `false` for a width or alignment that no register
    /// has. As it stands, registers have 32 bits.
    fn read_bytes(&mut self, offset: u32, data: &mut [u8]) -> bool {
        words::read::<W, Self>(self, offset, data)
    }
    /// Writes bytes of BAR 0, as [`Chip::read_bytes`].
    fn write_bytes(&mut self, offset: u32, data: &[u8]) -> bool {
        words::write::<W, Self>(self, offset, data)
    }
    /// Bus Master Enable of the PCI command register was set or cleared. The
    /// device's view of memory is shut without it; a chip can say why.
    fn set_bus_master(&mut self, on: bool) {
        let _ = on;
    }
    /// Does what is to be done now; packets moved.
    fn step(&mut self, wire: &mut W, now_ns: u64) -> usize;
    /// As [`Chip::step`], but packets of one pair of queues alone, where a chip can do that.
    fn step_queue(&mut self, wire: &mut W, now_ns: u64, queue: usize) -> usize {
        let _ = queue;
        self.step(wire, now_ns)
    }
    /// As after power-on.
    fn reset(&mut self);
    /// The chip's own counters, by name.
    fn counters(&mut self) -> Vec<(&'static str, u64)>;
    /// Packets that it lost, by name; names of which there are none may be left out.
    fn drops(&self) -> Vec<(&'static str, u64)>;
    /// What the linter found: one entry for each rule, the most severe first.
    fn findings(&self) -> Vec<Broken> {
        Vec::new()
    }
    /// Its rings, if they can be set up by somebody else than a driver of its
    /// registers.
    fn rings(&mut self) -> Option<&mut dyn Rings> {
        None
    }
    /// How to make it misbehave, if that can be done.
    fn fault_injection(&mut self) -> Option<&mut dyn FaultInjection> {
        None
    }
}

/// A ring as it is handed over: where its parts are, as the device sees memory, and
/// where to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSetup {
    /// How many descriptors it has.
    pub size: u16,
    /// The descriptors' address.
    pub descriptors: u64,
    /// The address of what the driver tells.
    pub driver: u64,
    /// The address of what the device tells.
    pub device: u64,
    /// Where the ring goes on.
    pub base: u32,
}

/// Rings that are set up from outside, as vhost-user does. They are numbered as in
/// the specification, without a control queue, which stays with the front end.
pub trait Rings {
    /// The features it has.
    fn features(&self) -> u64;
    /// The features in use from now on, some of [`features`](Rings::features);
    /// no ring runs.
    fn set_features(&mut self, features: u64);
    /// Queue pairs it has.
    fn pairs(&self) -> u16;
    /// Starts a ring; `false` if it cannot lie there.
    fn start(&mut self, index: u16, ring: &RingSetup) -> bool;
    /// A ring that is not enabled takes and gives nothing.
    fn enable(&mut self, index: u16, on: bool);
    /// Stops a ring; its base, to go on from there.
    fn stop(&mut self, index: u16) -> u32;
    /// Whether the driver broke the ring's rules, so that it no longer runs.
    fn is_broken(&self, index: u16) -> bool;
}

/// A device that can be told to do, of its own accord, what none should.
pub trait FaultInjection {
    /// Does it, now.
    fn inject(&mut self, fault: DeviceFault);
}

/// What a device can be told to do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceFault {
    /// It meets an error, stops, and asks for a reset.
    NeedsReset,
    /// It is as after power-on.
    Reset,
    /// The number of queue pairs in its configuration changes.
    Pairs(u16),
    /// The MTU in its configuration changes, not what it receives.
    Mtu(u16),
    /// Its speed and address change between any two of so many accesses of its
    /// configuration.
    Unsettled(u32),
}

/// A word that a chip stores into a descriptor to say that it is done with it, as far as
/// whoever injects faults into such stores has to know it. A model has a [`WriteBackFormat`]
/// that recognizes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBack {
    /// The bits that say so.
    pub done: u64,
    /// The bits of the length, where it tells one.
    pub length: u64,
}

/// What a store of a word, at a byte's offset into a ring, says; `None` of one that reports
/// nothing.
pub type WriteBackFormat = fn(offset: usize, word: u64) -> Option<WriteBack>;
