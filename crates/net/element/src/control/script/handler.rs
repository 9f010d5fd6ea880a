//! A script's own handlers: functions, variables, and being told to run.

use graph::class::{Handler, Handlers, ask, call, named, write};
use graph::lang::args::{shift_word, words};
use graph::{Cx, Refused};

use super::{Cause, DEEPEST, Rest, Script, ScriptKind, Target, functions};

/// In the order in which Click has them.
pub(super) const HANDLERS: Handlers<Script> = Handlers(&[
    write("step", "goes on for so many steps", |script, cx, value| {
        script.answer(cx, |script, cx| script.write_step(cx, value))
    }),
    write("goto", "goes on at a label", |script, cx, value| {
        script.answer(cx, |script, cx| script.jump(cx, value))
    }),
    write(
        "run",
        "runs from the beginning with arguments; reads what it returns",
        |script: &mut Script, cx, value| {
            script.answer(cx, |script, cx| script.run_with(cx, "run", value, true).map(drop))
        },
    )
    .and_call(|script, cx, parameter| script.answer(cx, |script, cx| script.read_other(cx, "run", parameter)))
    .marked("+"),
    named("a function", |_: &Script| functions::names(functions::PUBLIC[0]), Script::read_function)
        .marked("+"),
    ask("random", "a random number, below N, or from N1 to N2", |script, cx, parameter| {
        script.answer(cx, |_, _| random(parameter))
    }),
    named("a function", |_: &Script| functions::names(functions::PUBLIC[1]), Script::read_function)
        .marked("+"),
    call("now", "the time in seconds", |script, cx, _| script.answer(cx, |_, cx| Ok(now(cx)))),
    ask("readable", "whether handlers can be read", |script, cx, names| {
        script.answer(cx, |_, cx| Ok(all_handlers(cx, names, |handler| handler.read)))
    }),
    ask("writable", "whether handlers can be written", |script, cx, names| {
        script.answer(cx, |_, cx| Ok(all_handlers(cx, names, |handler| handler.write)))
    }),
    named("a function", |_: &Script| functions::names(functions::PUBLIC[2]), Script::read_function)
        .marked("+"),
    named("a function", |_: &Script| functions::names(functions::PRIVATE), Script::read_function)
        .marked("+-"),
    ask("get", "a variable's value", |script, cx, name| {
        script.answer(cx, |script, _| Ok(script.named_variable(name)?.clone()))
    }),
    write("set", "sets a variable", |script, cx, value| script.answer(cx, |script, _| script.set(value))),
    ask("shift", "takes the first word off a variable", |script, cx, name| {
        script.answer(cx, |script, _| script.shift(name))
    }),
    named("runs the script", Script::proxy_names, |script, cx, name, parameter| {
        script.answer(cx, |script, cx| script.read_other(cx, name, parameter))
    })
    .and_write(|script, cx, name, value| {
        script.answer(cx, |script, cx| script.run_with(cx, name, value, true).map(drop))
    })
    .marked("+"),
    named(
        "an exported variable",
        |script| script.exports.clone(),
        |script, cx, name, parameter| script.answer(cx, |script, cx| script.read_other(cx, name, parameter)),
    ),
]);

impl Script {
    pub(super) fn result(&self) -> String {
        match self.rest {
            Rest::Return => self.variables.get("_").cloned().unwrap_or_default(),
            Rest::End if self.kind == ScriptKind::Packet => "0".into(),
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
        (self.kind == ScriptKind::Proxy).then(|| "*".to_string()).into_iter().collect()
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

/// The time in seconds.
fn now(cx: &Cx<'_>) -> String {
    let (seconds, ns) = (cx.now_ns() / 1_000_000_000, cx.now_ns() % 1_000_000_000);
    match ns % 1_000 {
        0 => format!("{seconds}.{:06}", ns / 1_000),
        _ => format!("{seconds}.{ns:09}"),
    }
}

/// Whether all handlers named are there, and as they should be.
fn all_handlers(cx: &Cx<'_>, names: &str, fits: fn(&Handler) -> bool) -> String {
    let can = |name: &&str| cx.named().handler_of(name).is_ok_and(|handler| fits(&handler));
    words(names).iter().all(can).to_string()
}

fn random(parameter: &str) -> Result<String, Refused> {
    let numbers: Option<Vec<u64>> = words(parameter).iter().map(|w| w.parse().ok()).collect();
    let (low, high) = match numbers.as_deref() {
        Some([]) => (0, u64::from(u32::MAX >> 1)),
        Some([n]) if *n > 0 => (0, n - 1),
        Some([low, high]) if low <= high => (*low, *high),
        _ => return Err("bad N".into()),
    };
    Ok((low + graph::random::below((high - low).saturating_add(1))).to_string())
}
