//! The host as generator and checker: numbered frames into one line of a guest,
//! and every one expected from another, in order and unchanged.
//!
//! How fast is bounded by a window of frames under way, which follows what the
//! guest can do, by a rate, or only by what the guest's NIC takes. A frame that
//! QEMU does not take now was not offered: it is tried again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wire::MacAddress;
use wire::ethernet::{self, EtherType};

use super::line::{LONGEST, Line};

/// After so long without a frame, what is under way is lost.
pub const SILENCE: Duration = Duration::from_secs(5);
/// Likewise at the end where losses are likely: nothing waits for them.
const TAIL: Duration = Duration::from_secs(2);
/// Frames sent before what has come back is looked at.
const BURST: usize = 32;

/// What frames look like.
pub trait Pattern: Sync {
    /// Writes frame `number` and returns its length, at most [`LONGEST`].
    fn fill(&self, number: u32, frame: &mut [u8]) -> usize;

    /// What must come of it: the same.
    fn expected(&self, number: u32, frame: &mut [u8]) -> usize {
        self.fill(number, frame)
    }

    /// The number of a frame that came; `None` when it is none of these.
    fn number(&self, frame: &[u8]) -> Option<u32>;
}

/// How fast; without any limit, as they are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    /// At most so many frames under way.
    pub window: Option<u32>,
    /// At most so many per second.
    pub rate: Option<f64>,
}

/// What came of it, in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Given to the guest.
    pub offered: u32,
    /// Came back unchanged and in order.
    pub back: u32,
    /// Came back with other bytes or another length.
    pub changed: u32,
    /// Came after a later one.
    pub overtaken: u32,
    /// Came more than once.
    pub repeated: u32,
    /// From the first one to the last.
    pub elapsed: Duration,
}

impl Seen {
    /// Those that never came.
    pub fn lost(&self) -> u32 {
        self.offered.saturating_sub(self.back + self.changed + self.overtaken)
    }

    /// Whether all that was offered came as it should.
    pub fn is_whole(&self) -> bool {
        self.back == self.offered && self.changed == 0 && self.repeated == 0
    }
}

/// What others may watch.
#[derive(Debug, Default)]
pub struct Progress {
    /// Frames that were sent into the guest.
    pub offered: AtomicU64,
    /// Frames that came back, however they looked.
    pub back: AtomicU64,
}

/// A direction: frames of a pattern from one line to another.
pub struct Load<'a> {
    /// Where they go in.
    pub into: &'a Line,
    /// Where they come out; the same line for a guest that echoes.
    pub out_of: &'a Line,
    /// What they look like.
    pub pattern: &'a dyn Pattern,
    /// How many frames are sent.
    pub count: u32,
    /// How fast frames are sent.
    pub pace: Pace,
    /// To be watched.
    pub progress: &'a Progress,
    /// Set by whoever wants no more.
    pub stop: &'a AtomicBool,
}

impl std::fmt::Debug for Load<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Load({} frames, {:?})", self.count, self.pace)
    }
}

impl Load<'_> {
    /// Sends and checks until all are back, nothing comes any more, or `stop`.
    pub fn run(&self) -> Seen {
        let mut checker = Checker::new(self.pattern, self.count);
        let (mut frame, mut buffer) = (vec![0; LONGEST], vec![0; LONGEST + 1]);
        let start = Instant::now();
        let mut last = start;
        while !self.stop.load(Ordering::Relaxed) {
            let (due, before) = (self.due(&checker, start.elapsed()), checker.came);
            let sent = self.send(&mut frame, &mut checker, due);
            while let Some(length) = self.out_of.receive(&mut buffer) {
                checker.check(&buffer[..length]);
            }
            self.progress.offered.store(checker.seen.offered.into(), Ordering::Relaxed);
            self.progress.back.store(checker.came.into(), Ordering::Relaxed);
            let all_offered = checker.seen.offered == self.count;
            if sent > 0 || checker.came > before {
                last = Instant::now();
            } else if last.elapsed() > self.silence_limit(all_offered) {
                break;
            } else {
                thread::sleep(Duration::from_micros(20));
            }
            if all_offered && checker.came >= self.count {
                break;
            }
        }
        checker.seen.elapsed = last - start;
        checker.seen
    }

    /// How long a silence is one of many between frames.
    fn silence_limit(&self, all_offered: bool) -> Duration {
        if all_offered && self.pace.window.is_none() {
            return TAIL;
        }
        let between = self.pace.rate.and_then(|rate| Duration::try_from_secs_f64(2.0 / rate).ok());
        SILENCE + between.unwrap_or_default()
    }

    /// Frames that may be sent now.
    fn due(&self, checker: &Checker<'_>, elapsed: Duration) -> usize {
        let offered = checker.seen.offered;
        let open = |window: u32| window.saturating_sub(offered.saturating_sub(checker.next));
        let due = |rate: f64| {
            let until_now = (elapsed.as_secs_f64() * rate) as u64;
            u32::try_from(until_now.saturating_sub(offered.into())).unwrap_or(u32::MAX)
        };
        let window = self.pace.window.map_or(u32::MAX, open);
        let due = self.pace.rate.map_or(u32::MAX, due).min(window);
        due.min(self.count - offered) as usize
    }

    fn send(&self, frame: &mut [u8], checker: &mut Checker<'_>, due: usize) -> usize {
        for sent in 0..due.min(BURST) {
            let length = self.pattern.fill(checker.seen.offered, frame);
            if !self.into.send(&frame[..length]) {
                return sent;
            }
            checker.seen.offered += 1;
        }
        due.min(BURST)
    }
}

