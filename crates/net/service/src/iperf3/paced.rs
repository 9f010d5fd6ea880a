//! What a server sends as datagrams: blocks of one length at a rate, each stream by itself, with the
//! time and a number in front.

use std::net::IpAddr;

use tcp::{Io, Udp, Unsent};

use super::datagrams::Stream;
use super::message::Parameters;

/// An address and a port.
type End = (IpAddr, u16);

/// Packets of a turn that are left to the connections, for a rate without a limit would take all.
const LEFT: usize = 16;
const SECOND_NS: i64 = 1_000_000_000;

/// How fast streams send, and how much.
#[derive(Debug)]
pub(super) struct Paced {
    /// A datagram of zeros.
    block: Vec<u8>,
    /// Numbers have 64 bits.
    is_wide: bool,
    /// Nanoseconds from one datagram of a stream to the next; zero for no limit.
    interval_ns: i64,
    /// Bytes that are sent in all, if that is bounded.
    limit: Option<u64>,
    /// From where and to where each stream sends, and how many it has sent of those that are due.
    streams: Vec<(End, End, i64)>,
    /// When sending began.
    began_ns: Option<i64>,
}

impl Paced {
    /// What a test asks for; `None` when its client sends.
    pub fn new(parameters: &Parameters) -> Option<Paced> {
        let is_wide = parameters.wide_datagrams.filter(|_| parameters.reverse)?;
        let bits = parameters.datagram_len as u64 * 8;
        let interval_ns = (bits * SECOND_NS as u64).checked_div(parameters.bits_per_second).unwrap_or(0);
        Some(Paced {
            block: vec![0; parameters.datagram_len],
            is_wide,
            interval_ns: interval_ns as i64,
            limit: (parameters.bytes > 0).then_some(parameters.bytes),
            streams: Vec::new(),
            began_ns: None,
        })
    }

    /// One more stream, between two ends.
    pub fn add(&mut self, own: End, other: End) {
        self.streams.push((own, other, 0));
    }

    /// Counts from here on: what was sent before is no part of a limit.
    pub fn restart(&mut self, now_ns: i64) {
        self.began_ns = Some(now_ns);
        self.streams.iter_mut().for_each(|(.., sent)| *sent = 0);
    }

    /// When the next datagram is due.
    pub fn deadline_ns(&self, sent: u64) -> Option<i64> {
        if self.limit.is_some_and(|limit| sent >= limit) {
            return None;
        }
        let Some(began_ns) = self.began_ns else { return Some(i64::MIN) };
        let next = self.streams.iter().map(|(.., sent)| self.due_ns(began_ns, *sent));
        next.min()
    }

    fn due_ns(&self, began_ns: i64, sent: i64) -> i64 {
        began_ns.saturating_add(self.interval_ns.saturating_mul(sent))
    }

    /// Sends what is due, one datagram of each stream after the other, as far as there is room and
    /// are buffers; true when something was sent.
    pub fn send(&mut self, counted: &mut [Stream], udp: &mut Udp, io: &mut Io) -> bool {
        let began_ns = *self.began_ns.get_or_insert(io.now_ns);
        let mut has_moved = false;
        loop {
            let mut is_over = true;
            for (n, stream) in counted.iter_mut().enumerate() {
                let Some((.., sent)) = self.streams.get(n) else { continue };
                let is_due = self.due_ns(began_ns, *sent) <= io.now_ns;
                if is_due && io.out.room() > LEFT && self.send_one(n, stream, udp, io) {
                    (is_over, has_moved) = (false, true);
                }
            }
            let all: u64 = counted.iter().map(|stream| stream.bytes).sum();
            if is_over || self.limit.is_some_and(|limit| all >= limit) {
                return has_moved;
            }
        }
    }

