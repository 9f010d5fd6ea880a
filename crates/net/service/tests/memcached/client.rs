//! A client that asks in pieces, and a server for it alone.

use service::memcached::{Limits, Session};
use service::{Buffer, Memcached, Output as _, Protocol as _};

/// Unix time at the start.
pub const START_S: i64 = 1_700_000_000;
pub const SECOND_NS: i64 = 1_000_000_000;

/// A server and one client.
pub struct Client {
    pub server: Memcached,
    pub session: Session,
    pub output: Buffer,
    pub has_ended: bool,
}

impl Client {
    pub fn with(limits: Limits) -> Client {
        let server = Memcached::servers(limits, START_S).pop().unwrap();
        Client { server, session: Session::default(), output: Buffer::default(), has_ended: false }
    }

    pub fn new() -> Client {
        Client::with(Limits::default())
    }

    pub fn wait_s(&mut self, seconds: i64) {
        self.output.now_ns += seconds * SECOND_NS;
    }

    /// Sends a request in pieces of so many bytes, with so much room for each step of the
    /// answer; the answer.
    pub fn ask_in(&mut self, request: &[u8], piece: usize, room: usize) -> Vec<u8> {
        for piece in request.chunks(piece.max(1)) {
            let mut rest = piece;
            loop {
                self.output.room = room;
                let taken = self.server.take(&mut self.session, rest, &mut self.output);
                rest = &rest[taken.used..];
                self.has_ended |= taken.ends;
                let is_waiting = self.server.is_answering(&self.session) || self.output.is_full();
                let is_over = rest.is_empty() && !is_waiting;
                if is_over || taken.ends {
                    break;
                }
            }
        }
        std::mem::take(&mut self.output.bytes)
    }

    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> String {
        String::from_utf8(self.ask_in(request.as_ref(), usize::MAX, usize::MAX)).unwrap()
    }

    /// The value of a statistic; it must be there.
    pub fn stat(&mut self, name: &str) -> u64 {
        let all = self.ask("stats\r\n");
        let line = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {all}")).parse().unwrap()
    }
}

/// What is asked and what is answered, line by line, of commands that have no value in front.
pub fn dialogue(client: &mut Client, lines: &[(&str, &str)]) {
    for (request, answer) in lines {
        assert_eq!(client.ask(format!("{request}\r\n")), *answer, "{request}");
    }
}
