//! Content of requests, which is discarded (RFC 9112, section 7.1).

/// How far content has come that is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// So many bytes are left.
    Bytes(u64),
    /// The line in front of a chunk, with its length so far.
    Size {
        /// The chunk's length in bytes, as far as its digits came.
        size: u64,
        /// Digits that came; none behind an extension's beginning.
        digits: u8,
        /// An extension, which is not looked at.
        is_extension: bool,
        /// Whether CR came, so that LF must follow.
        has_cr: bool,
    },
    /// A chunk's bytes.
    Chunk(u64),
    /// CR and LF behind a chunk's bytes.
    ChunkEnd {
        /// Whether CR came.
        has_cr: bool,
    },
    /// Lines behind the last chunk.
    Trailer {
        /// How many bytes the present one has.
        len: u64,
        /// Whether CR came, so that LF must follow.
        has_cr: bool,
    },
}

/// Content that is no content, or that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong;

impl Rest {
    /// In front of the first chunk.
    pub const CHUNKED: Rest = Rest::Size { size: 0, digits: 0, is_extension: false, has_cr: false };
    /// In front of another content than chunks.
    pub fn bytes(count: u64) -> Rest {
        Rest::Bytes(count)
    }

    /// Throws bytes away; how many were of this content, and whether it is over. `limit` is
    /// what may still come, and goes down.
    ///
    /// # Errors
    /// [`Wrong`].
    pub fn skip(&mut self, input: &[u8], limit: &mut u64) -> Result<(usize, bool), Wrong> {
        let mut used = 0;
        loop {
            if matches!(self, Rest::Bytes(0)) {
                return Ok((used, true));
            }
            let rest = &input[used..];
            let Some(first) = rest.first() else { return Ok((used, false)) };
            let count = match self {
                Rest::Bytes(left) | Rest::Chunk(left) => (*left).clamp(1, rest.len() as u64),
                _ => 1,
            };
            *limit = limit.checked_sub(count).ok_or(Wrong)?;
            used += count as usize;
            match self {
                Rest::Bytes(left) => *left -= count,
                Rest::Chunk(left) if *left > count => *left -= count,
                Rest::Chunk(_) => *self = Rest::ChunkEnd { has_cr: false },
                Rest::ChunkEnd { has_cr } => match (*first, *has_cr) {
                    (b'\r', false) => *has_cr = true,
                    (b'\n', true) => *self = Rest::CHUNKED,
                    _ => return Err(Wrong),
                },
                Rest::Trailer { len, has_cr } => match (*first, *has_cr) {
                    (b'\n', true) if *len == 0 => return Ok((used, true)),
                    (b'\n', true) => (*len, *has_cr) = (0, false),
                    (b'\n', false) | (_, true) => return Err(Wrong),
                    (b'\r', false) => *has_cr = true,
                    (_, false) => *len += 1,
                },
                Rest::Size { .. } => *self = self.size(*first)?,
            }
        }
    }

    /// A byte of the line in front of a chunk.
    fn size(self, byte: u8) -> Result<Rest, Wrong> {
        let Rest::Size { size, digits, is_extension, has_cr } = self else { return Err(Wrong) };
        match (byte, (byte as char).to_digit(16)) {
            (b'\n', _) if has_cr && size == 0 => Ok(Rest::Trailer { len: 0, has_cr: false }),
            (b'\n', _) if has_cr => Ok(Rest::Chunk(size)),
            _ if has_cr || byte == b'\n' || digits == 0 && byte == b'\r' => Err(Wrong),
            (b'\r', _) => Ok(Rest::Size { size, digits, is_extension, has_cr: true }),
            (_, Some(digit)) if !is_extension && digits < 12 => {
                let size = size << 4 | u64::from(digit);
                Ok(Rest::Size { size, digits: digits + 1, is_extension, has_cr })
            }
            (b';' | b' ' | b'\t', _) if digits > 0 => {
                Ok(Rest::Size { size, digits, is_extension: true, has_cr })
            }
            _ if is_extension => Ok(self),
            _ => Err(Wrong),
        }
    }
}
