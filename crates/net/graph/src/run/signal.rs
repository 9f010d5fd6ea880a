//! Signals: whether it is worth asking for packets, or offering them, and whom to
//! wake when that changes.
//!
//! A queue that runs empty lowers its signal, and those who pull from it go to
//! sleep; the next packet raises it and wakes them. Elements between pass the
//! question on.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::element::port_code;
use crate::plan::Port;
use crate::run::lane::Lane;
use crate::run::mailbox::Mailbox;
use crate::run::task::TaskId;

/// What a signal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalKind {
    /// There are packets to pull.
    Packets,
    /// There is room to push.
    Room,
}

/// What an element says to one who looks for a signal through it.
#[derive(Debug, Clone)]
pub enum Notice {
    /// Ask those beyond me.
    Continue,
    /// This is my signal.
    Signal(Signal),
    /// This is my signal; ask those beyond me as well.
    Both(Signal),
    /// Nothing will ever come of me.
    Never,
    /// I give no signals: always try.
    Always,
}

/// A task to wake, in the lane it belongs to.
#[derive(Debug, Clone)]
pub struct Waker {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) task: TaskId,
}

/// Raised or lowered by one element, seen by any number of others.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<Core>);

/// How many were made so far.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug, Default)]
struct Core {
    number: u64,
    raised: AtomicBool,
    /// Who is woken. Looked at only when it rises, by the one who raised it.
    wakers: Mutex<Vec<Waker>>,
}

impl Signal {
    /// A signal, raised or not.
    pub fn new(raised: bool) -> Signal {
        // Relaxed: a count, which orders nothing else.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Signal(Arc::new(Core { number, raised: AtomicBool::new(raised), ..Core::default() }))
    }

    /// What an element answers that gives packets by itself and raises this signal while it has any:
    /// to who pulls, the signal; who pushes asks those beyond the element.
    pub fn of_packets(&self, kind: SignalKind) -> Notice {
        match kind {
            SignalKind::Packets => Notice::Signal(self.clone()),
            SignalKind::Room => Notice::Continue,
        }
    }

    /// Its number: signals that were made later have higher ones.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Whether it is raised.
    #[inline]
    pub fn is_raised(&self) -> bool {
        // Acquire: what was done before it was raised is seen (pairs with `raise`).
        self.0.raised.load(Ordering::Acquire)
    }

    /// Lowers it. Look once more afterwards whether that is still right: another
    /// thread may just have raised it.
    #[inline]
    pub fn lower(&self) {
        // SeqCst: the look that follows must not come first.
        self.0.raised.store(false, Ordering::SeqCst);
    }

    /// Raises it, and wakes those who wait if it was lowered.
    #[inline]
    pub fn raise(&self, cx: &mut crate::run::cx::Cx<'_>) {
        // The load first: a line that is only read stays with all its readers.
        if !self.is_raised() {
            self.raise_slowly(cx.lane);
        }
    }

    #[cold]
    fn raise_slowly(&self, lane: &mut Lane) {
        if self.0.raised.swap(true, Ordering::SeqCst) {
            return;
        }
        for waker in self.wakers().iter() {
            if waker.task.lane == lane.id {
                lane.tasks.schedule(waker.task);
            } else {
                waker.mailbox.wake(waker.task);
            }
        }
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `waker` woken when the signal rises from now on.
    pub(crate) fn listen(&self, waker: Waker) {
        let mut wakers = self.wakers();
        if !wakers.iter().any(|w| w.task == waker.task) {
            wakers.push(waker);
        }
    }

    /// Whether both are one.
    pub fn same(&self, other: &Signal) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// All that a task waits for.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    pub(crate) list: Vec<Signal>,
    /// Someone gives no signals.
    pub(crate) always: bool,
}

impl Signals {
    /// Always worth a try.
    pub fn always() -> Signals {
        Signals { list: vec![], always: true }
    }

    /// Whether it is worth a try.
    #[inline]
    pub fn any(&self) -> bool {
        self.always || self.list.iter().any(Signal::is_raised)
    }

    /// Whether nothing will ever come.
    pub fn never(&self) -> bool {
        !self.always && self.list.is_empty()
    }

    /// The signals, when all beyond give them.
    pub fn list(&self) -> &[Signal] {
        &self.list
    }

    /// Adds what another path says.
    pub fn add(&mut self, notice: Notice) {
        match notice {
            Notice::Always => self.always = true,
            Notice::Never | Notice::Continue => {}
            Notice::Signal(signal) | Notice::Both(signal) => {
                if !self.list.iter().any(|s| s.same(&signal)) {
                    self.list.push(signal);
                }
            }
        }
    }
}

/// What tells whether there are packets behind an input, or room behind an output.
pub(crate) fn signals(lane: &Lane, port: Port, kind: SignalKind) -> Signals {
    let mut search = Search { lane, kind, seen: HashSet::new(), found: Signals::default() };
    search.beyond(port);
    search.found
}

struct Search<'a> {
    lane: &'a Lane,
    kind: SignalKind,
    seen: HashSet<Port>,
    found: Signals,
}

impl Search<'_> {
    /// Asks all that stand at the other end of a port.
    fn beyond(&mut self, port: Port) {
        let mut ports = vec![port];
        while let Some(port) = ports.pop() {
            let plan = &self.lane.shared.plan;
            let (packets, others): (_, Vec<Port>) = match self.kind {
                SignalKind::Packets => (true, plan.before(port).collect()),
                SignalKind::Room => (false, plan.beyond(port).collect()),
            };
            for other in others {
                if self.seen.insert(other) {
                    self.ask(other, packets, &mut ports);
                }
            }
        }
    }

    fn ask(&mut self, at: Port, packets: bool, ports: &mut Vec<Port>) {
        let planned = &self.lane.shared.plan.elements[at.element];
        // One that is at work is the one that asks, or one that waits for it.
        let element = self.lane.slots[at.element].element.as_ref();
        let notice = element.map_or(Notice::Always, |e| e.notice(self.kind, at.port));
        let goes_on = matches!(notice, Notice::Continue | Notice::Both(_));
        self.found.add(notice);
        if !goes_on {
            return;
        }
        let (inputs, outputs) = (planned.pull_inputs.len(), planned.pull_outputs.len());
        let mut ends = true;
        for port in 0..if packets { inputs } else { outputs } {
            let (input, output) = if packets { (port, at.port) } else { (at.port, port) };
            let pulled = if packets { planned.pull_inputs[port] } else { !planned.pull_outputs[port] };
            if pulled && port_code::joins(planned.kind.flow, input, inputs, output, outputs) {
                ports.push(Port { element: at.element, port });
                ends = false;
            }
        }
        // Here packets begin, or end, without a word: always worth a try.
        self.found.always |= ends;
    }
}
