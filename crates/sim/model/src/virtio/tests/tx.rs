//! Sending: which descriptors make a frame, and what is done to it before it leaves.

use super::*;
use regs::virtio::net::header;

#[test]
fn frames_leave_whole_from_every_ring() {
    for ring in RINGS {
        let mut rig = Rig::new(ring);
        let table = BUFFERS + 0x8000;
        for round in 0..40usize {
            let data = frame(60 + round);
            let at = |n: u64| BUFFERS + 0x800 * n;
            let len = rig.packet(at(0), &data);
            rig.packet(at(1), &data);
            rig.packet(at(2), &data);
            rig.tx.offer(&[readable(at(0), len)]);
            rig.tx.offer(&[readable(at(1), 12), readable(at(1) + 12, 20), readable(at(1) + 32, len - 32)]);
            rig.tx.offer_table(table, &[readable(at(2), 5), readable(at(2) + 5, len - 5)]);
            rig.step();
            assert_eq!(rig.cable.from_host, [&data[..], &data, &data], "{ring:#x}");
            rig.cable.from_host.clear();
            assert_eq!(rig.tx.take_batch(), 3, "{ring:#x}");
            assert_eq!(rig.tx.outstanding(), 0);
        }
        assert!(rig.is_clean());
        assert_eq!(rig.function.net().totals().tx_packets, 120);
    }
}

#[test]
fn a_short_frame_is_padded() {
    let mut rig = Rig::new(0);
    let len = rig.packet(BUFFERS, &frame(42));
    rig.tx.offer(&[readable(BUFFERS, len)]);
    rig.step();
    assert_eq!(rig.cable.from_host[0].len(), 60);
    assert_eq!(rig.cable.from_host[0][..42], frame(42));
    assert_eq!(rig.cable.from_host[0][42..], [0; 18]);
}

