//! The bytes that both sides of a protocol share beside its messages: what a twin learns of
//! them from the messages that pass, and the mutations that it writes there.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::Dma as _;
use regs::i40e::admin::{self, Descriptor};
use regs::i40e::*;
use regs::iavf::{VF_ARQBAH1, VF_ARQBAL1, VF_ARQLEN1, VF_ATQBAH1, VF_ATQBAL1, VF_ATQLEN1, VF_ATQT1};
use regs::virtchnl::message::Queues;
use regs::virtchnl::op;
use regs::virtio::pci::common::{QUEUE_DESC, QUEUE_DEVICE, QUEUE_SELECT, QUEUE_SIZE};
use rustix::fs::{OFlags, fcntl_setfl};

use super::mutation::Value;
use super::protocol::{Head, Role, Side};
use super::socket::Message;
use crate::fault::Random;
use crate::view::{Access, View};

/// Bytes of a descriptor of any ring.
const DESCRIPTOR: u64 = 16;
/// Likewise of a receive ring of an XL710's virtual function.
const LONG_DESCRIPTOR: u64 = 32;
/// Bytes of a buffer that are written to at most.
const BUFFER: u64 = 1500;
/// Bytes of an XL710's segment of contexts, and units of addresses of contexts and rings.
const SEGMENT: u64 = 2 << 20;
const CONTEXT_UNIT: u64 = 512;
const RING_UNIT: u64 = 128;

/// Where shared bytes are mutated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MutationTarget {
    /// What a device writes to tell that it is done: the second half of descriptors, and
    /// virtio's device area.
    Completion,
    /// Any word of a ring, the driver's own words among them.
    Ring,
    /// The bytes of a packet in a buffer that the device was given.
    Buffer,
    /// Registers in pages that both sides see.
    Register,
    /// Any byte of the memory that the device was offered.
    Anywhere,
    /// Eventfds: full, empty, and in each case so that who reads or writes them plainly waits.
    Event,
}

impl MutationTarget {
    /// All places, as tests take them one by one.
    pub const ALL: [MutationTarget; 6] = [
        MutationTarget::Completion,
        MutationTarget::Ring,
        MutationTarget::Buffer,
        MutationTarget::Register,
        MutationTarget::Anywhere,
        MutationTarget::Event,
    ];
}

