//! `CheckNumberPacket`, `RecordTimestamp`, `TimestampDiff`: packets by the numbers that
//! `NumberPacket` wrote into them, and how long each was on its way.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use graph::class::{Handlers, action, ask, both, keyword, mandatory, positional, read};
use graph::value::parse_alone;
use graph::{Action, Class, ConfFault, Cx, Each, Named, PerPacket};
use memory::Packet;
use port::Reason;

/// Bytes of a number.
const SIZE: usize = 8;
/// Numbers that can be looked after.
const MOST: usize = 1 << 24;

/// Looks for them.
pub static CHECK: Class = Class {
    name: "CheckNumberPacket",
    brief: "counts how often each number came",
    doc: "Packets without a number, or with one that is COUNT or more, go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        positional("OFFSET", "where the number is, in bytes; 40"),
        keyword("NET_ORDER", "the highest byte first; false"),
        positional("COUNT", "numbers are below this; 0"),
    ],
    handlers: &Handlers::<Check>(&[
        both(
            "count",
            "numbers are below this",
            |check| check.seen.len().to_string(),
            |check, _, value| {
                check.seen.resize(bounded(parse_alone(value)?)?, 0);
                Ok(())
            },
        ),
        read("min", "the number that came least often, and how often", |check| {
            shown(check.seen.iter().enumerate().min_by_key(|(_, times)| **times))
        }),
        read("max", "the number that came most often, and how often", |check| {
            // The first of several.
            shown(check.seen.iter().enumerate().rev().max_by_key(|(_, times)| **times))
        }),
        read("dump", "how often each came", |check| {
            check.seen.iter().enumerate().map(|(number, times)| format!("{number}: {times}\n")).collect()
        }),
    ]),
    drops: &[Reason::NoSuchNumber],
    example: "FromDevice(b) -> CheckNumberPacket(40, COUNT 1000) -> Discard",
    see: &["NumberPacket"],
    make: |_, conf| {
        let at = conf.positional("OFFSET")?.unwrap_or(40);
        let net = conf.keyword("NET_ORDER")?.unwrap_or(false);
        let count = conf.positional("COUNT")?.unwrap_or(0);
        conf.complete()?;
        Ok(Each::boxed(Check { place: NumberField { at, net }, seen: vec![0; bounded(count)?] }))
    },
    ..Class::BASE
};

/// Notes down when.
pub static RECORD: Class = Class {
    name: "RecordTimestamp",
    brief: "notes down when each packet came by",
    doc: "With OFFSET the time of a packet is noted down by the number in it, else one after the other. Packets \
          beyond the first N are not noted down. TimestampDiff says how much later they came somewhere else.",
    arguments: &[
        keyword("COUNTER", "taken for compatibility"),
        keyword("N", "packets; 65536"),
        keyword("OFFSET", "where the number is, in bytes; none"),
        keyword("DYNAMIC", "taken for compatibility"),
        keyword("NET_ORDER", "the highest byte first; false"),
        keyword("SAMPLE", "only one number of so many; 1"),
    ],
    handlers: &Handlers::<Record>(&[
        read("count", "packets noted down", |record| {
            record.times.slots.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0).count().to_string()
        }),
        action("reset", "forgets them", |record, _| {
            record.times.slots.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
            record.times.next.store(0, Ordering::Relaxed);
        }),
    ]),
    drops: &[Reason::NotConnected],
    example: "NumberPacket(40) -> r :: RecordTimestamp(OFFSET 40) -> ToDevice(a)",
    see: &["TimestampDiff", "NumberPacket"],
    make: |setup, conf| {
        let _: Option<String> = conf.keyword("COUNTER")?;
        let count: usize = conf.keyword("N")?.filter(|n| *n > 0).unwrap_or(65536);
        let at: Option<i64> = conf.keyword("OFFSET")?;
        let _: Option<bool> = conf.keyword("DYNAMIC")?;
        let net = conf.keyword("NET_ORDER")?.unwrap_or(false);
        let sample: u64 = conf.keyword("SAMPLE")?.unwrap_or(1);
        conf.complete()?;
        let times = Times {
            slots: (0..bounded(count)?).map(|_| AtomicI64::new(0)).collect(),
            next: AtomicU64::new(0),
            sample: sample.max(1),
            net,
        };
        let times = Arc::new(times);
        setup.share(times.clone());
        let at = at.and_then(|at| usize::try_from(at).ok());
        Ok(Each::boxed(Record { place: at.map(|at| NumberField { at, net }), times }))
    },
    ..Class::BASE
};

