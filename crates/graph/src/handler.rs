//! Handlers: how a running router is looked at and changed, by name.
//!
//! `element.handler`, or a global one alone. Every element has `name`, `class`,
//! `config`, `ports` and `handlers`, one with tasks `scheduled`, `tickets` and
//! `home_thread` as well; then come those of its class.

use std::fmt::Write;
use std::sync::mpsc;
use std::time::Duration;

use crate::class::{Handler, both, read};
use crate::element::Refused;
use crate::lane::Lane;

/// Handlers that every element has.
pub const OF_ALL: &[Handler] = &[
    read("class", "the element's class"),
    read("name", "the element's name"),
    read("config", "its configuration, as it is now"),
    read("ports", "its ports and what is connected to them"),
    read("handlers", "its handlers"),
];

/// Handlers that elements with tasks have.
pub const OF_TASKS: &[Handler] = &[
    both("scheduled", "whether its task waits for a turn"),
    both("tickets", "the task's tickets"),
    both("home_thread", "the thread that runs the task"),
];

/// Handlers of the router.
pub const GLOBAL: &[Handler] = &[
    read("version", "the program's version"),
    read("list", "the elements' names, their number first"),
    read("classes", "the classes' names"),
    read("config", "the configuration as it was given"),
    read("flatconfig", "the configuration, flattened"),
    read("requirements", "what the configuration requires"),
    read("packages", "packages, of which there are none"),
    read("handlers", "the global handlers"),
    read("figures", "what was counted for each element: packets, batches, cycles, drops"),
    both("measure", "whether packets, batches and cycles are counted"),
    crate::class::write("stop", "stops the router"),
    crate::class::write("hotconfig", "replaces the running configuration"),
    crate::class::write("hotswap", "replaces the running configuration"),
];

/// How long another thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

impl Lane {
    /// Reads a handler, as seen from an element.
    pub fn read(&mut self, from: Option<usize>, name: &str, parameter: &str) -> Result<String, Refused> {
        let Some((element, handler)) = self.target(from, name)? else { return self.read_global(name) };
        let found = self.handler(element, &handler).ok_or_else(|| self.unknown(element, &handler))?;
        if !found.read {
            return Err(Refused::NotReadable(format!("{}.{handler}", self.shared.name(element))));
        }
        let (home, parameter) = (self.lane_of(element), parameter.to_string());
        self.in_lane(home, move |lane| lane.read_any(element, &handler, &parameter))?
    }

    /// Writes a handler, as seen from an element.
    pub fn write(&mut self, from: Option<usize>, name: &str, value: &str) -> Result<(), Refused> {
        let Some((element, handler)) = self.target(from, name)? else {
            return self.write_global(from, name, value);
        };
        let found = self.handler(element, &handler).ok_or_else(|| self.unknown(element, &handler))?;
        if !found.write {
            return Err(Refused::NotWritable(format!("{}.{handler}", self.shared.name(element))));
        }
        let (home, value) = (self.lane_of(element), value.to_string());
        self.in_lane(home, move |lane| lane.write_any(element, &handler, &value))?
    }

    /// What is known of a handler.
    pub fn handler_of(&self, from: Option<usize>, name: &str) -> Result<Handler, Refused> {
        match self.target(from, name)? {
            Some((element, handler)) => {
                self.handler(element, &handler).ok_or_else(|| self.unknown(element, &handler))
            }
            None => {
                let global = GLOBAL.iter().find(|h| h.name == name.trim_start_matches('.'));
                global.copied().ok_or_else(|| Refused::NoHandler(name.into()))
            }
        }
    }

    /// An element and one of its handlers; `None` for a global handler.
    fn target(&self, from: Option<usize>, name: &str) -> Result<Option<(usize, String)>, Refused> {
        let Some((element, handler)) = name.rsplit_once('.').filter(|(element, _)| !element.is_empty())
        else {
            return Ok(None);
        };
        let found = self.shared.plan.find(element, from);
        let index = found.ok_or_else(|| Refused::NoElement(element.into()))?;
        Ok(Some((index, handler.to_string())))
    }

