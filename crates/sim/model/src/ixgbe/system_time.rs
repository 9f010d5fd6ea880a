//! The clock of an X550, and which frames have its time put behind them.
//!
//! X550 datasheet 333369-009, sections 7.1.6.2, 7.7 and 8.2.2.21. Times of PTP's packets in
//! registers, adjustments of the clock (TIMINCA, TIMADJ), targets, auxiliary timestamps and
//! interrupts are not modelled: their registers keep what is written. The chips before it have
//! other clocks, which are not modelled either.

use regs::ixgbe::{HLREG0, Id, SYSTIMH, SYSTIML, SYSTIMR, TSAUXC, TSYNCRXCTL};

use super::lint::Rule;
use super::registers::Registers;

const SECOND_NS: u64 = 1_000_000_000;
/// Twice the nanoseconds of a tick, of which there are 80 million in a second.
const TICK_HALF_NS: u64 = 25;
/// What TSAUXC has after a reset (8.2.2.21.13): a reserved bit is set.
pub const TSAUXC_RESET: u32 = TSAUXC::DISABLE_SYSTIME | 1 << 30;
/// What appends timestamps.
pub const APPENDS: u32 = TSYNCRXCTL::TSIP_UT_EN | TSYNCRXCTL::TSIP_UP_EN_MASK;

/// The clock: seconds, nanoseconds and what is below.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemTime {
    /// Whether the chip has it.
    is_there: bool,
    runs: bool,
    /// What it showed when the device's time was this.
    shown_ns: u64,
    since_ns: u64,
    /// The seconds that belong to the nanoseconds read last, until they are read.
    held: Option<u32>,
    /// The nanoseconds written last, until the seconds are written.
    given: Option<u32>,
    violation: Option<Rule>,
}

impl SystemTime {
    /// As a reset leaves it.
    pub fn new(is_there: bool) -> SystemTime {
        SystemTime { is_there, ..SystemTime::default() }
    }

    /// As a reset leaves it.
    pub fn reset(&mut self) {
        *self = SystemTime::new(self.is_there);
    }

    /// Half nanoseconds by the device's time.
    fn half_ns(&self, now_ns: u64) -> u64 {
        let elapsed = if self.runs { now_ns.saturating_sub(self.since_ns) } else { 0 };
        self.shown_ns * 2 + elapsed * 2 / TICK_HALF_NS * TICK_HALF_NS
    }

    /// Seconds and nanoseconds, as registers and timestamps have them.
    fn words(&self, now_ns: u64) -> [u32; 2] {
        let ns = self.half_ns(now_ns) / 2;
        [(ns / SECOND_NS) as u32, (ns % SECOND_NS) as u32]
    }

    /// Reads a register, if it is one of the clock's.
    pub fn read(&mut self, id: Id, now_ns: u64) -> Option<u32> {
        let [seconds, nanoseconds] = self.words(now_ns);
        match id {
            _ if !self.is_there => None,
            SYSTIML::ID => {
                self.held = Some(seconds);
                Some(nanoseconds)
            }
            SYSTIMH::ID => Some(self.held.take().unwrap_or_else(|| {
                self.violation = Some(Rule::SystemTimeSecondsFirst);
                seconds
            })),
            SYSTIMR::ID => Some((self.half_ns(now_ns) as u32 & 1) << 31),
            _ => None,
        }
    }

    /// Writes a register; whether it is one of the clock's.
    pub fn write(&mut self, id: Id, value: u32, now_ns: u64) -> bool {
        match id {
            _ if !self.is_there => return false,
            // More than a second is ignored (8.2.2.21.9).
            SYSTIML::ID => self.given = (u64::from(value) < SECOND_NS).then_some(value).or(self.given),
            SYSTIMH::ID => {
                self.violation = self.given.is_none().then_some(Rule::SystemTimeSecondsFirst);
                let nanoseconds = self.given.take().unwrap_or_else(|| self.words(now_ns)[1]);
                self.shown_ns = u64::from(value) * SECOND_NS + u64::from(nanoseconds);
                self.since_ns = now_ns;
            }
            SYSTIMR::ID => {} // below what is shown of a time that was written
            _ => return false,
        }
        true
    }

    /// TSAUXC was written, or reset.
    pub fn control(&mut self, tsauxc: u32, now_ns: u64) {
        self.shown_ns = self.half_ns(now_ns) / 2;
        self.since_ns = now_ns;
        self.runs = self.is_there && tsauxc & TSAUXC::DISABLE_SYSTIME == 0;
    }

    /// Whether the chip has a clock of this kind.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// The rule that the last access broke.
    pub fn violation(&mut self) -> Option<Rule> {
        self.violation.take()
    }

