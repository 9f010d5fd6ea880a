//! A script's own handlers: functions, variables, and being told to run.

use graph::lang::args::shift_word;
use graph::{Cx, Refused};

use super::{Cause, DEEPEST, Kind, Rest, Script, Target, functions};

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
    pub(super) fn named_variable(&mut self, text: &str) -> Result<&mut String, Refused> {
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

    pub(super) fn set(&mut self, value: &str) -> Result<(), Refused> {
        match shift_word(value) {
            ("", _) => return Err("no variable".into()),
            ("args", value) => self.arguments = value.to_string(),
            (variable, value) => drop(self.variables.insert(variable.to_string(), value.to_string())),
        }
        Ok(())
    }

    pub(super) fn jump(&mut self, cx: &mut Cx<'_>, label: &str) -> Result<(), Refused> {
        let Some(Target::Line(line)) = self.target(label.trim()) else {
            return Err("jump to nonexistent label".into());
        };
        self.forget_waits(line, self.instructions.len());
        self.position = line;
        self.go(cx, 0, Cause::Jump);
        Ok(())
    }

    pub(super) fn write_step(&mut self, cx: &mut Cx<'_>, steps: &str) -> Result<(), Refused> {
        let (steps, cause) = match steps.trim() {
            "" => (1, Cause::Step),
            "router" => (1, Cause::Router),
            steps => (steps.parse::<i32>().map_err(|_| "syntax error")?, Cause::Step),
        };
        match &mut self.more_steps {
            Some(more) => *more = more.saturating_add(i64::from(steps)),
            None => self.go(cx, i64::from(steps), cause),
        }
        Ok(())
    }

    pub(super) fn shift(&mut self, name: &str) -> Result<String, Refused> {
        let value = self.named_variable(if name.trim().is_empty() { "args" } else { name })?;
        let (first, rest) = shift_word(value);
        let (first, rest) = (first.to_string(), rest.to_string());
        *value = rest;
        Ok(first)
    }

    /// The names that a script answers to beside its class's: any, if it is a proxy.
    pub(super) fn proxy_names(&self) -> Vec<String> {
        (self.kind == Kind::Proxy).then(|| "*".to_string()).into_iter().collect()
    }

    pub(super) fn read_function(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Result<String, Refused> {
        self.answer(cx, |_, _| functions::call(name, parameter).map_err(Refused::Failed))
    }

    /// Reads an exported variable; runs the script for any other name.
    pub(super) fn read_other(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Result<String, Refused> {
        match self.exports.iter().any(|export| export == name) {
            true => Ok(self.variables.get(name).cloned().unwrap_or_default()),
            false => self.run_with(cx, name, parameter, false),
        }
    }
}
