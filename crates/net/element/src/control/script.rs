//! `Script` and `DriverManager`: what a router does beside packets, written in its
//! configuration.
//!
//! A script is a list of instructions and the place it has come to. It goes on when
//! a timer fires, when the router is about to stop (a driver's script), when a
//! packet comes (a packet script), or when a handler says so.

mod errors;
mod functions;
mod handler;
mod instruction;
mod needs;
mod run;
mod text;

use std::collections::BTreeMap;

use graph::class::{keyword, rest};
use graph::element::StopHook;
use graph::lang::args::{shift_word, unquote_text, words};
use graph::run::shared::CONTINUED;
use graph::value::{Span, parse_alone};
use graph::{Class, Conf, ConfFault, Cx, Element, Next, Refused, Setup, TimerId, Until, WatchId};
use memory::Batch;
use port::Reason;

use super::signals::{self, Catch};
pub(crate) use errors::cause;
use handler::HANDLERS;
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
    handlers: &HANDLERS,
    system: needs::USES,
    drops: &[Reason::NoScriptOutput],
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
    make: |setup, conf| make(setup, conf, Some(ScriptKind::Driver)),
    ..CLASS
};

/// When a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptKind {
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

/// A `Script` or `DriverManager` element; [`CLASS`] and [`DRIVER_MANAGER`] say what they do.
#[derive(Debug)]
pub struct Script {
    name: String,
    kind: ScriptKind,
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
    /// What the last `write` came to: 0, or `-EINVAL`.
    status: i32,
    timer: Option<TimerId>,
    /// Handlers of its own being called, one within the other.
    depth: usize,
    /// What it was told to do while at work.
    more_steps: Option<i64>,
    /// What made it go on, for who is told of errors.
    cause: Cause,
    /// Its handlers being called by others.
    called: usize,
    /// The handler that is called next is called by the script itself.
    calls_itself: bool,
    /// Errors are printed under its name, which was printed.
    named: bool,
    complaints: u64,
    errors: Vec<String>,
    signals: Vec<i32>,
    caught: Vec<(WatchId, Catch)>,
    /// It runs when a signal comes; not while it waits for something else.
    armed: bool,
    /// It wrote a new configuration, and goes on in the new router; there, it is about to.
    is_moved: bool,
}

/// What `$?` is when a `write` failed.
const EINVAL: i32 = -22;
/// Only one element of a router decides what happens when it would stop.
struct DriverScript;

/// When a script runs, as its TYPE says, and on which signals.
fn kind(said: &str, usual: ScriptKind) -> Result<(ScriptKind, Vec<i32>), ConfFault> {
    let kind = match shift_word(said) {
        ("ACTIVE", "") => ScriptKind::Active,
        ("PASSIVE", "") => ScriptKind::Passive,
        ("PACKET" | "PUSH", "") => ScriptKind::Packet,
        ("DRIVER", "") => ScriptKind::Driver,
        ("PROXY", "") => ScriptKind::Proxy,
        ("SIGNAL", names) => {
            let numbers: Option<Vec<i32>> = words(names).into_iter().map(signals::number).collect();
            let numbers = numbers.filter(|numbers| !numbers.is_empty());
            return Ok((ScriptKind::Signal, numbers.ok_or("bad signal number")?));
        }
        ("", _) => usual,
        _ => return Err("bad TYPE".into()),
    };
    Ok((kind, vec![]))
}

/// The instructions, or all that is wrong with them.
fn instructions(arguments: Vec<String>, driver: bool) -> Result<Vec<Instruction>, ConfFault> {
    let (mut instructions, mut wrong) = (vec![], vec![]);
    for argument in arguments {
        match instruction::parse(&argument) {
            Ok(instruction) => instructions.extend(instruction),
            Err(message) => wrong.push(message),
        }
    }
    let last = if driver { Instruction::Stop } else { Instruction::End };
    match instructions.first() {
        None if driver => instructions.push(Instruction::WaitStep(1)),
        Some(Instruction::WaitStep(_) | Instruction::WaitTime(_)) => {}
        _ => instructions.insert(0, Instruction::Initial),
    }
    instructions.push(last);
    let unlabelled = instructions.iter().filter_map(|instruction| match instruction {
        Instruction::Goto { label, .. } if target(&instructions, label).is_none() => {
            Some(format!("no such label '{label}'"))
        }
        _ => None,
    });
    wrong.extend(unlabelled);
    if wrong.is_empty() { Ok(instructions) } else { Err(ConfFault::new(wrong.join("\n"))) }
}

fn make(
    setup: &mut Setup<'_>,
    conf: &mut Conf<'_>,
    usual: Option<ScriptKind>,
) -> Result<Box<dyn Element>, ConfFault> {
    let ports = setup.inputs + setup.outputs > 0;
    let usual = usual.unwrap_or(if ports { ScriptKind::Packet } else { ScriptKind::Active });
    let said = conf.keyword::<graph::value::Raw>("TYPE")?.map_or(String::new(), |said| said.0);
    let (kind, signals) = kind(&said, usual)?;
    if kind == ScriptKind::Driver && !setup.claim::<DriverScript>() {
        return Err("router has more than one driver script".into());
    }
    if kind == ScriptKind::Packet && setup.inputs == 0 {
        return Err("PACKET script must have inputs".into());
    }
    if kind != ScriptKind::Packet && ports {
        return Err("ports allowed only on PACKET scripts".into());
    }
    let instructions = instructions(conf.rest(), kind == ScriptKind::Driver)?;
    conf.complete()?;
    needs::say(&instructions, setup);
    if kind == ScriptKind::Packet {
        setup.take_one_by_one();
    }
    let exports = instructions.iter().filter_map(|i| match i {
        Instruction::Init { variable, export: true, .. } => Some(variable.clone()),
        _ => None,
    });
    Ok(Box::new(Script {
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
        status: 0,
        timer: None,
        depth: 0,
        more_steps: None,
        cause: Cause::Timer,
        called: 0,
        calls_itself: false,
        named: false,
        complaints: 0,
        errors: vec![],
        signals,
        caught: vec![],
        armed: true,
        is_moved: false,
    }))
}

