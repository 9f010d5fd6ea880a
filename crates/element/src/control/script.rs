//! `Script` and `DriverManager`: what a router does beside packets, written in its
//! configuration.
//!
//! A script is a list of instructions and the place it has come to. It goes on when
//! a timer fires, when the router is about to stop (a driver's script), when a
//! packet comes (a packet script), or when a handler says so.

mod functions;
mod handler;
mod instruction;
mod run;

use std::cell::RefCell;
use std::collections::BTreeMap;

use graph::class::{Handler, both, keyword, read, rest, write};
use graph::lang::args::{shift_word, unquote_text, words};
use graph::lang::variable::{Form, Variables, expand};
use graph::timer::TimerId;
use graph::value::{Scope, Span, Value};
use graph::{Class, Conf, Cx, Element, Fault, Next, Refused, Setup};
use memory::Batch;

use instruction::Instruction;

/// Jumps after which a script is taken to be in an endless loop.
const MOST_JUMPS: usize = 1_000_000;
/// Scripts that call each other, one within the other.
const DEEPEST: usize = 50;

/// The class of scripts.
pub static CLASS: Class = Class {
    name: "Script",
    brief: "runs a list of instructions",
    doc: "Instructions: `wait TIME`, `wait_step [N]` (also `wait`, `pause`, `wait_stop`), `write HANDLER \
          VALUE`, `read HANDLER`, `print [>FILE|>>FILE] TEXT|HANDLER`, `printn`, `save HANDLER FILE`, `append`, \
          `set VAR VALUE`, `init`, `export`, `return VALUE`, `label NAME`, `goto NAME [CONDITION]`, `loop`, \
          `error TEXT`, `end`, `exit`, `stop`; `writeq`, `readq`, `printq`, `setq`, `returnq` take quotes off. \
          `$name` is a variable, `$1` an argument of `run`, `$(handler parameters)` what a handler reads, \
          `$(add 1 2)` a function.\n\n\
          TYPE: ACTIVE runs by itself; PASSIVE when `run` is written or read; PACKET for each packet, which \
          leaves at the output that is returned; DRIVER when the router is about to stop; SIGNAL NAME when \
          the process gets a signal; PROXY answers any handler.",
    ports: "-/-",
    processing: "a/ah",
    arguments: &[
        keyword("TYPE", "ACTIVE, PASSIVE, PACKET, DRIVER, SIGNAL NAME or PROXY; ACTIVE without ports"),
        rest("INSTRUCTION", "what it does, in order"),
    ],
    handlers: &[
        write("step", "goes on for so many steps"),
        write("goto", "goes on at a label"),
        both("run", "runs from the beginning with arguments; reads what it returns"),
        write("set", "sets a variable"),
        read("get", "a variable's value"),
        read("shift", "takes the first word off a variable"),
        read("now", "the time in seconds"),
        read("random", "a random number, below N, or from N1 to N2"),
        read("readable", "whether handlers can be read"),
        read("writable", "whether handlers can be written"),
    ],
    drops: &["script returned no output"],
    phase: Class::LATE,
    example: "Script(wait 1s, read c.count, loop)",
    see: &["DriverManager", "ControlSocket"],
    make: |setup, conf| make(setup, conf, None),
    ..Class::BASE
};

/// The class of a driver's scripts.
pub static DRIVER_MANAGER: Class = Class {
    name: "DriverManager",
    brief: "runs a list of instructions when the router would stop",
    doc: "A Script of TYPE DRIVER: `wait` waits until an element wants the router to stop; after the last \
          instruction it does. Instructions are those of Script.",
    ports: "0/0",
    example: "DriverManager(wait, read c.count, stop)",
    see: &["Script"],
    make: |setup, conf| make(setup, conf, Some(Kind::Driver)),
    ..CLASS
};

/// When a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Active,
    Passive,
    Packet,
    Driver,
    Signal,
    Proxy,
}

/// What makes a script go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Step,
    Router,
    Timer,
    Jump,
}

/// How a script came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It waits, or is at its end.
    Waits,
    End,
    Exit,
    Stop,
    Error,
    Return,
}

/// See [`CLASS`].
#[derive(Debug)]
pub struct Script {
    name: String,
    kind: Kind,
    instructions: Vec<Instruction>,
    /// Steps that each `wait_step` has waited, and whether the beginning was passed.
    counts: Vec<u32>,
    position: usize,
    steps: i64,
    rest: Rest,
    variables: BTreeMap<String, String>,
    exports: Vec<String>,
    arguments: String,
    handler: String,
    writes: bool,
    write_failed: bool,
    timer: Option<TimerId>,
    /// Handlers of its own being called, one within the other.
    depth: usize,
    /// What it was told to do while at work.
    more_steps: Option<i64>,
    errors: Vec<String>,
}

