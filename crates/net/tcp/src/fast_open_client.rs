//! The side that opens a connection fast (RFC 7413, section 4.1): the cookies and the largest
//! segments of servers are remembered, so that the next SYN to one of them carries data.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::tcp_option::FastOpen;

use crate::calls::Refusal;
use crate::connection::{Connection, Io, Shared};
use crate::event::Id;
use crate::fast_open::Cookie;
use crate::queue::Sent;
use crate::segment::Segment;
use crate::stack::Stack;

/// Bytes that a SYN leaves free for options, its own and those that others insert on the way.
const OPTION_SPACE: u16 = 40;
/// Servers that are remembered; one more has all forgotten, which costs each a round trip.
const MOST_SERVERS: usize = 1024;

/// What is remembered of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Server {
    cookie: Option<Cookie>,
    max_segment: u16,
    /// How many kinds of options it did not answer: after the usual one that for experiments is
    /// tried once.
    failures: u8,
}

/// The servers by their addresses.
pub type Servers = BTreeMap<IpAddr, Server>;

impl Stack {
    /// Opens a connection whose SYN carries as many of `bytes` as it may: how many is told, and
    /// is none where the server's cookie is not known, which the SYN then asks for.
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

    /// Whether a SYN to a server may carry data.
    pub fn may_connect_fast(&self, remote: IpAddr) -> bool {
        let is_known = self.shared.servers.get(&remote).is_some_and(|server| server.cookie.is_some());
        is_known || !self.shared.options.fast_open_needs_cookie
    }

    /// Forgets all servers' cookies.
    pub fn forget_servers(&mut self) {
        self.shared.servers.clear();
    }
}

impl Connection {
    /// Counts the data behind the SYN as sent, for they went with it.
    pub fn advance_with_syn(&mut self, shared: &mut Shared, now_ns: i64) {
        let at = self.unsent;
        let Some(node) = shared.nodes.get_mut(at).filter(|_| self.syn_data > 0) else { return };
        (node.sent, node.sent_ns) = (Sent::InFlight, now_ns);
        let (len, next) = (node.len(), node.next);
        self.advance(len, next, now_ns);
    }

    /// Takes what the answer to the SYN says of fast open. What it does not acknowledge goes out
    /// again at once, which says nothing of congestion (RFC 7413, section 4.1.3).
    pub fn take_fast_answer(&mut self, segment: &Segment, shared: &mut Shared) {
        let Some(max_segment) = segment.max_segment.filter(|_| self.is.is_fast_client) else { return };
        let told = segment.fast_open.filter(|told| !told.option().cookie.is_empty());
        // A cookie that was not asked for is none.
        let asked = self.cookie.take();
        let address = self.key.remote;
        if shared.servers.len() >= MOST_SERVERS && !shared.servers.contains_key(&address) {
            shared.servers.clear();
        }
        let server = shared.servers.entry(address).or_default();
        server.max_segment = max_segment;
        if let Some(asked) = &asked {
            if told.is_some() {
                server.cookie = told;
            } else if self.syn_data == 0 && !self.is.is_syn_resent {
                server.failures = server.failures.max(if asked.option().is_experiment { 2 } else { 1 });
            }
        }
        let end = self.initial.plus(1 + u32::from(self.syn_data));
        self.is.has_syn_data = self.syn_data > 0 && segment.acknowledgement == end;
        // A SYN and its data are one segment that arrived.
        self.delivered = self.delivered.wrapping_sub(self.is.has_syn_data.into());
        self.syn_data = 0;
    }
}
