//! Messages of ICMP that the other end of a connection cannot be reached (RFC 792 and 4443).
//! They end a connection that is being opened, and no other (RFC 5927, section 6): a stranger
//! who guesses a number must not. RFC 1122, section 4.2.3.9, has those of some codes end none;
//! as in Linux all do here (RFC 5461, section 4.1), so that an application need not wait.
//! `Host` does not take them: a neighbour that is not up yet would end what it opens.

use std::net::IpAddr;

use wire::ip::{Addresses, Protocol};
use wire::{Flow, icmpv4, icmpv6, ipv4, ipv6, tcp};

use crate::connection::{Io, Next, State};
use crate::event::Reason;
use crate::key::Key;
use crate::sequence::Sequence;
use crate::stack::Stack;

/// Somebody told that the other end of a connection cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreachable {
    /// The connection that the segment in the message was of.
    pub key: Key,
    /// The number of the first byte of the segment that did not arrive.
    pub sequence: u32,
    /// Why, as the message has it.
    pub code: u8,
}

impl Unreachable {
    /// Reads a message in a frame whose layers are `flow`; `None` when it is another one, or
    /// not sound.
    pub fn of(flow: &Flow, frame: &[u8]) -> Option<Unreachable> {
        let message = frame.get(flow.l4_offset()..flow.end).filter(|_| !flow.fragment)?;
        match (flow.addresses, flow.protocol) {
            (Addresses::V4 { .. }, Protocol::ICMP) => {
                let icmp = icmpv4::Packet::new_checked(message).ok()?;
                let is_one = icmp.message_type() == icmpv4::UNREACHABLE && icmp.verify_checksum();
                let quoted = Some(icmp.data()).filter(|_| is_one)?;
                let ip = ipv4::Header::of(quoted).filter(|ip| ip.protocol() == Protocol::TCP)?;
                let segment = quoted.get(ip.header_len()..).filter(|_| !ip.is_fragment())?;
                Unreachable::about(ip.src().into(), ip.dst().into(), segment, icmp.code())
            }
            (Addresses::V6 { .. }, Protocol::ICMPV6) => {
                let icmp = icmpv6::Packet::new_checked(message).ok()?;
                let is_one =
                    icmp.message_type() == icmpv6::UNREACHABLE && icmp.verify_checksum(flow.addresses);
                let quoted = Some(icmp.data()).filter(|_| is_one)?;
                let ip = ipv6::Header::of(quoted).filter(|ip| ip.next_header() == Protocol::TCP)?;
                let segment = quoted.get(ipv6::HEADER_LEN..)?;
                Unreachable::about(ip.src().into(), ip.dst().into(), segment, icmp.code())
            }
            _ => None,
        }
    }

    fn about(local: IpAddr, remote: IpAddr, segment: &[u8], code: u8) -> Option<Unreachable> {
        let segment = tcp::Quoted::of(segment)?;
        let key = Key { local, remote, local_port: segment.src_port(), remote_port: segment.dst_port() };
        Some(Unreachable { key, sequence: segment.sequence(), code })
    }
}

impl Stack {
    /// Takes a message that the other end cannot be reached. Whether it is about a segment that
    /// is on its way.
    pub fn unreachable(&mut self, message: &Unreachable, io: &mut Io) -> bool {
        let Some(index) = self.find(&message.key) else { return false };
        let Some(connection) = self.connections.get_mut(index) else { return false };
        let sequence = Sequence(message.sequence);
        if sequence.is_before(connection.una) || !sequence.is_before(connection.nxt) {
            return false;
        }
        let next = match connection.state {
            State::SynReceived if connection.is.is_passive && !connection.is.is_known => Next::Forget,
            State::SynSent | State::SynReceived => Next::End(Reason::Unreachable),
            _ => Next::Keep,
        };
        self.follow_up(index, next, io);
        true
    }
}
