//! What all rewriters have in common: the element, and what others may ask of it.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::{Action, Cx, Element, Next, Refused, TimerId};
use memory::{Batch, Packet};

use super::apply::{Annotate, apply};
use super::flow::{Entry, Flow, Rare};
use super::flow_id::FlowId;
use super::flows::{Ask, Flows, Member, Wanted, Without};
use super::kind::RewriterKind;
use super::mapper::{Mapper, all};
use super::spec::{self, Input, Rule};
use crate::tcpudp::words::{TcpPort, Words};
use graph::annotation::PacketAnnotations;
use graph::ip_header;
use port::Reason;

/// Reasons, as the classes name them.
pub(super) const DROPS: &[Reason] = &[
    Reason::NoFlowWanted,
    Reason::NothingToRewrite,
    spec::FAILURES[0].1,
    spec::FAILURES[1].1,
    spec::FAILURES[2].1,
];
const UNWANTED: usize = 0;
const UNFIT: usize = 1;
const EXHAUSTED: usize = 2;
const FULL: usize = 3;
const HOST_FULL: usize = 4;

/// A rewriter as others know it, on any thread.
#[derive(Debug)]
pub(crate) struct Core {
    pub kind: RewriterKind,
    pub inputs: usize,
    pub outputs: usize,
    /// Whose capacity it shares.
    pub partner: Option<String>,
    pub annotate: Annotate,
    pub reap_ns: i64,
    place: Mutex<(Arc<Mutex<Flows>>, usize)>,
    ready: AtomicBool,
}

/// Now, in the milliseconds in which flows live.
pub(super) fn now_ms(cx: &Cx<'_>) -> i64 {
    cx.now_ns() / 1_000_000
}

fn lock(flows: &Mutex<Flows>) -> MutexGuard<'_, Flows> {
    flows.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a packet, which has an ICMP header, answers an echo request.
fn is_echo_reply(packet: &Packet) -> bool {
    ip_header::split(packet).is_some_and(|(_, payload)| payload.first() == Some(&wire::icmpv4::ECHO_REPLY))
}

/// What makes a rewriter.
pub(super) struct Parts {
    pub kind: RewriterKind,
    pub member: Member,
    pub inputs: usize,
    pub capacity: usize,
    pub partner: Option<String>,
    pub annotate: Annotate,
    pub reap_ns: i64,
}

impl Core {
    pub(super) fn new(parts: Parts) -> Core {
        let outputs = parts.member.outputs;
        let mut flows = Flows::new(parts.capacity);
        flows.members.push(parts.member);
        Core {
            kind: parts.kind,
            inputs: parts.inputs,
            outputs,
            partner: parts.partner,
            annotate: parts.annotate,
            reap_ns: parts.reap_ns,
            place: Mutex::new((Arc::new(Mutex::new(flows)), 0)),
            ready: AtomicBool::new(false),
        }
    }

    /// Its flows, and which member it is.
    fn place(&self) -> (Arc<Mutex<Flows>>, usize) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Finds the elements that the configuration names; once.
    fn prepare(&self, cx: &mut Cx<'_>) -> Result<bool, String> {
        if self.ready.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        if let Some(name) = &self.partner {
            let partner = cx.shared::<Core>(name).ok_or("bad MAPPING_CAPACITY")?;
            self.join(&partner);
        }
        let (flows, member) = self.place();
        let mut flows = lock(&flows);
        let inputs = flows.members[member].inputs.iter_mut().enumerate();
        all(
            inputs.map(|(i, input)| resolve(cx, input, self.outputs).map_err(|error| spec::about(i, &error)))
        )?;
        flows.keep_choices(self.kind, member);
        Ok(true)
    }

    /// From now on its flows are among a partner's. It has none yet.
    fn join(&self, partner: &Core) {
        let (theirs, _) = partner.place();
        let (ours, member) = self.place();
        if Arc::ptr_eq(&theirs, &ours) {
            return;
        }
        let member = std::mem::take(&mut lock(&ours).members[member]);
        let mut flows = lock(&theirs);
        flows.members.push(member);
        let place = flows.members.len() - 1;
        drop(flows);
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = (theirs, place);
    }

    /// Has `work` done with a flow, of these addresses and ports, if there is one or
    /// one can be made.
    pub(super) fn ask<R>(
        &self,
        protocol: u8,
        id: FlowId,
        ask: Ask,
        now: i64,
        work: impl FnOnce(&mut Flow, &mut Rare, Entry) -> R,
    ) -> Option<R> {
        let (flows, member) = self.place();
        let mut flows = lock(&flows);
        let entry = flows.ask((self.kind, member), (protocol, id), ask, now)?;
        let (flow, rare) = flows.parts(entry.flow);
        Some(work(flow, rare, entry))
    }
}

