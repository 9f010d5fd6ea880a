//! Handlers: how a running router is looked at and changed, by name.
//!
//! `element.handler`, or a global one alone. Every element has `name`, `class`,
//! `config`, `ports` and `handlers`, one with tasks `scheduled`, `tickets` and
//! `home_thread` as well; then come those of its class.

use std::fmt::Write;
use std::sync::mpsc;
use std::time::Duration;

use crate::element::class::{Handler, both, read, write};
use crate::element::value::{Scope, Value};
use crate::element::{Complaint, Refused};
use crate::run::lane::Lane;

/// Handlers that every element has.
pub const OF_ALL: &[Handler] = &[
    read("name", "the element's name").marked("."),
    read("class", "the element's class").marked("."),
    read("config", "its configuration, as it is now").marked("."),
    read("ports", "its ports and what is connected to them").marked("."),
    read("handlers", "its handlers").marked("."),
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
    read("driver", "what runs the router"),
    read("config", "the configuration as it was given"),
    read("flatconfig", "the configuration, flattened"),
    read("requirements", "what the configuration requires"),
    read("handlers", "the global handlers"),
    read("list", "the elements' names, their number first"),
    write("stop", "stops the router"),
    read("classes", "the classes' names"),
    read("packages", "packages, of which there are none"),
    read("timewarp", "whether time is simulated, or how fast it goes"),
    read("figures", "what was counted for each element: packets, batches, cycles, drops"),
    both("measure", "whether packets, batches and cycles are counted"),
];

/// Further ones, of a router whose configuration may be replaced.
pub const OF_HOTSWAP: &[Handler] = &[
    write("hotconfig", "replaces the running configuration").marked("%"),
    write("hotswap", "replaces the running configuration").marked("%"),
];

