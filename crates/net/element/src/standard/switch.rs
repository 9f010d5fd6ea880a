//! `Switch`, `StaticSwitch`, `RoundRobinSwitch`, `RandomSwitch`, `HashSwitch`,
//! `InputSwitch`: one of several ways for pushed packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use graph::chain::Bytes;
use graph::class::{Handlers, NO_HANDLERS, both, keyword, mandatory, positional};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Conf, ConfFault, Cx, Each, PerPacket, Refused};
use memory::Packet;

use super::parsed;
use crate::kernels::{self, each};
use graph::random;
use port::Reason;

/// The one that can be changed.
pub static CLASS: Class = Class {
    name: "Switch",
    brief: "sends packets to a settable output",
    doc: "Packets go to output OUTPUT; below zero they are dropped. The `switch` handler changes it.",
    ports: "1/1-",
    processing: "h/h",
    arguments: &[positional("OUTPUT", "which output; 0")],
    handlers: &Handlers::<Switch>(&[both(
        "switch",
        "which output; -1 drops",
        |switch| switch.0.load(Ordering::Relaxed).to_string(),
        |switch, cx, value| {
            let port =
                setting(value, cx.outputs()).map_err(|_| Refused::from("Switch output must be integer"))?;
            switch.0.store(port, Ordering::Relaxed);
            cx.set_config(port.to_string());
            Ok(())
        },
    )]),
    drops: &[Reason::SwitchedOff],
    live: true,
    config_changes: true,
    example: "Switch(1)",
    see: &["StaticSwitch", "PaintSwitch", "InputSwitch", "PullSwitch"],
    kernel: Kernel::Inside(each!(Switch)),
    make: |setup, conf| {
        let output = conf.positional("OUTPUT")?.unwrap_or(0);
        conf.complete()?;
        within(output, setup.outputs, "output")?;
        Ok(Each::boxed(Switch(Arc::new(AtomicI64::new(output)))))
    },
    ..Class::BASE
};

/// The one that stays as it is.
pub static STATIC: Class = Class {
    name: "StaticSwitch",
    brief: "sends packets to one output, for good",
    doc: "Packets go to output OUTPUT; below zero they are dropped. What stands behind the other outputs \
          never gets one.",
    arguments: &[mandatory("OUTPUT", "which output; -1 drops")],
    handlers: NO_HANDLERS,
    live: false,
    example: "StaticSwitch(0)",
    see: &["Switch", "StaticPullSwitch"],
    kernel: Kernel::Inside(each!(StaticSwitch)),
    make: |_, conf| {
        let output = conf.mandatory("OUTPUT")?;
        conf.complete()?;
        Ok(Each::boxed(StaticSwitch(output)))
    },
    ..CLASS
};

/// The one that takes turns.
pub static ROUND_ROBIN: Class = Class {
    name: "RoundRobinSwitch",
    brief: "sends packets to its outputs in turn",
    doc: "The first packet goes to output 0, the next to output 1, and so on, over and over. Threads share \
          the turn.",
    arguments: &[keyword("SPLITBATCH", "accepted; packets are dealt out one by one")],
    handlers: NO_HANDLERS,
    drops: &[Reason::Dropped],
    live: false,
    example: "RoundRobinSwitch",
    see: &["Switch", "HashSwitch", "StrideSwitch", "RoundRobinSched"],
    kernel: Kernel::Excluded(kernels::ORDER),
    make: |_, conf| {
        let _: Option<bool> = conf.keyword("SPLITBATCH")?;
        conf.complete().map(|()| Each::boxed(RoundRobin(Arc::default())))
    },
    ..CLASS
};

/// The one that draws lots.
pub static RANDOM: Class = Class {
    name: "RandomSwitch",
    brief: "sends each packet to a random output",
    doc: "Every output is as likely as any other.",
    arguments: &[],
    example: "RandomSwitch",
    see: &["Switch", "RoundRobinSwitch", "HashSwitch"],
    kernel: Kernel::Unwritten,
    make: |_, conf| conf.complete().map(|()| Each::boxed(Random)),
    ..ROUND_ROBIN
};

/// The one that looks at bytes.
pub static HASH: Class = Class {
    name: "HashSwitch",
    brief: "chooses an output by some of the packet's bytes",
    doc: "Packets whose LENGTH bytes from OFFSET are the same go to the same output. Packets too short for \
          that go to output 0.",
    arguments: &[mandatory("OFFSET", "the first byte"), mandatory("LENGTH", "how many bytes")],
    example: "HashSwitch(26, 8)",
    see: &["Switch", "RoundRobinSwitch", "RandomSwitch"],
    kernel: Kernel::Inside(each!(Hash)),
    make: |_, conf| {
        let (offset, length) = (conf.mandatory("OFFSET")?, conf.mandatory("LENGTH")?);
        conf.complete()?;
        if length == 0 {
            return Err("length must be > 0".into());
        }
        Ok(Each::boxed(Hash { offset, length }))
    },
    ..ROUND_ROBIN
};

