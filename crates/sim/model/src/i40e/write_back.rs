//! What the XL710's write-backs are known by (datasheet 332464, chapters 7 and 8): the second
//! word of a descriptor of the rings, and the first of one of the admin queue.

use regs::i40e::admin::flag;
use regs::i40e::descriptor::{rx_high, tx};

use crate::chip::WriteBack;

/// Descriptors have 16 or 32 bytes; the second word stands at the same place in both.
const BYTES: usize = 16;
const SECOND: usize = 8;
/// Where the admin queue's first word has the bytes of the buffer.
const DATALEN_SHIFT: u32 = 32;

/// The XL710's [`WriteBackFormat`](crate::chip::WriteBackFormat).
pub fn write_back(offset: usize, word: u64) -> Option<WriteBack> {
    // The first word of a received frame has zeroes where the flags of an answer stand.
    let answered = u64::from(flag::DD | flag::CMP);
    if offset == 0 && word & answered == answered {
        return Some(WriteBack { done: flag::DD.into(), length: 0xFFFF << DATALEN_SHIFT });
    }
    if offset % BYTES != SECOND {
        return None;
    }
    if word == tx::DTYPE_DONE {
        return Some(WriteBack { done: tx::DTYPE_DONE, length: 0 });
    }
    (word & rx_high::DD != 0).then_some(WriteBack { done: rx_high::DD, length: rx_high::LENGTH_MASK })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_are_recognized() {
        let length = rx_high::LENGTH_MASK;
        assert_eq!(write_back(8, 60 << 38 | 0b11), Some(WriteBack { done: 1, length }));
        assert_eq!(write_back(24, 0xF), Some(WriteBack { done: 0xF, length: 0 }));
        assert_eq!(write_back(0, 0x2003), Some(WriteBack { done: 1, length: 0xFFFF << 32 }));
        assert_eq!((write_back(0, 7 << 32), write_back(16, 3)), (None, None), "hash, address");
        assert_eq!(write_back(8, 60 << 38), None, "not done");
    }
}
