use std::net::{Ipv4Addr, Ipv6Addr};

use memory::{Backing, Dma, Options, Pool};
use wire::ip::Protocol;

use super::*;

const PAYLOAD: usize = 9;

fn pool() -> Pool {
    let dma = Dma::new(Options { backing: Backing::Memfd, ..Options::default() });
    Pool::new(&dma, 64).expect("plain memory is always there")
}

fn ethernet(ethertype: EtherType) -> Vec<u8> {
    let (dst, src) = (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    ethernet::Header::between(dst, src, ethertype).into_inner().to_vec()
}

fn v4() -> ipv4::Header<[u8; ipv4::HEADER_LEN]> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut header = ipv4::Header::zeroed();
    ipv4::Repr::between(src, dst, Protocol::UDP, PAYLOAD).write(&mut header);
    header
}

/// A frame of IPv4, filled up to Ethernet's least length and more.
fn frame(header: ipv4::Header<[u8; ipv4::HEADER_LEN]>, padding: usize) -> Vec<u8> {
    let payload = [vec![7; PAYLOAD], vec![0; padding]].concat();
    [ethernet(EtherType::IPV4), header.into_inner().to_vec(), payload].concat()
}

/// What becomes of a frame that came in buffers of so many bytes, and what goes on.
fn entered(pool: &mut Pool, frame: &[u8], segment: usize) -> (Entered, Vec<u8>) {
    let mut all: Option<Packet> = None;
    for bytes in frame.chunks(segment) {
        let mut packet = pool.alloc().expect("there are enough");
        packet.copy_from(bytes).expect("it fits");
        match &mut all {
            Some(first) => first.append(packet),
            None => all = Some(packet),
        }
    }
    let mut packet = all.expect("a frame");
    let entered = unwrap(&mut packet, Layer::Ip);
    (entered, packet.segments().flat_map(|segment| segment.to_vec()).collect())
}

#[test]
fn what_fills_a_frame_up_does_not_go_into_tunnels() {
    let mut pool = pool();
    for (padding, segment) in [(0, 2000), (17, 2000), (900, 2000), (900, 60), (900, 43), (900, 400)] {
        let (entered, packet) = entered(&mut pool, &frame(v4(), padding), segment);
        assert_eq!(
            (entered, packet.len()),
            (Entered::Packet, ipv4::HEADER_LEN + PAYLOAD),
            "{padding} {segment}"
        );
        let packet = ipv4::Packet::new_checked(&packet[..]).expect("a packet");
        assert!(packet.verify_checksum() && packet.ttl() == 63);
    }
    let repr = ipv6::Repr {
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
        next_header: Protocol::UDP,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        payload_len: PAYLOAD,
    };
    let v6 = [ethernet(EtherType::IPV6), repr.header().into_inner().to_vec(), vec![7; PAYLOAD + 20]].concat();
    let (became, packet) = entered(&mut pool, &v6, 2000);
    assert_eq!((became, packet.len()), (Entered::Packet, ipv6::HEADER_LEN + PAYLOAD));
    let cut = &v6[..v6.len() - 21];
    assert_eq!(entered(&mut pool, cut, 2000).0, Entered::Lost(Reason::OverlayInnerMalformed));
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn packets_that_contradict_themselves_are_lost_by_name() {
    let mut pool = pool();
    let with = |change: &dyn Fn(&mut ipv4::Header<[u8; ipv4::HEADER_LEN]>), sums: bool| {
        let mut header = v4();
        change(&mut header);
        if sums {
            header.fill_checksum();
        }
        frame(header, 20)
    };
    let lost = Entered::Lost(Reason::OverlayInnerMalformed);
    for (frame, expected) in [
        (with(&|header| header.set_identification(1), true), Entered::Packet),
        (with(&|header| header.set_identification(1), false), lost),
        (with(&|header| header.set_total_len(50), true), lost),
        (with(&|header| header.set_total_len(49), true), Entered::Packet),
        (with(&|header| header.set_total_len(19), true), lost),
        (with(&|header| header.set_header_len(24), true), lost),
        (with(&|header| header.set_header_len(16), true), lost),
        (with(&|header| header.set_ttl(1), true), Entered::Lost(Reason::OverlayTtlExpired)),
        (frame(v4(), 0)[..30].to_vec(), lost),
        (ethernet(EtherType::IPV4), lost),
        (ethernet(EtherType::IPV6), lost),
        (ethernet(EtherType::ARP), Entered::Lost(Reason::OverlayNotRouted)),
    ] {
        assert_eq!(entered(&mut pool, &frame, 2000).0, expected, "{frame:02x?}");
    }
}
