//! Faults on purpose, by probability, from a seed: what goes wrong in one run
//! goes wrong in the next.
//!
//! A [`Spec`] names them: `drop=0.01,corrupt=0.001,seed=7`. Faults of the cable
//! (`drop`, `corrupt`, `crc`, `truncate`, `duplicate`, `reorder`, `flap`) are
//! injected by the wires, faults of the device (`late`, `stuck`, `length`,
//! `garbage`: what it writes back to descriptors, whatever the chip) by [`dma`]; a virtio device's
//! (`jump`, `foreign`, `twice`, `lap`, `length`, `garbage`) by [`rings`]. Each
//! that happens is counted by name.

pub mod dma;
pub mod rings;
pub(crate) mod wire;

use std::str::FromStr;

use crate::wire::SpecError;

/// A probability, as a threshold that a random number falls below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// Happens with probability `p`, which is clamped to 0 to 1.
    pub fn new(p: f64) -> Chance {
        Chance((p.clamp(0.0, 1.0) * u64::MAX as f64) as u64)
    }

    /// Whether it never happens.
    pub fn is_never(self) -> bool {
        self.0 == 0
    }
}

/// When the link goes down: `flap=PERIOD/DOWN`, down for the last part of each
/// period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flap {
    /// From one loss of light to the next.
    pub period_ns: u64,
    /// How long it lasts.
    pub down_ns: u64,
}

impl Flap {
    /// Whether the link is up at `elapsed_ns` since the cable was put in.
    pub fn is_up(self, elapsed_ns: u64) -> bool {
        elapsed_ns % self.period_ns < self.period_ns - self.down_ns
    }
}

/// Which faults, how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The frame is lost.
    pub drop: Chance,
    /// One bit is flipped, and the CRC made right again.
    pub corrupt: Chance,
    /// The frame arrives with a wrong CRC; of the host's, it is lost.
    pub crc: Chance,
    /// The frame is cut short.
    pub truncate: Chance,
    /// The frame comes twice.
    pub duplicate: Chance,
    /// Up to three later frames come before it.
    pub reorder: Chance,
    /// The link goes down and comes back.
    pub flap: Option<Flap>,
    /// A descriptor is written back up to 64 steps late.
    pub late: Chance,
    /// A descriptor is never written back.
    pub stuck: Chance,
    /// A received length is wrong.
    pub length: Chance,
    /// A descriptor is written back with random bits.
    pub garbage: Chance,
    /// virtio, split: the used index is anything.
    pub jump: Chance,
    /// virtio: a buffer is returned that no ring has.
    pub foreign: Chance,
    /// virtio: a buffer is returned again.
    pub twice: Chance,
    /// virtio, packed: the flags are those of another lap.
    pub lap: Chance,
    /// Where the random numbers begin.
    pub seed: u64,
}

const HAS: &str = "drop, corrupt, crc, truncate, duplicate, reorder, late, stuck, length, garbage, jump, \
                   foreign, twice, lap (each a probability), flap=PERIOD/DOWN, seed";

impl Spec {
    /// Whether there are faults of the cable.
    pub fn has_wire(&self) -> bool {
        let chances = [self.drop, self.corrupt, self.crc, self.truncate, self.duplicate, self.reorder];
        self.flap.is_some() || chances.iter().any(|chance| !chance.is_never())
    }

