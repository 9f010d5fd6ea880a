//! `FromIPSummaryDump`: packets from lines.

use graph::class::{Handlers, Headers, SystemUse, action, both, keyword, positional, read};
use graph::element::Account;
use graph::lang::args;
use graph::signal::Kind;
use graph::value::Raw;
use graph::well_known::{ENCAP, FILENAME};
use graph::{Class, Cx, Element, Notice, Ran, TaskId, TimerId};
use memory::{Batch, Packet};
use port::Reason;
use wire::ip::Protocol;

use super::builder::PacketBuilder;
use super::lines::Lines;
use super::multi;
use crate::file::say_packed;
use crate::push_or_pull::PushOrPull;
use crate::sample::Sample;

pub static CLASS: Class = Class {
    name: "FromIPSummaryDump",
    brief: "makes packets of lines about them",
    doc: "Reads a file of lines as ToIPSummaryDump writes them, and makes a packet of each: what a line does \
          not say is zero. Lines that begin with `!` say how to read those that follow: `!data` names their \
          fields, `!proto` the protocol of packets of which none is said, `!flowid SRC SPORT DST DPORT [PROTO]` \
          their addresses and ports, `!aggregate` their aggregate, `!binary` that records follow instead of \
          lines. Others and those that begin with `#` are passed over. Packets have no link header unless a \
          line says so. Files may be compressed.",
    ports: "0/1",
    processing: "a",
    arguments: &[
        positional("FILENAME", "the file; `-` for standard input"),
        keyword("STOP", "stop the router at the end; false"),
        keyword("ACTIVE", "whether it reads; true"),
        keyword("ZERO", "taken for compatibility: bytes of which nothing is said are always zero"),
        keyword("TIMING", "packets come when their timestamps say, from the first on; false"),
        keyword("CHECKSUM", "fills in the bytes that are missing, and the checksums; false"),
        keyword("SAMPLE", "takes each packet with this probability; 1"),
        keyword("PROTO", "the protocol when none is said; 6, TCP"),
        keyword("MULTIPACKET", "makes as many packets as the field `count` says; false"),
        keyword("DEFAULT_CONTENTS", "another name of FIELDS"),
        keyword("DEFAULT_FIELDS", "another name of FIELDS"),
        keyword("DEFAULT_FLOWID", "another name of FLOWID"),
        keyword("CONTENTS", "another name of FIELDS"),
        keyword("FIELDS", "the fields of lines before `!data`; none"),
        keyword("FLOWID", "addresses and ports before `!flowid`, as there; none"),
        keyword("ALLOW_NONEXISTENT", "a file that is not there or empty has no packets; false"),
        keyword("DATA", "the lines themselves, in place of a file"),
    ],
    handlers: &Handlers::<FromSummary>(&[
        both(
            "active",
            "whether it reads",
            |from| from.active.to_string(),
            |from, cx, value| {
                let scope = graph::value::Scope { element: "", names: &graph::value::Names::default() };
                let active = <bool as graph::value::Value>::parse(&args::uncomment(value), &scope);
                from.active = active.map_err(|_| "type mismatch")?;
                from.ended = false;
                from.wake(cx);
                Ok(())
            },
        ),
        read("sampling_prob", "the probability that a packet is taken", |from| from.sample.to_string()),
        read(ENCAP.as_str(), "`IP`, for ToDump's USE_ENCAP_FROM", |_| "IP".into()),
        read(FILENAME.as_str(), "the file", |from| from.lines.name().to_string()),
        read("filesize", "bytes in the file, `-` where that is not known", |from| {
            from.lines.size().map_or("-".into(), |size| size.to_string())
        }),
        read("filepos", "bytes read so far", |from| from.lines.position().to_string()),
        action("stop", "stops reading, and the router", |from, cx| {
            from.active = false;
            cx.stop();
            from.wake(cx);
        }),
    ]),
    drops: &[Reason::NoBuffers, Reason::NotUnderstood, Reason::NotSampled],
    account: Account::Unknown, // lines that are dropped never are packets
    system: &[SystemUse::ProgramsAtStart],
    example: "FromIPSummaryDump(-, STOP true) -> IPPrint -> Discard",
    see: &["ToIPSummaryDump", "FromDump"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |setup, conf| {
        let path: Option<String> = conf.positional("FILENAME")?;
        let mut lines = Lines::default();
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let _: Option<bool> = conf.keyword("ZERO")?;
        let timing = conf.keyword("TIMING")?.unwrap_or(false);
        lines.with_checksums = conf.keyword("CHECKSUM")?.unwrap_or(false);
        let sample = conf.keyword::<Sample>("SAMPLE")?.unwrap_or_default().checked(setup);
        lines.defaults.protocol = conf.keyword("PROTO")?.unwrap_or(Protocol::TCP.0);
        let several = conf.keyword("MULTIPACKET")?.unwrap_or(false);
        let (mut fields, mut flow) = (None, None);
        for key in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            fields = conf.keyword::<Raw>(key)?.map(|raw| raw.0).or(fields);
        }
        for key in ["DEFAULT_FLOWID", "FLOWID"] {
            flow = conf.keyword::<Raw>(key)?.map(|raw| raw.0).or(flow);
        }
        lines.may_miss = conf.keyword("ALLOW_NONEXISTENT")?.unwrap_or(false);
        let data: Option<String> = conf.keyword("DATA")?;
        conf.complete()?;
        match (path, data) {
            (Some(_), Some(_)) => return Err("FILENAME and DATA conflict".into()),
            (None, None) => return Err("FILENAME: required argument missing".into()),
            (Some(path), None) => {
                say_packed(&path, setup);
                lines.path = path;
            }
            (None, Some(data)) => lines.data = Some(data),
        }
        lines.preset(fields.as_deref(), flow.as_deref())?;
        Ok(Box::new(FromSummary {
            lines,
            stop,
            active,
            timing,
            sample,
            several,
            ended: false,
            waiting: None,
            offset_ns: None,
            timer: None,
            output: PushOrPull::default(),
        }))
    },
    ..Class::BASE
};

