//! A table of tunnels' headers between a chip's MAC and its cable, as Nakamura et al. propose it
//! for NICs (*Protocol-Independent FIB Architecture for Network Overlays*, 2016, section 3.2). It is
//! no part of any real chip: its registers are decision 30's, in `regs::encap`.
//!
//! A frame with a tag (`wire::encap_tag`) loses it and gets the headers of its entry: the packet's
//! identifier is read by offset and length, bytes are copied, and lengths, checksums, entropy and
//! the traffic class are patched where the driver said. Which tunnel protocol that is nobody here
//! knows. A packet that no entry is for is given back to the host, or dropped if the driver wants
//! it. All other frames pass as they are; those from the cable that have a tag are dropped.

mod headers;
pub mod lint;
mod table;

use std::collections::VecDeque;

use regs::encap as reg;
use regs::encap::{command, counter, status};
use wire::encap_tag::{self, reason};

use crate::lint::Broken;
use crate::{MAX_FRAME, MIN_FRAME};
use headers::Headers;
use lint::{Findings, Location, Rule};
use table::{Network, Table};

/// Places for networks.
const NETWORKS: u32 = 256;
/// Entries, where nothing else is asked for, and at most.
pub const USUAL_ENTRIES: u32 = 4096;
/// The most entries that a table can have room for.
pub const MOST_ENTRIES: u32 = 1 << 20;
/// Packets that wait to be given back.
const MOST_WAITING: usize = 1024;

/// The table with its registers.
#[derive(Debug)]
pub struct Encap {
    table: Table,
    /// What was written last to the registers of arguments.
    arguments: Box<[u32]>,
    status: u32,
    commands: u32,
    generation: u32,
    counters: [u64; counter::COUNT],
    /// Frames that are given back, in front of those of the cable.
    waiting: VecDeque<Vec<u8>>,
    /// The frame that leaves.
    out: Vec<u8>,
    /// Packets for which there was an entry.
    number: u16,
    findings: Findings,
}

impl Encap {
    /// An empty table with room for so many entries, up to [`MOST_ENTRIES`].
    pub fn new(entries: u32) -> Encap {
        Encap {
            table: Table::new(NETWORKS, entries.clamp(1, MOST_ENTRIES)),
            arguments: vec![0; (reg::LEN / 4) as usize].into(),
            status: status::OK,
            commands: 0,
            generation: 1,
            counters: [0; counter::COUNT],
            waiting: VecDeque::new(),
            out: Vec::with_capacity(MAX_FRAME),
            number: 0,
            findings: Findings::default(),
        }
    }

    /// As after power-on, but for the number by which a driver sees that.
    pub fn reset(&mut self) {
        self.table.clear();
        self.arguments.fill(0);
        self.counters = [0; counter::COUNT];
        self.waiting.clear();
        self.number = 0;
        self.generation = self.generation.wrapping_add(1);
        (self.status, self.commands) = (status::OK, 0);
    }

    /// What the driver did wrong.
    pub fn findings(&self) -> Vec<Broken> {
        self.findings.broken()
    }

