//! `IPReassembler`: fragments become whole packets again (RFC 791, 3.2; RFC 1858 and
//! RFC 3128 for what attackers make of it).
//!
//! Bytes that came first stay: a later fragment cannot replace them. Fragments that
//! contradict each other about the packet's length are the end of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::net::Ipv4Addr;

use graph::class::{Handlers, Headers, NOT_TAKEN_OVER, keyword, read};
use graph::clock::SECOND_NS;
use graph::element::Account;
use graph::{Class, Cx, Element, Next, TimerId};
use memory::annotation::Header;
use memory::{Batch, DATA_ROOM, Packet};
use wire::fragments::{Assembly, Fault, Overlap};
use wire::ip::{Ports, Protocol};
use wire::ipv4;

use graph::annotation::{AnnotationOffset, PacketAnnotations};
use graph::ip_header;
use port::Reason;

pub static CLASS: Class = Class {
    name: "IPReassembler",
    brief: "puts fragmented IP packets together",
    doc: "Fragments are kept until all of a packet are there; what is no fragment passes. What is not \
          complete after 30 seconds without another fragment, by the packets' timestamps or by the clock, is \
          dropped; its first fragment goes to output 1 if it came, where ICMPError can tell the sender. Long \
          packets leave in several segments.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        keyword("HIMEM", "bytes kept at most; the oldest packets go until a quarter is free; 262144"),
        keyword("MAX_MTU_ANNO", "an annotation of two bytes for the length of the longest fragment"),
    ],
    handlers: &Handlers::<IpReassembler>(&[
        read("length", "packets not complete", |reassembler| reassembler.partial.len().to_string()),
        read("memory", "bytes kept", |reassembler| reassembler.memory.to_string()),
        read("dump", "what was seen, and what is there of each packet", IpReassembler::dump),
    ]),
    drops: &[
        Reason::NotComplete,
        Reason::TooManyKept,
        Reason::FragmentsContradict,
        Reason::NoBuffers,
        Reason::NoIpHeader,
        Reason::LongerThanPossible,
        NOT_TAKEN_OVER,
    ],
    // A packet without its first fragment is dropped as one, though its fragments have ended; one in
    // several buffers is made of as many.
    account: Account::Unknown,
    example: "r :: IPReassembler; r[1] -> ICMPError(10.0.0.1, timeexceeded, reassembly) -> rt;",
    see: &["IPFragmenter", "CheckIPHeader", "ICMPError"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let most = conf.keyword("HIMEM")?.unwrap_or(256 * 1024);
        let mtu: Option<AnnotationOffset<2>> = conf.keyword("MAX_MTU_ANNO")?;
        conf.complete()?;
        Ok(Box::new(IpReassembler {
            most,
            mtu,
            partial: HashMap::new(),
            ages: BTreeMap::new(),
            count: 0,
            memory: 0,
            timer: None,
            reap_ns: 0,
            seen: Seen::default(),
        }))
    },
    ..Class::BASE
};

const IN_TIME: usize = 0;
const TOO_MANY: usize = 1;
const CONTRADICTION: usize = 2;
const NO_BUFFERS: usize = 3;
const NO_HEADER: usize = 4;
const TOO_LONG: usize = 5;

const TIMEOUT_NS: i64 = 30 * SECOND_NS;
/// What a packet is counted for beside its bytes: a buffer and its entry.
const OVERHEAD: usize = 2560;
/// Bytes of the longest packet, with its header.
const LONGEST: usize = u16::MAX as usize;

/// What fragments of one packet have in common: addresses, protocol, number.
type Key = ((Ipv4Addr, Ipv4Addr), Protocol, u16);

/// A place in the order in which packets that are not complete are forgotten: when the last
/// fragment came, by its timestamp, then which packet began first.
type Age = (i64, u64);

/// A packet of which fragments are missing.
struct Partial {
    /// The fragment that begins it, once it came.
    first: Option<Packet>,
    assembly: Assembly,
    longest: usize,
    age: Age,
    /// When the last fragment came, by the clock.
    clock_ns: i64,
}

impl Partial {
    fn new(age: Age, clock_ns: i64) -> Partial {
        Partial { first: None, assembly: Assembly::default(), longest: 0, age, clock_ns }
    }

    fn memory(&self) -> usize {
        OVERHEAD + self.assembly.pieces().memory()
    }

    /// Takes a fragment's bytes; why not, when the packet cannot be.
    fn take(&mut self, at: usize, bytes: &[u8], is_last: bool) -> Result<(), usize> {
        let taken = self.assembly.take(at, bytes, is_last, LONGEST - ip_header::LEN, Overlap::KeepFirst);
        taken.map_err(|fault| if fault == Fault::TooLong { TOO_LONG } else { CONTRADICTION })
    }