    /// The names of the faults of the device that are asked for; which of them a model
    /// can inject is told by [`Model::faults`](crate::models::Model::faults).
    pub fn device_faults(&self) -> Vec<&'static str> {
        let all = [
            ("late", self.late),
            ("stuck", self.stuck),
            ("length", self.length),
            ("garbage", self.garbage),
            ("jump", self.jump),
            ("foreign", self.foreign),
            ("twice", self.twice),
            ("lap", self.lap),
        ];
        all.into_iter().filter(|(_, chance)| !chance.is_never()).map(|(name, _)| name).collect()
    }

    /// Whether some of these faults of the device are asked for.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        self.device_faults().iter().any(|name| names.contains(name))
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let mut spec = Spec::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let place = match key {
                "drop" => &mut spec.drop,
                "corrupt" => &mut spec.corrupt,
                "crc" => &mut spec.crc,
                "truncate" => &mut spec.truncate,
                "duplicate" => &mut spec.duplicate,
                "reorder" => &mut spec.reorder,
                "late" => &mut spec.late,
                "stuck" => &mut spec.stuck,
                "length" => &mut spec.length,
                "garbage" => &mut spec.garbage,
                "jump" => &mut spec.jump,
                "foreign" => &mut spec.foreign,
                "twice" => &mut spec.twice,
                "lap" => &mut spec.lap,
                "flap" => {
                    spec.flap = Some(flap(value)?);
                    continue;
                }
                "seed" => {
                    let seed = value.parse().ok();
                    spec.seed = seed.ok_or_else(|| SpecError::value("seed", value, "a whole number"))?;
                    continue;
                }
                _ => return Err(SpecError::Option { part: "fault", option: key.to_owned(), has: HAS }),
            };
            *place = chance(value)?;
        }
        Ok(spec)
    }
}

fn chance(text: &str) -> Result<Chance, SpecError> {
    let p = text.parse::<f64>().ok().filter(|p| (0.0..=1.0).contains(p));
    p.map(Chance::new).ok_or_else(|| SpecError::value("probability", text, "0 to 1, as 0.01"))
}

fn flap(text: &str) -> Result<Flap, SpecError> {
    let wrong =
        || SpecError::value("flap", text, "PERIOD/DOWN with units, as 2s/100ms, down less than the period");
    let (period, down) = text.split_once('/').ok_or_else(wrong)?;
    let period_ns = duration_ns(period).ok_or_else(wrong)?;
    let down_ns = duration_ns(down).ok_or_else(wrong)?;
    if down_ns == 0 || down_ns >= period_ns {
        return Err(wrong());
    }
    Ok(Flap { period_ns, down_ns })
}

/// A whole number with unit, up to an hour.
fn duration_ns(text: &str) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = match &text[at..] {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let ns = text[..at].parse::<u64>().ok()?.checked_mul(unit)?;
    (ns <= 3_600_000_000_000).then_some(ns)
}

/// Random numbers that anyone can repeat: splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Zero to `end - 1`; `end` is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Whether something of this chance happens now.
    pub(crate) fn happens(&mut self, chance: Chance) -> bool {
        !chance.is_never() && self.next() <= chance.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn specs_are_read() {
        let spec: Spec = "drop=0.5,flap=2s/100ms,seed=7".parse().unwrap();
        assert_eq!(spec.drop, Chance::new(0.5));
        assert_eq!(spec.flap, Some(Flap { period_ns: 2_000_000_000, down_ns: 100_000_000 }));
        assert_eq!(spec.seed, 7);
        assert!(spec.has_wire() && spec.device_faults().is_empty());
        assert_eq!("late=1,lap=1".parse::<Spec>().unwrap().device_faults(), ["late", "lap"]);
        assert_eq!("".parse(), Ok(Spec::default()));
    }

    #[test]
    fn nonsense_is_refused_with_what_to_write() {
        for wrong in
            ["drop", "drop=2", "drop=-1", "drop=NaN", "fly=1", "seed=x", "flap=1s", "flap=1s/1s", "flap=1/1"]
        {
            let error = wrong.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains("0.01") || error.contains("whole") || error.contains("PERIOD"), "{error}");
        }
    }

    #[test]
    fn chances_are_what_they_say() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.happens(Chance::new(0.1))).count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| random.happens(Chance::new(1.0))));
    }

    #[test]
    fn the_link_is_down_for_the_last_part_of_each_period() {
        let flap = Flap { period_ns: 100, down_ns: 30 };
        let up: Vec<bool> = [0, 69, 70, 99, 100, 170].map(|at| flap.is_up(at)).into();
        assert_eq!(up, [true, true, false, false, true, false]);
    }

    proptest! {
        #[test]
        fn no_spec_makes_the_parser_panic(text in ".*") {
            let _ = text.parse::<Spec>();
        }
    }
}