/// Where a label leads.
enum Target {
    Line(usize),
    /// `goto end` does as `end` does.
    Rest(Rest),
}

fn target(instructions: &[Instruction], label: &str) -> Option<Target> {
    let named = |i: &Instruction| matches!(i, Instruction::Label(l) if l == label);
    if let Some(line) = instructions.iter().position(named) {
        return Some(Target::Line(line));
    }
    Some(match label {
        "end" => Target::Rest(Rest::End),
        "exit" => Target::Rest(Rest::Exit),
        "stop" => Target::Rest(Rest::Stop),
        "error" | "errorq" => Target::Rest(Rest::Error),
        "begin" | "loop" | "" => Target::Line(0),
        _ => return None,
    })
}

fn plain(text: &str) -> String {
    unquote_text(text).unwrap_or_else(|| text.to_string())
}

fn span(text: &str) -> Option<i64> {
    parse_alone::<Span>(text).ok().map(|span| span.0)
}

impl Script {
    fn target(&self, label: &str) -> Option<Target> {
        target(&self.instructions, label)
    }

    /// Goes on, for what is not a handler: errors are printed.
    fn proceed(&mut self, cx: &mut Cx<'_>, steps: i64, cause: Cause) {
        (self.cause, self.named) = (cause, false);
        self.go(cx, steps, cause);
    }

    /// One of its handlers is called. From outside, errors are the caller's.
    fn answer<R>(
        &mut self,
        cx: &mut Cx<'_>,
        work: impl FnOnce(&mut Script, &mut Cx<'_>) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        if std::mem::take(&mut self.calls_itself) {
            return work(self, cx);
        }
        self.called += 1;
        let result = work(self, cx);
        self.called -= 1;
        result
    }
}

impl StopHook for Script {
    fn stopping(&mut self, cx: &mut Cx<'_>) -> bool {
        self.proceed(cx, 1, Cause::Router);
        !matches!(self.rest, Rest::Stop | Rest::Error)
    }
}

impl Element for Script {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let timer = cx.new_timer();
        self.timer = Some(timer);
        if cx.name().ends_with(CONTINUED) {
            return Ok(()); // it has begun elsewhere
        }
        self.called += 1; // what goes wrong here keeps the router from running
        for at in 0..self.instructions.len() {
            if let Instruction::Init { variable, value, unquote, .. } = self.instructions[at].clone() {
                let value = self.expand(cx, &value, false);
                self.variables.insert(variable, if unquote { plain(&value) } else { value });
            }
        }
        self.called -= 1;
        for signal in self.signals.clone() {
            let caught = Catch::new(signal).map_err(|error| format!("signal {signal}: {}", cause(&error)))?;
            let watch = cx.watch(caught.end(), Until::Readable);
            self.caught.push((watch, caught));
        }
        let by_itself = matches!(self.kind, ScriptKind::Active | ScriptKind::Driver);
        match self.instructions[0].clone() {
            Instruction::WaitTime(time) if by_itself => {
                let time = self.expand(cx, &time, false);
                let span = span(&time).ok_or("syntax error at 'wait'")?;
                cx.set_timer_after(timer, span);
            }
            Instruction::Initial if by_itself => {
                self.counts[0] = 1;
                match self.kind {
                    ScriptKind::Driver => cx.adjust_runs(-1), // called at once
                    _ => cx.set_timer_after(timer, 0),
                }
            }
            _ => {}
        }
        let errors = std::mem::take(&mut self.errors);
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        let steps = i64::from(!std::mem::take(&mut self.is_moved));
        self.proceed(cx, steps, Cause::Timer);
    }

    /// The script that wrote the new configuration goes on here.
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        self.go_on_from(cx, old);
    }

    fn stop_hook(&mut self) -> Option<&mut dyn StopHook> {
        if self.kind == ScriptKind::Driver { Some(self) } else { None }
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        let Some((_, caught)) = self.caught.iter().find(|(known, _)| *known == watch) else { return };
        if !caught.take() {
            return;
        }
        if !std::mem::replace(&mut self.armed, false) {
            return caught.let_pass();
        }
        self.cause = Cause::Router;
        if let Err(refused) = self.run_with(cx, "run", "", true) {
            self.complain(cx, &refused.to_string());
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        while let Some(packet) = batch.pop_front() {
            self.variables.insert("input".into(), input.to_string());
            self.position = 0;
            self.proceed(cx, 0, Cause::Jump);
            match self.result().trim().parse::<usize>() {
                Ok(output) if output < cx.outputs() => cx.emit(output, packet),
                _ => cx.drop(0, packet),
            }
        }
        Next::Done
    }
}
