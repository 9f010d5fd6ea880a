//! What a run's ports counted, for whoever asks while it runs: the thread that has the ports looks
//! at them now and then, and others read what it saw.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use element::io::router_ports::{PortCounts, exposition};
use port::Port;

/// Between two looks at a port: a device is asked over its bus, or by a message to its host, which may
/// not answer for long. So a look may take this part of the time at most, and is made again after
/// this time at the latest: it may have been long for the thread had to wait.
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

    /// Looks at so many ports, by a clock: `ask` tells what one of them counted.
    fn look_by(&self, clock: &dyn Fn() -> Instant, ports: usize, mut ask: impl FnMut(usize) -> PortCounts) {
        for n in 0..ports {
            let before = clock();
            if self.held().get(n).is_some_and(|seen| before < seen.next) {
                continue;
            }
            let mut counts = ask(n);
            if let Some(name) = self.names.get(n) {
                counts.name.clone_from(name);
            }
            let after = clock();
            self.keep(n, Seen { next: after + pause(after - before), counts });
        }
    }

    fn keep(&self, n: usize, new: Seen) {
        let mut seen = self.held();
        match seen.get_mut(n) {
            Some(seen) => *seen = new,
            // The first look is at all of them, one after the other.
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

/// How long a port is left alone after a look that took so long.
fn pause(took: Duration) -> Duration {
    (took * PART).clamp(INTERVAL, LONGEST)
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
        let paused = [0, 10, 100, 2000, 100_000].map(|ms| pause(Duration::from_millis(ms)).as_millis());
        assert_eq!(paused, [250, 500, 5000, 10_000, 10_000]);
    }

    /// The host of the second does not answer for two seconds each time.
    #[test]
    fn a_slow_port_does_not_keep_the_others_from_being_looked_at() {
        let (last, start) = (LastCounts::named(vec!["one".into(), "two".into()]), Instant::now());
        let (now, mut looks) = (Cell::new(start), [0; 2]);
        while now.get() < start + Duration::from_secs(60) {
            last.look_by(&|| now.get(), 2, |n| {
                looks[n] += 1;
                now.set(now.get() + Duration::from_millis([1, 2000][n]));
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
            now.set(now.get() + Duration::from_millis(50));
        }
        assert!(looks[0] > 100 && (4..8).contains(&looks[1]), "{looks:?}");
        let names: Vec<String> = last.losses().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["one", "two"]);
    }
}
