//! An echo server by events: received packets are sent back as they are.
//!
//! `cargo run --release -p ixora-socket --example echo [tap:ixora0 10.9.9.2/24]`

mod support;

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown};

use memory::Packet;
use socket::Network;
use socket::blocking::TcpStream;
use tcp::{Event, Id, Io, Service, Stack};

const PORT: u16 = 7;

/// What waits for room on a connection, and whether its end does. The window stays closed by as
/// much, so that the other side waits too.
#[derive(Default)]
struct Connection {
    waiting: VecDeque<Packet>,
    is_peer_finished: bool,
}

#[derive(Default)]
struct Echo {
    connections: HashMap<Id, Connection>,
}

impl Echo {
    /// Sends what there is, as far as there is room: an `Event::Sent` tells of more.
    fn send(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        while let Some(packet) = connection.waiting.pop_front() {
            let len = packet.len();
            match stack.send(id, packet, io) {
                Ok(()) => _ = stack.consume(id, len, io),
                Err((packet, _)) => return connection.waiting.push_front(packet),
            }
        }
        if connection.is_peer_finished {
            let _ = stack.finish(id, io);
        }
    }
}

impl Service for Echo {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Connected { connection, .. } => {
                    self.connections.insert(connection, Connection::default());
                }
                Event::Received { connection: id, packet } => {
                    self.connections.entry(id).or_default().waiting.push_back(packet);
                    self.send(id, stack, io);
                }
                Event::Sent { connection: id, .. } => self.send(id, stack, io),
                Event::PeerFinished { connection: id } => {
                    self.connections.entry(id).or_default().is_peer_finished = true;
                    self.send(id, stack, io);
                }
                Event::Closed { connection: id, .. } => {
                    let ended = self.connections.remove(&id).unwrap_or_default();
                    ended.waiting.into_iter().for_each(|packet| io.pool.free(packet));
                }
                Event::Timer { .. } => {}
            }
        }
    }
}

fn main() -> support::Result {
    let mut place = support::ExamplePort::open()?;
    let node = place.start(&[PORT], Box::new(Echo::default()))?;
    place.finish(node, talk)
}

/// Sends a megabyte, and has all of it sent back.
fn talk(network: &Network, to: IpAddr) -> support::Result {
    let stream = TcpStream::connect_timeout(network, (to, PORT).into(), support::LIMIT)?;
    stream.set_read_timeout(Some(support::LIMIT))?;
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n ^ n >> 8) as u8).collect();
    let (mut back, mut writer, bytes) = (Vec::new(), stream.try_clone()?, sent.clone());
    let sender = std::thread::spawn(move || {
        writer.write_all(&bytes)?;
        writer.shutdown(Shutdown::Write)
    });
    (&stream).read_to_end(&mut back)?;
    sender.join().map_err(|_| "the sender panicked")??;
    if back == sent { Ok(()) } else { Err("other bytes came back")? }
}
