//! `ReplayUnqueue`, `MultiReplayUnqueue`, `Replay`: packets taken into memory once, and
//! sent over and over.

use graph::class::{Argument, Handlers, NOT_TAKEN_OVER, action, both, keyword, read};
use graph::element::Account;
use graph::signal::SignalKind;
use graph::value::Span;
use graph::{Class, Conf, ConfFault, Cx, Element, Notice, Ran, Setup, Signal, Signals, TaskId, TimerId};
use memory::annotation::Annotations;
use memory::{Batch, DATA_ROOM, Packet};
use port::Reason;

use super::parsed;

const ARGUMENTS: &[Argument] = &[
    keyword("STOP", "how often all are sent, after which the router stops; -1 for ever"),
    keyword("STOP_TIME", "seconds after which it stops at the end of a round; 0 for never"),
    keyword("BURST", "packets sent at a time; 64"),
    keyword("LIMIT", "packets that are kept; -1 for as many as come"),
    keyword("ACTIVE", "whether it sends; true"),
    keyword("TIMING", "send at the speed of the packets' timestamps, in percent of it; 0 for at once"),
    keyword("USE_SIGNAL", "go on taking in while the inputs say that there is more; false"),
    keyword("VERBOSE", "accepted; nothing is said"),
    keyword("QUICK_CLONE", "accepted; packets are copied"),
    keyword("FREEONTERMINATE", "accepted; memory is given back at the end"),
    keyword("QUEUE", "accepted; nothing waits within"),
];
const HANDLERS: Handlers<Replay> = Handlers(&[
    both(
        "active",
        "whether it sends",
        |replay| replay.active.to_string(),
        |replay, cx, value| {
            replay.active = parsed(value)?;
            replay.begin_anew(cx);
            Ok(())
        },
    ),
    both(
        "stop",
        "how many rounds are left",
        |replay| replay.rounds.to_string(),
        |replay, cx, value| {
            replay.rounds = parsed(value)?;
            replay.begin_anew(cx);
            Ok(())
        },
    ),
    both(
        "timing",
        "percent of the original speed; 0 for at once",
        |replay| replay.timing.to_string(),
        |replay, cx, value| {
            replay.timing = parsed(value)?;
            replay.begin_anew(cx);
            Ok(())
        },
    ),
    read("loaded", "whether all packets are in", |replay| replay.loaded.to_string()),
    read("count", "packets sent", |replay| replay.count.to_string()),
    read("kept", "packets kept", |replay| replay.tape.kept.len().to_string()),
    action("reset", "forgets all packets, and takes in new ones", |replay, cx| {
        replay.tape = Tape::default();
        replay.loaded = false;
        replay.begin_anew(cx);
    }),
]);

/// `ReplayUnqueue`, which pushes.
pub static UNQUEUE: Class = Class {
    name: "ReplayUnqueue",
    brief: "takes packets into memory, and pushes them over and over",
    doc: "Pulls packets until there are no more, and then sends copies of them as fast as it can, or as their \
          timestamps say, STOP times. With several inputs packets are merged by their timestamps, and those \
          of each input leave at the output of the same number.",
    ports: "1-/=",
    processing: "l/h",
    flow: "#/#",
    arguments: ARGUMENTS,
    handlers: &HANDLERS,
    drops: &[Reason::NoBuffers, Reason::TooLongToKeep, NOT_TAKEN_OVER],
    account: Account::Unknown, // what is too long to be kept is dropped and ended
    example: "FromDump(trace.pcap) -> ReplayUnqueue(STOP 100) -> ToDevice(p)",
    see: &["MultiReplayUnqueue", "Replay", "FromDump", "Unqueue"],
    make: |setup, conf| make(setup, conf, false),
    ..Class::BASE
};

/// Pushed, from several.
pub static MULTI: Class = Class {
    name: "MultiReplayUnqueue",
    brief: "takes packets of several inputs into memory, and pushes them over and over",
    example: "r :: MultiReplayUnqueue(STOP 10); FromDump(a.pcap) -> r -> Discard; FromDump(b.pcap) -> [1]r[1] -> Discard;",
    see: &["ReplayUnqueue"],
    ..UNQUEUE
};

