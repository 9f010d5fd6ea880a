//! `IPReassembler`: fragments become whole packets again (RFC 791, 3.2; RFC 1858 and
//! RFC 3128 for what attackers make of it).
//!
//! Bytes that came first stay: a later fragment cannot replace them. Fragments that
//! contradict each other about the packet's length are the end of it.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

use graph::class::{Handlers, Headers, keyword, read};
use graph::clock::SECOND_NS;
use graph::{Class, Cx, Element, Next, TimerId};
use memory::annotation::Header;
use memory::{Batch, DATA_ROOM, Packet};
use wire::ip::{Ports, Protocol};
use wire::ipv4;

use graph::annotation::{PacketAnnotations, Place};
use graph::ip_header;

/// The class.
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
        "not complete in time",
        "too many kept",
        "fragments contradict each other",
        "no buffers",
        "no IP header",
    ],
    example: "r :: IPReassembler; r[1] -> ICMPError(10.0.0.1, timeexceeded, reassembly) -> rt;",
    see: &["IPFragmenter", "CheckIPHeader", "ICMPError"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let most = conf.keyword("HIMEM")?.unwrap_or(256 * 1024);
        let mtu: Option<Place<2>> = conf.keyword("MAX_MTU_ANNO")?;
        conf.complete()?;
        Ok(Box::new(IpReassembler {
            most,
            mtu,
            partial: HashMap::new(),
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

const PATIENCE_NS: i64 = 30 * SECOND_NS;
/// What a packet is counted for beside its bytes: a buffer and the books.
const OVERHEAD: usize = 2560;

/// What fragments of one packet have in common: addresses, protocol, number.
type Key = ((Ipv4Addr, Ipv4Addr), Protocol, u16);

/// A packet of which fragments are missing.
struct Partial {
    /// The fragment that begins it, once it came.
    first: Option<Packet>,
    payload: Vec<u8>,
    /// Which units of eight bytes are there.
    there: Vec<bool>,
    /// Bytes of payload, once the last fragment came.
    total: Option<usize>,
    longest: usize,
    /// When the last fragment came, by its timestamp and by the clock.
    last_ns: i64,
    clock_ns: i64,
}

impl Partial {
    fn memory(&self) -> usize {
        OVERHEAD + self.payload.len() + self.there.len()
    }

    /// Takes a fragment's bytes; false when it contradicts others.
    fn take(&mut self, at: usize, bytes: &[u8], is_last: bool) -> bool {
        let end = at + bytes.len();
        let known = self.total.unwrap_or(usize::MAX);
        let fits = match is_last {
            true => self.payload.len() <= end && (self.total.is_none() || known == end),
            false => bytes.len().is_multiple_of(8) && !bytes.is_empty() && end <= known,
        };
        if !fits || end > 0xFFFF - ip_header::LEN {
            return false;
        }
        if is_last {
            self.total = Some(end);
        }
        if self.payload.len() < end {
            self.payload.resize(end, 0);
            self.there.resize(end.div_ceil(8), false);
        }
        for (i, unit) in bytes.chunks(8).enumerate() {
            let place = at / 8 + i;
            if !self.there[place] {
                self.there[place] = true;
                self.payload[place * 8..place * 8 + unit.len()].copy_from_slice(unit);
            }
        }
        true
    }

    fn is_complete(&self) -> bool {
        self.total.is_some() && self.first.is_some() && self.there.iter().all(|there| *there)
    }
}

/// See [`CLASS`].
pub struct IpReassembler {
    most: usize,
    mtu: Option<Place<2>>,
    partial: HashMap<Key, Partial>,
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
            self.reap(cx, |partial| partial.last_ns < now_ns.saturating_sub(PATIENCE_NS));
            self.reap_ns = now_ns.saturating_add(PATIENCE_NS / 3);
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
            let (payload, there) = (vec![], vec![]);
            Partial { first: None, payload, there, total: None, longest: 0, last_ns: now_ns, clock_ns }
        });
        let before = partial.memory();
        (partial.last_ns, partial.clock_ns) = (now_ns, clock_ns);
        partial.longest = partial.longest.max(total);
        let taken = partial.take(at, &bytes[header_len..total], is_last);
        self.memory = self.memory + partial.memory() - before;
        if !taken {
            self.seen.bad += 1;
            self.forget(cx, key, CONTRADICTION);
            return cx.drop(CONTRADICTION, packet);
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

    /// Sends a whole packet on.
    fn complete(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Some(partial) = self.partial.remove(&key) else { return };
        self.memory -= partial.memory();
        let Partial { first: Some(mut packet), payload, longest, .. } = partial else { return };
        if let Some(tail) = packet.split_next() {
            cx.free(tail);
        }
        let front = packet.header_offset(Header::Network).unwrap_or(0).max(0) as usize;
        let header_len = packet.get(front).map_or(0, |first| ipv4::header_len(*first));
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
        let header = &mut packet[front..head];
        if let Some(mut ip) = ipv4::Header::of_mut(header) {
            ip.set_total_len((header_len + payload.len()) as u16);
            ip.set_fragment_word(ip.fragment_word() & !(ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET));
            ipv4::fill_checksum(header);
        }
        if let Some(Place(at)) = self.mtu {
            packet.set_u16_at(at, longest as u16);
        }
        packet.set_u32_at(28, 0); // the annotation that Click clears here
        self.seen.whole += 1;
        cx.emit(0, packet);
    }

    /// Forgets a packet that is not complete.
    fn forget(&mut self, cx: &mut Cx<'_>, key: Key, reason: usize) {
        let Some(partial) = self.partial.remove(&key) else { return };
        self.memory -= partial.memory();
        match partial.first {
            Some(packet) if cx.is_push_output(1) && reason != CONTRADICTION => cx.emit(1, packet),
            Some(packet) => cx.drop(reason, packet),
            None => cx.count_drops(reason, 1),
        }
    }

    fn make_room(&mut self, cx: &mut Cx<'_>) {
        if self.memory <= self.most {
            return;
        }
        while self.memory > self.most / 4 * 3 {
            let oldest = self.partial.iter().min_by_key(|(_, partial)| partial.last_ns).map(|(key, _)| *key);
            let Some(key) = oldest else { return };
            self.seen.failed += 1;
            self.forget(cx, key, TOO_MANY);
        }
    }

    /// Forgets packets that are not complete in time.
    fn reap(&mut self, cx: &mut Cx<'_>, is_late: impl Fn(&Partial) -> bool) {
        let gone: Vec<Key> =
            self.partial.iter().filter(|(_, partial)| is_late(partial)).map(|(key, _)| *key).collect();
        gone.into_iter().for_each(|key| self.forget(cx, key, IN_TIME));
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
            let (sport, dport) = ports(&partial.payload);
            let _ = write!(out, " ({src}, {sport}, {dst}, {dport}) {id}");
            let mut at = 0;
            for part in partial.there.chunk_by(|a, b| a == b) {
                let end = at + part.len() * 8;
                if part[0] {
                    let _ = write!(out, " ({at},{})", end.min(partial.payload.len()));
                }
                at = end;
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
            cx.set_timer_after(timer, PATIENCE_NS / 3);
        }
        Next::Done
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let late = cx.now_ns() - PATIENCE_NS;
        self.reap(cx, |partial| partial.clock_ns <= late);
        if !self.partial.is_empty() {
            cx.set_timer_after(timer, PATIENCE_NS / 3);
        }
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<IpReassembler>() else { return };
        self.partial = std::mem::take(&mut old.partial);
        (self.memory, self.reap_ns, self.seen) = (std::mem::take(&mut old.memory), old.reap_ns, old.seen);
        if let Some(timer) = self.timer.filter(|_| !self.partial.is_empty()) {
            cx.set_timer_after(timer, PATIENCE_NS / 3);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        for partial in self.partial.values_mut() {
            partial.first.take().into_iter().for_each(|packet| cx.free(packet));
        }
    }
}
