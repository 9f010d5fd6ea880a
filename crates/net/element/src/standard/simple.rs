//! `Align`, `CheckLength`, `SetAnnoByte`, `RandomSample`, `Clipboard`,
//! `RandomBitErrors`: elements of one short step for each packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use graph::chain::{self, Bytes};
use graph::class::{Handlers, both, datum, keyword, mandatory, positional, read, rest, setting};
use graph::element::kernel::Kernel;
use graph::{Action, Class, ConfFault, Cx, Each, PerPacket, PerThreadCounter, Refused};
use memory::Packet;

use super::parsed;
use crate::kernels::each;
use graph::annotation::{AnnotationOffset, PacketAnnotations};
use graph::random;
use port::Reason;

/// `Align`, which has nothing to do here.
pub static ALIGN: Class = Class {
    name: "Align",
    brief: "passes packets on: data is aligned as it need be",
    doc: "Elements here read headers at any address, so there is nothing to align; the arguments are checked, \
          and nothing else is done.",
    arguments: &[mandatory("MODULUS", "2, 4 or 8"), mandatory("OFFSET", "less than MODULUS")],
    example: "Align(4, 2)",
    see: &["AlignmentInfo"],
    kernel: Kernel::Inside(each!(Pass)),
    make: |_, conf| {
        let (modulus, offset): (u32, u32) = (conf.mandatory("MODULUS")?, conf.mandatory("OFFSET")?);
        conf.complete()?;
        if !matches!(modulus, 2 | 4 | 8) {
            return Err("MODULUS must be 2, 4, or 8".into());
        }
        if offset >= modulus {
            return Err("OFFSET must be smaller than MODULUS".into());
        }
        Ok(Each::boxed(Pass))
    },
    ..Class::BASE
};

/// `CheckLength`, which compares lengths in bytes.
pub static CHECK_LENGTH: Class = Class {
    name: "CheckLength",
    brief: "sorts out packets that are too long",
    doc: "Packets longer than LENGTH bytes go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[mandatory("LENGTH", "bytes of the longest packet that goes on")],
    handlers: &Handlers::<CheckLength>(&[both(
        "length",
        "bytes of the longest packet that goes on",
        |check| check.0.load(Ordering::Relaxed).to_string(),
        |check, _, value| {
            let length = parsed(value).map_err(|_| Refused::from("expected integer"))?;
            check.0.store(length, Ordering::Relaxed);
            Ok(())
        },
    )]),
    drops: &[Reason::TooLong],
    example: "CheckLength(1500)",
    see: &["Truncate", "IPFragmenter"],
    kernel: Kernel::Inside(each!(CheckLength)),
    make: |_, conf| {
        let length = conf.mandatory("LENGTH")?;
        conf.complete()?;
        Ok(Each::boxed(CheckLength(Arc::new(AtomicUsize::new(length)))))
    },
    ..Class::BASE
};

/// `SetAnnoByte`, which writes a byte of the annotations.
pub static SET_ANNO_BYTE: Class = Class {
    name: "SetAnnoByte",
    brief: "sets a byte of packets' annotations",
    doc: "Sets the annotation byte ANNO to VALUE.",
    arguments: &[mandatory("ANNO", "which byte"), mandatory("VALUE", "0 to 255")],
    handlers: &Handlers::<SetAnnoByte>(&[
        read("anno", "which byte", |set| set.at.to_string()),
        datum("value", "0 to 255", |set| set.value.to_string(), (1, "VALUE")),
    ]),
    live: true,
    example: "SetAnnoByte(PAINT, 3)",
    see: &["Paint"],
    kernel: Kernel::Inside(each!(SetAnnoByte)),
    make: |setup, conf| {
        let (AnnotationOffset(at), value) =
            (conf.mandatory::<AnnotationOffset<1>>("ANNO")?, conf.mandatory("VALUE")?);
        conf.complete()?;
        setup.warn("SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead");
        Ok(Each::boxed(SetAnnoByte { at, value }))
    },
    ..Class::BASE
};