/// Says how much later.
pub static DIFF: Class = Class {
    name: "TimestampDiff",
    brief: "measures how long packets took from a RecordTimestamp",
    doc: "Delays are in microseconds, or nanoseconds with NANO. Packets without a number, or with one that RECORDER \
          did not note down, go to output 1, or are dropped. The handler `perc` takes a percentage.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        mandatory("RECORDER", "the RecordTimestamp"),
        keyword("OFFSET", "where the number is, in bytes; 40"),
        keyword("N", "delays that are kept; 1048576"),
        keyword("MAXDELAY", "milliseconds from which on a delay is told, with VERBOSE; 1000"),
        keyword("NANO", "nanoseconds; false"),
        keyword("SAMPLE", "taken for compatibility: RECORDER's holds"),
        keyword("VERBOSE", "tells long delays; false"),
    ],
    handlers: &Handlers::<Diff>(&[
        read("average", "the mean", |diff| mean(&diff.delays()).to_string()),
        read("avg", "the mean", |diff| mean(&diff.delays()).to_string()),
        read("min", "the shortest", |diff| diff.percent(0.0)),
        read("max", "the longest", |diff| diff.percent(100.0)),
        read("stddev", "the standard deviation", Diff::deviation),
        read("perc00", "the shortest", |diff| diff.percent(0.0)),
        read("perc01", "one percent are at most so long", |diff| diff.percent(1.0)),
        read("perc05", "five percent are", |diff| diff.percent(5.0)),
        read("perc10", "ten percent are", |diff| diff.percent(10.0)),
        read("perc25", "a quarter are", |diff| diff.percent(25.0)),
        read("median", "half are", |diff| diff.percent(50.0)),
        read("perc75", "three quarters are", |diff| diff.percent(75.0)),
        read("perc90", "ninety percent are", |diff| diff.percent(90.0)),
        read("perc95", "ninety-five percent are", |diff| diff.percent(95.0)),
        read("perc99", "ninety-nine percent are", |diff| diff.percent(99.0)),
        read("perc100", "the longest", |diff| diff.percent(100.0)),
        ask("perc", "the delay of a percentage", |diff, _, parameter| {
            Ok(diff.percent(parameter.trim().parse().map_err(|_| "expected a percentage")?))
        }),
        read("index", "the number of the last delay", |diff| (diff.delays().len() as i64 - 1).to_string()),
        read("last", "the last delay", |diff| diff.delays().last().unwrap_or(&0).to_string()),
        read("dump", "all delays, with numbers", |diff| {
            diff.delays().iter().enumerate().map(|(n, delay)| format!("{n}: {delay}\n")).collect()
        }),
        read("dump_list", "all delays", |diff| {
            diff.delays().iter().map(|delay| format!("{delay}\n")).collect()
        }),
    ]),
    drops: &[Reason::NotRecorded],
    example: "FromDevice(b) -> d :: TimestampDiff(r, OFFSET 40) -> Discard; DriverManager(wait 10s, read d.median)",
    see: &["RecordTimestamp", "NumberPacket"],
    make: |_, conf| {
        let recorder: String = conf.mandatory("RECORDER")?;
        let at = conf.keyword("OFFSET")?.unwrap_or(40);
        let most = conf.keyword("N")?.filter(|n| *n > 0).unwrap_or(1 << 20);
        let longest_ms: u32 = conf.keyword("MAXDELAY")?.unwrap_or(1000);
        let nano = conf.keyword("NANO")?.unwrap_or(false);
        let _: Option<u64> = conf.keyword("SAMPLE")?;
        let verbose = conf.keyword("VERBOSE")?.unwrap_or(false);
        conf.complete()?;
        let longest_ns = verbose.then_some(i64::from(longest_ms) * 1_000_000);
        let delays = Arc::new(Mutex::new(vec![]));
        let unit_ns = if nano { 1 } else { 1000 };
        Ok(Each::boxed(Diff { recorder, at, most: bounded(most)?, longest_ns, unit_ns, times: None, delays }))
    },
    ..Class::BASE
};

fn bounded(count: usize) -> Result<usize, ConfFault> {
    if count > MOST {
        return Err(format!("at most {MOST} numbers can be looked after").into());
    }
    Ok(count)
}

/// Where a number is in packets.
#[derive(Debug, Clone, Copy)]
struct NumberField {
    at: usize,
    net: bool,
}

