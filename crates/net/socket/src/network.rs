//! What threads open connections and listeners by.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backlog::Backlog;
use crate::calls::{Call, Calls};
use crate::connection::{Connection, Handle, State};
use crate::engine::Engine;

/// What the streams of a stack may keep.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections, those among them that nobody has accepted or that still send their last
    /// bytes. Each keeps up to the stack's receive buffer (`tcp::Options::receive_buffer`) and
    /// [`send_buffer`](Limits::send_buffer) here, in memory that may be twice as much and is given back
    /// when the connection ends.
    pub connections: usize,
    /// Connections to a port that nobody has accepted.
    pub backlog: usize,
    /// Bytes of a connection that wait to be given to the stack, which has a buffer of its own.
    pub send_buffer: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 1024, backlog: 128, send_buffer: 64 << 10 }
    }
}

struct SharedNetwork {
    calls: Arc<Calls>,
    /// Ports that are listened on.
    ports: Mutex<BTreeSet<u16>>,
    backlog: usize,
}

/// The network as a host sees it: what connections are opened and accepted by, from any thread
/// but the stack's own.
#[derive(Clone)]
pub struct Network(Arc<SharedNetwork>);

/// A network, and the application of the stack that carries it: one host, of one core, with the
/// addresses `own`.
///
/// # Errors
/// When the process has no file descriptors left.
pub fn network(own: &[IpAddr], limits: Limits) -> io::Result<(Network, Engine)> {
    let calls = Arc::new(Calls::new(limits.connections, limits.send_buffer.max(1))?);
    let engine = Engine::new(own, calls.clone());
    let shared = SharedNetwork { calls, ports: Mutex::default(), backlog: limits.backlog };
    Ok((Network(Arc::new(shared)), engine))
}

impl Network {
    /// Begins to open a connection.
    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<Handle> {
        if to.port() == 0 || to.ip().is_unspecified() {
            return Err(ErrorKind::InvalidInput.into());
        }
        let place = self.0.calls.take_place().ok_or(ErrorKind::QuotaExceeded)?;
        let handle = Handle(Arc::new(Connection::new(place, State::default())));
        self.0.calls.push(Call::Connect(handle.0.clone(), to))?;
        Ok(handle)
    }

    fn ports(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.0.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen.
    pub(crate) fn listen(&self, port: u16) -> io::Result<Listening> {
        if port == 0 {
            return Err(ErrorKind::InvalidInput.into());
        }
        if !self.ports().insert(port) {
            return Err(ErrorKind::AddrInUse.into());
        }
        let backlog = Arc::new(Backlog::new(port, self.0.backlog));
        let listening = Listening { backlog: backlog.clone(), network: self.clone() };
        self.0.calls.push(Call::Listen(backlog))?;
        Ok(listening)
    }
}

/// A port that is listened on until this is dropped, which closes connections that nobody
/// accepted.
pub(crate) struct Listening {
    pub backlog: Arc<Backlog>,
    network: Network,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // In this order: whoever listens next stands behind it in the list of calls.
        let _ = self.network.0.calls.push(Call::Unlisten(self.backlog.clone()));
        self.network.ports().remove(&self.backlog.port);
    }
}
