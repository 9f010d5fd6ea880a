//! `Counter`: packets, bytes, rates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use graph::class::{Handlers, action, both, call, keyword, read, write};
use graph::clock::SECOND_NS;
use graph::element::kernel::Kernel;
use graph::fused::Single;
use graph::lang::args;
use graph::value::Raw;
use graph::{Action, Class, ConfFault, Cx, Element, Named, Next, PerThreadCounters, Refused};
use memory::{Batch, Packet};

use crate::kernels::single;

pub static CLASS: Class = Class {
    name: "Counter",
    brief: "counts packets and bytes, and measures their rate",
    doc: "Passes packets on unchanged. Threads count each for themselves; reading gives the sum. \
          COUNT_CALL writes a handler when the count reaches N.",
    arguments: &[
        keyword("COUNT_CALL", "`N HANDLER VALUE`: written at the Nth packet"),
        keyword("BYTE_COUNT_CALL", "`N HANDLER VALUE`: written at the Nth byte"),
    ],
    handlers: &Handlers::<Counter>(&[
        read("count", "packets", |counter| counter.counts.sums()[PACKETS].to_string()),
        read("byte_count", "bytes", |counter| counter.counts.sums()[BYTES].to_string()),
        call("rate", "packets per second, of the last second or so", |counter, cx, _| {
            Ok(counter.rates(cx).0.to_string())
        }),
        call("bit_rate", "bits per second, of the last second or so", |counter, cx, _| {
            Ok((counter.rates(cx).1 * 8.0).to_string())
        }),
        call("byte_rate", "bytes per second, of the last second or so", |counter, cx, _| {
            Ok(counter.rates(cx).1.to_string())
        }),
        action("reset", "counts from zero", Counter::reset).marked("b"),
        action("reset_counts", "counts from zero", Counter::reset).marked("Ub"),
        both(
            "count_call",
            "what is written at which packet; reads at which",
            |counter| Call::unparse(&counter.calls[PACKETS]),
            |counter, cx, value| {
                counter.calls[PACKETS] = Some(Call::checked(cx, value, "count_call")?);
                Ok(())
            },
        ),
        write("byte_count_call", "what is written at which byte", |counter, cx, value| {
            counter.calls[BYTES] = Some(Call::checked(cx, value, "byte_count_call")?);
            Ok(())
        }),
    ]),
    example: "FromDevice(p) -> c :: Counter -> Discard",
    see: &["AverageCounter", "CompareBlock"],
    kernel: Kernel::Inside(single!(Counter)),
    make: |setup, conf| {
        let call = conf.keyword::<Raw>("COUNT_CALL")?;
        let byte_call = conf.keyword::<Raw>("BYTE_COUNT_CALL")?;
        conf.complete()?;
        let call = call.map(|text| Call::parse(&text.0, "COUNT_CALL type mismatch")).transpose()?;
        let byte_call =
            byte_call.map(|text| Call::parse(&text.0, "BYTE_COUNT_CALL type mismatch")).transpose()?;
        let calls = [call, byte_call];
        if calls.iter().flatten().any(|call| call.handler != "stop") {
            setup.take_one_by_one();
        }
        let counts = PerThreadCounters::default();
        Ok(Box::new(Counter { counts, calls, counted: false, rate: Rate::default() }))
    },
    ..Class::BASE
};

/// The places of a counter's counts, and of the handlers that they call.
const PACKETS: usize = 0;
const BYTES: usize = 1;

/// A handler to write when a count is reached.
#[derive(Debug, Clone)]
struct Call {
    at: u64,
    handler: String,
    value: String,
    /// It was written, by whichever thread.
    done: Arc<AtomicBool>,
}

impl Call {
    fn parse(text: &str, wrong: &str) -> Result<Box<Call>, ConfFault> {
        let (at, rest) = args::shift_word(text);
        let at = graph::value::unsigned(at).ok_or_else(|| ConfFault::new(wrong))?;
        let (handler, value) = args::shift_word(rest);
        Ok(Box::new(Call { at, handler: handler.into(), value: value.into(), done: Arc::default() }))
    }

    /// One that is written to a handler: it can be called.
    fn checked(cx: &Cx<'_>, text: &str, handler: &str) -> Result<Box<Call>, Refused> {
        let wrong = format!("'{handler}' first word should be unsigned (count)");
        let call = Call::parse(text, &wrong)?;
        cx.named().can_write(&call.handler).map_err(|refused| Refused::Failed(refused.to_string()))?;
        Ok(call)
    }

    /// Writes the handler if it is time to, once, when the counter has returned; whether
    /// it is.
    fn check(call: &Option<Box<Call>>, count: u64, cx: &mut Cx<'_>) -> bool {
        // Relaxed: nothing else depends on it.
        let Some(call) = call.as_ref().filter(|call| call.is_due(count)) else { return false };
        if call.done.swap(true, Ordering::Relaxed) {
            return false;
        }
        cx.call(&call.handler, &call.value);
        true
    }

