//! The side that opens a connection fast (RFC 7413, section 4.1): the cookies and the largest
//! segments of servers are remembered, so that the next SYN to one of them carries data.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::tcp_option::FastOpen;

use crate::calls::Refusal;
use crate::connection::{Connection, Io, StackShared};
use crate::event::Id;
use crate::fast_open::Cookie;
use crate::options::SECOND_NS;
use crate::queue::Sent;
use crate::segment::Segment;
use crate::stack::Stack;

/// Bytes that a SYN leaves free for options, its own and those that others insert on the way.
const OPTION_SPACE: u16 = 40;
/// Servers that are remembered; one more has all forgotten, which costs each a round trip.
const MOST_SERVERS: usize = 1024;
/// How long SYNs to a server go as usual behind refusals: this time, doubled by each of them, as
/// Linux had it, but a bit more than an hour at most.
const PAUSE_NS: i64 = 60 * SECOND_NS;
const MOST_DOUBLINGS: u8 = 6;

/// What is remembered of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Server {
    cookie: Option<Cookie>,
    max_segment: u16,
    /// How many kinds of options it did not answer: after the usual one that for experiments is
    /// tried once.
    failures: u8,
    /// How many SYNs in a row were answered when they went again as usual alone, or without the
    /// data they had (RFC 7413, section 4.1.3.1): boxes on the way may drop what they do not know.
    /// One that nobody answers at all tells nothing of them.
    refusals: u8,
    /// When that was last.
    refused_ns: i64,
}

impl Server {
    /// Whether SYNs to it go as usual for a time: one refusal may be a loss like others, and
    /// behind each more the time doubles.
    fn is_paused(&self, now_ns: i64) -> bool {
        let pause_ns = PAUSE_NS << self.refusals.min(MOST_DOUBLINGS);
        self.refusals > 1 && now_ns - self.refused_ns < pause_ns
    }
}

/// The servers by their addresses.
pub type Servers = BTreeMap<IpAddr, Server>;

/// What is remembered of a server, to change it.
fn remembered(servers: &mut Servers, address: IpAddr) -> &mut Server {
    if servers.len() >= MOST_SERVERS && !servers.contains_key(&address) {
        servers.clear();
    }
    servers.entry(address).or_default()
}

impl Stack {
    /// Opens a connection whose SYN carries as many of `bytes` as it may: how many is told, and
    /// is none where the server's cookie is not known, which the SYN then asks for, and where
    /// SYNs of that kind to the server were not answered several times of late.
    ///
    /// # Errors
    /// Those of [`Stack::connect`].
    pub fn connect_fast(
        &mut self,
        local: IpAddr,
        remote: (IpAddr, u16),
        bytes: &[u8],
        io: &mut Io,
    ) -> Result<(Id, usize), Refusal> {
        let id = self.connect(local, remote, io)?;
        let server = self.shared.servers.get(&remote.0).copied().unwrap_or_default();
        if server.is_paused(io.now_ns) {
            return Ok((id, 0));
        }
        let needs_cookie = self.shared.options.fast_open_needs_cookie;
        let (connection, _) = self.known(id)?;
        let request = FastOpen { cookie: &[], is_experiment: server.failures == 1 };
        connection.cookie = match server.cookie {
            Some(cookie) => Some(Box::new(cookie)),
            None if needs_cookie => Some(Box::new(request.into())),
            None => None,
        };
        connection.is.is_fast_client = true;
        if server.cookie.is_none() && needs_cookie {
            return Ok((id, 0));
        }
        let known = if server.max_segment == 0 { connection.segment } else { server.max_segment };
        let space = connection.segment.min(known).saturating_sub(OPTION_SPACE);
        let part = &bytes[..bytes.len().min(space.into())];
        let taken = self.write(id, part, io)?;
        let (connection, shared) = self.known(id)?;
        connection.syn_data = taken as u16;
        // They were a segment of their own, and are one when they go out again.
        shared.nodes.get_mut(connection.queue.tail).filter(|_| taken > 0).into_iter().for_each(|node| {
            node.is_record_end = true;
        });
        Ok((id, taken))
    }

    /// Whether a SYN to a server may carry data at present.
    pub fn may_connect_fast(&self, remote: IpAddr, now_ns: i64) -> bool {
        let server = self.shared.servers.get(&remote).copied().unwrap_or_default();
        let may = server.cookie.is_some() || !self.shared.options.fast_open_needs_cookie;
        may && !server.is_paused(now_ns)
    }

    /// Forgets all servers' cookies.
    pub fn forget_servers(&mut self) {
        self.shared.servers.clear();
    }
}

impl Connection {
    /// Counts the data behind the SYN as sent, for they went with it.
    pub fn advance_with_syn(&mut self, shared: &mut StackShared, now_ns: i64) {
        let at = self.unsent;
        let Some(node) = shared.nodes.get_mut(at).filter(|_| self.syn_data > 0) else { return };
        (node.sent, node.sent_ns) = (Sent::InFlight, now_ns);
        let (len, next) = (node.len(), node.next);
        self.advance(len, next, now_ns);
    }

    /// A SYN with data or a cookie, or a request for one, was not answered as it was: that is
    /// remembered of the server.
    pub fn refuse_fast(&mut self, shared: &mut StackShared, now_ns: i64) {
        if !self.is.is_fast_client || self.cookie.is_none() && self.syn_data == 0 {
            return;
        }
        let server = remembered(&mut shared.servers, self.key.remote);
        (server.refusals, server.refused_ns) = (server.refusals.saturating_add(1), now_ns);
        shared.counters.fast_open_refused += 1;
    }

    /// Takes what the answer to the SYN says of fast open. What it does not acknowledge goes out
    /// again at once, which says nothing of congestion (RFC 7413, section 4.1.3).
    pub fn take_fast_answer(&mut self, segment: &Segment, shared: &mut StackShared, now_ns: i64) {
        let first = self.initial.plus(1);
        let told = segment.fast_open.filter(|told| !told.option().cookie.is_empty());
        let is_more = self.syn_data > 0 || self.is.is_syn_resent;
        if is_more && segment.acknowledgement == first && told.is_none() {
            self.refuse_fast(shared, now_ns);
        }
        let Some(max_segment) = segment.max_segment.filter(|_| self.is.is_fast_client) else { return };
        // A cookie that was not asked for is none.
        let asked = self.cookie.take();
        let server = remembered(&mut shared.servers, self.key.remote);
        server.max_segment = max_segment;
        if told.is_some() || segment.acknowledgement.is_after(first) {
            server.refusals = 0;
        }
        if let Some(asked) = &asked {
            if told.is_some() {
                server.cookie = told;
            } else if self.syn_data == 0 && !self.is.is_syn_resent {
                server.failures = server.failures.max(if asked.option().is_experiment { 2 } else { 1 });
            }
        }
        let end = first.plus(self.syn_data.into());
        self.is.has_syn_data = self.syn_data > 0 && segment.acknowledgement == end;
        // A SYN and its data are one segment that arrived.
        self.delivered = self.delivered.wrapping_sub(self.is.has_syn_data.into());
        self.syn_data = 0;
    }
}
