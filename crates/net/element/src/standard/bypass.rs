//! `Bypass`, `Suppressor`, `Hub`, `PullTee`: ways past, ways closed, ways to many.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use graph::class::{Handlers, action, both, keyword, named, positional};
use graph::{Class, ConfFault, Cx, Element, Next, Refused};
use memory::Batch;
use port::Reason;

use super::parsed;

/// A way past.
pub static BYPASS: Class = Class {
    name: "Bypass",
    brief: "leads packets another way while active",
    doc: "Packets of input 0 go to output 0, or, while active, to output 1; those of input 1 always go to \
          output 0. When pulled, output 0 asks input 0, or, while active, input 1; output 1 always asks \
          input 0.",
    ports: "1-2/1-2",
    arguments: &[
        positional("ACTIVE", "whether packets take the other way; false"),
        keyword("INLINE", "accepted; there is nothing to take out of the way"),
    ],
    handlers: &Handlers::<Bypass>(&[both(
        "active",
        "whether packets take the other way",
        |bypass| bypass.is_active().to_string(),
        |bypass, _, value| {
            bypass.set(parsed(value).map_err(|_| Refused::from("syntax error"))?);
            Ok(())
        },
    )]),
    example: "b :: Bypass -> Discard; b[1] -> Print -> [1]b",
    see: &["Switch", "PullSwitch"],
    make: |setup, conf| {
        let active = conf.positional("ACTIVE")?.unwrap_or(false);
        let _inline: Option<bool> = conf.keyword("INLINE")?;
        conf.complete()?;
        let bypass = Bypass { ways: Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]) };
        bypass.set(active);
        if setup.inputs > 1 {
            setup.select_inputs(bypass.ways.clone());
        }
        Ok(Box::new(bypass))
    },
    ..Class::BASE
};

pub static SUPPRESSOR: Class = Class {
    name: "Suppressor",
    brief: "passes packets on, or not, port by port",
    doc: "Packets of each input go to the output of the same number, unless it is suppressed: then pushed \
          packets are dropped, and none are pulled. Handlers `active0`, `active1`, … read and change that.",
    ports: "1-/=",
    flow: "#/#",
    handlers: &Handlers::<Suppressor>(&[
        named(
            "whether packets of one port go through",
            Suppressor::handler_names,
            |suppressor: &mut Suppressor, _, name, _| {
                Ok(suppressor.gates.is_open(suppressor.port(name)?).to_string())
            },
        )
        .and_write(|suppressor: &mut Suppressor, _, name, value| {
            let port = suppressor.port(name)?;
            let active: bool = parsed(value).map_err(|_| Refused::from("type mismatch"))?;
            suppressor.gates.set_open(port, active);
            Ok(())
        })
        .marked("c"),
        action("reset", "lets all through", |suppressor: &mut Suppressor, _| {
            (0..suppressor.gates.0.len()).for_each(|port| suppressor.gates.set_open(port, true));
        })
        .marked("b"),
    ]),
    drops: &[Reason::Suppressed],
    example: "Suppressor",
    see: &["Switch", "PullSwitch", "InputSwitch", "EtherSpanTree"],
    make: |setup, conf| {
        conf.complete()?;
        let gates = Arc::new(Gates((0..setup.inputs).map(|_| AtomicBool::new(false)).collect()));
        setup.share(gates.clone());
        Ok(Box::new(Suppressor { gates }))
    },
    ..Class::BASE
};

/// Ways to all others.
pub static HUB: Class = Class {
    name: "Hub",
    brief: "sends a copy of each packet to every port but its own",
    doc: "As an Ethernet hub: what comes in at an input goes to all outputs but the one of the same number.",
    ports: "1-/=",
    processing: "h/h",
    flow: "#/[^#]",
    drops: &[Reason::NoBuffers, Reason::NoOtherPort],
    example: "Hub",
    see: &["Tee", "EtherSwitch"],
    make: |_, conf| conf.complete().map(|()| Box::new(Hub) as Box<dyn Element>),
    ..Class::BASE
};

