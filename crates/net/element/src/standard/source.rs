//! `RatedSource`, `TimedSource`, `RandomSource`: packets at a rate, at intervals, or
//! of random bytes.

use graph::class::{Handlers, Row, action, both, keyword, mandatory, positional, read};
use graph::clock::SECOND_NS;
use graph::lang::args::shift_word;
use graph::signal::SignalKind;
use graph::value::{Bandwidth, Bytes, Raw, Span};
use graph::{Class, ConfFault, Cx, Element, Named, Notice, Ran, Refused, Signal, Signals, TaskId, TimerId};
use memory::{Batch, Packet};

use super::{bucket::Bucket, content::Content, infinite_source::DATA, parsed, same_kind};
use graph::random;
use port::Reason;

const COUNT: Row<Source> = read("count", "packets sent", |source| source.count.to_string());
const LIMIT: Row<Source> =
    both("limit", "packets in all", |of: &Source| of.limit.to_string(), Source::set_limit).marked(".");
const ACTIVE: Row<Source> =
    both("active", "whether it sends", |of: &Source| of.active.to_string(), Source::set_active).marked("c");
const LENGTH: Row<Source> = both("length", "bytes in a packet", Source::length, Source::set_length);
const RESET: Row<Source> = action("reset", "begins again", |source: &mut Source, cx| {
    (source.count, source.ended) = (0, false);
    source.begin_anew();
    source.wake(cx);
})
.marked("b");

/// At a rate.
pub static RATED: Class = Class {
    name: "RatedSource",
    brief: "makes packets at a rate",
    doc: "Makes RATE packets of DATA a second, LIMIT in all; pushed, or when pulled. With STOP the router \
          stops afterwards.",
    ports: "0/1",
    processing: "a",
    arguments: &[
        positional("DATA", "the packets' bytes; some text"),
        positional("RATE", "packets a second; 10"),
        positional("LIMIT", "packets in all; -1 for no limit"),
        positional("ACTIVE", "whether it sends; true"),
        keyword("LENGTH", "bytes in a packet; those of DATA, over and over"),
        keyword("DATASIZE", "the old name of LENGTH"),
        keyword("STOP", "stop the router after LIMIT packets; false"),
        keyword("BANDWIDTH", "bytes a second, instead of RATE"),
    ],
    handlers: &Handlers::<Source>(&[
        both("data", "the packets' bytes", Source::data, Source::set_data).marked("%."),
        both("rate", "packets a second", Source::rate, Source::set_rate),
        LIMIT,
        ACTIVE,
        COUNT,
        RESET,
        LENGTH,
        both("datasize", "bytes in a packet", Source::length, Source::set_length).marked("D"),
    ]),
    drops: &[Reason::NoBuffers],
    example: "RatedSource(\\<0800>, 10, 1000)",
    see: &["InfiniteSource", "TimedSource", "RatedUnqueue"],
    make: |_, conf| {
        let data = conf.positional::<Bytes>("DATA")?.map_or(DATA.to_vec(), |bytes| bytes.0);
        let rate: Option<u32> = conf.positional("RATE")?;
        let limit = conf.positional("LIMIT")?.unwrap_or(-1);
        let active = conf.positional("ACTIVE")?.unwrap_or(true);
        let length: Option<i64> = conf.keyword("LENGTH")?;
        let length = length.or(conf.keyword("DATASIZE")?).unwrap_or(-1);
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let bandwidth: Option<Bandwidth> = conf.keyword("BANDWIDTH")?;
        conf.complete()?;
        let content = Content::new(data, length)?;
        let rate = match bandwidth.filter(|bandwidth| bandwidth.0 > 0) {
            Some(bandwidth) => u32::try_from(bandwidth.0 / content.bytes.len().max(1) as u64)
                .map_err(|_| ConfFault::new("BANDWIDTH: out of range"))?,
            None => rate.unwrap_or(10),
        };
        let pace = Pace::Rated(Bucket::new(rate, burst(rate)));
        Ok(Box::new(Source::new(content, pace, limit, active, stop)))
    },
    ..Class::BASE
};

