//! The packets of what a connection sends: of nearly all segments over IPv4 at once, of others from
//! a header that is put together first. What is sent, and when, is decided in
//! [`output`](crate::output).

use std::net::Ipv4Addr;

use memory::Packet;
use wire::ecn;
use wire::ip::Addresses;
use wire::tcp::Flags;
use wire::tcp_v4::Headers;

use crate::connection::{Connection, Io, Recovery, StackShared, State};
use crate::emit::{Header, OptionBytes, Plain};
use crate::queue::Sent;
use crate::sequence::Sequence;

impl Connection {
    /// A packet of a node, which counts as sent; `None` when there is no room or no buffer.
    pub fn build(&mut self, at: u32, shared: &mut StackShared, io: &mut Io) -> Option<Packet> {
        if io.out.room() == 0 {
            return None;
        }
        let addresses = self.key.addresses()?;
        let node = shared.nodes.get(at)?;
        let (sequence, is_control, is_resent) = (node.sequence, node.is_control, node.is_resent);
        let next = node.next;
        let is_last = shared.nodes.get(node.next).is_none_or(|next| next.is_control);
        let is_syn = is_control && self.is_initial(sequence);
        let payload_len = node.payload_len();
        let is_end = is_last || node.is_record_end;
        let is_whole = is_end && (!node.is_more || self.is.may_cut);
        let flags = self.flags(is_syn, is_control, is_whole && payload_len > 0, is_resent);
        let ecn = if self.is.has_ecn && payload_len > 0 && !is_resent { ecn::ECT_0 } else { ecn::NOT_ECT };
        let built = match addresses {
            Addresses::V4 { src, dst } if !is_syn => {
                let plain = self.plain((src, dst), sequence, flags, ecn, shared, io.now_ns);
                let payload = shared.nodes.get(at).and_then(|node| node.packet());
                let payload = payload.map_or(&[][..], |packet| &packet[..]);
                plain.build(io.pool, payload, shared.options.offload)
            }
            _ => {
                let header = Header { ecn, ..self.header(addresses, sequence, flags, shared, io.now_ns) };
                let has_data = is_syn && self.syn_data > 0 && !is_resent;
                let with_syn = shared.nodes.get(next).filter(|_| has_data);
                let with_syn = with_syn.and_then(|node| node.packet());
                let packet = shared.nodes.get(at).and_then(|node| node.packet()).or(with_syn);
                header.build(io.pool, packet.map_or(&[][..], |packet| &packet[..]), shared.options.offload)
            }
        };
        let Some(packet) = built else {
            shared.counters.no_buffer += 1;
            return None;
        };
        let node = shared.nodes.get_mut(at)?;
        (node.sent, node.sent_ns) = (Sent::InFlight, io.now_ns);
        if self.recovery != Recovery::Open || self.is.is_reducing {
            self.reduction.count_sent(node.len());
        }
        shared.counters.segments_sent += 1;
        self.has_acknowledged(flags);
        self.is.owes_cwr &= !flags.contains(Flags::CWR);
        Some(packet)
    }

    fn flags(&mut self, is_syn: bool, is_control: bool, is_pushed: bool, is_resent: bool) -> Flags {
        if is_syn {
            let is_answer = self.state == State::SynReceived;
            let ack = if is_answer { Flags::SYN | Flags::ACK } else { Flags::SYN };
            return match (self.is.has_ecn, is_answer) {
                (true, true) => ack | Flags::ECE,
                // RFC 3168, section 6.1.1.1: without it when nobody answered the first.
                (true, false) if !is_resent => ack | Flags::ECE | Flags::CWR,
                _ => ack,
            };
        }
        let mut flags = Flags::ACK;
        if is_control {
            flags = flags | Flags::FIN;
        }
        if is_pushed {
            flags = flags | Flags::PSH;
        }
        if self.is.is_echoing {
            flags = flags | Flags::ECE;
        }
        if self.is.owes_cwr && !is_resent && !is_control {
            flags = flags | Flags::CWR;
        }
        flags
    }

    /// The header of a segment over IPv4 that is no SYN and has no blocks. Its acknowledgement and
    /// window count as told.
    #[inline]
    pub fn plain(
        &mut self,
        (src, dst): (Ipv4Addr, Ipv4Addr),
        sequence: Sequence,
        flags: Flags,
        ecn: u8,
        shared: &StackShared,
        now_ns: i64,
    ) -> Plain {
        let clocks = self.is.has_timestamps.then(|| (self.clock(now_ns), self.peer_clock));
        let window = self.window(shared, false);
        let headers = Headers {
            src,
            dst,
            traffic_class: ecn,
            ports: (self.key.local_port, self.key.remote_port),
            sequence: sequence.0,
            acknowledgement: self.receive_next.0,
            flags,
            window,
        };
        Plain { headers, clocks }
    }

    /// The header of a segment. Its acknowledgement and window count as told.
    pub fn header(
        &mut self,
        addresses: Addresses,
        sequence: Sequence,
        flags: Flags,
        shared: &StackShared,
        now_ns: i64,
    ) -> Header {
        let is_syn = flags.contains(Flags::SYN);
        let clocks = self.is.has_timestamps.then(|| (self.clock(now_ns), self.peer_clock));
        let options = match clocks {
            _ if is_syn => self.syn_options(flags, clocks, shared),
            Some((value, echo)) => {
                let mut options = OptionBytes::new();
                options.push_timestamps(value, echo);
                options
            }
            None => OptionBytes::new(),
        };
        let window = self.window(shared, is_syn);
        let acknowledgement = if flags.contains(Flags::ACK) { self.receive_next } else { Sequence(0) };
        Header {
            addresses,
            src_port: self.key.local_port,
            dst_port: self.key.remote_port,
            sequence,
            acknowledgement,
            flags,
            window,
            options,
            ecn: ecn::NOT_ECT,
        }
    }

    fn syn_options(&self, flags: Flags, clocks: Option<(u32, u32)>, shared: &StackShared) -> OptionBytes {
        let is_answer = flags.contains(Flags::ACK);
        let shift = if is_answer { self.receive_shift } else { shared.options.receive_shift() };
        let scale = self.is.has_scale.then_some(shift);
        let mut options = OptionBytes::of_syn(self.advertised, self.is.has_sack, clocks, scale);
        // A SYN that is sent again goes without, for a box on the way may have dropped the first.
        let cookie = self.cookie.iter().filter(|_| is_answer || self.attempts == 0);
        cookie.for_each(|cookie| options.push_cookie(cookie.option()));
        options
    }
}
