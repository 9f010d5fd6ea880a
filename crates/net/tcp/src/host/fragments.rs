//! A host's part when packets come in fragments. The port leads all fragments of a packet to one
//! queue, by their addresses alone: datagrams and pings are answered there, and a segment is passed
//! on to the core of its connection, as far as cores know of each other.

use memory::{Packet, Pool};
use neighbor::{reply_to_echo_v4, reply_to_echo_v6};
use port::Reason;
use wire::ethernet::{self, EtherType};
use wire::ip::{Addresses, Protocol};
use wire::{Flow, MacAddress, icmpv4, icmpv6, ipv4, ipv6};

use super::Host;
use crate::ahead::Arrival;
use crate::cut::Cutter;
use crate::fragments::{Fragment, Fragments, Whole};
use crate::icmp::{Problem, is_one_host};
use crate::udp::Unreceived;

/// Hops that an answer may take.
const HOPS: u8 = 64;

/// What a host has for packets that are longer than its link takes.
#[derive(Default)]
pub(super) struct Long {
    pub fragments: Fragments,
    cutter: Cutter,
}

impl Host {
    /// Takes a fragment; the packet that it is the last missing one of is taken as if it had come
    /// whole.
    #[cold]
    pub(super) fn take_fragment(&mut self, packet: Packet, flow: &Flow, now_ns: i64, pool: &mut Pool) {
        let from = ethernet::Header::of(&packet).map(|header| header.src());
        if let Err(lost) = self.check(&packet, flow) {
            *lost += 1;
            return pool.free(packet);
        }
        let fragment = packet.get(flow.l3_offset()..flow.end).and_then(Fragment::of);
        if fragment.is_none() {
            self.lost.malformed += 1;
        }
        let whole = fragment.and_then(|fragment| self.long.fragments.take(&fragment, now_ns));
        pool.free(packet);
        if let (Some(whole), Some(from)) = (whole, from) {
            self.take_whole(whole, from, now_ns, pool);
        }
    }

    /// Takes a packet that came in fragments, the last of them from an Ethernet address.
    fn take_whole(&mut self, whole: Whole, from: MacAddress, now_ns: i64, pool: &mut Pool) {
        match (whole.protocol, whole.addresses) {
            (Protocol::UDP, _) => self.take_whole_datagram(&whole, now_ns, pool),
            (Protocol::TCP, _) => self.take_whole_segment(&whole, pool),
            (Protocol::ICMP, Addresses::V4 { .. }) | (Protocol::ICMPV6, Addresses::V6 { .. }) => {
                self.answer_echo(whole, from, pool);
            }
            _ => self.lost.unknown += 1,
        }
    }

    fn take_whole_datagram(&mut self, whole: &Whole, now_ns: i64, pool: &mut Pool) {
        match self.udp.receive_whole(whole, pool) {
            Ok(datagram) => self.datagrams.push(datagram),
            Err(Unreceived::Wrong) => {}
            Err(Unreceived::NoBuffers) => self.long.fragments.lose_whole(Reason::RxIpFragmentBuffers),
            Err(Unreceived::NoPort) => {
                let about = [&header(whole)[..], &whole.payload].concat();
                self.tell(Problem::PortUnreachable, whole.addresses, &about, now_ns, pool);
            }
        }
    }

    /// Takes a segment, which an honest sender has cut no further than to the host's own MTU: it
    /// fits into a buffer.
    fn take_whole_segment(&mut self, whole: &Whole, pool: &mut Pool) {
        let ethertype = match whole.addresses {
            Addresses::V4 { .. } => EtherType::IPV4,
            Addresses::V6 { .. } => EtherType::IPV6,
        };
        let mac = self.addresses.mac;
        let front = ethernet::Header::between(mac, mac, ethertype).into_inner();
        let frame = [&front[..], &header(whole), &whole.payload].concat();
        let Ok(flow) = Flow::of(&frame) else {
            self.lost.malformed += 1;
            return;
        };
        let Some(mut packet) = pool.alloc() else {
            return self.long.fragments.lose_whole(Reason::RxIpFragmentBuffers);
        };
        if packet.copy_from(&frame).is_err() {
            self.long.fragments.lose_whole(Reason::RxIpFragmentLong);
            return pool.free(packet);
        }
        let arrival = Arrival::new(packet, flow, whole.traffic_class);
        let arrival = self.pass_whole_on(arrival, pool);
        self.arrivals.extend(arrival);
    }

