//! memcached's binary protocol: the header of requests and of answers
//! (draft-stone-memcache-binary-01, section 2), its opcodes and statuses; and what stands in front
//! of a datagram of either protocol over UDP (memcached's `doc/protocol.txt`).

use std::borrow::{Borrow, BorrowMut};

/// Bytes of the header.
pub const HEADER_LEN: usize = 24;

/// Bytes of what stands in front of a datagram.
pub const FRAME_LEN: usize = 8;

/// What the first byte says.
pub mod magic {
    /// The packet is a client's request.
    pub const REQUEST: u8 = 0x80;
    /// The packet is a server's answer.
    pub const RESPONSE: u8 = 0x81;
}

/// What is asked for (section 3.3, and touch as memcached has it). What is *quiet* is
/// answered only when there is something to tell.
#[allow(missing_docs, reason = "the names are those of the draft")]
pub mod opcode {
    pub const GET: u8 = 0x00;
    pub const SET: u8 = 0x01;
    pub const ADD: u8 = 0x02;
    pub const REPLACE: u8 = 0x03;
    pub const DELETE: u8 = 0x04;
    pub const INCREMENT: u8 = 0x05;
    pub const DECREMENT: u8 = 0x06;
    pub const QUIT: u8 = 0x07;
    pub const FLUSH: u8 = 0x08;
    pub const GETQ: u8 = 0x09;
    pub const NOOP: u8 = 0x0A;
    pub const VERSION: u8 = 0x0B;
    pub const GETK: u8 = 0x0C;
    pub const GETKQ: u8 = 0x0D;
    pub const APPEND: u8 = 0x0E;
    pub const PREPEND: u8 = 0x0F;
    pub const STAT: u8 = 0x10;
    pub const SETQ: u8 = 0x11;
    pub const ADDQ: u8 = 0x12;
    pub const REPLACEQ: u8 = 0x13;
    pub const DELETEQ: u8 = 0x14;
    pub const INCREMENTQ: u8 = 0x15;
    pub const DECREMENTQ: u8 = 0x16;
    pub const QUITQ: u8 = 0x17;
    pub const FLUSHQ: u8 = 0x18;
    pub const APPENDQ: u8 = 0x19;
    pub const PREPENDQ: u8 = 0x1A;
    pub const VERBOSITY: u8 = 0x1B;
    pub const TOUCH: u8 = 0x1C;
    pub const GAT: u8 = 0x1D;
    pub const GATQ: u8 = 0x1E;
    pub const GATK: u8 = 0x23;
    pub const GATKQ: u8 = 0x24;
}

/// What came of a request (section 3.2).
#[allow(missing_docs, reason = "the names are those of the draft")]
pub mod status {
    pub const NO_ERROR: u16 = 0x00;
    pub const KEY_NOT_FOUND: u16 = 0x01;
    pub const KEY_EXISTS: u16 = 0x02;
    pub const VALUE_TOO_LARGE: u16 = 0x03;
    pub const INVALID_ARGUMENTS: u16 = 0x04;
    pub const ITEM_NOT_STORED: u16 = 0x05;
    pub const NOT_NUMERIC: u16 = 0x06;
    pub const UNKNOWN_COMMAND: u16 = 0x81;
    pub const OUT_OF_MEMORY: u16 = 0x82;
}

header! {
    /// What a request or an answer begins with. Extras, key and value follow.
    Header[24]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// Whether it is a request or an answer.
    pub fn magic(&self) -> u8 {
        self.get::<0, _>()
    }

    /// What is asked for.
    pub fn opcode(&self) -> u8 {
        self.get::<1, _>()
    }

    /// Bytes of the key.
    pub fn key_len(&self) -> u16 {
        self.get::<2, _>()
    }

    /// Bytes of the extras.
    pub fn extras_len(&self) -> u8 {
        self.get::<4, _>()
    }

    /// What came of the request; reserved in requests.
    pub fn status(&self) -> u16 {
        self.get::<6, _>()
    }

    /// Bytes of extras, key and value together.
    pub fn body_len(&self) -> u32 {
        self.get::<8, _>()
    }

    /// What the client is given back.
    pub fn opaque(&self) -> u32 {
        self.get::<12, _>()
    }

    /// The number by which changes are noticed; zero for none.
    pub fn cas(&self) -> u64 {
        u64::from(self.get::<16, u32>()) << 32 | u64::from(self.get::<20, u32>())
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets whether it is a request or an answer, and what is or was asked for.
    pub fn set_kind(&mut self, magic: u8, opcode: u8) {
        self.set::<0, _>(magic);
        self.set::<1, _>(opcode);
    }

    /// Sets the lengths of extras, key and value.
    pub fn set_lens(&mut self, extras: u8, key: u16, value: u32) {
        self.set::<4, _>(extras);
        self.set::<2, _>(key);
        self.set::<8, _>(value.saturating_add(u32::from(extras) + u32::from(key)));
    }

    /// Sets what came of the request.
    pub fn set_status(&mut self, status: u16) {
        self.set::<6, _>(status);
    }

    /// Sets what the client is given back.
    pub fn set_opaque(&mut self, opaque: u32) {
        self.set::<12, _>(opaque);
    }

    /// Sets the number by which changes are noticed.
    pub fn set_cas(&mut self, cas: u64) {
        self.set::<16, _>((cas >> 32) as u32);
        self.set::<20, _>(cas as u32);
    }
}

header! {
    /// What stands in front of a datagram over UDP: of which request it is, and its number among those
    /// of an answer. The last two bytes are reserved, and zero.
    Frame[8]
}

impl<T: Borrow<[u8; FRAME_LEN]>> Frame<T> {
    /// The number of the request, which the client chose.
    pub fn request(&self) -> u16 {
        self.get::<0, _>()
    }

    /// The number of this datagram, from zero.
    pub fn sequence(&self) -> u16 {
        self.get::<2, _>()
    }

    /// How many datagrams the message has.
    pub fn total(&self) -> u16 {
        self.get::<4, _>()
    }
}

impl<T: BorrowMut<[u8; FRAME_LEN]>> Frame<T> {
    /// Sets the number of the request.
    pub fn set_request(&mut self, number: u16) {
        self.set::<0, _>(number);
    }

    /// Sets the number of this datagram, and how many the message has.
    pub fn set_sequence(&mut self, number: u16, total: u16) {
        self.set::<2, _>(number);
        self.set::<4, _>(total);
    }
}