/// `Replay`, which is pulled.
pub static PULL: Class = Class {
    name: "Replay",
    brief: "takes packets into memory, which can be pulled over and over",
    doc: "As ReplayUnqueue, but packets are sent when they are pulled.",
    ports: "1/1",
    processing: "l/l",
    example: "FromDump(trace.pcap) -> Replay(STOP 100) -> Unqueue(32) -> Discard",
    see: &["ReplayUnqueue"],
    make: |setup, conf| make(setup, conf, true),
    ..UNQUEUE
};

fn make(setup: &mut Setup<'_>, conf: &mut Conf<'_>, pulled: bool) -> Result<Box<dyn Element>, ConfFault> {
    let rounds = conf.keyword("STOP")?.unwrap_or(-1);
    let time = conf.keyword("STOP_TIME")?.unwrap_or(Span(0));
    let burst: usize = conf.keyword("BURST")?.unwrap_or(64);
    let limit: i64 = conf.keyword("LIMIT")?.unwrap_or(-1);
    let active = conf.keyword("ACTIVE")?.unwrap_or(true);
    let timing = conf.keyword("TIMING")?.unwrap_or(0);
    let patient = conf.keyword("USE_SIGNAL")?.unwrap_or(false);
    let _: Option<i64> = conf.keyword("QUEUE")?;
    for word in ["VERBOSE", "QUICK_CLONE", "FREEONTERMINATE"] {
        let _: Option<bool> = conf.keyword(word)?;
    }
    conf.complete()?;
    Ok(Box::new(Replay {
        rounds,
        time_ns: time.0,
        burst: burst.clamp(1, Batch::MAX),
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        active,
        timing,
        patient,
        tape: Tape::default(),
        heads: (0..setup.inputs).map(|_| None).collect(),
        loaded: false,
        count: 0,
        begun_ns: None,
        mark: (0, 0),
        task: None,
        timer: None,
        upstream: vec![],
        packets: pulled.then(|| Signal::new(true)),
    }))
}

/// Packets taken in before others have a turn.
const AT_ONCE: usize = 1024;

/// Packets as they are kept, one behind the other.
#[derive(Debug, Default)]
struct Tape {
    bytes: Vec<u8>,
    kept: Vec<Kept>,
    /// The one to send next.
    next: usize,
}

#[derive(Debug)]
struct Kept {
    /// Its bytes, and where they stood in their buffer.
    begin: usize,
    end: usize,
    headroom: usize,
    annotations: Annotations,
    output: usize,
}

impl Tape {
    /// Keeps a copy; whether it fits into a buffer.
    fn keep(&mut self, packet: &Packet, output: usize) -> bool {
        if packet.total_len() > DATA_ROOM {
            return false;
        }
        let begin = self.bytes.len();
        packet.segments().for_each(|segment| self.bytes.extend_from_slice(segment));
        let (end, headroom) = (self.bytes.len(), packet.headroom());
        self.kept.push(Kept { begin, end, headroom, annotations: *packet.annotations(), output });
        true
    }

    /// A copy of the next one.
    fn copy(&self, cx: &mut Cx<'_>) -> Option<Packet> {
        let kept = self.kept.get(self.next)?;
        let mut packet = cx.alloc()?;
        kept.write(&self.bytes, &mut packet);
        Some(packet)
    }

    /// Adds copies of up to `most` packets from the next one on to a batch: how many.
    fn copy_row(&self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) -> usize {
        let mut row = self.kept[self.next..].iter();
        let count = most.min(row.len());
        cx.alloc_batch(batch, count, |packet| {
            if let Some(kept) = row.next() {
                kept.write(&self.bytes, packet);
            }
        })
    }
}

impl Kept {
    /// Makes a fresh packet one of these bytes.
    #[inline(always)]
    fn write(&self, bytes: &[u8], packet: &mut Packet) {
        let Some(bytes) = bytes.get(self.begin..self.end) else { return };
        // One that was in several buffers may not fit where its first bytes stood, but it fits
        // into one.
        let fits = packet.copy_at(self.headroom, bytes).or_else(|_| packet.copy_from(bytes));
        debug_assert!(fits.is_ok(), "what a tape keeps fits into a buffer");
        *packet.annotations_mut() = self.annotations;
    }
}

