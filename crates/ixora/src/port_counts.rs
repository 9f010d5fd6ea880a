//! What a run's ports counted, for whoever asks while it runs: the thread that has the ports looks
//! at them now and then, and others read what it saw.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use element::io::router_ports::{PortCounts, exposition};
use port::Port;

/// Between two looks at the ports: a device is asked over its bus, or by a message to its host, which may
/// not answer for long. So a look may take this part of the time at most.
const INTERVAL: Duration = Duration::from_millis(250);
const PART: u32 = 50;

/// The ports as they were seen last.
#[derive(Debug, Default)]
pub struct LastCounts {
    /// What they are called where not by their own names.
    names: Vec<String>,
    /// When they are looked at next, and what was seen.
    seen: Mutex<(Option<Instant>, Vec<PortCounts>)>,
}

impl LastCounts {
    /// Of ports that these names tell apart.
    pub fn named(names: Vec<String>) -> LastCounts {
        LastCounts { names, seen: Mutex::default() }
    }

    /// Looks at the ports, if the last look was a while ago.
    pub fn look(&self, ports: &mut [Box<dyn Port>]) {
        let now = Instant::now();
        if self.held().0.is_some_and(|next| now < next) {
            return;
        }
        let mut counts: Vec<PortCounts> = ports.iter_mut().map(|port| counts(&mut **port)).collect();
        for (port, name) in counts.iter_mut().zip(&self.names) {
            port.name.clone_from(name);
        }
        let took = now.elapsed();
        *self.held() = (Some(now + INTERVAL.max(took * PART)), counts);
    }

    /// As Prometheus reads them (exposition format 0.0.4).
    pub fn metrics(&self) -> String {
        exposition(&self.held().1)
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
        self.held().1.iter().map(named).collect()
    }

    fn held(&self) -> MutexGuard<'_, (Option<Instant>, Vec<PortCounts>)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
