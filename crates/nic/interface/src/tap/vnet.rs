//! The header in front of frames of an interface that gives packets longer than a frame: the
//! one of virtio's network device in its legacy form, in this machine's byte order
//! (linux/virtio_net.h; Virtio 1.2, 5.1.6.1).

use memory::{Packet, TxOffload};
use port::software;
use regs::virtio::net::header;
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::segment::Long;
use wire::{ipv4, ipv6, tcp, udp, vlan};

/// Bytes of it.
pub(super) const LEN: usize = header::BYTES_LEGACY;
/// Tags of a frame, at most.
const MAX_TAGS: usize = 2;

/// Lets a frame ask for what its header says. `None` when that is nothing that can be done to
/// such a frame.
pub(super) fn apply(bytes: &[u8; LEN], packet: &mut Packet) -> Option<()> {
    let word = |at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
    let (needs_sum, kind) = (bytes[header::FLAGS] & header::NEEDS_CSUM != 0, bytes[header::GSO_TYPE]);
    let kind = kind & !header::GSO_ECN;
    if !needs_sum {
        return (kind == header::GSO_NONE).then_some(());
    }
    let (start, offset) = (word(header::CSUM_START), word(header::CSUM_OFFSET));
    let asked = checksum(packet, start, offset);
    let is_v6 = asked.is_some_and(|asked| asked.has(TxOffload::IPV6));
    match (kind, is_v6) {
        (header::GSO_NONE, _) => match asked {
            Some(asked) => packet.set_tx_offload(asked),
            // Of another protocol, or not where headers end: nobody behind us could be asked.
            None => return software::complete_checksum(packet, start, offset).then_some(()),
        },
        (header::GSO_TCPV4, false) | (header::GSO_TCPV6, true) => {
            let asked = asked.filter(|asked| asked.has(TxOffload::TCP_CHECKSUM))?;
            let l4_len = tcp::Header::of(packet.get(start..)?)?.header_len();
            long(packet, asked, l4_len, word(header::GSO_SIZE))?;
        }
        (header::GSO_UDP_L4, _) => {
            let asked = asked.filter(|asked| asked.has(TxOffload::UDP_CHECKSUM))?;
            long(packet, asked, udp::HEADER_LEN, word(header::GSO_SIZE))?;
        }
        _ => return None,
    }
    Some(())
}

/// Lets a packet that asks for its transport's checksum ask to be cut, too, behind a transport
/// header of this length.
fn long(packet: &mut Packet, asked: TxOffload, l4_len: usize, size: usize) -> Option<()> {
    let is_v6 = asked.has(TxOffload::IPV6);
    let version = if is_v6 { 0 } else { TxOffload::IP_CHECKSUM };
    let asked = TxOffload {
        flags: asked.flags | TxOffload::SEGMENT | version,
        l4_len: u8::try_from(l4_len).ok()?,
        segment_size: u16::try_from(size).ok()?,
        ..asked
    };
    let protocol = if asked.cuts_udp() { Protocol::UDP } else { Protocol::TCP };
    let (network, transport) = (usize::from(asked.l2_len), asked.transport_offset());
    Long::of(packet.get(..transport + l4_len)?, protocol, false, network, transport)?;
    software::bears_cutting(asked, packet.total_len()).then_some(())?;
    leave_length_out(packet, (network, transport), is_v6, protocol)?;
    packet.set_tx_offload(asked);
    Some(())
}

/// What a frame asks for whose checksum is not filled in that is TCP's or UDP's; `None` of all
/// others.
fn checksum(packet: &Packet, start: usize, offset: usize) -> Option<TxOffload> {
    let (l2_len, is_v6) = network(packet)?;
    let ip = packet.get(l2_len..)?;
    let (protocol, l3_len) = match is_v6 {
        true => {
            let upper =
                ipv6::upper_layer(ipv6::Header::of(ip)?.next_header(), &ip[ipv6::HEADER_LEN..]).ok()?;
            (upper.protocol, upper.offset + ipv6::HEADER_LEN)
        }
        false => ipv4::Header::of(ip)
            .filter(|header| header.version() == 4 && header.header_len() >= ipv4::HEADER_LEN)
            .map(|header| (header.protocol(), header.header_len()))?,
    };
    // A device would write where no frame is.
    packet.get(start + offset..start + offset + size_of::<u16>())?;
    let flag = match (protocol, offset) {
        (Protocol::TCP, tcp::offset::CHECKSUM) => TxOffload::TCP_CHECKSUM,
        (Protocol::UDP, udp::offset::CHECKSUM) => TxOffload::UDP_CHECKSUM,
        _ => return None,
    };
    (l2_len + l3_len == start).then_some(())?;
    Some(TxOffload {
        flags: flag | if is_v6 { TxOffload::IPV6 } else { 0 },
        l2_len: u8::try_from(l2_len).ok()?,
        l3_len: u8::try_from(l3_len).ok()?,
        ..TxOffload::default()
    })
}