/// A `ReplayUnqueue`, `MultiReplayUnqueue` or `Replay` element; [`UNQUEUE`] says what it does.
pub struct Replay {
    rounds: i64,
    time_ns: i64,
    burst: usize,
    limit: usize,
    active: bool,
    timing: i64,
    patient: bool,
    tape: Tape,
    /// While taking in: the next packet of each input.
    heads: Vec<Option<Packet>>,
    loaded: bool,
    count: u64,
    /// When the first packet was sent.
    begun_ns: Option<i64>,
    /// A packet's time and the time it was sent, from which those of others are computed.
    mark: (i64, i64),
    task: Option<TaskId>,
    timer: Option<TimerId>,
    upstream: Vec<Signals>,
    /// When packets are pulled.
    packets: Option<Signal>,
}

impl Replay {
    /// Takes packets in; whether all are there.
    fn load(&mut self, cx: &mut Cx<'_>) -> bool {
        for _ in 0..AT_ONCE {
            if self.tape.kept.len() >= self.limit || !self.fill_heads(cx) {
                return self.end_load(cx);
            }
            let stamp = |packet: &Packet| packet.annotations().timestamp_ns;
            let heads = self.heads.iter().enumerate();
            let first = heads.min_by_key(|(_, head)| head.as_ref().map(stamp)).map_or(0, |(i, _)| i);
            if let Some(packet) = self.heads.get_mut(first).and_then(Option::take) {
                if !self.tape.keep(&packet, first) {
                    cx.count_drops(1, 1);
                }
                cx.free(packet);
            }
        }
        false
    }

    /// Has a packet of every input; whether there is one of each.
    fn fill_heads(&mut self, cx: &mut Cx<'_>) -> bool {
        for (input, head) in self.heads.iter_mut().enumerate() {
            if head.is_none() {
                *head = cx.pull_one(input);
            }
        }
        self.heads.iter().all(Option::is_some)
    }

    /// An input has nothing more, or there is enough: whether that is the end.
    fn end_load(&mut self, cx: &mut Cx<'_>) -> bool {
        let enough = self.tape.kept.len() >= self.limit;
        let dry = |(i, head): (usize, &Option<Packet>)| {
            head.is_none() && self.upstream.get(i).is_none_or(|signals| !signals.any())
        };
        let dried = self.heads.iter().enumerate().any(dry);
        // Nothing yet: it has not begun. Who waits for signals is woken by them.
        if !enough && (self.tape.kept.is_empty() || self.patient && !dried) {
            return false;
        }
        self.heads.iter_mut().filter_map(Option::take).for_each(|packet| cx.free(packet));
        self.loaded = true;
        self.rewind(cx.now_ns());
        true
    }

    fn rewind(&mut self, now_ns: i64) {
        let next = self.tape.kept.get(self.tape.next);
        self.mark = (next.map_or(0, |kept| kept.annotations.timestamp_ns), now_ns);
        self.begun_ns.get_or_insert(now_ns);
    }

    /// When the next packet is to be sent.
    fn due_ns(&self) -> i64 {
        let next = self.tape.kept.get(self.tape.next).filter(|_| self.timing > 0);
        let Some(next) = next else { return i64::MIN };
        let after = i128::from(next.annotations.timestamp_ns) - i128::from(self.mark.0);
        let after = i64::try_from(after * 100 / i128::from(self.timing)).unwrap_or(i64::MAX);
        self.mark.1.saturating_add(after)
    }