/// How a device's rings are found.
#[derive(Clone, Copy, Debug)]
pub enum Rings {
    /// Registers of each ring: its address, low and high, and its bytes.
    Registers(&'static [[u32; 3]]),
    /// An XL710's: those of its firmware's queues by registers, those of its first queues by
    /// their contexts in the memory that the driver lends.
    Xl710,
    /// Those of an XL710's virtual function: those of its mailbox by registers, those of its queues
    /// by what its driver tells the physical function.
    Xl710Vf,
    /// By virtio's common configuration, in BAR 0 from 0 on.
    Virtio,
    /// By vhost-user's messages.
    VhostUser,
}

/// A ring: descriptors, driver area and device area with their lengths.
type Areas = [(u64, u64); 3];

#[derive(Debug, Default)]
struct Known {
    /// What was written to BAR 0 where it is not mapped.
    registers: BTreeMap<u32, u32>,
    /// Entries of queues, and where their areas are.
    queues: BTreeMap<u32, (u64, [u64; 3])>,
    /// vhost-user: guest address, length and the front end's address.
    regions: Vec<(u64, u64, u64)>,
    /// Addresses of buffers, as they were before the first mutation.
    buffers: Vec<u64>,
    /// Interrupts, kicks and calls.
    events: Vec<OwnedFd>,
    /// Rings that were told of in messages to the physical function, and their bytes.
    told: Vec<(u64, u64)>,
}

/// Memory and registers as a twin sees them.
#[derive(Debug)]
pub struct TwinMemory {
    rings: Rings,
    memory: Mutex<View>,
    /// The pages of BAR 0 that the server shares, as memory from 0 on.
    pages: Mutex<View>,
    known: Mutex<Known>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Notes of a test; each change is one statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The `len` bytes at `at` as a number; zero where there are none.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.get(at..at + len).unwrap_or_default();
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The rings of queues to and from the firmware, by their registers: base low and high, and length.
fn of_firmware(register: impl Fn(u32) -> u64, queues: [[u32; 3]; 2]) -> [(u64, u64); 2] {
    let whole = |low: u32, high: u32| register(low) | register(high) << 32;
    let bytes = |len: u32| (register(len) & u64::from(PF_ATQLEN::LEN_MASK)) * admin::DESCRIPTOR as u64;
    queues.map(|[low, high, len]| (whole(low, high), bytes(len)))
}

/// Whether a ring is in memory: what tells of it may have been mutated.
fn is_there(memory: &View, (at, len): (u64, u64)) -> bool {
    at.checked_add(len).is_some() && memory.read(at, &mut [0; DESCRIPTOR as usize])
}

/// An XL710's rings: their addresses, and bytes.
fn xl710(register: impl Fn(u32) -> u64, memory: &View) -> Vec<(u64, u64)> {
    let whole = |low: u32, high: u32| register(low) | register(high) << 32;
    let of_firmware = of_firmware(
        &register,
        [[PF_ATQBAL::AT, PF_ATQBAH::AT, PF_ATQLEN::AT], [PF_ARQBAL::AT, PF_ARQBAH::AT, PF_ARQLEN::AT]],
    );
    let segment = whole(PFHMC_SDDATALOW::AT, PFHMC_SDDATAHIGH::AT) & !(SEGMENT - 1);
    let words_at = |base: u32| {
        let mut bytes = [0; context::tx::LEN]; // the longer one
        let at = segment.wrapping_add(register(base) * CONTEXT_UNIT);
        let is_there = memory.read(at, &mut bytes);
        std::array::from_fn(|n| if is_there { number(&bytes, 8 * n, 8) } else { 0 })
    };
    let rx: [u64; context::tx::LEN / 8] = words_at(GLHMC_LANRXBASE::at(0));
    let tx: [u64; context::tx::LEN / 8] = words_at(GLHMC_LANTXBASE::at(0));
    let of_queues = [
        (context::rx::BASE.of(&rx), context::rx::QLEN.of(&rx)),
        (context::tx::BASE.of(&tx), context::tx::QLEN.of(&tx)),
    ];
    let of_queues = of_queues.map(|(base, count)| (base * RING_UNIT, count * DESCRIPTOR));
    of_firmware.into_iter().chain(of_queues).filter(|ring| is_there(memory, *ring)).collect()
}

/// Those of the mailbox of an XL710's virtual function.
const MAILBOX: [[u32; 3]; 2] =
    [[VF_ATQBAL1::AT, VF_ATQBAH1::AT, VF_ATQLEN1::AT], [VF_ARQBAL1::AT, VF_ARQBAH1::AT, VF_ARQLEN1::AT]];

/// The rings that the message in front of a mailbox's tail tells of, if it tells of any.
fn told_of(register: impl Fn(u32) -> u64, memory: &View) -> Option<Vec<(u64, u64)>> {
    let [(base, len), _] = of_firmware(&register, MAILBOX);
    let end = match register(VF_ATQT1::AT) {
        0 => len,
        tail => tail * admin::DESCRIPTOR as u64,
    };
    let mut bytes = [0; admin::DESCRIPTOR];
    let at = base.checked_add(end)?.checked_sub(admin::DESCRIPTOR as u64)?;
    let words = memory.read(at, &mut bytes).then(|| std::array::from_fn(|n| number(&bytes, 8 * n, 8)))?;
    let command = Descriptor::from_words(words);
    if command.cookie as u32 != op::CONFIG_VSI_QUEUES {
        return None;
    }
    let mut bytes = vec![0; command.datalen.into()];
    let queues = memory.read(command.address(), &mut bytes).then(|| Queues::decode(&bytes))??;
    let rings = queues.pairs.iter().flat_map(|pair| {
        let rx = (pair.rx_ring, u64::from(pair.rx_len) * LONG_DESCRIPTOR);
        [rx, (pair.tx_ring, u64::from(pair.tx_len) * DESCRIPTOR)]
    });
    Some(rings.filter(|ring| is_there(memory, *ring)).collect())
}

impl TwinMemory {
    /// Nothing is known yet.
    pub fn new(rings: Rings) -> TwinMemory {
        TwinMemory { rings, memory: Mutex::default(), pages: Mutex::default(), known: Mutex::default() }
    }

    /// Learns from a message of honest peers.
    pub(super) fn note(&self, from: Side, head: &Head, message: &Message) {
        let file = message.files.first().and_then(|file| file.try_clone().ok());
        let wires = match self.rings {
            Rings::VhostUser => 12..=14,
            _ => 8..=8,
        };
        if from == Side::Client && wires.contains(&head.number) {
            lock(&self.known).events.extend(message.files.iter().filter_map(|file| file.try_clone().ok()));
        }
        match (self.rings, from, head.role) {
            (Rings::VhostUser, Side::Client, Role::Request) => self.note_vhost_user(head.number, message),
            (Rings::VhostUser, ..) => {}
            (_, Side::Client, Role::Request) => self.note_vfio_user(head.number, &message.bytes, file),
            (_, Side::Server, Role::Reply) if head.number == 5 => self.note_pages(&message.bytes, file),
            _ => {}
        }
    }