/// `RandomSample`, which passes packets on with a probability.
pub static RANDOM_SAMPLE: Class = Class {
    name: "RandomSample",
    brief: "lets packets through with a probability",
    doc: "Each packet goes on with probability P; the others go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        positional("P", "probability that a packet goes on, 0 to 1"),
        keyword("SAMPLE", "the same"),
        keyword("DROP", "probability that it does not"),
        keyword("ACTIVE", "whether it samples; if not all go on; true"),
    ],
    handlers: &Handlers::<RandomSample>(&[
        both(
            "sampling_prob",
            "probability that a packet goes on",
            |sample| sample.chance.chance().to_string(),
            |sample, cx, value| sample.set(cx, probability(value)?),
        ),
        both(
            "active",
            "whether it samples",
            |sample: &RandomSample| sample.chance.is_active().to_string(),
            |sample: &mut RandomSample, cx, value| {
                sample.chance.set_active(value)?;
                sample.show(cx);
                Ok(())
            },
        )
        .marked("c"),
        read("drops", "packets that did not go on", |sample| sample.drops.sum().to_string()),
        both(
            "drop_prob",
            "probability that it does not",
            |sample| (1.0 - sample.chance.chance()).to_string(),
            |sample, cx, value| sample.set(cx, 1.0 - probability(value)?),
        ),
    ]),
    drops: &[Reason::NotInSample],
    live: true,
    config_changes: true,
    example: "RandomSample(0.1)",
    see: &["RandomSwitch", "RatedSplitter"],
    make: |_, conf| {
        let positional: Option<f64> = conf.positional("P")?;
        let sample: Option<f64> = conf.keyword("SAMPLE")?;
        let drop: Option<f64> = conf.keyword("DROP")?;
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        conf.complete()?;
        if sample.is_some() && drop.is_some() {
            return Err("give at most one of SAMPLE and DROP".into());
        }
        let chance = drop.map(|drop| 1.0 - drop).or(sample).or(positional);
        let chance = chance.filter(|chance| (0.0..=1.0).contains(chance));
        let chance = chance.ok_or("sampling probability must be between 0 and 1")?;
        Ok(Each::boxed(RandomSample {
            chance: Chance::new(chance, active),
            drops: PerThreadCounter::default(),
        }))
    },
    ..Class::BASE
};

/// Bytes from one packet to others.
pub static CLIPBOARD: Class = Class {
    name: "Clipboard",
    brief: "copies bytes from packets of one port into those of others",
    doc: "Keeps the bytes of each RANGE of the last packet that came in at input 0, and writes them over those \
          of packets that come in at other inputs. Packets too short for all ranges are left as they are.",
    ports: "2-/=",
    flow: "#/#",
    arguments: &[rest("RANGE", "`OFFSET/LENGTH`, any number")],
    live: true,
    example: "Clipboard(0/6, 12/2)",
    see: &["StoreData"],
    make: |_, conf| {
        let ranges = conf.rest().iter().enumerate().map(range).collect::<Result<Vec<_>, ConfFault>>()?;
        let length = ranges.iter().map(|(_, length)| length).sum();
        let least = ranges.iter().map(|(offset, length)| offset + length).max().unwrap_or(0);
        Ok(Each::boxed(Clipboard { ranges, kept: vec![0; length], least }))
    },
    ..Class::BASE
};

/// `RandomBitErrors`, which changes each bit with a probability.
pub static RANDOM_BIT_ERRORS: Class = Class {
    name: "RandomBitErrors",
    brief: "changes bits of packets with a probability",
    doc: "Each bit of a packet is changed with probability P.",
    arguments: &[
        mandatory("P", "probability of a bit, 0 to 1"),
        positional("KIND", "`flip` bits, `set` them, or `clear` them; flip"),
        positional("ACTIVE", "whether it does; true"),
    ],
    handlers: &Handlers::<RandomBitErrors>(&[
        setting("p_bit_error", "probability of a bit", |errors| errors.chance.chance().to_string(), (0, "P")),
        setting("error_kind", "what is done to bits", |errors| errors.kind.to_string(), (1, "KIND")),
        both(
            "active",
            "whether it does",
            |errors| errors.chance.is_active().to_string(),
            |errors, _, value| errors.chance.set_active(value),
        ),
    ]),
    live: true,
    example: "RandomBitErrors(0.0001)",
    see: &["RandomSource", "RandomSample"],
    make: |setup, conf| {
        let chance: f64 = conf.mandatory("P")?;
        let kind = conf.positional::<String>("KIND")?.unwrap_or("flip".into());
        let active = conf.positional("ACTIVE")?.unwrap_or(true);
        conf.complete()?;
        let (kind, apply): (_, fn(u8, u8) -> u8) = match kind.as_str() {
            "flip" | "" => ("flip", |byte, bit| byte ^ bit),
            "set" => ("set", |byte, bit| byte | bit),
            "clear" => ("clear", |byte, bit| byte & !bit),
            _ => return Err(format!("bad action '{kind}' (must be 'set', 'clear', or 'flip')").into()),
        };
        if !(0.0..=1.0).contains(&chance) {
            return Err("drop probability must be between 0 and 1".into());
        }
        if chance == 0.0 {
            setup.warn("zero bit error probability (underflow?)");
        }
        Ok(Each::boxed(RandomBitErrors { chance: Chance::new(chance, active), kind, apply }))
    },
    ..Class::BASE
};

fn range((i, text): (usize, &String)) -> Result<(usize, usize), ConfFault> {
    let expected = || ConfFault::new(format!("range {i}: expected '/' between offset and length"));
    let (offset, length) = text.trim().split_once('/').ok_or_else(expected)?;
    let number = |text| graph::value::unsigned(text).and_then(|n| u16::try_from(n).ok()).map(usize::from);
    number(offset)
        .zip(number(length))
        .ok_or_else(|| ConfFault::new(format!("range {i}: invalid offset or length")))
}

/// An `Align` element; [`ALIGN`] says what it does.
#[derive(Debug, Clone)]
pub struct Pass;

impl PerPacket for Pass {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        Action::ON
    }

    fn replicate(&self) -> Option<Pass> {
        Some(Pass)
    }
}