/// Compares what comes with what was sent.
pub struct Checker<'a> {
    pattern: &'a dyn Pattern,
    count: u32,
    seen: Seen,
    /// One more than the largest number that came.
    next: u32,
    /// Frames that came, each once.
    came: u32,
    /// Which frames came: a bit for each number.
    marks: Vec<u64>,
    expected: Vec<u8>,
}

impl std::fmt::Debug for Checker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checker({:?})", self.seen)
    }
}

impl<'a> Checker<'a> {
    /// For the numbers up to `count`.
    pub fn new(pattern: &'a dyn Pattern, count: u32) -> Checker<'a> {
        let marks = vec![0; (count as usize).div_ceil(64)];
        Checker { pattern, count, seen: Seen::default(), next: 0, came: 0, marks, expected: vec![0; LONGEST] }
    }

    /// So many frames were sent so far, at most `count`.
    pub fn offered(&mut self, frames: u32) {
        self.seen.offered = frames.min(self.count);
    }

    /// What came of it so far; without a time.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// Frames that came so far, each once.
    pub fn came(&self) -> u32 {
        self.came
    }

    /// Takes a frame that came. Frames of the guest's own are passed over.
    pub fn check(&mut self, frame: &[u8]) {
        let Some(number) = self.pattern.number(frame) else { return };
        if number >= self.seen.offered {
            self.seen.changed += 1; // never sent: the number itself is broken
            self.came += 1;
            return;
        }
        let (word, bit) = (&mut self.marks[number as usize / 64], 1 << (number % 64));
        if *word & bit != 0 {
            self.seen.repeated += 1;
            return;
        }
        *word |= bit;
        self.came += 1;
        let length = self.pattern.expected(number, &mut self.expected);
        let in_order = number >= self.next;
        self.next = self.next.max(number + 1);
        match (frame == &self.expected[..length], in_order) {
            (false, _) => self.seen.changed += 1,
            (true, true) => self.seen.back += 1,
            (true, false) => self.seen.overtaken += 1,
        }
    }
}

/// Frames of given sizes under the local experimental EtherType (IEEE 802,
/// 0x88B5), each filled with bytes of its own.
#[derive(Debug, Clone)]
pub struct Numbered {
    /// Lengths without CRC, by turns, from [`Numbered::LEAST`] to [`LONGEST`].
    pub sizes: Vec<usize>,
    /// The direction: other bytes for each.
    pub tag: u8,
}

const NUMBER: usize = ethernet::HEADER_LEN;
const PAYLOAD: usize = NUMBER + 4;

impl Numbered {
    /// The least length: Ethernet's, without CRC.
    pub const LEAST: usize = 60;
    /// Sizes that meet the edges of buffers and of Ethernet.
    pub const MIX: [usize; 8] = [60, 64, 127, 256, 594, 1024, 1400, 1514];
}

impl Pattern for Numbered {
    fn fill(&self, number: u32, frame: &mut [u8]) -> usize {
        let length = self.sizes[number as usize % self.sizes.len()];
        let [to, from] = [!self.tag, self.tag].map(|last| MacAddress([2, 0, 0, 0, 0, last]));
        let header = ethernet::Header::between(to, from, EtherType::LOCAL_EXPERIMENT);
        frame[..NUMBER].copy_from_slice(&header.into_inner());
        frame[NUMBER..PAYLOAD].copy_from_slice(&number.to_le_bytes());
        scramble(number, self.tag, &mut frame[PAYLOAD..length]);
        length
    }

