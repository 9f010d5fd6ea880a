//! `FromDump`: packets from a capture file.

use graph::class::{
    Handlers, Headers, NOT_TAKEN_OVER, SystemUse, action, both, keyword, mandatory, positional, read, write,
};
use graph::element::Account;
use graph::signal::SignalKind;
use graph::value::{Span, Value, parse_alone};
use graph::{Class, Cx, Element, Named, Notice, Ran, TaskId, TimerId};
use interface::pcap::{Reader, Record};
use memory::annotation::Header;
use memory::{Batch, Packet};

use crate::call::Call;
use crate::file::{NamedFile, Source, say_packed, shown};
use crate::link;
use crate::push_or_pull::PushOrPull;
use crate::sample::Sample;
use graph::annotation::{EXTRA_LENGTH, PacketAnnotations};
use graph::well_known::{ENCAP, FILENAME, PACKET_FILEPOS};
use port::Reason;

const HANDLERS: Handlers<FromDump> = Handlers(&[
    both(
        "active",
        "whether it reads",
        |dump: &FromDump| dump.active.to_string(),
        |dump: &mut FromDump, cx, value| {
            dump.active = parsed(value).map_err(|_| "type mismatch")?;
            dump.ended &= !dump.active;
            dump.changed(cx);
            Ok(())
        },
    )
    .marked("c"),
    read("count", "packets so far", |dump| dump.count.to_string()),
    action("reset_counts", "sets the count to zero", |dump: &mut FromDump, cx| {
        dump.count = 0;
        dump.changed(cx);
    })
    .marked("b"),
    read("sampling_prob", "the probability that a packet is taken", |dump| dump.sample.to_string()),
    read(ENCAP.as_str(), "what packets begin with, for ToDump's USE_ENCAP_FROM", |dump| {
        link::name(dump.link)
    }),
    read(FILENAME.as_str(), "the file", |dump| shown(&dump.file.path).into()),
    read("filesize", "bytes in the file, `-` where that is not known", |dump| {
        dump.size.map_or("-".into(), |size| size.to_string())
    }),
    both(
        "filepos",
        "bytes read so far; writing it goes there",
        |dump| dump.reader.as_ref().map_or(dump.end_position, Reader::offset).to_string(),
        |dump, cx, value| {
            let position = parsed(value).map_err(|_| "argument must be file offset")?;
            dump.waiting = None;
            dump.open(position)?;
            dump.ended = false;
            dump.changed(cx);
            Ok(())
        },
    ),
    read(PACKET_FILEPOS.as_str(), "where the last packet began", |dump| dump.packet_position.to_string()),
    write("extend_interval", "moves the end by so much, and reads on", |dump, cx, value| {
        let by: Span = parsed(value).map_err(|_| "'extend_interval' takes a time interval")?;
        if let Some((end, _)) = &mut dump.end {
            *end = end.saturating_add(by.0);
        }
        dump.active = true;
        dump.changed(cx);
        Ok(())
    }),
    action("reset_timing", "takes the times from the next packet on", |dump: &mut FromDump, cx| {
        dump.timed = false;
        dump.changed(cx);
    })
    .marked("b"),
    action("stop", "stops reading, and the router", |dump: &mut FromDump, cx| {
        dump.active = false;
        cx.stop();
        dump.changed(cx);
    })
    .marked("b"),
]);

/// What is written to a handler.
fn parsed<T: Value>(value: &str) -> Result<T, String> {
    parse_alone(&graph::lang::args::uncomment(value))
}

