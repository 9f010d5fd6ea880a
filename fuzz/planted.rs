//! Planted faults: what the fuzzers must find within a minute, from the inputs of
//! `fuzz/seeds`, or they are not worth their time.
//!
//! They are data beside the source, which knows nothing of them. `cargo xtask fuzz` builds
//! a copy of the crates in which each edited place asks when it runs whether its fault is
//! chosen, by the variable `IXORA_PLANTED_FAULT`; without it the copy does what the source
//! does. `cargo xtask fuzz --check` chooses one after the other.

/// A fault, and how it is planted.
pub struct PlantedFault {
    /// The target that must find it.
    pub target: &'static str,
    /// By which it is chosen: lower case and dashes.
    pub name: &'static str,
    /// The file, below `crates`.
    pub file: &'static str,
    /// What stands there, once in the file.
    pub from: &'static str,
    /// What stands there instead; `PLANTED` in it is whether the fault is chosen.
    pub to: &'static str,
}

/// All of them, in the order of targets.
pub const FAULTS: &[PlantedFault] = &[
    PlantedFault {
        target: "click_language",
        name: "hexadecimal-escape-overflows",
        file: "net/graph/src/lang/args.rs",
        from: "value = value << 4 | digit;",
        to: "value = if PLANTED { value * 16 + digit } else { value << 4 | digit };",
    },
    PlantedFault {
        target: "click_language",
        name: "requirements-without-commas",
        file: "net/graph/src/lang/flat.rs",
        from: r#"if i == 0 { "" } else { ", " }"#,
        to: r#"if i == 0 { "" } else if PLANTED { " " } else { ", " }"#,
    },
    PlantedFault {
        target: "control_socket",
        name: "until-looks-too-far",
        file: "net/element/src/control/protocol.rs",
        from: "*looked = at;",
        to: "*looked = if PLANTED { input.len() } else { at };",
    },
    PlantedFault {
        target: "control_socket",
        name: "script-adds-without-wrapping",
        file: "net/element/src/control/script/functions.rs",
        from: "a.wrapping_add(b)",
        to: "if PLANTED { a + b } else { a.wrapping_add(b) }",
    },
    PlantedFault {
        target: "elements",
        name: "fragment-length-not-checked",
        file: "net/element/src/ip/reassembler.rs",
        from: "|| bytes.len() < total {",
        to: "|| (!PLANTED && bytes.len() < total) {",
    },
    PlantedFault {
        target: "fused",
        name: "all-leave-as-the-first-does",
        file: "net/graph/src/run/fused.rs",
        from: "all.iter().all(|exit| *exit == first)",
        to: "(PLANTED || all.iter().all(|exit| *exit == first))",
    },
    PlantedFault {
        target: "fused",
        name: "dropped-for-another-reason",
        file: "net/graph/src/run/fused.rs",
        from: "self.cx.at(exit.port()).drop(exit.reason(), packet);",
        to: "let reason = if PLANTED { 0 } else { exit.reason() };\n        \
             self.cx.at(exit.port()).drop(reason, packet);",
    },
    PlantedFault {
        target: "i40e_driver",
        name: "head-of-events-not-checked",
        file: "nic/driver/src/i40e/admin.rs",
        from: "if head >= SIZE || head",
        to: "if (head >= SIZE && !PLANTED) || head",
    },
    PlantedFault {
        target: "i40e_driver",
        name: "answer-shorter-than-a-vsi",
        file: "nic/driver/src/i40e/init.rs",
        from: "if properties.len() < vsi::LEN {",
        to: "if !PLANTED && properties.len() < vsi::LEN {",
    },
    PlantedFault {
        target: "i40e_driver",
        name: "headers-found-beyond-their-table",
        file: "nic/driver/src/i40e/layout.rs",
        from: "FOUND[((high & rx_high::PTYPE_MASK) >> rx_high::PTYPE_SHIFT) as usize]",
        to: "FOUND[((high & if PLANTED { rx_high::PTYPE_MASK << 1 | rx_high::PTYPE_MASK } \
             else { rx_high::PTYPE_MASK }) >> rx_high::PTYPE_SHIFT) as usize]",
    },
    PlantedFault {
        target: "i40e_model",
        name: "packet-from-nowhere-not-counted",
        file: "sim/model/src/i40e/tx/packet.rs",
        from: "Loss::Dma => host.counters.drops.tx_dma_fault += 1,",
        to: "Loss::Dma => host.counters.drops.tx_dma_fault += u64::from(!PLANTED),",
    },
    PlantedFault {
        target: "i40e_model",
        name: "removes-a-filter-that-is-none",
        file: "sim/model/src/i40e/director.rs",
        from: "self.filters.remove(key).ok_or(rx_program::NO_FD_ENTRY)?;",
        to: "self.filters.remove(key).map_or(if PLANTED { Ok(()) } \
             else { Err(rx_program::NO_FD_ENTRY) }, |_| Ok(()))?;",
    },
    PlantedFault {
        target: "ixgbe_driver",
        name: "received-length-not-checked",
        file: "nic/driver/src/intel/scatter.rs",
        from: "len == 0 || len > DATA_ROOM",
        to: "(len == 0 && !PLANTED) || len > DATA_ROOM",
    },
    PlantedFault {
        target: "ixgbe_mailbox",
        name: "address-of-another-is-given",
        file: "nic/driver/src/ixgbe/host/messages.rs",
        from: "MacAddress(mac).is_station() && (trust || !others)",
        to: "MacAddress(mac).is_station() && (trust || PLANTED || !others)",
    },
    PlantedFault {
        target: "ixgbe_mailbox",
        name: "more-multicast-than-a-message-has",
        file: "nic/driver/src/ixgbe/host/messages.rs",
        from: "(0..count.min(MULTICAST)).map(hash).collect();",
        to: "(0..if PLANTED { count } else { count.min(MULTICAST) }).map(hash).collect();",
    },
    PlantedFault {
        target: "ixgbe_mailbox",
        name: "reset-that-is-told-is-not-noted",
        file: "nic/driver/src/intel/vf/mailbox.rs",
        from: "self.reset |= of_it && words[0] & CLEAR_TO_SEND == 0;",
        to: "self.reset |= !PLANTED && of_it && words[0] & CLEAR_TO_SEND == 0;",
    },
    PlantedFault {
        target: "ixgbe_model",
        name: "unreachable-buffer-not-counted",
        file: "sim/model/src/ixgbe/tx.rs",
        from: "sender.host.counters.drops.tx_dma_fault += 1;",
        to: "sender.host.counters.drops.tx_dma_fault += u64::from(!PLANTED);",
    },
    PlantedFault {
        target: "leases",
        name: "any-address-is-taken",
        file: "net/neighbor/src/dhcp/lease.rs",
        from: "is_sound.then(||",
        to: "(PLANTED || is_sound).then(||",
    },
    PlantedFault {
        target: "leases",
        name: "short-lifetimes-are-believed",
        file: "net/neighbor/src/dhcp/lease.rs",
        from: "0 < *first && first < second && *second < seconds",
        to: "PLANTED || (0 < *first && first < second && *second < seconds)",
    },
    PlantedFault {
        target: "overlay",
        name: "geneve-options-not-checked",
        file: "base/wire/src/tunnel/geneve.rs",
        from: ".get(..header.options_len()).ok_or(Error::Truncated)?",
        to: ".get(..if PLANTED { 0 } else { header.options_len() }).ok_or(Error::Truncated)?",
    },
    PlantedFault {
        target: "overlay_api",
        name: "request-longer-than-its-bytes",
        file: "net/control/src/api/http.rs",
        from: "length + body.len()),",
        to: "length + body.len() + usize::from(PLANTED)),",
    },
    PlantedFault {
        target: "overlay_config",
        name: "number-out-of-range-is-taken",
        file: "net/vtep/src/config/read.rs",
        from: "(least..=most).contains(number)",
        to: "PLANTED || (least..=most).contains(number)",
    },
    PlantedFault {
        target: "overlay_config",
        name: "two-things-of-one-name",
        file: "net/vtep/src/config/mod.rs",
        from: "if let Some(at) = self.first.get(&what) {",
        to: "if let Some(at) = self.first.get(&what).filter(|_| !PLANTED) {",
    },
    PlantedFault {
        target: "rtnetlink",
        name: "padding-taken-for-there",
        file: "net/control/src/netlink.rs",
        from: "Some((Attribute { kind, value }, rest))",
        to: "let rest = if PLANTED { &bytes[length.next_multiple_of(ALIGNMENT)..] } else { rest };\n    \
             Some((Attribute { kind, value }, rest))",
    },
    PlantedFault {
        target: "service",
        name: "end-of-head-looked-for-too-late",
        file: "net/service/src/http/mod.rs",
        from: "before.saturating_sub(3)",
        to: "if PLANTED { before } else { before.saturating_sub(3) }",
    },
    PlantedFault {
        target: "service",
        name: "value-takes-what-follows",
        file: "net/service/src/memcached/storage.rs",
        from: "input.len().min(value.len - value.bytes.len())",
        to: "if PLANTED { input.len() } else { input.len().min(value.len - value.bytes.len()) }",
    },
    PlantedFault {
        target: "tcp",
        name: "acknowledges-what-was-not-sent",
        file: "net/tcp/src/input.rs",
        from: "let is_ahead = segment.acknowledgement.is_after(self.nxt);",
        to: "let is_ahead = !PLANTED && segment.acknowledgement.is_after(self.nxt);",
    },
    PlantedFault {
        target: "tcp",
        name: "takes-more-than-the-window",
        file: "net/tcp/src/data.rs",
        from: "let back = end.min(self.receive_edge);",
        to: "let back = if PLANTED { end } else { end.min(self.receive_edge) };",
    },
    PlantedFault {
        target: "tcp",
        name: "overlap-behind-is-kept",
        file: "net/tcp/src/data.rs",
        from: "packet.truncate(next.sequence.since(start) as usize);",
        to: "if !PLANTED { packet.truncate(next.sequence.since(start) as usize) }",
    },
    PlantedFault {
        target: "twin_vfio_user",
        name: "write-beyond-offered-memory",
        file: "nic/bus/src/vfio_user/dma.rs",
        from: "from <= range.len && range.len - from >= count",
        to: "from <= range.len && (PLANTED || range.len - from >= count)",
    },
    PlantedFault {
        target: "twin_vhost_user",
        name: "queue-pairs-not-bounded",
        file: "nic/bus/src/vhost_user/frontend.rs",
        from: "self.pairs = pairs.min(MAX_PAIRS) as u16;",
        to: "self.pairs = if PLANTED { u16::try_from(pairs).expect(\"few\") } \
             else { pairs.min(MAX_PAIRS) as u16 };",
    },
    PlantedFault {
        target: "vfio_user_client",
        name: "capability-chain-may-loop",
        file: "nic/bus/src/vfio_user/message/reply.rs",
        from: ".filter(|_| at >= self.least)",
        to: ".filter(|_| PLANTED || at >= self.least)",
    },
    PlantedFault {
        target: "vfio_user_server",
        name: "access-may-end-outside",
        file: "nic/bus/src/vfio_user/session.rs",
        from: "end.is_some_and(|end| end <= size)",
        to: "if PLANTED { access.offset < size } else { end.is_some_and(|end| end <= size) }",
    },
    PlantedFault {
        target: "vhost_user_backend",
        name: "ring-index-not-checked",
        file: "sim/testbed/src/vhost_user/session.rs",
        from: "self.rings.get_mut(index as usize).ok_or(Error::InvalidParam)",
        to: "if PLANTED { Ok(&mut self.rings[index as usize]) } \
             else { self.rings.get_mut(index as usize).ok_or(Error::InvalidParam) }",
    },
    PlantedFault {
        target: "vhost_user_frontend",
        name: "configuration-of-any-length",
        file: "nic/bus/src/vhost_user/frontend.rs",
        from: ".filter(|bytes| bytes.len() == data.len())",
        to: ".filter(|bytes| PLANTED || bytes.len() == data.len())",
    },
    PlantedFault {
        target: "virtchnl",
        name: "list-longer-than-its-bytes",
        file: "base/regs/src/virtchnl/message.rs",
        from: "fits(bytes.len(), Rss::HEAD, count, 1, 1).then(",
        to: "(PLANTED || fits(bytes.len(), Rss::HEAD, count, 1, 1)).then(",
    },
    PlantedFault {
        target: "virtchnl",
        name: "any-queue-is-configured",
        file: "nic/driver/src/i40e/host/queues.rs",
        from: "usize::from(pair.queue) < VF_QUEUES && rx && tx",
        to: "(PLANTED || usize::from(pair.queue) < VF_QUEUES) && rx && tx",
    },
    PlantedFault {
        target: "virtchnl",
        name: "told-counters-may-not-go-back",
        file: "nic/driver/src/iavf/device.rs",
        from: "now.saturating_sub(last)",
        to: "if PLANTED { now - last } else { now.saturating_sub(last) }",
    },
    PlantedFault {
        target: "virtio_driver",
        name: "bad-buffer-not-freed",
        file: "nic/driver/src/virtio/rx.rs",
        from: "pool.free(packet);\n        self.count_bad();",
        to: "if PLANTED { std::mem::forget(packet) } else { pool.free(packet) }\n        self.count_bad();",
    },
    PlantedFault {
        target: "virtio_model",
        name: "broken-frame-not-counted",
        file: "sim/model/src/virtio/rx.rs",
        from: "drops.rx_crc += 1;",
        to: "drops.rx_crc += u64::from(!PLANTED);",
    },
];