/// A `FromIPSummaryDump` element; [`CLASS`] says what it does.
pub struct FromSummary {
    lines: Lines,
    stop: bool,
    active: bool,
    timing: bool,
    sample: Sample,
    several: bool,
    /// The end was told.
    ended: bool,
    /// A packet that was read, and waits for its time or stands for several.
    waiting: Option<PacketBuilder>,
    /// What to add to packets' times to have the router's.
    offset_ns: Option<i64>,
    timer: Option<TimerId>,
    output: PushOrPull,
}

/// What came of looking for a packet.
enum Found {
    One(Packet),
    /// It is not time yet.
    Wait,
    End,
}

impl FromSummary {
    fn next(&mut self, cx: &mut Cx<'_>) -> Found {
        loop {
            let Some(builder) = self.waiting.take().or_else(|| self.lines.next(cx)) else {
                return Found::End;
            };
            if self.timing && self.is_early(cx, &builder) {
                self.waiting = Some(builder);
                return Found::Wait;
            }
            let builder = match self.several {
                true => multi::first(builder, &mut self.waiting),
                false => builder,
            };
            if !self.sample.take() {
                cx.count_drops(2, 1);
                continue;
            }
            match builder.packet(cx) {
                Some(packet) => return Found::One(packet),
                None => cx.count_drops(0, 1),
            }
        }
    }

    /// Whether a packet's time has not come; then a timer is set.
    fn is_early(&mut self, cx: &mut Cx<'_>, builder: &PacketBuilder) -> bool {
        let now = cx.now_ns();
        let offset = *self.offset_ns.get_or_insert(now.saturating_sub(builder.timestamp_ns));
        let due = builder.timestamp_ns.saturating_add(offset);
        let early = due > now;
        if let Some(timer) = self.timer.filter(|_| early) {
            cx.set_timer(timer, due);
        }
        early
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.output.wake(cx, self.active);
    }

    /// The file came to its end.
    fn end(&mut self, cx: &mut Cx<'_>) {
        self.output.lower();
        if self.stop && !std::mem::replace(&mut self.ended, true) {
            cx.stop();
        }
    }
}

impl Element for FromSummary {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.lines.open(cx)?;
        self.timer = Some(cx.new_timer());
        self.output.init(cx);
        self.wake(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if !self.active || !self.output.has_room() {
            return Ran::IDLE;
        }
        // One at a time, as they would come.
        match self.next(cx) {
            Found::One(packet) => {
                batch.push(packet);
                cx.schedule(task);
                Ran::push(0)
            }
            Found::Wait => Ran::IDLE,
            Found::End => {
                self.end(cx);
                Ran::done(false)
            }
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        if !self.active {
            return self.output.lower();
        }
        match self.next(cx) {
            Found::One(packet) => drop(batch.push(packet)), // a batch that is asked for has room
            Found::Wait => self.output.lower(),
            Found::End => self.end(cx),
        }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        self.wake(cx);
    }

    fn notice(&self, kind: Kind, _: usize) -> Notice {
        self.output.notice(kind)
    }
}
