//! A connection as its handles and the thread of the stack share it: the bytes that came and were
//! not read, those that were written and not given to the stack, and who waits for either.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tcp::{Id, Reason};

use crate::calls::{Call, Calls, ConnectionSlot};

/// What both sides share of a connection.
pub(crate) struct Connection {
    state: Mutex<State>,
    /// Something changed for which a thread is blocked.
    changed: Condvar,
    place: ConnectionSlot,
}

/// The state of a connection.
#[derive(Default)]
pub(crate) struct State {
    /// Its name; none before the stack has it.
    pub id: Option<Id>,
    /// This end and the other; none before it is open.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// The same, while it is being opened.
    pub opening: Option<(SocketAddr, SocketAddr)>,
    /// Bytes that came and were not read: no more than the stack's receive buffer.
    pub received: VecDeque<u8>,
    /// Bytes that were read of which the stack was not told.
    pub consumed: usize,
    /// So many of them are worth telling: the window opens by that much.
    pub worth_telling: usize,
    /// Bytes that wait to be given to the stack.
    pub to_send: VecDeque<u8>,
    /// Whether small segments are to wait for each other, where the stack was not told.
    pub nagle: Option<bool>,
    /// The other side has sent all that it had to send.
    pub is_peer_finished: bool,
    /// This side sends nothing behind `to_send`.
    pub is_finished: bool,
    /// The stack was told so.
    pub is_finish_told: bool,
    /// Nobody reads any more.
    pub is_read_shut: bool,
    /// No handle is left.
    pub is_dropped: bool,
    /// The stack was told when it is reset if its last bytes are not taken by then.
    pub is_lingering: bool,
    /// Why there is no connection any more.
    pub ended: Option<Ended>,
    /// It stands in the list of calls.
    is_called: bool,
    /// Threads may wait for a change.
    is_blocked: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Why there is no connection any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Both sides had ended.
    Finished,
    /// This is what went wrong.
    Failed(ErrorKind),
}

impl Ended {
    /// The end of a connection that was open, or was to be opened.
    pub fn of(reason: Reason, was_open: bool) -> Ended {
        match reason {
            Reason::Finished => Ended::Finished,
            Reason::Reset if !was_open => Ended::Failed(ErrorKind::ConnectionRefused),
            Reason::Reset => Ended::Failed(ErrorKind::ConnectionReset),
            Reason::TimedOut => Ended::Failed(ErrorKind::TimedOut),
            Reason::Unreachable => Ended::Failed(ErrorKind::HostUnreachable),
            Reason::DataAfterClose => Ended::Failed(ErrorKind::ConnectionAborted),
        }
    }
}

/// Who is to be woken when the state is not locked any more.
#[derive(Default)]
#[must_use]
pub(crate) struct Waiting {
    is_blocked: bool,
    wakers: [Option<Waker>; 2],
}

impl State {
    /// Of a connection that the stack has.
    pub fn opened(id: Id, ends: Option<(SocketAddr, SocketAddr)>, worth_telling: usize) -> State {
        State { id: Some(id), ends, worth_telling, ..State::default() }
    }

    /// Whoever waits for bytes, or for the other side's end.
    pub fn wake_reader(&mut self) -> Waiting {
        Waiting { is_blocked: std::mem::take(&mut self.is_blocked), wakers: [self.reader.take(), None] }
    }

    /// Whoever waits for room, or for the connection.
    pub fn wake_writer(&mut self) -> Waiting {
        Waiting { is_blocked: std::mem::take(&mut self.is_blocked), wakers: [self.writer.take(), None] }
    }

    /// Whoever waits for bytes, for room, or for the connection.
    pub fn wake_all(&mut self) -> Waiting {
        Waiting { wakers: [self.reader.take(), self.writer.take()], ..self.wake_reader() }
    }

    /// Whether it is open. What came behind that, its end as well, is found by reading.
    fn poll_open(&mut self, _: &mut Worth) -> Poll<io::Result<()>> {
        match self.ended {
            _ if self.ends.is_some() => Poll::Ready(Ok(())),
            Some(Ended::Failed(kind)) => Poll::Ready(Err(kind.into())),
            Some(Ended::Finished) => Poll::Ready(Err(ErrorKind::ConnectionAborted.into())),
            None => Poll::Pending,
        }
    }

    /// Takes bytes that came, those of a connection that has ended as well; zero behind the last.
    fn read(&mut self, bytes: &mut [u8], worth: &mut Worth) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if !self.received.is_empty() {
            let count = self.received.read(bytes)?;
            self.consumed += count;
            worth.0 = self.consumed >= self.worth_telling;
            return Poll::Ready(Ok(count));
        }
        match self.ended {
            _ if self.is_read_shut || self.is_peer_finished => Poll::Ready(Ok(0)),
            Some(Ended::Finished) => Poll::Ready(Ok(0)),
            Some(Ended::Failed(kind)) => Poll::Ready(Err(kind.into())),
            None => Poll::Pending,
        }
    }

    /// Keeps as many bytes to be sent as there is room for.
    fn write(&mut self, bytes: &[u8], limit: usize, worth: &mut Worth) -> Poll<io::Result<usize>> {
        match self.ended {
            Some(Ended::Failed(kind)) => return Poll::Ready(Err(kind.into())),
            Some(Ended::Finished) => return Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
            None if self.is_finished => return Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
            None if bytes.is_empty() => return Poll::Ready(Ok(0)),
            None => {}
        }
        let count = bytes.len().min(limit.saturating_sub(self.to_send.len()));
        if count == 0 || self.ends.is_none() {
            return Poll::Pending;
        }
        self.to_send.extend(&bytes[..count]);
        worth.0 = true;
        Poll::Ready(Ok(count))
    }

    /// The stack's thread looks at it now.
    pub fn take_call(&mut self) {
        self.is_called = false;
    }
}

