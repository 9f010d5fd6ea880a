//! `RoundRobinSched`, `PrioSched`, `StrideSched`, `DRRSched`: whose packet is next;
//! and `StrideSwitch`, whose packet this is.

use graph::class::{Handlers, NOT_TAKEN_OVER, named, positional, read, rest};
use graph::signal::SignalKind;
use graph::{Class, Conf, ConfFault, Cx, Element, Next, Notice, Refused, Setup, Signal};
use memory::{Batch, Packet};
use port::Reason;

use super::{parsed, same_kind};

pub static ROUND_ROBIN: Class = Class {
    name: "RoundRobinSched",
    brief: "pulls from its inputs in turn",
    doc: "Each packet comes from the next input that has one, behind the input of the packet before.",
    ports: "1-/1",
    processing: "l/l",
    example: "RoundRobinSched",
    see: &["PrioSched", "StrideSched", "DRRSched", "RoundRobinSwitch"],
    make: |_, conf| conf.complete().map(|()| Box::new(RoundRobinSched { next: 0 }) as Box<dyn Element>),
    ..Class::BASE
};

pub static PRIO: Class = Class {
    name: "PrioSched",
    brief: "pulls from the first input that has a packet",
    doc: "An input is only asked when those before it have nothing.",
    example: "PrioSched",
    see: &["RoundRobinSched", "StrideSched", "DRRSched"],
    make: |_, conf| conf.complete().map(|()| Box::new(PrioSched) as Box<dyn Element>),
    ..ROUND_ROBIN
};

pub static STRIDE: Class = Class {
    name: "StrideSched",
    brief: "pulls from its inputs in proportion to their tickets",
    doc: "An input with twice the tickets of another has two packets pulled for one of the other's; one \
          without tickets none. Handlers `tickets0`, `tickets1`, … read and change them.",
    arguments: &[rest("TICKETS", "tickets of each input")],
    handlers: &Handlers::<StrideSched>(&[
        read("tickets", "tickets of all ports", |sched| sched.0.all()),
        named(
            "tickets of one port",
            |sched: &StrideSched| sched.0.handler_names(),
            |sched, _, name, _| Ok(sched.0.read(name)),
        )
        .and_write(|sched, cx, name, value| sched.0.write(cx, name, value)),
    ]),
    live: true,
    config_changes: true,
    example: "StrideSched(4, 2, 1)",
    see: &["StrideSwitch", "RoundRobinSched", "PrioSched", "DRRSched"],
    make: |setup, conf| Ok(Box::new(StrideSched(Strides::parse(setup, conf, setup.inputs, "input")?))),
    ..ROUND_ROBIN
};

/// By tickets, for outputs.
pub static STRIDE_SWITCH: Class = Class {
    name: "StrideSwitch",
    brief: "sends packets to its outputs in proportion to their tickets",
    doc: "An output with twice the tickets of another gets two packets for one of the other's; one without \
          tickets none. Handlers `tickets0`, `tickets1`, … read and change them.",
    ports: "1/1-",
    processing: "h/h",
    arguments: &[rest("TICKETS", "tickets of each output")],
    drops: &[Reason::NoTickets],
    example: "StrideSwitch(4, 2, 1)",
    see: &["StrideSched", "RoundRobinSwitch"],
    handlers: &Handlers::<StrideSwitch>(&[
        read("tickets", "tickets of all ports", |switch| switch.0.all()),
        named(
            "tickets of one port",
            |switch: &StrideSwitch| switch.0.handler_names(),
            |switch, _, name, _| Ok(switch.0.read(name)),
        )
        .and_write(|switch, cx, name, value| switch.0.write(cx, name, value)),
    ]),
    make: |setup, conf| Ok(Box::new(StrideSwitch(Strides::parse(setup, conf, setup.outputs, "output")?))),
    ..STRIDE
};

pub static DRR: Class = Class {
    name: "DRRSched",
    brief: "pulls the same number of bytes from each input",
    doc: "Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): each round an input may send QUANTUM \
          bytes more, and keeps what it does not use for as long as it has packets.",
    arguments: &[positional("QUANTUM", "bytes an input gains in a round; 500")],
    drops: &[NOT_TAKEN_OVER],
    example: "DRRSched(1500)",
    see: &["RoundRobinSched", "StrideSched"],
    make: |setup, conf| {
        let quantum = conf.positional("QUANTUM")?.unwrap_or(500);
        conf.complete()?;
        if quantum == 0 {
            return Err("bad QUANTUM".into());
        }
        let flows = (0..setup.inputs).map(|_| Flow::default()).collect();
        Ok(Box::new(DrrSched { quantum, flows, next: 0, held: Signal::new(false) }))
    },
    ..ROUND_ROBIN
};

