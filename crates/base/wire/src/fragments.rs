//! The payload of an IP packet that comes in fragments, as far as it is there (RFC 791,
//! section 3.2; RFC 8200, section 4.5): in pages, of which only those exist that bytes came
//! for, so that one short fragment with a high offset costs a page and not the 64 KiB in front
//! of it. Which packet a fragment belongs to, and how long it is waited for, is for the caller.

/// Bytes of a unit: fragments begin at a multiple of it.
const UNIT: usize = 8;
/// Units of a page, a bit for each.
const UNITS: usize = u128::BITS as usize;
/// Bytes of a page.
const PAGE: usize = UNITS * UNIT;

struct Page {
    bytes: [u8; PAGE],
    /// Which units are there.
    there: u128,
}

/// Bytes by their place, some of which may be missing.
#[derive(Default)]
pub struct Pieces {
    pages: Vec<Option<Box<Page>>>,
    /// Pages that exist.
    used: usize,
    /// Units that are there.
    units: usize,
    /// Bytes up to the last one that came.
    len: usize,
}

impl Pieces {
    /// Takes `bytes`, which begin at a multiple of a unit. Units that are there already stay
    /// as they are.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.len = self.len.max(at + bytes.len());
        let pages = self.len.div_ceil(PAGE);
        if self.pages.len() < pages {
            self.pages.resize_with(pages, || None);
        }
        for (i, unit) in bytes.chunks(UNIT).enumerate() {
            let place = at / UNIT + i;
            let page = self.pages[place / UNITS].get_or_insert_with(|| {
                self.used += 1;
                Box::new(Page { bytes: [0; PAGE], there: 0 })
            });
            let (bit, start) = (1 << (place % UNITS), place % UNITS * UNIT);
            if page.there & bit == 0 {
                page.there |= bit;
                page.bytes[start..start + unit.len()].copy_from_slice(unit);
                self.units += 1;
            }
        }
    }

    /// How many units of `bytes`, which begin at a multiple of a unit, are there already, and
    /// whether all of those are the same.
    fn compare(&self, at: usize, bytes: &[u8]) -> (usize, bool) {
        let (mut there, mut is_same) = (0, true);
        for (i, unit) in bytes.chunks(UNIT).enumerate() {
            let place = at / UNIT + i;
            let Some(Some(page)) = self.pages.get(place / UNITS) else { continue };
            let start = place % UNITS * UNIT;
            if page.there >> (place % UNITS) & 1 == 1 {
                there += 1;
                is_same &= page.bytes[start..start + unit.len()] == *unit;
            }
        }
        (there, is_same)
    }

    /// Whether nothing came yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes from the first to the last that came.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no unit up to the last is missing.
    pub fn is_whole(&self) -> bool {
        self.units == self.len.div_ceil(UNIT)
    }

    /// Bytes of memory that the pages take.
    pub fn memory(&self) -> usize {
        self.used * size_of::<Page>()
    }

    /// The first bytes, as far as they are there and lie in one page.
    pub fn start(&self) -> &[u8] {
        let page = self.pages.first().and_then(Option::as_ref);
        page.map_or(&[], |page| &page.bytes[..self.len.min(page.there.trailing_ones() as usize * UNIT)])
    }

    /// All bytes; zeros for those that are missing.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.pages.len() * PAGE);
        for page in &self.pages {
            all.extend_from_slice(page.as_ref().map_or(&[0; PAGE], |page| &page.bytes));
        }
        all.truncate(self.len);
        all
    }

    /// Where bytes are there, from the first to behind the last.
    pub fn runs(&self) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = vec![];
        let is_there = |unit: &usize| {
            let page = self.pages.get(unit / UNITS).and_then(Option::as_ref);
            page.is_some_and(|page| page.there >> (unit % UNITS) & 1 == 1)
        };
        for unit in (0..self.len.div_ceil(UNIT)).filter(is_there) {
            let (start, end) = (unit * UNIT, ((unit + 1) * UNIT).min(self.len));
            match runs.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => runs.push((start, end)),
            }
        }
        runs
    }
}

/// What becomes of a fragment that has bytes where others came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// The bytes that came first stay.
    KeepFirst,
    /// One that repeats what is there is nothing new; every other is a [`Fault::Overlap`] (RFC
    /// 5722; RFC 8200, section 4.5).
    Refuse,
}

/// Why a fragment cannot be part of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not the last, and empty or no multiple of eight bytes, or others contradict it about
    /// the length of the whole.
    Contradiction,
    /// It ends behind the end of the longest packet.
    TooLong,
    /// It has other bytes where some came before.
    Overlap,
}

/// A packet's payload of which fragments are missing.
#[derive(Default)]
pub struct Assembly {
    pieces: Pieces,
    /// Bytes of the whole, once the last fragment came.
    total: Option<usize>,
}

impl Assembly {
    /// Takes a fragment's bytes, which begin at a multiple of eight, in a payload of `most` bytes
    /// at most.
    ///
    /// # Errors
    /// Why not; nothing is changed then.
    pub fn take(
        &mut self,
        at: usize,
        bytes: &[u8],
        is_last: bool,
        most: usize,
        overlap: Overlap,
    ) -> Result<(), Fault> {
        let end = at + bytes.len();
        let known = self.total.unwrap_or(usize::MAX);
        let fits = match is_last {
            true => self.pieces.len() <= end && (self.total.is_none() || known == end),
            false => bytes.len().is_multiple_of(UNIT) && !bytes.is_empty() && end <= known,
        };
        if !fits {
            return Err(Fault::Contradiction);
        }
        if end > most {
            return Err(Fault::TooLong);
        }
        if overlap == Overlap::Refuse {
            let (there, is_same) = self.pieces.compare(at, bytes);
            let is_repeated = there == bytes.len().div_ceil(UNIT) && is_same;
            if there > 0 && !is_repeated {
                return Err(Fault::Overlap);
            }
        }
        if is_last {
            self.total = Some(end);
        }
        self.pieces.put(at, bytes);
        Ok(())
    }

    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.total.is_some() && self.pieces.is_whole()
    }

    /// What is there.
    pub fn pieces(&self) -> &Pieces {
        &self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_first_stays_and_what_is_missing_is_known() {
        let mut pieces = Pieces::default();
        pieces.put(2048, &[3; 5]);
        assert_eq!((pieces.len(), pieces.runs()), (2053, vec![(2048, 2053)]));
        assert_eq!(pieces.memory(), size_of::<Page>(), "one page for one fragment");
        assert!(pieces.start().is_empty() && !pieces.is_whole());
        pieces.put(0, &[1; 1000]);
        pieces.put(992, &[2; 1056]);
        assert_eq!((pieces.is_whole(), pieces.runs()), (true, vec![(0, 2053)]));
        let whole = [&[1; 1000][..], &[2; 1048], &[3; 5]].concat();
        assert_eq!(pieces.to_bytes(), whole);
        assert_eq!(pieces.start(), &whole[..1024]);
    }
}
