//! Those who change the table beside the file while lanes use it: the kernel by rtnetlink,
//! FRR in its stream, and controllers by HTTP. Their sockets are opened before the process is
//! confined, and none is opened later.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use control::admission::Admission;
use control::api::server::Server;
use control::fpm::Fpm;
use control::kernel::{Kernel, KernelError, RECEIVE_BUFFER};
use control::{Change, Key, Mirror, Owner};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value as Json, json};

use crate::config::{Config, Learn, Listen};
use crate::control::Control;

/// Datagrams of the kernel's that are taken before others have a turn.
const DATAGRAMS_A_TURN: usize = 256;
/// How long the kernel is left alone after it refused something.
const REST_NS: i64 = 1_000_000_000;
/// How often messages that cannot be read are told of.
const MALFORMED_NS: i64 = 10_000_000_000;

/// Why one who changes the table cannot be listened to.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The kernel's tables cannot be followed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A socket cannot be had.
    #[error("cannot listen for {whom} at {place}: {error}")]
    Listen {
        /// For whom it would be.
        whom: &'static str,
        /// The address or path.
        place: String,
        /// What the system says to that.
        error: io::Error,
    },
}

impl SourceError {
    fn listen(whom: &'static str, place: String, error: io::Error) -> SourceError {
        SourceError::Listen { whom, place, error }
    }
}

/// All who change the table beside the file, and where they are heard.
#[derive(Debug)]
pub struct Sources {
    learn: Learn,
    mirror: Mirror,
    kernel: Option<Kernel>,
    fpm: Option<(Fpm, Admission)>,
    api: Option<Server>,
    /// Whether one of them has more than was taken.
    is_more: bool,
    /// Until when the kernel is left alone.
    rest_ns: Option<i64>,
    /// Places that were found otherwise than in the kernel, until all of it is observed again.
    mended: BTreeSet<Key>,
    /// What was said of losses and mistakes before.
    said: Said,
}

/// How much was said.
#[derive(Debug, Default)]
struct Said {
    overflows: u64,
    wrong_frames: u64,
    malformed: u64,
    /// Before which nothing more is said of these.
    malformed_ns: i64,
    trouble: String,
}

impl Said {
    /// A sentence on messages that cannot be read, where there are more than were told of, at a pace.
    fn of_malformed(&mut self, malformed: u64, now_ns: i64) -> Option<String> {
        if malformed <= self.malformed || now_ns < self.malformed_ns {
            return None;
        }
        (self.malformed, self.malformed_ns) = (malformed, now_ns.saturating_add(MALFORMED_NS));
        Some(format!("FRR's stream has messages that cannot be read, {malformed} by now"))
    }
}

impl Sources {
    /// Opens what a configuration asks for, in this thread's network namespace.
    ///
    /// # Errors
    /// What cannot be had.
    pub fn open(config: &Config) -> Result<Sources, SourceError> {
        let follow = &config.follow;
        let mut mirror = Mirror::new(config.mirror());
        let kernel = match follow.learn {
            Learn::Nobody => None,
            Learn::Kernel | Learn::Fpm => Some(Kernel::open(&mut mirror, RECEIVE_BUFFER)?),
        };
        let fpm = match &follow.fpm {
            None => None,
            Some(port) => {
                let fpm = Fpm::listen(port.listen, port.hold_ns);
                let both = fpm.and_then(|fpm| Ok((fpm, Admission::new(&port.users)?)));
                Some(both.map_err(|error| SourceError::listen("FRR", port.listen.to_string(), error))?)
            }
        };
        let api = match &follow.api {
            None => None,
            Some(api) => {
                let place = match &api.listen {
                    Listen::Tcp(address) => address.to_string(),
                    Listen::Unix(path) => path.display().to_string(),
                };
                let server = Admission::new(&api.users).and_then(|admission| match &api.listen {
                    Listen::Tcp(address) => Server::tcp(*address, admission),
                    Listen::Unix(path) => Server::unix(UnixListener::bind(path)?, admission),
                });
                Some(server.map_err(|error| SourceError::listen("controllers", place, error))?)
            }
        };
        let (learn, mended, said) = (follow.learn, BTreeSet::new(), Said::default());
        Ok(Sources { learn, mirror, kernel, fpm, api, is_more: true, rest_ns: None, mended, said })
    }