    /// Answers a request for an echo, in fragments where it takes some.
    fn answer_echo(&mut self, mut whole: Whole, from: MacAddress, pool: &mut Pool) {
        let mut header = header(&whole);
        let message = &mut whole.payload[..];
        let (ethertype, is_answered) = match whole.addresses {
            Addresses::V4 { .. } => {
                let is_sound = icmpv4::Packet::new_checked(&*message)
                    .is_ok_and(|message| message.code() == 0 && message.verify_checksum());
                let ip = ipv4::Header::of_mut(&mut header);
                let answered = ip.map(|mut ip| is_sound && reply_to_echo_v4(&mut ip, message, HOPS));
                (EtherType::IPV4, answered)
            }
            Addresses::V6 { .. } => {
                let is_sound = icmpv6::Packet::new_checked(&*message)
                    .is_ok_and(|message| message.code() == 0 && message.verify_checksum(whole.addresses));
                let ip = ipv6::Header::of_mut(&mut header);
                let answered = ip.map(|mut ip| is_sound && reply_to_echo_v6(&mut ip, message, HOPS));
                (EtherType::IPV6, answered)
            }
        };
        let back = crate::emit::addresses(whole.addresses.dst(), whole.addresses.src());
        let Some(back) = back.filter(|_| is_answered == Some(true)) else {
            self.lost.unknown += 1;
            return;
        };
        let front = ethernet::Header::between(from, self.addresses.mac, ethertype).into_inner();
        let mtu = self.stack.options().mtu.into();
        let what = (back, whole.protocol);
        let sent = self.long.cutter.send(what, message, (&front, mtu), pool, &mut self.frames);
        self.lost.unsent += u64::from(sent.is_err());
    }

    /// Answers a request for an echo in a frame whose layers are `flow`, which is behind extension
    /// headers, such as that of a fragment that is all of its packet (RFC 6946). Whether it is one.
    pub(super) fn answer_behind_headers(&mut self, packet: &Packet, pool: &mut Pool) -> bool {
        let Ok(flow) = Flow::of(packet) else { return false };
        let is_one = flow.protocol == Protocol::ICMPV6 && flow.l3_len > ipv6::HEADER_LEN;
        if !is_one || packet.next().is_some() || self.check(packet, &flow).is_err() {
            return false;
        }
        let Some(payload) = packet.get(flow.l4_offset()..flow.end) else { return false };
        let is_request =
            icmpv6::Header::of(payload).is_some_and(|message| message.message_type() == icmpv6::ECHO_REQUEST);
        let from = ethernet::Header::of(packet).map(|header| header.src());
        let Some(from) = from.filter(|_| is_request) else { return false };
        let (addresses, protocol, payload) = (flow.addresses, flow.protocol, payload.to_vec());
        self.answer_echo(Whole { addresses, protocol, traffic_class: 0, payload }, from, pool);
        true
    }

    /// Gives up packets of which fragments did not come in time, and tells their senders.
    #[cold]
    pub(super) fn expire_fragments(&mut self, now_ns: i64, pool: &mut Pool) {
        while let Some(late) = self.long.fragments.expire(now_ns) {
            self.tell(Problem::ReassemblyTime, late.addresses, &late.first, now_ns, pool);
        }
    }

    /// Tells the sender of a packet what is wrong, if it is one host and there is room.
    pub(super) fn tell(
        &mut self,
        problem: Problem,
        addresses: Addresses,
        about: &[u8],
        now_ns: i64,
        pool: &mut Pool,
    ) {
        if !is_one_host(addresses.src(), &self.addresses) || self.segments.room() == 0 {
            return;
        }
        let answer = self.errors.tell(problem, addresses, about, now_ns, pool);
        let refused = answer.and_then(|answer| self.segments.push(answer));
        refused.into_iter().for_each(|packet| pool.free(packet));
    }
}

/// The IP header that a packet might have had if it had come whole.
fn header(whole: &Whole) -> Vec<u8> {
    let (protocol, payload_len) = (whole.protocol, whole.payload.len());
    match whole.addresses {
        Addresses::V4 { src, dst } => {
            let mut header = ipv4::Header::zeroed();
            ipv4::Repr::between(src, dst, protocol, payload_len).write(&mut header);
            header.into_inner().to_vec()
        }
        Addresses::V6 { src, dst } => {
            let repr = ipv6::Repr {
                src,
                dst,
                next_header: protocol,
                hop_limit: HOPS,
                traffic_class: whole.traffic_class,
                flow_label: 0,
                payload_len,
            };
            repr.header().into_inner().to_vec()
        }
    }
}
