//! `FromIPSummaryDump`: packets from lines.

use std::io::BufRead;

use graph::class::{both, keyword, positional, write};
use graph::lang::args;
use graph::signal::Kind;
use graph::task::TaskId;
use graph::value::Raw;
use graph::{Class, Cx, Element, Notice, Ran, Refused, Signal, Signals};
use memory::{Batch, Packet};

use super::Field;
use super::builder::{Draft, Made};
use crate::annotation::{AGGREGATE, EXTRA_LENGTH, EXTRA_PACKETS, FIRST_TIMESTAMP, Notes, PAINT};

/// The class.
pub static CLASS: Class = Class {
    name: "FromIPSummaryDump",
    brief: "makes packets of lines about them",
    doc: "Reads a file of lines as ToIPSummaryDump writes them, and makes an IP packet of each: what a line does \
          not say is zero. `!data` names the fields of the lines that follow, `!proto` the protocol of packets \
          of which nothing is said. Packets have no link header.",
    ports: "0/1",
    processing: "a",
    arguments: &[
        positional("FILENAME", "the file; `-` for standard input"),
        keyword("STOP", "stop the router at the end; false"),
        keyword("ACTIVE", "whether it reads; true"),
        keyword("TIMING", "packets come when their timestamps say, from the first on; false"),
        keyword("CHECKSUM", "fills in the bytes that are missing, and the IP checksum; false"),
        keyword("PROTO", "the protocol when none is said; 6, TCP"),
        keyword("FIELDS", "the fields of lines before `!data`; none"),
        keyword("DEFAULT_FIELDS", "another name of FIELDS"),
        keyword("CONTENTS", "another name of FIELDS"),
        keyword("DEFAULT_CONTENTS", "another name of FIELDS"),
        keyword("DATA", "the lines themselves, in place of a file"),
        keyword("ALLOW_NONEXISTENT", "a file that is not there is an empty one; false"),
        keyword("ZERO", "taken for compatibility: bytes of which nothing is said are always zero"),
    ],
    handlers: &[both("active", "whether it reads"), write("stop", "ends the file here")],
    drops: &["no buffers", "not understood"],
    example: "FromIPSummaryDump(-, STOP true) -> IPPrint -> Discard",
    see: &["ToIPSummaryDump", "FromDump"],
    make: |_, conf| {
        let path: Option<String> = conf.positional("FILENAME")?;
        let data: Option<String> = conf.keyword("DATA")?;
        let mut fields = None;
        for key in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            fields = conf.keyword::<Raw>(key)?.map(|raw| raw.0).or(fields);
        }
        let _: Option<bool> = conf.keyword("ZERO")?;
        let mut source = FromSummary {
            path: path.clone().unwrap_or_default(),
            data: data.clone(),
            stop: conf.keyword("STOP")?.unwrap_or(false),
            active: conf.keyword("ACTIVE")?.unwrap_or(true),
            timing: conf.keyword("TIMING")?.unwrap_or(false),
            checksum: conf.keyword("CHECKSUM")?.unwrap_or(false),
            protocol: conf.keyword("PROTO")?.unwrap_or(6),
            may_miss: conf.keyword("ALLOW_NONEXISTENT")?.unwrap_or(false),
            ..FromSummary::default()
        };
        conf.complete()?;
        match (&path, &data) {
            (Some(_), Some(_)) => return Err("FILENAME and DATA conflict".into()),
            (None, None) => return Err("FILENAME: required argument missing".into()),
            _ => {}
        }
        source.fields = fields.map(|text| fields_of(&text).0).unwrap_or_default();
        source.packets = Signal::new(true);
        Ok(Box::new(source))
    },
    ..Class::BASE
};

/// The fields of a line of names, and the names that are none.
fn fields_of(text: &str) -> (Vec<Option<Field>>, Vec<String>) {
    let mut unknown = vec![];
    let fields = args::words(text).into_iter().map(|word| {
        let word = String::from_utf8_lossy(&args::unquote(word)).into_owned();
        let field = Field::find(&word);
        if field.is_none() {
            unknown.push(word);
        }
        field
    });
    (fields.collect(), unknown)
}

/// See [`CLASS`].
#[derive(Default)]
pub struct FromSummary {
    path: String,
    data: Option<String>,
    stop: bool,
    active: bool,
    timing: bool,
    checksum: bool,
    protocol: u8,
    may_miss: bool,
    fields: Vec<Option<Field>>,
    lines: Option<Box<dyn BufRead + Send>>,
    line: usize,
    /// A line was complained about: no more of that.
    complained: bool,
    /// A packet that was read and waits for its time.
    waiting: Option<Draft>,
    /// What to add to packets' times to have the router's.
    offset_ns: Option<i64>,
    task: Option<TaskId>,
    timer: Option<graph::timer::TimerId>,
    room: Signals,
    packets: Signal,
}

impl FromSummary {
    fn open(&mut self) -> Result<(), String> {
        self.lines = match &self.data {
            Some(data) => Some(Box::new(std::io::Cursor::new(data.clone().into_bytes()))),
            None if self.path == "-" => Some(Box::new(std::io::BufReader::new(std::io::stdin()))),
            None => match std::fs::File::open(&self.path) {
                Ok(file) => Some(Box::new(std::io::BufReader::new(file))),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound && self.may_miss => None,
                Err(e) => return Err(format!("{}: {e}", self.path)),
            },
        };
        Ok(())
    }