/// Finds the element that a specification names.
fn resolve(cx: &Cx<'_>, input: &mut Input, outputs: usize) -> Result<(), String> {
    let (name, alone) = match &mut input.rule {
        Rule::Named(name, alone) => (name, *alone),
        Rule::Pattern(pattern) => {
            pattern.join_named(cx);
            return Ok(());
        }
        _ => return Ok(()),
    };
    let mapper = match (cx.find(name), cx.shared::<Mapper>(name)) {
        (None, _) => return Err("unknown specification".into()),
        _ if !alone => return Err("syntax error, expected element name".into()),
        (_, None) => return Err("element is not an IPMapper".into()),
        (_, Some(mapper)) => mapper,
    };
    mapper.check(cx, outputs)?;
    input.rule = Rule::Mapper(mapper);
    Ok(())
}

/// An element of any of the rewriters' classes: its kind says what it does.
#[derive(Debug)]
pub(crate) struct Rewriter {
    core: Arc<Core>,
    flows: Arc<Mutex<Flows>>,
    member: usize,
    /// What the packets of a batch belong to.
    wanted: Box<[Option<Wanted>; Batch::MAX]>,
    actions: Box<[Action; Batch::MAX]>,
    /// When what expired is forgotten next.
    reap_at_ns: i64,
}

impl Rewriter {
    pub(super) fn new(core: Arc<Core>) -> Rewriter {
        let (flows, member) = core.place();
        let (wanted, actions) = (Box::new([None; Batch::MAX]), Box::new([Action::ON; Batch::MAX]));
        Rewriter { core, flows, member, wanted, actions, reap_at_ns: 0 }
    }

    /// What becomes of a packet that belongs to no flow and begins none.
    fn unfit(&self, flows: &Flows, input: usize) -> Action {
        match flows.members[self.member].inputs.get(input) {
            Some(Input { rule: Rule::Pass, forward, .. }) => Action::out(*forward),
            _ => Action::drop(UNFIT),
        }
    }

    /// Finds out what the packets of a batch belong to, and brings that towards the cache: the
    /// places in the table of all, then the flows.
    fn look_ahead(&mut self, flows: &Flows, batch: &Batch) {
        let kind = self.core.kind;
        for (packet, wanted) in batch.iter().zip(self.wanted.iter_mut()) {
            let key = ip_header::split(packet).and_then(|(ip, payload)| kind.key(ip, payload));
            *wanted = key.map(|key| flows.wanted(kind, key));
        }
        self.wanted[..batch.len()].iter().flatten().for_each(|wanted| flows.prefetch(wanted));
    }

    fn packet(
        &self,
        flows: &mut Flows,
        input: usize,
        (packet, wanted): (&mut Packet, Option<Wanted>),
    ) -> Action {
        let kind = self.core.kind;
        let Some(wanted) = wanted else { return self.unfit(flows, input) };
        let entry = match flows.lookup(self.member, &wanted) {
            Some(entry) => entry,
            None if kind == RewriterKind::Ping && is_echo_reply(packet) => return self.unfit(flows, input),
            None => match flows.create((kind, self.member), wanted.key, input) {
                Ok(entry) => {
                    let annotation = self.core.annotate.reply.map_or(0, |at| packet.u8_at(at));
                    flows.parts(entry.flow).0.annotation = annotation;
                    entry
                }
                Err(Without::Pass(output)) => return Action::out(output),
                Err(Without::Unwanted) => return Action::drop(UNWANTED),
                Err(Without::Exhausted) => return Action::drop(EXHAUSTED),
                Err(Without::Full) => return Action::drop(FULL),
                Err(Without::HostFull) => return Action::drop(HOST_FULL),
            },
        };
        let (flow, rare) = flows.parts(entry.flow);
        let output = flow.output(entry.back);
        apply(packet, kind, (flow, rare), entry.back, self.core.annotate);
        flows.refresh(entry.flow);
        Action::out(output)
    }

    pub(super) fn lookup(&mut self, cx: &mut Cx<'_>, parameter: &str) -> Result<String, Refused> {
        let now = now_ms(cx);
        let mut words = Words::new(parameter, cx.scope());
        let src = (words.mandatory::<Ipv4Addr>("SADDR"), words.mandatory::<TcpPort>("SPORT"));
        let dst = (words.mandatory::<Ipv4Addr>("DADDR"), words.mandatory::<TcpPort>("DPORT"));
        words.complete()?;
        let ((Some(src), Some(src_port)), (Some(dst), Some(dst_port))) = (src, dst) else {
            return Ok(String::new());
        };
        let (src, dst) = (src.to_bits(), dst.to_bits());
        let id = FlowId { src, src_port: src_port.0, dst, dst_port: dst_port.0 };
        let mut flows = self.flows();
        let found = flows.ask((self.core.kind, self.member), (super::kind::TCP, id), Ask::Known, now);
        Ok(found.map_or(String::new(), |entry| {
            let to = flows.parts(entry.flow).0.rewritten(entry.back);
            let [src, dst] = [to.src, to.dst].map(Ipv4Addr::from_bits);
            format!("{src} {} {dst} {}", to.src_port, to.dst_port)
        }))
    }
}