impl NumberField {
    fn read(self, packet: &Packet) -> Option<u64> {
        let bytes = *packet.get(self.at..)?.first_chunk::<SIZE>()?;
        Some(if self.net { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }
}

/// A `CheckNumberPacket` element; [`CHECK`] says what it does.
#[derive(Debug)]
pub struct Check {
    place: NumberField,
    seen: Vec<u32>,
}

/// A number and how often it came.
fn shown(found: Option<(usize, &u32)>) -> String {
    found.map_or("[-1] : -1".to_string(), |(number, times)| format!("[{number}] : {times}"))
}

impl PerPacket for Check {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let number = self.place.read(packet).and_then(|n| usize::try_from(n).ok());
        match number.and_then(|n| self.seen.get_mut(n)) {
            Some(seen) => {
                *seen = seen.saturating_add(1);
                Action::ON
            }
            None => Action::out_or_drop(1, 0),
        }
    }
}

/// When packets came by, as [`RECORD`] shares it. Zero: not yet.
#[derive(Debug)]
struct Times {
    slots: Vec<AtomicI64>,
    next: AtomicU64,
    sample: u64,
    net: bool,
}

impl Times {
    fn slot(&self, number: u64) -> Option<&AtomicI64> {
        let wanted = number.is_multiple_of(self.sample);
        usize::try_from(number / self.sample).ok().filter(|_| wanted).and_then(|slot| self.slots.get(slot))
    }
}

/// A `RecordTimestamp` element; [`RECORD`] says what it does.
#[derive(Debug, Clone)]
pub struct Record {
    place: Option<NumberField>,
    times: Arc<Times>,
}

impl PerPacket for Record {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let number = match self.place {
            Some(place) => place.read(packet),
            // Relaxed: each slot once, in no particular order among threads.
            None => Some(self.times.next.fetch_add(1, Ordering::Relaxed)),
        };
        if let Some(slot) = number.and_then(|number| self.times.slot(number)) {
            // Release: who reads the time sees what was done before.
            slot.store(cx.now_ns(), Ordering::Release);
        }
        Action::ON
    }

    fn replicate(&self) -> Option<Record> {
        Some(self.clone())
    }
}

/// A `TimestampDiff` element; [`DIFF`] says what it does.
#[derive(Debug, Clone)]
pub struct Diff {
    recorder: String,
    at: usize,
    most: usize,
    /// From where on a delay is told.
    longest_ns: Option<i64>,
    unit_ns: i64,
    times: Option<Arc<Times>>,
    delays: Arc<Mutex<Vec<u32>>>,
}

impl Diff {
    fn note(&self, cx: &Cx<'_>, number: u64) -> bool {
        let slot = self.times.as_ref().and_then(|times| times.slot(number));
        let Some(then) = slot.map(|slot| slot.load(Ordering::Acquire)).filter(|then| *then != 0) else {
            return false;
        };
        let delay = cx.now_ns().saturating_sub(then).max(0);
        if self.longest_ns.is_some_and(|longest| delay > longest) {
            let (ms, most) = (delay / 1_000_000, self.longest_ns.unwrap_or(0) / 1_000_000);
            cx.say(&format!("Packet {number} experienced delay {ms} ms > {most} ms\n"));
        }
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        if delays.len() < self.most {
            delays.push(u32::try_from(delay / self.unit_ns).unwrap_or(u32::MAX));
        }
        true
    }
}

/// The delay that a share of them does not exceed.
fn percentile(sorted: &[u32], percent: f64) -> u32 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}

/// What its handlers read.
impl Diff {
    fn delays(&self) -> Vec<u32> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn percent(&self, percent: f64) -> String {
        let mut delays = self.delays();
        delays.sort_unstable();
        percentile(&delays, percent).to_string()
    }

    fn deviation(&self) -> String {
        let mut delays = self.delays();
        let mean = mean(&delays);
        delays.sort_unstable();
        let squares = delays.iter().map(|delay| (f64::from(*delay) - mean).powi(2));
        (squares.sum::<f64>() / delays.len().max(1) as f64).sqrt().to_string()
    }
}

fn mean(delays: &[u32]) -> f64 {
    delays.iter().map(|delay| f64::from(*delay)).sum::<f64>() / delays.len().max(1) as f64
}

impl Diff {
    /// What the recorder that is named has of packets.
    fn recorded(&self, named: &Named<'_>) -> Result<Arc<Times>, String> {
        let times = named.shared::<Times>(&self.recorder);
        times.ok_or_else(|| "RECORDER must be a valid RecordTimestamp element".into())
    }
}

impl PerPacket for Diff {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.recorded(named).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.times = Some(self.recorded(&cx.named())?);
        Ok(())
    }

    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let net = self.times.as_ref().is_some_and(|times| times.net);
        let number = NumberField { at: self.at, net }.read(packet);
        let sampled = |number: &u64| self.times.as_ref().is_some_and(|t| !number.is_multiple_of(t.sample));
        match number {
            Some(number) if sampled(&number) || self.note(cx, number) => Action::ON,
            _ => Action::out_or_drop(1, 0),
        }
    }

    fn replicate(&self) -> Option<Diff> {
        Some(self.clone())
    }
}
