//! A script's own handlers: functions, variables, and being told to run.

use graph::lang::args::{shift_word, words};
use graph::{Cx, Refused};

use super::{Cause, DEEPEST, Kind, Rest, Script, Target, functions, random};

impl Script {
    pub(super) fn result(&self) -> String {
        match self.rest {
            Rest::Return => self.variables.get("_").cloned().unwrap_or_default(),
            Rest::End if self.kind == Kind::Packet => "0".into(),
            _ => String::new(),
        }
    }

    pub(super) fn run_with(
        &mut self,
        cx: &mut Cx<'_>,
        handler: &str,
        arguments: &str,
        writes: bool,
    ) -> Result<String, Refused> {
        if self.depth >= DEEPEST {
            return Err("scripts call each other without end".into());
        }
        self.depth += 1;
        let kept = std::mem::replace(&mut self.arguments, arguments.to_string());
        let name = std::mem::replace(&mut self.handler, handler.to_string());
        (self.writes, self.position) = (writes, 0);
        self.forget_waits(0, self.instructions.len());
        self.go(cx, 0, Cause::Jump);
        self.depth -= 1;
        self.handler = name;
        // Arguments stay for a script that waits and goes on later.
        if self.rest != Rest::Waits || self.depth > 0 {
            self.arguments = kept;
        }
        if self.rest != Rest::Error {
            return Ok(self.result());
        }
        // What it was has been told. Who only reads is not told more than that.
        if writes { Err(Refused::Aborted(String::new())) } else { Ok(String::new()) }
    }

    /// The variable that `get` and `shift` are asked for.
    fn named_variable(&mut self, text: &str) -> Result<&mut String, Refused> {
        match shift_word(text) {
            ("", _) => Err("no variable".into()),
            ("args", "") => Ok(&mut self.arguments),
            (name, "") => {
                let unknown = || Refused::Failed(format!("undefined variable '{name}'"));
                self.variables.get_mut(name).ok_or_else(unknown)
            }
            _ => Err("too many arguments".into()),
        }
    }

    pub(super) fn own_write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        match handler {
            "set" => match shift_word(value) {
                ("", _) => return Err("no variable".into()),
                ("args", value) => self.arguments = value.to_string(),
                (variable, value) => drop(self.variables.insert(variable.to_string(), value.to_string())),
            },
            "goto" => {
                let Some(Target::Line(line)) = self.target(value.trim()) else {
                    return Err("jump to nonexistent label".into());
                };
                self.forget_waits(line, self.instructions.len());
                self.position = line;
                self.go(cx, 0, Cause::Jump);
            }
            "step" => {
                let (steps, cause) = match value.trim() {
                    "" => (1, Cause::Step),
                    "router" => (1, Cause::Router),
                    steps => (steps.parse::<i32>().map_err(|_| "syntax error")?, Cause::Step),
                };
                match &mut self.more_steps {
                    Some(more) => *more = more.saturating_add(i64::from(steps)),
                    None => self.go(cx, i64::from(steps), cause),
                }
            }
            handler => {
                self.run_with(cx, handler, value, true)?;
            }
        }
        Ok(())
    }

    pub(super) fn own_read(
        &mut self,
        cx: &mut Cx<'_>,
        handler: &str,
        parameter: &str,
    ) -> Result<String, Refused> {
        if functions::NAMES.contains(&handler) {
            return functions::call(handler, parameter).map_err(Refused::Failed);
        }
        match handler {
            "get" => Ok(self.named_variable(parameter)?.clone()),
            "shift" => {
                let value =
                    self.named_variable(if parameter.trim().is_empty() { "args" } else { parameter })?;
                let (first, rest) = shift_word(value);
                let (first, rest) = (first.to_string(), rest.to_string());
                *value = rest;
                Ok(first)
            }
            "now" => {
                let (seconds, ns) = (cx.now_ns() / 1_000_000_000, cx.now_ns() % 1_000_000_000);
                Ok(match ns % 1_000 {
                    0 => format!("{seconds}.{:06}", ns / 1_000),
                    _ => format!("{seconds}.{ns:09}"),
                })
            }
            "random" => random(parameter),
            "readable" | "writable" => {
                let can = |name: &&str| {
                    let found = cx.has_handler(name);
                    found.is_ok_and(|h| if handler == "readable" { h.read } else { h.write })
                };
                Ok(words(parameter).iter().all(can).to_string())
            }
            export if self.exports.iter().any(|e| e == export) => {
                Ok(self.variables.get(export).cloned().unwrap_or_default())
            }
            handler => self.run_with(cx, handler, parameter, false),
        }
    }
}
