//! `PullSwitch`, `SimplePullSwitch`, `StaticPullSwitch`: pulls from one of several
//! inputs.

use graph::class::{Handlers, NO_HANDLERS, both, mandatory, positional};
use graph::signal::SignalKind;
use graph::{
    Class, Conf, ConfFault, Cx, Element, Next, Notice, Ran, Refused, Setup, Signal, Signals, TaskId,
};
use memory::Batch;

use super::{same_kind, switch};

/// The one that tells who pulls.
pub static CLASS: Class = Class {
    name: "PullSwitch",
    brief: "pulls packets from a settable input",
    doc: "Packets are pulled at input INPUT; below zero nowhere. The `switch` handler changes it. Who pulls \
          sleeps while the input has nothing, and is woken when another one that has is switched to.",
    ports: "1-/1",
    processing: "l/l",
    arguments: &[positional("INPUT", "which input; 0")],
    handlers: &Handlers::<PullSwitch>(&[both(
        "switch",
        "which input; -1 for none",
        |switch| switch.input.to_string(),
        PullSwitch::set_input,
    )]),
    live: true,
    config_changes: true,
    example: "PullSwitch(1)",
    see: &["SimplePullSwitch", "StaticPullSwitch", "Switch", "PrioSched"],
    make: |setup, conf| {
        let input = input(setup, conf)?;
        let signal = Signal::new(input >= 0);
        Ok(Box::new(PullSwitch { input, signal: Some(signal), upstream: vec![] }))
    },
    ..Class::BASE
};

/// The one that does not.
pub static SIMPLE: Class = Class {
    name: "SimplePullSwitch",
    brief: "pulls packets from a settable input, and tells nobody",
    doc: "As PullSwitch, but who pulls is awake as long as any input has packets.",
    example: "SimplePullSwitch(1)",
    see: &["PullSwitch"],
    make: |setup, conf| {
        let input = input(setup, conf)?;
        Ok(Box::new(PullSwitch { input, signal: None, upstream: vec![] }))
    },
    ..CLASS
};

/// The one that stays as it is.
pub static STATIC: Class = Class {
    name: "StaticPullSwitch",
    brief: "pulls packets from one input, for good",
    doc: "Packets are pulled at input INPUT; below zero nowhere.",
    arguments: &[mandatory("INPUT", "which input; -1 for none")],
    handlers: NO_HANDLERS,
    live: false,
    config_changes: false,
    example: "StaticPullSwitch(0)",
    see: &["PullSwitch", "StaticSwitch"],
    make: |_, conf| {
        let input: i64 = conf.mandatory("INPUT")?;
        conf.complete()?;
        Ok(Box::new(PullSwitch { input, signal: None, upstream: vec![] }))
    },
    ..CLASS
};

/// The input to begin with; one that is not there is none.
fn input(setup: &Setup<'_>, conf: &mut Conf<'_>) -> Result<i64, ConfFault> {
    let input: i64 = conf.positional("INPUT")?.unwrap_or(0);
    conf.complete()?;
    Ok(if usize::try_from(input).is_ok_and(|input| input < setup.inputs) { input } else { -1 })
}

/// A `PullSwitch`, `SimplePullSwitch` or `StaticPullSwitch` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct PullSwitch {
    input: i64,
    /// Raised while the input may have packets.
    signal: Option<Signal>,
    upstream: Vec<Signals>,
}

impl PullSwitch {
    fn awake(&self) -> bool {
        usize::try_from(self.input).ok().and_then(|input| self.upstream.get(input)).is_some_and(Signals::any)
    }

    fn rouse(&self, cx: &mut Cx<'_>) {
        if let Some(signal) = self.signal.as_ref().filter(|_| self.awake()) {
            signal.raise(cx);
        }
    }

    fn set_input(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let input = switch::setting(value, cx.inputs())?;
        self.turn_to(cx, input);
        Ok(())
    }

    fn turn_to(&mut self, cx: &mut Cx<'_>, input: i64) {
        self.input = input;
        if let Some(signal) = self.signal.as_ref().filter(|_| self.input < 0) {
            signal.lower();
        }
        self.rouse(cx);
        cx.set_config(self.input.to_string());
    }
}

impl Element for PullSwitch {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_config(self.input.to_string());
        if self.signal.is_some() {
            let task = cx.new_task();
            self.upstream = (0..cx.inputs()).map(|input| cx.upstream(input, Some(task))).collect();
        }
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let pulled = usize::try_from(self.input).map_or(0, |input| cx.pull(input, batch));
        let Some(signal) = &self.signal else { return };
        if pulled > 0 {
            signal.raise(cx);
        } else if !self.awake() {
            signal.lower();
            self.rouse(cx); // it may just have changed
        }
    }

    fn push(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Batch) -> Next {
        Next::Push(0)
    }

    /// Something woke up further up.
    fn run(&mut self, cx: &mut Cx<'_>, _: TaskId, _: &mut Batch) -> Ran {
        self.rouse(cx);
        Ran::IDLE
    }

    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        let new: Box<PullSwitch> = same_kind(new)?;
        self.turn_to(cx, new.input);
        Ok(())
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        match (&self.signal, kind) {
            (Some(signal), SignalKind::Packets) => Notice::Signal(signal.clone()),
            _ => Notice::Continue,
        }
    }
}
