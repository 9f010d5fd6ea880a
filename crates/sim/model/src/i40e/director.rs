//! Flow Director: filters that lead a flow to a queue or drop it (datasheet 332464, chapter 7).
//! A filter is programmed by a descriptor on a transmit queue and the packet behind it, whose
//! fields it compares; that it was not added or removed is told on the function's receive
//! queue 0. A frame matches the filter of its packet class with the same words in those fields.
//! Not modelled: words of tunnels and of the payload, and filters that a FIN removes.

mod field;
mod program;

use std::collections::{HashMap, VecDeque};

use regs::i40e::descriptor::rx_program;
use regs::i40e::*;
use wire::ethernet::EtherType;

pub(super) use program::{Filter, Target};

use super::host::Counters;
use super::lint::{Location, Rule};
use super::registers::Registers;
use super::rss::class_of;
use super::switch::Switch;
use crate::headers::{Headers, parse};
use field::Vector;
use program::{Change, Program};

/// Filters that the function always has, and that it may have besides: all of the chip's.
pub(super) const GUARANTEED: u32 = 512;
pub(super) const BEST_EFFORT: u32 = 7680;

/// Packet classes (PCTYPE) that there are.
const CLASSES: usize = 64;
/// Failures that wait to be told, at most; what is told later is lost.
const STATUSES: usize = 256;

/// A filter that was not added or removed: its own number, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub id: u32,
    pub error: u64,
}

/// What a filter compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    class: u8,
    words: Vector,
}

/// The filters of the function.
#[derive(Debug)]
pub(super) struct Director {
    family: Family,
    on: bool,
    /// Which words of each class are compared, and which bits of them are not.
    selected: [u64; CLASSES],
    left_out: [[u32; 2]; CLASSES],
    /// The VSI's queues.
    queues: u16,
    filters: HashMap<Key, Filter>,
    of_class: [u32; CLASSES],
    matched: Box<[u32]>,
    /// What is to be told.
    pub statuses: VecDeque<Status>,
    /// What could not be told.
    pub untold: u64,
}

impl Director {
    pub fn new(family: Family) -> Director {
        Director {
            family,
            on: false,
            selected: [0; CLASSES],
            left_out: [[0; 2]; CLASSES],
            queues: 0,
            filters: HashMap::new(),
            of_class: [0; CLASSES],
            matched: vec![0; GLQF_PCNT::COUNT].into(),
            statuses: VecDeque::new(),
            untold: 0,
        }
    }

    /// Takes over registers and the VSI's queues.
    pub fn configure(&mut self, registers: &Registers, switch: &Switch, counters: &mut Counters) {
        self.on = registers.read(PFQF_CTL_0::AT) & PFQF_CTL_0::FD_ENA != 0;
        self.queues = switch.queues().1;
        for (n, (selected, left_out)) in self.selected.iter_mut().zip(&mut self.left_out).enumerate() {
            let pair = |at: fn(usize) -> u32| [0, 1].map(|half| registers.read(at(2 * n + half)));
            let [low, high] = pair(PRTQF_FD_INSET::at);
            let (now, mask) = (u64::from(low) | u64::from(high) << 32, pair(GLQF_FD_MSK::at));
            if (now, mask) != (*selected, *left_out) && self.of_class[n] > 0 {
                let place = Location::Register(PRTQF_FD_INSET::ID, 2 * n as u16);
                counters.report(Rule::FilterFieldsChanged, place, now);
            }
            (*selected, *left_out) = (now, mask);
        }
    }

    /// Forgets all filters, as a reset of the function does and a bit of PFQF_CTL_1.
    pub fn clear(&mut self) {
        self.filters.clear();
        self.of_class = [0; CLASSES];
        self.statuses.clear();
    }

    /// As after a reset of the card.
    pub fn reset(&mut self) {
        *self = Director { untold: self.untold, ..Director::new(self.family) };
    }

    /// How many filters there are: those that the function always has room for, and others.
    fn used(&self) -> (u32, u32) {
        let used = self.filters.len() as u32;
        (used.min(GUARANTEED), used.saturating_sub(GUARANTEED))
    }