    /// Sends a datagram of a stream; false without a buffer or room.
    fn send_one(&mut self, n: usize, stream: &mut Stream, udp: &mut Udp, io: &mut Io) -> bool {
        let Some((own, other, sent)) = self.streams.get_mut(n) else { return false };
        let Some(mut packet) = io.pool.alloc() else { return false };
        let number = stream.seen.packets + 1;
        write_head(&mut self.block, self.is_wide, io.now_ns, number);
        if packet.copy_from(&self.block).is_err() {
            io.pool.free(packet);
            return false;
        }
        match udp.send(*own, *other, packet, io) {
            Ok(()) => {}
            // It is lost here: its number will be missing.
            Err((packet, Unsent::TooLong | Unsent::Addresses)) => udp.give_up(packet, io),
            Err((packet, Unsent::Full)) => {
                io.pool.free(packet);
                return false;
            }
        }
        *sent += 1;
        stream.bytes += self.block.len() as u64;
        stream.seen.packets = number;
        true
    }
}

/// Writes when a datagram is sent and its number in front of it, which has as many bytes as
/// [`Parameters`] see to.
fn write_head(block: &mut [u8], is_wide: bool, now_ns: i64, number: u64) {
    let seconds = (now_ns / SECOND_NS) as u64;
    let micros = (now_ns % SECOND_NS / 1000) as u64;
    let Some((time, rest)) = block.split_first_chunk_mut() else { return };
    *time = (seconds << 32 | micros).to_be_bytes();
    match is_wide {
        true => rest.first_chunk_mut().into_iter().for_each(|at| *at = number.to_be_bytes()),
        false => rest.first_chunk_mut().into_iter().for_each(|at| *at = (number as u32).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use memory::{Backing, Batch, Dma, Pool};
    use tcp::Options;

    use super::*;

    const OWN: End = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 5201);
    const OTHER: End = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 40_000);
    const MS: i64 = 1_000_000;

    /// How many datagrams are sent within so many milliseconds, of one turn in each.
    fn sent_in(parameters: &Parameters, streams: usize, milliseconds: i64) -> (Vec<u64>, u64) {
        let mut paced = Paced::new(parameters).expect("this side sends");
        let mut pool =
            Pool::new(&Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None }), 128)
                .expect("memory");
        let (mut udp, mut counted) = (Udp::new(&Options::default()), vec![Stream::default(); streams]);
        counted.iter().for_each(|_| paced.add(OWN, OTHER));
        let mut longest = 0;
        for now in 0..milliseconds {
            let mut out = Batch::with_limit(64);
            let mut io = Io { now_ns: now * MS, pool: &mut pool, out: &mut out };
            let bytes = counted.iter().map(|stream| stream.bytes).sum();
            if paced.deadline_ns(bytes).is_some_and(|at_ns| at_ns <= io.now_ns) {
                paced.send(&mut counted, &mut udp, &mut io);
            }
            longest = longest.max(out.len() as u64);
            while let Some(packet) = out.pop_front() {
                pool.free(packet);
            }
        }
        (counted.iter().map(|stream| stream.seen.packets).collect(), longest)
    }

    #[test]
    fn datagrams_go_at_their_rate_and_leave_room_for_connections() {
        // One each ten milliseconds.
        let one = Parameters {
            reverse: true,
            wide_datagrams: Some(false),
            datagram_len: 1250,
            bits_per_second: 1_000_000,
            ..Parameters::default()
        };
        assert_eq!(sent_in(&one, 2, 100), (vec![10, 10], 2));
        assert_eq!(sent_in(&Parameters { bytes: 5000, ..one }, 1, 100), (vec![4], 1));
        let without_limit = Parameters { bits_per_second: 0, ..one };
        assert_eq!(sent_in(&without_limit, 2, 10), (vec![240, 240], 48));
        assert!(Paced::new(&Parameters { reverse: false, ..one }).is_none());
    }

    #[test]
    fn a_datagram_has_its_time_and_number_in_front() {
        let mut block = [0; 16];
        write_head(&mut block, true, 3 * SECOND_NS + 5000, 9);
        assert_eq!(block, [0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9]);
        write_head(&mut block[..12], false, 0, 7);
        assert_eq!(block, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9]);
    }
}
