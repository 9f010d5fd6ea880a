//! The server's side: who asks by the control socket is told what all hosts show.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tcp::{Shown, Watch};

use super::listing::Listing;
use super::metrics;
use crate::Failure;
use crate::control_socket::{Asked, Server};
use crate::janitor::{CleanUp, Janitor};

/// How long a host may take to show something: it may be asleep, or have much to do.
const LIMIT: Duration = Duration::from_secs(5);
/// How often somebody looks whether it has.
const LOOK: Duration = Duration::from_millis(1);
/// How long a request is waited for before it is looked whether the run has ended.
const WAIT: Duration = Duration::from_millis(50);

/// The socket, what is asked by it, and the hosts that are looked at.
pub struct Asking {
    pub server: Server,
    asked: std::sync::Mutex<Receiver<Asked>>,
    watches: Vec<Watch>,
    /// Removes the socket.
    _janitor: Option<Janitor>,
}

impl Asking {
    /// Listens at a path, if there is one.
    pub fn new(path: Option<&Path>, watches: Vec<Watch>) -> Result<Option<Asking>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let (server, asked) = Server::new(path)?;
        let janitor = Janitor::call(&CleanUp { sockets: vec![path.to_owned()], ..CleanUp::default() })?;
        Ok(Some(Asking { server, asked: asked.into(), watches, _janitor: janitor }))
    }

    /// Answers until the run has ended.
    pub fn answer(&self, ended: &AtomicBool) {
        let asked = self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while !ended.load(Ordering::Relaxed) {
            match asked.recv_timeout(WAIT) {
                // One who is gone hears nothing.
                Ok((request, say)) => _ = say.try_send(self.answer_to(&request, ended)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn answer_to(&self, request: &str, ended: &AtomicBool) -> String {
        let words: Vec<&str> = request.split_whitespace().collect();
        let look = |limit| self.look(limit, ended);
        let answer = match words[..] {
            ["show", limit] => look(limit.parse().unwrap_or(0)).map(|(shown, limit)| {
                serde_json::to_string_pretty(&Listing::new(&shown, limit)).unwrap_or_default()
            }),
            ["metrics"] => look(0).map(|(shown, _)| metrics::text(&shown)),
            _ => Err("ask for show LIMIT, or metrics".to_owned()),
        };
        answer.unwrap_or_else(|error| json!({ "error": error }).to_string())
    }

    /// What all hosts show, and how many connections were asked for.
    fn look(&self, limit: usize, ended: &AtomicBool) -> Result<(Vec<Shown>, usize), String> {
        let end = Instant::now() + LIMIT;
        self.watches.iter().for_each(|watch| watch.ask(limit));
        let mut all = Vec::with_capacity(self.watches.len());
        for (core, watch) in self.watches.iter().enumerate() {
            let shown = loop {
                if let Some(shown) = watch.shown() {
                    break shown;
                }
                if ended.load(Ordering::Relaxed) {
                    return Err("the server has ended".to_owned());
                }
                if Instant::now() > end {
                    return Err(format!("the host of queue {core} shows nothing: its thread may be stuck"));
                }
                thread::sleep(LOOK);
            };
            all.push(shown);
        }
        Ok((all, limit))
    }
}
