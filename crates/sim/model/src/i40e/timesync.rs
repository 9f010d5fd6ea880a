//! The clock of a port, and the times of messages of PTP that come from its wire (datasheet 332464,
//! chapter 10).
//!
//! The clock goes on by what PRTTSYN_INC says with each tick, whose length the speed of the link gives. The
//! time of a message is kept in one of four places until its upper half is read; a message that finds
//! them all taken has none. It is kept whether or not the message finds a descriptor. Not modelled:
//! times of sent packets, adjustments, pins, messages of version 1, and that descriptors of virtual
//! functions tell of times.

use regs::i40e::*;
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{ptp, udp, vlan};

use super::lint::{Location, Rule};
use super::registers::Registers;
use crate::headers::Headers;

/// Bits of the clock below a nanosecond.
const FRACTION: u32 = 32;
/// Bits of the clock in all.
const CLOCK_MASK: u128 = (1 << (64 + FRACTION)) - 1;
/// A tick of a link of 40 Gbit/s is so many fifths of a nanosecond.
const TICK_FIFTHS: u64 = 8;
/// For so long, and for so many messages, all places may be taken before their driver is told.
const KEPT_NS: u64 = 10_000_000_000;
const KEPT_MESSAGES: u32 = 8;

/// A rule that was broken, where, and by which value.
type Violation = (Rule, Location, u64);

/// A place for the time of a message.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    time: u64,
    taken: bool,
}

/// The clock, and what is kept of it.
#[derive(Debug)]
pub(super) struct TimeSync {
    pub now_ns: u64,
    /// By which factor a tick is longer than at 40 Gbit/s.
    factor: u64,
    /// What it showed, with its fraction, when the device's time was this.
    shown: u128,
    since_ns: u64,
    /// What a tick adds; and the lower half that was written last, until the upper one is.
    increment: u64,
    given_increment: Option<u32>,
    /// The upper half that belongs to the lower one read last, until it is read.
    held: Option<u32>,
    /// The lower half written last, until the upper one is.
    given: Option<u32>,
    places: [Place; RX_TIMES],
    /// Since when messages found all places taken, and how many did.
    full: Option<(u64, u32)>,
    /// The clock runs, and received messages are looked at.
    runs: bool,
    looks: bool,
    /// What PRTTSYN_CTL1 has.
    control: u32,
    violation: Option<Violation>,
}

impl Default for TimeSync {
    fn default() -> TimeSync {
        TimeSync::new(Family::Xl710)
    }
}

impl TimeSync {
    /// As after power-on.
    pub fn new(family: Family) -> TimeSync {
        TimeSync {
            now_ns: 0,
            factor: match family {
                Family::Xl710 => 1,
                Family::X722 => 2,
            },
            shown: 0,
            since_ns: 0,
            increment: 0,
            given_increment: None,
            held: None,
            given: None,
            places: [Place::default(); RX_TIMES],
            full: None,
            runs: false,
            looks: false,
            control: 0,
            violation: None,
        }
    }

    /// As a reset of the card leaves it.
    pub fn reset(&mut self) {
        *self = TimeSync { now_ns: self.now_ns, factor: self.factor, ..TimeSync::default() };
    }

    /// What the clock shows, with its fraction.
    fn clock(&self) -> u128 {
        let elapsed = if self.runs { self.now_ns.saturating_sub(self.since_ns) } else { 0 };
        let ticks = u128::from(elapsed) * 5 / u128::from(TICK_FIFTHS * self.factor);
        self.shown.wrapping_add(ticks * u128::from(self.increment)) & CLOCK_MASK
    }

    /// What the clock shows, in nanoseconds.
    pub fn time(&self) -> u64 {
        (self.clock() >> FRACTION) as u64
    }

    /// Goes on from what the clock shows now.
    fn rebase(&mut self, shown: u128) {
        (self.shown, self.since_ns) = (shown, self.now_ns);
    }

    /// Control registers were written, or reset.
    pub fn configure(&mut self, registers: &Registers) {
        self.rebase(self.clock());
        self.control = registers.read(PRTTSYN_CTL1::AT);
        self.runs = registers.read(PRTTSYN_CTL0::AT) & PRTTSYN_CTL0::TSYNENA != 0;
        self.looks = self.runs && self.control & PRTTSYN_CTL1::TSYNENA != 0;
    }

