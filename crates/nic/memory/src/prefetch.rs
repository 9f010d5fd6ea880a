//! Bringing memory towards the cache before it is needed, so that what is far away comes while
//! other work is done.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Brings the first line of a value towards the cache.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_lines(value, 1);
}

/// Brings up to so many lines of a value towards the cache, from its first on.
#[inline(always)]
pub fn prefetch_lines<T>(value: &T, lines: usize) {
    let first: *const u8 = (&raw const *value).cast();
    for line in 0..lines.min(size_of::<T>().div_ceil(LINE)) {
        prefetch_line(first.wrapping_add(line * LINE));
    }
}

/// Brings the line at an address towards the cache. The address may be any.
#[inline(always)]
pub(crate) fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on the cache, whatever the address; SSE is always
    // there.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
