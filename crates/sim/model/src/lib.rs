//! The same NICs from inside: register access in, a view of DMA memory out.
//!
//! A model is a value that somebody steps, a [`Chip`]. It sees host memory through [`Dma`],
//! the registers it shares with the driver through [`Pages`], the cable through
//! [`Wire`] and wakes the host through [`Interrupts`]. It owns no thread, no
//! clock (time is an argument) and no memory of the host's. Everything that
//! comes from outside is hostile: bounded, counted, never a panic.
#![forbid(unsafe_code)]

mod checksum;
pub mod chip;
mod counters;
pub mod encap;
pub mod fixture;
mod headers;
pub mod i40e;
pub mod ixgbe;
pub mod lint;
mod relay;
mod rest;
mod segment;
mod toeplitz;
mod tx_headers;
pub mod virtio;

pub use chip::Chip;

/// The device's view of host memory. Implementors check every access; outside
/// of what is mapped they answer `None` or `false` and touch nothing.
pub trait Dma {
    /// A translated range of memory, see [`Window`].
    type Window: Window;

    /// Translates `len` bytes at `iova` once, for a descriptor ring. Valid until
    /// [`Dma::generation`] changes; the model asks again then.
    fn window(&self, iova: u64, len: u64) -> Option<Self::Window>;

    /// Copies from host memory; `false` when any byte is not mapped.
    fn read(&self, iova: u64, data: &mut [u8]) -> bool;

    /// Copies to host memory; `false` when any byte is not mapped.
    fn write(&self, iova: u64, data: &[u8]) -> bool;

    /// Changes whenever a mapping is added or removed.
    fn generation(&self) -> u64;

    /// Lets go of what is still held of memory that was taken back. The next access
    /// would do so too; a device that was reset makes none.
    fn forget(&self) {}
}

/// A translated range of host memory, accessed in little-endian words of 2, 4
/// and 8 bytes at byte offsets that are multiples of the word's length. Out of
/// range: loads give 0 and stores are ignored.
///
/// As they stand, the shorter stores write back the whole 8 bytes around them,
/// which loses what the host stores beside them meanwhile: implementors whose
/// host runs at the same time have their own.
pub trait Window {
    /// A relaxed load of the 8 bytes at `offset`.
    fn load(&self, offset: usize) -> u64;
    /// An acquire load: what is loaded later is no older than this.
    fn load_acquire(&self, offset: usize) -> u64;
    /// A relaxed store of the 8 bytes at `offset`.
    fn store(&self, offset: usize, value: u64);
    /// Release store: what was stored before is seen before it.
    fn store_release(&self, offset: usize, value: u64);

    /// Relaxed load of 16 bits.
    #[inline]
    fn load16(&self, offset: usize) -> u16 {
        (self.load(offset & !7) >> (8 * (offset & 6))) as u16
    }
    /// Acquire load of 16 bits.
    #[inline]
    fn load16_acquire(&self, offset: usize) -> u16 {
        (self.load_acquire(offset & !7) >> (8 * (offset & 6))) as u16
    }
    /// Acquire load of 32 bits.
    #[inline]
    fn load32_acquire(&self, offset: usize) -> u32 {
        (self.load_acquire(offset & !7) >> (8 * (offset & 4))) as u32
    }
    /// Release store of 16 bits.
    #[inline]
    fn store16_release(&self, offset: usize, value: u16) {
        let shift = 8 * (offset & 6);
        let rest = self.load(offset & !7) & !(0xFFFF << shift);
        self.store_release(offset & !7, rest | u64::from(value) << shift);
    }
    /// Relaxed store of 32 bits.
    #[inline]
    fn store32(&self, offset: usize, value: u32) {
        let shift = 8 * (offset & 4);
        let rest = self.load(offset & !7) & !(0xFFFF_FFFF << shift);
        self.store(offset & !7, rest | u64::from(value) << shift);
    }
}

/// The polled pages of BAR 0 ([`ixgbe::POLLED`]), memory that driver and model both
/// see. Offsets are those of BAR 0.
pub trait Pages {
    /// An acquire load of the register at `offset`.
    fn load(&self, offset: u32) -> u32;
    /// A release store of the register at `offset`.
    fn store(&self, offset: u32, value: u32);
}

/// What happened to a frame on its way over the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FrameError {
    /// Nothing: the CRC is right.
    #[default]
    None,
    /// The CRC is wrong.
    Crc,
    /// An illegal symbol came within the frame.
    Symbol,
}

/// Longest frame a wire may carry, in bytes without CRC.
pub const MAX_FRAME: usize = 16 * 1024 - 4;

/// Shortest legal frame, in bytes without CRC (IEEE 802.3, 4A.2.3).
pub const MIN_FRAME: usize = 60;

/// The cable. Frames have no CRC, here as in every software network; a wire
/// says through [`FrameError`] when it was wrong.
pub trait Wire {
    /// Writes the next frame for the host into `frame` (of [`MAX_FRAME`] bytes)
    /// and says how long it is; `None` when nothing waits.
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize>;

    /// Takes a frame from the host.
    fn transmit(&mut self, frame: &[u8]);

    /// Whether it takes frames at present. A device begins no step of sending while it does not,
    /// as when the other end has paused the link (IEEE 802.3, annex 31B), so that its rings fill;
    /// what such a step sends is taken, up to the 4 MiB that it may be.
    fn takes_frames(&self) -> bool {
        true
    }

    /// What happened to the frame that [`Wire::receive`] gave last.
    fn frame_error(&self) -> FrameError {
        FrameError::None
    }

    /// Gives up to `max` frames to `sink`, for a wire that need not copy them
    /// first; returns how many it gave. A frame is [`MAX_FRAME`] bytes at most;
    /// one shorter than [`MIN_FRAME`] is a runt, and lost. `scratch` is
    /// [`MAX_FRAME`] bytes to build frames in.
    ///
    /// As it stands it pads what [`Wire::receive`] gives, as a sender's MAC
    /// would, unless the frame has a [`FrameError`].
    #[inline]
    fn receive_burst(
        &mut self,
        scratch: &mut [u8],
        max: usize,
        sink: &mut impl FnMut(&[u8], FrameError),
    ) -> usize {
        for given in 0..max {
            let Some(len) = self.receive(scratch) else { return given };
            let mut len = len.min(scratch.len());
            let fault = self.frame_error();
            if len < MIN_FRAME && fault == FrameError::None {
                scratch[len..MIN_FRAME].fill(0);
                len = MIN_FRAME;
            }
            sink(&scratch[..len], fault);
        }
        max
    }

    /// Whether frames wait at the other end while the NIC has no room: a source
    /// without a rate of its own, and a capture that has not begun. Frames of other wires are lost (and counted) when
    /// the packet buffer is full.
    fn has_backpressure(&self) -> bool {
        false
    }

    /// Whether the other end is there: loss of light takes the link down.
    fn is_up(&self) -> bool {
        true
    }
}

/// Wakes the host: MSI-X vectors, or vector 0 for MSI and INTx.
pub trait Interrupts: Send {
    /// Sends the message of `vector`.
    fn raise(&mut self, vector: u16);
}