    /// Reads a register, if it is one of those that have no value of their own.
    pub fn read(&mut self, id: Id, n: usize) -> Option<u32> {
        let time = self.time();
        Some(match id {
            PRTTSYN_TIME_L::ID => {
                self.held = Some((time >> 32) as u32);
                time as u32
            }
            PRTTSYN_TIME_H::ID => self.held.take().unwrap_or_else(|| {
                self.violation = Some((Rule::ClockUpperHalfFirst, Location::Register(id, 0), time));
                (time >> 32) as u32
            }),
            PRTTSYN_STAT_1::ID => {
                (0..).zip(&self.places).fold(0, |bits, (n, place)| bits | u32::from(place.taken) << n)
            }
            PRTTSYN_RXTIME_L::ID => {
                let Place { time, taken } = self.places[n];
                if !taken {
                    let place = Location::Register(id, n as u16);
                    self.violation = Some((Rule::ReceiveTimeNotKept, place, n as u64));
                }
                time as u32
            }
            PRTTSYN_RXTIME_H::ID => {
                self.places[n].taken = false;
                self.full = None;
                (self.places[n].time >> 32) as u32
            }
            _ => return None,
        })
    }

    /// A register was written.
    pub fn write(&mut self, id: Id, value: u32) {
        let mut lower = |given: &mut Option<u32>| {
            if given.is_none() {
                self.violation = Some((Rule::ClockUpperHalfFirst, Location::Register(id, 0), value.into()));
            }
            u64::from(given.take().unwrap_or(0))
        };
        match id {
            PRTTSYN_TIME_L::ID => self.given = Some(value),
            PRTTSYN_INC_L::ID => self.given_increment = Some(value),
            PRTTSYN_TIME_H::ID => {
                let time = u64::from(value) << 32 | lower(&mut self.given);
                self.rebase(u128::from(time) << FRACTION);
            }
            PRTTSYN_INC_H::ID => {
                let increment = u64::from(value) << 32 | lower(&mut self.given_increment);
                self.rebase(self.clock());
                self.increment = increment;
            }
            _ => {}
        }
    }

    /// Whether received messages are looked at.
    #[inline]
    pub fn looks(&self) -> bool {
        self.looks
    }

    /// The place that keeps the time of a frame that comes from the wire now, if one does.
    pub fn keep(&mut self, frame: &[u8], headers: &Headers) -> Option<usize> {
        if !self.is_wanted(frame, headers)? {
            return None;
        }
        if self.increment == 0 {
            let place = Location::Register(PRTTSYN_INC_H::ID, 0);
            self.violation = Some((Rule::ClockStands, place, 0));
        }
        let time = self.time();
        let Some(n) = self.places.iter().position(|place| !place.taken) else {
            let (since_ns, count) = self.full.unwrap_or((self.now_ns, 0));
            self.full = Some((since_ns, count.saturating_add(1)));
            if count >= KEPT_MESSAGES && self.now_ns.saturating_sub(since_ns) >= KEPT_NS {
                let place = Location::Register(PRTTSYN_RXTIME_H::ID, 0);
                self.violation = Some((Rule::ReceiveTimesNotRead, place, count.into()));
            }
            return None;
        };
        self.places[n] = Place { time, taken: true };
        Some(n)
    }

    /// Whether PRTTSYN_CTL1 asks for the time of a frame; `None` for what has no message of PTP.
    fn is_wanted(&self, frame: &[u8], headers: &Headers) -> Option<bool> {
        let field = |mask: u32, shift: u32| (self.control & mask) >> shift;
        let at = if headers.ethertype == EtherType::PTP.0 {
            ethernet::HEADER_LEN + headers.tag.map_or(0, |_| vlan::HEADER_LEN)
        } else if headers.l4 != 0 && Protocol(headers.protocol) == Protocol::UDP {
            let l4 = usize::from(headers.l4);
            let ports = field(PRTTSYN_CTL1::UDP_ENA_MASK, PRTTSYN_CTL1::UDP_ENA_SHIFT);
            let enabled = match udp::Header::of(frame.get(l4..)?)?.dst_port() {
                ptp::EVENT_PORT => ports & udp_ena::PORT_319,
                ptp::GENERAL_PORT => ports & udp_ena::PORT_320,
                _ => 0,
            };
            if enabled == 0 {
                return None;
            }
            l4 + udp::HEADER_LEN
        } else {
            return None;
        };
        let &[kind, version] = frame.get(at..)?.first_chunk()?;
        if version & 0xF != ptp::VERSION {
            return None;
        }
        let kind = u32::from(kind & 0xF);
        let chosen = |mask, shift| [kind, tsyntype::ANY_MESSAGE].contains(&field(mask, shift));
        Some(match field(PRTTSYN_CTL1::TSYNTYPE_MASK, PRTTSYN_CTL1::TSYNTYPE_SHIFT) {
            tsyntype::V2 => {
                chosen(PRTTSYN_CTL1::V2MESSTYPE0_MASK, PRTTSYN_CTL1::V2MESSTYPE0_SHIFT)
                    || chosen(PRTTSYN_CTL1::V2MESSTYPE1_MASK, PRTTSYN_CTL1::V2MESSTYPE1_SHIFT)
            }
            tsyntype::V2_EVENT => kind < ptp::FIRST_GENERAL.into(),
            _ => false,
        })
    }

    /// The rule that the last access or message broke.
    pub fn violation(&mut self) -> Option<Violation> {
        self.violation.take()
    }
}
