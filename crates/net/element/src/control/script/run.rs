//! How a script goes on: one instruction after the other, until it waits or ends.

use std::any::Any;
use std::io::Write;

use graph::lang::args::shift_word;
use graph::run::shared::CONTINUED;
use graph::{Cx, Element, Refused};

use super::instruction::Instruction;
use super::{Cause, EINVAL, MOST_JUMPS, Rest, Script, Target, cause, functions, plain, span};

/// Bytes of a variable: one that is set to twice itself in a loop must not fill memory.
const LONGEST: usize = 1 << 20;

/// What comes of an instruction.
enum Flow {
    On,
    Waits,
    /// It stands behind an instruction that made no sense.
    Halts,
    Ends(Rest),
}

impl Script {
    /// Goes on for so many steps.
    fn step(&mut self, cx: &mut Cx<'_>, steps: i64, cause: Cause, mut jumps: usize) -> usize {
        let target = steps.saturating_add(self.steps);
        self.rest = Rest::Waits;
        while target >= self.steps && self.position < self.instructions.len() && jumps < MOST_JUMPS {
            let at = self.position;
            self.position += 1;
            match self.execute(cx, at, target) {
                Flow::On => {}
                Flow::Waits => {
                    self.position = at;
                    break;
                }
                Flow::Halts => break,
                Flow::Ends(rest) => {
                    (self.position, self.rest) = (at, rest);
                    if rest == Rest::Stop && cause != Cause::Router {
                        cx.adjust_runs(-1);
                    }
                    if rest != Rest::Return {
                        return jumps + 1;
                    }
                    break;
                }
            }
            if self.position != at + 1 {
                jumps += 1;
            }
        }
        if jumps >= MOST_JUMPS {
            cx.say(&format!("{}: too many jumps, giving up\n", self.name));
            self.position = self.instructions.len();
            self.timer.inspect(|timer| cx.clear_timer(*timer));
        }
        if cause == Cause::Router {
            cx.adjust_runs(1);
        }
        jumps + 1
    }

    /// Does one instruction.
    fn execute(&mut self, cx: &mut Cx<'_>, at: usize, target: i64) -> Flow {
        match self.instructions[at].clone() {
            Instruction::Initial => {
                if self.counts[at] > 0 {
                    (self.steps, self.counts[at]) = (self.steps + 1, 0);
                }
            }
            Instruction::WaitStep(wanted) => {
                let left = wanted.saturating_sub(self.counts[at]);
                let more = target.saturating_sub(self.steps).clamp(0, i64::from(left));
                self.counts[at] += more as u32; // at most `left`
                self.steps += more;
                if self.steps == target && self.counts[at] < wanted {
                    return Flow::Waits;
                }
            }
            Instruction::WaitTime(time) => return self.wait(cx, &time, target),
            Instruction::Stop => {
                self.steps += 1;
                return Flow::Ends(Rest::Stop);
            }
            Instruction::Write { call, unquote } => return self.write(cx, &call, unquote),
            Instruction::Read { call, unquote } => self.read(cx, &call, unquote),
            Instruction::Print { text, newline, unquote } => self.print(cx, &text, newline, unquote),
            Instruction::Set { variable, value, unquote } => {
                let value = self.expand(cx, &value, false);
                if value.len() > LONGEST {
                    self.complain(cx, &format!("{variable}: longer than {LONGEST} bytes"));
                    return Flow::Ends(Rest::Error);
                }
                self.variables.insert(variable, if unquote { plain(&value) } else { value });
            }
            Instruction::Return { value, unquote } => {
                let value = self.expand(cx, &value, false);
                self.variables.insert("_".into(), if unquote { plain(&value) } else { value });
                if self.position == at + 1 {
                    return Flow::Ends(Rest::Return);
                }
            }
            Instruction::Goto { label, condition } => return self.goto(cx, at, &label, &condition),
            Instruction::Error { message, unquote } => {
                let message = self.expand(cx, &message, false);
                let message = if unquote { plain(&message) } else { message };
                self.complain(cx, &message);
                return Flow::Ends(Rest::Error);
            }
            Instruction::End => return Flow::Ends(Rest::End),
            Instruction::Exit => return Flow::Ends(Rest::Exit),
            Instruction::Label(_) | Instruction::Init { .. } => {}
        }
        Flow::On
    }

    /// Writes a handler; the script's status says how that went.
    fn write(&mut self, cx: &mut Cx<'_>, call: &str, unquote: bool) -> Flow {
        let call = self.expand(cx, call, false);
        let written = self.call_write(cx, &call, unquote);
        self.status = match &written {
            Ok(()) => 0,
            Err(Refused::Aborted(_)) => -1,
            Err(refused) if refused.is_uncalled() => self.status,
            Err(_) => EINVAL,
        };
        self.complain_of(cx, Some(&unparsed(cx, &call, unquote)), written.as_ref().err());
        if !cx.is_replaced() {
            return Flow::On;
        }
        self.is_moved = true; // it goes on in the new router
        Flow::Halts
    }

