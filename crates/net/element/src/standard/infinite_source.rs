//! `InfiniteSource`: packets without end.

use graph::class::{Handlers, both, keyword, positional, read, write};
use graph::lang::args;
use graph::signal::SignalKind;
use graph::value::{Bytes, Raw};
use graph::{Class, Cx, Element, LONGEST, Named, Notice, Ran, Refused, Signal, Signals, TaskId, TimerId};
use memory::{Batch, Packet};
use port::Reason;

use super::{parsed, same_kind};

/// What it sends unless told.
pub(super) const DATA: &[u8] = b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

/// How long the end waits for room behind the source. As in Click it comes when there is room for
/// one more packet; a queue that is full and that nobody empties never has any.
const END_WAITS_NS: i64 = 1_000_000_000;

pub static CLASS: Class = Class {
    name: "InfiniteSource",
    brief: "makes packets as fast as it can",
    doc: "Pushes BURST packets of DATA at a time, or makes them when they are pulled; LIMIT in all. \
          It waits while there is no room behind it. With STOP the router stops afterwards: when there is \
          room for one more packet, or after a second without any.",
    ports: "0/1",
    processing: "a",
    arguments: &[
        positional("DATA", "the packets' bytes; some text"),
        positional("LIMIT", "packets in all; -1 for no limit"),
        positional("BURST", "packets at a time; 1"),
        positional("ACTIVE", "whether it sends; true"),
        keyword("LENGTH", "bytes in a packet; those of DATA, over and over"),
        keyword("DATASIZE", "the old name of LENGTH"),
        keyword("TIMESTAMP", "packets carry the time; true"),
        keyword("STOP", "stop the router after LIMIT packets; false"),
        keyword("END_CALL", "handler written after LIMIT packets"),
    ],
    live: true,
    handlers: &Handlers::<InfiniteSource>(&[
        both(
            "data",
            "the packets' bytes",
            |source: &InfiniteSource| String::from_utf8_lossy(&source.data).into_owned(),
            |source, cx, value| {
                source.data = value.as_bytes().to_vec();
                source.changed(cx)
            },
        )
        .marked("%."),
        both(
            "limit",
            "packets in all",
            |source: &InfiniteSource| source.limit.to_string(),
            |source, cx, value| {
                source.limit = parsed(value).map_err(|_| Refused::from("limit parameter must be integer"))?;
                source.changed(cx)
            },
        )
        .marked("."),
        both(
            "burst",
            "packets at a time",
            |source: &InfiniteSource| source.burst.to_string(),
            InfiniteSource::set_burst,
        )
        .marked("."),
        both(
            "active",
            "whether it sends",
            |source: &InfiniteSource| source.active.to_string(),
            |source, cx, value| {
                source.active =
                    parsed(value).map_err(|_| Refused::from("active parameter must be boolean"))?;
                source.changed(cx)
            },
        )
        .marked("c"),
        read("count", "packets sent", |source| source.count.to_string()),
        write("reset", "begins again", InfiniteSource::reset).marked("b"),
        both(
            "length",
            "bytes in a packet; -1 for those of DATA",
            |source: &InfiniteSource| source.length.to_string(),
            InfiniteSource::set_length,
        )
        .marked("."),
        both(
            "burstsize",
            "the old name of burst",
            |source: &InfiniteSource| source.burst.to_string(),
            InfiniteSource::set_burst,
        )
        .marked(".D"),
        both(
            "datasize",
            "the old name of length",
            |source: &InfiniteSource| source.length.to_string(),
            InfiniteSource::set_length,
        )
        .marked(".D"),
        write("reset_counts", "begins again", InfiniteSource::reset),
    ]),
    drops: &[Reason::NoBuffers],
    example: "InfiniteSource(\\<0800>, LIMIT 1000, BURST 32, STOP true)",
    see: &["RatedSource", "TimedSource", "FastUDPSource"],
    make: |_, conf| {
        let data = conf.positional::<Bytes>("DATA")?.map_or(DATA.to_vec(), |b| b.0);
        let limit = conf.positional("LIMIT")?.unwrap_or(-1);
        let burst: i64 = conf.positional("BURST")?.unwrap_or(1);
        let active = conf.positional("ACTIVE")?.unwrap_or(true);
        let length: Option<i64> = conf.keyword("LENGTH")?;
        let length = length.or(conf.keyword("DATASIZE")?).unwrap_or(-1);
        let stamp = conf.keyword("TIMESTAMP")?.unwrap_or(true);
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let end_call = conf.keyword::<Raw>("END_CALL")?.map(|call| call.0);
        conf.complete()?;
        if burst < 1 {
            return Err("burst size must be >= 1".into());
        }
        if stop && end_call.is_some() {
            return Err("END_CALL and STOP are mutually exclusive".into());
        }
        let mut source = InfiniteSource {
            data,
            template: vec![],
            limit,
            burst,
            active,
            length,
            stamp,
            stop,
            end_call,
            count: 0,
            ended: false,
            task: None,
            end_timer: None,
            room: Signals::default(),
            packets: Signal::new(true),
        };
        source.lay_out()?;
        Ok(Box::new(source))
    },
    ..Class::BASE
};