    /// What a register reads; `None` for a register of others.
    pub fn read(&self, id: Id, n: usize) -> Option<u32> {
        let (guaranteed, best) = self.used();
        match id {
            PFQF_FDALLOC::ID => {
                let [guaranteed, best] = [GUARANTEED, BEST_EFFORT].map(|filters| filters / DIRECTOR_UNIT);
                Some(guaranteed | best << PFQF_FDALLOC::FDBEST_SHIFT)
            }
            PFQF_FDSTAT::ID => Some(guaranteed | best << PFQF_FDSTAT::BEST_CNT_SHIFT),
            GLQF_FDCNT_0::ID => Some(guaranteed | best << GLQF_FDCNT_0::BESTCNT_SHIFT),
            GLQF_PCNT::ID => self.matched.get(n).copied(),
            _ => None,
        }
    }

    /// A counter is written, which clears it, whatever the value but zero.
    pub fn clear_counter(&mut self, n: usize, value: u32) {
        if let Some(count) = self.matched.get_mut(n).filter(|_| value != 0) {
            *count = 0;
        }
    }

    /// A descriptor with the packet behind it came on a queue, which may be one that programs no
    /// filters.
    pub fn program(
        &mut self,
        counters: &mut Counters,
        place: Location,
        may: bool,
        words: [u64; 2],
        packet: &[u8],
    ) {
        let (program, key) = match self.accept(may, words, packet) {
            Ok(accepted) => accepted,
            Err(rule) => return counters.report(rule, place, words[0]),
        };
        let done = match program.change {
            Change::Add => self.add(key, program.filter),
            Change::Remove => self.remove(&key),
        };
        if let Err(error) = done {
            if self.statuses.len() < STATUSES {
                self.statuses.push_back(Status { id: program.filter.id, error });
            } else {
                self.untold += 1;
            }
        }
    }

    /// What a descriptor says and what the filter compares, unless a rule is broken.
    fn accept(&self, may: bool, words: [u64; 2], packet: &[u8]) -> Result<(Program, Key), Rule> {
        if !may {
            return Err(Rule::FilterQueueNotEnabled);
        }
        if !self.on {
            return Err(Rule::FilterDisabled);
        }
        let program = Program::of(words)?;
        if !field::is_known(program.class) {
            return Err(Rule::FilterClassInvalid);
        }
        // The function has one VSI that receives.
        if program.vsi != 0 {
            return Err(Rule::FilterVsiInvalid);
        }
        if matches!(program.filter.target, Target::Queue(queue) if queue >= self.queues) {
            return Err(Rule::FilterQueueInvalid);
        }
        let headers = parse(packet, 1, |ethertype| ethertype == EtherType::VLAN);
        let vector = field::words(self.family, packet, &headers, program.class, true)
            .ok_or(Rule::FilterPacketUnfit)?;
        Ok((program, self.key(program.class, vector)))
    }

    fn key(&self, class: u32, vector: Vector) -> Key {
        let n = class as usize % CLASSES;
        Key { class: class as u8, words: field::masked(vector, self.selected[n], self.left_out[n]) }
    }

    fn add(&mut self, key: Key, filter: Filter) -> Result<(), u64> {
        let full = self.filters.len() >= (GUARANTEED + BEST_EFFORT) as usize;
        if full && !self.filters.contains_key(&key) {
            return Err(rx_program::FD_TABLE_FULL);
        }
        if self.filters.insert(key, filter).is_none() {
            self.of_class[usize::from(key.class) % CLASSES] += 1;
        }
        Ok(())
    }

    fn remove(&mut self, key: &Key) -> Result<(), u64> {
        self.filters.remove(key).ok_or(rx_program::NO_FD_ENTRY)?;
        self.of_class[usize::from(key.class) % CLASSES] -= 1;
        Ok(())
    }

    /// The filter that a received frame matches, which counts it.
    #[inline]
    pub fn find(&mut self, frame: &[u8], headers: &Headers) -> Option<Filter> {
        if self.filters.is_empty() || !self.on {
            return None;
        }
        let class = class_of(frame, headers).unwrap_or(class::L2);
        if self.of_class[class as usize % CLASSES] == 0 {
            return None;
        }
        let key = self.key(class, field::words(self.family, frame, headers, class, false)?);
        let mut filter = *self.filters.get(&key)?;
        // The VSI may have fewer queues than when the filter was added.
        if matches!(filter.target, Target::Queue(queue) if queue >= self.queues) {
            filter.target = Target::Elsewhere;
        }
        let count = filter.counter.and_then(|counter| self.matched.get_mut(usize::from(counter)));
        count.into_iter().for_each(|count| *count = count.wrapping_add(1));
        Some(filter)
    }
}