    /// Reads a handler, and prints its name and value.
    fn read(&mut self, cx: &mut Cx<'_>, call: &str, unquote: bool) {
        let call = self.expand(cx, call, false);
        match self.call_read(cx, &call, unquote) {
            Ok((name, value)) => {
                self.complain_of(cx, Some(&unparsed(cx, &call, unquote)), None);
                cx.say(&format!("{name}:\n{value}\n"));
            }
            Err(refused) => {
                self.complain_of(cx, Some(&unparsed(cx, &call, unquote)), Some(&refused));
                if !refused.is_uncalled() {
                    cx.say(&format!("{}:\n\n", cx.full_name(shift_word(&call).0)));
                }
            }
        }
    }

    fn wait(&mut self, cx: &mut Cx<'_>, time: &str, target: i64) -> Flow {
        if self.steps == target {
            let time = self.expand(cx, time, false);
            match (span(&time), self.timer) {
                (Some(span), Some(timer)) => {
                    cx.set_timer_after(timer, span);
                    return Flow::Waits;
                }
                _ => self.complain(cx, "syntax error at 'wait'"),
            }
            return Flow::Halts;
        }
        self.steps += 1;
        self.timer.inspect(|timer| cx.clear_timer(*timer));
        Flow::On
    }

    fn goto(&mut self, cx: &mut Cx<'_>, at: usize, label: &str, condition: &str) -> Flow {
        let condition = self.expand(cx, condition, false);
        let holds = match condition.trim() {
            "" => true,
            text => functions::boolean(text).unwrap_or_else(|_| {
                self.complain(cx, &format!("bad condition '{condition}'"));
                false
            }),
        };
        match self.target(label).filter(|_| holds) {
            None => Flow::On,
            Some(Target::Rest(rest)) => Flow::Ends(rest),
            Some(Target::Line(line)) => {
                self.forget_waits(line, at);
                self.position = line;
                Flow::On
            }
        }
    }

    /// Waits between two places begin anew.
    pub(super) fn forget_waits(&mut self, from: usize, to: usize) {
        for line in from..to.max(from) {
            if matches!(self.instructions[line], Instruction::WaitStep(_)) {
                self.counts[line] = 0;
            }
        }
    }

    fn print(&mut self, cx: &mut Cx<'_>, text: &str, newline: bool, unquote: bool) {
        let (mut text, mut file) = (text, None);
        if let Some(rest) = text.strip_prefix('>') {
            let append = rest.starts_with('>');
            let (name, rest) = shift_word(rest.strip_prefix('>').unwrap_or(rest));
            text = rest;
            if !matches!(name, "" | "-") {
                let name = plain(name);
                let mut options = std::fs::OpenOptions::new();
                let options = options.create(true).write(true).append(append).truncate(!append);
                match options.open(&name) {
                    Ok(open) => file = Some((name, open)),
                    Err(error) => return self.complain(cx, &format!("{name}: {}", cause(&error))),
                }
            }
        }
        let before = self.complaints;
        let mut out = if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@' || c == '_') {
            let call = self.expand(cx, text, false);
            match self.call_read(cx, &call, unquote) {
                Ok((_, value)) => {
                    self.complain_of(cx, Some(&unparsed(cx, &call, unquote)), None);
                    value
                }
                Err(refused) => {
                    self.complain_of(cx, Some(&unparsed(cx, &call, unquote)), Some(&refused));
                    String::new()
                }
            }
        } else {
            let text = self.expand(cx, text, true);
            plain(&text)
        };
        if newline && !out.ends_with('\n') && self.complaints == before {
            out.push('\n');
        }
        match file {
            None => cx.print(&out),
            Some((name, mut file)) => {
                if let Err(error) = file.write_all(out.as_bytes()) {
                    self.complain(cx, &format!("{name}: {}", cause(&error)));
                }
            }
        }
    }

    /// Goes on from where a script of the router was that this one takes the place of, if
    /// it wrote the new configuration.
    pub(super) fn go_on_from(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn Any).downcast_mut::<Script>() else { return };
        if !old.is_moved || !cx.name().ends_with(CONTINUED) {
            return;
        }
        self.variables = std::mem::take(&mut old.variables);
        self.arguments = std::mem::take(&mut old.arguments);
        self.handler = std::mem::take(&mut old.handler);
        (self.writes, self.status) = (old.writes, old.status);
        (self.position, self.is_moved) = (old.position, true);
        self.timer.inspect(|timer| cx.set_timer_after(*timer, 0));
    }

    /// Runs on from where it is until it rests; what it says.
    pub(super) fn go(&mut self, cx: &mut Cx<'_>, steps: i64, cause: Cause) {
        if self.more_steps.is_some() {
            return; // it is at work already, and goes on from its new place
        }
        let (mut steps, mut cause, mut jumps) = (steps, cause, 0);
        while steps >= 0 {
            self.more_steps = Some(-1);
            jumps = self.step(cx, steps, cause, jumps);
            cause = Cause::Step;
            steps = self.more_steps.take().unwrap_or(-1);
        }
        self.more_steps = None;
        // A signal's script that came to its end is there for the next one.
        self.armed |= self.rest == Rest::End;
    }
}

/// A call as messages have it: the handler's full name, and what it is asked with.
fn unparsed(cx: &Cx<'_>, call: &str, unquote: bool) -> String {
    let (name, value) = shift_word(call);
    let value = if unquote { plain(value) } else { value.to_string() };
    let name = cx.full_name(name);
    if value.is_empty() { name } else { format!("{name} {value}") }
}