pub static TIMED: Class = Class {
    name: "TimedSource",
    brief: "makes a packet every so often",
    doc: "Pushes a packet of DATA every INTERVAL, LIMIT in all, the first after one interval. With STOP the \
          router stops afterwards.",
    processing: "h",
    arguments: &[
        positional("INTERVAL", "time between packets; 0.5 s"),
        positional("DATA", "the packets' bytes; some text"),
        keyword("LIMIT", "packets in all; -1 for no limit"),
        keyword("ACTIVE", "whether it sends; true"),
        keyword("HEADROOM", "accepted; packets have 192 bytes of it"),
        keyword("STOP", "stop the router after LIMIT packets; false"),
    ],
    handlers: &Handlers::<Source>(&[
        both("data", "the packets' bytes", Source::data, Source::set_data).marked("%."),
        LIMIT,
        both("interval", "time between packets", Source::interval, Source::set_interval).marked("."),
        ACTIVE.marked(".c"),
        COUNT,
        both(
            "headroom",
            "bytes of headroom; what is written is of no effect",
            |_| memory::HEADROOM.to_string(),
            |source: &mut Source, cx, value| {
                parsed::<u32>(value).map_err(|_| Refused::from("bad headroom"))?;
                source.wake(cx);
                Ok(())
            },
        )
        .marked("."),
        RESET,
    ]),
    example: "TimedSource(0.1s, \\<0800>)",
    see: &["RatedSource", "TimedSink", "TimedUnqueue"],
    make: |_, conf| {
        let interval = conf.positional("INTERVAL")?.unwrap_or(Span(SECOND_NS / 2));
        let data = conf.positional::<Bytes>("DATA")?.map_or(DATA.to_vec(), |bytes| bytes.0);
        let limit = conf.keyword("LIMIT")?.unwrap_or(-1);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let _headroom: Option<usize> = conf.keyword("HEADROOM")?;
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        conf.complete()?;
        let pace = Pace::Timed(interval.0.max(1));
        Ok(Box::new(Source::new(Content::new(data, -1)?, pace, limit, active, stop)))
    },
    ..RATED
};

/// Of random bytes.
pub static RANDOM: Class = Class {
    name: "RandomSource",
    brief: "makes packets of random bytes as fast as it can",
    doc: "Pushes BURST packets of LENGTH random bytes at a time, or makes them when they are pulled; LIMIT in \
          all. With STOP the router stops afterwards.",
    arguments: &[
        mandatory("LENGTH", "bytes in a packet"),
        positional("LIMIT", "packets in all; -1 for no limit"),
        positional("BURST", "packets at a time; 1"),
        positional("ACTIVE", "whether it sends; true"),
        keyword("TIMESTAMP", "accepted: packets always carry the time; true"),
        keyword("STOP", "stop the router after LIMIT packets; false"),
        keyword("END_CALL", "handler written after LIMIT packets"),
    ],
    handlers: &Handlers::<Source>(&[
        LIMIT,
        both("burst", "packets at a time", Source::burst, Source::set_burst).marked("."),
        ACTIVE,
        COUNT,
        RESET,
        LENGTH.marked("."),
    ]),
    live: true,
    example: "RandomSource(64)",
    see: &["InfiniteSource", "RandomBitErrors"],
    make: |_, conf| {
        let length: usize = conf.mandatory("LENGTH")?;
        let limit = conf.positional("LIMIT")?.unwrap_or(-1);
        let burst: usize = conf.positional("BURST")?.unwrap_or(1);
        let active = conf.positional("ACTIVE")?.unwrap_or(true);
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let _stamp: Option<bool> = conf.keyword("TIMESTAMP")?;
        let end_call = conf.keyword::<Raw>("END_CALL")?.map(|call| call.0);
        conf.complete()?;
        if stop && end_call.is_some() {
            return Err("END_CALL and STOP are mutually exclusive".into());
        }
        let length = i64::try_from(length).map_err(|_| ConfFault::new("LENGTH: out of range"))?;
        let pace = Pace::Free { burst: burst.clamp(1, Batch::MAX) };
        let source = Source::new(Content::new(vec![], length)?, pace, limit, active, stop);
        Ok(Box::new(Source { end_call, ..source }))
    },
    ..RATED
};