/// Whether the stack's thread is to look.
#[derive(Default)]
struct Worth(bool);

impl Connection {
    pub fn new(place: ConnectionSlot, state: State) -> Connection {
        Connection { state: Mutex::new(state), changed: Condvar::new(), place }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those who wait.
    pub fn wake(&self, waiting: Waiting) {
        if waiting.is_blocked {
            self.changed.notify_all();
        }
        waiting.wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Has all handles find the connection ended.
    pub fn end(&self, ended: Ended) {
        let mut state = self.lock();
        state.ended.get_or_insert(ended);
        state.to_send = VecDeque::new();
        let waiting = state.wake_all();
        drop(state);
        self.wake(waiting);
    }

    fn calls(&self) -> &Arc<Calls> {
        &self.place.0
    }

    /// Has the stack's thread look at it, unless it will anyhow.
    fn call(self: &Arc<Connection>, mut state: MutexGuard<'_, State>) {
        let is_called = state.ended.is_some() || std::mem::replace(&mut state.is_called, true);
        drop(state);
        if !is_called && self.calls().push(Call::Look(self.clone())).is_err() {
            self.end(Ended::Failed(ErrorKind::NotConnected));
        }
    }

    /// Tries something until it does not have to wait, for so long at most.
    fn block_on<T>(
        self: &Arc<Connection>,
        limit: Option<Duration>,
        mut attempt: impl FnMut(&mut State, &mut Worth) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        // A limit beyond the end of the clock is none.
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.lock();
        loop {
            let mut worth = Worth::default();
            if let Poll::Ready(done) = attempt(&mut state, &mut worth) {
                if worth.0 {
                    self.call(state);
                }
                return done;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(ErrorKind::TimedOut.into());
            }
            state.is_blocked = true; // until all threads are woken
            state = match left {
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Tries something, and leaves a waker where it has to wait.
    fn poll<T>(
        self: &Arc<Connection>,
        waker: fn(&mut State) -> &mut Option<Waker>,
        context: &mut Context<'_>,
        attempt: impl FnOnce(&mut State, &mut Worth) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.lock();
        let mut worth = Worth::default();
        let done = attempt(&mut state, &mut worth);
        if done.is_pending() {
            match waker(&mut state) {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
        }
        if worth.0 {
            self.call(state);
        }
        done
    }
}

/// The user's side of a connection, which all copies of a stream share: the last one that is
/// dropped closes it.
pub(crate) struct Handle(pub Arc<Connection>);

impl Handle {
    pub fn open(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.block_on(limit, State::poll_open)
    }

    pub fn poll_open(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll(|state| &mut state.writer, context, State::poll_open)
    }

    pub fn read(&self, bytes: &mut [u8], limit: Option<Duration>) -> io::Result<usize> {
        self.0.block_on(limit, |state, worth| state.read(bytes, worth))
    }

    pub fn poll_read(&self, context: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll(|state| &mut state.reader, context, |state, worth| state.read(bytes, worth))
    }

    pub fn write(&self, bytes: &[u8], limit: Option<Duration>) -> io::Result<usize> {
        let most = self.0.calls().send_buffer;
        self.0.block_on(limit, |state, worth| state.write(bytes, most, worth))
    }

    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let most = self.0.calls().send_buffer;
        self.0.poll(|state| &mut state.writer, context, |state, worth| state.write(bytes, most, worth))
    }

    /// Sends nothing behind what was written.
    ///
    /// # Errors
    /// Why there is no connection any more.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        if let Some(Ended::Failed(kind)) = state.ended {
            return Err(kind.into());
        }
        state.is_finished = true;
        let waiting = state.wake_writer();
        self.0.call(state);
        self.0.wake(waiting);
        Ok(())
    }

    /// Reads no more: what came and comes is discarded.
    pub fn shut_read(&self) {
        let mut state = self.0.lock();
        state.is_read_shut = true;
        state.consumed += state.received.len();
        state.received = VecDeque::new();
        let waiting = state.wake_reader();
        self.0.call(state);
        self.0.wake(waiting);
    }

    /// Chooses whether small segments wait for each other.
    pub fn set_nagle(&self, is_on: bool) {
        let mut state = self.0.lock();
        state.nagle = Some(is_on);
        self.0.call(state);
    }

    /// This end and the other.
    ///
    /// # Errors
    /// `NotConnected` when it was never open.
    pub fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        self.0.lock().ends.ok_or_else(|| ErrorKind::NotConnected.into())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_dropped = true;
        self.0.call(state);
    }
}
