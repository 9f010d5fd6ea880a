//! What two hosts say to one another: datagrams up to the longest, and a long stream each way,
//! of which every byte is compared.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::namespace::Namespace;

const LIMIT: Duration = Duration::from_secs(60);
/// How long an answer is waited for before it is asked for again.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of a stream.
const STREAM: usize = 4 << 20;

/// Datagrams and streams between the addresses with these ends of two hosts.
pub fn exchange(here: &Namespace, there: &Namespace, is_v6: bool, mtu: usize) {
    let address = |last: u8| -> IpAddr {
        match is_v6 {
            true => format!("fd07::{last}").parse().unwrap(),
            false => IpAddr::from([10, 7, 0, last]),
        }
    };
    datagrams(here, there, (address(1), address(2)), mtu - if is_v6 { 48 } else { 28 });
    stream(here, there, address(2), STREAM);
    stream(there, here, address(1), STREAM);
}

/// A long stream from the first host to the second, of which every byte is compared.
pub fn long_stream(here: &Namespace, there: &Namespace, is_v6: bool, len: usize) {
    let address = if is_v6 { "fd07::2" } else { "10.7.0.2" };
    stream(here, there, address.parse().unwrap(), len);
}

/// Each datagram is sent back and is the same.
fn datagrams(here: &Namespace, there: &Namespace, ends: (IpAddr, IpAddr), longest: usize) {
    let echo = there.run(move || bound((ends.1, 7), LIMIT));
    let answers = there.start(move || {
        let mut bytes = [0; 2000];
        loop {
            let (len, from) = echo.recv_from(&mut bytes).expect("a datagram");
            echo.send_to(&bytes[..len], from).expect("sent");
            if len == 1 {
                return;
            }
        }
    });
    here.run(move || {
        let socket = bound((ends.0, 0), PAUSE);
        for len in [0, 2, 19, longest - 1, longest, 1] {
            let sent: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut back = [0; 2000];
            // The first may be lost while the kernel asks for Ethernet addresses, and its
            // answer may come late.
            let begin = Instant::now();
            let is_back = loop {
                socket.send_to(&sent, (ends.1, 7)).expect("sent");
                let mut answers = std::iter::from_fn(|| socket.recv(&mut back).ok());
                let lens = answers.by_ref().take(2).find(|got| *got == len);
                if lens.is_some() || begin.elapsed() > LIMIT {
                    break lens.is_some();
                }
            };
            assert!(is_back && back[..len] == sent, "a datagram of {len} bytes");
        }
    });
    answers.recv_timeout(LIMIT).expect("the other side ends");
}

fn bound(address: impl Into<SocketAddr>, limit: Duration) -> UdpSocket {
    let socket = UdpSocket::bind(address.into()).expect("an address of this host's");
    socket.set_read_timeout(Some(limit)).unwrap();
    socket
}

/// The next connection. A host that waited for one without a limit would keep a test that
/// failed at the other host from its end.
fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let begin = Instant::now();
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) => assert!(begin.elapsed() < LIMIT, "no connection: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    stream.set_nonblocking(false).unwrap();
    limited(stream)
}

/// A stream in which nothing takes longer than the limit.
fn limited(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// The bytes of the stream from one on.
fn part(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|n| (n.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect()
}

/// Every byte of a stream arrives, in order.
fn stream(from: &Namespace, to: &Namespace, address: IpAddr, len: usize) {
    const PART: usize = 1 << 14;
    let listener = to.run(move || TcpListener::bind((address, 0)).expect("an address of this host's"));
    let port = listener.local_addr().unwrap().port();
    let arrived = to.start(move || {
        let mut stream = accepted(&listener);
        let mut bytes = [0; PART];
        for at in (0..len).step_by(PART) {
            stream.read_exact(&mut bytes).expect("all of the stream");
            assert!(bytes[..] == part(at, PART)[..], "other bytes than were sent, from {at} on");
        }
        stream.write_all(b"all").expect("sent");
    });
    from.run(move || {
        let stream = TcpStream::connect_timeout(&(address, port).into(), LIMIT);
        let mut stream = limited(stream.expect("a connection"));
        (0..len).step_by(PART).for_each(|at| stream.write_all(&part(at, PART)).expect("sent"));
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).expect("an answer");
    });
    arrived.recv_timeout(LIMIT).expect("the other side ends");
}