/// The one that lets one input through.
pub static INPUT: Class = Class {
    name: "InputSwitch",
    brief: "lets the packets of a settable input through",
    doc: "Packets that come in at input INPUT go on; those of other inputs are dropped. The `switch` handler \
          changes it.",
    ports: "1-/1",
    processing: "h/h",
    arguments: &[positional("INPUT", "which input; 0")],
    handlers: &Handlers::<InputSwitch>(&[both(
        "switch",
        "which input; -1 drops all",
        |switch| switch.0.load(Ordering::Relaxed).to_string(),
        |switch, cx, value| {
            let port = setting(value, cx.inputs())?;
            switch.0.store(port, Ordering::Relaxed);
            cx.set_config(port.to_string());
            Ok(())
        },
    )]),
    drops: &[Reason::NotSwitchedTo],
    live: true,
    config_changes: true,
    example: "InputSwitch(0)",
    see: &["Switch", "PullSwitch"],
    make: |setup, conf| {
        let input = input(conf, setup.inputs)?;
        Ok(Each::boxed(InputSwitch(Arc::new(AtomicI64::new(input)))))
    },
    ..Class::BASE
};

fn within(port: i64, ports: usize, what: &str) -> Result<(), ConfFault> {
    match usize::try_from(port) {
        Ok(port) if port >= ports => Err(ConfFault::new(format!("{what} must be < {ports}"))),
        _ => Ok(()),
    }
}

/// The argument INPUT of a switch.
pub(super) fn input(conf: &mut Conf<'_>, inputs: usize) -> Result<i64, ConfFault> {
    let input = conf.positional("INPUT")?.unwrap_or(0);
    conf.complete()?;
    within(input, inputs, "input")?;
    Ok(input)
}

/// What a switch is to be set to: a port that does not exist is none.
pub(super) fn setting(value: &str, ports: usize) -> Result<i64, Refused> {
    let port: i64 = parsed(value).map_err(|_| Refused::from("syntax error"))?;
    Ok(if usize::try_from(port).is_ok_and(|port| port < ports) { port } else { -1 })
}

/// A `Switch` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct Switch(Arc<AtomicI64>);

impl PerPacket for Switch {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_config(self.0.load(Ordering::Relaxed).to_string());
        Ok(())
    }

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        // Relaxed: a number of its own; threads see a change when they see it.
        to(self.0.load(Ordering::Relaxed))
    }

    fn replicate(&self) -> Option<Switch> {
        Some(self.clone())
    }
}

#[inline]
fn to(port: i64) -> Action {
    usize::try_from(port).map_or(Action::drop(0), |port| Action::out_or_drop(port, 0))
}

/// A `StaticSwitch` element; [`STATIC`] says what it does.
#[derive(Debug, Clone)]
pub struct StaticSwitch(i64);

impl PerPacket for StaticSwitch {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        to(self.0)
    }

    fn replicate(&self) -> Option<StaticSwitch> {
        Some(self.clone())
    }
}

/// A `RoundRobinSwitch` element; [`ROUND_ROBIN`] says what it does.
#[derive(Debug, Clone)]
pub struct RoundRobin(Arc<AtomicUsize>);

impl PerPacket for RoundRobin {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        let outputs = cx.outputs();
        // Relaxed: only the number matters. It never reaches the end of its range
        // in a way that shows: the turn goes on at 0.
        let turn = |now: usize| Some(if now + 1 >= outputs { 0 } else { now + 1 });
        let now = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, turn);
        Action::out(now.unwrap_or(0))
    }

    fn replicate(&self) -> Option<RoundRobin> {
        Some(self.clone())
    }
}

/// A `RandomSwitch` element; [`RANDOM`] says what it does.
#[derive(Debug, Clone)]
pub struct Random;

impl PerPacket for Random {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        Action::out(random::below(cx.outputs().max(1) as u64) as usize)
    }

    fn replicate(&self) -> Option<Random> {
        Some(Random)
    }
}

/// A `HashSwitch` element; [`HASH`] says what it does.
#[derive(Debug, Clone)]
pub struct Hash {
    offset: usize,
    length: usize,
}

impl PerPacket for Hash {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let bytes = Bytes::of(packet).skip(self.offset).front(self.length);
        if bytes.len() < self.length {
            return Action::ON;
        }
        let sum = bytes.iter().fold(0u32, |sum, byte| sum.wrapping_add(u32::from(*byte))) as usize;
        Action::out(match cx.outputs() {
            outputs @ (2 | 4 | 8) => (sum ^ sum >> 4) & (outputs - 1),
            outputs => sum % outputs.max(1),
        })
    }

    fn replicate(&self) -> Option<Hash> {
        Some(self.clone())
    }
}

/// An `InputSwitch` element; [`INPUT`] says what it does.
#[derive(Debug, Clone)]
pub struct InputSwitch(Arc<AtomicI64>);

impl PerPacket for InputSwitch {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_config(self.0.load(Ordering::Relaxed).to_string());
        Ok(())
    }

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, input: usize, _: &mut Packet) -> Action {
        if self.0.load(Ordering::Relaxed) == input as i64 { Action::ON } else { Action::drop(0) }
    }

    fn replicate(&self) -> Option<InputSwitch> {
        Some(self.clone())
    }
}
