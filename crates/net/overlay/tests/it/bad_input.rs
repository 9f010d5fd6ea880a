//! Frames from anyone: nothing panics, what is refused has a name and is left as it was.

use overlay::{Decapsulator, Layer, Network, PROTOCOLS, Payload, Received, Sent};
use port::Reason;
use proptest::prelude::*;

use crate::rig::{Buffers, NETWORK, decapsulate, encapsulate, frame, reversed, table, tunnel, v4};

/// A receiver at which each protocol ends, over both versions of IP.
fn receiver() -> Decapsulator {
    let mut there = table();
    for (number, layer) in [(1, Layer::Ethernet), (2, Layer::Ip)] {
        there.add_network(number, Network::point_to_point(layer)).unwrap();
    }
    for protocol in PROTOCOLS {
        for is_v6 in [false, true] {
            let end = reversed(&tunnel(protocol.name, is_v6));
            let network = if protocol.payloads.contains(&Payload::Ethernet) { 1 } else { 2 };
            // Its packets and gretap's cannot be told apart at one address.
            if end.check().is_ok() && protocol.name != "nvgre" {
                there.add_end(network, &end, false).unwrap();
            }
        }
    }
    let receiver = there.decapsulator();
    there.publish();
    receiver
}

/// A frame as each protocol sends it.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for protocol in PROTOCOLS {
        for is_v6 in [false, true] {
            let tunnel = tunnel(protocol.name, is_v6);
            if tunnel.check().is_err() {
                continue;
            }
            let is_bridge = protocol.payloads.contains(&Payload::Ethernet);
            let layer = if is_bridge { Layer::Ethernet } else { Layer::Ip };
            let bytes = if is_bridge { frame(1, 0x0800, &v4(1, b"inside")) } else { v4(1, b"inside") };
            let mut here = table();
            here.add_network(NETWORK, Network::point_to_point(layer)).unwrap();
            here.insert(NETWORK, 0, tunnel).unwrap();
            let mut sender = here.encapsulator();
            here.publish();
            let mut packet = Buffers::new().packet(&bytes);
            assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
            frames.push(packet.to_vec());
        }
    }
    frames
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn broken_frames(
        which in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        chain in prop::option::of(any::<prop::sample::Index>()),
    ) {
        thread_local! {
            static RIG: std::cell::RefCell<(Decapsulator, Buffers, Vec<Vec<u8>>)> =
                std::cell::RefCell::new((receiver(), Buffers::new(), frames()));
        }
        RIG.with_borrow_mut(|(receiver, buffers, frames)| {
            let mut bytes = which.get(frames).clone();
            for (at, value) in flips {
                *at.get_mut(&mut bytes) = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            let at = chain.map_or(bytes.len(), |at| at.index(bytes.len() + 1));
            let mut packet = buffers.packet(&bytes[..at]);
            if at < bytes.len() {
                packet.append(buffers.packet(&bytes[at..]));
            }
            let before = receiver.drops().total();
            let received = decapsulate(receiver, &mut packet);
            let whole: Vec<u8> = packet.segments().flat_map(|segment| segment.iter().copied()).collect();
            match received {
                Received::Network(_) => prop_assert!(whole.len() < bytes.len()),
                Received::Other | Received::Drop(_) => prop_assert_eq!(&whole, &bytes),
            }
            let is_counted = matches!(received, Received::Drop(_));
            prop_assert_eq!(receiver.drops().total() - before, u64::from(is_counted));
            Ok(())
        })?;
    }
}

/// Changes the bytes of a packet, at places that were counted by hand: they do not follow from
/// `wire`, which is tested as well.
type Change<'a> = &'a dyn Fn(&mut Vec<u8>);

/// What becomes of a packet of each protocol, by its name, once it is changed.
fn outcomes() -> impl FnMut(&str, Change<'_>) -> Received {
    let (mut receiver, mut buffers) = (receiver(), Buffers::new());
    let names = PROTOCOLS.iter().flat_map(|protocol| {
        [false, true]
            .into_iter()
            .filter(|v6| tunnel(protocol.name, *v6).check().is_ok())
            .map(|v6| format!("{}{}", protocol.name, if v6 { "6" } else { "" }))
    });
    let whole: Vec<(String, Vec<u8>)> = names.zip(frames()).collect();
    move |name, change| {
        let mut bytes = whole.iter().find(|(other, _)| other == name).unwrap().1.clone();
        change(&mut bytes);
        // The IPv4 header's checksum is right again unless it is the fault.
        if bytes[12] == 8 && bytes[24] != 0xEE {
            wire::ipv4::fill_checksum(&mut bytes[14..34]);
        }
        let mut packet = buffers.packet(&bytes);
        decapsulate(&mut receiver, &mut packet)
    }
}