/// What its handlers read and write.
impl Rewriter {
    pub(super) fn flows(&self) -> MutexGuard<'_, Flows> {
        lock(&self.flows)
    }

    pub(super) fn size(&self) -> String {
        self.flows().members[self.member].inputs.iter().map(|input| input.count).sum::<u64>().to_string()
    }

    pub(super) fn failures(&self) -> String {
        self.failures_by_reason().iter().sum::<u64>().to_string()
    }

    /// As [`spec::FAILURES`] names them.
    fn failures_by_reason(&self) -> [u64; spec::FAILURES.len()] {
        let mut sums = [0; spec::FAILURES.len()];
        for input in &self.flows().members[self.member].inputs {
            sums.iter_mut().zip(input.failures).for_each(|(sum, count)| *sum += count);
        }
        sums
    }

    pub(super) fn failure_details(&self) -> String {
        let counts = self.failures_by_reason().into_iter().zip(spec::FAILURES);
        counts.map(|(count, (_, name))| format!("{count}\t{name}\n")).collect()
    }

    pub(super) fn host_capacity(&self) -> String {
        self.flows().members[self.member].hosts.limit().to_string()
    }

    pub(super) fn patterns(&self) -> String {
        self.flows().members[self.member].inputs.iter().map(Input::unparse).collect()
    }

    /// The mappings of a protocol, by its place.
    pub(super) fn list(&self, cx: &Cx<'_>, map: usize) -> Result<String, Refused> {
        let now = now_ms(cx);
        Ok(self.flows().list(self.core.kind, self.member, map, now))
    }

    pub(super) fn set_capacity(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let now = now_ms(cx);
        let mut words = Words::new(value, cx.scope());
        let capacity = words.mandatory::<i32>("CAPACITY");
        words.complete()?;
        let mut flows = self.flows();
        flows.capacity = usize::try_from(capacity.unwrap_or(0)).unwrap_or(0);
        flows.reap(now);
        Ok(())
    }

    pub(super) fn pattern_names(&self) -> Vec<String> {
        (0..self.core.inputs).map(|i| format!("pattern{i}")).collect()
    }

    /// The input that a handler is named for.
    fn input_of(&self, handler: &str) -> Result<usize, Refused> {
        let input = handler.strip_prefix("pattern").and_then(|input| input.parse::<usize>().ok());
        input.filter(|input| *input < self.core.inputs).ok_or_else(|| Refused::NoHandler(handler.into()))
    }

    pub(super) fn pattern(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        let input = self.input_of(handler)?;
        Ok(self.flows().members[self.member].inputs[input].unparse())
    }

    pub(super) fn set_pattern(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        let i = self.input_of(handler)?;
        let about = |error: String| spec::about(i, &error);
        let mut input = Input::parse(value, self.core.outputs, &cx.scope()).map_err(about)?;
        resolve(cx, &mut input, self.core.outputs).map_err(about)?;
        let mut flows = lock(&self.flows);
        flows.forget_input(self.member, i);
        flows.members[self.member].inputs[i] = input;
        flows.keep_choices(self.core.kind, self.member);
        Ok(())
    }
}

impl Element for Rewriter {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let first = self.core.prepare(cx)?;
        (self.flows, self.member) = self.core.place();
        if first && self.core.reap_ns > 0 {
            let timer = cx.new_timer();
            self.reap_at_ns = cx.now_ns().saturating_add(self.core.reap_ns);
            cx.set_timer(timer, self.reap_at_ns);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        let now = now_ms(cx);
        let own = self.flows.clone();
        let mut flows = lock(&own);
        flows.begin(batch.len(), now);
        self.look_ahead(&flows, batch);
        let mut same = true;
        for (place, packet) in batch.iter_mut().enumerate() {
            self.actions[place] = self.packet(&mut flows, input, (packet, self.wanted[place]));
            same &= self.actions[place] == self.actions[0];
        }
        drop(flows);
        let outputs = cx.outputs();
        if same && self.actions[0].output() < outputs {
            return Next::Push(self.actions[0].output());
        }
        for (place, packet) in batch.drain().enumerate() {
            let action = self.actions[place];
            match action.output() < outputs {
                true => cx.emit(action.output(), packet),
                false => cx.drop(action.reason(), packet),
            }
        }
        Next::Done
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        lock(&self.flows).reap(now_ms(cx));
        self.reap_at_ns = self.reap_at_ns.saturating_add(self.core.reap_ns);
        cx.set_timer(timer, self.reap_at_ns);
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        // All copies share the flows, which have a lock; so packets leave without it.
        Some(Box::new(Rewriter::new(self.core.clone())))
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Rewriter>() else { return };
        if self.core.kind == old.core.kind && !Arc::ptr_eq(&self.flows, &old.flows) {
            lock(&self.flows).adopt(self.member, (&mut lock(&old.flows), old.member), now_ms(cx));
        }
    }
}