/// Copies of what is pulled.
pub static PULL_TEE: Class = Class {
    name: "PullTee",
    brief: "pushes copies of the packets that are pulled through it",
    doc: "Packets are pulled through output 0; a copy of each is pushed to every other output.",
    ports: "1/1-",
    processing: "l/lh",
    arguments: &[positional("N", "how many outputs there must be; as many as are connected")],
    drops: &[Reason::NoBuffers],
    example: "PullTee(2)",
    see: &["Tee"],
    make: |setup, conf| {
        let wanted = conf.positional("N")?.unwrap_or(setup.outputs);
        conf.complete()?;
        if wanted != setup.outputs {
            let outputs = setup.outputs;
            return Err(ConfFault::new(format!("{outputs} outputs implies {outputs} arms")));
        }
        Ok(Box::new(PullTee))
    },
    ..Class::BASE
};

/// A `Bypass` element; [`BYPASS`] says what it does.
#[derive(Debug, Clone)]
pub struct Bypass {
    /// The output of packets of input 0, and the input that output 0 pulls from; and
    /// those of input and output 1. All threads have one.
    ways: Arc<[AtomicUsize; 2]>,
}

impl Bypass {
    // Relaxed: a number of its own; threads see a change when they see it.
    fn is_active(&self) -> bool {
        self.ways[0].load(Ordering::Relaxed) == 1
    }

    fn set(&self, active: bool) {
        self.ways[0].store(usize::from(active), Ordering::Relaxed);
    }
}

impl Element for Bypass {
    fn push(&mut self, cx: &mut Cx<'_>, input: usize, _: &mut Batch) -> Next {
        Next::Push(usize::from(self.is_active() && input == 0 && cx.outputs() > 1))
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        cx.pull(0, batch);
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

/// A `Suppressor` element; [`SUPPRESSOR`] says what it does.
#[derive(Debug, Clone)]
pub struct Suppressor {
    /// All threads have the same.
    gates: Arc<Gates>,
}

/// For each port of a Suppressor whether it is closed: what other elements have by its name.
#[derive(Debug)]
pub(crate) struct Gates(Box<[AtomicBool]>);

impl Gates {
    fn is_open(&self, port: usize) -> bool {
        self.0.get(port).is_some_and(|closed| !closed.load(Ordering::Relaxed)) // a lone value
    }

    /// Opens or closes a port, if there is one of this number.
    pub(crate) fn set_open(&self, port: usize, is_open: bool) {
        if let Some(closed) = self.0.get(port) {
            closed.store(!is_open, Ordering::Relaxed); // a lone value
        }
    }
}

impl Suppressor {
    fn port(&self, handler: &str) -> Result<usize, Refused> {
        let port = handler.strip_prefix("active").and_then(|port| port.parse().ok());
        port.filter(|port| *port < self.gates.0.len()).ok_or_else(|| Refused::NoHandler(handler.into()))
    }

    fn handler_names(&self) -> Vec<String> {
        (0..self.gates.0.len()).map(|port| format!("active{port}")).collect()
    }
}

impl Element for Suppressor {
    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        if !self.gates.is_open(input) {
            cx.drop_batch(0, batch);
            return Next::Done;
        }
        Next::Push(input)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, output: usize, batch: &mut Batch) {
        if self.gates.is_open(output) {
            cx.pull(output, batch);
        }
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

/// Sends copies of a batch to some outputs.
fn copies(cx: &mut Cx<'_>, batch: &Batch, outputs: impl Iterator<Item = usize>) {
    for output in outputs {
        for packet in batch.iter() {
            match cx.copy(packet) {
                Some(copy) => cx.emit(output, copy),
                None => cx.count_drops(0, 1),
            }
        }
    }
}

/// A `Hub` element; [`HUB`] says what it does.
#[derive(Debug)]
pub struct Hub;

impl Element for Hub {
    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        let Some(last) = (0..cx.outputs()).rev().find(|output| *output != input) else {
            cx.drop_batch(1, batch);
            return Next::Done;
        };
        copies(cx, batch, (0..last).filter(|output| *output != input));
        Next::Push(last)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Hub))
    }
}

/// A `PullTee` element; [`PULL_TEE`] says what it does.
#[derive(Debug)]
pub struct PullTee;

impl Element for PullTee {
    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let mut pulled = Batch::with_limit(batch.room());
        if batch.room() == 0 || cx.pull(0, &mut pulled) == 0 {
            return;
        }
        let outputs = cx.outputs();
        copies(cx, &pulled, 1..outputs);
        batch.take_from(&mut pulled, Batch::MAX);
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(PullTee))
    }
}
