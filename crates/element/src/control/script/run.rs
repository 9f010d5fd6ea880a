//! How a script goes on: one instruction after the other, until it waits or ends.

use std::io::Write;

use graph::Cx;
use graph::lang::args::shift_word;

use super::instruction::Instruction;
use super::{Cause, MOST_JUMPS, Rest, Script, Target, functions, plain, span};

/// What comes of an instruction.
enum Flow {
    On,
    Waits,
    Ends(Rest),
}

impl Script {
    /// Goes on for so many steps.
    fn step(&mut self, cx: &mut Cx<'_>, steps: i64, cause: Cause, mut jumps: usize) -> usize {
        let target = steps + self.steps;
        self.rest = Rest::Waits;
        while target >= self.steps && self.position < self.instructions.len() && jumps < MOST_JUMPS {
            let at = self.position;
            self.position += 1;
            match self.execute(cx, at, target, cause) {
                Flow::On => {}
                Flow::Waits => {
                    self.position = at;
                    break;
                }
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
    fn execute(&mut self, cx: &mut Cx<'_>, at: usize, target: i64, cause: Cause) -> Flow {
        match self.instructions[at].clone() {
            Instruction::Initial => {
                if self.counts[at] > 0 {
                    (self.steps, self.counts[at]) = (self.steps + 1, 0);
                }
            }
            Instruction::WaitStep(wanted) => {
                while self.steps < target && self.counts[at] < wanted {
                    self.counts[at] += 1;
                    self.steps += 1;
                }
                if self.steps == target && self.counts[at] < wanted {
                    return Flow::Waits;
                }
            }
            Instruction::WaitTime(time) => return self.wait(cx, &time, target),
            Instruction::Stop => {
                self.steps += 1;
                return Flow::Ends(Rest::Stop);
            }
            Instruction::Write { call, unquote } => {
                let call = self.expand(cx, &call, false);
                let written = self.call_write(cx, &call, unquote);
                self.write_failed = written.is_err();
                if let Err(error) = written {
                    self.complain(format!("While calling '{call}':\n  {error}"));
                }
            }
            Instruction::Read { call, unquote } => {
                let call = self.expand(cx, &call, false);
                match self.call_read(cx, &call, unquote) {
                    Ok((name, value)) => cx.say(&format!("{name}:\n{value}\n\n")),
                    Err(error) => self.complain(format!("While calling '{call}':\n  {error}")),
                }
            }
            Instruction::Print { text, newline, unquote } => self.print(cx, &text, newline, unquote),
            Instruction::Set { variable, value, unquote } => {
                let value = self.expand(cx, &value, false);
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
                if !message.is_empty() {
                    self.complain(message);
                }
                return Flow::Ends(Rest::Error);
            }
            Instruction::End => return Flow::Ends(Rest::End),
            Instruction::Exit => return Flow::Ends(Rest::Exit),
            Instruction::Label(_) | Instruction::Init { .. } => {}
        }
        let _ = cause;
        Flow::On
    }

    fn wait(&mut self, cx: &mut Cx<'_>, time: &str, target: i64) -> Flow {
        if self.steps == target {
            let time = self.expand(cx, time, false);
            match (span(&time), self.timer) {
                (Some(span), Some(timer)) => {
                    cx.set_timer_after(timer, span);
                    return Flow::Waits;
                }
                _ => self.complain("syntax error at 'wait'"),
            }
            return Flow::Waits;
        }
        self.steps += 1;
        self.timer.inspect(|timer| cx.clear_timer(*timer));
        Flow::On
    }

    fn goto(&mut self, cx: &mut Cx<'_>, at: usize, label: &str, condition: &str) -> Flow {
        let condition = self.expand(cx, condition, false);
        let holds = match condition.trim() {
            "" => true,
            text => match functions::boolean(text) {
                Ok(holds) => holds,
                Err(_) => {
                    self.complain(format!("bad condition '{condition}'"));
                    false
                }
            },
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
            let (name, rest) = shift_word(rest.trim_start_matches('>'));
            (text, file) = (rest, Some((plain(name), append)));
        }
        let mut out = if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@' || c == '_') {
            let call = self.expand(cx, text, false);
            match self.call_read(cx, &call, unquote) {
                Ok((_, value)) => value,
                Err(error) => return self.complain(format!("While calling '{call}':\n  {error}")),
            }
        } else {
            let text = self.expand(cx, text, true);
            plain(&text)
        };
        if newline && !out.ends_with('\n') {
            out.push('\n');
        }
        match file {
            None => cx.print(&out),
            Some((name, _)) if name.is_empty() || name == "-" => cx.print(&out),
            Some((name, append)) => {
                let mut options = std::fs::OpenOptions::new();
                let options = options.create(true).write(true).append(append).truncate(!append);
                if let Err(error) = options.open(&name).and_then(|mut f| f.write_all(out.as_bytes())) {
                    self.complain(format!("{name}: {error}"));
                }
            }
        }
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
    }
}
