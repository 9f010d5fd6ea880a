//! Codes for all /24s, in groups for the /16s that have any routes longer than themselves.

use super::arena::Arena;
use super::bits::{encode, rank};
use super::group::{self, Code, QUARTER, Row, SLOTS, Top};
use super::routes::{Bits, Routes};
use std::hint::select_unpredictable;

/// Quarters of a group, one for each /18.
const QUARTERS: usize = SLOTS / QUARTER;
/// Bits of an address in a /24.
const SUB_BITS: u8 = 8;
/// In a row: the rest is the index of a `Sub`.
const SUB: u32 = 1 << 31;
/// One in so many slots, or covers, may be too wide for its code before all codes are widened.
const TOO_WIDE: usize = 256;

/// A part of a group that the arena can hold.
type Piece<C> = [C; 32];
const PIECES: usize = SLOTS / 32;

/// The 256 addresses of a /24 that has longer routes.
#[derive(Clone, Copy, Default, Debug)]
#[repr(align(64))]
struct Sub {
    runs: [u64; 4],
    /// Runs in the words before each.
    before: [u8; 4],
    slots: u32,
    /// What the /24's slot would be without longer routes.
    own: u32,
}

impl Sub {
    fn values(&self) -> usize {
        if self.slots == 0 {
            0
        } else {
            self.runs.iter().map(|word| word.count_ones() as usize).sum::<usize>() + 1
        }
    }
}

/// The codes of all addresses' /24s, and what does not fit them.
#[derive(Clone, Debug)]
pub(super) struct Codes<C, const TOPS: usize> {
    tops: Box<[Top; TOPS]>,
    /// A group is [`PIECES`] side by side; group 0 is that of all /16s that have no routes of
    /// their own.
    codes: Arena<Piece<C>>,
    /// By group: where the rows of its quarters begin, 0 for none.
    rows: Vec<[u32; QUARTERS]>,
    /// The rows, and the runs' values of subs.
    words: Arena<u32>,
    subs: Arena<Sub>,
    /// By /16: the longest route of at most 16 bits here, in stored form.
    covers: Box<[u32; TOPS]>,
    /// Slots in rows whose value is too wide, and covers.
    wide: usize,
    wide_covers: usize,
}

impl<C: Code, const TOPS: usize> Codes<C, TOPS> {
    pub(super) fn new() -> Self {
        let mut codes = Arena::new();
        codes.put(&[[C::default(); 32]; PIECES - 1]);
        Codes {
            tops: boxed(Top::default()),
            codes,
            rows: vec![[0; QUARTERS]],
            words: Arena::new(),
            subs: Arena::new(),
            covers: boxed(0),
            wide: 0,
            wide_covers: 0,
        }
    }

    /// Where the code of an address's /24 is, and the code of its /16's cover.
    #[inline(always)]
    fn place(&self, addr: u32) -> (u32, u32) {
        let top = self.tops[(addr >> 16) as usize];
        (top.group() * SLOTS as u32 + (addr >> 8) % SLOTS as u32, top.cover())
    }

    /// The code at a place.
    #[inline(always)]
    fn code(&self, place: u32) -> u32 {
        // All groups that tops name are there: this is cheaper than a panic.
        self.codes.items().as_flattened().get(place as usize).map_or(0, |&code| code.into())
    }

    /// What decides about an address, in stored form.
    #[inline(always)]
    pub(super) fn lookup(&self, addr: u32) -> u32 {
        let (place, cover) = self.place(addr);
        let code = self.code(place);
        let found = if code == 0 { cover } else { code };
        if found == C::ELSEWHERE { self.elsewhere(addr) } else { found }
    }

    /// Each loop's accesses depend on nothing in the same loop, so they overlap: the shorter
    /// the loop, the more of them. The second one's are those that caches do not have.
    #[inline(always)]
    pub(super) fn lookup_row<A: Bits + Into<u32>, const LANES: usize>(
        &self,
        addrs: &[A; LANES],
        values: &mut [u32; LANES],
    ) {
        let (mut places, mut covers) = ([0; LANES], [0; LANES]);
        for lane in 0..LANES {
            (places[lane], covers[lane]) = self.place(addrs[lane].into());
        }
        for lane in 0..LANES {
            values[lane] = self.code(places[lane]);
        }
        let mut elsewhere = false;
        for (value, cover) in values.iter_mut().zip(covers) {
            // Which of the two is as good as random: a branch would undo the overlap.
            let found = select_unpredictable(*value == 0, cover, *value);
            elsewhere |= found == C::ELSEWHERE;
            *value = found.wrapping_sub(1);
        }
        if elsewhere {
            for (value, &addr) in values.iter_mut().zip(addrs) {
                if *value == C::ELSEWHERE - 1 {
                    *value = self.elsewhere(addr.into()).wrapping_sub(1);
                }
            }
        }
    }

