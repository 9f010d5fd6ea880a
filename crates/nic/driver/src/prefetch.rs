//! Descriptors on their way to this core before they are needed.

use crate::intel::layout::Descriptor;
use crate::ring::DescriptorRing;

/// Bytes of a cache line.
const LINE: usize = 64;

impl<D: Descriptor> DescriptorRing<D> {
    /// Brings up to `count` descriptors from a free-running index on to this
    /// core, to be written: one transfer of each line, where reading and then
    /// writing what another core holds would be two. Only worth it where the
    /// other side is done with them.
    #[inline(always)]
    pub(crate) fn prefetch_write(&self, index: u32, count: u32) {
        for ahead in (0..count).step_by(LINE / size_of::<D>()) {
            line_to_write(self.at(index.wrapping_add(ahead)));
        }
    }
}

/// As [`DescriptorRing::prefetch_write`], of descriptors that are neighbours.
#[inline(always)]
pub(crate) fn prefetch_write<D: Descriptor>(descriptors: &[D]) {
    descriptors.iter().step_by(LINE / size_of::<D>()).for_each(line_to_write);
}

#[inline(always)]
fn line_to_write<D: Descriptor>(descriptor: &D) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on the cache, and every
    // x86-64 processor takes this one, if only as a no-op.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) descriptor,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = descriptor;
}
