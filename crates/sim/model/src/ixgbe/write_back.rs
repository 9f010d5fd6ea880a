//! What the 82599's write-backs are known by (7.1.6.2, 7.2.3.2.4): the second word of a
//! descriptor, with a bit that says that it is done.

use regs::ixgbe::descriptor::{rx_high, tx};

use crate::chip::WriteBack;

/// Bytes of a descriptor.
const BYTES: usize = 16;
/// Where the second word stands.
const SECOND: usize = 8;

/// The 82599's [`WriteBackFormat`](crate::chip::WriteBackFormat).
pub fn write_back(offset: usize, word: u64) -> Option<WriteBack> {
    if offset % BYTES != SECOND {
        return None;
    }
    if word & rx_high::DD != 0 {
        return Some(WriteBack { done: rx_high::DD, length: 0xFFFF << rx_high::LENGTH_SHIFT });
    }
    (word & tx::DD != 0).then_some(WriteBack { done: tx::DD, length: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_are_recognized() {
        let received = 60 << 32 | 0b11;
        assert_eq!(write_back(8, received), Some(WriteBack { done: 1, length: 0xFFFF << 32 }));
        assert_eq!(write_back(24, 1 << 32), Some(WriteBack { done: 1 << 32, length: 0 }));
        assert_eq!((write_back(0, received), write_back(16, 1 << 32)), (None, None), "an address");
        assert_eq!(write_back(8, 1 << 33 | 2), None, "not done");
    }
}