/// A `CheckLength` element; [`CHECK_LENGTH`] says what it does.
#[derive(Debug, Clone)]
pub struct CheckLength(Arc<AtomicUsize>);

impl PerPacket for CheckLength {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        // Relaxed: a number of its own.
        let long = packet.total_len() > self.0.load(Ordering::Relaxed);
        if long { Action::out_or_drop(1, 0) } else { Action::ON }
    }

    fn replicate(&self) -> Option<CheckLength> {
        Some(self.clone())
    }
}

/// A `SetAnnoByte` element; [`SET_ANNO_BYTE`] says what it does.
#[derive(Debug, Clone)]
pub struct SetAnnoByte {
    at: usize,
    value: u8,
}

impl PerPacket for SetAnnoByte {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        packet.set_u8_at(self.at, self.value);
        Action::ON
    }

    fn replicate(&self) -> Option<SetAnnoByte> {
        Some(self.clone())
    }
}

/// Whether something of this probability happens now.
#[inline]
fn happens(chance: f64) -> bool {
    // 53 bits: all that a double below one can tell apart.
    (random::next() >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON / 4.0 <= chance && chance > 0.0
}

/// A probability, and whether it is in force; all threads have one.
#[derive(Debug, Clone)]
struct Chance(Arc<(AtomicU64, AtomicBool)>);

impl Chance {
    fn new(chance: f64, active: bool) -> Chance {
        Chance(Arc::new((AtomicU64::new(chance.to_bits()), AtomicBool::new(active))))
    }

    // Relaxed: lone values; threads see a change when they see it.
    #[inline]
    fn chance(&self) -> f64 {
        f64::from_bits(self.0.0.load(Ordering::Relaxed))
    }

    #[inline]
    fn is_active(&self) -> bool {
        self.0.1.load(Ordering::Relaxed)
    }

    fn set(&self, chance: f64) {
        self.0.0.store(chance.to_bits(), Ordering::Relaxed);
    }

    fn set_active(&self, value: &str) -> Result<(), Refused> {
        self.0.1.store(parsed(value)?, Ordering::Relaxed);
        Ok(())
    }
}

/// A probability that is written to a handler.
fn probability(value: &str) -> Result<f64, Refused> {
    let given = parsed(value).ok().filter(|chance| (0.0..=1.0).contains(chance));
    given.ok_or_else(|| "Must be given a number between 0.0 and 1.0".into())
}

/// A `RandomSample` element; [`RANDOM_SAMPLE`] says what it does.
#[derive(Debug)]
pub struct RandomSample {
    chance: Chance,
    drops: PerThreadCounter,
}

impl RandomSample {
    fn show(&self, cx: &mut Cx<'_>) {
        cx.set_config(format!("SAMPLE {}, ACTIVE {}", self.chance.chance(), self.chance.is_active()));
    }

    fn set(&mut self, cx: &mut Cx<'_>, chance: f64) -> Result<(), Refused> {
        self.chance.set(chance);
        self.show(cx);
        Ok(())
    }
}

impl PerPacket for RandomSample {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.show(cx);
        Ok(())
    }

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        if !self.chance.is_active() || happens(self.chance.chance()) {
            return Action::ON;
        }
        self.drops.add(1);
        Action::out_or_drop(1, 0)
    }

    fn replicate(&self) -> Option<RandomSample> {
        Some(RandomSample { chance: self.chance.clone(), drops: self.drops.for_another() })
    }
}

/// A `Clipboard` element; [`CLIPBOARD`] says what it does.
#[derive(Debug)]
pub struct Clipboard {
    ranges: Vec<(usize, usize)>,
    kept: Vec<u8>,
    /// How long a packet must be.
    least: usize,
}

impl PerPacket for Clipboard {
    fn packet(&mut self, _: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action {
        let mut kept = &mut self.kept[..];
        let ranges = if packet.total_len() < self.least { &[][..] } else { &self.ranges };
        for &(offset, length) in ranges {
            let (mine, others) = kept.split_at_mut(length);
            kept = others;
            if input == 0 {
                let theirs = Bytes::of(packet).skip(offset).front(length);
                mine[..theirs.len()].copy_from_slice(&theirs);
            } else {
                chain::write_at(packet, offset, mine);
            }
        }
        Action::out(input)
    }
}

/// A `RandomBitErrors` element; [`RANDOM_BIT_ERRORS`] says what it does.
#[derive(Debug, Clone)]
pub struct RandomBitErrors {
    chance: Chance,
    kind: &'static str,
    apply: fn(u8, u8) -> u8,
}

impl PerPacket for RandomBitErrors {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let chance = self.chance.chance();
        if self.chance.is_active() && chance > 0.0 {
            chain::change_all(packet, |byte| {
                let hit = (0..8).filter(|_| happens(chance)).fold(0, |bits, bit| bits | 1 << bit);
                *byte = (self.apply)(*byte, hit);
            });
        }
        Action::ON
    }

    fn replicate(&self) -> Option<RandomBitErrors> {
        Some(self.clone())
    }
}
