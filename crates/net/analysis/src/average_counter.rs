//! `AverageCounter`: packets, and their rate from the first to the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use graph::class::{Handlers, action, keyword, positional, read};
use graph::element::kernel::Kernel;
use graph::{Class, Cx, Element, Next, PerThreadCounter};
use memory::Batch;

use super::text;

/// Bytes that each frame takes on the wire beside its own.
const PREAMBLE_AND_GAP: u64 = 20;

pub static CLASS: Class = Class {
    name: "AverageCounter",
    brief: "counts packets, and their rate from the first to the last",
    doc: "Passes packets on unchanged. The rate is an average over the time from the first packet to the last \
          one, but for the first IGNORE seconds, in which nothing is counted.",
    arguments: &[
        positional("IGNORE", "seconds that do not count; 0"),
        keyword("LINK_FCS", "whether frames lack their check sequence here; true"),
    ],
    handlers: &Handlers::<AverageCounter>(&[
        read("count", "packets", |counter| counter.packets.sum().to_string()),
        read("byte_count", "bytes", |counter| counter.bytes.sum().to_string()),
        read("bit_count", "bits", |counter| counter.bits().to_string()),
        read("link_count", "bits on the wire, with preamble, gap and frame check sequence", |counter| {
            counter.link_bits().to_string()
        }),
        read("rate", "packets per second", |counter| counter.per_second(counter.packets.sum())),
        read("byte_rate", "bytes per second", |counter| counter.per_second(counter.bytes.sum())),
        read("bit_rate", "bits per second", |counter| counter.per_second(counter.bits())),
        read("link_rate", "bits per second on the wire", |counter| counter.per_second(counter.link_bits())),
        read("time", "seconds from the first packet to the last", |counter| {
            text::general(counter.milliseconds() as f64 / 1000.0)
        }),
        action("reset", "begins again", AverageCounter::reset).marked("b"),
        action("reset_counts", "begins again", AverageCounter::reset),
    ]),
    example: "FromDevice(p) -> c :: AverageCounter -> Discard",
    see: &["Counter"],
    kernel: Kernel::Excluded(crate::CLOCK),
    make: |_, conf| {
        let ignore: u32 = conf.positional("IGNORE")?.unwrap_or(0);
        let fcs = conf.keyword("LINK_FCS")?.unwrap_or(true);
        conf.complete()?;
        let frame_more = PREAMBLE_AND_GAP + if fcs { 4 } else { 0 };
        let span = Arc::new(Span { first: AtomicI64::new(0), last: AtomicI64::new(0) });
        let (packets, bytes) = (PerThreadCounter::default(), PerThreadCounter::default());
        Ok(Box::new(AverageCounter { ignore_ms: i64::from(ignore) * 1000, frame_more, packets, bytes, span }))
    },
    ..Class::BASE
};

/// When the first and the last packet came, in milliseconds; zero before there was one.
#[derive(Debug)]
struct Span {
    first: AtomicI64,
    last: AtomicI64,
}

/// An `AverageCounter` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct AverageCounter {
    ignore_ms: i64,
    /// Bytes of each frame on the wire that are not counted here.
    frame_more: u64,
    packets: PerThreadCounter,
    bytes: PerThreadCounter,
    span: Arc<Span>,
}

/// What its handlers read and write.
impl AverageCounter {
    /// From the first packet that counts to the last.
    fn milliseconds(&self) -> i64 {
        let (first, last) = (self.span.first.load(Ordering::Relaxed), self.span.last.load(Ordering::Relaxed));
        (last - first - self.ignore_ms).max(1)
    }

    fn bits(&self) -> u64 {
        self.bytes.sum() * 8
    }

    fn link_bits(&self) -> u64 {
        (self.bytes.sum() + self.packets.sum() * self.frame_more) * 8
    }

    fn per_second(&self, count: u64) -> String {
        text::general(count as f64 * 1000.0 / self.milliseconds() as f64)
    }

    fn reset(&mut self, _: &mut Cx<'_>) {
        self.packets.reset();
        self.bytes.reset();
        self.span.first.store(0, Ordering::Relaxed);
        self.span.last.store(0, Ordering::Relaxed);
    }
}

impl Element for AverageCounter {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let now = cx.now_ns() / 1_000_000;
        // Relaxed: times of their own, which order nothing else.
        let first = match self.span.first.load(Ordering::Relaxed) {
            0 => match self.span.first.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => now,
                Err(other) => other,
            },
            first => first,
        };
        if now - first >= self.ignore_ms {
            self.packets.add(batch.len() as u64);
            self.bytes.add(batch.iter().map(|packet| packet.total_len() as u64).sum());
        }
        self.span.last.store(now, Ordering::Relaxed);
        Next::Push(0)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(AverageCounter {
            ignore_ms: self.ignore_ms,
            frame_more: self.frame_more,
            packets: self.packets.for_another(),
            bytes: self.bytes.for_another(),
            span: self.span.clone(),
        }))
    }
}
