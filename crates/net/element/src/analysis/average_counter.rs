//! `AverageCounter`: packets, and their rate from the first to the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use graph::class::{keyword, positional, read, write};
use graph::{Class, Cx, Element, Next, Refused, Tally};
use memory::Batch;

use super::text;

/// Bytes that each frame takes on the wire beside its own.
const PREAMBLE_AND_GAP: u64 = 20;

/// The class.
pub static CLASS: Class = Class {
    name: "AverageCounter",
    brief: "counts packets, and their rate from the first to the last",
    doc: "Passes packets on unchanged. The rate is an average over the time from the first packet to the last \
          one, but for the first IGNORE seconds, in which nothing is counted.",
    arguments: &[
        positional("IGNORE", "seconds that do not count; 0"),
        keyword("LINK_FCS", "whether frames lack their check sequence here; true"),
    ],
    handlers: &[
        read("count", "packets"),
        read("byte_count", "bytes"),
        read("bit_count", "bits"),
        read("link_count", "bits on the wire, with preamble, gap and frame check sequence"),
        read("rate", "packets per second"),
        read("byte_rate", "bytes per second"),
        read("bit_rate", "bits per second"),
        read("link_rate", "bits per second on the wire"),
        read("time", "seconds from the first packet to the last"),
        write("reset", "begins again"),
        write("reset_counts", "begins again"),
    ],
    example: "FromDevice(p) -> c :: AverageCounter -> Discard",
    see: &["Counter"],
    make: |_, conf| {
        let ignore: u32 = conf.positional("IGNORE")?.unwrap_or(0);
        let fcs = conf.keyword("LINK_FCS")?.unwrap_or(true);
        conf.complete()?;
        let frame_more = PREAMBLE_AND_GAP + if fcs { 4 } else { 0 };
        let span = Arc::new(Span { first: AtomicI64::new(0), last: AtomicI64::new(0) });
        let (packets, bytes) = (Tally::default(), Tally::default());
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

/// See [`CLASS`].
#[derive(Debug)]
pub struct AverageCounter {
    ignore_ms: i64,
    /// Bytes of each frame on the wire that are not counted here.
    frame_more: u64,
    packets: Tally,
    bytes: Tally,
    span: Arc<Span>,
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

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        let (first, last) = (self.span.first.load(Ordering::Relaxed), self.span.last.load(Ordering::Relaxed));
        let milliseconds = (last - first - self.ignore_ms).max(1);
        if handler == "time" {
            return Ok(text::general(milliseconds as f64 / 1000.0));
        }
        let (packets, bytes) = (self.packets.sum(), self.bytes.sum());
        let (what, per_second) = match handler.strip_suffix("_count").or(handler.strip_suffix("count")) {
            Some(what) => (what, false),
            None => (handler.strip_suffix("rate").unwrap_or(handler).trim_end_matches('_'), true),
        };
        let count = match what {
            "byte" => bytes,
            "bit" => bytes * 8,
            "link" => (bytes + packets * self.frame_more) * 8,
            _ => packets,
        };
        Ok(match per_second {
            true => text::general(count as f64 * 1000.0 / milliseconds as f64),
            false => count.to_string(),
        })
    }

    fn write(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<(), Refused> {
        self.packets.reset();
        self.bytes.reset();
        self.span.first.store(0, Ordering::Relaxed);
        self.span.last.store(0, Ordering::Relaxed);
        Ok(())
    }
}
