//! Handlers: how a running router is looked at and changed, by name.
//!
//! `element.handler`, or a global one alone. Every element has `name`, `class`,
//! `config`, `ports`, `handlers` and, where not only Click's are wanted, `drops`, one with tasks `scheduled`, `tickets` and
//! `home_thread` as well; then come those of its class ([`Class::handlers`](crate::Class::handlers)).

mod common;
mod named;

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::element::handler::Handler;
use crate::element::{Complaint, Refused};
use crate::run::lane::Lane;
use crate::run::late::Late;
use common::{CONFIG, ElementRow, LIVE_CONFIG, TaskRow};
pub use named::Named;
pub(crate) use named::{Further, names_are_there, names_of};

/// How long another thread may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl Lane {
    /// Reads a handler, as seen from an element.
    pub fn read(&mut self, from: Option<usize>, name: &str, parameter: &str) -> Result<String, Refused> {
        let (target, full, found) = self.named(from).look_up(name)?;
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
        let (target, full, found) = self.named(from).look_up(name)?;
        if !found.is_some_and(|h| h.write) {
            return Err(Refused::NotWritable(full));
        }
        let Some((element, handler)) = target else { return self.write_global(from, &full, value) };
        let planned = &self.shared.plan.elements[element];
        let kind = planned.kind;
        if handler == "config" && kind.live {
            return self.reconfigure(element, value, Some(value));
        }
        if let Some(setting) = planned.own_row(&handler).and_then(|row| kind.handlers.setting(row)) {
            return self.change(element, setting.of(&handler), value);
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
        self.named(from).handler_of(name)
    }

    /// The elements and handlers there are, as one of them names them.
    pub(crate) fn named(&self, from: Option<usize>) -> Named<'_> {
        Named::of_router(&self.shared, from)
    }

    fn unknown(&self, element: usize, handler: &str) -> Refused {
        Refused::NoHandler(format!("{}.{handler}", self.shared.name(element)))
    }

    /// The row of its class that answers for an element's handler; `None` for one that
    /// all elements or all tasks have, if the class has none of this name.
    fn row(&self, element: usize, name: &str) -> Option<usize> {
        let planned = &self.shared.plan.elements[element];
        let is_common = || {
            self.named(None).rows_of_all(element).any(|row| row.handler.name == name)
                || self.named(None).task_rows(element).iter().any(|row| row.handler.name == name)
        };
        planned.own_row(name).or_else(|| planned.own_row("*").filter(|_| !is_common()))
    }

    /// The lane an element's handlers are called in: the one that runs its tasks for
    /// what is about them, else this one, if it is here.
    fn lane_of(&self, element: usize, handler: &str) -> usize {
        let crate::plan::Planned { lanes, homes, .. } = self.shared.plan.elements[element];
        let of_tasks = |row: &TaskRow| row.handler.name == handler;
        if homes != 0
            && self.named(None).task_rows(element).iter().any(of_tasks)
            && self.row(element, handler).is_none()
        {
            return homes.trailing_zeros() as usize;
        }
        if lanes >> self.id & 1 == 1 || lanes == 0 { self.id } else { self.shared.plan.home(element) }
    }

    /// Has something done in a lane, and waits for what comes of it. What a lane did not
    /// begin in time it never does.
    pub(crate) fn in_lane<R: Send + 'static>(
        &mut self,
        lane: usize,
        work: impl FnOnce(&mut Lane) -> R + Send + 'static,
    ) -> Result<R, Refused> {
        if lane == self.id {
            return Ok(work(self));
        }
        let (answer, wait) = mpsc::sync_channel(1);
        let taken = Arc::new(AtomicBool::new(false));
        let taken_there = taken.clone();
        self.send_job(lane, move |lane| {
            if !taken_there.swap(true, Ordering::Relaxed) {
                let _ = answer.send(work(lane)); // whoever asked may have gone
            }
        });
        if let Some(result) = self.answer(lane, &wait, false) {
            return Ok(result);
        }
        // Relaxed: it matters only who takes it; the result comes through the channel.
        if !taken.swap(true, Ordering::Relaxed) {
            return Err(Refused::Failed(format!("thread {lane} does not answer")));
        }
        let late = self.answer(lane, &wait, true);
        late.ok_or_else(|| Refused::Failed(format!("thread {lane} began, and does not answer")))
    }

    /// Has something done in a lane, sooner or later.
    pub(crate) fn send_job(&self, lane: usize, job: impl FnOnce(&mut Lane) + Send + 'static) {
        if self.shared.is_kept(lane) {
            self.shared.lend(lane, job);
        } else {
            self.shared.mailboxes[lane].send(Box::new(job));
        }
    }

    /// Waits for an answer of another lane, if `begun` also of one that ends. Whoever waits
    /// still answers others: two lanes may ask each other.
    fn answer<R>(&mut self, lane: usize, wait: &mpsc::Receiver<R>, begun: bool) -> Option<R> {
        for _ in 0..ANSWER_TIMEOUT.as_millis() {
            let served = self.shared.mailboxes[lane].is_served();
            match wait.recv_timeout(Duration::from_millis(1)) {
                Ok(result) => return Some(result),
                Err(mpsc::RecvTimeoutError::Timeout) if !served && !begun => break, // it has ended
                Err(mpsc::RecvTimeoutError::Timeout) => self.read_messages(),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        None
    }

    fn read_any(&mut self, element: usize, handler: &str, parameter: &str) -> Result<String, Refused> {
        if self.row(element, handler).is_some() {
            return self.read_here(element, handler, parameter);
        }
        let mut of_all = self.named(None).rows_of_all(element);
        if let Some(ElementRow { read, .. }) = of_all.find(|row| row.handler.name == handler) {
            return Ok(read(self, element));
        }
        let row = self.named(None).task_rows(element).iter().find(|row| row.handler.name == handler);
        let (Some(row), Some(task)) = (row, self.tasks.of(element).next()) else {
            return Err(self.unknown(element, handler));
        };
        Ok((row.read)(self, task))
    }

    fn write_any(&mut self, element: usize, handler: &str, value: &str) -> Result<(), Refused> {
        if self.row(element, handler).is_some() {
            return self.write_here(element, handler, value);
        }
        let row = self.named(None).task_rows(element).iter().find(|row| row.handler.name == handler);
        let (Some(row), Some(task)) = (row, self.tasks.of(element).next()) else {
            return Err(self.unknown(element, handler));
        };
        (row.write)(self, task, value)
    }

    /// Reads a handler of the class's of an element that is in this lane.
    pub(crate) fn read_here(
        &mut self,
        element: usize,
        handler: &str,
        parameter: &str,
    ) -> Result<String, Refused> {
        let Some(row) = self.row(element, handler) else { return Err(Refused::NoHandler(handler.into())) };
        let handlers = self.shared.plan.elements[element].kind.handlers;
        let read = self.with_real(element, |e, cx| handlers.read(row, e, cx, (handler, parameter)));
        self.deliver(element);
        read.unwrap_or_else(|| Err(Refused::Busy(self.shared.name(element).to_string())))
    }

    /// Writes a handler of the class's of an element that is in this lane; later, if it
    /// is at work.
    pub(crate) fn write_here(&mut self, element: usize, handler: &str, value: &str) -> Result<(), Refused> {
        let Some(row) = self.row(element, handler) else { return Err(Refused::NoHandler(handler.into())) };
        let handlers = self.shared.plan.elements[element].kind.handlers;
        let written = self.with_real(element, |e, cx| handlers.write(row, e, cx, (handler, value)));
        match written {
            Some(result) => {
                self.deliver(element);
                result
            }
            None => {
                let at_work = self.holder(element);
                let (handler, value) = (handler.to_string(), value.to_string());
                self.slots[at_work].late.push(Late { of: Some(element), from: element, handler, value });
                Ok(())
            }
        }
    }

    /// An element's handlers, as Click lists them: the last one first.
    fn list_handlers(&self, element: usize) -> String {
        let planned = &self.shared.plan.elements[element];
        let kind = planned.kind;
        let of_own = |name| kind.handlers().find(|own| own.name == name);
        let tasks = self.named(None).task_rows(element).iter().rev().map(|row| row.handler);
        let tasks = tasks.filter(|row| of_own(row.name).is_none());
        let config = match (kind.live, kind.config_changes) {
            (true, true) => LIVE_CONFIG.marked(""),
            (true, false) => LIVE_CONFIG,
            (false, _) => CONFIG,
        };
        // One of its own that all have stands where all have it.
        let of_all = || self.named(None).rows_of_all(element);
        let all = of_all().rev().map(|row| match row.handler.name {
            name @ "config" => of_own(name).unwrap_or(config),
            name => of_own(name).unwrap_or(row.handler),
        });
        let is_for_all = |name: &str| of_all().any(|row| row.handler.name == name);
        let mut own: Vec<(&str, Handler)> = vec![];
        for row in (0..kind.handlers.len()).rev() {
            let common = kind.handlers.common(row).filter(|handler| !is_for_all(handler.name));
            own.extend(common.map(|handler| (handler.name, handler)));
            let further = planned.further_handlers.iter().rev().filter(|(_, of)| *of == row);
            own.extend(further.map(|(name, _)| (name.as_str(), kind.handlers.handler(row))));
        }
        let named = |h: Handler| (h.name, h);
        list(tasks.map(named).chain(own).chain(all.map(named)))
    }

    fn read_global(&mut self, name: &str) -> Result<String, Refused> {
        let row = self.named(None).router_rows().find(|row| row.handler.name == name);
        let read = row.and_then(|row| row.read).ok_or_else(|| Refused::NotReadable(name.into()))?;
        Ok(read(self))
    }

    fn write_global(&mut self, from: Option<usize>, name: &str, value: &str) -> Result<(), Refused> {
        let row = self.named(None).router_rows().find(|row| row.handler.name == name);
        let write = row.and_then(|row| row.write).ok_or_else(|| Refused::NotWritable(name.into()))?;
        write(self, from, value)
    }
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
        let _ = writeln!(out, "{name}\t{flags}{}", handler.marks.replace(['-', '/'], ""));
    }
    out
}
