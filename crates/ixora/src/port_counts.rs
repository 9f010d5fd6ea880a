//! What a run's ports counted, for whoever asks while it runs: the thread that has the ports looks
//! at them now and then, and others read what it saw.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use element::io::router_ports::{PortCounts, exposition};
use port::Port;

/// Between two looks at a port: a device is asked over its bus, or by a message to its host, which may
/// not answer for long. So the looks at all ports take this part of the time at most, and for each long
/// one the thread has this time for others: it may have been long for the thread had to wait.
const INTERVAL: Duration = Duration::from_millis(250);
const PART: u32 = 50;
const LONGEST: Duration = Duration::from_secs(10);

/// The ports as they were seen last.
#[derive(Debug, Default)]
pub struct LastCounts {
    /// What they are called where not by their own names.
    names: Vec<String>,
    /// What was seen of each port.
    seen: Mutex<Vec<Seen>>,
}

/// A port as it was seen last.
#[derive(Debug)]
struct Seen {
    /// When it is looked at next.
    next: Instant,
    /// How long the last look took.
    took: Duration,
    counts: PortCounts,
}

impl LastCounts {
    /// Of ports that these names tell apart.
    pub fn named(names: Vec<String>) -> LastCounts {
        LastCounts { names, seen: Mutex::default() }
    }

    /// Looks at the ports whose last look was a while ago.
    pub fn look(&self, ports: &mut [Box<dyn Port>]) {
        self.look_by(&Instant::now, ports.len(), |n| counts(&mut *ports[n]));
    }

    /// Looks at so many ports, by a clock: `ask` tells what one of them counted. Those that are due for the
    /// longest come first, and no other one follows when time is up: the thread has more to do.
    fn look_by(&self, clock: &dyn Fn() -> Instant, ports: usize, mut ask: impl FnMut(usize) -> PortCounts) {
        let begun = clock();
        for n in self.due(ports, begun) {
            let before = clock();
            if before - begun >= INTERVAL {
                return;
            }
            let mut counts = ask(n);
            if let Some(name) = self.names.get(n) {
                counts.name.clone_from(name);
            }
            let after = clock();
            let took = after - before;
            let next = after + pause(took, ports, self.slow_beside(n));
            self.keep(n, Seen { next, took, counts });
        }
    }

    /// How many ports beside one take so long that they are not looked at as often as their share allows.
    fn slow_beside(&self, n: usize) -> usize {
        let seen = self.held();
        let slow = |seen: &Seen| seen.took.saturating_mul(PART) >= LONGEST;
        seen.iter().enumerate().filter(|(other, seen)| *other != n && slow(seen)).count()
    }

    /// The ports to be looked at now.
    fn due(&self, ports: usize, now: Instant) -> Vec<usize> {
        let seen = self.held();
        let next = |n: &usize| seen.get(*n).map(|seen| seen.next);
        let mut due: Vec<usize> = (0..ports).filter(|n| next(n).is_none_or(|next| next <= now)).collect();
        // Those that were never looked at are in front, in their order.
        due.sort_by_key(next);
        due
    }

    fn keep(&self, n: usize, new: Seen) {
        let mut seen = self.held();
        match seen.get_mut(n) {
            Some(seen) => *seen = new,
            // The first looks are at all of them, one after the other.
            None => seen.push(new),
        }
    }

    /// As Prometheus reads them (exposition format 0.0.4).
    pub fn metrics(&self) -> String {
        let counts: Vec<PortCounts> = self.held().iter().map(|seen| seen.counts.clone()).collect();
        exposition(&counts)
    }

    /// Each port's name and what it lost, by reason: several counters may count one.
    pub fn losses(&self) -> Vec<(String, BTreeMap<String, u64>)> {
        let named = |port: &PortCounts| {
            let mut losses = BTreeMap::new();
            for (reason, count) in port.stats.losses() {
                *losses.entry(reason.name().to_owned()).or_default() += count;
            }
            (port.name.clone(), losses)
        };
        self.held().iter().map(|seen| named(&seen.counts)).collect()
    }