    /// Which frames get timestamps by these registers; `None` if none does. Looped frames do not
    /// (7.7.3.2), nor do those of virtual functions here.
    pub fn stamps(&self, registers: &Registers) -> Option<Stamps> {
        let control = registers.read(TSYNCRXCTL::AT);
        let looped = registers.read(HLREG0::AT) & HLREG0::LPBK != 0;
        let all = control & TSYNCRXCTL::TYPE_MASK == TSYNCRXCTL::TYPE_ALL;
        let appends = control & APPENDS != 0 && control & TSYNCRXCTL::ENABLED != 0;
        (self.runs && all && appends && !looped).then_some(Stamps { clock: *self, control })
    }
}

/// Which frames have a timestamp appended, and by which clock.
#[derive(Debug, Clone, Copy)]
pub struct Stamps {
    clock: SystemTime,
    control: u32,
}

impl Stamps {
    /// What is put behind a frame that comes now, with this tag.
    pub fn of(&self, tag: Option<u16>, now_ns: u64) -> Option<u64> {
        let bit = match tag {
            None => TSYNCRXCTL::TSIP_UT_EN,
            Some(tag) => 1 << (TSYNCRXCTL::TSIP_UP_EN_SHIFT + u32::from(tag >> 13)),
        };
        let [seconds, nanoseconds] = self.clock.words(now_ns);
        (self.control & bit != 0).then_some(u64::from(seconds) << 32 | u64::from(nanoseconds))
    }
}

/// What is wrong with how timestamps are asked for, once frames are received.
pub fn violations(time: SystemTime, registers: &Registers) -> impl Iterator<Item = Rule> {
    let read = |offset| registers.read(offset);
    let control = read(TSYNCRXCTL::AT);
    let appends = time.is_there && control & APPENDS != 0;
    let known = [
        0,
        TSYNCRXCTL::TYPE_L4_V1,
        TSYNCRXCTL::TYPE_L2_L4_V2,
        TSYNCRXCTL::TYPE_ALL,
        TSYNCRXCTL::TYPE_EVENT_V2,
    ];
    let reserved = !known.contains(&(control & TSYNCRXCTL::TYPE_MASK));
    let stands = read(TSAUXC::AT) & TSAUXC::DISABLE_SYSTIME != 0;
    let kept = read(HLREG0::AT) & HLREG0::RXCRCSTRP == 0;
    [
        (appends && kept, Rule::TimestampBehindCrc),
        (appends && stands, Rule::TimestampWithoutClock),
        (appends && control & TSYNCRXCTL::ENABLED == 0, Rule::TimestampNotEnabled),
        (time.is_there && reserved, Rule::TimestampTypeReserved),
    ]
    .into_iter()
    .filter_map(|(broken, rule)| broken.then_some(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_ticks_every_12_and_a_half_nanoseconds_when_it_is_let() {
        let mut time = SystemTime::new(true);
        time.control(TSAUXC_RESET, 0);
        assert_eq!(time.words(5_000), [0, 0], "it stands");
        time.control(0, 5_000);
        assert_eq!((time.words(5_012), time.read(SYSTIMR::ID, 5_012)), ([0, 0], Some(0)));
        assert_eq!((time.words(5_013), time.read(SYSTIMR::ID, 5_013)), ([0, 12], Some(1 << 31)));
        assert_eq!((time.words(5_025), time.read(SYSTIMR::ID, 5_025)), ([0, 25], Some(0)));
        assert_eq!(time.words(5_000 + 3 * SECOND_NS + 100), [3, 100]);
        time.control(TSAUXC::DISABLE_SYSTIME, 5_100);
        assert_eq!(time.words(9_000), [0, 100], "it stands where it was");
    }

    #[test]
    fn the_seconds_are_held_from_the_nanoseconds_on() {
        let mut time = SystemTime::new(true);
        time.control(0, 0);
        assert_eq!(time.read(SYSTIML::ID, 2 * SECOND_NS - 25), Some(999_999_975));
        assert_eq!(time.read(SYSTIMH::ID, 2 * SECOND_NS + 1_000), Some(1));
        assert_eq!(time.violation(), None);
        assert_eq!((time.read(SYSTIMH::ID, 2 * SECOND_NS), time.violation().is_some()), (Some(2), true));
        assert!(time.write(SYSTIML::ID, 1_000_000_000, 0) && time.write(SYSTIML::ID, 7, 0));
        assert!(time.write(SYSTIMH::ID, 9, 1_000));
        assert_eq!((time.words(1_025), time.violation()), ([9, 32], None));
        assert!(time.write(SYSTIMH::ID, 3, 1_025));
        assert_eq!((time.words(1_025), time.violation().is_some()), ([3, 32], true));
    }

    #[test]
    fn another_chip_has_none() {
        let mut time = SystemTime::new(false);
        time.control(0, 0);
        assert_eq!((time.read(SYSTIML::ID, 100), time.write(SYSTIML::ID, 1, 100)), (None, false));
        assert!(time.stamps(&Registers::new([2; 6])).is_none());
    }
}