    fn complain(&self, cx: &Cx<'_>, what: &str) {
        let name = if self.path.is_empty() { "<data>" } else { &self.path };
        cx.say(&format!("{name}:{}: {what}\n", self.line));
    }

    /// The next packet of the file; `None` at its end.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Draft> {
        loop {
            let mut bytes = vec![];
            match self.lines.as_mut()?.read_until(b'\n', &mut bytes) {
                Ok(0) => self.lines = None,
                Err(error) => {
                    self.complain(cx, &error.to_string());
                    self.lines = None;
                }
                Ok(_) => {}
            }
            self.line += 1;
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim();
            if let Some(rest) = text.strip_prefix('!') {
                self.instruct(cx, rest);
            } else if !text.is_empty() && !text.starts_with('#') {
                let draft = self.draft(text);
                if draft.any {
                    return Some(draft);
                }
                cx.count_drops(1, 1);
                if !std::mem::replace(&mut self.complained, true) {
                    let missing = self.fields.is_empty();
                    self.complain(cx, if missing { "no '!data' provided" } else { "packet parse error" });
                }
            }
        }
    }

    /// Reads a line that begins with `!`.
    fn instruct(&mut self, cx: &mut Cx<'_>, text: &str) {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match word {
            "data" | "contents" => {
                let (fields, unknown) = fields_of(rest);
                self.fields = fields;
                for name in unknown {
                    self.complain(cx, &format!("warning: unknown content type '{name}'"));
                }
            }
            "proto" => match rest.trim() {
                "T" | "tcp" => self.protocol = 6,
                "U" | "udp" => self.protocol = 17,
                "I" | "icmp" => self.protocol = 1,
                other => match other.parse() {
                    Ok(number) => self.protocol = number,
                    Err(_) => self.complain(cx, "bad protocol in !proto"),
                },
            },
            _ => {}
        }
    }

    fn draft(&self, text: &str) -> Draft {
        let mut draft = Draft::new(self.protocol);
        for (field, word) in self.fields.iter().zip(args::words(text)) {
            if let Some(field) = field.filter(|_| word != "-") {
                draft.set(field, word);
            }
        }
        draft
    }

    /// A packet of what a line said.
    fn packet(&self, cx: &mut Cx<'_>, draft: Draft) -> Option<Packet> {
        let (paint, aggregate, count) = (draft.paint, draft.aggregate, draft.count);
        let (stamp, first) = (draft.timestamp_ns, draft.first_ns);
        let Made { bytes, header_len, destination, extra } = draft.make(self.checksum);
        let Some(mut packet) = cx.packet(&bytes) else {
            cx.count_drops(0, 1);
            return None;
        };
        crate::ip::header::mark(&mut packet, 0, header_len);
        packet.annotations_mut().timestamp_ns = stamp;
        packet.set_dst_ip(destination);
        packet.set_u8_at(PAINT, paint);
        packet.set_u32_at(AGGREGATE, aggregate);
        packet.set_u32_at(EXTRA_PACKETS, count);
        packet.set_u32_at(EXTRA_LENGTH, extra);
        packet.set_bytes_at(FIRST_TIMESTAMP, first.to_ne_bytes());
        Some(packet)
    }

    /// Reads up to `most` packets that are due.
    fn read_some(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) -> bool {
        for _ in 0..most.min(batch.room()) {
            let Some(draft) = self.waiting.take().or_else(|| self.next(cx)) else { return false };
            if self.timing {
                let offset = *self.offset_ns.get_or_insert(cx.now_ns() - draft.timestamp_ns);
                let due = draft.timestamp_ns.saturating_add(offset);
                if due > cx.now_ns() {
                    self.waiting = Some(draft);
                    if let Some(timer) = self.timer {
                        cx.set_timer(timer, due);
                    }
                    return true;
                }
            }
            if let Some(packet) = self.packet(cx, draft) {
                batch.push(packet);
            }
        }
        true
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        match self.task {
            Some(task) if self.active => cx.schedule(task),
            None if self.active => self.packets.raise(cx),
            _ => {}
        }
    }

    /// The file came to its end.
    fn end(&mut self, cx: &mut Cx<'_>) {
        self.packets.lower();
        if std::mem::replace(&mut self.stop, false) {
            cx.stop();
        }
    }
}

impl Element for FromSummary {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.open()?;
        self.timer = Some(cx.new_timer());
        if cx.is_push_output(0) {
            let task = cx.new_task();
            self.room = cx.downstream(0, Some(task));
            self.task = Some(task);
        }
        self.wake(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if !self.active || !self.room.any() {
            return Ran::IDLE;
        }
        // One at a time, as they would come.
        let more = self.read_some(cx, batch, 1);
        if !more {
            self.end(cx);
        } else if self.waiting.is_none() {
            cx.schedule(task);
        }
        if batch.is_empty() { Ran::done(more) } else { Ran::push(0) }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        if self.active && !self.read_some(cx, batch, 1) {
            self.end(cx);
        }
        if self.waiting.is_some() {
            self.packets.lower();
        }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: graph::timer::TimerId) {
        self.wake(cx);
    }

    fn notice(&self, kind: Kind, _: usize) -> Notice {
        match kind {
            Kind::Packets => Notice::Signal(self.packets.clone()),
            Kind::Room => Notice::Continue,
        }
    }

    fn read(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<String, Refused> {
        Ok(self.active.to_string())
    }

    fn write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        match handler {
            "active" => self.active = value.trim().parse().map_err(|_| "expected boolean")?,
            _ => (self.lines, self.waiting) = (None, None),
        }
        self.wake(cx);
        Ok(())
    }
}
