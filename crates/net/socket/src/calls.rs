//! What the handles of connections have for the thread of the stack: a list with a flag, which
//! that thread looks at in each turn, and a wake-up for when it sleeps.
//!
//! The list is bounded: a connection stands in it once for being opened and once for being
//! looked at, a listener once for its beginning and once for its end.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::Wakeup;

use crate::backlog::Backlog;
use crate::connection::Connection;

/// What a handle wants.
pub(crate) enum Call {
    /// A connection to an address is to be opened.
    Connect(Arc<Connection>, SocketAddr),
    /// Something changed at a connection: bytes to be sent, bytes that were read, an end.
    Look(Arc<Connection>),
    /// Connections to a port are to be accepted.
    Listen(Arc<Backlog>),
    /// They are not any more.
    Unlisten(Arc<Backlog>),
}

#[derive(Default)]
struct List {
    calls: Vec<Call>,
    /// The stack is no more: nobody takes calls.
    is_over: bool,
}

/// The calls for one stack.
pub(crate) struct Calls {
    list: Mutex<List>,
    is_any: AtomicBool,
    wakeup: Arc<Wakeup>,
    /// Connections that there are, and how many there may be.
    open: AtomicUsize,
    limit: usize,
    /// Bytes that a connection keeps to be given to the stack.
    pub send_buffer: usize,
}

impl Calls {
    pub fn new(limit: usize, send_buffer: usize) -> io::Result<Calls> {
        Ok(Calls {
            list: Mutex::default(),
            is_any: AtomicBool::new(false),
            wakeup: Arc::new(Wakeup::new()?),
            open: AtomicUsize::new(0),
            limit,
            send_buffer,
        })
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a call, and wakes the stack's thread if it is the first since that looked.
    ///
    /// # Errors
    /// `NotConnected` when the stack is no more.
    pub fn push(&self, call: Call) -> io::Result<()> {
        let mut list = self.list();
        if list.is_over {
            return Err(no_stack());
        }
        list.calls.push(call);
        let was_any = self.is_any.swap(true, Ordering::Release);
        drop(list);
        if !was_any {
            self.wakeup.wake();
        }
        Ok(())
    }

    /// Whether there are calls.
    pub fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Takes all calls, in place of an empty list.
    pub fn swap(&self, calls: &mut Vec<Call>) {
        let mut list = self.list();
        std::mem::swap(&mut list.calls, calls);
        self.is_any.store(false, Ordering::Release);
    }

    /// Takes no more calls; those that nobody took.
    pub fn end(&self) -> Vec<Call> {
        let mut list = self.list();
        list.is_over = true;
        std::mem::take(&mut list.calls)
    }

    pub fn wakeup(&self) -> Arc<Wakeup> {
        self.wakeup.clone()
    }

    /// A place for a connection, if there is one.
    pub fn take_place(self: &Arc<Calls>) -> Option<ConnectionSlot> {
        let more = |open| (open < self.limit).then_some(open + 1);
        self.open.try_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(ConnectionSlot(self.clone()))
    }
}

/// A connection's place among those that there may be, until it is dropped.
pub(crate) struct ConnectionSlot(pub Arc<Calls>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error of all calls once the stack's thread has ended.
pub(crate) fn no_stack() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the host of this connection has ended")
}