    fn held(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long one of so many ports is left alone after a look that took so long: each of them may have its
/// share of the time. Where that would be for long, those that are slow share it: one that was slow
/// once, for the thread had to wait, is seen again soon.
fn pause(took: Duration, ports: usize, slow_beside: usize) -> Duration {
    let times = |duration: Duration, n: usize| duration.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX));
    times(took.saturating_mul(PART), ports).clamp(INTERVAL, times(LONGEST, slow_beside + 1))
}

/// Without its queues, which the threads have.
fn counts(port: &mut dyn Port) -> PortCounts {
    PortCounts {
        name: port.name().to_owned(),
        driver: port.capabilities().driver,
        mac: port.mac(),
        link: port.link(),
        rx: Vec::new(),
        tx: Vec::new(),
        stats: port.stats(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_slow_look_does_not_leave_its_port_alone_for_long() {
        let took = [0, 1, 10, 100, 2000, 100_000];
        let paused = |ports, slow| took.map(|ms| pause(millis(ms), ports, slow).as_millis());
        assert_eq!(paused(1, 0), [250, 250, 500, 5000, 10_000, 10_000]);
        assert_eq!(paused(4, 0), [250, 250, 2000, 10_000, 10_000, 10_000]);
        assert_eq!(paused(4, 3), [250, 250, 2000, 20_000, 40_000, 40_000]);
    }

    /// What comes of looks at ports that take so long: the looks at each, the names, the part of the time
    /// that they took, and the longest call.
    fn looks<const N: usize>(took_ms: [u64; N], seconds: u64) -> ([u32; N], Vec<String>, f64, Duration) {
        let last = LastCounts::named((0..N).map(|n| n.to_string()).collect());
        let (start, mut looks, mut taken, mut longest) = (Instant::now(), [0; N], 0.0, Duration::ZERO);
        let now = Cell::new(start);
        while now.get() < start + Duration::from_secs(seconds) {
            let begun = now.get();
            last.look_by(&|| now.get(), N, |n| {
                looks[n] += 1;
                now.set(now.get() + millis(took_ms[n]));
                PortCounts {
                    name: String::new(),
                    driver: String::new(),
                    mac: [0; 6],
                    link: port::Link::DOWN,
                    rx: Vec::new(),
                    tx: Vec::new(),
                    stats: port::PortStats::default(),
                }
            });
            let call = now.get() - begun;
            (taken, longest) = (taken + call.as_secs_f64(), longest.max(call));
            now.set(now.get() + millis(20));
        }
        let names = last.losses().into_iter().map(|(name, _)| name).collect();
        (looks, names, taken / (now.get() - start).as_secs_f64(), longest)
    }

    fn millis(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The host of the second does not answer for two seconds each time.
    #[test]
    fn a_slow_port_does_not_keep_the_others_from_being_looked_at() {
        let (looks, names, ..) = looks([1, 2000], 100);
        assert!(looks[0] > 200 && (7..11).contains(&looks[1]), "{looks:?}");
        assert_eq!(names, ["0", "1"]);
    }

    /// The thread that looks has more to do.
    #[test]
    fn many_slow_ports_take_no_more_of_the_time_than_one() {
        for (took_ms, most) in [([5; 8], 0.021), ([2000; 8], 0.25)] {
            let (looks, names, part, longest) = looks(took_ms, 1000);
            assert!(part < most && longest < millis(took_ms[0]) + INTERVAL, "{part} {longest:?}");
            assert!(looks.iter().all(|n| n.abs_diff(looks[0]) <= 1), "{looks:?}");
            assert_eq!(names.len(), 8);
        }
        // Even where a look takes longer than all pauses.
        let (looks, ..) = looks([200_000; 4], 10_000);
        assert!(looks.iter().all(|n| n.abs_diff(looks[0]) <= 1), "{looks:?}");
    }
}