fn make(setup: &mut Setup<'_>, conf: &mut Conf<'_>, kind: Option<Kind>) -> Result<Box<dyn Element>, Fault> {
    let ports = setup.inputs + setup.outputs > 0;
    let said: Option<graph::value::Raw> = conf.keyword("TYPE")?;
    let kind = match (said.as_ref().map(|s| shift_word(&s.0)), kind) {
        (Some(("ACTIVE", "")), _) => Kind::Active,
        (Some(("PASSIVE", "")), _) => Kind::Passive,
        (Some(("PACKET" | "PUSH", "")), _) => Kind::Packet,
        (Some(("DRIVER", "")), _) => Kind::Driver,
        (Some(("PROXY", "")), _) => Kind::Proxy,
        (Some(("SIGNAL", names)), _) if !names.is_empty() => Kind::Signal,
        (Some(_), _) => return Err("bad TYPE".into()),
        (None, Some(kind)) => kind,
        (None, None) if ports => Kind::Packet,
        (None, None) => Kind::Active,
    };
    if kind == Kind::Packet && setup.inputs == 0 {
        return Err("PACKET script must have inputs".into());
    }
    if kind != Kind::Packet && ports {
        return Err("ports allowed only on PACKET scripts".into());
    }
    let mut instructions = vec![];
    for argument in conf.rest() {
        instructions.extend(instruction::parse(&argument)?);
    }
    conf.complete()?;
    let last = if kind == Kind::Driver { Instruction::Stop } else { Instruction::End };
    match instructions.first() {
        None if kind == Kind::Driver => instructions.push(Instruction::WaitStep(1)),
        Some(Instruction::WaitStep(_) | Instruction::WaitTime(_)) => {}
        _ => instructions.insert(0, Instruction::Initial),
    }
    instructions.push(last);
    let exports = instructions.iter().filter_map(|i| match i {
        Instruction::Init { variable, export: true, .. } => Some(variable.clone()),
        _ => None,
    });
    let script = Script {
        exports: exports.collect(),
        name: format!("{} :: {}", setup.name, setup.class),
        kind,
        counts: vec![0; instructions.len()],
        instructions,
        position: 0,
        steps: 0,
        rest: Rest::Waits,
        variables: BTreeMap::new(),
        arguments: String::new(),
        handler: String::new(),
        writes: false,
        write_failed: false,
        timer: None,
        depth: 0,
        more_steps: None,
        errors: vec![],
    };
    script.check_labels()?;
    Ok(Box::new(script))
}

/// Where a label leads.
enum Target {
    Line(usize),
    /// `goto end` does as `end` does.
    Rest(Rest),
}

impl Script {
    fn target(&self, label: &str) -> Option<Target> {
        let named = |i: &Instruction| matches!(i, Instruction::Label(l) if l == label);
        if let Some(line) = self.instructions.iter().position(named) {
            return Some(Target::Line(line));
        }
        Some(match label {
            "end" => Target::Rest(Rest::End),
            "exit" => Target::Rest(Rest::Exit),
            "stop" => Target::Rest(Rest::Stop),
            "error" => Target::Rest(Rest::Error),
            "begin" | "loop" | "" => Target::Line(0),
            _ => return None,
        })
    }

    fn check_labels(&self) -> Result<(), Fault> {
        for instruction in &self.instructions {
            if let Instruction::Goto { label, .. } = instruction
                && self.target(label).is_none()
            {
                return Err(Fault::new(format!("no such label '{label}'")));
            }
        }
        Ok(())
    }

    /// Replaces variables and calls in a text.
    fn expand(&mut self, cx: &mut Cx<'_>, text: &str, quoted: bool) -> String {
        if !text.contains('$') {
            return text.to_string();
        }
        let names = Names(RefCell::new((self, cx)));
        expand(text, &names, quoted, 0).into_owned()
    }

    /// A variable's value, of the script's own or of its caller's.
    fn variable(&self, name: &str) -> Option<String> {
        if let Some(value) = self.variables.get(name) {
            return Some(value.clone());
        }
        let argument = |n: usize| words(&self.arguments).get(n - 1).map_or(String::new(), |w| w.to_string());
        Some(match name {
            "?" => if self.write_failed { "-1" } else { "0" }.to_string(),
            "args" => self.arguments.clone(),
            "$" => std::process::id().to_string(),
            "0" => self.handler.clone(),
            "#" => words(&self.arguments).len().to_string(),
            "write" => self.writes.to_string(),
            _ => match name.parse() {
                Ok(n @ 1..) => argument(n),
                _ => return None,
            },
        })
    }

    /// Reads a handler: the script's own first, then any other by its full name.
    fn call_read(&mut self, cx: &mut Cx<'_>, call: &str, unquote: bool) -> Result<(String, String), String> {
        let (name, parameter) = shift_word(call);
        let parameter = if unquote { plain(parameter) } else { parameter.to_string() };
        let own =
            name.strip_prefix(cx.name()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name).to_string();
        if !own.contains('.') && self.knows(&own) {
            let full = format!("{}.{own}", cx.name());
            return self.own_read(cx, &own, &parameter).map(|value| (full, value)).map_err(|e| e.to_string());
        }
        let value = cx.read(name, &parameter).map_err(|e| e.to_string())?;
        Ok((cx.full_name(name), value))
    }