#[test]
fn refusals_of_outer_headers_have_names() {
    let (mut outcome, drop) = (outcomes(), Received::Drop);
    assert_eq!(outcome("vxlan", &|_| {}), Received::Network(1));
    assert_eq!(outcome("vxlan", &|bytes| bytes[24] = 0xEE), drop(Reason::OverlayOuterChecksum));
    assert_eq!(outcome("vxlan", &|bytes| bytes[20] = 0x20), drop(Reason::OverlayOuterFragment));
    assert_eq!(
        outcome("vxlan", &|bytes| bytes[16] = 9),
        drop(Reason::OverlayOuterMalformed),
        "the total length"
    );
    assert_eq!(
        outcome("vxlan", &|bytes| bytes[39] ^= 1),
        drop(Reason::OverlayOuterMalformed),
        "UDP's length"
    );
    assert_eq!(outcome("vxlan", &|bytes| bytes[42] = 0), drop(Reason::OverlayTunnelMalformed), "no VNI");
    assert_eq!(outcome("vxlan", &|bytes| bytes[46] = 9), drop(Reason::OverlayUnknownEnd), "another VNI");
    assert_eq!(outcome("vxlan", &|bytes| bytes[33] = 9), Received::Other, "another host's");
    assert_eq!(outcome("vxlan", &|bytes| bytes[37] ^= 1), Received::Other, "another port's");
    assert_eq!(outcome("vxlan", &|bytes| bytes[12..14].copy_from_slice(&[8, 6])), Received::Other);
    assert_eq!(outcome("vxlan6", &|bytes| bytes[60..62].fill(0)), drop(Reason::OverlayZeroChecksum));
    assert_eq!(outcome("vxlan6", &|bytes| bytes[20] = 44), Received::Other, "fragments are the host's");
    assert_eq!(outcome("vxlan", &|bytes| bytes[21] = 1), Received::Other, "a later one has no port");
}

#[test]
fn refusals_of_tunnel_headers_and_of_what_is_inside_have_names() {
    let (mut outcome, drop) = (outcomes(), Received::Drop);
    assert_eq!(outcome("geneve", &|bytes| bytes[44] = 9), drop(Reason::OverlayWrongPayload));
    assert_eq!(outcome("geneve", &|bytes| bytes[43] = 0x80), Received::Other, "for control");
    assert_eq!(
        outcome("geneve", &|bytes| bytes[42] = 0x3F),
        drop(Reason::OverlayTunnelMalformed),
        "options without an end"
    );
    assert_eq!(outcome("gtpu", &|bytes| bytes[43] = 1), Received::Other, "an echo request");
    assert_eq!(outcome("gtpu", &|bytes| bytes[50] = 0x55), drop(Reason::OverlayWrongPayload));
    assert_eq!(
        outcome("mpls-udp", &|bytes| bytes[44] &= 0xFE),
        drop(Reason::OverlayWrongPayload),
        "another label"
    );
    assert_eq!(outcome("lisp", &|bytes| bytes[42] |= 1), drop(Reason::OverlayTunnelMalformed), "encrypted");
    assert_eq!(outcome("gre", &|bytes| bytes[35] = 1), drop(Reason::OverlayTunnelMalformed), "version 1");
    assert_eq!(outcome("ipip", &|bytes| bytes[29] = 9), drop(Reason::OverlayUnknownEnd), "from another host");
    assert_eq!(
        outcome("ipip", &|bytes| bytes[23] = 41),
        drop(Reason::OverlayWrongPayload),
        "IPv4 said to be IPv6"
    );
    assert_eq!(
        outcome("ipip", &|bytes| bytes[34] = 0x65),
        drop(Reason::OverlayWrongPayload),
        "and the other way"
    );
    let cut = |len: usize| move |bytes: &mut Vec<u8>| bytes[17] = len as u8;
    assert_eq!(
        outcome("gretap", &cut(20 + 8 + 13)),
        drop(Reason::OverlayWrongPayload),
        "no whole Ethernet header"
    );
    // The packet inside says that its sender takes no part, and congestion was met.
    assert_eq!(outcome("ipip", &|bytes| (bytes[15], bytes[35]) = (3, 0)), drop(Reason::OverlayCongestion));
}

