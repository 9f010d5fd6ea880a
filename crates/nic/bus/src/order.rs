//! The three memory orderings a descriptor ring needs, and nothing more.
//!
//! A device watches memory from outside the language's memory model, so the
//! argument is made per architecture. x86 (SDM volume 3, 9.2): stores to
//! write-back memory are seen in program order, also before a later store to
//! uncached memory or to a page another process polls, and loads are not
//! reordered with loads; only the compiler has to be held back, and a load from
//! an earlier store. Arm (ARM DDI 0487, B2.3): none of this holds, a `dmb` of the
//! outer shareable domain is needed, as devices are observers outside of the inner
//! one. An acquire load or a fence of the language orders for other threads, which
//! are in the inner one, so it is not enough.

/// Call after filling descriptors and before writing the tail register:
/// whoever sees the new tail also sees the descriptors.
#[inline(always)]
pub fn before_doorbell() {
    #[cfg(target_arch = "x86_64")]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier; it changes no register and no memory. Without
    // `nomem` the compiler moves no access across it.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Call after seeing a descriptor's done bit and before reading the rest of
/// the descriptor or the packet, or using its memory again: what the device wrote
/// earlier is seen, and what it read earlier is not changed under it.
#[inline(always)]
pub fn after_ready() {
    #[cfg(target_arch = "x86_64")]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as in `before_doorbell`.
    unsafe {
        std::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Call after a store by which a device is told something (descriptors, or that an
/// interrupt is wanted) and before looking whether it already did something else about
/// it: one of both sides sees what the other wrote.
#[inline(always)]
pub fn before_look() {
    #[cfg(not(target_arch = "aarch64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as in `before_doorbell`.
    unsafe {
        std::arch::asm!("dmb osh", options(nostack, preserves_flags));
    }
}