    /// The next packet and its output. `None`: none is due, or that was the last.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<(usize, Packet)> {
        if self.rounds == 0 || self.timing > 0 && self.due_ns() > cx.now_ns() {
            return None;
        }
        let output = self.tape.kept.get(self.tape.next)?.output;
        let packet = self.tape.copy(cx);
        if packet.is_none() {
            cx.count_drops(0, 1);
        }
        self.advance(cx, 1);
        packet.map(|packet| (output, packet))
    }

    /// Adds the next packets to a batch, up to the end of a round, where none waits for its
    /// time: how many. None where there are no buffers.
    fn next_row(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) -> usize {
        if self.rounds == 0 || self.timing > 0 {
            return 0;
        }
        let made = self.tape.copy_row(cx, batch, most);
        self.advance(cx, made);
        made
    }

    /// So many packets were sent, or lost.
    fn advance(&mut self, cx: &mut Cx<'_>, count: usize) {
        self.count += count as u64;
        self.tape.next += count;
        if self.tape.next >= self.tape.kept.len() {
            self.end_round(cx);
        }
    }

    fn end_round(&mut self, cx: &mut Cx<'_>) {
        self.tape.next = 0;
        let now_ns = cx.now_ns();
        self.rewind(now_ns);
        self.rounds -= i64::from(self.rounds > 0);
        let elapsed = now_ns - self.begun_ns.unwrap_or(now_ns);
        if self.time_ns > 0 && elapsed >= self.time_ns {
            self.rounds = 0;
        }
        if self.rounds == 0 {
            self.end(cx);
        }
    }

    fn end(&mut self, cx: &mut Cx<'_>) {
        (self.active, self.begun_ns) = (false, None);
        if let Some(packets) = &self.packets {
            packets.lower();
        }
        cx.stop();
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        if !self.active {
            return;
        }
        match (&self.packets, self.task) {
            (Some(packets), _) => packets.raise(cx),
            (None, Some(task)) => cx.schedule(task),
            _ => {}
        }
    }

    /// Has the element woken when the next packet is due.
    fn wait(&mut self, cx: &mut Cx<'_>) {
        if let Some(timer) = self.timer {
            let due = self.due_ns();
            cx.set_timer(timer, due);
        }
    }

    /// Begins at the first packet, if it is active.
    fn begin_anew(&mut self, cx: &mut Cx<'_>) {
        self.rewind(cx.now_ns());
        self.wake(cx);
    }
}

impl Element for Replay {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        self.upstream = (0..cx.inputs()).map(|input| cx.upstream(input, Some(task))).collect();
        (self.task, self.timer) = (Some(task), Some(cx.new_timer()));
        self.wake(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if self.packets.is_some() {
            self.wake(cx); // something came in further up
            return Ran::IDLE;
        }
        if !self.active {
            return Ran::IDLE;
        }
        if !self.loaded && !self.load(cx) {
            if self.upstream.iter().any(Signals::any) {
                cx.schedule(task);
            }
            return Ran::done(true);
        }
        if self.rounds == 0 || self.tape.kept.is_empty() {
            self.end(cx);
            return Ran::IDLE;
        }
        let single = cx.outputs() == 1;
        let mut sent = 0;
        while sent < self.burst && self.active {
            if single {
                let row = self.next_row(cx, batch, self.burst - sent);
                if row > 0 {
                    sent += row;
                    continue;
                }
            }
            let before = self.count;
            match self.next(cx) {
                Some((_, packet)) if single => drop(batch.push(packet)),
                Some((output, packet)) => cx.emit(output, packet),
                None if self.count == before => break,
                None => {} // no buffers: that one is lost
            }
            sent += 1;
        }
        if self.active && self.due_ns() > cx.now_ns() {
            self.wait(cx);
        } else if self.active {
            cx.schedule(task);
        }
        if batch.is_empty() { Ran::done(sent > 0) } else { Ran::push(0) }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        self.wake(cx);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        if !self.active || !self.loaded && !self.load(cx) {
            return;
        }
        if self.rounds == 0 || self.tape.kept.is_empty() {
            return self.end(cx);
        }
        while batch.room() > 0 && self.active {
            let row = batch.room();
            if self.next_row(cx, batch, row) > 0 {
                continue;
            }
            let Some((_, packet)) = self.next(cx) else { break };
            batch.push(packet);
        }
        if self.active && self.due_ns() > cx.now_ns() {
            if let Some(packets) = &self.packets {
                packets.lower();
            }
            self.wait(cx);
        }
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        match (&self.packets, kind) {
            (Some(packets), SignalKind::Packets) => Notice::Signal(packets.clone()),
            _ => Notice::Continue,
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(self.heads.iter_mut().filter_map(Option::take));
    }
}
