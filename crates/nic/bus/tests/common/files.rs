//! Files whose owner decides how long others wait for them.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// How long they wait at most: longer than a test does, so that one who waits fails it.
pub const LONG: Duration = Duration::from_secs(20);

/// A socket that whoever closes it last waits for, and its other end, which does not read.
pub fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 65536]).is_ok() {}
    set_socket_linger(&socket, Some(LONG)).unwrap();
    (socket.into(), other)
}
