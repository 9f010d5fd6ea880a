//! Streams and listeners that block their thread, with the methods of those in `std::net`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::connection::Handle;
use crate::network::{Listening, Network};

/// How long reading and writing may wait.
#[derive(Debug, Clone, Copy, Default)]
struct Timeouts {
    read: Option<Duration>,
    write: Option<Duration>,
}

struct SharedStack {
    handle: Handle,
    timeouts: Mutex<Timeouts>,
}

/// A connection. It is closed when the last of its clones is dropped: what was written is still
/// sent, within the time that the stack waits in FIN-WAIT-2 ([`tcp::Options::fin_wait_ns`]), unless
/// something came that nobody has read, which resets it, as on Linux.
///
/// Bytes that came before a reset are read before the error is told.
pub struct TcpStream(Arc<SharedStack>);

impl TcpStream {
    fn new(handle: Handle) -> TcpStream {
        TcpStream(Arc::new(SharedStack { handle, timeouts: Mutex::default() }))
    }

    /// Opens a connection, and waits until it is open.
    ///
    /// # Errors
    /// `ConnectionRefused`, `TimedOut` and `HostUnreachable` as the other side or the network
    /// answers, `NetworkUnreachable` where this host has no address of that version of IP,
    /// `AddrNotAvailable` when no port of this side is free, `QuotaExceeded` beyond
    /// [`Limits::connections`](crate::Limits::connections), `NotConnected` when the host has
    /// ended, `InvalidInput` for an address that is nobody's.
    pub fn connect(network: &Network, to: SocketAddr) -> io::Result<TcpStream> {
        let handle = network.connect(to)?;
        handle.open(None)?;
        Ok(TcpStream::new(handle))
    }

    /// Likewise, for so long at most.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect), `TimedOut` when the time is over, and `InvalidInput`
    /// for none.
    pub fn connect_timeout(network: &Network, to: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        let timeout = checked(Some(timeout))?;
        let handle = network.connect(to)?;
        handle.open(timeout)?;
        Ok(TcpStream::new(handle))
    }

    /// The same connection once more: closed when all are dropped, and with the same timeouts.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        Ok(TcpStream(self.0.clone()))
    }

    /// Ends reading, writing or both. The end of writing is sent behind what was written; bytes
    /// that come after the end of reading are discarded.
    ///
    /// # Errors
    /// Why there is no connection any more.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if matches!(how, Shutdown::Read | Shutdown::Both) {
            self.0.handle.shut_read();
        }
        match how {
            Shutdown::Read => Ok(()),
            Shutdown::Write | Shutdown::Both => self.0.handle.finish(),
        }
    }

    fn timeouts(&self) -> MutexGuard<'_, Timeouts> {
        self.0.timeouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long reading may wait; for ever with `None`. The error is then `TimedOut`.
    ///
    /// # Errors
    /// `InvalidInput` for no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeouts().read = checked(timeout)?;
        Ok(())
    }

    /// How long writing may wait for room; for ever with `None`. The error is then `TimedOut`.
    ///
    /// # Errors
    /// `InvalidInput` for no time at all.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeouts().write = checked(timeout)?;
        Ok(())
    }

    /// Chooses whether small segments go at once, instead of waiting for the acknowledgement of
    /// those before them (Nagle's algorithm, RFC 9293, section 3.7.4).
    pub fn set_nodelay(&self, is_on: bool) {
        self.0.handle.set_nagle(!is_on);
    }

    /// The address and port of this side.
    ///
    /// # Errors
    /// None once it is open.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.handle.ends().map(|(own, _)| own)
    }

    /// The address and port of the other side.
    ///
    /// # Errors
    /// None once it is open.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.handle.ends().map(|(_, peer)| peer)
    }
}

/// A timeout, which must be some time.
fn checked(timeout: Option<Duration>) -> io::Result<Option<Duration>> {
    match timeout {
        Some(Duration::ZERO) => Err(ErrorKind::InvalidInput.into()),
        timeout => Ok(timeout),
    }
}

impl Read for &TcpStream {
    /// Takes bytes that came; zero behind the last one.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let timeout = self.timeouts().read;
        self.0.handle.read(bytes, timeout)
    }
}

impl Write for &TcpStream {
    /// Takes as many bytes as there is room for.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let timeout = self.timeouts().write;
        self.0.handle.write(bytes, timeout)
    }

    /// Nothing: what was written is sent without it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&*self).read(bytes)
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A port whose connections are accepted one by one. When it is dropped the port is closed, and
/// so are connections that nobody accepted.
pub struct TcpListener(Listening);

impl TcpListener {
    /// Listens on a port of all addresses of the host. Waits until its stack does, which must run
    /// on another thread.
    ///
    /// # Errors
    /// `AddrInUse`, `InvalidInput` for port 0, and `NotConnected` when the host has ended.
    pub fn bind(network: &Network, port: u16) -> io::Result<TcpListener> {
        let listening = network.listen(port)?;
        listening.backlog.open()?;
        Ok(TcpListener(listening))
    }

    /// Waits for a connection; it comes with the other side's address.
    ///
    /// # Errors
    /// `NotConnected` when the host has ended.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let handle = self.0.backlog.accept()?;
        let (_, peer) = handle.ends()?;
        Ok((TcpStream::new(handle), peer))
    }

    /// The port that is listened on.
    pub fn port(&self) -> u16 {
        self.0.backlog.port
    }
}