pub static CLASS: Class = Class {
    name: "FromDump",
    brief: "reads packets from a capture file",
    doc: "Reads pcap, in both byte orders, with microseconds or nanoseconds, and pcapng; compressed files as \
          well. Bytes that the capture cut off are counted in the extra length. A file that ends in the middle \
          is told, after all that was whole has gone through. Give at most one of START and START_AFTER, and \
          one of END, END_AFTER and INTERVAL.",
    ports: "0/1-2",
    processing: "a/ah",
    arguments: &[
        mandatory("FILENAME", "the file; `-` for standard input"),
        positional("TIMING", "packets come when their timestamps say, from the first on; false"),
        keyword("STOP", "stop the router at the end; false"),
        keyword("ACTIVE", "whether it reads; true"),
        keyword("SAMPLE", "takes each packet with this probability; 1"),
        keyword("FORCE_IP", "finds IP headers; packets without one go to output 1, or are dropped; false"),
        keyword("START", "packets from this time on; all"),
        keyword("START_AFTER", "packets so long after the first one; all"),
        keyword("END", "packets before this time; all"),
        keyword("END_AFTER", "packets until so long after the first one; all"),
        keyword("INTERVAL", "packets until so long after the start; all"),
        keyword("END_CALL", "handler written at the end of the time or of the file; `active false`"),
        keyword("FILEPOS", "where in the file to begin, in bytes; a packet must begin there; 0"),
        keyword("BURST", "packets at a time; 1"),
        keyword("MMAP", "taken for compatibility"),
        keyword("PRELOAD", "accepted; packets are read when they are due"),
        keyword("TIMING_FNT", "accepted when it is empty: TIMING alone says when packets come"),
    ],
    handlers: &HANDLERS,
    drops: &[Reason::NoBuffers, Reason::NotIp, Reason::NotSampled, NOT_TAKEN_OVER],
    account: Account::Unknown, // records that are not sampled never are packets
    system: &[SystemUse::ProgramsAtStart],
    example: "FromDump(in.pcap, STOP true, FORCE_IP true) -> IPPrint -> Discard",
    see: &["ToDump", "FromIPSummaryDump", "TimeFilter", "AggregateIPFlows"],
    headers: Headers { finds_if: "FORCE_IP", ..Class::BASE.headers },
    make: |setup, conf| {
        let path: String = conf.mandatory("FILENAME")?;
        let timing = conf.positional("TIMING")?.unwrap_or(false);
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let sample = conf.keyword::<Sample>("SAMPLE")?.unwrap_or_default().checked(setup);
        let force_ip = conf.keyword("FORCE_IP")?.unwrap_or(false);
        let mut time = |key| -> Result<Option<i64>, graph::ConfFault> {
            Ok(conf.keyword::<Span>(key)?.map(|span| span.0).filter(|ns| *ns != 0))
        };
        let (start, start_after) = (time("START")?, time("START_AFTER")?);
        let (end, end_after, interval) = (time("END")?, time("END_AFTER")?, time("INTERVAL")?);
        let call: Option<Call> = conf.keyword("END_CALL")?;
        let position: u64 = conf.keyword("FILEPOS")?.unwrap_or(0);
        let burst: usize = conf.keyword("BURST")?.unwrap_or(1);
        let _: (Option<bool>, Option<u64>) = (conf.keyword("MMAP")?, conf.keyword("PRELOAD")?);
        let function: Option<String> = conf.keyword("TIMING_FNT")?;
        conf.complete()?;
        if function.is_some_and(|function| !function.is_empty()) {
            return Err("TIMING_FNT is not here: TIMING alone says when packets come".into());
        }
        say_packed(&path, setup);
        if start.is_some() && start_after.is_some() {
            return Err("START and START_AFTER are mutually exclusive".into());
        }
        let from = |ns: Option<i64>, from| ns.map(|ns| (ns, from));
        let ends = [from(end, Origin::Epoch), from(end_after, Origin::First), from(interval, Origin::Start)];
        let mut ends = ends.into_iter().flatten();
        let end = ends.next();
        if ends.next().is_some() {
            return Err("END, END_AFTER, and INTERVAL are mutually exclusive".into());
        }
        if stop && call.is_some() {
            return Err("END_CALL and STOP are mutually exclusive".into());
        }
        Ok(Box::new(FromDump {
            file: NamedFile::new(path),
            timing,
            stop,
            active,
            sample,
            force_ip,
            start: from(start, Origin::Epoch).or(from(start_after, Origin::First)),
            end,
            call,
            position,
            burst: burst.clamp(1, Batch::MAX),
            ..FromDump::default()
        }))
    },
    ..Class::BASE
};

/// Packets that are passed over before others have a turn.
const PASSED_A_TURN: usize = 1024;

/// What a time is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Epoch,
    /// The first packet.
    First,
    /// The time from which packets are wanted.
    Start,
}