    /// What decides about an address of which the codes do not tell, in stored form.
    fn elsewhere(&self, addr: u32) -> u32 {
        let cover = self.covers[(addr >> 16) as usize];
        let found = match group::find(self.row(addr), (addr >> 8) as usize % QUARTER) {
            Some(found) if found & SUB != 0 => self.lookup_sub(found, addr),
            Some(found) => found,
            None => 0,
        };
        if found == 0 { cover } else { found }
    }

    fn lookup_sub(&self, found: u32, addr: u32) -> u32 {
        let sub = self.subs.at((found & !SUB) as usize);
        let (word, at) = (addr as usize >> 6 & 3, addr as usize & 63);
        let slot = *self.words.at(sub.slots as usize + sub.before[word] as usize + rank(sub.runs[word], at));
        if slot == 0 { sub.own } else { slot }
    }

    /// The words from the row of an address's quarter on; none if it has no row.
    fn row(&self, addr: u32) -> &[u32] {
        self.row_at(self.tops[(addr >> 16) as usize].group(), quarter(addr))
    }

    fn row_at(&self, group: u32, quarter: usize) -> &[u32] {
        match self.rows[group as usize][quarter] {
            0 => &[],
            row => &self.words.items()[row as usize..],
        }
    }

    pub(super) fn set_cover(&mut self, top: usize, cover: u32) {
        let old = std::mem::replace(&mut self.covers[top], cover);
        self.wide_covers += usize::from(cover >= C::ELSEWHERE);
        self.wide_covers -= usize::from(old >= C::ELSEWHERE);
        self.tops[top] = Top::new(self.tops[top].group(), C::code(cover));
    }

    /// Puts `slots`, in stored form, into the quarter at `addr`, and gives each slot that is
    /// `deep` a `Sub`, the one that it has or a new one, which is still to be painted.
    pub(super) fn set_quarter(&mut self, addr: u32, slots: &mut [u32; QUARTER], deep: u64) {
        self.renew_subs(addr, deep, slots);
        let mut codes = [C::default(); QUARTER];
        let row = Row::encode(slots, &mut codes);
        let (top, quarter) = ((addr >> 16) as usize, quarter(addr));
        let mut group = self.tops[top].group();
        if group == 0 {
            if slots.iter().all(|&slot| slot == 0) {
                return;
            }
            group = self.new_group(top);
        }
        self.set_row(group, quarter, row.words());
        let all = self.group_mut(group);
        all[quarter * QUARTER..][..QUARTER].copy_from_slice(&codes);
        if codes[0].into() == 0 && all.iter().all(|&code| code.into() == 0) {
            self.codes.release(group * PIECES as u32, PIECES);
            self.tops[top] = Top::new(0, self.tops[top].cover());
        }
    }

    /// Gives a /16 a group.
    fn new_group(&mut self, top: usize) -> u32 {
        let group = self.codes.put(&[[C::default(); 32]; PIECES]) / PIECES as u32;
        self.rows.resize(self.rows.len().max(group as usize + 1), [0; QUARTERS]);
        self.tops[top] = Top::new(group, self.tops[top].cover());
        group
    }

    fn group_mut(&mut self, group: u32) -> &mut [C] {
        self.codes.group_mut(group * PIECES as u32, PIECES).as_flattened_mut()
    }

    fn set_row(&mut self, group: u32, quarter: usize, new: &[u32]) {
        let wide = |row: &[u32]| group::values(row).iter().filter(|&&found| found & SUB == 0).count();
        let place = self.rows[group as usize][quarter];
        let len = if place == 0 { 0 } else { group::len_of(self.row_at(group, quarter)) };
        self.wide = self.wide - wide(self.words.group(place, len)) + wide(new);
        self.rows[group as usize][quarter] = self.words.replace(place, len, new);
    }

    /// Puts into `slots` the `Sub` of each that is `deep`, the one that there is or a new one,
    /// and drops those of others.
    fn renew_subs(&mut self, addr: u32, deep: u64, slots: &mut [u32; QUARTER]) {
        let mut either = group::slots_of(self.row(addr)) | deep;
        while either != 0 {
            let n = either.trailing_zeros() as usize;
            either &= either - 1;
            let old = group::find(self.row(addr), n).unwrap_or(0);
            match (old & SUB != 0, deep >> n & 1 != 0) {
                (false, false) => {}
                (true, false) => self.drop_sub(old & !SUB),
                (true, true) => {
                    self.subs.at_mut(old & !SUB).own = slots[n];
                    slots[n] = old;
                }
                (false, true) => slots[n] = SUB | self.subs.put(&[Sub { own: slots[n], ..Sub::default() }]),
            }
        }
    }

