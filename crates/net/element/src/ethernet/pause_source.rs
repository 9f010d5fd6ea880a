//! `EtherPauseSource`: pause frames of IEEE 802.3x.

use graph::class::{Handlers, action, both, keyword, mandatory, read};
use graph::clock::SECOND_NS;
use graph::signal::SignalKind;
use graph::value::{Ethernet, Span, Value, parse_alone};
use graph::{Class, Cx, Element, Notice, Refused, Signal, TimerId};
use memory::annotation::Header;
use memory::{Batch, Packet};
use wire::MacAddress;
use wire::mac_control::{self, PAUSE_GROUP};

use port::Reason;

pub static CLASS: Class = Class {
    name: "EtherPauseSource",
    brief: "makes Ethernet pause frames",
    doc: "A pause frame asks the other end of the link to send nothing for PAUSETIME quanta, of 512 bit times \
          each: 195 are 0.1 ms at 1 Gbit/s. Where packets are pushed there is one every INTERVAL, the first \
          after an INTERVAL; where they are pulled one for each that is asked for.",
    ports: "0/1",
    processing: "a",
    arguments: &[
        mandatory("SRC", "the address of the port that sends"),
        mandatory("PAUSETIME", "quanta; 0 to 65535"),
        keyword("DST", "to whom; 01-80-C2-00-00-01"),
        keyword("LIMIT", "frames in all, -1 for no limit; -1"),
        keyword("ACTIVE", "whether it sends; true"),
        keyword("INTERVAL", "time between frames where they are pushed; 1 s"),
    ],
    handlers: &Handlers::<PauseSource>(&[
        read("count", "frames sent", |source| source.count.to_string()),
        both(
            "limit",
            "frames in all",
            |source| source.limit.to_string(),
            |source, cx, value| {
                source.limit = parsed(value)?;
                source.wake(cx);
                Ok(())
            },
        ),
        both(
            "active",
            "whether it sends",
            |source: &PauseSource| source.active.to_string(),
            |source, cx, value| {
                source.active = parsed(value)?;
                source.wake(cx);
                Ok(())
            },
        )
        .marked("c"),
        both(
            "src",
            "who sends",
            |source| source.src.to_string(),
            |source, _, value| {
                source.src = parsed(value)?;
                Ok(())
            },
        ),
        both(
            "dst",
            "to whom",
            |source| source.dst.to_string(),
            |source, _, value| {
                source.dst = parsed(value)?;
                Ok(())
            },
        ),
        both(
            "pausetime",
            "quanta",
            |source| source.quanta.to_string(),
            |source, _, value| {
                source.quanta = parsed(value)?;
                Ok(())
            },
        ),
        action("reset_counts", "sets the count to zero, and sends up to LIMIT frames again", |source, cx| {
            source.count = 0;
            source.wake(cx);
        }),
    ]),
    drops: &[Reason::NoBuffers],
    example: "EtherPauseSource(00:1b:21:00:00:01, 390) -> ToDevice(p)",
    see: &["EtherEncap", "TimedSource"],
    make: |_, conf| {
        let src: Ethernet = conf.mandatory("SRC")?;
        let quanta: u16 = conf.mandatory("PAUSETIME")?;
        let dst = conf.keyword("DST")?.unwrap_or(Ethernet(PAUSE_GROUP.0));
        let limit: i32 = conf.keyword("LIMIT")?.unwrap_or(-1);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let interval = conf.keyword("INTERVAL")?.unwrap_or(Span(SECOND_NS));
        conf.complete()?;
        Ok(Box::new(PauseSource {
            src,
            dst,
            quanta,
            limit,
            active,
            interval_ns: interval.0.max(1_000_000), // Click counts in milliseconds
            count: 0,
            timer: None,
            packets: Signal::new(true),
        }))
    },
    ..Class::BASE
};

/// What is written to a handler.
fn parsed<T: Value>(value: &str) -> Result<T, Refused> {
    parse_alone(value).map_err(|_| "type mismatch".into())
}

/// An `EtherPauseSource` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct PauseSource {
    src: Ethernet,
    dst: Ethernet,
    quanta: u16,
    /// Frames in all; negative for no limit.
    limit: i32,
    active: bool,
    interval_ns: i64,
    count: i64,
    timer: Option<TimerId>,
    /// Raised while there is something to pull.
    packets: Signal,
}

impl PauseSource {
    fn is_over(&self) -> bool {
        !self.active || self.limit >= 0 && self.count >= self.limit.into()
    }

    fn frame(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let frame = mac_control::pause(MacAddress(self.src.0), MacAddress(self.dst.0), self.quanta);
        let Some(mut packet) = cx.packet(&frame) else {
            cx.count_drops(0, 1);
            return None;
        };
        packet.set_header(Header::Link, 0);
        self.count += 1;
        Some(packet)
    }

    /// A handler was written: there may be something to send.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        if self.is_over() {
            return self.packets.lower();
        }
        self.packets.raise(cx);
        let idle = self.timer.filter(|timer| cx.is_push_output(0) && cx.timer_due(*timer).is_none());
        if let Some(timer) = idle {
            cx.set_timer(timer, cx.now_ns());
        }
    }
}

impl Element for PauseSource {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let timer = cx.new_timer();
        self.timer = Some(timer);
        if cx.is_push_output(0) && !self.is_over() {
            cx.set_timer_after(timer, self.interval_ns);
        }
        Ok(())
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        self.packets.of_packets(kind)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if self.is_over() {
            return;
        }
        if let Some(frame) = self.frame(cx) {
            cx.emit(0, frame);
        }
        if !self.is_over() {
            cx.set_timer_after(timer, self.interval_ns);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        while batch.room() > 0 && !self.is_over() {
            let Some(frame) = self.frame(cx) else { return };
            batch.push(frame);
        }
        if self.is_over() {
            self.packets.lower();
        }
    }
}