    /// Whether it was not written so far.
    fn waits(&self) -> bool {
        !self.done.load(Ordering::Relaxed)
    }

    /// Whether it is to be written at this count.
    fn is_due(&self, count: u64) -> bool {
        count >= self.at && self.waits()
    }

    fn unparse(call: &Option<Box<Call>>) -> String {
        call.as_ref().map_or(String::new(), |call| call.at.to_string())
    }
}

/// A rate, from two looks at a count a second or more apart. It costs packets
/// nothing: only who reads it pays.
#[derive(Debug, Default)]
struct Rate {
    /// When the counts were looked at, and what they were.
    last: (i64, u64, u64),
    /// Packets and bytes per second.
    now: (f64, f64),
}

impl Rate {
    fn look(&mut self, now_ns: i64, packets: u64, bytes: u64) -> (f64, f64) {
        let (then, packets_then, bytes_then) = self.last;
        let seconds = (now_ns - then) as f64 / SECOND_NS as f64;
        if seconds >= 1.0 || self.now == (0.0, 0.0) {
            let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds.max(1e-9);
            self.now = (per_second(packets, packets_then), per_second(bytes, bytes_then));
            self.last = (now_ns, packets, bytes);
        }
        self.now
    }
}

/// A `Counter` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Counter {
    /// Of [`PACKETS`] and of [`BYTES`], as are the calls.
    counts: PerThreadCounters<2>,
    calls: [Option<Box<Call>>; 2],
    /// The first packet of the next batch was counted.
    counted: bool,
    rate: Rate,
}

impl Counter {
    #[inline(always)]
    fn count(&mut self, cx: &mut Cx<'_>, packets: u64, bytes: u64) {
        self.counts.add_all([packets, bytes]);
        if self.calls.iter().flatten().any(|call| call.waits()) {
            self.call(cx); // of one in a program, which asks each packet alone
        }
    }

    /// Writes the handlers whose time has come; whether it has for one.
    #[cold]
    fn call(&mut self, cx: &mut Cx<'_>) -> bool {
        // SeqCst: of two threads that count at the same time, one at least sees both counts,
        // so that the call is not missed where neither counts on.
        fence(Ordering::SeqCst);
        let packets = Call::check(&self.calls[PACKETS], self.counts.sums()[PACKETS], cx);
        Call::check(&self.calls[BYTES], self.counts.sums()[BYTES], cx) || packets
    }

    /// Whether a handler is to be written while so many more are counted.
    fn is_due_within(&self, packets: u64, bytes: u64) -> bool {
        let due = |(place, more): (usize, u64)| {
            let count = || self.counts.sums()[place].saturating_add(more);
            self.calls[place].as_ref().is_some_and(|call| call.is_due(count()))
        };
        [(PACKETS, packets), (BYTES, bytes)].into_iter().any(due)
    }

    /// Counts packets one after the other, up to one at which a handler is called: that
    /// comes once more behind the call, and was counted.
    #[cold]
    fn count_until_call(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        let mut counted = batch.len();
        for (place, packet) in batch.iter().enumerate().skip(usize::from(self.counted)) {
            self.counts.add_all([1, packet.total_len() as u64]);
            if self.call(cx) {
                counted = place;
                break;
            }
        }
        self.counted = counted < batch.len();
        if !self.counted {
            return Next::Push(0);
        }
        for packet in batch.drain().take(counted) {
            cx.emit(0, packet);
        }
        Next::Again(input)
    }

    /// Packets and bytes per second.
    fn rates(&mut self, cx: &Cx<'_>) -> (f64, f64) {
        let [packets, bytes] = self.counts.sums();
        self.rate.look(cx.now_ns(), packets, bytes)
    }

    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.counts.reset();
        for call in self.calls.iter().flatten() {
            call.done.store(false, Ordering::Relaxed);
        }
        self.rate = Rate { last: (cx.now_ns(), 0, 0), now: (0.0, 0.0) };
    }
}

impl Single for Counter {
    #[inline(always)]
    fn single(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        self.count(cx, 1, packet.total_len() as u64);
        Action::ON
    }
}

impl Element for Counter {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        let mut calls = self.calls.iter().flatten();
        calls.try_for_each(|call| named.can_write(&call.handler)).map_err(|refused| refused.to_string())
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.rate.last.0 = cx.now_ns();
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        let (packets, bytes) =
            (batch.len() as u64, batch.iter().map(|packet| packet.total_len() as u64).sum());
        if self.counted || self.is_due_within(packets, bytes) {
            return self.count_until_call(cx, input, batch);
        }
        self.count(cx, packets, bytes); // and looks once more: other threads count as well
        Next::Push(0)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Counter {
            counts: self.counts.for_another(),
            calls: self.calls.clone(),
            counted: false,
            rate: Rate::default(),
        }))
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Counter>() {
            self.counts.add_all(old.counts.owns());
        }
    }
}