    /// What was counted, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        const NAMES: [&str; counter::COUNT] = [
            "encap_sent",
            "encap_given_back",
            "tx_encap_unknown",
            "tx_encap_not_given_back",
            "tx_encap_malformed",
            "rx_encap_foreign",
        ];
        NAMES.into_iter().zip(self.counters)
    }

    /// Packets that were lost, by name.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters().skip(counter::UNKNOWN)
    }

    /// Reads aligned 32 bits of a register.
    pub fn read(&mut self, offset: u32) -> u32 {
        let end = reg::COUNTERS + reg::COUNTER_STRIDE * counter::COUNT as u32;
        match offset {
            reg::SIGNATURE => u32::from_le_bytes(reg::capability::IS_SIGNATURE),
            reg::VERSION => reg::capability::IS_VERSION.into(),
            reg::NETWORKS => NETWORKS,
            reg::HEADERS => self.table.places() as u32,
            reg::ENTRIES => self.table.capacity() as u32,
            reg::GENERATION => self.generation,
            reg::USED => self.table.len() as u32,
            reg::COMMAND => 0,
            reg::STATUS => self.status,
            reg::COMMANDS => self.commands,
            reg::COUNTERS.. if offset < end => {
                let at = (offset - reg::COUNTERS) / reg::COUNTER_STRIDE;
                let value = self.counters[at as usize];
                if offset.is_multiple_of(reg::COUNTER_STRIDE) { value as u32 } else { (value >> 32) as u32 }
            }
            _ if is_argument(offset) => self.argument(offset),
            _ => {
                self.find(Rule::NoRegister, Location::Register(offset), 0);
                0
            }
        }
    }

    /// Writes aligned 32 bits of a register.
    pub fn write(&mut self, offset: u32, value: u32) {
        match offset {
            reg::COMMAND => {
                self.status = self.command(value).err().unwrap_or(status::OK);
                // A reset begins to count anew.
                self.commands = self.commands.wrapping_add(1);
            }
            _ if is_argument(offset) => self.arguments[(offset / 4) as usize] = value,
            reg::SIGNATURE..reg::NETWORK => {
                self.find(Rule::ReadOnlyWritten, Location::Register(offset), value.into());
            }
            _ => self.find(Rule::NoRegister, Location::Register(offset), value.into()),
        }
    }

    /// An access of so many bytes was made, which no register has.
    pub fn odd(&mut self, offset: u32, len: usize) {
        self.find(Rule::OddAccess, Location::Register(offset), len as u64);
    }

    #[cold]
    fn find(&mut self, rule: Rule, place: Location, value: u64) {
        self.findings.report(rule, place, value);
    }

    /// An argument that makes no sense: the command is not done.
    fn refuse(&mut self, rule: Rule, offset: u32, value: u64) -> u32 {
        self.find(rule, Location::Register(offset), value);
        status::INVALID
    }

    fn argument(&self, offset: u32) -> u32 {
        self.arguments.get((offset / 4) as usize).copied().unwrap_or(0)
    }

    fn command(&mut self, command: u32) -> Result<(), u32> {
        match command {
            command::RESET => {
                self.reset();
                Ok(())
            }
            command::SET_NETWORK => self.set_network(),
            command::CLEAR_NETWORK => {
                let number = self.network_place()?;
                self.table.clear_network(number).then_some(()).ok_or(status::MISSING)
            }
            command::SET_HEADERS => self.set_headers(),
            command::INSERT => self.insert(),
            command::REMOVE => {
                let (number, key) = (self.network_place()?, self.key());
                self.table.remove(number, key).then_some(()).ok_or(status::MISSING)
            }
            _ => Err(self.refuse(Rule::UnknownCommand, reg::COMMAND, command.into())),
        }
    }

    fn network_place(&mut self) -> Result<u16, u32> {
        let place = self.argument(reg::NETWORK);
        match place < NETWORKS {
            true => Ok(place as u16),
            false => Err(self.refuse(Rule::NetworkOutside, reg::NETWORK, place.into())),
        }
    }

    fn key(&self) -> u128 {
        let words = (0..4).map(|word| self.argument(reg::KEY + 4 * word));
        words.enumerate().fold(0, |key, (n, word)| key | u128::from(word) << (32 * n))
    }

    fn set_network(&mut self) -> Result<(), u32> {
        let number = self.network_place()?;
        let (extractor, mode) = (self.argument(reg::EXTRACTOR), self.argument(reg::MODE));
        let bits = extractor >> reg::extractor::BITS_SHIFT;
        if bits > reg::MOST_BITS.into() {
            return Err(self.refuse(Rule::IdentifierTooLong, reg::EXTRACTOR, bits.into()));
        }
        let offset = (extractor & reg::extractor::OFFSET) as u16;
        let network = Network::new(offset, bits as u8, mode);
        let network = network.ok_or_else(|| self.refuse(Rule::UnknownMode, reg::MODE, mode.into()))?;
        self.table.set_network(number, network);
        Ok(())
    }

    fn set_headers(&mut self) -> Result<(), u32> {
        let (place, which) = (self.argument(reg::PLACE), self.argument(reg::WHICH));
        if place as usize >= self.table.places() || which > 1 {
            return Err(self.refuse(Rule::PlaceOutside, reg::PLACE, place.into()));
        }
        let (len, max_len) = (self.argument(reg::HEADERS_LEN), self.argument(reg::MAX_LEN));
        if !(1..=reg::MOST_BYTES).contains(&(len as usize)) {
            return Err(self.refuse(Rule::HeadersLength, reg::HEADERS_LEN, len.into()));
        }
        let mut bytes = [0; reg::MOST_BYTES];
        for (n, word) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
            *word = self.argument(reg::BYTES + 4 * n as u32).to_le_bytes();
        }
        let mut patches = [0; reg::MOST_PATCHES];
        for (n, patch) in patches.iter_mut().enumerate() {
            *patch = self.argument(reg::PATCHES + 4 * n as u32);
        }
        match Headers::new(&bytes[..len as usize], &patches, max_len) {
            Ok(headers) => {
                self.table.set_headers(place as usize, which as usize, headers);
                Ok(())
            }
            Err((n, patch)) => {
                Err(self.refuse(Rule::PatchOutside, reg::PATCHES + 4 * n as u32, patch.into()))
            }
        }
    }

    fn insert(&mut self) -> Result<(), u32> {
        let (number, key, place) = (self.network_place()?, self.key(), self.argument(reg::PLACE));
        let Some(network) = self.table.network(number) else { return Err(status::MISSING) };
        if key.checked_shr(network.bits().into()).unwrap_or(0) != 0 {
            return Err(self.refuse(Rule::KeyTooLong, reg::KEY, key as u64));
        }
        if !self.table.has_headers(place as usize) {
            return Err(self.refuse(Rule::EntryWithoutHeaders, reg::PLACE, place.into()));
        }
        self.table.insert(number, key, place).then_some(()).ok_or(status::FULL)
    }

    /// What becomes of a frame of the host's: what is to leave instead of it, if anything.
    #[inline]
    pub fn transmit<'a>(&'a mut self, frame: &'a [u8]) -> Option<&'a [u8]> {
        match encap_tag::is_tagged(frame) {
            false => Some(frame),
            true => self.encapsulate(frame),
        }
    }

    fn encapsulate(&mut self, frame: &[u8]) -> Option<&[u8]> {
        let Ok((tag, packet)) = encap_tag::split(frame) else {
            self.find(Rule::TagMalformed, Location::Frame, frame.len() as u64);
            self.counters[counter::MALFORMED] += 1;
            return None;
        };
        let Some(network) = self.table.network(tag.network()) else {
            self.give_back(frame, reason::NETWORK);
            return None;
        };
        let found =
            network.parse(packet).map(|(key, inner)| (self.table.find(tag.network(), key, &inner), inner));
        let (headers, inner) = match found {
            Some((Some(headers), inner)) => (headers, inner),
            Some((None, _)) if network.drops() => {
                self.counters[counter::UNKNOWN] += 1;
                return None;
            }
            Some((None, _)) => {
                self.give_back(frame, reason::KEY);
                return None;
            }
            None => {
                self.give_back(frame, reason::SHORT);
                return None;
            }
        };
        self.number = self.number.wrapping_add(1);
        if !headers.write(&mut self.out, packet, &inner, self.number) {
            self.give_back(frame, reason::LONG);
            return None;
        }
        if self.out.len() < MIN_FRAME {
            self.out.resize(MIN_FRAME, 0); // as a MAC does
        }
        self.counters[counter::SENT] += 1;
        Some(&self.out)
    }

    /// Gives a packet back to the host, with the reason in its tag.
    fn give_back(&mut self, frame: &[u8], reason: u8) {
        if self.waiting.len() >= MOST_WAITING {
            self.counters[counter::NOT_GIVEN_BACK] += 1;
            return;
        }
        let mut frame = frame.to_vec();
        encap_tag::set_reason(&mut frame, reason);
        self.counters[counter::GIVEN_BACK] += 1;
        self.waiting.push_back(frame);
    }

    /// The next packet that is given back.
    #[inline]
    pub fn given_back(&mut self) -> Option<Vec<u8>> {
        self.waiting.pop_front()
    }

    /// Whether a frame of the cable's may go on to the host: nobody there may write tags.
    #[inline]
    pub fn admits(&mut self, frame: &[u8]) -> bool {
        let is_tagged = encap_tag::is_tagged(frame);
        self.counters[counter::FOREIGN] += u64::from(is_tagged);
        !is_tagged
    }
}

/// Whether there is a register of a command's arguments.
fn is_argument(offset: u32) -> bool {
    let end_of_bytes = reg::BYTES + reg::MOST_BYTES as u32;
    let end_of_patches = reg::PATCHES + 4 * reg::MOST_PATCHES as u32;
    let key = reg::KEY..reg::KEY + 16;
    let places =
        [reg::NETWORK, reg::EXTRACTOR, reg::MODE, reg::PLACE, reg::WHICH, reg::MAX_LEN, reg::HEADERS_LEN];
    places.contains(&offset)
        || key.contains(&offset)
        || (reg::PATCHES..end_of_patches).contains(&offset)
        || (reg::BYTES..end_of_bytes).contains(&offset)
}

#[cfg(test)]
mod tests;