    fn unknown(&self, element: usize, handler: &str) -> Refused {
        Refused::NoHandler(format!("{}.{handler}", self.shared.name(element)))
    }

    /// A handler of an element: the class's own before those that all have.
    pub(crate) fn handler(&self, element: usize, name: &str) -> Option<Handler> {
        let planned = &self.shared.plan.elements[element];
        let own = planned.kind.handlers.iter().find(|h| h.name == name).copied();
        let special = || planned.handlers.iter().find(|(n, _)| n == name).map(|(_, h)| *h);
        let tasks = if self.shared.has_tasks(element) { OF_TASKS } else { &[] };
        let common = || OF_ALL.iter().chain(tasks).find(|h| h.name == name).copied();
        own.or_else(special).or_else(common)
    }

    /// The lane an element's handlers are called in: this one, if it is here.
    fn lane_of(&self, element: usize) -> usize {
        let lanes = self.shared.plan.elements[element].lanes;
        if lanes >> self.id & 1 == 1 || lanes == 0 { self.id } else { self.shared.plan.home(element) }
    }

    /// Has something done in a lane, and waits for what comes of it.
    pub(crate) fn in_lane<R: Send + 'static>(
        &mut self,
        lane: usize,
        work: impl FnOnce(&mut Lane) -> R + Send + 'static,
    ) -> Result<R, Refused> {
        if lane == self.id {
            return Ok(work(self));
        }
        let (answer, wait) = mpsc::sync_channel(1);
        self.shared.inboxes[lane].send(Box::new(move |lane| {
            let _ = answer.send(work(lane)); // whoever asked may have gone
        }));
        // Whoever waits still answers others: two lanes may ask each other.
        for _ in 0..PATIENCE.as_millis() {
            match wait.recv_timeout(Duration::from_millis(1)) {
                Ok(result) => return Ok(result),
                Err(mpsc::RecvTimeoutError::Timeout) => self.read_letters(),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(Refused::Failed(format!("thread {lane} does not answer")))
    }

    fn read_any(&mut self, element: usize, handler: &str, parameter: &str) -> Result<String, Refused> {
        let planned = &self.shared.plan.elements[element];
        let own = planned.kind.handlers.iter().any(|h| h.name == handler);
        if own || planned.handlers.iter().any(|(name, _)| name == handler) {
            return self.read_here(element, handler, parameter);
        }
        let task = self.tasks.of(element).next();
        Ok(match (handler, task) {
            ("name", _) => planned.name.clone(),
            ("class", _) => planned.class.to_string(),
            ("config", _) => self.shared.config(element),
            ("ports", _) => self.ports(element),
            ("handlers", _) => self.handlers(element),
            ("scheduled", Some(task)) => self.tasks.is_scheduled(task).to_string(),
            ("tickets", Some(task)) => self.tasks.tickets(task).to_string(),
            ("home_thread", Some(_)) => self.id.to_string(),
            _ => return Err(self.unknown(element, handler)),
        })
    }

    fn write_any(&mut self, element: usize, handler: &str, value: &str) -> Result<(), Refused> {
        let planned = &self.shared.plan.elements[element];
        let own = planned.kind.handlers.iter().any(|h| h.name == handler);
        if own || planned.handlers.iter().any(|(name, _)| name == handler) {
            return self.write_here(element, handler, value);
        }
        let task = self.tasks.of(element).next();
        match (handler, task) {
            ("scheduled", Some(task)) => match value.trim() {
                "true" | "1" => self.tasks.schedule(task),
                "false" | "0" => self.tasks.unschedule(task),
                _ => return Err("expected boolean".into()),
            },
            ("tickets", Some(task)) => {
                let tickets = value.trim().parse().map_err(|_| "expected unsigned integer")?;
                self.tasks.set_tickets(task, tickets);
            }
            ("home_thread", Some(_)) if value.trim() == self.id.to_string() => {}
            ("home_thread", Some(_)) => {
                return Err("an element's thread is fixed when the router is built".into());
            }
            _ => return Err(self.unknown(element, handler)),
        }
        Ok(())
    }

    /// An element's ports, as Click lists them.
    fn ports(&self, element: usize) -> String {
        let plan = &self.shared.plan;
        let planned = &plan.elements[element];
        let mut out = String::new();
        for (output, pulled) in [(false, &planned.pull_inputs), (true, &planned.pull_outputs)] {
            let what = if output { "output" } else { "input" };
            let plural = if pulled.len() == 1 { "" } else { "s" };
            let _ = writeln!(out, "{} {what}{plural}", pulled.len());
            for (port, pull) in pulled.iter().enumerate() {
                let code = crate::flow::processing(planned.kind.processing, output, port);
                let kind = if *pull { "pull" } else { "push" };
                let agnostic = if code == 'a' { "~" } else { "" };
                let peers = plan.wires.iter().filter_map(|w| match output {
                    true => (w.from.element == element && w.from.port == port)
                        .then(|| format!("[{}] {}", w.to.port, plan.elements[w.to.element].name)),
                    false => (w.to.element == element && w.to.port == port)
                        .then(|| format!("{} [{}]", plan.elements[w.from.element].name, w.from.port)),
                });
                let peers: Vec<String> = peers.collect();
                let _ = writeln!(out, "{kind}{agnostic}\t-\t{}", peers.join(", "));
            }
        }
        out
    }

    /// An element's handlers with `r`, `w` or both.
    fn handlers(&self, element: usize) -> String {
        let planned = &self.shared.plan.elements[element];
        let tasks = if self.shared.has_tasks(element) { OF_TASKS } else { &[] };
        let special = planned.handlers.iter().map(|(name, h)| (name.as_str(), *h));
        let common =
            OF_ALL.iter().chain(tasks).filter(|h| !planned.kind.handlers.iter().any(|o| o.name == h.name));
        let all = planned.kind.handlers.iter().chain(common).map(|h| (h.name, *h));
        list(special.chain(all))
    }

    fn read_global(&mut self, name: &str) -> Result<String, Refused> {
        let plan = &self.shared.plan;
        let lines =
            |lines: &mut dyn Iterator<Item = &str>| lines.map(|l| format!("{l}\n")).collect::<String>();
        Ok(match name.trim_start_matches('.') {
            "version" => concat!(env!("CARGO_PKG_VERSION"), "\n").to_string(),
            "list" => {
                let names = lines(&mut plan.elements.iter().map(|e| e.name.as_str()));
                format!("{}\n{names}", plan.elements.len())
            }
            "classes" => lines(&mut self.shared.classes.iter().copied()),
            "config" if plan.flat.compact_config() => plan.flat.unparse(),
            "config" => plan.source.clone(),
            "flatconfig" => plan.flat.unparse(),
            "requirements" => {
                let requirements = plan.flat.requirements.iter().map(|r| r.value.as_str());
                lines(&mut requirements.filter(|r| !r.is_empty()))
            }
            "packages" => String::new(),
            "figures" => self.figures_text(),
            "measure" => self.meter.counts.to_string(),
            "handlers" => list(GLOBAL.iter().map(|h| (h.name, *h))),
            other if GLOBAL.iter().any(|h| h.name == other) => {
                return Err(Refused::NotReadable(other.into()));
            }
            other => return Err(Refused::NoHandler(other.into())),
        })
    }

    fn write_global(&mut self, from: Option<usize>, name: &str, value: &str) -> Result<(), Refused> {
        match name.trim_start_matches('.') {
            "stop" => {
                self.shared.adjust_runs(-(value.trim().parse().unwrap_or(1)));
                Ok(())
            }
            "measure" => {
                self.measure_all(value.trim().parse().map_err(|_| "expected boolean")?);
                Ok(())
            }
            "hotconfig" | "hotswap" => self.succeed(from, value),
            other if GLOBAL.iter().any(|h| h.name == other) => Err(Refused::NotWritable(other.into())),
            other => Err(Refused::NoHandler(other.into())),
        }
    }
}

fn list<'a>(handlers: impl Iterator<Item = (&'a str, Handler)>) -> String {
    let mut out = String::new();
    for (name, handler) in handlers {
        let flags = match (handler.read, handler.write) {
            (true, true) => "rw",
            (true, false) => "r",
            _ => "w",
        };
        let _ = writeln!(out, "{name}\t{flags}");
    }
    out
}