/// What a bucket saves up at a rate.
fn burst(rate: u32) -> u32 {
    if rate < 200 { 2 } else { rate / 100 }
}

/// When the next packet is due.
#[derive(Debug)]
enum Pace {
    Rated(Bucket),
    /// Every so many nanoseconds.
    Timed(i64),
    /// At once, with random bytes.
    Free {
        burst: usize,
    },
}

/// See [`RATED`], [`TIMED`], [`RANDOM`].
#[derive(Debug)]
pub struct Source {
    content: Content,
    pace: Pace,
    limit: i64,
    active: bool,
    stop: bool,
    end_call: Option<String>,
    ended: bool,
    count: i64,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    room: Signals,
    /// Raised while there may be something to pull.
    packets: Signal,
}

impl Source {
    fn new(content: Content, pace: Pace, limit: i64, active: bool, stop: bool) -> Source {
        let (task, timer, room) = (None, None, Signals::default());
        let packets = Signal::new(true);
        let end_call = None;
        Source {
            content,
            pace,
            limit,
            active,
            stop,
            end_call,
            ended: false,
            count: 0,
            task,
            timer,
            room,
            packets,
        }
    }

    fn left(&self) -> bool {
        self.active && (self.limit < 0 || self.count < self.limit)
    }

    /// Adds one packet; whether there was a buffer. One that there was none for is counted.
    fn add(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> bool {
        let made = self.make(cx);
        let is_made = made.is_some();
        match made {
            Some(packet) => drop(batch.push(packet)),
            None => cx.count_drops(0, 1),
        }
        is_made
    }

    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = cx.packet(&self.content.bytes)?;
        if let Pace::Free { .. } = self.pace {
            let mut segment = Some(&mut packet);
            while let Some(here) = segment {
                for chunk in here.chunks_mut(8) {
                    chunk.copy_from_slice(&random::next().to_ne_bytes()[..chunk.len()]);
                }
                segment = here.next_mut();
            }
        }
        packet.annotations_mut().timestamp_ns = cx.now_ns();
        self.count += 1;
        Some(packet)
    }

    /// The limit is reached: says so, once.
    fn end(&mut self, cx: &mut Cx<'_>) {
        if self.limit >= 0 && self.count >= self.limit && !self.ended {
            self.ended = true;
            if let Some(call) = &self.end_call {
                let (handler, value) = shift_word(call);
                cx.call(handler, value);
            }
            if self.stop {
                cx.stop();
            }
        }
    }

    /// Begins, or goes on.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        if !self.active {
            return;
        }
        match (&self.pace, self.task, self.timer) {
            // One that begins again does so at once.
            (Pace::Timed(_), _, Some(timer)) => {
                if cx.timer_due(timer).is_none() {
                    cx.set_timer_after(timer, 0);
                }
            }
            (_, Some(task), _) => cx.schedule(task),
            _ => self.packets.raise(cx),
        }
    }

    /// Whether the pace allows a packet now.
    fn may(&mut self, cx: &Cx<'_>) -> bool {
        let Pace::Rated(bucket) = &mut self.pace else { return true };
        bucket.refill(cx);
        bucket.remove_if(1)
    }

    fn begin_anew(&mut self) {
        if let Pace::Rated(bucket) = &mut self.pace {
            bucket.set(1);
        }
    }
}

/// What its handlers read and write.
impl Source {
    fn data(&self) -> String {
        String::from_utf8_lossy(&self.content.data).into_owned()
    }

    fn set_data(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        self.content = Content::new(value.as_bytes().to_vec(), -1)?;
        self.wake(cx);
        Ok(())
    }

    fn rate(&self) -> String {
        let Pace::Rated(bucket) = &self.pace else { return self.content.length.to_string() };
        bucket.rate().to_string()
    }

    fn set_rate(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        if let Pace::Rated(bucket) = &mut self.pace {
            let rate: u32 = parsed(value).map_err(|_| Refused::from("syntax error"))?;
            bucket.assign(rate, burst(rate));
        }
        self.wake(cx);
        Ok(())
    }

    fn interval(&self) -> String {
        let Pace::Timed(interval) = self.pace else { return self.content.length.to_string() };
        super::interval(interval)
    }

