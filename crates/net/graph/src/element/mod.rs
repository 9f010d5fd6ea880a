//! What an element is to the graph.
//!
//! An element is written in one of two ways. Most implement [`PerPacket`]: one
//! function for one packet, which says where the packet goes; [`Each`] makes an
//! [`Element`] of it, that looks at a whole batch with one virtual call and moves
//! no packet as long as all go the same way. Elements that keep, make or join
//! packets implement [`Element`] itself, for batches. What configurations, documents
//! and users see of it, its ports, arguments, handlers and drops, stands in its
//! [`Class`].
//!
//! An element never calls its neighbours downstream: it leaves packets in the
//! batch and says at which output they go on ([`Next::Push`]), or emits them one
//! by one ([`Cx::emit`]); the lane carries them on when the element has returned.
//! So a graph may lead back to an element that it came from, an element's handlers
//! can be called by those behind it, and long chains need no stack.

pub mod account;
pub mod chain;
pub mod class;
pub mod conf;
pub mod handler;
pub mod interfaces;
pub mod kernel;
mod per_packet;
pub mod port_code;
pub mod value;
pub mod well_known;

use std::any::Any;

use memory::Batch;

use crate::run::cx::Cx;
use crate::run::handlers::Named;
use crate::run::signal::{Notice, SignalKind};

pub use account::Account;
pub use class::{Class, Registry};
pub use conf::{Conf, ConfFault};
pub use per_packet::{Action, Each, PerPacket};

/// What becomes of the packets an element leaves in the batch it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// They go on at this output. Where there is no such output they are dropped,
    /// for the class's first reason.
    Push(usize),
    /// They are freed; the element counted them, or kept them all.
    Done,
    /// They come in at this input once more, behind the calls that the element asked for
    /// ([`Cx::call`]): what it does with them depends on those.
    Again(usize),
}

/// What a task did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// Whether it did anything: a task that did not lets others go first.
    pub worked: bool,
    /// What becomes of the packets in the batch.
    pub next: Next,
    /// It has not done all that it does in a turn: it goes on as soon as these packets have gone
    /// as far as they go.
    pub again: bool,
}

impl Ran {
    /// There was nothing to do.
    pub const IDLE: Ran = Ran { worked: false, next: Next::Done, again: false };

    /// Packets in the batch go on at `output`.
    pub fn push(output: usize) -> Ran {
        Ran { worked: true, next: Next::Push(output), again: false }
    }

    /// Something was done that concerns no packet in the batch.
    pub fn done(worked: bool) -> Ran {
        Ran { worked, next: Next::Done, again: false }
    }

    /// As this, and there is more of the turn if `again`.
    pub fn then(self, again: bool) -> Ran {
        Ran { again, ..self }
    }
}

/// Why a handler did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No element named '{0}'
    #[error("no element named '{0}'")]
    NoElement(String),
    /// The element has no handler '{0}'
    #[error("no '{0}' handler")]
    NoHandler(String),
    /// It cannot be read, or is not there.
    #[error("no '{0}' read handler")]
    NotReadable(String),
    /// It cannot be written, or is not there.
    #[error("no '{0}' write handler")]
    NotWritable(String),
    /// It takes no parameter.
    #[error("read handler '{0}' does not take parameters")]
    NoParameter(String),
    /// The name of a handler is none.
    #[error("syntax error")]
    BadName,
    /// The element is at work further up, and waits for this.
    #[error("'{0}' is busy")]
    Busy(String),
    /// The element's own word.
    #[error("{0}")]
    Failed(String),
    /// A script ended with an error; what it was may have been told before.
    #[error("{0}")]
    Aborted(String),
}

/// What an element has to say to whoever calls one of its handlers, beside the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Nothing is wrong, but might be.
    pub is_warning: bool,
    /// What it says, a sentence for people.
    pub text: String,
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.is_warning { "warning: " } else { "" }, self.text)
    }
}

impl From<String> for Refused {
    fn from(message: String) -> Refused {
        Refused::Failed(message)
    }
}

impl From<&str> for Refused {
    fn from(message: &str) -> Refused {
        Refused::Failed(message.into())
    }
}

impl From<crate::element::conf::ConfFault> for Refused {
    fn from(fault: crate::element::conf::ConfFault) -> Refused {
        Refused::Failed(fault.compat.unwrap_or(fault.message))
    }
}

impl Refused {
    /// Whether the handler was not called at all.
    pub fn is_uncalled(&self) -> bool {
        !matches!(self, Refused::Failed(_) | Refused::Aborted(_) | Refused::Busy(_))
    }
}