    fn note_vfio_user(&self, command: u32, bytes: &[u8], file: Option<OwnedFd>) {
        const HEADER: usize = 16;
        let field = |at, len| number(bytes, HEADER + at, len);
        match (command, file) {
            (2, Some(file)) => {
                let (offset, iova, len) = (field(8, 8), field(16, 8), field(24, 8));
                let _ = lock(&self.memory).map(iova, len, file, offset, Access::BOTH);
            }
            (3, _) => _ = lock(&self.memory).unmap(field(8, 8), field(16, 8)),
            (10, _) if field(8, 4) == 0 => {
                let (offset, len) = (field(0, 8) as u32, field(12, 4) as usize);
                self.note_register(offset, field(16, len.min(8)) as u32);
            }
            _ => {}
        }
    }

    fn note_register(&self, offset: u32, value: u32) {
        let mut known = lock(&self.known);
        known.registers.insert(offset, value);
        if matches!((self.rings, offset), (Rings::Xl710Vf, VF_ATQT1::AT)) {
            let register = |at| known.registers.get(&at).copied().unwrap_or(0).into();
            let told = told_of(register, &lock(&self.memory));
            known.told = told.unwrap_or(std::mem::take(&mut known.told));
        }
        let queue = known.registers.get(&QUEUE_SELECT).copied().unwrap_or(0);
        let (size, areas) = known.queues.entry(queue).or_default();
        match (self.rings, offset) {
            (Rings::Virtio, QUEUE_SIZE) => *size = value.into(),
            (Rings::Virtio, QUEUE_DESC..) if offset < QUEUE_DEVICE + 8 => {
                let area = &mut areas[((offset - QUEUE_DESC) / 8) as usize];
                let shift = offset % 8 * 8;
                *area = *area & !(0xFFFF_FFFF << shift) | u64::from(value) << shift;
            }
            _ => {}
        }
    }

    fn note_pages(&self, bytes: &[u8], file: Option<OwnedFd>) {
        const HEADER: usize = 16;
        let (index, size) = (number(bytes, HEADER + 8, 4), number(bytes, HEADER + 16, 8));
        if let (0, Some(file)) = (index, file) {
            let _ = lock(&self.pages).map(0, size, file, number(bytes, HEADER + 24, 8), Access::BOTH);
        }
    }

    fn note_vhost_user(&self, request: u32, message: &Message) {
        const HEADER: usize = 12;
        let field = |at, len| number(&message.bytes, HEADER + at, len);
        let region = |at| [0, 8, 16, 24].map(|inside| field(at + inside, 8));
        let (memory, mut known) = (lock(&self.memory), lock(&self.known));
        let add = |known: &mut Known, [guest, len, user, offset]: [u64; 4], file: &OwnedFd| {
            let Ok(file) = file.try_clone() else { return };
            if memory.map(guest, len, file, offset, Access::BOTH).is_ok() {
                known.regions.push((guest, len, user));
            }
        };
        match request {
            5 => {
                memory.clear();
                known.regions.clear();
                for (n, file) in message.files.iter().enumerate() {
                    add(&mut known, region(8 + 32 * n), file);
                }
            }
            37 => message.files.iter().for_each(|file| add(&mut known, region(8), file)),
            38 => {
                let [guest, len, ..] = region(8);
                let _ = memory.unmap(guest, len);
                known.regions.retain(|region| region.0 != guest);
            }
            8 => known.queues.entry(field(0, 4) as u32).or_default().0 = field(4, 4),
            9 => {
                let guest = |user: u64| {
                    let inside = |region: &&(u64, u64, u64)| user.wrapping_sub(region.2) < region.1;
                    known.regions.iter().find(inside).map_or(0, |region| region.0 + (user - region.2))
                };
                // The used ring comes before the available one.
                let areas = [field(8, 8), field(24, 8), field(16, 8)].map(guest);
                known.queues.entry(field(0, 4) as u32).or_default().1 = areas;
            }
            _ => {}
        }
    }

    /// The rings that the driver told of.
    fn areas(&self) -> Vec<Areas> {
        let memory = lock(&self.memory).clone();
        let (known, pages) = (lock(&self.known), lock(&self.pages));
        let register = |offset: u32| {
            let mut word = [0; 4];
            match pages.read(offset.into(), &mut word) {
                true if word != [0; 4] => u32::from_le_bytes(word).into(),
                _ => u64::from(known.registers.get(&offset).copied().unwrap_or(0)),
            }
        };
        let alone = |ring| [ring, (0, 0), (0, 0)];
        let areas: Vec<Areas> = match self.rings {
            Rings::Registers(rings) => {
                let ring =
                    |[low, high, len]: &[u32; 3]| (register(*low) | register(*high) << 32, register(*len));
                let rings = rings.iter().map(ring).filter(|ring| is_there(&memory, *ring));
                rings.map(alone).collect()
            }
            Rings::Xl710 => xl710(register, &memory).into_iter().map(alone).collect(),
            Rings::Xl710Vf => {
                let of_mailbox = of_firmware(register, MAILBOX).into_iter();
                let of_mailbox = of_mailbox.filter(|ring| is_there(&memory, *ring));
                of_mailbox.chain(known.told.iter().copied()).map(alone).collect()
            }
            _ => {
                let lens = |size: u64| [DESCRIPTOR * size, 6 + 2 * size, 6 + 8 * size];
                let queue = |(size, [a, b, c]): &(u64, [u64; 3])| {
                    let [x, y, z] = lens(*size);
                    [(*a, x), (*b, y), (*c, z)]
                };
                known.queues.values().map(queue).collect()
            }
        };
        areas.into_iter().filter(|[(at, len), ..]| *at != 0 && *len >= DESCRIPTOR).collect()
    }