    fn is_complete(&self) -> bool {
        self.first.is_some() && self.assembly.is_whole()
    }
}

/// An `IPReassembler` element; [`CLASS`] says what it does.
pub struct IpReassembler {
    most: usize,
    mtu: Option<AnnotationOffset<2>>,
    partial: HashMap<Key, Partial>,
    /// The same packets, those first that are forgotten first.
    ages: BTreeMap<Age, Key>,
    /// Packets that began, all in all.
    count: u64,
    memory: usize,
    timer: Option<TimerId>,
    /// When it is looked next for packets that are not complete in time.
    reap_ns: i64,
    seen: Seen,
}

/// What became of fragments.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    fragments: u64,
    whole: u64,
    failed: u64,
    bad: u64,
}

/// Whether a packet is a fragment; `None` when it has no IP header.
fn is_fragment(packet: &Packet) -> Option<bool> {
    Some(ip_header::fixed(packet)?.is_fragment())
}

/// The ports that a payload begins with.
fn ports(payload: &[u8]) -> (u16, u16) {
    Ports::of(payload).map_or((0, 0), |ports| (ports.src(), ports.dst()))
}

impl IpReassembler {
    /// Takes a fragment in; the whole packet, if this was the last one missing.
    fn fragment(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        self.seen.fragments += 1;
        let clock_ns = cx.now_ns();
        if packet.annotations().timestamp_ns == 0 {
            packet.annotations_mut().timestamp_ns = clock_ns;
        }
        let now_ns = packet.annotations().timestamp_ns;
        if now_ns >= self.reap_ns {
            self.reap(cx, now_ns.saturating_sub(TIMEOUT_NS));
            self.reap_ns = now_ns.saturating_add(TIMEOUT_NS / 3);
        }
        let mut bytes = packet.header(Header::Network).unwrap_or_default().to_vec();
        packet.segments().skip(1).for_each(|segment| bytes.extend_from_slice(segment));
        let Some(ip) = ipv4::Header::of(&bytes) else {
            self.seen.bad += 1;
            return cx.drop(NO_HEADER, packet);
        };
        let (header_len, total) = (ip.header_len(), ip.total_len());
        if header_len < ip_header::LEN || total < header_len || bytes.len() < total {
            self.seen.bad += 1;
            return cx.drop(NO_HEADER, packet);
        }
        let (at, is_last) = (usize::from(ip.fragment_offset()), !ip.more_fragments());
        let key = ((ip.src(), ip.dst()), ip.protocol(), ip.identification());
        let partial = self.partial.entry(key).or_insert_with(|| {
            self.memory += OVERHEAD;
            self.count += 1;
            Partial::new((now_ns, self.count), clock_ns)
        });
        let before = partial.memory();
        self.ages.remove(&partial.age);
        (partial.age.0, partial.clock_ns) = (now_ns, clock_ns);
        self.ages.insert(partial.age, key);
        partial.longest = partial.longest.max(total);
        let taken = partial.take(at, &bytes[header_len..total], is_last);
        self.memory = self.memory + partial.memory() - before;
        if let Err(reason) = taken {
            self.seen.bad += 1;
            self.forget(cx, key, reason);
            return cx.drop(reason, packet);
        }
        if at == 0 && partial.first.is_none() {
            partial.first = Some(packet);
        } else {
            cx.free(packet);
        }
        if partial.is_complete() {
            self.complete(cx, key);
        }
        self.make_room(cx);
    }

    fn remove(&mut self, key: Key) -> Option<Partial> {
        let partial = self.partial.remove(&key)?;
        self.ages.remove(&partial.age);
        self.memory -= partial.memory();
        Some(partial)
    }

