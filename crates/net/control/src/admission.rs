//! Who may tell us something by a port of this machine: the user who started the program,
//! root, and users that the configuration names.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use runtime::peer::Peers;
use rustix::net::{SocketFlags, acceptfrom_with};

/// Who is let in.
#[derive(Debug)]
pub struct Admission {
    peers: Peers,
    users: Vec<u32>,
}

impl Admission {
    /// Lets in root, this program's own user, and some others by their numbers. What it asks
    /// of the system later is opened now.
    ///
    /// # Errors
    /// When this kernel does not tell who somebody is.
    pub fn new(others: &[u32]) -> io::Result<Admission> {
        let own = rustix::process::getuid().as_raw();
        Ok(Admission { peers: Peers::open()?, users: [&[0, own], others].concat() })
    }

    /// Whether a TCP client is let in: one on this machine whose user is known and admitted.
    pub fn tcp(&self, peer: SocketAddr, own: SocketAddr) -> bool {
        peer.ip().to_canonical().is_loopback() && self.is_user(self.peers.user(peer, own))
    }

    /// Whether a client of a Unix socket is let in.
    pub fn unix(&self, socket: impl AsFd) -> bool {
        let credentials = rustix::net::sockopt::socket_peercred(socket);
        self.is_user(credentials.ok().map(|credentials| credentials.uid.as_raw()))
    }

    fn is_user(&self, user: Option<u32>) -> bool {
        user.is_some_and(|user| self.users.contains(&user))
    }
}

/// The next client of a socket that listens, and its address. The standard library makes
/// further system calls for that, which a confined process may not.
///
/// # Errors
/// When nobody waits, or the client is gone again.
pub(crate) fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let (client, from) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    Ok((client, from.and_then(|from| from.try_into().ok())))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn only_users_who_are_named_are_let_in() {
        let own = Admission::new(&[]).expect("this kernel tells");
        let nobody = Admission { users: vec![u32::MAX], peers: Peers::open().expect("this kernel tells") };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let (far, peer) = listener.accept().expect("a connection");
        let here = far.local_addr().expect("an address");
        assert_eq!((own.tcp(peer, here), nobody.tcp(peer, here)), (true, false));
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert_eq!((own.unix(&one), nobody.unix(&one)), (true, false));
        drop(near);
        assert!(!own.tcp(peer, here), "nobody has that connection");
    }
}