    /// Waits until one of them has something to say, at most so long.
    pub fn wait(&self, most: Duration) {
        if self.is_more {
            return;
        }
        let kernel = self.kernel.as_ref().filter(|_| self.rest_ns.is_none());
        let mut all: Vec<PollFd<'_>> =
            kernel.map(|kernel| PollFd::new(kernel, PollFlags::IN)).into_iter().collect();
        let connections = self.fpm.iter().flat_map(|(fpm, _)| fpm.sources());
        all.extend(connections.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)));
        // A client that does not read its answers is not read from either.
        all.extend(self.api.iter().flat_map(Server::sources).map(|(source, writes)| {
            PollFd::from_borrowed_fd(source, if writes { PollFlags::OUT } else { PollFlags::IN })
        }));
        let most = Timespec::try_from(most).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        // Whatever comes of it, all are asked next.
        let _ = poll(&mut all, Some(&most));
    }

    /// Takes what they say, and changes the table; a sentence for each thing that people
    /// should know.
    pub fn turn(&mut self, control: &mut Control, now_ns: i64) -> Vec<String> {
        let mut sentences = Vec::new();
        self.is_more = false;
        self.hear_kernel(now_ns, &mut sentences);
        if let Some((fpm, admission)) = &mut self.fpm {
            let mut admits = |peer, own| admission.tcp(peer, own);
            self.is_more |= fpm.turn(&mut self.mirror, now_ns, &mut admits);
            let wrong = fpm.counters().wrong_frames;
            if let Some(error) = fpm.last_wrong().filter(|_| wrong > self.said.wrong_frames) {
                sentences.push(format!("FRR's stream was closed: {error}"));
            }
            self.said.wrong_frames = wrong;
            sentences.extend(self.said.of_malformed(fpm.counters().malformed, now_ns));
        }
        self.apply(control, now_ns);
        let status = if self.api.is_some() { self.status() } else { Json::Null };
        if let Some(api) = &mut self.api {
            self.is_more |= api.turn(&mut control.controlled(now_ns, status));
        }
        sentences
    }

    /// Hears everything from the kernel again, and what is at these places besides, where it
    /// was found to be otherwise than in the kernel.
    pub fn hear_again(&mut self, places: impl IntoIterator<Item = Key>) {
        if let Some(kernel) = &mut self.kernel {
            self.mended.extend(places);
            kernel.ask_again();
            (self.is_more, self.rest_ns) = (true, None);
        }
    }

    fn hear_kernel(&mut self, now_ns: i64, sentences: &mut Vec<String>) {
        let Some(kernel) = &mut self.kernel else { return };
        if self.rest_ns.is_some_and(|until| now_ns < until) {
            return;
        }
        self.rest_ns = None;
        match kernel.turn(&mut self.mirror, DATAGRAMS_A_TURN) {
            Ok(more) => {
                self.is_more |= more;
                self.said.trouble.clear();
                if kernel.is_current() {
                    self.mirror.touch(std::mem::take(&mut self.mended));
                }
            }
            Err(error) => {
                self.rest_ns = Some(now_ns.saturating_add(REST_NS));
                let trouble = error.to_string();
                if trouble != self.said.trouble {
                    sentences.push(format!("{trouble}; tried again every second"));
                    self.said.trouble = trouble;
                }
            }
        }
        let overflows = kernel.counters().overflows;
        if overflows > self.said.overflows {
            sentences.push(format!(
                "rtnetlink's socket overflowed, {overflows} times by now: everything is asked for again"
            ));
            self.said.overflows = overflows;
        }
    }

    /// Changes the table by what the mirror has. The kernel has its own claims, and FRR has
    /// those for entries where its stream tells of them.
    fn apply(&mut self, control: &mut Control, now_ns: i64) {
        let is_entry = |change: &Change| matches!(change.key, Key::Entry(..) | Key::Flood(_));
        let (entries, others) = self.mirror.changes().into_iter().partition(is_entry);
        let owner = if self.learn == Learn::Fpm { Owner::Fpm } else { Owner::Kernel };
        let different =
            control.change(Owner::Kernel, others, now_ns) + control.change(owner, entries, now_ns);
        if different > 0 {
            control.table().publish();
        }
    }

    /// What was counted, for people and programs.
    pub fn status(&self) -> Json {
        let mirror = self.mirror.counters();
        // The mirror counts what both tell.
        let told = self.fpm.as_ref().map(|(fpm, _)| fpm.counters()).unwrap_or_default();
        let (messages, malformed) = (mirror.messages - told.messages, mirror.malformed - told.malformed);
        let kernel = self.kernel.as_ref().map(|kernel| (kernel.counters(), kernel.is_current()));
        let kernel = kernel.map(|(counters, is_current)| {
            json!({
                "current": is_current, "overflows": counters.overflows, "rounds": counters.rounds,
                "interrupted": counters.interrupted, "truncated": counters.truncated,
                "messages": messages, "malformed": malformed, "no_room": mirror.full,
            })
        });
        let fpm = self.fpm.as_ref().map(|(fpm, _)| (fpm.counters(), fpm.connections()));
        let fpm = fpm.map(|(counters, connections)| {
            json!({
                "connections": connections, "accepted": counters.accepted, "refused": counters.refused,
                "ended": counters.ended, "wrong_frames": counters.wrong_frames, "sweeps": counters.sweeps,
                "messages": counters.messages, "malformed": counters.malformed,
            })
        });
        let api = self.api.as_ref().map(|api| (api.counters(), api.clients()));
        let api = api.map(|(counters, clients)| {
            json!({
                "clients": clients, "accepted": counters.accepted, "refused": counters.refused,
                "stalled": counters.stalled, "answered": counters.answered, "errors": counters.errors,
            })
        });
        json!({ "kernel": kernel, "fpm": fpm, "api": api })
    }

    /// Entries of the kernel's or FRR's that the table cannot have, a sentence each.
    pub fn unresolved(&self) -> impl Iterator<Item = String> + '_ {
        self.mirror.unresolved().map(|(device, vni, mac, why)| {
            let network = if vni == 0 { String::new() } else { format!(" in network {vni}") };
            format!("{mac} of device {device}{network}: {why}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_cannot_be_read_are_told_of_at_a_pace() {
        let mut said = Said::default();
        let told =
            (0..200).filter(|tenth| said.of_malformed(1 + tenth, *tenth as i64 * 100_000_000).is_some());
        assert_eq!(told.collect::<Vec<_>>(), [0, 100]);
        assert_eq!(
            said.of_malformed(200, 30_000_000_000).as_deref().map(|told| told.contains("200")),
            Some(true)
        );
        assert_eq!(said.of_malformed(200, 90_000_000_000), None, "there are no more");
    }
}
