//! What a run's ports counted, for whoever asks while it runs: the thread that has the ports looks
//! at them now and then, and others read what it saw.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use element::io::router_ports::{PortCounts, exposition};
use port::Port;

/// Between two looks at the ports: a device is asked over its bus, or by a message to its host.
const INTERVAL: Duration = Duration::from_millis(250);

/// The ports as they were seen last.
#[derive(Debug, Default)]
pub struct LastCounts {
    /// What they are called where not by their own names.
    names: Vec<String>,
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
        if self.held().0.is_some_and(|last| now - last < INTERVAL) {
            return;
        }
        let mut counts: Vec<PortCounts> = ports.iter_mut().map(|port| counts(&mut **port)).collect();
        for (port, name) in counts.iter_mut().zip(&self.names) {
            port.name.clone_from(name);
        }
        *self.held() = (Some(now), counts);
    }

    /// As Prometheus reads them (exposition format 0.0.4).
    pub fn metrics(&self) -> String {
        exposition(&self.held().1)
    }

    /// Each port's name and what it lost.
    pub fn losses(&self) -> Vec<(String, Vec<(&'static str, u64)>)> {
        let named = |port: &PortCounts| {
            let losses = port.stats.losses().map(|(reason, count)| (reason.name(), count));
            (port.name.clone(), losses.collect())
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