/// What the host gets from others by the same address is not the overlay's, however broken.
#[test]
fn what_no_tunnel_has_is_left_alone() {
    let mut there = table();
    there.add_network(1, Network::point_to_point(Layer::Ethernet)).unwrap();
    there.add_end(1, &reversed(&tunnel("vxlan", false)), false).unwrap();
    let mut receiver = there.decapsulator();
    there.publish();
    let mut buffers = Buffers::new();
    let names = ["ipip", "gre", "gretap", "geneve", "vxlan"];
    for (name, bytes) in names.iter().zip([0, 2, 6, 14, 10].map(|n| frames()[n].clone())) {
        let expected = if *name == "vxlan" { Received::Network(1) } else { Received::Other };
        assert_eq!(decapsulate(&mut receiver, &mut buffers.packet(&bytes)), expected, "{name}");
        let mut broken = bytes.clone();
        broken[24] ^= 1; // the header's checksum
        let expected = match expected {
            Received::Other => Received::Other,
            _ => Received::Drop(Reason::OverlayOuterChecksum),
        };
        assert_eq!(decapsulate(&mut receiver, &mut buffers.packet(&broken)), expected, "{name}");
    }
    // A datagram with options behind it (RFC 9868), to another port.
    let mut datagram = frames()[10].clone();
    (datagram[37], datagram[39]) = (53, 9);
    assert_eq!(decapsulate(&mut receiver, &mut buffers.packet(&datagram)), Received::Other);
}

/// What is behind the outer packet's end does not come out, in one buffer or in several.
#[test]
fn what_is_behind_the_packet_does_not_come_out() {
    let mut receiver = receiver();
    let mut buffers = Buffers::new();
    let whole = frames()[0].clone(); // IPIP
    let inner = v4(1, b"inside");
    for at in [34 + 20, whole.len() - 1, whole.len(), whole.len() + 7] {
        let bytes = [&whole[..], &[0xEE; 30]].concat();
        let mut packet = buffers.packet(&bytes[..at]);
        packet.append(buffers.packet(&bytes[at..at + 3]));
        packet.append(buffers.packet(&bytes[at + 3..]));
        assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Network(2), "cut at {at}");
        let came: Vec<u8> = packet.segments().flat_map(|segment| segment.iter().copied()).collect();
        assert_eq!(came, inner, "cut at {at}");
    }
    // The packet's header inside is not whole in the first buffer.
    let mut packet = buffers.packet(&whole[..34 + 19]);
    packet.append(buffers.packet(&whole[34 + 19..]));
    assert_eq!(decapsulate(&mut receiver, &mut packet), Received::Drop(Reason::OverlayWrongPayload));
}

#[test]
fn what_is_no_packet_of_its_network_is_not_sent() {
    let mut here = table();
    here.add_network(NETWORK, Network::point_to_point(Layer::Ip)).unwrap();
    here.insert(NETWORK, 0, tunnel("ipip", false)).unwrap();
    here.add_network(7, Network::bridged()).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut buffers = Buffers::new();
    for bytes in [&[][..], &[0x45; 19], &[0x60; 39], &[0x50; 60]] {
        let mut packet = buffers.packet(bytes);
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Drop(Reason::OverlayNoIp));
        assert_eq!(packet[..], *bytes);
    }
    let mut sent = [Sent::Punt; 2];
    let mut packets = [buffers.packet(&[2; 5]), buffers.packet(&[2; 6])];
    sender.encapsulate(7, &mut packets, &mut sent);
    assert_eq!(sent, [Sent::Drop(Reason::OverlayNoKey), Sent::Drop(Reason::OverlayUnknownKey)]);
    let mut packet = buffers.packet(&v4(0, b"x"));
    packet.push_front(150).unwrap();
    packet.pull_front(150).unwrap();
    let mut narrow = buffers.packet(&[]);
    narrow.copy_at(10, &v4(0, b"x")).unwrap();
    assert_eq!(encapsulate(&mut sender, &mut narrow), Sent::Drop(Reason::OverlayNoHeadroom));
    assert_eq!(narrow[..], v4(0, b"x"));
    let reasons: Vec<&str> = sender.drops().iter().map(|(reason, _)| reason.name()).collect();
    assert_eq!(reasons, ["overlay_no_key", "overlay_unknown_key", "overlay_no_ip", "overlay_no_headroom"]);
}