/// Where the IP header begins, and whether it is one of IPv6.
fn network(frame: &[u8]) -> Option<(usize, bool)> {
    let (mut at, mut ethertype) = (ethernet::HEADER_LEN, ethernet::Header::of(frame)?.ethertype());
    for _ in 0..MAX_TAGS {
        if !ethertype.is_tag() {
            break;
        }
        ethertype = vlan::Header::of(frame.get(at..)?)?.ethertype();
        at += vlan::HEADER_LEN;
    }
    match ethertype {
        EtherType::IPV4 => Some((at, false)),
        EtherType::IPV6 => Some((at, true)),
        _ => None,
    }
}

/// Lets the transport's checksum hold the sum of the pseudo header without the length, which
/// differs between the pieces ([`TxOffload::SEGMENT`]); the kernel's has it.
fn leave_length_out(
    packet: &mut Packet,
    (network, transport): (usize, usize),
    is_v6: bool,
    protocol: Protocol,
) -> Option<()> {
    let ip = packet.get(network..)?;
    let ends = match is_v6 {
        true => ipv6::Header::of(ip)?.addresses(),
        false => ipv4::Header::of(ip)?.addresses(),
    };
    let sum = ends.pseudo_header(protocol, 0);
    let header = packet.get_mut(transport..)?;
    match protocol {
        Protocol::TCP => tcp::Header::of_mut(header)?.set_checksum(sum),
        _ => udp::Header::of_mut(header)?.set_checksum(sum),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use memory::{DATA_ROOM, Dma, HEADROOM, Pool};
    use proptest::prelude::*;

    use super::*;

    /// A frame of IPv4 with a TCP header and payload.
    fn frame(pool: &mut Pool, protocol: u8) -> Packet {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 0]);
        let ip = [0x45, 0, 0x10, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend(ip);
        let mut tcp = [0; 20];
        tcp[12] = 5 << 4;
        bytes.extend(tcp);
        bytes.resize(600, 7);
        let mut packet = pool.alloc().expect("a buffer");
        packet.copy_at(HEADROOM, &bytes).expect("room");
        packet
    }

    fn header(flags: u8, kind: u8, [size, start, offset]: [u16; 3]) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        (bytes[header::FLAGS], bytes[header::GSO_TYPE]) = (flags, kind);
        for (at, value) in
            [(header::GSO_SIZE, size), (header::CSUM_START, start), (header::CSUM_OFFSET, offset)]
        {
            bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn a_header_is_believed_as_far_as_the_frame_bears_it_out() {
        let mut pool = Pool::new(&Dma::new(memory::Options::default()), 8).expect("memory");
        const SUM: u8 = header::NEEDS_CSUM;
        const TCP: u8 = header::GSO_TCPV4;
        let mut asked = |protocol, of| {
            let mut packet = frame(&mut pool, protocol);
            let is_taken = apply(&of, &mut packet).is_some();
            let asked = packet.tx_offload();
            let sum = u16::from_be_bytes([packet[34 + 16], packet[34 + 17]]);
            pool.free(packet);
            is_taken.then_some((asked.flags, asked.header_len(), sum))
        };
        let plain = TxOffload::TCP_CHECKSUM;
        let long = plain | TxOffload::SEGMENT | TxOffload::IP_CHECKSUM;
        assert_eq!(asked(6, header(0, 0, [0; 3])), Some((0, 0, 0)));
        assert_eq!(asked(6, header(SUM, 0, [0, 34, 16])), Some((plain, 34, 0)));
        let taken = asked(6, header(SUM, TCP | header::GSO_ECN, [500, 34, 16])).expect("a long segment");
        assert_eq!((taken.0, taken.1), (long, 54));
        // Where nobody else could, the sum is made at once.
        for of in [header(SUM, 0, [0, 35, 15]), header(SUM, 0, [0, 34, 17])] {
            assert!(asked(6, of).is_some_and(|(flags, ..)| flags == 0));
        }
        assert!(
            asked(132, header(SUM, 0, [0, 34, 16])).is_some_and(|(flags, _, sum)| flags == 0 && sum != 0)
        );
        // A piece must be worth it, and headers be where they are said to be.
        for size in [0, 1, 47] {
            assert_eq!(asked(6, header(SUM, TCP, [size, 34, 16])), None, "{size}");
        }
        assert!(asked(6, header(SUM, TCP, [48, 34, 16])).is_some());
        for of in [
            header(0, TCP, [500, 34, 16]),
            header(SUM, TCP, [500, 33, 16]),
            header(SUM, TCP, [500, 34, 6]),
            header(SUM, header::GSO_TCPV6, [500, 34, 16]),
            header(SUM, 99, [500, 34, 16]),
            header(SUM, 0, [0, 599, 16]),
            header(SUM, 0, [0, u16::MAX, u16::MAX]),
        ] {
            assert_eq!(asked(6, of), None, "{of:?}");
        }
        assert_eq!(asked(17, header(SUM, TCP, [500, 34, 16])), None);
    }

    #[test]
    fn a_header_of_datagrams_is_believed_likewise() {
        let mut pool = Pool::new(&Dma::new(memory::Options::default()), 8).expect("memory");
        let mut asked = |protocol, of| {
            let mut packet = frame(&mut pool, protocol);
            let is_taken = apply(&of, &mut packet).is_some();
            let asked = packet.tx_offload();
            pool.free(packet);
            is_taken.then_some((asked.flags, asked.header_len()))
        };
        let of = |size, start, offset| header(header::NEEDS_CSUM, header::GSO_UDP_L4, [size, start, offset]);
        let long = TxOffload::UDP_CHECKSUM | TxOffload::SEGMENT | TxOffload::IP_CHECKSUM;
        assert_eq!(asked(17, of(500, 34, 6)), Some((long, 42)));
        // 558 bytes: pieces of 5 bytes are 112, of 4 they are 140.
        assert_eq!(asked(17, of(5, 34, 6)), Some((long, 42)));
        for size in [0, 1, 4] {
            assert_eq!(asked(17, of(size, 34, 6)), None, "{size}");
        }
        assert_eq!(asked(17, of(500, 35, 6)), None);
        assert_eq!(asked(17, of(500, 34, 16)), None);
        assert_eq!(asked(6, of(500, 34, 6)), None);
        assert_eq!(asked(6, of(500, 34, 16)), None);
        assert_eq!(asked(17, header(0, header::GSO_UDP_L4, [500, 34, 6])), None);
        assert_eq!(asked(17, header(header::NEEDS_CSUM, header::GSO_TCPV4, [500, 34, 6])), None);
    }

    /// Frames that the headers below are about: TCP and UDP over both versions of IP, with tags,
    /// options and extension headers, and one that is none of these.
    fn frames() -> Vec<Vec<u8>> {
        let v4 = |len: u8, protocol: u8| {
            let mut ip =
                vec![0x40 | (len / 4), 0, 0, 60, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            ip.resize(len.into(), 1);
            ip
        };
        let v6 = |next: u8| {
            let mut ip = vec![0x60, 0, 0, 0, 0, 60, next, 64];
            ip.resize(ipv6::HEADER_LEN, 3);
            ip
        };
        let destination_options = vec![6, 0, 1, 4, 0, 0, 0, 0];
        let tcp = |words: u8| {
            let mut bytes = vec![4; tcp::HEADER_LEN];
            bytes[tcp::offset::DATA_OFFSET] = words << 4;
            bytes.resize(usize::from(words) * 4, 1);
            bytes
        };
        let [four, six, tag] = [[8, 0], [0x86, 0xDD], [0x81, 0]];
        let frame = |parts: &[&[u8]]| [&[2; ethernet::ADDRESSES_LEN][..], &parts.concat()].concat();
        vec![
            frame(&[&four, &v4(20, 6), &tcp(5)]),
            frame(&[&four, &v4(60, 6), &tcp(15)]),
            frame(&[&tag, &[0, 7], &tag, &[0, 8], &four, &v4(24, 6), &tcp(8)]),
            frame(&[&six, &v6(6), &tcp(5)]),
            frame(&[&tag, &[0, 7], &six, &v6(60), &destination_options, &tcp(8)]),
            frame(&[&four, &v4(20, 17), &[5; udp::HEADER_LEN]]),
            frame(&[&six, &v6(17), &[5; udp::HEADER_LEN]]),
            frame(&[&[8, 6], &[6; 28]]),
        ]
    }

    /// A packet of some bytes in buffers that are not full.
    fn packet(pool: &mut Pool, bytes: &[u8], part: usize) -> Packet {
        let mut parts = bytes.chunks(part).map(|part| {
            let mut packet = pool.alloc().expect("a buffer");
            packet.copy_at(HEADROOM, part).expect("room");
            packet
        });
        let mut whole = parts.next().expect("a frame has bytes");
        parts.for_each(|part| whole.append(part));
        whole
    }

    fn bytes(packet: &Packet) -> Vec<u8> {
        packet.segments().flat_map(|segment| segment.to_vec()).collect()
    }

    /// A number of a header's: right, near what is right, or any.
    fn near(right: Vec<u16>) -> impl Strategy<Value = u16> {
        prop_oneof![4 => prop::sample::select(right), 1 => 0..100_u16, 1 => any::<u16>()]
    }

    const BUFFERS: usize = 256;

    thread_local! {
        static POOL: RefCell<Pool> =
            Pool::new(&Dma::new(memory::Options::default()), BUFFERS).expect("memory").into();
    }

    /// Nothing but the checksum's field is changed; what the frame asks for then is inside of its
    /// first buffer, and can be done: a segment is cut into pieces with all of its payload.
    fn bears(
        header: &[u8; LEN],
        packet: &mut Packet,
        frame: &[u8],
        pool: &mut Pool,
    ) -> Result<(), TestCaseError> {
        let word = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let (start, field) = (word(header::CSUM_START), word(header::CSUM_START) + word(header::CSUM_OFFSET));
        let is_taken = apply(header, packet).is_some();
        let (asked, after) = (packet.tx_offload(), bytes(packet));
        prop_assert_eq!(after.len(), frame.len());
        let mut changed = (0..frame.len()).filter(|at| after[*at] != frame[*at]);
        prop_assert!(changed.all(|at| (field..field + 2).contains(&at)));
        if !is_taken {
            return Ok(());
        }
        if !asked.is_empty() {
            prop_assert!(asked.l2_len >= 14 && asked.l3_len >= 20 && asked.transport_offset() == start);
            prop_assert!(field + 2 <= packet.len() && asked.header_len() <= packet.len() as u64);
        }
        if !asked.has(TxOffload::SEGMENT) {
            prop_assert!(software::fill_checksums(packet));
            return Ok(());
        }
        let (headers, size) = (asked.header_len() as usize, usize::from(asked.segment_size));
        prop_assert!(asked.fits(packet.len()) && software::bears_cutting(asked, frame.len()));
        let (mut payload, mut longest) = (vec![], 0);
        let cut = software::cut(packet, pool, |pool, piece| {
            longest = longest.max(piece.total_len());
            payload.extend(bytes(&piece).split_off(headers));
            pool.free(piece);
        });
        let most = (frame.len() / software::LEAST_SEGMENT + 1).max(software::MOST_SHORT_DATAGRAMS);
        prop_assert!(cut.is_whole && cut.pieces <= most, "{:?}", cut);
        prop_assert!(longest <= headers + size && payload == frame[headers..]);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn any_header_asks_for_what_a_frame_can_bear(
            template: prop::sample::Index,
            damage in prop::collection::vec((0..90_usize, any::<u8>()), 0..3),
            len in prop_oneof![15..120_usize, 15..9000_usize],
            part in 60..DATA_ROOM,
            flags in prop_oneof![4 => Just(header::NEEDS_CSUM), 1 => any::<u8>()],
            kind in prop_oneof![
                8 => prop::sample::select(vec![
                    header::GSO_NONE, header::GSO_TCPV4, header::GSO_TCPV6, header::GSO_UDP_L4,
                ]),
                1 => any::<u8>()
            ],
            size in near(vec![0, 47, 48, 500, 1448]),
            start in near(vec![34, 38, 42, 54, 66, 74]),
            offset in near(vec![6, 16]),
        ) {
            let mut frame = template.get(&frames()).clone();
            frame.resize(len, 7);
            for (at, byte) in damage {
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            POOL.with_borrow_mut(|pool| {
                let mut packet = packet(pool, &frame, part);
                let header = header(flags, kind, [size, start, offset]);
                let outcome = bears(&header, &mut packet, &frame, pool);
                pool.free(packet);
                let all: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
                let count = all.len();
                all.into_iter().for_each(|packet| pool.free(packet));
                prop_assert_eq!(count, BUFFERS, "all buffers are back");
                outcome
            })?;
        }
    }
}