    fn drop_sub(&mut self, index: u32) {
        let sub = *self.subs.at(index as usize);
        self.words.release(sub.slots, sub.values());
        self.subs.release(index, 1);
    }

    /// Makes the `Sub` of the /24 that begins with `start` anew from its routes of 25 to 32
    /// bits, if it has one.
    pub(super) fn paint_sub<A: Bits + Into<u32>>(&mut self, routes: &Routes<A>, start: A) {
        let addr = start.into();
        let found = group::find(self.row(addr), (addr >> 8) as usize % QUARTER);
        let Some(index) = found.filter(|found| found & SUB != 0).map(|found| found & !SUB) else { return };
        let mut slots = [0; 1 << SUB_BITS];
        routes.paint(start, A::WIDTH as u8 - SUB_BITS, SUB_BITS, &mut slots, |_| {});
        let (runs, values) = encode(&mut slots);
        let mut sub = *self.subs.at(index as usize);
        sub.slots = self.words.replace(sub.slots, sub.values(), &slots[..values]);
        sub.runs = runs;
        for word in 1..4 {
            sub.before[word] = sub.before[word - 1] + runs[word - 1].count_ones() as u8;
        }
        *self.subs.at_mut(index) = sub;
    }

    /// Whether codes of this width are too narrow for many values.
    pub(super) fn crowded(&self) -> bool {
        let slots = self.codes.live() / PIECES * SLOTS;
        self.wide > slots / TOO_WIDE || self.wide_covers > TOPS / TOO_WIDE
    }

    /// The same in wider codes.
    pub(super) fn widened<D: Code>(&self) -> Codes<D, TOPS> {
        let mut wide = Codes::<D, TOPS>::new();
        wide.subs = self.subs.clone();
        wide.words = self.words.clone();
        for top in 0..TOPS {
            wide.set_cover(top, self.covers[top]);
            let group = self.tops[top].group();
            if group != 0 {
                self.widen_group(&mut wide, top, group);
            }
        }
        wide.compact();
        wide
    }

    fn widen_group<D: Code>(&self, wide: &mut Codes<D, TOPS>, top: usize, group: u32) {
        let codes = self.codes.group(group * PIECES as u32, PIECES).as_flattened();
        let index = wide.new_group(top);
        for (quarter, codes) in codes.chunks(QUARTER).enumerate() {
            let row = self.row_at(group, quarter);
            let slots = std::array::from_fn(|n| group::find(row, n).unwrap_or(codes[n].into()));
            let new = &mut wide.group_mut(index)[quarter * QUARTER..][..QUARTER];
            let row = Row::encode(&slots, new);
            wide.set_row(index, quarter, row.words());
        }
    }

    /// Whether copying the words together would free many.
    pub(super) fn wasteful(&self) -> bool {
        self.words.wasteful()
    }

    /// Copies the words that are in use together.
    pub(super) fn compact(&mut self) {
        let Codes { tops, rows, words, subs, .. } = self;
        let mut next = words.successor();
        for top in tops.iter().filter(|top| top.group() != 0) {
            for place in rows[top.group() as usize].iter_mut().filter(|place| **place != 0) {
                let row = &words.items()[*place as usize..];
                let row = &row[..group::len_of(row)];
                for found in group::values(row).iter().filter(|&&found| found & SUB != 0) {
                    let sub = subs.at_mut(found & !SUB);
                    sub.slots = next.put(words.group(sub.slots, sub.values()));
                }
                *place = next.put(row);
            }
        }
        *words = next;
    }

    /// Bytes that lookups read.
    pub(super) fn bytes(&self) -> usize {
        let tops = TOPS * (size_of::<Top>() + size_of::<u32>());
        let rows = self.rows.capacity() * size_of::<[u32; QUARTERS]>();
        tops + rows + self.codes.bytes() + self.words.bytes() + self.subs.bytes()
    }
}

/// Which quarter of its group an address is in.
fn quarter(addr: u32) -> usize {
    (addr >> 14) as usize % QUARTERS
}

/// An array too large for the stack.
fn boxed<T: Clone, const N: usize>(item: T) -> Box<[T; N]> {
    vec![item; N].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("the vector has N items"))
}
