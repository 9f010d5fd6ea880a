//! `RIPSend`: a route, announced again and again (RIP version 2, RFC 2453).

use std::net::Ipv4Addr;

use graph::class::{Headers, mandatory};
use graph::clock::SECOND_NS;
use graph::value::Prefix4;
use graph::{Class, Cx, Element, TimerId, ip_header};
use port::Reason;
use wire::ip::{Addresses, Protocol};
use wire::{ipv4, rip, udp};

pub static CLASS: Class = Class {
    name: "RIPSend",
    brief: "announces a route by RIP, again and again",
    doc: "Every 30 s, the first time after 3 s, an IP packet leaves for DST in which SRC says by RIP version 2 \
          that PREFIX is METRIC hops from it. No announcement is received, and nothing else of RIP is here.",
    ports: "0/1",
    processing: "h/h",
    arguments: &[
        mandatory("SRC", "who announces the route, and is its next hop"),
        mandatory("DST", "to whom"),
        mandatory("PREFIX", "the network, as it is written: bits behind the mask stay"),
        mandatory("METRIC", "how many hops it is away; 16 for unreachable"),
    ],
    drops: &[Reason::NoBuffers],
    example: "RIPSend(18.26.4.24, 18.26.4.255, 10.0.0.0/8, 10)\n    \
              -> EtherEncap(0x0800, 00:00:c0:ae:67:ef, ff:ff:ff:ff:ff:ff) -> ToDevice(p)",
    see: &["UDPIPEncap", "TimedSource", "RadixIPLookup"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let src: Ipv4Addr = conf.mandatory("SRC")?;
        let dst: Ipv4Addr = conf.mandatory("DST")?;
        let prefix: Prefix4 = conf.mandatory("PREFIX")?;
        let metric: i32 = conf.mandatory("METRIC")?;
        conf.complete()?;
        Ok(Box::new(RipSend(announcement(src, dst, prefix, metric))))
    },
    ..Class::BASE
};

const LEN: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + rip::ROUTE_LEN;
const FIRST_NS: i64 = 3 * SECOND_NS;
const INTERVAL_NS: i64 = 30 * SECOND_NS;

/// The packet, which is always the same.
fn announcement(src: Ipv4Addr, dst: Ipv4Addr, prefix: Prefix4, metric: i32) -> [u8; LEN] {
    let mut packet = [0; LEN];
    let whole = ipv4::Repr::between(src, dst, Protocol::UDP, udp::HEADER_LEN + rip::ROUTE_LEN);
    ipv4::Repr { ttl: 200, ..whole }.emit(&mut ipv4::Packet::new_unchecked(&mut packet[..]));
    let (_, datagram) = packet.split_at_mut(ipv4::HEADER_LEN);
    if let Some(route) = datagram.get_mut(udp::HEADER_LEN..).and_then(|bytes| bytes.first_chunk_mut()) {
        rip::Route::new(route).fill([prefix.address, prefix.mask, src], metric as u32);
    }
    let mut datagram = udp::Datagram::new_unchecked(datagram);
    udp::Repr { src_port: rip::PORT, dst_port: rip::PORT, payload_len: rip::ROUTE_LEN }.emit(&mut datagram);
    datagram.fill_checksum(Addresses::V4 { src, dst });
    packet
}

/// A `RIPSend` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct RipSend([u8; LEN]);

impl Element for RipSend {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let timer = cx.new_timer();
        cx.set_timer_after(timer, FIRST_NS);
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        match cx.packet(&self.0) {
            Some(mut packet) => {
                ip_header::mark(&mut packet, 0, ipv4::HEADER_LEN);
                cx.emit(0, packet);
            }
            None => cx.count_drops(0, 1),
        }
        cx.set_timer_after(timer, INTERVAL_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announcement_is_clicks() {
        let (src, dst) = (Ipv4Addr::new(18, 26, 4, 24), Ipv4Addr::new(18, 26, 4, 255));
        let prefix = Prefix4 { address: Ipv4Addr::new(10, 9, 0, 0), mask: Ipv4Addr::new(255, 0, 0, 0) };
        let hex: String = announcement(src, dst, prefix, 10).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex,
            "4500003400000000c811c56e121a0418121a04ff020802080020ad0902020000000200000a090000ff000000121a0418\
             0000000a"
        );
    }
}