/// A `RoundRobinSched` element; [`ROUND_ROBIN`] says what it does.
#[derive(Debug)]
pub struct RoundRobinSched {
    next: usize,
}

impl Element for RoundRobinSched {
    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let inputs = cx.inputs();
        let mut empty = 0;
        while batch.room() > 0 && empty < inputs {
            let input = self.next;
            self.next = if input + 1 >= inputs { 0 } else { input + 1 };
            match cx.pull_one(input) {
                Some(packet) => {
                    empty = 0;
                    batch.push(packet);
                }
                None => empty += 1,
            }
        }
    }
}

/// A `PrioSched` element; [`PRIO`] says what it does.
#[derive(Debug)]
pub struct PrioSched;

impl Element for PrioSched {
    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        for input in 0..cx.inputs() {
            if batch.room() == 0 {
                return;
            }
            cx.pull(input, batch);
        }
    }
}

const STRIDE_ONE: u64 = 1 << 16;
const MAX_TICKETS: u64 = 1 << 15;

/// Ports with tickets.
#[derive(Debug)]
struct Strides {
    tickets: Vec<u64>,
    pass: Vec<u64>,
    /// Ports that have tickets, who is furthest behind first.
    order: Vec<usize>,
}

impl Strides {
    fn parse(
        setup: &mut Setup<'_>,
        conf: &mut Conf<'_>,
        ports: usize,
        what: &str,
    ) -> Result<Strides, ConfFault> {
        let arguments = conf.rest();
        if arguments.len() != ports {
            return Err(ConfFault::new(format!("need {ports} arguments, one per {what} port")));
        }
        let ticket = |(i, text): (usize, &String)| {
            let value: Option<i64> = text.trim().parse().ok();
            let value = value.ok_or_else(|| {
                ConfFault::new(format!("argument {i} should be number of tickets (integer)"))
            })?;
            let tickets = u64::try_from(value)
                .map_err(|_| ConfFault::new(format!("argument {i} (number of tickets) must be >= 0")))?;
            if tickets > MAX_TICKETS {
                setup.warn(format!("input {i}'s tickets reduced to {MAX_TICKETS}"));
            }
            Ok::<u64, ConfFault>(tickets.min(MAX_TICKETS))
        };
        let tickets: Vec<u64> = arguments.iter().enumerate().map(ticket).collect::<Result<_, _>>()?;
        let pass = tickets.iter().map(|tickets| STRIDE_ONE / (*tickets).max(1)).collect();
        let mut strides = Strides { tickets, pass, order: vec![] };
        strides.line_up();
        Ok(strides)
    }

    /// Puts all ports that have tickets where they belong.
    fn line_up(&mut self) {
        self.order.clear();
        for port in (0..self.tickets.len()).rev() {
            if self.tickets[port] > 0 {
                self.insert(port);
            }
        }
    }

    /// Gives all ports other tickets; they stay as far as they are.
    fn deal(&mut self, cx: &mut Cx<'_>, tickets: Vec<u64>) {
        self.tickets = tickets;
        self.line_up();
        cx.set_config(self.all());
    }

    /// Puts a port where it belongs: before those that are as far.
    fn insert(&mut self, port: usize) {
        let at = self.order.iter().position(|&other| self.pass[other] >= self.pass[port]);
        self.order.insert(at.unwrap_or(self.order.len()), port);
    }

    /// Asks ports in order until one takes the turn; all that were asked go back.
    fn turn(&mut self, mut ask: impl FnMut(usize) -> bool) {
        let mut asked = 0;
        while asked < self.order.len() {
            let port = self.order[asked];
            asked += 1;
            let took = ask(port);
            self.pass[port] += STRIDE_ONE / self.tickets[port].max(1);
            if took {
                break;
            }
        }
        for port in self.order.drain(..asked).collect::<Vec<_>>() {
            self.insert(port);
        }
    }

    fn all(&self) -> String {
        self.tickets.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
    }

