//! Sequence numbers, which wrap (RFC 9293, section 3.4).

/// A sequence number. Two of them can be compared when they are less than 2³¹ apart, as all
/// are that stand in one window (RFC 7323, section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sequence(pub u32);

impl Sequence {
    /// Whether this one stands before another.
    #[inline(always)]
    pub fn is_before(self, other: Sequence) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether this one stands behind another.
    #[inline(always)]
    pub fn is_after(self, other: Sequence) -> bool {
        other.is_before(self)
    }

    /// The number so many behind this one.
    #[inline(always)]
    pub fn plus(self, count: u32) -> Sequence {
        Sequence(self.0.wrapping_add(count))
    }

    /// How many numbers lie between an earlier one and this one.
    #[inline(always)]
    pub fn since(self, earlier: Sequence) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The later of two.
    #[inline(always)]
    pub fn max(self, other: Sequence) -> Sequence {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of two.
    #[inline(always)]
    pub fn min(self, other: Sequence) -> Sequence {
        if other.is_before(self) { other } else { self }
    }
}

/// Whether a clock of 32 bits that wraps showed `a` before it showed `b`: the comparison of
/// RFC 7323, section 5.2, for timestamps.
#[inline(always)]
pub fn is_earlier(a: u32, b: u32) -> bool {
    Sequence(a).is_before(Sequence(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_across_the_wrap() {
        let (a, b) = (Sequence(u32::MAX - 1), Sequence(3));
        assert!(a.is_before(b) && b.is_after(a) && !b.is_before(a) && !a.is_before(a));
        assert_eq!((a.plus(5), b.since(a), a.max(b), a.min(b)), (b, 5, b, a));
        assert!(is_earlier(u32::MAX, 0) && !is_earlier(0, 0));
    }
}
