//! An application that sends back what it is sent, in the buffers in which it came, over TCP
//! and UDP; over TCP it ends its side when the other has ended (RFC 862).

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::IpAddr;

use memory::Packet;

use crate::calls::Refusal;
use crate::connection::Io;
use crate::event::{Event, Id, Kept, Service};
use crate::kept::append;
use crate::rate::Rate;
use crate::stack::Stack;
use crate::udp::{Datagram, Datagrams, Udp};

/// Datagrams of a source that are answered in a second. One that goes to and fro between two
/// services ends with the first answer that is not sent.
const ANSWERS: u32 = 1000;
/// Sources that are told apart, by a hash; those that share a place share its rate.
const SOURCES: usize = 256;

/// The echo service.
#[derive(Debug, Default)]
pub struct Echo {
    /// What could not be sent yet, of connections whose other side takes less than it sends.
    /// What waits is not consumed: it is no more than a window.
    waiting: HashMap<Id, Waiting>,
    answers: Answers,
}

/// How many datagrams of each source were answered lately.
#[derive(Debug)]
struct Answers {
    hasher: RandomState,
    rates: Box<[Rate; SOURCES]>,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers { hasher: RandomState::new(), rates: Box::new([Rate::default(); SOURCES]) }
    }
}

impl Answers {
    /// Whether a source may have another answer, which it counts.
    fn allow(&mut self, source: (IpAddr, u16), now_ns: i64) -> bool {
        let place = self.hasher.hash_one(source) as usize % SOURCES;
        self.rates[place].allows(ANSWERS, now_ns)
    }
}

#[derive(Debug, Default)]
struct Waiting {
    packets: VecDeque<Packet>,
    is_peer_finished: bool,
}

impl Waiting {
    /// Keeps a packet, or its bytes in the last one that waits; whether the packet was freed.
    fn push(&mut self, packet: Packet, io: &mut Io) -> bool {
        let is_copied = self.packets.back_mut().is_some_and(|last| append(last, &packet));
        match is_copied {
            true => io.pool.free(packet),
            false => self.packets.push_back(packet),
        }
        is_copied
    }
}

impl Echo {
    /// Sends a packet back, or keeps it.
    fn send(&mut self, id: Id, packet: Packet, stack: &mut Stack, io: &mut Io) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            if waiting.push(packet, io) {
                let _ = stack.release(id, 1);
            }
            return;
        }
        let len = packet.len();
        match stack.send(id, packet, io) {
            Ok(()) => _ = stack.consume(id, len, io),
            Err((packet, Refusal::Full)) => self.waiting.entry(id).or_default().packets.push_back(packet),
            Err((packet, _)) => io.pool.free(packet),
        }
    }

    /// There is room for what waits.
    fn resume(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        let Some(waiting) = self.waiting.get_mut(&id) else { return };
        while let Some(packet) = waiting.packets.pop_front() {
            let len = packet.len();
            match stack.send(id, packet, io) {
                Ok(()) => _ = stack.consume(id, len, io),
                Err((packet, _)) => return waiting.packets.push_front(packet),
            }
        }
        let is_peer_finished = waiting.is_peer_finished;
        self.waiting.remove(&id);
        if is_peer_finished {
            let _ = stack.finish(id, io);
        }
    }

    fn forget(&mut self, id: Id, io: &mut Io) {
        let waiting = self.waiting.remove(&id).unwrap_or_default();
        waiting.packets.into_iter().for_each(|packet| io.pool.free(packet));
    }
}

impl Datagrams for Echo {
    fn serve(&mut self, datagrams: &mut Vec<Datagram>, udp: &mut Udp, io: &mut Io) {
        for Datagram { from, to, packet } in datagrams.drain(..) {
            let sent = match !udp.is_service(from.1) && self.answers.allow(from, io.now_ns) {
                false => Err(packet),
                true => udp.send(to, from, packet, io).map_err(|(packet, _)| packet),
            };
            if let Err(packet) = sent {
                udp.give_up(packet, io);
            }
        }
    }
}

impl Service for Echo {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Received { connection, packet } => self.send(connection, packet, stack, io),
                Event::Sent { connection, .. } => self.resume(connection, stack, io),
                Event::PeerFinished { connection } => match self.waiting.get_mut(&connection) {
                    Some(waiting) => waiting.is_peer_finished = true,
                    None => _ = stack.finish(connection, io),
                },
                Event::Closed { connection, .. } => self.forget(connection, io),
                Event::Connected { .. } | Event::Timer { .. } => {}
            }
        }
    }

    fn can_move(&self) -> bool {
        true
    }

    fn give(&mut self, connection: Id) -> Option<Kept> {
        self.waiting.remove(&connection).map(|waiting| Box::new(waiting) as Kept)
    }

    fn take(&mut self, connection: Option<Id>, kept: Kept, _: &mut Stack, io: &mut Io) {
        let Ok(waiting) = kept.downcast::<Waiting>() else { return };
        match connection {
            Some(connection) => _ = self.waiting.insert(connection, *waiting),
            None => waiting.packets.into_iter().for_each(|packet| io.pool.free(packet)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use memory::{Backing, Batch, Dma, Pool};

    use super::*;
    use crate::options::{Options, SECOND_NS};

    const BOUND: [u16; 2] = [7, 5007];

    /// How many of some datagrams from a port of a host are answered.
    fn answers(echo: &mut Echo, pool: &mut Pool, from: (u8, u16), count: usize, now_ns: i64) -> usize {
        let mut udp = Udp::new(&Options::default());
        BOUND.into_iter().for_each(|port| udp.bind(port));
        let address = |host| IpAddr::from(Ipv4Addr::new(10, 0, 0, host));
        let mut answers = 0;
        for _ in 0..count {
            let mut out = Batch::with_limit(8);
            let mut io = Io { now_ns, pool: &mut *pool, out: &mut out };
            let mut packet = io.pool.alloc().expect("a buffer");
            packet.copy_from(b"around").expect("room");
            let datagram = Datagram { from: (address(from.0), from.1), to: (address(1), BOUND[0]), packet };
            Datagrams::serve(echo, &mut vec![datagram], &mut udp, &mut io);
            answers += out.len();
            pool.free_batch(&mut out);
        }
        answers
    }

    fn pool() -> Pool {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        Pool::new(&dma, 16).expect("memory")
    }

    #[test]
    fn ports_of_services_are_not_answered() {
        let (mut echo, mut pool) = (Echo::default(), pool());
        let ports = [0, 7, 19, 1023, 1024, 5006, 5007, 65_535];
        let answered = ports.map(|port| answers(&mut echo, &mut pool, (2, port), 1, 0));
        assert_eq!(answered, [0, 0, 0, 0, 1, 1, 0, 1]);
    }

    /// A datagram that two services send to and fro comes as fast as the wire lets it.
    #[test]
    fn a_source_is_answered_so_often_in_each_second() {
        let (mut echo, mut pool) = (Echo::default(), pool());
        assert_eq!(answers(&mut echo, &mut pool, (2, 5000), 1500, SECOND_NS), 1000);
        let others = (3..13).map(|host| answers(&mut echo, &mut pool, (host, 5000), 1, SECOND_NS));
        assert!(others.sum::<usize>() >= 5, "few of the others share a place with it");
        assert_eq!(answers(&mut echo, &mut pool, (2, 5000), 1, 2 * SECOND_NS - 1), 0);
        assert_eq!(answers(&mut echo, &mut pool, (2, 5000), 1500, 2 * SECOND_NS), 1000);
    }
}