    fn call_write(&mut self, cx: &mut Cx<'_>, call: &str, unquote: bool) -> Result<(), String> {
        let (name, value) = shift_word(call);
        let value = if unquote { plain(value) } else { value.to_string() };
        let own =
            name.strip_prefix(cx.name()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name).to_string();
        if matches!(own.as_str(), "step" | "goto" | "run" | "set") {
            return self.own_write(cx, &own, &value).map_err(|e| e.to_string());
        }
        cx.write(name, &value).map_err(|e| e.to_string())
    }

    fn knows(&self, name: &str) -> bool {
        functions::NAMES.contains(&name)
            || matches!(name, "run" | "get" | "shift" | "now" | "random" | "readable" | "writable")
            || self.exports.iter().any(|e| e == name)
    }

    fn complain(&mut self, message: impl Into<String>) {
        self.errors.push(message.into());
    }

    /// Prints what went wrong, as Click does.
    fn report(&mut self, cx: &Cx<'_>) {
        if self.errors.is_empty() {
            return;
        }
        // What was called stands as far left as who called it: those who filter Click's
        // output look for lines that begin with it.
        let line = |e: String| match e.starts_with("While ") {
            true => e + "\n",
            false => format!("  {}\n", e.replace('\n', "\n  ")),
        };
        let lines: String = self.errors.drain(..).map(line).collect();
        cx.say(&format!("While executing '{}':\n{lines}", self.name));
    }
}

/// What a script's texts may name.
struct Names<'s, 'c, 'l>(RefCell<(&'s mut Script, &'c mut Cx<'l>)>);

impl Variables for Names<'_, '_, '_> {
    fn value(&self, name: &str, form: Form, _: usize) -> Option<String> {
        // A call within a call's text was replaced before, so this is never borrowed.
        let mut inner = self.0.try_borrow_mut().ok()?;
        let (script, cx) = &mut *inner;
        if form != Form::Parentheses {
            return script.variable(name);
        }
        match script.call_read(cx, name, false) {
            Ok((_, value)) => Some(value),
            Err(error) => {
                script.complain(format!("While calling '{name}':\n  {error}"));
                None
            }
        }
    }
}

fn plain(text: &str) -> String {
    unquote_text(text).unwrap_or_else(|| text.to_string())
}

fn span(text: &str) -> Option<i64> {
    let names = graph::value::Names::default();
    Span::parse(text, &Scope { element: "", names: &names }).ok().map(|span| span.0)
}

fn random(parameter: &str) -> Result<String, Refused> {
    let numbers: Option<Vec<u64>> = words(parameter).iter().map(|w| w.parse().ok()).collect();
    let (low, high) = match numbers.as_deref() {
        Some([]) => (0, u64::from(u32::MAX >> 1)),
        Some([n]) if *n > 0 => (0, n - 1),
        Some([low, high]) if low <= high => (*low, *high),
        _ => return Err("bad N".into()),
    };
    let state = std::hash::RandomState::new();
    let draw = std::hash::BuildHasher::hash_one(&state, 0u8);
    Ok((low + draw % (high - low).saturating_add(1).max(1)).to_string())
}

impl Element for Script {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let timer = cx.new_timer();
        self.timer = Some(timer);
        for at in 0..self.instructions.len() {
            if let Instruction::Init { variable, value, unquote, .. } = self.instructions[at].clone() {
                let value = self.expand(cx, &value, false);
                self.variables.insert(variable, if unquote { plain(&value) } else { value });
            }
        }
        if matches!(self.kind, Kind::Active | Kind::Driver) {
            match self.instructions[0].clone() {
                Instruction::WaitTime(time) => {
                    let time = self.expand(cx, &time, false);
                    let span = span(&time).ok_or("syntax error at 'wait'")?;
                    cx.set_timer_after(timer, span);
                }
                Instruction::Initial => {
                    self.counts[0] = 1;
                    if self.kind == Kind::Driver {
                        cx.adjust_runs(-1); // called at once
                    } else {
                        cx.set_timer_after(timer, 0);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        self.go(cx, 1, Cause::Timer);
        self.report(cx);
    }

    fn stopping(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.kind != Kind::Driver {
            return false;
        }
        self.go(cx, 1, Cause::Router);
        self.report(cx);
        self.rest != Rest::Stop
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        while let Some(packet) = batch.pop_front() {
            self.variables.insert("input".into(), input.to_string());
            self.position = 0;
            self.go(cx, 0, Cause::Jump);
            self.report(cx);
            match self.result().trim().parse::<usize>() {
                Ok(output) if output < cx.outputs() => cx.emit(output, packet),
                _ => cx.drop(0, packet),
            }
        }
        Next::Done
    }

    fn handlers(&self) -> Vec<(String, Handler)> {
        let exported = self.exports.iter().map(|name| (name.clone(), read("export", "an exported variable")));
        let functions =
            functions::NAMES.iter().map(|name| (name.to_string(), read("function", "a function")));
        exported.chain(functions).collect()
    }

    fn read(&mut self, cx: &mut Cx<'_>, handler: &str, parameter: &str) -> Result<String, Refused> {
        let result = self.own_read(cx, handler, parameter);
        self.report(cx);
        result
    }

    fn write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        let result = self.own_write(cx, handler, value);
        self.report(cx);
        result
    }
}
