//! Which addresses and ports are taken, so that a free one is found in a few steps however
//! many are: for each flow that differs in nothing else, a tree of words of 64 bits, the
//! empty ones left out. A bit of a word says that a value is taken, and in the words above
//! it that a whole word below is full.

use std::collections::HashMap;

use super::flow_id::FlowId;
use super::kind::RewriterKind;

/// Values of a word.
const WORD: u32 = u64::BITS;
/// Bits of a value that one level tells apart.
const STEP: u32 = WORD.trailing_zeros();
/// Levels of a tree whose values have 32 bits.
const LEVELS: u32 = u32::BITS.div_ceil(STEP);

/// What of a flow's source a pattern chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Chosen {
    /// The source address.
    Address,
    /// The port, or an echo's identifier.
    Port,
}

impl Chosen {
    pub(crate) const ALL: [Chosen; 2] = [Chosen::Address, Chosen::Port];

    /// The flow with another choice.
    pub(crate) fn set(self, id: FlowId, value: u32) -> FlowId {
        match self {
            Chosen::Address => FlowId { src: value, ..id },
            Chosen::Port => FlowId { src_port: value as u16, ..id },
        }
    }

    fn of(self, id: FlowId) -> u32 {
        match self {
            Chosen::Address => id.src,
            Chosen::Port => id.src_port.into(),
        }
    }
}

/// What patterns choose among: the flows that exist.
pub(crate) trait Known {
    /// Whether no packet of another flow would be taken for an answer to this one.
    fn is_free(&self, id: FlowId) -> bool;

    /// The first free choice from `first` to `last`, if there is any.
    fn first_free(&self, chosen: Chosen, id: FlowId, first: u32, last: u32) -> Option<u32> {
        (first..=last).find(|&value| self.is_free(chosen.set(id, value)))
    }
}

/// All but the choice, what was chosen, the level from below, the place in it.
type WordKey = (FlowId, Chosen, u32, u32);

/// The values that are taken, for the choices that somebody makes.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    kind: RewriterKind,
    /// The choices that are kept, as [`Chosen::ALL`] has them.
    kept: [bool; 2],
    words: HashMap<WordKey, u64>,
}

impl Taken {
    /// Whether a choice is kept.
    pub(crate) fn keeps(&self, chosen: Chosen) -> bool {
        self.kept[chosen as usize]
    }

