//! memcached over UDP, as its `doc/protocol.txt` has it: a frame of eight bytes in front of each
//! datagram has the number of the request, that of the datagram, and how many there are. A request
//! is one datagram, and has a session of its own. An answer is as many as it needs.
//!
//! Anybody can ask in another's name, who gets the answers then: UDP is for networks where nobody
//! does.

use std::net::IpAddr;

use tcp::{Datagram, Datagrams, Io, Udp};
use wire::memcached::{FRAME_LEN, Frame};

use super::{Memcached, Session, State};
use crate::output::{Buffer, Output};
use crate::server::Protocol;

/// Bytes of an answer in a datagram, as memcached has them: with the frame no more than 1,400.
const PART: usize = 1400 - FRAME_LEN;
/// Bytes of an answer at most; what does not fit is not sent, and nothing of the rest is.
const MOST: usize = 2 << 20;
/// The answer to a request of several datagrams.
const SEVERAL: &[u8] = b"SERVER_ERROR multi-packet request not supported\r\n";

/// The answer to one who wants a list of all items: it looks at every slot, and a datagram has no
/// turns in which others come between.
const LIST: &[u8] = b"SERVER_ERROR lists of items are sent over TCP only\r\n";

/// Answers the datagrams of a thread, out of the cache of the thread's server.
#[derive(Debug)]
pub struct Frames {
    server: Memcached,
}

impl Frames {
    /// Answers from the cache of a server, on the same thread.
    pub fn beside(server: &Memcached) -> Frames {
        Frames { server: server.beside() }
    }

    /// The datagrams that answer one; none where it has no whole request.
    pub fn answer(&mut self, request: &[u8], now_ns: i64) -> Vec<Vec<u8>> {
        let Some((frame, request)) = request.split_first_chunk() else { return vec![] };
        let asked = Frame::new(frame);
        let bytes = match asked.total() {
            1 if is_answer(request) => return vec![],
            1 => self.carry_out(request, now_ns),
            _ => SEVERAL.to_vec(),
        };
        let count = bytes.len().div_ceil(PART) as u16;
        let parts = bytes.chunks(PART).zip(0_u16..).map(|(part, number)| {
            let mut frame = Frame::zeroed();
            frame.set_request(asked.request());
            frame.set_sequence(number, count);
            [&frame.into_inner()[..], part].concat()
        });
        parts.collect()
    }

    fn carry_out(&mut self, request: &[u8], now_ns: i64) -> Vec<u8> {
        let (mut session, mut rest) = (Session::default(), request);
        let mut output = Buffer { room: MOST, now_ns, ..Buffer::default() };
        loop {
            let taken = self.server.take(&mut session, rest, &mut output);
            rest = &rest[taken.used..];
            if matches!(session.state, State::Dump(_)) {
                output.put(LIST);
                break;
            }
            // What waits for room waits for ever.
            if taken.ends || output.room == 0 || rest.is_empty() && !self.server.is_answering(&session) {
                break;
            }
        }
        self.server.end(session);
        // A value that could not be sent in parts was put there whole.
        output.bytes.truncate(MOST);
        output.bytes
    }
}

impl Datagrams for Frames {
    fn begin(&mut self, _udp: &mut Udp, io: &mut Io) {
        Protocol::begin(&mut self.server, io.now_ns);
    }

    fn serve(&mut self, datagrams: &mut Vec<Datagram>, udp: &mut Udp, io: &mut Io) {
        for datagram in datagrams.drain(..) {
            let (from, to) = (datagram.from, datagram.to);
            // Without room nobody would be told of what is carried out.
            if udp.is_service(from.1) || io.out.room() == 0 {
                udp.give_up(datagram.packet, io);
                continue;
            }
            let answers = self.answer(&datagram.payload(), io.now_ns);
            io.pool.free(datagram.packet);
            let sent = answers.iter().take_while(|answer| send(answer, (to, from), udp, io)).count();
            udp.count_unsent(answers.len() - sent);
        }
    }
}

/// Whether a request is an error that another server answered: the answer to that would be the
/// same error, and so on for ever.
fn is_answer(request: &[u8]) -> bool {
    [&b"ERROR"[..], b"CLIENT_ERROR", b"SERVER_ERROR"].iter().any(|error| request.starts_with(error))
}