/// A `FromDump` element; [`CLASS`] says what it does.
#[derive(Default)]
pub struct FromDump {
    file: NamedFile,
    timing: bool,
    stop: bool,
    active: bool,
    sample: Sample,
    force_ip: bool,
    start: Option<(i64, Origin)>,
    end: Option<(i64, Origin)>,
    call: Option<Call>,
    position: u64,
    burst: usize,
    count: u64,
    reader: Option<Reader<Source>>,
    size: Option<u64>,
    link: u32,
    /// The first packet was seen: times are counted from the epoch.
    timed: bool,
    offset_ns: i64,
    /// The end was told.
    ended: bool,
    /// Its END_CALL writes one of its own handlers.
    calls_itself: bool,
    /// The next packet that is wanted was not found yet.
    passing: bool,
    waiting: Option<Packet>,
    /// Where the packet begins that was asked for last.
    packet_position: u64,
    /// Where the file ended.
    end_position: u64,
    timer: Option<TimerId>,
    output: PushOrPull,
}

/// What came of looking for a packet.
enum Found {
    One(Packet),
    /// Not yet: it is looked for in another turn.
    Later,
    Wait,
    End,
}

impl FromDump {
    fn open(&mut self, position: u64) -> Result<(), String> {
        let name = shown(&self.file.path).to_string();
        let wrong = |error: &dyn std::fmt::Display| {
            let text = error.to_string();
            format!("{name}: {}", text.split(" (os error").next().unwrap_or(&text))
        };
        let source = self.file.open().map_err(|e| wrong(&e))?;
        self.size = source.size();
        let mut reader = Reader::with_any_link(source).map_err(|e| wrong(&e))?;
        self.link = link::canonical(reader.link().unwrap_or(link::ETHERNET));
        if self.force_ip && !link::is_known(self.link) {
            return Err(format!("{name}: unknown linktype {}; can't force IP packets", self.link));
        }
        if self.size.is_some_and(|size| position > size) {
            return Err("FILEPOS out of range".into());
        }
        reader.skip_to(position).map_err(|e| wrong(&e))?;
        self.reader = Some(reader);
        Ok(())
    }

    /// The first packet tells what times are relative to.
    fn set_times(&mut self, at: i64, now: i64) {
        let start = match self.start {
            Some((ns, Origin::First)) => ns.saturating_add(at),
            Some((ns, _)) => ns,
            None => at,
        };
        self.start = self.start.map(|_| (start, Origin::Epoch));
        self.end = self.end.map(|(ns, origin)| match origin {
            Origin::Epoch => (ns, Origin::Epoch),
            Origin::First => (ns.saturating_add(at), Origin::Epoch),
            Origin::Start => (ns.saturating_add(start), Origin::Epoch),
        });
        self.offset_ns = now.saturating_sub(at);
        self.timed = true;
    }