    /// Sends a whole packet on.
    fn complete(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Some(Partial { first: Some(mut packet), assembly, longest, .. }) = self.remove(key) else {
            return;
        };
        if let Some(tail) = packet.split_next() {
            cx.free_tail(tail);
        }
        let front = packet.header_offset(Header::Network).unwrap_or(0).max(0) as usize;
        let header_len = packet.get(front).map_or(0, |first| ipv4::header_len(*first));
        // Options of the first fragment count, which the others' offsets do not show.
        let payload = assembly.pieces().to_bytes();
        let Ok(total) = u16::try_from(header_len + payload.len()) else {
            self.seen.failed += 1;
            return cx.drop(TOO_LONG, packet);
        };
        let room = packet.len() + packet.tailroom();
        let head = front + header_len;
        let here = payload.len().min(room.saturating_sub(head));
        if packet.set_len(head + here).is_err() {
            return cx.drop(NO_BUFFERS, packet);
        }
        packet[head..].copy_from_slice(&payload[..here]);
        for rest in payload[here..].chunks(DATA_ROOM) {
            match cx.packet(rest) {
                Some(segment) => packet.append(segment),
                None => return cx.drop(NO_BUFFERS, packet),
            }
        }
        cx.gather(&mut packet);
        let header = &mut packet[front..head];
        if let Some(mut ip) = ipv4::Header::of_mut(header) {
            ip.set_total_len(total);
            ip.set_fragment_word(ip.fragment_word() & !(ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET));
            ipv4::fill_checksum(header);
        }
        if let Some(AnnotationOffset(at)) = self.mtu {
            packet.set_u16_at(at, longest as u16);
        }
        packet.set_u32_at(28, 0); // the annotation that Click clears here
        self.seen.whole += 1;
        cx.emit(0, packet);
    }

    /// Forgets a packet that is not complete.
    fn forget(&mut self, cx: &mut Cx<'_>, key: Key, reason: usize) {
        let Some(partial) = self.remove(key) else { return };
        let is_told = matches!(reason, IN_TIME | TOO_MANY) && cx.is_push_output(1);
        match partial.first {
            Some(packet) if is_told => cx.emit(1, packet),
            Some(packet) => cx.drop(reason, packet),
            None => cx.count_drops(reason, 1),
        }
    }

    fn make_room(&mut self, cx: &mut Cx<'_>) {
        if self.memory <= self.most {
            return;
        }
        while self.memory > self.most / 4 * 3 {
            let Some((_, &key)) = self.ages.first_key_value() else { return };
            self.seen.failed += 1;
            self.forget(cx, key, TOO_MANY);
        }
    }

    /// Forgets packets whose last fragment has an earlier timestamp.
    fn reap(&mut self, cx: &mut Cx<'_>, earliest_ns: i64) {
        while let Some((_, &key)) = self.ages.first_key_value().filter(|(age, _)| age.0 < earliest_ns) {
            self.forget(cx, key, IN_TIME);
        }
    }

    /// What was seen, and the parts that are there, as Click shows them.
    fn dump(&self) -> String {
        let Seen { fragments, whole, failed, bad } = self.seen;
        let mut out = format!(
            "frags seen total:    {fragments}\ngood reassemblies:   {whole}\n\
             failed reassemblies: {failed}\nbad fragments seen:  {bad}\ncached chunk data:\n"
        );
        let mut all: Vec<_> = self.partial.iter().collect();
        all.sort_unstable_by_key(|(key, _)| **key);
        for (((src, dst), _, id), partial) in all {
            // Of the first fragment, once it came.
            let (sport, dport) = ports(partial.assembly.pieces().start());
            let _ = write!(out, " ({src}, {sport}, {dst}, {dport}) {id}");
            for (start, end) in partial.assembly.pieces().runs() {
                let _ = write!(out, " ({start},{end})");
            }
            out.push('\n');
        }
        out
    }
}

impl Element for IpReassembler {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.timer = Some(cx.new_timer());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        if batch.iter().all(|packet| is_fragment(packet) == Some(false)) {
            return Next::Push(0);
        }
        for packet in batch.drain() {
            match is_fragment(&packet) {
                Some(false) => cx.emit(0, packet),
                Some(true) => self.fragment(cx, packet),
                None => cx.drop(NO_HEADER, packet),
            }
        }
        if let Some(timer) = self.timer.filter(|timer| cx.timer_due(*timer).is_none()) {
            cx.set_timer_after(timer, TIMEOUT_NS / 3);
        }
        Next::Done
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let late = cx.now_ns() - TIMEOUT_NS;
        let late: Vec<Key> =
            self.partial.iter().filter(|(_, p)| p.clock_ns <= late).map(|(key, _)| *key).collect();
        late.into_iter().for_each(|key| self.forget(cx, key, IN_TIME));
        if !self.partial.is_empty() {
            cx.set_timer_after(timer, TIMEOUT_NS / 3);
        }
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<IpReassembler>() else { return };
        self.partial = std::mem::take(&mut old.partial);
        (self.ages, self.count) = (std::mem::take(&mut old.ages), old.count);
        (self.memory, self.reap_ns, self.seen) = (std::mem::take(&mut old.memory), old.reap_ns, old.seen);
        if let Some(timer) = self.timer.filter(|_| !self.partial.is_empty()) {
            cx.set_timer_after(timer, TIMEOUT_NS / 3);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(self.partial.values_mut().filter_map(|partial| partial.first.take()));
    }
}