    /// Begins anew with these choices, and the packets that are known.
    pub(crate) fn keep<'a>(
        &mut self,
        kind: RewriterKind,
        kept: [bool; 2],
        keys: impl Iterator<Item = &'a FlowId>,
    ) {
        *self = Taken { kind, kept, words: HashMap::new() };
        if kept != [false; 2] {
            keys.for_each(|&key| self.insert(key));
        }
    }

    /// Packets of this identity are of a flow.
    pub(crate) fn insert(&mut self, key: FlowId) {
        for (chosen, id, mut value) in self.choices(key) {
            for level in 0..LEVELS {
                let word = self.words.entry((id, chosen, level, value / WORD)).or_default();
                *word |= 1 << (value % WORD);
                if *word != u64::MAX {
                    break;
                }
                value /= WORD;
            }
        }
    }

    /// They are no longer.
    pub(crate) fn remove(&mut self, key: FlowId) {
        for (chosen, id, mut value) in self.choices(key) {
            for level in 0..LEVELS {
                let place = (id, chosen, level, value / WORD);
                let Some(word) = self.words.get_mut(&place) else { break };
                let was_full = *word == u64::MAX;
                *word &= !(1 << (value % WORD));
                if *word == 0 {
                    self.words.remove(&place);
                }
                if !was_full {
                    break;
                }
                value /= WORD;
            }
        }
    }

    /// What packets of this identity, as answers, take of each choice that is kept.
    fn choices(&self, key: FlowId) -> impl Iterator<Item = (Chosen, FlowId, u32)> + use<> {
        let answered = key.reversed();
        // An echo's second number follows from the first: others answer nothing.
        let (kind, kept) = (self.kind, self.kept);
        let is_answer = kind.complete(answered) == answered;
        let all = Chosen::ALL.into_iter().filter(move |&chosen| is_answer && kept[chosen as usize]);
        all.map(move |chosen| (chosen, Taken::rest(kind, chosen, answered), chosen.of(answered)))
    }

    /// All of an identity but the choice.
    fn rest(kind: RewriterKind, chosen: Chosen, id: FlowId) -> FlowId {
        match (kind, chosen) {
            (RewriterKind::Ping, Chosen::Port) => FlowId { src_port: 0, dst_port: 0, ..id },
            _ => chosen.set(id, 0),
        }
    }

    /// The first value from `first` to `last` that no other flow has taken: see
    /// [`Known::first_free`].
    pub(crate) fn first_free(&self, chosen: Chosen, id: FlowId, first: u32, last: u32) -> Option<u32> {
        let rest = Taken::rest(self.kind, chosen, id);
        let word = |level: u32, value: u64| {
            let place = (rest, chosen, level, (value / u64::from(WORD)) as u32);
            self.words.get(&place).copied().unwrap_or_default()
        };
        let (mut level, mut at) = (0, u64::from(first));
        // Up, until something behind has room.
        loop {
            if at << (STEP * level) > u64::from(last) {
                return None;
            }
            let room = !word(level, at) & (u64::MAX << (at % u64::from(WORD)));
            if room != 0 {
                at = at & !u64::from(WORD - 1) | u64::from(room.trailing_zeros());
                break;
            }
            (level, at) = (level + 1, at / u64::from(WORD) + 1);
            if level == LEVELS {
                return None;
            }
        }
        // Down, to the first value of it that is free.
        while level > 0 {
            (level, at) = (level - 1, at * u64::from(WORD));
            at += u64::from((!word(level, at)).trailing_zeros());
        }
        u32::try_from(at).ok().filter(|value| (first..=last).contains(value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// An echo's identity follows from its identifier.
    fn answer(kind: RewriterKind, chosen: Chosen, value: u32) -> FlowId {
        let id = FlowId { src: 0x0A00_0001, src_port: 77, dst: 0x0A00_0002, dst_port: 80 };
        kind.complete(chosen.set(id, value)).reversed()
    }

    fn agrees(kind: RewriterKind, chosen: Chosen, changes: &[(bool, u32)], asks: &[(u32, u32)]) {
        let (mut taken, mut known) = (Taken::default(), HashSet::new());
        taken.keep(kind, [true; 2], [].iter());
        for &(comes, value) in changes {
            let key = answer(kind, chosen, value);
            match comes {
                true if known.insert(key) => taken.insert(key),
                false if known.remove(&key) => taken.remove(key),
                _ => {}
            }
        }
        let id = answer(kind, chosen, 0).reversed();
        for &(first, length) in asks {
            let last = first.saturating_add(length);
            let slow = (first..=last).find(|&value| !known.contains(&answer(kind, chosen, value)));
            assert_eq!(taken.first_free(chosen, id, first, last), slow, "{first} to {last}");
        }
        known.iter().for_each(|&key| taken.remove(key));
        assert!(taken.words.is_empty(), "nothing is left of what is gone");
    }

    proptest! {
        #[test]
        fn the_first_free_value_is_found(
            kind in prop::sample::select(&[RewriterKind::Ip, RewriterKind::Ping][..]),
            runs in prop::collection::vec((any::<bool>(), 0_u32..5000, 0_u32..600), 1..12),
            asks in prop::collection::vec((0_u32..5000, 0_u32..6000), 1..12),
        ) {
            let changes: Vec<(bool, u32)> =
                runs.iter().flat_map(|&(comes, first, n)| (first..first + n).map(move |v| (comes, v))).collect();
            agrees(kind, Chosen::Port, &changes, &asks);
        }
    }

    #[test]
    fn full_words_are_passed_over_at_both_ends() {
        let all: Vec<(bool, u32)> = (0..=65_535).map(|value| (true, value)).collect();
        let one_left: Vec<(bool, u32)> = all.iter().copied().chain([(false, 40_000)]).collect();
        let asks = [(0, 65_535), (40_000, 0), (40_001, 25_534), (65_535, 0)];
        agrees(RewriterKind::Ip, Chosen::Port, &all, &asks);
        agrees(RewriterKind::Ping, Chosen::Port, &one_left, &asks);
        let top: Vec<(bool, u32)> = (u32::MAX - 200..=u32::MAX).map(|value| (true, value)).collect();
        agrees(
            RewriterKind::Pair,
            Chosen::Address,
            &top,
            &[(u32::MAX - 300, 300), (u32::MAX - 100, 100), (u32::MAX, 0)],
        );
    }
}