    /// Notes where buffers are, before any mutation could have changed that.
    pub fn find_buffers(&self) {
        let areas = self.areas();
        let view = lock(&self.memory);
        let mut found = Vec::new();
        for (at, len) in areas.iter().map(|areas| areas[0]) {
            for descriptor in (at..at + len).step_by(DESCRIPTOR as usize) {
                let (mut word, mut bytes) = ([0; 8], [0; BUFFER as usize]);
                let buffer = view.read(descriptor, &mut word).then(|| u64::from_le_bytes(word));
                found.extend(buffer.filter(|&buffer| buffer != 0 && view.read(buffer, &mut bytes)));
            }
        }
        lock(&self.known).buffers = found;
    }

    /// Writes one mutation to one of `places`; which, and how, if it found where.
    pub fn mutation(
        &self,
        random: &mut Random,
        places: &[MutationTarget],
    ) -> Option<(MutationTarget, Value)> {
        let place = places[random.below(places.len() as u64) as usize];
        let values = Value::all(random.below(64) as u8);
        let value = values[random.below(values.len() as u64) as usize];
        if place == MutationTarget::Event {
            return self.mutation_by_event(random).then_some((place, value));
        }
        let len = [2, 4, 8, 8][random.below(4) as usize];
        let (view, at) = match place {
            MutationTarget::Register => {
                let pages = lock(&self.pages).clone();
                let (_, bytes) = pages.mapped();
                (pages, random.below((bytes / 8).max(1)) * 8)
            }
            _ => {
                let at = self.pick(random, place)?; // which locks the memory itself
                (lock(&self.memory).clone(), at & !(len - 1))
            }
        };
        let (mut word, len) = ([0; 8], len as usize);
        if !view.read(at, &mut word[..len]) {
            return None;
        }
        let random_word = random.next();
        let new = match random.below(4) {
            0 => random_word,
            _ => value.of(u64::from_le_bytes(word), 8 * len),
        };
        view.write(at, &new.to_le_bytes()[..len]).then_some((place, value))
    }

    /// Fills an eventfd, or takes what it has, and makes it one at which others wait.
    fn mutation_by_event(&self, random: &mut Random) -> bool {
        let known = lock(&self.known);
        let Some(count) = u64::try_from(known.events.len()).ok().filter(|&count| count > 0) else {
            return false;
        };
        let event = &known.events[random.below(count) as usize];
        // Not to wait here.
        let changed = fcntl_setfl(event, OFlags::NONBLOCK).is_ok();
        let _ = match random.below(2) {
            0 => rustix::io::write(event, &(u64::MAX - 1).to_ne_bytes()),
            _ => rustix::io::read(event, &mut [0; 8]),
        };
        changed && fcntl_setfl(event, OFlags::empty()).is_ok()
    }

    /// An address in one of the rings, buffers or all of the memory.
    fn pick(&self, random: &mut Random, place: MutationTarget) -> Option<u64> {
        let areas = self.areas();
        let one = |random: &mut Random, len: usize| (len > 0).then(|| random.below(len as u64) as usize);
        Some(match place {
            MutationTarget::Buffer => {
                let known = lock(&self.known);
                known.buffers[one(random, known.buffers.len())?] + random.below(BUFFER)
            }
            MutationTarget::Completion => {
                let ring = areas[one(random, areas.len())?];
                let (at, len) = if ring[2].0 == 0 || random.below(2) == 0 { ring[0] } else { ring[2] };
                let inside = random.below(len);
                // In a table of descriptors the address is the driver's.
                if (at, len) == ring[0] { at + (inside | 8) } else { at + inside }
            }
            MutationTarget::Ring => {
                let (at, len) = areas[one(random, areas.len())?][random.below(3) as usize];
                at + random.below(len.max(1))
            }
            MutationTarget::Anywhere | MutationTarget::Register | MutationTarget::Event => {
                let known = areas[one(random, areas.len())?][0].0;
                // Chunks begin at multiples of 2 MiB: rings in one, packets in another.
                (known & !0x1F_FFFF).wrapping_add(random.below(8 << 20))
            }
        })
    }
}
