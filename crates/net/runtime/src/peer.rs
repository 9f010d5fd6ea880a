//! Who is at the other end of a connection on this machine. TCP does not tell; the kernel
//! does, of each socket that it has: by `sock_diag(7)`, which finds one by its addresses,
//! or where that is not to be had by `/proc/net/tcp` (proc(5)), which lists all.
//!
//! Both are opened in the beginning and need no further file, so that a confined process
//! can go on asking.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};
use wire::ip::Protocol;

/// Bytes of `/proc/net/tcp` that are looked at: some 25,000 connections.
const MAX_LIST: usize = 4 << 20;

/// A message's header, and a request of `linux/inet_diag.h` (`inet_diag_req_v2`).
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
/// `NLM_F_REQUEST` and `SOCK_DIAG_BY_FAMILY`.
const IS_REQUEST: u16 = 1;
const BY_FAMILY: u16 = 20;
/// The state of a socket that waits for connections (`TCP_LISTEN`).
const LISTENS: u8 = 10;

/// A socket of this machine, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    state: u8,
    user: u32,
    /// 0: no process has it any more, and `user` says nothing.
    inode: u32,
}

/// Finds the users of connections.
#[derive(Debug)]
pub struct Peers {
    diag: Option<OwnedFd>,
    lists: Vec<File>,
}

impl Peers {
    /// Opens what is asked later.
    ///
    /// # Errors
    /// When this kernel tells nothing of either kind.
    pub fn open() -> io::Result<Peers> {
        let diag = open_diag().ok();
        let lists: Vec<File> =
            ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|path| File::open(path).ok()).collect();
        if diag.is_none() && lists.is_empty() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        Ok(Peers { diag, lists })
    }

    /// The user whose socket is at `peer`, connected to ours at `own`. `None` when nobody
    /// has it any more: whose it was cannot be said then.
    pub fn user(&self, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
        let known = self.diag.as_ref().and_then(|diag| ask(diag, peer, own));
        let known = known.or_else(|| self.lists.iter().find_map(|list| find(list, peer, own)));
        known.filter(|known| known.state != LISTENS && known.inode != 0).map(|known| known.user)
    }
}

fn open_diag() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?)
}

/// An address as `inet_diag_sockid` has it.
fn words(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let mut words = [0; 16];
            words[..4].copy_from_slice(&address.octets());
            words
        }
    }
}

/// Asks for one socket. The kernel answers while the request is written (`sock_diag` has
/// no queue of its own), so nothing waits here.
fn ask(diag: &OwnedFd, peer: SocketAddr, own: SocketAddr) -> Option<Known> {
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut request = [0u8; REQUEST];
    request[0..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&IS_REQUEST.to_ne_bytes());
    let body = &mut request[HEADER..];
    (body[0], body[1]) = (family.as_raw() as u8, Protocol::TCP.0);
    body[4..8].fill(0xFF); // in any state
    body[8..10].copy_from_slice(&peer.port().to_be_bytes());
    body[10..12].copy_from_slice(&own.port().to_be_bytes());
    body[12..28].copy_from_slice(&words(peer.ip()));
    body[28..44].copy_from_slice(&words(own.ip()));
    body[48..56].fill(0xFF); // no cookie
    // What was answered too late, or to nobody, is not an answer to this.
    let mut answer = [0u8; 512];
    while rustix::io::read(diag, &mut answer).is_ok() {}
    rustix::io::write(diag, &request).ok()?;
    let length = rustix::io::read(diag, &mut answer).ok()?;
    parse(answer.get(..length)?, &request[HEADER + 8..HEADER + 12])
}

/// Reads an answer (`inet_diag_msg`) that is of the two ports asked for.
fn parse(answer: &[u8], ports: &[u8]) -> Option<Known> {
    let number = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if kind != BY_FAMILY || answer.get(HEADER + 4..HEADER + 8)? != ports {
        return None;
    }
    let state = *answer.get(HEADER + 1)?;
    Some(Known { state, user: number(HEADER + 64)?, inode: number(HEADER + 68)? })
}

/// Looks for a socket in a list of all.
fn find(list: &File, peer: SocketAddr, own: SocketAddr) -> Option<Known> {
    let (mut text, mut chunk) = (vec![], vec![0; 64 << 10]);
    while text.len() < MAX_LIST {
        match list.read_at(&mut chunk, text.len() as u64) {
            Ok(length) if length > 0 => text.extend_from_slice(&chunk[..length]),
            _ => break,
        }
    }
    let (peer, own) = (shown(peer), shown(own));
    String::from_utf8_lossy(&text).lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1) == Some(&peer.as_str()) && words.get(2) == Some(&own.as_str());
        let number = |at: usize| words.get(at)?.parse::<u32>().ok();
        let state = u8::from_str_radix(words.get(3)?, 16).ok()?;
        is_it.then_some(Known { state, user: number(7)?, inode: number(9)? })
    })
}

/// An address as `/proc/net/tcp` shows it: words in the machine's order.
fn shown(address: SocketAddr) -> String {
    let octets = words(address.ip());
    let length = if address.is_ipv4() { 4 } else { 16 };
    let word = |word: &[u8]| format!("{:08X}", u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    let all: String = octets[..length].chunks(4).map(word).collect();
    format!("{all}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        (near, listener.accept().expect("a connection").0)
    }

    #[test]
    fn a_connection_has_the_user_who_made_it() {
        let me = rustix::process::getuid().as_raw();
        let both = Peers::open().expect("this kernel tells");
        let lists = Peers { diag: None, lists: Peers::open().expect("this kernel tells").lists };
        for address in ["127.0.0.1", "::1"] {
            let (near, far) = pair(address);
            let (peer, own) = (far.peer_addr().expect("a peer"), far.local_addr().expect("an address"));
            assert_eq!((both.user(peer, own), lists.user(peer, own)), (Some(me), Some(me)), "{address}");
            // Nobody's: the kernel would say that it is root's.
            drop(near);
            assert_eq!((both.user(peer, own), lists.user(peer, own)), (None, None), "{address}");
        }
    }

    #[test]
    fn a_port_that_only_listens_is_nobodys_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peers = Peers::open().expect("this kernel tells");
        let listens = listener.local_addr().expect("an address");
        assert_eq!(peers.user(listens, SocketAddr::from(([127, 0, 0, 1], 9))), None);
    }
}
