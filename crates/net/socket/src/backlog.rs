//! Connections that others opened, until somebody accepts them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::calls::no_stack;
use crate::connection::Handle;

/// How far a listener is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// The stack does not know of it yet.
    #[default]
    Begins,
    /// Connections are accepted.
    Open,
    /// The stack is no more.
    Over,
}

#[derive(Default)]
struct State {
    phase: Phase,
    connections: VecDeque<Handle>,
    /// Threads may wait.
    is_blocked: bool,
    waker: Option<Waker>,
}

/// The connections to a port that nobody has accepted.
pub(crate) struct Backlog {
    /// The port that is listened on.
    pub port: u16,
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Backlog {
    /// The backlog of a port, of so many connections at most.
    pub fn new(port: u16, limit: usize) -> Backlog {
        Backlog { port, limit: limit.max(1), state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for another connection: only the stack's thread adds any.
    pub fn has_room(&self) -> bool {
        self.lock().connections.len() < self.limit
    }

    pub fn push(&self, connection: Handle) {
        let mut state = self.lock();
        state.connections.push_back(connection);
        self.tell(state);
    }

    /// The stack takes connections from now on.
    pub fn begin(&self) {
        let mut state = self.lock();
        state.phase = Phase::Open;
        self.tell(state);
    }

    /// The stack is no more.
    pub fn end(&self) {
        let mut state = self.lock();
        state.phase = Phase::Over;
        self.tell(state);
    }

    /// Closes those that nobody accepted.
    pub fn clear(&self) {
        let connections = std::mem::take(&mut self.lock().connections);
        drop(connections); // which calls for the stack, without the lock
    }

    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let (is_blocked, waker) = (std::mem::take(&mut state.is_blocked), state.waker.take());
        drop(state);
        if is_blocked {
            self.changed.notify_all();
        }
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits until the stack takes connections.
    pub fn open(&self) -> io::Result<()> {
        self.block_on(State::poll_open)
    }

    pub fn poll_open(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(context, State::poll_open)
    }

    /// Waits for a connection.
    pub fn accept(&self) -> io::Result<Handle> {
        self.block_on(State::poll_accept)
    }

    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Handle>> {
        self.poll(context, State::poll_accept)
    }

    fn block_on<T>(&self, attempt: fn(&mut State) -> Poll<io::Result<T>>) -> io::Result<T> {
        let mut state = self.lock();
        loop {
            if let Poll::Ready(done) = attempt(&mut state) {
                return done;
            }
            state.is_blocked = true; // until all threads are woken
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        attempt: fn(&mut State) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.lock();
        let done = attempt(&mut state);
        if done.is_pending() {
            state.waker = Some(context.waker().clone());
        }
        done
    }
}

impl State {
    fn poll_open(&mut self) -> Poll<io::Result<()>> {
        match self.phase {
            Phase::Begins => Poll::Pending,
            Phase::Open => Poll::Ready(Ok(())),
            Phase::Over => Poll::Ready(Err(no_stack())),
        }
    }

    fn poll_accept(&mut self) -> Poll<io::Result<Handle>> {
        match self.connections.pop_front() {
            Some(connection) => Poll::Ready(Ok(connection)),
            None if self.phase == Phase::Over => Poll::Ready(Err(ErrorKind::NotConnected.into())),
            None => Poll::Pending,
        }
    }
}
