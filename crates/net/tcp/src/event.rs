//! What a stack tells an application, and how the application names its connections.

use std::any::Any;
use std::sync::Arc;

use memory::Packet;
use runtime::Wakeup;

use crate::stack::Stack;

/// A connection, by its place in the stack. A place is used again, with another generation:
/// the name of a connection that has ended is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Id {
    /// Its place, below the most connections that the stack may have: for tables of the
    /// application's.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Both sides had ended.
    Finished,
    /// The other side reset it.
    Reset,
    /// Nobody answered, or took what was sent, for too long.
    TimedOut,
    /// The network told that the other side cannot be reached while the connection was being
    /// opened.
    Unreachable,
    /// Data came after the application had closed it, which reset it (RFC 9293, section
    /// 3.6.1).
    DataAfterClose,
}

/// What happened on a connection.
#[derive(Debug)]
pub enum Event {
    /// It is open, and the application may send.
    Connected {
        /// The connection that is open.
        connection: Id,
        /// Whether the other side opened it.
        is_passive: bool,
    },
    /// Bytes came: the packet is the application's, and holds nothing else. The window
    /// opens again by [`Stack::consume`]; an application that frees the packet earlier tells
    /// so by [`Stack::release`].
    Received {
        /// The connection that they came on.
        connection: Id,
        /// The bytes, where the device put them.
        packet: Packet,
    },
    /// The other side has so many more bytes, for which there is room again.
    Sent {
        /// The connection that it acknowledged them on.
        connection: Id,
        /// How many bytes more were acknowledged.
        bytes: u32,
    },
    /// The other side has sent all that it had to send.
    PeerFinished {
        /// The connection whose end came.
        connection: Id,
    },
    /// It is no more; the last event of each connection that the application did not abort.
    Closed {
        /// The connection that is no more.
        connection: Id,
        /// Why it ended.
        reason: Reason,
    },
    /// The time is over that [`Stack::set_timer`] was given.
    Timer {
        /// The connection whose timer was set.
        connection: Id,
    },
}

impl Event {
    /// On which connection it happened.
    pub fn connection(&self) -> Id {
        let (Event::Connected { connection, .. }
        | Event::Received { connection, .. }
        | Event::Sent { connection, .. }
        | Event::PeerFinished { connection }
        | Event::Closed { connection, .. }
        | Event::Timer { connection }) = self;
        *connection
    }
}

/// What an application keeps of a connection, on its way to the same application of another core.
pub type Kept = Box<dyn Any + Send>;

/// An application: it is given the events of a batch, and calls the stack in turn.
pub trait Service: Send {
    /// Is called once, before all events: an application that opens connections does so here.
    fn begin(&mut self, stack: &mut Stack, io: &mut crate::Io) {
        let _ = (stack, io);
    }

    /// Takes all `events`, and calls what it likes of `stack`: what it sends goes out when it
    /// has returned.
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut crate::Io);

    /// Whether its connections may move to the same application of another core, by
    /// [`give`](Service::give) and [`take`](Service::take).
    fn can_move(&self) -> bool {
        false
    }

    /// Lets go of what it keeps of a connection that moves to another core; `None` when it keeps
    /// nothing. It has seen all events of the connection.
    fn give(&mut self, connection: Id) -> Option<Kept> {
        let _ = connection;
        None
    }

    /// Takes what the application of another core kept of a connection, with its name here;
    /// `None` when there was no room for the connection, which was reset.
    fn take(&mut self, connection: Option<Id>, kept: Kept, stack: &mut Stack, io: &mut crate::Io) {
        let _ = (connection, kept, stack, io);
    }

    /// When it wants to be called though nothing has happened: one that does something at
    /// times of its own, to the nanosecond, where a timer of a connection may be late by a
    /// millisecond.
    fn deadline_ns(&self) -> Option<i64> {
        None
    }

    /// What other threads call when they have something for it: ends the sleep of the host's
    /// thread. [`deadline_ns`](Service::deadline_ns) then says that it wants to be called.
    /// Asked before the host runs. One that has it has its connections stay on their core, for a
    /// host is woken by one wake-up only.
    fn wakeup(&self) -> Option<Arc<Wakeup>> {
        None
    }
}
