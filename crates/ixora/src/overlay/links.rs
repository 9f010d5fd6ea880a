//! Whether the links of the underlay's ports are up: seen by the thread that has the ports, told
//! to the control by its own, and to people on standard error, once a second for each port at most,
//! however often a link flaps.

use std::sync::atomic::{AtomicU64, Ordering};

use vtep::{Control, UnderlayPort};

use super::host::now_ns;
use crate::open::Ports;

/// Between two sentences on one port.
const REST_NS: i64 = 1_000_000_000;

/// The links as they were seen. A number that is even is of one that is up: it counts changes.
pub struct Links {
    /// The place of the first of these ports.
    first: usize,
    names: Vec<String>,
    changes: Vec<AtomicU64>,
}

/// What was said of each link: how many changes it had had then, and when that was.
#[derive(Debug, Default)]
pub struct Said(Vec<(u64, Option<i64>)>);

impl Links {
    /// Of these ports behind so many networks' ones.
    pub fn new(networks: usize, underlay: &[UnderlayPort]) -> Links {
        Links {
            first: networks,
            names: underlay.iter().map(|port| port.name.clone()).collect(),
            changes: underlay.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Looks at the ports. What a link does between two looks is not seen.
    pub fn look(&self, ports: &Ports) {
        for (changes, port) in self.changes.iter().zip(&ports.list[self.first..]) {
            self::look(changes, port.link().up);
        }
    }

    /// Tells the control what was seen last; sentences for people.
    pub fn tell(&self, control: &mut Control, said: &mut Said) -> Vec<String> {
        let now_ns = now_ns();
        for (number, changes) in self.changes.iter().enumerate() {
            control.set_link(number as u16, is_up(changes.load(Ordering::Relaxed)), now_ns);
        }
        self.sentences(said, now_ns)
    }

    fn sentences(&self, said: &mut Said, now_ns: i64) -> Vec<String> {
        said.0.resize(self.changes.len(), (0, None));
        let mut sentences = vec![];
        for ((changes, name), (told, when)) in self.changes.iter().zip(&self.names).zip(&mut said.0) {
            let changes = changes.load(Ordering::Relaxed);
            let is_due = when.is_none_or(|when| now_ns.saturating_sub(when) >= REST_NS);
            if changes != *told && is_due {
                sentences.push(sentence(name, is_up(changes), changes - *told));
                (*told, *when) = (changes, Some(now_ns));
            }
        }
        sentences
    }
}

/// Notes how a link is.
fn look(changes: &AtomicU64, up: bool) {
    // Nobody else changes it.
    let now = changes.load(Ordering::Relaxed);
    changes.store(now + u64::from(is_up(now) != up), Ordering::Relaxed);
}

const fn is_up(changes: u64) -> bool {
    changes.is_multiple_of(2)
}

fn sentence(name: &str, up: bool, changes: u64) -> String {
    let state = match up {
        true => "up again",
        false => "down: what goes by it is dropped as overlay_link_down, or by another far end of its group",
    };
    let often = if changes > 1 { format!(" ({changes} changes were seen)") } else { String::new() };
    format!("the link of port {name} is {state}{often}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_flaps_is_told_of_once_a_second() {
        let links = Links { first: 0, names: vec!["up0".to_owned()], changes: vec![AtomicU64::new(0)] };
        let mut said = Said::default();
        let mut sentences = vec![];
        for ms in 0..3500 {
            // Down and up each ten milliseconds, for two and a half seconds; then it stays up.
            look(&links.changes[0], ms > 2500 || ms % 10 < 5);
            sentences.extend(links.sentences(&mut said, ms * 1_000_000));
        }
        assert_eq!(sentences.len(), 4, "{sentences:#?}");
        assert_eq!(
            sentences[0],
            "the link of port up0 is down: what goes by it is dropped as overlay_link_down, or by another far end of \
             its group"
        );
        assert!(sentences[1].contains("(200 changes were seen)"), "{sentences:#?}");
        assert!(sentences[3].starts_with("the link of port up0 is up again"), "{sentences:#?}");
        assert_eq!(links.sentences(&mut said, 9_000_000_000), Vec::<String>::new());
    }
}
