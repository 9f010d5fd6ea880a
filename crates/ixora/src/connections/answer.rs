//! The server's side: who asks by the control socket, or at the port of metrics, is told what all
//! hosts show.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use port::Port;
use serde_json::json;
use tcp::{Copies, Shown, Watch};

use super::capture::Capturing;
use super::cores::Spreading;
use super::filter::Filter;
use super::listing::Listing;
use super::metrics;
use crate::Failure;
use crate::control_socket::{Asked, Server};
use crate::janitor::{CleanUp, Janitor};
use crate::metrics_port::{Metrics, MetricsAddress};
use crate::port_counts::LastCounts;

/// How long a host may take to show something: it may be asleep, or have much to do.
const LIMIT: Duration = Duration::from_secs(5);
/// How often somebody looks whether it has.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How long a request is waited for before it is looked whether the run has ended.
const WAIT: Duration = Duration::from_millis(50);

/// Where others ask, and the hosts that are looked at.
pub struct Asking {
    control: Option<Control>,
    metrics: Option<Mutex<Metrics>>,
    watches: Vec<Watch>,
    spreading: Spreading,
    ports: LastCounts,
    capturing: Capturing,
}

/// The socket, and what is asked by it.
struct Control {
    server: Server,
    asked: Mutex<Receiver<Asked>>,
    /// Removes the socket.
    _janitor: Option<Janitor>,
}

impl Control {
    fn new(path: &Path) -> Result<Control, Failure> {
        let (server, asked) = Server::new(path)?;
        let janitor = Janitor::call(&CleanUp { sockets: vec![path.to_owned()], ..CleanUp::default() })?;
        Ok(Control { server, asked: asked.into(), _janitor: janitor })
    }
}

impl Asking {
    /// Listens at a path and at a port, if there is any.
    pub fn new(
        (path, port): (Option<&Path>, Option<MetricsAddress>),
        watches: Vec<Watch>,
        spreading: Spreading,
        copies: Vec<Copies>,
    ) -> Result<Option<Asking>, Failure> {
        let metrics = Metrics::open(port, metrics::CLIENTS)?;
        let control = path.map(Control::new).transpose()?;
        let is_asked = control.is_some() || metrics.is_some();
        Ok(is_asked.then(|| Asking {
            control,
            metrics: metrics.map(Mutex::new),
            watches,
            spreading,
            ports: LastCounts::default(),
            capturing: Capturing::new(copies),
        }))
    }

    /// What listens at the path.
    pub fn server(&self) -> Option<&Server> {
        self.control.as_ref().map(|control| &control.server)
    }

    /// Answers until the run has ended.
    pub fn answer(&self, ended: &AtomicBool) {
        let mut metrics = self.metrics.as_ref().map(held);
        let asked = self.control.as_ref().map(|control| held(&control.asked));
        while !ended.load(Ordering::Relaxed) {
            if let Some(metrics) = &mut metrics {
                metrics.turn(&|| self.metrics(ended));
            }
            self.capturing.look();
            let Some(asked) = &asked else {
                thread::sleep(WAIT);
                continue;
            };
            match asked.recv_timeout(WAIT) {
                // One who is gone hears nothing.
                Ok((request, say)) => _ = say.try_send(self.answer_to(&request, ended)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn metrics(&self, ended: &AtomicBool) -> Result<String, String> {
        self.collect(0, ended).map(|(shown, _)| metrics::text(&shown) + &self.ports.metrics())
    }

    fn answer_to(&self, request: &str, ended: &AtomicBool) -> String {
        let words: Vec<&str> = request.split_whitespace().collect();
        let answer = match words[..] {
            ["show", limit, ref filter @ ..] => self.list(limit.parse().unwrap_or(0), filter, ended),
            ["metrics"] => self.metrics(ended),
            ["capture", address, port] => self.capturing.begin(address, port),
            ["captured", number] => self.capturing.take(number),
            ["capture-end", number] => self.capturing.end(number),
            ["cores"] => self.spread(None, ended),
            ["cores", cores] => match cores.parse() {
                Ok(cores) => self.spread(Some(cores), ended),
                Err(_) => Err(format!("{cores} is no number of cores")),
            },
            _ => Err("ask for show LIMIT [FILTER], metrics, cores [N], or capture ADDRESS PORT".to_owned()),
        };
        answer.unwrap_or_else(|error| json!({ "error": error }).to_string())
    }

    /// Lists so many of the connections that a filter takes.
    fn list(&self, limit: usize, filter: &[&str], ended: &AtomicBool) -> Result<String, String> {
        let filter = Filter::parse(filter.iter().copied())?;
        // Who is looked for may be the last one.
        let looked_at = if filter.is_empty() { limit } else { usize::MAX };
        let (shown, _) = self.collect(looked_at, ended)?;
        Ok(serde_json::to_string_pretty(&Listing::new(&shown, limit, &filter)).unwrap_or_default())
    }

    fn spread(&self, cores: Option<usize>, ended: &AtomicBool) -> Result<String, String> {
        let spread = self.spreading.ask(cores, ended)?;
        Ok(serde_json::to_string(&spread).unwrap_or_default())
    }

    /// Does what only the thread that has the port can do, if it was asked for.
    pub fn serve(&self, ports: &mut [Box<dyn Port>]) {
        self.ports.look(ports);
        ports.first_mut().into_iter().for_each(|port| self.spreading.serve(&mut **port));
    }

    /// What all hosts show, and how many connections were asked for.
    fn collect(&self, limit: usize, ended: &AtomicBool) -> Result<(Vec<Shown>, usize), String> {
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
                thread::sleep(POLL_INTERVAL);
            };
            all.push(shown);
        }
        Ok((all, limit))
    }
}

/// What only the thread that answers takes.
fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
