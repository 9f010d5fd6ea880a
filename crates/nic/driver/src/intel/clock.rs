//! The clock by which a device stamps what it receives, in relation to the system's.
//!
//! A device counts from its reset on, so its clock is read beside the system's: with the first
//! stamp, and with each that is a tenth of a second past the last reading. A stamp is off by at
//! most what the quickest of four reads of a register took, and by what the clocks drift (100 ppm)
//! between it and the reading: 10 us for one up to a tenth of a second later, more for a frame that
//! waited longer in its ring. Readings are not averaged, nor is the device's clock steered.
//!
//! Where the system's time is set, stamps follow with the next reading.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bus::Register;

use super::latches::{KEPT, Latches};

const SECOND_NS: i64 = 1_000_000_000;
/// A reading is used for stamps up to so much later.
const PERIOD_NS: i64 = SECOND_NS / 10;
/// What two clocks drift apart: one part in so many, 100 ppm.
const DRIFT: i64 = 10_000;
/// Readings of which the quickest is taken.
const READINGS: usize = 4;
/// How long the clock is left alone after it was read, whatever stamps say: a device whose stamps are
/// in the future would have it read for each frame.
const PAUSE: Duration = Duration::from_millis(50);

/// The two registers of a device's time, that which is read first and with which the device holds the
/// other; stamps are made of the same two words.
#[derive(Debug)]
pub enum Words {
    /// Nanoseconds, fewer than are in a second, and seconds.
    Seconds([Register; 2]),
    /// The lower and the upper half of nanoseconds.
    Halves([Register; 2]),
}

/// The longest time in halves that is taken for one: 73 years.
const LONGEST_NS: i64 = i64::MAX / 4;

impl Words {
    /// The time of two words; `None` for what is no time.
    fn ns(&self, stamp: u64) -> Option<i64> {
        match self {
            Words::Seconds(_) => device_ns((stamp >> 32) as u32, stamp as u32),
            Words::Halves(_) => i64::try_from(stamp).ok().filter(|ns| *ns <= LONGEST_NS),
        }
    }
}

/// The clock of a device.
#[derive(Debug)]
pub struct Clock {
    words: Words,
    /// Held from the one register to the other: the device holds the second one for one reader.
    turn: Arc<Mutex<()>>,
    /// Where the device keeps stamps, and when was looked at that last.
    latches: Option<(Arc<Latches>, Instant)>,
    relation: Option<Relation>,
    /// When it was read last.
    looked: Option<Instant>,
}

impl Clock {
    /// A clock with these registers; `turn` is the device's, for all queues that read it.
    pub fn new(words: Words, turn: Arc<Mutex<()>>) -> Clock {
        Clock { words, turn, latches: None, relation: None, looked: None }
    }

    /// Of a device that keeps stamps.
    pub fn keeping(self, latches: Arc<Latches>) -> Clock {
        Clock { latches: Some((latches, Instant::now())), ..self }
    }

    /// The stamp in a place of the device, for a frame that has one there.
    pub fn kept(&mut self, place: Option<usize>) -> Option<u64> {
        let (latches, looked) = self.latches.as_mut()?;
        let stamp = place.and_then(|place| latches.take(place));
        if looked.elapsed() >= KEPT {
            latches.give_free();
            *looked = Instant::now();
        }
        stamp
    }

    /// The system's time at a stamp, in nanoseconds since 1970, as an annotation has it: zero when
    /// nobody knows, since the stamp is none, or in the future, or the clock cannot be read.
    pub fn system_ns(&mut self, stamp: u64) -> i64 {
        let Some(device) = self.words.ns(stamp) else { return 0 };
        if let Some(known) = self.relation.as_ref().and_then(|relation| relation.system_ns(device)) {
            return known;
        }
        if self.looked.is_some_and(|at| at.elapsed() < PAUSE) {
            return 0;
        }
        let readings = (0..READINGS).filter_map(|_| self.read());
        if let Some(reading) = readings.min_by_key(|reading| reading.after - reading.before) {
            self.relation = Some(Relation::of(reading, self.relation.as_ref()));
        }
        self.looked = Some(Instant::now());
        self.relation.as_ref().and_then(|relation| relation.system_ns(device)).unwrap_or(0)
    }

