//! Content of requests, which is thrown away (RFC 9112, section 7.1).

/// How far content has come that is thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// So many bytes are left.
    Bytes(u64),
    /// The line in front of a chunk, with its length so far and whether a digit came.
    Size {
        /// The length.
        size: u64,
        /// Digits that came; none behind an extension's beginning.
        digits: u8,
        /// An extension, which is not looked at.
        is_extension: bool,
    },
    /// A chunk's bytes and what ends them.
    Chunk(u64),
    /// Lines behind the last chunk; how many bytes the present one has.
    Trailer(u64),
}

/// Content that is no content, or that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong;

impl Rest {
    /// In front of the first chunk.
    pub const CHUNKED: Rest = Rest::Size { size: 0, digits: 0, is_extension: false };
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
                Rest::Chunk(_) => *self = Rest::CHUNKED,
                Rest::Trailer(len) => match (*first, *len) {
                    (b'\n', 0) => return Ok((used, true)),
                    (b'\n', _) => *len = 0,
                    (b'\r', _) => {}
                    _ => *len += 1,
                },
                Rest::Size { .. } => *self = self.size(*first)?,
            }
        }
    }

    /// A byte of the line in front of a chunk.
    fn size(self, byte: u8) -> Result<Rest, Wrong> {
        let Rest::Size { size, digits, is_extension } = self else { return Err(Wrong) };
        match (byte, (byte as char).to_digit(16)) {
            (b'\n', _) if digits == 0 => Err(Wrong),
            (b'\n', _) if size == 0 => Ok(Rest::Trailer(0)),
            // Its bytes, and CR and LF.
            (b'\n', _) => Ok(Rest::Chunk(size + 2)),
            (_, Some(digit)) if !is_extension && digits < 12 => {
                Ok(Rest::Size { size: size << 4 | u64::from(digit), digits: digits + 1, is_extension })
            }
            (b'\r', _) => Ok(self),
            (b';' | b' ' | b'\t', _) if digits > 0 => Ok(Rest::Size { size, digits, is_extension: true }),
            _ if is_extension => Ok(self),
            _ => Err(Wrong),
        }
    }
}