    fn set_interval(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        if let Pace::Timed(interval) = &mut self.pace {
            let span: Span = parsed(value).map_err(|_| Refused::from("bad interval"))?;
            if span.0 <= 0 {
                return Err("bad interval".into());
            }
            *interval = span.0;
        }
        self.wake(cx);
        Ok(())
    }

    fn burst(&self) -> String {
        let Pace::Free { burst } = self.pace else { return self.content.length.to_string() };
        burst.to_string()
    }

    fn set_burst(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        if let Pace::Free { burst } = &mut self.pace {
            let wanted: usize = parsed(value).map_err(|_| Refused::from("syntax error"))?;
            *burst = wanted.clamp(1, Batch::MAX);
        }
        self.wake(cx);
        Ok(())
    }

    fn set_limit(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let words = if matches!(self.pace, Pace::Timed(_)) { "expected integer" } else { "syntax error" };
        self.limit = parsed(value).map_err(|_| Refused::from(words))?;
        self.wake(cx);
        Ok(())
    }

    fn set_active(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let words = if matches!(self.pace, Pace::Timed(_)) { "bad active" } else { "syntax error" };
        let active = parsed(value).map_err(|_| Refused::from(words))?;
        if !std::mem::replace(&mut self.active, active) && active {
            self.begin_anew();
        }
        self.wake(cx);
        Ok(())
    }

    fn length(&self) -> String {
        self.content.length.to_string()
    }

    fn set_length(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let data = std::mem::take(&mut self.content.data);
        let length = parsed(value).map_err(|_| Refused::from("syntax error"))?;
        self.content = Content::new(data, length)?;
        self.wake(cx);
        Ok(())
    }
}

impl Element for Source {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        let handler = self.end_call.as_ref().map(|call| shift_word(call).0);
        handler.map_or(Ok(()), |handler| named.can_write(handler)).map_err(|refused| refused.to_string())
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.timer = Some(cx.new_timer());
        self.begin_anew();
        if cx.is_push_output(0) && !matches!(self.pace, Pace::Timed(_)) {
            let task = cx.new_task();
            self.task = Some(task);
            if let Pace::Free { .. } = self.pace {
                self.room = cx.downstream(0, Some(task));
            }
        }
        match (&self.pace, self.timer.filter(|_| self.active)) {
            (Pace::Timed(interval), Some(timer)) => cx.set_timer_after(timer, *interval),
            _ => self.wake(cx),
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if !self.left() {
            if self.active {
                self.end(cx);
            }
            return Ran::IDLE;
        }
        if let Pace::Free { burst } = self.pace {
            if !self.room.any() {
                return Ran::IDLE; // woken when there is room
            }
            for _ in 0..burst {
                if !self.left() || !self.add(cx, batch) {
                    break;
                }
            }
        } else if self.may(cx) {
            self.add(cx, batch);
        } else {
            if let (Pace::Rated(bucket), Some(timer)) = (&self.pace, self.timer)
                && let Some(wait) = bucket.wait_ns(1)
            {
                cx.set_timer_after(timer, wait);
            }
            return Ran::IDLE;
        }
        cx.schedule(task);
        if batch.is_empty() { Ran::IDLE } else { Ran::push(0) }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let Pace::Timed(interval) = self.pace else { return self.wake(cx) };
        if !self.active {
            return;
        }
        // The end is told an interval after the last packet.
        if !self.left() {
            return self.end(cx);
        }
        match self.make(cx) {
            Some(packet) => cx.emit(0, packet),
            None => cx.count_drops(0, 1),
        }
        cx.set_timer_after(timer, interval);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        while batch.room() > 0 && self.left() && self.may(cx) {
            if !self.add(cx, batch) {
                break;
            }
        }
        if self.left() {
            return;
        }
        if self.active {
            self.end(cx);
        }
        self.packets.lower();
    }

    /// As in Click, it begins to count anew, and whoever rested goes on when it is told to.
    fn reconfigure(&mut self, _: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        let old = std::mem::replace(self, *same_kind::<Source>(new)?);
        (self.task, self.timer) = (old.task, old.timer);
        (self.room, self.packets) = (old.room, old.packets);
        Ok(())
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        self.packets.of_packets(kind)
    }
}