/// How long another thread may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl Lane {
    /// Reads a handler, as seen from an element.
    pub fn read(&mut self, from: Option<usize>, name: &str, parameter: &str) -> Result<String, Refused> {
        let target = self.target(from, name)?;
        let full = self.full_name(target.as_ref(), name);
        let found = match &target {
            Some((element, handler)) => self.handler(*element, handler),
            None => self.global(&full),
        };
        let Some(found) = found.filter(|h| h.read) else { return Err(Refused::NotReadable(full)) };
        if !parameter.is_empty() && !found.takes_parameter() {
            return Err(Refused::NoParameter(full));
        }
        let Some((element, handler)) = target else { return self.read_global(&full) };
        let (home, parameter) = (self.lane_of(element, &handler), parameter.to_string());
        self.told = vec![];
        let (read, told) =
            self.in_lane(home, move |lane| lane.framed(|lane| lane.read_any(element, &handler, &parameter)))?;
        self.told = told;
        read
    }

    /// Writes a handler, as seen from an element.
    pub fn write(&mut self, from: Option<usize>, name: &str, value: &str) -> Result<(), Refused> {
        let target = self.target(from, name)?;
        let full = self.full_name(target.as_ref(), name);
        let found = match &target {
            Some((element, handler)) => self.handler(*element, handler),
            None => self.global(&full),
        };
        if !found.is_some_and(|h| h.write) {
            return Err(Refused::NotWritable(full));
        }
        let Some((element, handler)) = target else { return self.write_global(from, &full, value) };
        let kind = self.shared.plan.elements[element].kind;
        if handler == "config" && kind.live {
            return self.reconfigure(element, value, Some(value));
        }
        if let Some(setting) = kind.settings.iter().find(|setting| setting.handler == handler) {
            return self.change(element, setting, value);
        }
        let (home, value) = (self.lane_of(element, &handler), value.to_string());
        self.told = vec![];
        let (written, told) =
            self.in_lane(home, move |lane| lane.framed(|lane| lane.write_any(element, &handler, &value)))?;
        self.told = told;
        written
    }

    /// Calls a handler, and gathers what is complained of meanwhile.
    fn framed<R>(&mut self, call: impl FnOnce(&mut Lane) -> R) -> (R, Vec<Complaint>) {
        self.complaints.push(vec![]);
        let result = call(self);
        (result, self.complaints.pop().unwrap_or_default())
    }

    /// What is known of a handler.
    pub fn handler_of(&self, from: Option<usize>, name: &str) -> Result<Handler, Refused> {
        let target = self.target(from, name)?;
        let full = self.full_name(target.as_ref(), name);
        let found = match target {
            Some((element, handler)) => self.handler(element, &handler),
            None => self.global(&full),
        };
        found.ok_or(Refused::NoHandler(full))
    }

    /// Whether a handler can be written.
    ///
    /// # Errors
    /// What [`write`](Self::write) would say if it cannot.
    pub fn can_write(&self, from: Option<usize>, name: &str) -> Result<(), Refused> {
        match self.handler_of(from, name) {
            Ok(handler) if handler.write => Ok(()),
            Ok(_) => {
                let target = self.target(from, name)?;
                Err(Refused::NotWritable(self.full_name(target.as_ref(), name)))
            }
            Err(Refused::NoHandler(full)) => Err(Refused::NotWritable(full)),
            Err(refused) => Err(refused),
        }
    }

    /// A handler's name as messages have it.
    pub(crate) fn name_of(&self, from: Option<usize>, name: &str) -> String {
        let target = self.target(from, name).ok().flatten();
        self.full_name(target.as_ref(), name)
    }

    /// An element and one of its handlers; `None` for a global handler. A name alone is
    /// the asking element's own handler, or a global one.
    fn target(&self, from: Option<usize>, name: &str) -> Result<Option<(usize, String)>, Refused> {
        if name.starts_with('.') && name.len() > 1 {
            return Ok(None);
        }
        let parts = name.split_once('.');
        if name.is_empty() || parts.is_some_and(|(_, handler)| handler.is_empty()) {
            return Err(Refused::BadName);
        }
        if let Some((element, handler)) = parts
            && let Some(index) = self.shared.plan.find(element, from)
        {
            return Ok(Some((index, handler.to_string())));
        }
        if let Some(own) = from.filter(|own| self.handler(*own, name).is_some()) {
            return Ok(Some((own, name.to_string())));
        }
        match parts {
            Some((element, _)) if self.global(name).is_none() => Err(Refused::NoElement(element.into())),
            _ => Ok(None),
        }
    }

    /// The name of a handler as messages have it.
    fn full_name(&self, target: Option<&(usize, String)>, name: &str) -> String {
        match target {
            Some((element, handler)) => format!("{}.{handler}", self.shared.name(*element)),
            None => name.strip_prefix('.').unwrap_or(name).to_string(),
        }
    }

    fn global(&self, name: &str) -> Option<Handler> {
        self.globals().find(|h| h.name == name)
    }

    fn globals(&self) -> impl Iterator<Item = Handler> {
        let further = if self.shared.hotswap.is_some() { OF_HOTSWAP } else { &[] };
        GLOBAL.iter().chain(further).copied()
    }

    fn unknown(&self, element: usize, handler: &str) -> Refused {
        Refused::NoHandler(format!("{}.{handler}", self.shared.name(element)))
    }

    /// A handler of an element: the class's own before those that all have. `*` stands
    /// for any that is not there otherwise.
    pub(crate) fn handler(&self, element: usize, name: &str) -> Option<Handler> {
        let planned = &self.shared.plan.elements[element];
        if name == "config" && planned.kind.live {
            return Some(LIVE_CONFIG);
        }
        let own = planned.kind.handlers.iter().find(|h| h.name == name).copied();
        let special = |name: &str| planned.handlers.iter().find(|(n, _)| n == name).map(|(_, h)| *h);
        let tasks = if self.shared.has_tasks(element) { OF_TASKS } else { &[] };
        let common = || OF_ALL.iter().chain(tasks).find(|h| h.name == name).copied();
        own.or_else(|| special(name)).or_else(common).or_else(|| special("*"))
    }

    /// Whether the element itself answers for a handler.
    fn is_own(&self, element: usize, handler: &str) -> bool {
        let planned = &self.shared.plan.elements[element];
        let tasks = if self.shared.has_tasks(element) { OF_TASKS } else { &[] };
        planned.kind.handlers.iter().any(|h| h.name == handler)
            || planned.handlers.iter().any(|(name, _)| name == handler)
            || !OF_ALL.iter().chain(tasks).any(|h| h.name == handler)
    }

    /// The lane an element's handlers are called in: the one that runs its tasks for
    /// what is about them, else this one, if it is here.
    fn lane_of(&self, element: usize, handler: &str) -> usize {
        let crate::plan::Planned { lanes, homes, .. } = self.shared.plan.elements[element];
        if homes != 0 && OF_TASKS.iter().any(|h| h.name == handler) && !self.is_own(element, handler) {
            return homes.trailing_zeros() as usize;
        }
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
        let job = move |lane: &mut Lane| {
            let _ = answer.send(work(lane)); // whoever asked may have gone
        };
        let shared = self.shared.clone();
        if shared.is_kept(lane) {
            shared.lend(lane, job);
        } else {
            shared.mailboxes[lane].send(Box::new(job));
        }
        // Whoever waits still answers others: two lanes may ask each other.
        for _ in 0..ANSWER_TIMEOUT.as_millis() {
            let served = self.shared.mailboxes[lane].is_served();
            match wait.recv_timeout(Duration::from_millis(1)) {
                Ok(result) => return Ok(result),
                Err(mpsc::RecvTimeoutError::Timeout) if !served => break, // it has ended
                Err(mpsc::RecvTimeoutError::Timeout) => self.read_messages(),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(Refused::Failed(format!("thread {lane} does not answer")))
    }

    fn read_any(&mut self, element: usize, handler: &str, parameter: &str) -> Result<String, Refused> {
        if self.is_own(element, handler) {
            return self.read_here(element, handler, parameter);
        }
        let planned = &self.shared.plan.elements[element];
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
        if self.is_own(element, handler) {
            return self.write_here(element, handler, value);
        }
        let task = self.tasks.of(element).next();
        match (handler, task) {
            ("scheduled", Some(task)) => match boolean(value) {
                Some(true) => self.tasks.schedule(task),
                Some(false) => self.tasks.unschedule(task),
                None => return Err("syntax error".into()),
            },
            ("tickets", Some(task)) => {
                let wanted: i64 = value.trim().parse().map_err(|_| "syntax error")?;
                let tickets = wanted.clamp(1, i64::from(crate::plan::schedule_info::MAX_TICKETS));
                if tickets != wanted {
                    let frame = self.complaints.last_mut();
                    let text = format!("tickets pinned at {tickets}");
                    frame
                        .into_iter()
                        .for_each(|f| f.push(Complaint { is_warning: true, text: text.clone() }));
                }
                self.tasks.set_tickets(task, tickets as u32);
            }
            ("home_thread", Some(_)) => match value.trim().parse::<usize>() {
                Ok(thread) if thread == self.id => {}
                Ok(thread) if thread < self.shared.mailboxes.len() => {
                    return Err("an element's thread is fixed when the router is built".into());
                }
                _ => return Err("bad thread".into()),
            },
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
                let code = crate::element::port_code::processing(planned.kind.processing, output, port);
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

    /// An element's handlers, as Click lists them: the last one first.
    fn handlers(&self, element: usize) -> String {
        let planned = &self.shared.plan.elements[element];
        let tasks = if self.shared.has_tasks(element) { OF_TASKS } else { &[] };
        let own = planned.kind.handlers;
        let known = |h: &&Handler| !own.iter().any(|o| o.name == h.name);
        let common = OF_ALL.iter().chain(tasks).rev().filter(known).map(|h| match h.name {
            "config" if planned.kind.live => (h.name, LIVE_CONFIG),
            name => (name, *h),
        });
        let special = planned.handlers.iter().rev().map(|(name, h)| (name.as_str(), *h));
        let (first, last): (Vec<_>, Vec<_>) =
            common.partition(|(name, _)| tasks.iter().any(|t| t.name == *name));
        list(first.into_iter().chain(special).chain(own.iter().rev().map(|h| (h.name, *h))).chain(last))
    }

    fn read_global(&mut self, name: &str) -> Result<String, Refused> {
        let plan = &self.shared.plan;
        let lines =
            |lines: &mut dyn Iterator<Item = &str>| lines.map(|l| format!("{l}\n")).collect::<String>();
        Ok(match name {
            "version" => env!("CARGO_PKG_VERSION").to_string(),
            "driver" => "userlevel".to_string(),
            "timewarp" if self.shared.clock.is_simulated() => "simulation".to_string(),
            "timewarp" => "1".to_string(),
            "list" => {
                let names = lines(&mut plan.elements.iter().map(|e| e.name.as_str()));
                format!("{}\n{names}", plan.elements.len())
            }
            "classes" => lines(&mut self.shared.classes.iter().copied()),
            "config" if plan.flat.compact_config() => plan.flat.unparse(),
            "config" => plan.source.clone(),
            "flatconfig" => plan.flat.unparse(),
            "requirements" => {
                let requirements = plan.flat.requirements.iter();
                lines(&mut requirements.flat_map(|r| [r.kind.as_str(), r.value.as_str()]))
            }
            "packages" => String::new(),
            "figures" => self.counters_text(),
            "measure" => self.profiler.counts.to_string(),
            "handlers" => list(self.globals().map(|h| (h.name, h))),
            other => return Err(Refused::NotReadable(other.into())),
        })
    }

    fn write_global(&mut self, from: Option<usize>, name: &str, value: &str) -> Result<(), Refused> {
        match name {
            "stop" => {
                self.shared.adjust_runs(-(value.trim().parse().unwrap_or(1)));
                Ok(())
            }
            "measure" => {
                self.measure_all(value.trim().parse().map_err(|_| "expected boolean")?);
                Ok(())
            }
            "hotconfig" | "hotswap" => self.hotswap(from, value),
            other => Err(Refused::NotWritable(other.into())),
        }
    }
}

/// A configuration that can be written.
const LIVE_CONFIG: Handler = both("config", "its configuration, as it is now; takes another").marked(".");

/// A truth value as Click reads it.
fn boolean(text: &str) -> Option<bool> {
    let names = crate::element::value::Names::default();
    bool::parse(text, &Scope { element: "", names: &names }).ok()
}

/// A line for each handler that those outside can call: its name, and what it is.
fn list<'a>(handlers: impl Iterator<Item = (&'a str, Handler)>) -> String {
    let mut out = String::new();
    for (name, handler) in handlers {
        let flags = match (handler.is_public(), handler.write) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, true) => "w",
            (false, false) => continue,
        };
        // Any name: Click lists it as what makes handlers.
        if name == "*" {
            out.push_str("*\tw\n");
            continue;
        }
        let _ = writeln!(out, "{name}\t{flags}{}", handler.marks.replace('-', ""));
    }
    out
}