    fn write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        let port = handler.strip_prefix("tickets").and_then(|port| port.parse::<usize>().ok());
        let port = port.filter(|port| *port < self.tickets.len()).ok_or("port out of range")?;
        let tickets: i64 = parsed(value).map_err(|_| Refused::from("tickets value must be integer"))?;
        let tickets = u64::try_from(tickets).map_err(|_| Refused::from("number of tickets must be >= 0"))?;
        if tickets > MAX_TICKETS {
            cx.warn(format!("port {port}'s tickets reduced to {MAX_TICKETS}"));
        }
        let before = std::mem::replace(&mut self.tickets[port], tickets.min(MAX_TICKETS));
        if tickets == 0 {
            self.order.retain(|other| *other != port);
        } else if before == 0 {
            let head = self.order.first().map_or(0, |&first| self.pass[first]);
            self.pass[port] = head + STRIDE_ONE / self.tickets[port];
            self.insert(port);
        }
        cx.set_config(self.all());
        Ok(())
    }

    /// The tickets of the port that a handler is named for.
    fn read(&self, handler: &str) -> String {
        let port = handler.strip_prefix("tickets").and_then(|port| port.parse::<usize>().ok());
        port.and_then(|port| self.tickets.get(port)).map_or("-1".into(), u64::to_string)
    }

    fn handler_names(&self) -> Vec<String> {
        (0..self.tickets.len()).map(|port| format!("tickets{port}")).collect()
    }
}

/// A `StrideSched` element; [`STRIDE`] says what it does.
#[derive(Debug)]
pub struct StrideSched(Strides);

impl Element for StrideSched {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_config(self.0.all());
        Ok(())
    }

    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        let new: Box<StrideSched> = same_kind(new)?;
        self.0.deal(cx, new.0.tickets);
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        while batch.room() > 0 {
            let mut pulled = None;
            self.0.turn(|input| {
                pulled = cx.pull_one(input);
                pulled.is_some()
            });
            let Some(packet) = pulled else { return };
            batch.push(packet);
        }
    }
}

/// A `StrideSwitch` element; [`STRIDE_SWITCH`] says what it does.
#[derive(Debug)]
pub struct StrideSwitch(Strides);

impl Element for StrideSwitch {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_config(self.0.all());
        Ok(())
    }

    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        let new: Box<StrideSwitch> = same_kind(new)?;
        self.0.deal(cx, new.0.tickets);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        while let Some(packet) = batch.pop_front() {
            let mut to = None;
            self.0.turn(|output| {
                to = Some(output);
                true
            });
            match to {
                Some(output) => cx.emit(output, packet),
                None => cx.drop(0, packet),
            }
        }
        Next::Done
    }
}

#[derive(Debug, Default)]
struct Flow {
    /// Pulled, and not paid for yet.
    head: Option<Packet>,
    deficit: usize,
}

/// A `DRRSched` element; [`DRR`] says what it does.
#[derive(Debug)]
pub struct DrrSched {
    quantum: usize,
    flows: Vec<Flow>,
    next: usize,
    /// Raised while packets are held here.
    held: Signal,
}

impl DrrSched {
    /// The next packet. A round in which all inputs that have packets only saved
    /// up is followed by another, here: no input has to save more than a packet's
    /// length.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let mut waiting = false;
            for _ in 0..self.flows.len() {
                let flow = &mut self.flows[self.next];
                match flow.head.take().or_else(|| cx.pull_one(self.next)) {
                    Some(packet) if packet.total_len() <= flow.deficit => {
                        flow.deficit -= packet.total_len();
                        return Some(packet);
                    }
                    Some(packet) => {
                        flow.head = Some(packet);
                        waiting = true;
                    }
                    None => flow.deficit = 0,
                }
                self.next = if self.next + 1 >= self.flows.len() { 0 } else { self.next + 1 };
                self.flows[self.next].deficit += self.quantum;
            }
            if !waiting {
                return None;
            }
        }
    }
}

impl Element for DrrSched {
    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        while batch.room() > 0 {
            let Some(packet) = self.next(cx) else { break };
            batch.push(packet);
        }
        match self.flows.iter().any(|flow| flow.head.is_some()) {
            true => self.held.raise(cx),
            false => self.held.lower(),
        }
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        match kind {
            SignalKind::Packets => Notice::Both(self.held.clone()),
            SignalKind::Room => Notice::Continue,
        }
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<DrrSched>() else { return };
        for (flow, old) in self.flows.iter_mut().zip(&mut old.flows) {
            *flow = std::mem::take(old);
        }
        self.held.raise(cx);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        cx.end_waiting(self.flows.iter_mut().filter_map(|flow| flow.head.take()));
    }
}
