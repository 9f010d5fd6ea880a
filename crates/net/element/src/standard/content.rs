//! What the packets of a source hold that makes the same one over and over.

use graph::LONGEST;

/// What packets hold.
#[derive(Debug)]
pub(super) struct Content {
    /// What they begin with, over and over.
    pub(super) data: Vec<u8>,
    /// How long they are; below zero as long as the data.
    pub(super) length: i64,
    /// All of a packet.
    pub(super) bytes: Vec<u8>,
}

impl Content {
    /// Packets of so many bytes.
    pub(super) fn new(data: Vec<u8>, length: i64) -> Result<Content, String> {
        let wanted = usize::try_from(length).unwrap_or(data.len());
        if wanted > LONGEST {
            return Err(format!("packets of {wanted} bytes are too long: at most {LONGEST}"));
        }
        let filler = if data.is_empty() { &[0][..] } else { &data };
        let bytes = filler.iter().copied().cycle().take(wanted).collect();
        Ok(Content { data, length, bytes })
    }
}
