//! Offloads and packets of several segments.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "context-missing",
        about: "Data descriptors ask for offloads, but no context descriptor ever comes.",
        linter: Reports("ContextMissing", "7.2.3.2.3"),
        test: "driver_offload::each_checksum_can_be_asked_for_alone",
        demo: false,
        edits: &[edit(
            "intel/tx/special.rs",
            "L::context(offload, total, packet)",
            "L::context(offload, total, packet).filter(|_| false)",
        )],
    },
    Bug {
        name: "context-stale",
        about: "Only the first context is ever sent, whatever headers come later.",
        linter: Reports("ContextNotOfPacket", "7.2.3.2.3"),
        test: "driver_offload::checksums_are_inserted_whatever_was_asked_for_before",
        demo: false,
        edits: &[edit(
            "intel/tx/special.rs",
            "self.special.context != Some(words)",
            "self.special.context.is_none() || words == [0; 2]",
        )],
    },
    Bug {
        name: "vlan-without-context",
        about: "A packet that wants only a VLAN tag gets VLE, but no context that has the tag.",
        linter: Reports("ContextMissing", "7.2.3.2.3"),
        test: "driver_offload::tags_are_inserted_alone_and_with_checksums",
        demo: false,
        edits: &[edit("intel/layout.rs", "offload.is_empty()", "offload.flags & !TxOffload::VLAN == 0")],
    },
    Bug {
        name: "maclen-missing",
        about: "The context does not say how long the Ethernet header is (MACLEN).",
        linter: Reports("ContextLengthsInvalid", "7.2.3.2.3"),
        test: "driver_offload::each_checksum_can_be_asked_for_alone",
        demo: false,
        edits: &[edit(
            "intel/layout.rs",
            "u64::from(offload.l2_len) << tx_context_low::MACLEN_SHIFT",
            "u64::from(offload.l2_len & 0) << tx_context_low::MACLEN_SHIFT",
        )],
    },
    Bug {
        name: "l4len-missing",
        about: "The context of a segmented packet does not say how long the TCP header is (L4LEN).",
        linter: Reports("ContextLengthsInvalid", "7.2.3.2.3"),
        test: "driver_offload::large_packets_are_cut_into_right_segments",
        demo: false,
        edits: &[edit(
            "intel/layout.rs",
            "high |= u64::from(offload.l4_len) << tx_context_high::L4LEN_SHIFT;",
            "",
        )],
    },
    Bug {
        name: "mss-zero",
        about: "The context of a segmented packet has no segment size (MSS).",
        linter: Reports("TsoBadMss", "7.2.4"),
        test: "driver_offload::large_packets_are_cut_into_right_segments",
        demo: false,
        edits: &[edit(
            "intel/layout.rs",
            "high |= u64::from(offload.segment_size) << tx_context_high::MSS_SHIFT;",
            "",
        )],
    },
    Bug {
        name: "paylen-with-headers",
        about: "PAYLEN of a segmented packet counts the headers too.",
        linter: Reports("PaylenWrong", "7.2.3.2.4"),
        test: "driver_offload::large_packets_are_cut_into_right_segments",
        demo: false,
        edits: &[edit(
            "intel/layout.rs",
            "payload -= offload.header_len();",
            "let _ = (&mut payload, offload.header_len());",
        )],
    },
    Bug {
        name: "end-in-every-segment",
        about: "Each segment of a packet has EOP, so that the device sends as many frames.",
        linter: Reports("PaylenWrong", "7.2.3.2.4"),
        test: "driver_scatter::a_chain_of_odd_segments_is_sent_as_one_frame",
        demo: false,
        edits: &[edit("intel/tx/special.rs", "if rest.is_none() { L::EOP } else { 0 }", "L::EOP")],
    },
    Bug {
        name: "frames-too-long",
        about: "Frames longer than MAXFRS allows are sent.",
        linter: Reports("TxTooLong", "7.2.1"),
        test: "driver_scatter::chains_with_too_many_or_empty_segments_are_dropped_and_counted",
        demo: false,
        edits: &[edit("intel/offload.rs", "total <= limit", "total <= limit.max(1 << 17)")],
    },
    Bug {
        name: "empty-segments",
        about: "A segment without bytes becomes a descriptor of length zero.",
        linter: Reports("ZeroLengthDescriptor", "7.2.3.2"),
        test: "driver_scatter::chains_with_too_many_or_empty_segments_are_dropped_and_counted",
        demo: false,
        edits: &[edit(
            "intel/offload.rs",
            "packet.segments().all(|s| !s.is_empty())",
            "packet.segments().all(|_| true)",
        )],
    },
    Bug {
        name: "too-many-segments",
        about: "A packet takes more than 40 descriptors.",
        linter: Reports("ChainWithoutEop", "7.2.1"),
        test: "driver_scatter::chains_with_too_many_or_empty_segments_are_dropped_and_counted",
        demo: false,
        edits: &[edit("intel/offload.rs", "segments <= L::MAX_SEGMENTS", "segments <= 2 * L::MAX_SEGMENTS")],
    },
    Bug {
        name: "ipv6-as-ipv4",
        about: "The context says IPv4 of every packet.",
        linter: Reports("ContextNotOfPacket", "7.2.3.2.3"),
        test: "driver_offload::large_packets_are_cut_into_right_segments",
        demo: false,
        edits: &[edit(
            "intel/layout.rs",
            "if !has(TxOffload::IPV6) {
            high |= tx_context_high::IPV4;
        }",
            "high |= tx_context_high::IPV4;",
        )],
    },
    Bug {
        name: "udp-as-tcp",
        about: "The context says TCP of every packet.",
        linter: Reports("ContextNotOfPacket", "7.2.3.2.3"),
        test: "driver_offload::checksums_are_inserted_whatever_was_asked_for_before",
        demo: false,
        edits: &[edit(
            "intel/layout.rs",
            "if offload.is_tcp() {
            high |= tx_context_high::L4T_TCP; // UDP is 0
        }",
            "high |= tx_context_high::L4T_TCP;",
        )],
    },
    Bug {
        name: "datagrams-as-segments",
        about: "The context says TCP of every packet that is to be cut.",
        linter: Reports("ContextLengthsInvalid", "7.2.3.2.3"),
        test: "udp_segments::the_82599_cuts_into_datagrams",
        demo: false,
        edits: &[edit("intel/layout.rs", "offload.is_tcp()", "offload.is_tcp() || has(TxOffload::SEGMENT)")],
    },
    Bug {
        name: "iplen-in-words",
        about: "The context gives the IP header's length in words of four bytes (IPLEN).",
        linter: Reports("ContextLengthsInvalid", "7.2.3.2.3"),
        test: "driver_offload::checksums_are_inserted_whatever_was_asked_for_before",
        demo: false,
        edits: &[edit(
            "intel/layout.rs",
            "u64::from(offload.l3_len)
",
            "u64::from(offload.l3_len / 4)
",
        )],
    },
    Bug {
        name: "context-of-another-type",
        about: "The context descriptor has a type that is reserved.",
        linter: Reports("UnsupportedDescriptorType", "7.2.3.2"),
        test: "driver_offload::checksums_are_inserted_whatever_was_asked_for_before",
        demo: false,
        edits: &[edit(
            "intel/layout.rs",
            "let mut high = TX_CONTEXT;",
            "let mut high = TX_CONTEXT | 1 << 22;",
        )],
    },
    Bug {
        name: "bits-in-the-last-segment",
        about: "PAYLEN and the offload bits stand in the packet's last descriptor, not in its first.",
        linter: Reports("PaylenWrong", "7.2.3.2.4"),
        test: "driver_scatter::a_chain_of_odd_segments_is_sent_as_one_frame",
        demo: false,
        edits: &[edit(
            "intel/tx/special.rs",
            "self.put([segment.iova(), bits | end | L::buffer(len)], Some(segment));",
            "self.put([segment.iova(), if end == 0 { L::command(memory::TxOffload::default(), 0, &[]) | len } else { bits | end | len }], Some(segment));",
        )],
    },
    Bug {
        name: "headers-beyond-the-packet",
        about: "Offloads are asked for though the headers are longer than the packet's first segment.",
        linter: Reports("ContextLengthsInvalid", "7.2.3.2.3"),
        test: "driver_offload::what_cannot_be_sent_is_counted_and_stops_nobody",
        demo: false,
        edits: &[edit("intel/offload.rs", "offload.is_empty() || offload.fits(packet.len())", "true")],
    },
];