    /// The next packet of the file that is wanted. Others have a turn before a long part
    /// of packets that are not is passed over.
    fn read_one(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut reader = self.reader.take()?;
        self.passing = false;
        let mut passed = 0;
        let packet = loop {
            self.packet_position = reader.offset();
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.end_position = reader.offset();
                    return None;
                }
                Err(error) => {
                    self.end_position = self.size.unwrap_or(reader.offset());
                    cx.say(&format!("{}: {error}\n", shown(&self.file.path)));
                    return None;
                }
            };
            match self.select(cx, &record) {
                Selection::Skip => {
                    passed += 1;
                    if passed == PASSED_A_TURN {
                        self.passing = true;
                        break None;
                    }
                }
                Selection::Take(packet) => break Some(packet),
                Selection::Stop => break None,
            }
        };
        self.reader = Some(reader);
        packet
    }

    /// What becomes of a packet of the file.
    fn select(&mut self, cx: &mut Cx<'_>, record: &Record<'_>) -> Selection {
        let at = i64::try_from(record.time_ns).unwrap_or(i64::MAX);
        if !self.timed {
            self.set_times(at, cx.now_ns());
        }
        if self.start.is_some_and(|(start, _)| at < start) {
            return Selection::Skip;
        }
        self.start = None;
        while self.end.is_some_and(|(end, _)| at >= end) {
            // Who is told may move it on; else all the rest comes.
            let passed = self.end.take();
            self.tell_end(cx, passed);
            if !self.active {
                return Selection::Stop;
            }
        }
        if !self.sample.take() {
            cx.count_drops(2, 1);
            return Selection::Skip;
        }
        // Some programs write that more was captured than there was.
        let data = &record.data[..record.data.len().min(record.original_len as usize)];
        let Some(mut packet) = cx.packet(data) else {
            cx.count_drops(0, 1);
            return Selection::Skip;
        };
        packet.annotations_mut().timestamp_ns = at;
        packet.set_u32_at(EXTRA_LENGTH, record.original_len - data.len() as u32);
        packet.set_header(Header::Link, 0);
        self.link = link::canonical(record.link);
        if (self.force_ip || self.link == link::RAW) && !link::mark_ip(&mut packet, self.link) {
            if cx.outputs() > 1 {
                cx.emit(1, packet)
            } else {
                cx.drop(1, packet)
            }
            return Selection::Skip;
        }
        Selection::Take(packet)
    }

    /// The end of the time, or of the file, is reached; `passed` is the end of the time,
    /// which may be moved on.
    fn tell_end(&mut self, cx: &mut Cx<'_>, passed: Option<(i64, Origin)>) {
        match self.call.clone() {
            Some(call) => match call.own(cx).map(str::to_string) {
                Some(handler) => {
                    let moved = self.end;
                    self.end = passed.or(moved);
                    let before = self.end;
                    self.calls_itself = true;
                    let written = HANDLERS.write_own(self, cx, &handler, &call.value);
                    self.calls_itself = false;
                    if let Err(error) = written {
                        cx.say(&format!("{}: {error}\n", cx.name()));
                    }
                    if self.end == before && passed.is_some() {
                        self.end = None;
                    }
                }
                None => call.make(cx),
            },
            None if self.stop => {
                self.active = false;
                cx.stop();
            }
            None => self.active &= passed.is_none(),
        }
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Found {
        let Some(packet) = self.waiting.take().or_else(|| self.read_one(cx)) else {
            return if self.passing { Found::Later } else { Found::End };
        };
        if self.timing {
            let due = packet.annotations().timestamp_ns.saturating_add(self.offset_ns);
            if due > cx.now_ns() {
                self.waiting = Some(packet);
                if let Some(timer) = self.timer {
                    cx.set_timer(timer, due);
                }
                return Found::Wait;
            }
        }
        self.count += 1;
        Found::One(packet)
    }

    /// Appends packets; whether there may be more at once.
    fn fill(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> bool {
        for _ in 0..self.burst.min(batch.room()) {
            match self.next(cx) {
                Found::One(packet) => drop(batch.push(packet)), // there was room
                Found::Later => return true,
                Found::Wait => {
                    self.output.lower();
                    return false;
                }
                Found::End => {
                    self.output.lower();
                    if self.reader.is_none() && !std::mem::replace(&mut self.ended, true) {
                        self.tell_end(cx, None);
                    }
                    return false;
                }
            }
        }
        true
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.output.wake(cx, self.active);
    }

    /// A handler was written, and not by its own END_CALL: it may have something to do.
    fn changed(&mut self, cx: &mut Cx<'_>) {
        if !self.calls_itself {
            self.wake(cx);
        }
    }
}

/// What becomes of a packet of the file.
enum Selection {
    Skip,
    Take(Packet),
    Stop,
}

impl Element for FromDump {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.call.iter().try_for_each(|call| call.check(named))
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.open(self.position)?;
        self.timer = Some(cx.new_timer());
        self.output.init(cx);
        self.wake(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if !self.active || !self.output.has_room() {
            return Ran::IDLE;
        }
        if self.fill(cx, batch) {
            cx.schedule(task);
        }
        if batch.is_empty() { Ran::done(false) } else { Ran::push(0) }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        match self.active {
            true => drop(self.fill(cx, batch)),
            false => self.output.lower(),
        }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        self.wake(cx);
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        self.output.notice(kind)
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<FromDump>() else { return };
        if old.file.path == self.file.path {
            self.reader = old.reader.take();
            self.waiting = old.waiting.take();
            (self.count, self.offset_ns, self.link) = (old.count, old.offset_ns, old.link);
            // Times are from the first packet on, which is long gone.
            (self.timed, self.start, self.end, self.ended) = (old.timed, old.start, old.end, old.ended);
            self.packet_position = old.packet_position;
            self.wake(cx);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(self.waiting.take());
    }
}