/// An `InfiniteSource` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct InfiniteSource {
    data: Vec<u8>,
    /// What each packet holds.
    template: Vec<u8>,
    limit: i64,
    burst: i64,
    active: bool,
    length: i64,
    stamp: bool,
    stop: bool,
    end_call: Option<String>,
    count: i64,
    /// The end was told.
    ended: bool,
    task: Option<TaskId>,
    /// Tells the end where no room comes; each task has one.
    end_timer: Option<TimerId>,
    room: Signals,
    /// Raised while there is something to pull.
    packets: Signal,
}

impl InfiniteSource {
    /// Makes the template anew.
    fn lay_out(&mut self) -> Result<(), String> {
        let length = if self.length < 0 { self.data.len() } else { self.length as usize };
        if length > LONGEST {
            return Err(format!("packets of {length} bytes are too long: at most {LONGEST}"));
        }
        let filler = if self.data.is_empty() { &[0][..] } else { &self.data };
        self.template = filler.iter().copied().cycle().take(length).collect();
        Ok(())
    }

    /// How many packets may be made at once.
    fn wanted(&self) -> usize {
        let left = if self.limit < 0 { i64::MAX } else { self.limit - self.count };
        if self.active { self.burst.min(left).clamp(0, Batch::MAX as i64) as usize } else { 0 }
    }

    /// Appends up to `count` packets; how many. That there were fewer is counted, once: those
    /// are made when buffers have come back.
    fn make(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, count: usize) -> usize {
        let now = if self.stamp { cx.now_ns() } else { 0 };
        let mut made = 0;
        batch.fill(|| {
            let wanted = made < count;
            let mut packet = wanted.then(|| cx.packet(&self.template)).flatten()?;
            packet.annotations_mut().timestamp_ns = now;
            made += 1;
            Some::<Packet>(packet)
        });
        self.count += made as i64;
        if made < count {
            cx.count_drops(0, 1);
        }
        made
    }

    /// Tells that the limit is reached, once.
    fn end(&mut self, cx: &mut Cx<'_>) {
        if self.ended || self.limit < 0 || self.count < self.limit {
            return;
        }
        self.ended = true;
        self.packets.lower();
        if let Some(call) = self.end_call.clone() {
            let (handler, value) = args::shift_word(&call);
            cx.call(handler, value);
        }
        if self.stop {
            cx.stop();
        }
    }

    /// Begins again, or goes on.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        if self.wanted() == 0 {
            return;
        }
        self.ended = false;
        match self.task {
            Some(task) => cx.schedule(task),
            None => self.packets.raise(cx),
        }
    }

    fn set_burst(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let wrong = "burstsize parameter must be integer >= 1";
        self.burst = parsed(value).ok().filter(|burst| *burst >= 1).ok_or(wrong)?;
        self.changed(cx)
    }

    fn set_length(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        self.length = parsed(value).map_err(|_| Refused::from("length must be integer"))?;
        self.changed(cx)
    }

    fn reset(&mut self, cx: &mut Cx<'_>, _: &str) -> Result<(), Refused> {
        self.count = 0;
        self.changed(cx)
    }

    /// What it sends, or whether, is another now.
    fn changed(&mut self, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.lay_out()?;
        self.wake(cx);
        Ok(())
    }
}

impl Element for InfiniteSource {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        let handler = self.end_call.as_ref().map(|call| args::shift_word(call).0);
        handler.map_or(Ok(()), |handler| named.can_write(handler)).map_err(|refused| refused.to_string())
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.is_push_output(0) {
            let task = cx.new_task();
            self.room = cx.downstream(0, Some(task));
            (self.task, self.end_timer) = (Some(task), Some(cx.new_timer()));
        }
        if self.wanted() > 0 {
            self.wake(cx);
        } else {
            self.packets.lower();
            // A limit of none is reached before it begins.
            if let Some(task) = self.task.filter(|_| self.active && self.stop) {
                cx.schedule(task);
            }
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if !self.active {
            return Ran::IDLE;
        }
        let wanted = self.wanted();
        if !self.room.any() {
            if let Some(timer) = self.end_timer.filter(|_| wanted == 0 && !self.ended) {
                cx.set_timer_after(timer, END_WAITS_NS);
            }
            return Ran::IDLE; // woken when there is room
        }
        let made = self.make(cx, batch, wanted);
        // The end is told in a turn of its own, when there is room for one more: what
        // was sent before got further by then.
        if wanted > 0 {
            cx.schedule(task);
        } else {
            self.end(cx);
        }
        if made > 0 { Ran::push(0) } else { Ran::IDLE }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        if self.active {
            self.end(cx);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let wanted = self.wanted().min(batch.room());
        self.make(cx, batch, wanted);
        self.end(cx);
        if self.wanted() == 0 {
            self.packets.lower();
        }
    }

    /// Counts begin anew; a task that ended does so when it is told to.
    fn reconfigure(&mut self, _: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        let old = std::mem::replace(self, *same_kind::<InfiniteSource>(new)?);
        (self.task, self.end_timer) = (old.task, old.end_timer);
        (self.room, self.packets) = (old.room, old.packets);
        if self.wanted() == 0 {
            self.packets.lower();
        }
        Ok(())
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        self.packets.of_packets(kind)
    }
}