/// Ethernet, IPv4, TCP or UDP, with the pseudo header's sum in place.
fn partial(tcp: bool, payload: usize) -> (Vec<u8>, usize) {
    let l4_len = if tcp { 20 } else { 8 };
    let mut data = frame(34 + l4_len + payload);
    let total = (20 + l4_len + payload) as u16;
    data[12..14].copy_from_slice(&[8, 0]);
    let protocol = if tcp { 6 } else { 17 };
    data[14..34]
        .copy_from_slice(&[0x45, 0, 0, 0, 0, 9, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    data[16..18].copy_from_slice(&total.to_be_bytes());
    let sum = wire::checksum::of(&data[14..34]);
    data[24..26].copy_from_slice(&sum.to_be_bytes());
    if tcp {
        data[38..42].copy_from_slice(&0xFFFF_FF00_u32.to_be_bytes());
        data[46] = 0x50;
        data[47] = 0x89; // CWR, PSH, FIN
    } else {
        data[38..40].copy_from_slice(&(total - 20).to_be_bytes());
    }
    let field = if tcp { 50 } else { 40 };
    let len = (total - 20).to_be_bytes();
    let pseudo = [&data[26..34], &[0, protocol], &len].concat();
    data[field..field + 2].copy_from_slice(&wire::checksum::sum(&pseudo).to_be_bytes());
    (data, field)
}

/// Whether IPv4's and the transport's checksum of a frame are right.
fn is_right(frame: &[u8]) -> bool {
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let l4 = &frame[34..14 + total];
    let len = (l4.len() as u16).to_be_bytes();
    let covered = [&frame[26..34], &[0, frame[23]], &len, l4].concat();
    wire::checksum::sum(&frame[14..34]) == 0xFFFF && wire::checksum::sum(&covered) == 0xFFFF
}

fn head(flags: u8, gso: u8, size: u16, field: usize) -> [u8; 12] {
    let mut head = [0; 12];
    head[header::FLAGS] = flags;
    head[header::GSO_TYPE] = gso;
    head[header::GSO_SIZE..][..2].copy_from_slice(&size.to_le_bytes());
    head[header::CSUM_START..][..2].copy_from_slice(&34u16.to_le_bytes());
    head[header::CSUM_OFFSET..][..2].copy_from_slice(&((field - 34) as u16).to_le_bytes());
    head
}

fn send(rig: &mut Rig, head: &[u8], data: &[u8]) {
    rig.put(BUFFERS, &[head, data].concat());
    rig.tx.offer(&[readable(BUFFERS, head.len() + data.len())]);
    rig.step();
    rig.tx.take_batch();
}

#[test]
fn checksums_are_filled_in() {
    for tcp in [false, true] {
        for payload in [0, 1, 100, 1001] {
            let mut rig = Rig::new(net::CSUM);
            let (data, field) = partial(tcp, payload);
            assert!(!is_right(&data));
            send(&mut rig, &head(header::NEEDS_CSUM, 0, 0, field), &data);
            assert!(is_right(&rig.cable.from_host[0]), "{tcp} {payload}");
            assert!(rig.is_clean());
        }
    }
}

#[test]
fn large_packets_are_cut() {
    let features = net::CSUM | net::HOST_TSO4 | net::HOST_USO;
    for (tcp, gso) in [(true, header::GSO_TCPV4), (false, header::GSO_UDP_L4)] {
        let mut rig = Rig::new(features);
        let (data, field) = partial(tcp, 5000);
        send(&mut rig, &head(header::NEEDS_CSUM, gso, 1448, field), &data);
        let sent = std::mem::take(&mut rig.cable.from_host);
        assert_eq!(sent.len(), 4);
        assert!(sent.iter().all(|frame| is_right(frame)));
        let headers = data.len() - 5000;
        let payload: Vec<u8> = sent.iter().flat_map(|frame| frame[headers..].to_vec()).collect();
        assert_eq!(payload, data[headers..]);
        if tcp {
            let flags: Vec<u8> = sent.iter().map(|frame| frame[47]).collect();
            assert_eq!(flags, [0x80, 0, 0, 0x09]);
            assert_eq!(sent[1][38..42], (0xFFFF_FF00_u32.wrapping_add(1448)).to_be_bytes());
        }
        assert!(rig.is_clean());
    }
}

#[test]
fn what_was_not_negotiated_is_refused() {
    let (data, field) = partial(true, 100);
    for (features, flags, gso, size, rule) in [
        (0, header::NEEDS_CSUM, 0, 0, Rule::ChecksumNotNegotiated),
        (net::CSUM, header::NEEDS_CSUM, header::GSO_TCPV4, 50, Rule::SegmentationNotNegotiated),
        (net::CSUM | net::HOST_TSO4, header::NEEDS_CSUM, header::GSO_TCPV4, 0, Rule::SegmentationInvalid),
        (net::CSUM | net::HOST_TSO4, 0, header::GSO_TCPV4, 50, Rule::SegmentationInvalid),
        (net::CSUM, header::NEEDS_CSUM, 77, 50, Rule::SegmentationNotNegotiated),
    ] {
        let mut rig = Rig::new(features);
        send(&mut rig, &head(flags, gso, size, field), &data);
        assert_eq!((rig.count(rule), rig.function.net().drops().tx_bad_offload), (1, 1), "{rule:?}");
        assert!(rig.cable.from_host.is_empty() && rig.tx.outstanding() == 0);
    }
    let mut rig = Rig::new(net::CSUM);
    send(&mut rig, &head(header::NEEDS_CSUM, 0, 0, 34 + 120), &data);
    assert_eq!(rig.count(Rule::ChecksumOutside), 1);
}

#[test]
fn buffers_that_hold_no_packet_are_given_back() {
    for ring in [0, feature::RING_PACKED] {
        let mut rig = Rig::new(ring);
        rig.tx.offer(&[readable(BUFFERS, 11)]);
        rig.tx.offer(&[readable(BUFFERS, 12 + 13)]);
        rig.tx.offer(&[readable(BUFFERS, 100), writable(BUFFERS, 100)]);
        rig.tx.offer(&[readable(BUFFERS, 70_000)]);
        rig.tx.offer(&[readable(BUFFERS, 17_000)]);
        rig.tx.offer(&[readable(IOVA - 64, 100)]);
        rig.step();
        assert_eq!(rig.tx.take_batch(), 6);
        let drops = *rig.function.net().drops();
        assert_eq!((drops.tx_bad_buffer, drops.tx_oversize, drops.tx_dma_fault), (3, 2, 1));
        assert!(rig.cable.from_host.is_empty() && !rig.needs_reset());
        assert_eq!(rig.function.net().totals().tx_offered, 6);
    }
}
