//! The element that makes packets of what lines say of them, whatever the format of the
//! lines: `FromIPSummaryDump`, `FromTcpdump`, `FromNetFlowSummaryDump`.

use graph::class::{Row, action, both, read};
use graph::lang::args;
use graph::signal::SignalKind;
use graph::value::parse_alone;
use graph::well_known::{ENCAP, FILENAME};
use graph::{Conf, ConfFault, Cx, Element, Notice, Ran, TaskId, TimerId};
use memory::{Batch, Packet};

use super::builder::PacketBuilder;
use super::multi;
use super::text_file::TextFile;
use crate::push_or_pull::PushOrPull;
use crate::sample::Sample;

/// A file that describes packets.
pub(super) trait Descriptions: Send + 'static {
    /// What is said to a value of the handler `active` that is none.
    const NOT_ACTIVE: &'static str = "type mismatch";

    /// The file that packets are read from.
    fn file(&self) -> &TextFile;

    /// Opens the file.
    ///
    /// # Errors
    /// When it cannot be opened, or is empty.
    fn open(&mut self, cx: &Cx<'_>) -> Result<(), String>;

    /// What is said of the next packet; `None` at the file's end.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<PacketBuilder>;
}

/// A source of packets that a file describes.
pub(super) struct FromLines<L> {
    pub(super) lines: L,
    pub(super) stop: bool,
    pub(super) active: bool,
    pub(super) timing: bool,
    pub(super) sample: Sample,
    pub(super) several: bool,
    /// The end was told.
    pub(super) ended: bool,
    /// A packet that was read, and waits for its time or stands for several.
    pub(super) waiting: Option<PacketBuilder>,
    /// What to add to packets' times to have the router's.
    pub(super) offset_ns: Option<i64>,
    pub(super) timer: Option<TimerId>,
    pub(super) output: PushOrPull,
}

/// What came of looking for a packet.
enum Found {
    One(Packet),
    /// It is not time yet.
    Wait,
    End,
}

/// The keywords STOP and ACTIVE of all these sources. ZERO is taken and changes nothing.
pub(super) fn stop_and_active(conf: &mut Conf<'_>) -> Result<(bool, bool), ConfFault> {
    let stop = conf.keyword("STOP")?.unwrap_or(false);
    let active = conf.keyword("ACTIVE")?.unwrap_or(true);
    let _: Option<bool> = conf.keyword("ZERO")?;
    Ok((stop, active))
}

/// The handler `active`.
pub(super) const fn active<L: Descriptions>() -> Row<FromLines<L>> {
    both(
        "active",
        "whether it reads",
        |from: &FromLines<L>| from.active.to_string(),
        |from, cx, value| {
            from.active = parse_alone::<bool>(&args::uncomment(value)).map_err(|_| L::NOT_ACTIVE)?;
            from.ended = false;
            from.wake(cx);
            Ok(())
        },
    )
    .marked("c")
}

/// The handler `sampling_prob`.
pub(super) const fn sampling<L: Descriptions>() -> Row<FromLines<L>> {
    read("sampling_prob", "the probability that a packet is taken", |from| from.sample.to_string())
}

/// The handler that tells what packets begin with.
pub(super) const fn encap<L: Descriptions>() -> Row<FromLines<L>> {
    read(ENCAP.as_str(), "`IP`, for ToDump's USE_ENCAP_FROM", |_| "IP".into())
}

/// The handler that names the file.
pub(super) const fn filename<L: Descriptions>() -> Row<FromLines<L>> {
    read(FILENAME.as_str(), "the file", |from| from.lines.file().name().to_string())
}

/// The handler `filesize`.
pub(super) const fn filesize<L: Descriptions>() -> Row<FromLines<L>> {
    read("filesize", "bytes in the file, `-` where that is not known", |from| {
        from.lines.file().size().map_or("-".into(), |size| size.to_string())
    })
}

/// The handler `filepos`.
pub(super) const fn filepos<L: Descriptions>() -> Row<FromLines<L>> {
    read("filepos", "bytes read so far", |from| from.lines.file().position().to_string())
}

/// The handler `stop`.
pub(super) const fn stop<L: Descriptions>() -> Row<FromLines<L>> {
    action("stop", "stops reading, and the router", |from: &mut FromLines<L>, cx| {
        from.active = false;
        cx.stop();
        from.wake(cx);
    })
    .marked("b")
}

impl<L: Descriptions> FromLines<L> {
    /// A source that takes all packets as soon as they are read.
    pub(super) fn new(lines: L) -> FromLines<L> {
        FromLines {
            lines,
            stop: false,
            active: true,
            timing: false,
            sample: Sample::default(),
            several: false,
            ended: false,
            waiting: None,
            offset_ns: None,
            timer: None,
            output: PushOrPull::default(),
        }
    }

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

impl<L: Descriptions> Element for FromLines<L> {
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

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        self.output.notice(kind)
    }
}
