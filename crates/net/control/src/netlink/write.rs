//! Messages as bytes: the requests that are sent to the kernel. Lengths are filled in when a
//! message or an attribute ends.

use super::{ALIGNMENT, Header};

/// Messages that are being written, one after the other.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Appends a message, whose body is what `fill` writes.
    pub fn message(&mut self, header: Header, fill: impl FnOnce(&mut Writer)) -> &mut Writer {
        let start = self.bytes.len();
        self.put(&0u32.to_ne_bytes());
        self.put(&header.kind.to_ne_bytes()).put(&header.flags.to_ne_bytes());
        self.put(&header.sequence.to_ne_bytes()).put(&header.port.to_ne_bytes());
        fill(self);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + size_of::<u32>()].copy_from_slice(&length.to_ne_bytes());
        self.align()
    }

    /// Appends an attribute, whose value is what `fill` writes.
    ///
    /// # Panics
    /// When the value does not fit into an attribute, which is 64 KiB long at most.
    pub fn attribute(&mut self, kind: u16, fill: impl FnOnce(&mut Writer)) -> &mut Writer {
        let start = self.bytes.len();
        self.put(&0u16.to_ne_bytes()).put(&kind.to_ne_bytes());
        fill(self);
        let length = u16::try_from(self.bytes.len() - start).expect("callers' values are short");
        self.bytes[start..start + size_of::<u16>()].copy_from_slice(&length.to_ne_bytes());
        self.align()
    }

    /// Appends bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Writer {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn align(&mut self) -> &mut Writer {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    /// What was written.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}