    fn number(&self, frame: &[u8]) -> Option<u32> {
        let number = frame.get(NUMBER..PAYLOAD)?.try_into().ok()?;
        let ethertype = ethernet::Header::of(frame)?.ethertype();
        (ethertype == EtherType::LOCAL_EXPERIMENT).then_some(u32::from_le_bytes(number))
    }
}

/// Fills bytes with a pattern of a number's and a tag's own.
pub fn scramble(number: u32, tag: u8, bytes: &mut [u8]) {
    let mut state = (u64::from(tag) << 32 | u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for chunk in bytes.chunks_mut(8) {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Pace = Pace { window: Some(8), rate: None };

    fn rate(rate: f64) -> Pace {
        Pace { window: None, rate: Some(rate) }
    }

    fn numbered() -> Numbered {
        Numbered { sizes: Numbered::MIX.to_vec(), tag: 1 }
    }

    /// A guest that sees each frame and says what goes back for it.
    fn through(count: u32, pace: Pace, mut guest: impl FnMut(u32, Vec<u8>) -> Vec<Vec<u8>> + Send) -> Seen {
        let home = tempfile::tempdir().expect("a directory");
        let lines = ["a", "b"].map(|name| Line::new(home.path(), name).expect("bound"));
        let far = lines.each_ref().map(|line| line.far_end().expect("bound"));
        far[0].set_read_timeout(Some(Duration::from_secs(1))).expect("set");
        let (progress, stop, pattern) = (Progress::default(), AtomicBool::new(false), numbered());
        let [into, out_of] = &lines;
        let load = Load { into, out_of, pattern: &pattern, count, pace, progress: &progress, stop: &stop };
        let [from, to] = far;
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut buffer, mut n) = (vec![0; 2048], 0);
                while let Ok(length) = from.recv(&mut buffer) {
                    for frame in guest(n, buffer[..length].to_vec()) {
                        to.send(&frame).expect("sent");
                    }
                    n += 1;
                }
            });
            load.run()
        })
    }

    #[test]
    fn an_honest_forwarder_gives_all_back() {
        for pace in [WINDOW, rate(20_000.0), Pace::default()] {
            let seen = through(1000, pace, |_, frame| vec![frame]);
            assert!(seen.is_whole() && seen.offered == 1000 && seen.lost() == 0, "{pace:?}: {seen:?}");
        }
    }

    #[test]
    fn a_rate_is_kept() {
        let seen = through(200, rate(1000.0), |_, frame| vec![frame]);
        assert!(seen.elapsed >= Duration::from_millis(190), "{seen:?}");
    }

    #[test]
    fn what_a_bad_forwarder_does_is_seen() {
        let mut kept = Vec::new();
        let seen = through(100, WINDOW, |n, mut frame| match n {
            10 => vec![],
            20 => {
                frame[40] ^= 1;
                vec![frame]
            }
            30 => {
                kept = frame;
                vec![]
            }
            31 => vec![frame, std::mem::take(&mut kept)],
            40 => vec![frame.clone(), frame],
            50 => {
                frame.truncate(59);
                vec![frame]
            }
            _ => vec![frame],
        });
        assert_eq!((seen.offered, seen.back), (100, 96));
        assert_eq!((seen.changed, seen.overtaken, seen.repeated, seen.lost()), (2, 1, 1, 1));
        assert!(!seen.is_whole());
    }

    #[test]
    fn what_others_send_is_passed_over_and_the_other_direction_is_not() {
        let pattern = numbered();
        let mut checker = Checker::new(&pattern, 2);
        checker.seen.offered = 2;
        checker.check(b"arp");
        assert_eq!(checker.came, 0);
        let mut frame = vec![0; 1514];
        let length = Numbered { tag: 2, ..numbered() }.fill(0, &mut frame);
        checker.check(&frame[..length]);
        assert_eq!(checker.seen.changed, 1, "it came out where it went in");
    }
}