/// Sends a datagram from one address to another; whether there was room.
fn send(bytes: &[u8], (from, to): ((IpAddr, u16), (IpAddr, u16)), udp: &mut Udp, io: &mut Io) -> bool {
    let Some(mut packet) = io.pool.alloc() else { return false };
    let unsent = match packet.copy_from(bytes) {
        Ok(()) => udp.send(from, to, packet, io).err().map(|(packet, _)| packet),
        Err(_) => Some(packet),
    };
    let is_sent = unsent.is_none();
    unsent.into_iter().for_each(|packet| io.pool.free(packet));
    is_sent
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use memory::{Backing, Batch, Dma, Pool};
    use port::Reason;

    use super::*;
    use crate::memcached::Limits;

    fn frames() -> Frames {
        Frames::beside(&Memcached::servers(Limits::default(), 1_700_000_000)[0])
    }

    fn request(count: u16, text: &str) -> Vec<u8> {
        [&[0x12, 0x34, 0, 0][..], &count.to_be_bytes(), &[0; 2], text.as_bytes()].concat()
    }

    fn ask(frames: &mut Frames, text: &str) -> Vec<Vec<u8>> {
        frames.answer(&request(1, text), 0)
    }

    #[test]
    fn an_answer_is_as_many_datagrams_as_it_needs() {
        let mut frames = frames();
        let value = "v".repeat(3000);
        assert_eq!(ask(&mut frames, &format!("set a 0 0 3000\r\n{value}\r\n")).len(), 1);
        let parts = ask(&mut frames, "get a\r\n");
        let heads: Vec<&[u8]> = parts.iter().map(|part| &part[..FRAME_LEN]).collect();
        let head = |number| [0x12, 0x34, 0, number, 0, 3, 0, 0];
        assert_eq!(heads, [head(0), head(1), head(2)]);
        assert!(parts.iter().all(|part| part.len() <= 1400));
        let whole: Vec<u8> = parts.iter().flat_map(|part| part[FRAME_LEN..].to_vec()).collect();
        assert_eq!(whole, format!("VALUE a 0 3000\r\n{value}\r\nEND\r\n").into_bytes());
    }

    #[test]
    fn requests_that_are_not_whole_are_refused_or_left() {
        let mut frames = frames();
        let refused = frames.answer(&request(2, "get a\r\n"), 0);
        assert_eq!(refused[0][FRAME_LEN..], *SEVERAL);
        assert!(frames.answer(&[0; FRAME_LEN - 1], 0).is_empty());
        assert!(ask(&mut frames, "set a 0 0 10\r\nshort").is_empty());
        assert!(ask(&mut frames, "get a").is_empty(), "the end of the line is missing");
        assert_eq!(ask(&mut frames, "get a\r\n")[0][FRAME_LEN..], *b"END\r\n", "nothing was left of those");
    }

    /// A list of a large cache takes long, and where nothing is left to be told, no answer that
    /// is full ends it.
    #[test]
    fn lists_of_all_items_are_for_connections() {
        let mut frames = frames();
        for key in 0..3000 {
            ask(&mut frames, &format!("set {key} 0 0 1\r\nv\r\n"));
        }
        ask(&mut frames, "flush_all\r\n");
        let lists = ["lru_crawler metadump all", "lru_crawler mgdump all", "stats cachedump 1 0"];
        for list in lists {
            assert_eq!(ask(&mut frames, &format!("{list}\r\n"))[0][FRAME_LEN..], *LIST, "{list}");
        }
        assert_eq!(ask(&mut frames, "get 1\r\n")[0][FRAME_LEN..], *b"END\r\n");
    }

    /// Serves requests of a port of another host; how many datagrams were sent, and how many
    /// losses were counted.
    fn serve(
        frames: &mut Frames,
        port: u16,
        requests: &[&str],
        (buffers, room): (usize, usize),
    ) -> (usize, u64) {
        let mut udp = Udp::new(&tcp::Options::default());
        udp.bind(11211);
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, buffers).expect("memory");
        let mut out = Batch::with_limit(room);
        let mut io = Io { now_ns: 0, pool: &mut pool, out: &mut out };
        let address = |host| IpAddr::from(Ipv4Addr::new(10, 0, 0, host));
        let datagram = |text: &&str| {
            let mut packet = io.pool.alloc().expect("a buffer");
            packet.copy_from(&request(1, text)).expect("room");
            Datagram { from: (address(2), port), to: (address(1), 11211), packet }
        };
        let mut datagrams = requests.iter().map(datagram).collect();
        frames.serve(&mut datagrams, &mut udp, &mut io);
        let sent = out.len();
        pool.free_batch(&mut out);
        assert_eq!(pool.available(), pool.capacity(), "buffers that did not come back");
        let unsent = udp.counters().find(|counter| counter.name == Reason::TxUdpUnsent.name());
        (sent, unsent.map_or(0, |counter| counter.value))
    }

    /// One datagram with a forged source could have them send to each other for ever.
    #[test]
    fn other_services_are_not_answered() {
        let mut frames = frames();
        let answered =
            [53, 1023, 1024, 11211, 40_000].map(|port| serve(&mut frames, port, &["get a\r\n"], (8, 8)));
        assert_eq!(answered, [(0, 1), (0, 1), (1, 0), (0, 1), (1, 0)]);
        for error in ["ERROR\r\n", "CLIENT_ERROR bad data chunk\r\n", "SERVER_ERROR out of memory\r\n"] {
            assert_eq!(serve(&mut frames, 40_000, &[error], (8, 8)), (0, 0), "{error}");
        }
    }

    #[test]
    fn each_datagram_that_is_not_sent_is_counted() {
        let mut frames = frames();
        ask(&mut frames, &format!("set a 0 0 9000\r\n{}\r\n", "v".repeat(9000)));
        assert_eq!(serve(&mut frames, 40_000, &["get a\r\n"], (16, 16)), (7, 0));
        assert_eq!(serve(&mut frames, 40_000, &["get a\r\n"], (16, 3)), (3, 4), "no room");
        assert_eq!(serve(&mut frames, 40_000, &["get a\r\n"], (3, 16)), (3, 4), "no buffers");
        let requests = ["get a\r\n", "set a 0 0 1\r\nw\r\n"];
        assert_eq!(serve(&mut frames, 40_000, &requests, (16, 3)), (3, 5));
        assert_eq!(serve(&mut frames, 40_000, &["get a\r\n"], (16, 16)), (7, 0), "it was not carried out");
    }

    #[test]
    fn an_answer_that_is_too_long_ends() {
        let mut frames = frames();
        let value = "v".repeat(1_000_000);
        ask(&mut frames, &format!("set a 0 0 1000000\r\n{value}\r\n"));
        let parts = ask(&mut frames, "get a a a a\r\n");
        assert_eq!(parts.len(), MOST.div_ceil(PART));
        assert_eq!(ask(&mut frames, "delete a\r\n").len(), 1, "no part of it is kept");
    }
}
