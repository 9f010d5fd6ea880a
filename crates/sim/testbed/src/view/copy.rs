//! Copying between host memory and our own, without a call for short frames.

use std::ptr::copy_nonoverlapping;

/// Copies `len` bytes.
///
/// Sixteen to 64 bytes, the frames that matter when packets per second count,
/// are four moves that may overlap each other; the rest is `memcpy`.
///
/// # Safety
/// `len` bytes must be readable at `from` and writable at `to`, and must not
/// overlap. The host may change its side meanwhile: the copy then holds some
/// mixture of old and new bytes, which is what a device's DMA would see too.
#[inline(always)]
pub(super) unsafe fn bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every move below starts at most at `len - 16` and at least at
    // zero, for lengths of 16 to 64; the caller vouches for the rest.
    unsafe {
        if !(16..=64).contains(&len) {
            return copy_nonoverlapping(from, to, len);
        }
        let move16 = |at: usize| copy_nonoverlapping(from.add(at), to.add(at), 16);
        move16(0);
        if len > 32 {
            move16(16);
            move16(len - 32);
        }
        move16(len - 16);
    }
}
