//! A client by events: connections to an echo server, each with one message after the other.
//!
//! `cargo run --release -p ixora-socket --example client [tap:ixora0 10.9.9.2/24 10.9.9.1:7]`

mod support;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use memory::Packet;
use socket::Network;
use socket::blocking::TcpListener;
use tcp::{Event, Id, Io, Service, Stack};

const CONNECTIONS: usize = 16;
const MESSAGES: usize = 100;
/// Fits the send buffer, so that a message is always taken whole.
const BYTES: usize = 2000;

/// How many connections had all their answers, and how many ended without.
#[derive(Default)]
struct Results {
    whole: AtomicUsize,
    broken: AtomicUsize,
}

/// How far a connection is.
#[derive(Default)]
struct Exchange {
    messages: usize,
    /// Bytes of the present message that came back.
    back: usize,
}

struct Client {
    own: IpAddr,
    server: SocketAddr,
    connections: HashMap<Id, Exchange>,
    results: Arc<Results>,
}

fn message(number: usize) -> [u8; BYTES] {
    std::array::from_fn(|at| (number * 31 + at) as u8)
}

impl Client {
    /// Compares what came back, and sends the next message behind the last byte of one.
    fn check(&mut self, id: Id, packet: &Packet, stack: &mut Stack, io: &mut Io) {
        let Some(exchange) = self.connections.get_mut(&id) else { return };
        let _ = stack.consume(id, packet.len(), io);
        let expected = message(exchange.messages);
        if expected.get(exchange.back..exchange.back + packet.len()) != Some(&packet[..]) {
            let _ = stack.abort(id, io); // after which no event comes
            return self.end(id, false);
        }
        exchange.back += packet.len();
        if exchange.back < BYTES {
            return;
        }
        *exchange = Exchange { messages: exchange.messages + 1, back: 0 };
        match exchange.messages {
            MESSAGES => _ = stack.finish(id, io),
            next => _ = stack.write(id, &message(next), io),
        }
    }

    fn end(&mut self, id: Id, is_closed: bool) {
        let Some(exchange) = self.connections.remove(&id) else { return };
        let is_whole = is_closed && exchange.messages == MESSAGES;
        let count = if is_whole { &self.results.whole } else { &self.results.broken };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Service for Client {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        for _ in 0..CONNECTIONS {
            let opened = stack.connect(self.own, (self.server.ip(), self.server.port()), io);
            match opened {
                Ok(id) => _ = self.connections.insert(id, Exchange::default()),
                Err(_) => _ = self.results.broken.fetch_add(1, Ordering::Relaxed),
            }
        }
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Connected { connection, .. } => _ = stack.write(connection, &message(0), io),
                Event::Received { connection, packet } => {
                    self.check(connection, &packet, stack, io);
                    io.pool.free(packet);
                }
                Event::Closed { connection, .. } => self.end(connection, true),
                Event::Sent { .. } | Event::PeerFinished { .. } | Event::Timer { .. } => {}
            }
        }
    }
}

fn main() -> support::Result {
    let mut place = support::ExamplePort::open()?;
    let server: SocketAddr = match (place.peer(), place.arguments.first()) {
        (Some(peer), _) => echo(peer)?,
        (None, Some(server)) => server.parse()?,
        (None, None) => Err("write the server's address behind your own: 10.9.9.1:7")?,
    };
    let results = Arc::new(Results::default());
    let client = Client { own: place.own, server, connections: HashMap::new(), results: results.clone() };
    let node = place.start(&[], Box::new(client))?;
    let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    support::wait_for("done", || of(&results.whole) + of(&results.broken) == CONNECTIONS)?;
    println!("{} connections had all their answers", of(&results.whole));
    if of(&results.broken) > 0 {
        Err(format!("{} did not", of(&results.broken)))?;
    }
    place.end(node)
}

/// An echo server on the other model.
fn echo(peer: &Network) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(peer, 7)?;
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || -> io::Result<()> {
                let mut bytes = [0; 4096];
                loop {
                    match stream.read(&mut bytes)? {
                        0 => return Ok(()),
                        count => stream.write_all(&bytes[..count])?,
                    }
                }
            });
        }
    });
    Ok(SocketAddr::from(([10, 0, 0, 1], 7)))
}