    /// With the first word the device holds the second one (X550 datasheet 7.7.4).
    fn read(&self) -> Option<Reading> {
        let (Words::Seconds([first, second]) | Words::Halves([first, second])) = &self.words;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let before = now_ns();
        let low = first.read();
        let after = now_ns();
        let device = self.words.ns(u64::from(second.read()) << 32 | u64::from(low))?;
        (before <= after).then_some(Reading { device, before, after })
    }
}

/// The time of a device that has seconds and nanoseconds; `None` for what is no time.
fn device_ns(seconds: u32, nanoseconds: u32) -> Option<i64> {
    let nanoseconds = i64::from(nanoseconds);
    (nanoseconds < SECOND_NS).then_some(i64::from(seconds) * SECOND_NS + nanoseconds)
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX / 4)
}

/// The device's time, and the system's before and after it was read, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Reading {
    device: i64,
    before: i64,
    after: i64,
}

/// How far the system's time is ahead of the device's. Sums do not overflow: 32 bits of seconds
/// are less than half of what an `i64` holds in nanoseconds, and so is the system's time. A stamp of
/// before 1970 is none.
#[derive(Debug, Clone, Copy)]
struct Relation {
    /// The device's time at the last reading.
    read_at: i64,
    /// It is between these.
    least: i64,
    most: i64,
    /// What is taken for it. It moves no further than a reading demands, so that stamps of one
    /// reading and the next are in order.
    ahead: i64,
}

impl Relation {
    /// By a reading, and what was known before.
    fn of(reading: Reading, known: Option<&Relation>) -> Relation {
        let Reading { device, before, after } = reading;
        let (least, most) = (before - device, after - device);
        let alone = Relation { read_at: device, least, most, ahead: least + (most - least) / 2 };
        let Some(known) = known else { return alone };
        let drift = (device - known.read_at).max(0) / DRIFT;
        let (least, most) = (least.max(known.least - drift), most.min(known.most + drift));
        if least > most {
            return alone; // one of the clocks was set
        }
        Relation { read_at: device, least, most, ahead: known.ahead.clamp(least, most) }
    }

    /// The system's time at one of the device's; `None` if that is too long after the reading.
    fn system_ns(&self, device: i64) -> Option<i64> {
        (device <= self.read_at + PERIOD_NS).then(|| (device + self.ahead).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(device: i64, before: i64, after: i64) -> Reading {
        Reading { device, before, after }
    }

    #[test]
    fn a_time_has_less_than_a_second_of_nanoseconds() {
        assert_eq!(device_ns(3, 999_999_999), Some(3_999_999_999));
        assert_eq!(device_ns(3, 1_000_000_000), None);
        assert_eq!(device_ns(u32::MAX, u32::MAX), None, "a device that is gone");
    }

    #[test]
    fn a_better_reading_moves_the_relation_into_its_bounds_and_a_worse_one_does_not() {
        let first = Relation::of(reading(0, 1_000, 1_200), None);
        assert_eq!((first.ahead, first.system_ns(500)), (1_100, Some(1_600)));
        // 100 ppm of 10,000 ns are 1 ns.
        let better = Relation::of(reading(10_000, 11_150, 11_160), Some(&first));
        assert_eq!((better.least, better.most, better.ahead), (1_150, 1_160, 1_150));
        let worse = Relation::of(reading(20_000, 21_000, 22_000), Some(&better));
        assert_eq!((worse.least, worse.most, worse.ahead), (1_149, 1_161, 1_150));
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let first = Relation::of(reading(50_000, 1_000_000, 1_000_100), None);
        let set = Relation::of(reading(60_000, 9_000_000, 9_000_100), Some(&first));
        assert_eq!(set.ahead, 9_000_050 - 60_000);
        let reset = Relation::of(reading(10, 9_100_000, 9_100_100), Some(&set));
        assert_eq!(reset.ahead, 9_100_050 - 10, "the device began anew");
    }

    #[test]
    fn a_stamp_is_told_by_a_reading_that_is_not_too_old() {
        let relation = Relation::of(reading(0, 1_000, 1_000), None);
        assert_eq!(relation.system_ns(PERIOD_NS), Some(PERIOD_NS + 1_000));
        assert_eq!(relation.system_ns(PERIOD_NS + 1), None);
        let last = device_ns(u32::MAX, 999_999_999).expect("a time");
        let late = Relation::of(reading(last, i64::MAX / 4, i64::MAX / 4), Some(&relation));
        assert_eq!(late.system_ns(last), Some(i64::MAX / 4));
    }
}