/// An element. `&mut self`: one thread has it. What several threads reach is there
/// once for each ([`replicate`](Self::replicate)), or behind a lock.
///
/// Nothing must be there; most have [`push`](Self::push) or [`pull`](Self::pull), and
/// `replicate`. Handlers are rows of its [class](crate::Class::handlers). The last
/// functions are for ports, scripts and [`Each`]. What is known of an element when it is made, that
/// it keeps packets or chooses inputs, say, it tells [`Setup`](crate::Setup).
#[allow(unused_variables)]
pub trait Element: Any + Send {
    /// Whether what the configuration names is there: other elements, their handlers. Asked when
    /// all elements are made, before any is initialized, and where a router is only looked at.
    ///
    /// # Errors
    /// What is not there, or not what it must be.
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        Ok(())
    }

    /// All elements are made and connected: makes tasks and timers, finds others.
    ///
    /// # Errors
    /// Why the router cannot run.
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Packets come in at `input`.
    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        Next::Push(0)
    }

    /// Packets are wanted at `output`: appends up to [`Batch::room`] of them. Only
    /// for elements with a pull output; agnostic ones between a pull input and a
    /// pull output are asked to [`push`](Self::push) what was pulled.
    fn pull(&mut self, cx: &mut Cx<'_>, output: usize, batch: &mut Batch) {}

    /// A task has its turn. It is not scheduled any more: see [`Cx::schedule`].
    fn run(&mut self, cx: &mut Cx<'_>, task: crate::run::task::TaskId, batch: &mut Batch) -> Ran {
        Ran::IDLE
    }

    /// A timer's time has come.
    fn fire(&mut self, cx: &mut Cx<'_>, timer: crate::run::timer::TimerId) {}

    /// A watched file can be read, or written.
    fn ready(&mut self, cx: &mut Cx<'_>, watch: crate::run::watch::WatchId) {}

    /// What the element tells those who wait for packets at its output, or for
    /// room at its input.
    fn notice(&self, kind: SignalKind, port: usize) -> Notice {
        Notice::Continue
    }

    /// One more of the same for another thread, sharing what must be shared; `None`
    /// when the element must not be there twice.
    fn replicate(&self) -> Option<Box<dyn Element>> {
        None
    }

    /// Takes a new configuration while it runs: that of `new`, a fresh element of the
    /// same class. Only for classes that are [`live`](crate::Class::live).
    ///
    /// # Errors
    /// When it cannot.
    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        Err(cannot_reconfigure(cx))
    }

    /// Takes over what an element of the same name and class kept, when a new
    /// configuration takes the place of an old one. Called once for each copy that
    /// the old one had, whatever the threads: a copy gives what is its own, and
    /// what copies share the first of them gives.
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {}

    /// The router is about to run: nothing runs any more that came before it, and
    /// what that had of the outside is free.
    fn begin(&mut self, cx: &mut Cx<'_>) {}

    /// The router comes to an end: files are written out.
    fn cleanup(&mut self, cx: &mut Cx<'_>) {}

    /// Somebody is about to read what all threads counted: shows others what only this
    /// thread can read. Only for elements that have such counters.
    fn publish(&mut self) {}

    /// If it says which threads run its tasks.
    fn thread_placement(&self) -> Option<&dyn ThreadPlacement> {
        None
    }

    /// If it is asked before the router stops.
    fn stop_hook(&mut self) -> Option<&mut dyn StopHook> {
        None
    }

    /// What looks at one packet at a time in it, if it is an [`Each`].
    fn per_packet(&mut self) -> Option<&mut dyn Any> {
        None
    }
}

/// What [`Element::reconfigure`] says of an element that does not.
#[cold]
fn cannot_reconfigure(cx: &Cx<'_>) -> Refused {
    let (name, class) = (cx.name(), cx.class());
    Refused::Failed(format!("cannot reconfigure {name} :: {class} live"))
}

/// An element that says which threads run its tasks: a port with queues, say.
pub trait ThreadPlacement {
    /// The threads, a bit for each. `taken` are those that the configuration gave to
    /// others.
    fn homes(&self, taken: u64) -> u64;

    /// Whether packets that are pushed into it are sent on by these threads, and by no
    /// others.
    fn hands_over(&self) -> bool {
        false
    }
}

/// An element that is asked before the router stops: a script.
pub trait StopHook {
    /// Enough elements want the router to stop. `true`: not yet, there is something to do
    /// first.
    fn stopping(&mut self, cx: &mut Cx<'_>) -> bool;
}
