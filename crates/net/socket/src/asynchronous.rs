//! Streams and listeners for tasks: they implement the traits of `futures-io`, and need no
//! runtime but one that polls. Timeouts are the caller's: a future that is dropped has done
//! nothing, or all that it would have told of.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use crate::connection::Handle;
use crate::network::{Listening, Network};

/// A connection, of which one task reads and one writes at a time, by references to it. It is
/// closed when it is dropped, as [`blocking::TcpStream`](crate::blocking::TcpStream) is.
pub struct TcpStream(Handle);

impl TcpStream {
    /// Opens a connection. It is given up when the future is dropped.
    ///
    /// # Errors
    /// As [`blocking::TcpStream::connect`](crate::blocking::TcpStream::connect).
    pub async fn connect(network: &Network, to: SocketAddr) -> io::Result<TcpStream> {
        let handle = network.connect(to)?;
        poll_fn(|context| handle.poll_open(context)).await?;
        Ok(TcpStream(handle))
    }

    /// Chooses whether small segments go at once, instead of waiting for the acknowledgement of
    /// those before them (Nagle's algorithm, RFC 9293, section 3.7.4).
    pub fn set_nodelay(&self, is_on: bool) {
        self.0.set_nagle(!is_on);
    }

    /// The address and port of this side.
    ///
    /// # Errors
    /// None once it is open.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.ends().map(|(own, _)| own)
    }

    /// The address and port of the other side.
    ///
    /// # Errors
    /// None once it is open.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.ends().map(|(_, peer)| peer)
    }
}

impl AsyncRead for &TcpStream {
    /// Takes bytes that came; zero behind the last one.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, bytes)
    }
}

impl AsyncWrite for &TcpStream {
    /// Takes as many bytes as there is room for.
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }

    /// Nothing: what was written is sent without it.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends writing behind what was written; reading goes on.
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.finish())
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read(cx, bytes)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_close(cx)
    }
}

/// A port whose connections are accepted one by one. When it is dropped the port is closed, and
/// so are connections that nobody accepted.
pub struct TcpListener(Listening);

impl TcpListener {
    /// Listens on a port of all addresses of the host, once its stack's thread has heard of it.
    ///
    /// # Errors
    /// `AddrInUse`, `InvalidInput` for port 0, and `NotConnected` when the host has ended.
    pub async fn bind(network: &Network, port: u16) -> io::Result<TcpListener> {
        let listening = network.listen(port)?;
        poll_fn(|context| listening.backlog.poll_open(context)).await?;
        Ok(TcpListener(listening))
    }

    /// Waits for a connection; it comes with the other side's address. A future that is dropped
    /// leaves it to the next call.
    ///
    /// # Errors
    /// `NotConnected` when the host has ended.
    pub async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let handle = poll_fn(|context| self.0.backlog.poll_accept(context)).await?;
        let (_, peer) = handle.ends()?;
        Ok((TcpStream(handle), peer))
    }

    /// The port that is listened on.
    pub fn port(&self) -> u16 {
        self.0.backlog.port
    }
}
