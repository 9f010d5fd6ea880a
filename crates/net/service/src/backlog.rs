//! Bytes that came and wait to be taken.

/// Bytes in order, of which the first are taken as they can be.
///
/// What was taken stays in the buffer until it is half of it, so that each byte is moved a
/// few times at most, however little is taken at once.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    /// How many of them were taken.
    taken: usize,
}

impl Backlog {
    /// Appends bytes, a copy of them.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What was not taken.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// Whether all was taken.
    pub fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    /// Takes the first bytes of the rest.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
        if self.is_empty() {
            *self = Backlog::default();
        } else if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Bytes of memory that it takes.
    pub fn held(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_moves_the_rest_now_and_then_only() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        let mut backlog = Backlog::default();
        backlog.push(&bytes);
        let (mut taken, mut moved) = (0, 0);
        while !backlog.is_empty() {
            let next = backlog.rest().as_ptr().wrapping_add(100);
            backlog.take(100);
            taken += 100;
            assert_eq!(backlog.rest(), &bytes[taken..]);
            moved += if backlog.rest().as_ptr() == next { 0 } else { backlog.rest().len() };
        }
        assert!(moved <= bytes.len(), "{moved} bytes were moved");
        assert_eq!(backlog.held(), 0);
    }
}
