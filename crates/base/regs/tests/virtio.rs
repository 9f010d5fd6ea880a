//! The virtio table against others': `virtio-bindings`, generated from Linux's
//! headers, and for PCI, which that crate leaves out, the numbers that Linux's
//! `linux/virtio_pci.h` states.
#![allow(clippy::unwrap_used)]

use std::mem::{offset_of, size_of};

use regs::virtio::{control, device, feature, net, packed, pci, split};
use virtio_bindings::{virtio_config as c, virtio_ids, virtio_net as n, virtio_ring as r};

#[test]
fn features_are_the_headers_bits() {
    let transport = [
        (feature::NOTIFY_ON_EMPTY, c::VIRTIO_F_NOTIFY_ON_EMPTY),
        (feature::ANY_LAYOUT, c::VIRTIO_F_ANY_LAYOUT),
        (feature::INDIRECT_DESC, r::VIRTIO_RING_F_INDIRECT_DESC),
        (feature::EVENT_IDX, r::VIRTIO_RING_F_EVENT_IDX),
        (feature::VERSION_1, c::VIRTIO_F_VERSION_1),
        (feature::ACCESS_PLATFORM, c::VIRTIO_F_ACCESS_PLATFORM),
        (feature::RING_PACKED, c::VIRTIO_F_RING_PACKED),
        (feature::IN_ORDER, c::VIRTIO_F_IN_ORDER),
        (feature::ORDER_PLATFORM, c::VIRTIO_F_ORDER_PLATFORM),
        (feature::SR_IOV, c::VIRTIO_F_SR_IOV),
        (feature::NOTIFICATION_DATA, c::VIRTIO_F_NOTIFICATION_DATA),
        (feature::NOTIF_CONFIG_DATA, c::VIRTIO_F_NOTIF_CONFIG_DATA),
        (feature::RING_RESET, c::VIRTIO_F_RING_RESET),
        (feature::ADMIN_VQ, c::VIRTIO_F_ADMIN_VQ),
        (1 << feature::TRANSPORT_END, c::VIRTIO_TRANSPORT_F_END),
    ];
    let device = [
        (feature::net::CSUM, n::VIRTIO_NET_F_CSUM),
        (feature::net::GUEST_CSUM, n::VIRTIO_NET_F_GUEST_CSUM),
        (feature::net::CTRL_GUEST_OFFLOADS, n::VIRTIO_NET_F_CTRL_GUEST_OFFLOADS),
        (feature::net::MTU, n::VIRTIO_NET_F_MTU),
        (feature::net::MAC, n::VIRTIO_NET_F_MAC),
        (feature::net::GSO, n::VIRTIO_NET_F_GSO),
        (feature::net::GUEST_TSO4, n::VIRTIO_NET_F_GUEST_TSO4),
        (feature::net::GUEST_TSO6, n::VIRTIO_NET_F_GUEST_TSO6),
        (feature::net::GUEST_ECN, n::VIRTIO_NET_F_GUEST_ECN),
        (feature::net::GUEST_UFO, n::VIRTIO_NET_F_GUEST_UFO),
        (feature::net::HOST_TSO4, n::VIRTIO_NET_F_HOST_TSO4),
        (feature::net::HOST_TSO6, n::VIRTIO_NET_F_HOST_TSO6),
        (feature::net::HOST_ECN, n::VIRTIO_NET_F_HOST_ECN),
        (feature::net::HOST_UFO, n::VIRTIO_NET_F_HOST_UFO),
        (feature::net::MRG_RXBUF, n::VIRTIO_NET_F_MRG_RXBUF),
        (feature::net::STATUS, n::VIRTIO_NET_F_STATUS),
        (feature::net::CTRL_VQ, n::VIRTIO_NET_F_CTRL_VQ),
        (feature::net::CTRL_RX, n::VIRTIO_NET_F_CTRL_RX),
        (feature::net::CTRL_VLAN, n::VIRTIO_NET_F_CTRL_VLAN),
        (feature::net::CTRL_RX_EXTRA, n::VIRTIO_NET_F_CTRL_RX_EXTRA),
        (feature::net::GUEST_ANNOUNCE, n::VIRTIO_NET_F_GUEST_ANNOUNCE),
        (feature::net::MQ, n::VIRTIO_NET_F_MQ),
        (feature::net::CTRL_MAC_ADDR, n::VIRTIO_NET_F_CTRL_MAC_ADDR),
        (feature::net::DEVICE_STATS, n::VIRTIO_NET_F_DEVICE_STATS),
        (feature::net::VQ_NOTF_COAL, n::VIRTIO_NET_F_VQ_NOTF_COAL),
        (feature::net::NOTF_COAL, n::VIRTIO_NET_F_NOTF_COAL),
        (feature::net::GUEST_USO4, n::VIRTIO_NET_F_GUEST_USO4),
        (feature::net::GUEST_USO6, n::VIRTIO_NET_F_GUEST_USO6),
        (feature::net::HOST_USO, n::VIRTIO_NET_F_HOST_USO),
        (feature::net::HASH_REPORT, n::VIRTIO_NET_F_HASH_REPORT),
        (feature::net::GUEST_HDRLEN, n::VIRTIO_NET_F_GUEST_HDRLEN),
        (feature::net::RSS, n::VIRTIO_NET_F_RSS),
        (feature::net::RSC_EXT, n::VIRTIO_NET_F_RSC_EXT),
        (feature::net::STANDBY, n::VIRTIO_NET_F_STANDBY),
        (feature::net::SPEED_DUPLEX, n::VIRTIO_NET_F_SPEED_DUPLEX),
    ];
    for (mask, bit) in transport.into_iter().chain(device) {
        assert_eq!(mask, 1 << bit, "bit {bit}");
    }
}

#[test]
fn status_and_ids_are_the_headers() {
    let pairs = [
        (device::status::ACKNOWLEDGE, c::VIRTIO_CONFIG_S_ACKNOWLEDGE),
        (device::status::DRIVER, c::VIRTIO_CONFIG_S_DRIVER),
        (device::status::DRIVER_OK, c::VIRTIO_CONFIG_S_DRIVER_OK),
        (device::status::FEATURES_OK, c::VIRTIO_CONFIG_S_FEATURES_OK),
        (device::status::NEEDS_RESET, c::VIRTIO_CONFIG_S_NEEDS_RESET),
        (device::status::FAILED, c::VIRTIO_CONFIG_S_FAILED),
    ];
    for (ours, theirs) in pairs {
        assert_eq!(u32::from(ours), theirs);
    }
    assert_eq!(u32::from(device::TYPE_NET), virtio_ids::VIRTIO_ID_NET);
    // Not in the header: 4.1.2.1 of the specification.
    assert_eq!(device::NET_MODERN, device::MODERN_BASE + device::TYPE_NET);
    assert!(device::is_net(0x1000) && device::is_net(0x1041) && !device::is_net(0x1042));
}

#[test]
fn split_rings_lie_as_the_headers_structures_do() {
    use split::{available, descriptor, used};
    let sizes = [
        (descriptor::ADDR, offset_of!(r::vring_desc, addr)),
        (descriptor::LEN, offset_of!(r::vring_desc, len)),
        (descriptor::FLAGS, offset_of!(r::vring_desc, flags)),
        (descriptor::NEXT_INDEX, offset_of!(r::vring_desc, next)),
        (descriptor::BYTES, size_of::<r::vring_desc>()),
        (descriptor::ALIGN, r::VRING_DESC_ALIGN_SIZE as usize),
        (available::FLAGS, offset_of!(r::vring_avail, flags)),
        (available::INDEX, offset_of!(r::vring_avail, idx)),
        (available::RING, offset_of!(r::vring_avail, ring)),
        (available::ALIGN, r::VRING_AVAIL_ALIGN_SIZE as usize),
        (used::FLAGS, offset_of!(r::vring_used, flags)),
        (used::INDEX, offset_of!(r::vring_used, idx)),
        (used::RING, offset_of!(r::vring_used, ring)),
        (used::ENTRY_ID, offset_of!(r::vring_used_elem, id)),
        (used::ENTRY_LEN, offset_of!(r::vring_used_elem, len)),
        (used::ENTRY, size_of::<r::vring_used_elem>()),
        (used::ALIGN, r::VRING_USED_ALIGN_SIZE as usize),
    ];
    for (ours, theirs) in sizes {
        assert_eq!(ours, theirs);
    }
    let flags = [
        (descriptor::NEXT, r::VRING_DESC_F_NEXT),
        (descriptor::WRITE, r::VRING_DESC_F_WRITE),
        (descriptor::INDIRECT, r::VRING_DESC_F_INDIRECT),
        (available::NO_INTERRUPT, r::VRING_AVAIL_F_NO_INTERRUPT),
        (used::NO_NOTIFY, r::VRING_USED_F_NO_NOTIFY),
    ];
    for (ours, theirs) in flags {
        assert_eq!(u32::from(ours), theirs);
    }
    // 2.7.2 with the queue size every legacy QEMU has: three pages.
    assert_eq!((split::legacy_used(256), split::legacy_bytes(256)), (8192, 12288));
}

#[test]
fn packed_rings_lie_as_the_headers_structures_do() {
    use packed::{descriptor, event};
    let sizes = [
        (descriptor::ADDR, offset_of!(r::vring_packed_desc, addr)),
        (descriptor::LEN, offset_of!(r::vring_packed_desc, len)),
        (descriptor::ID, offset_of!(r::vring_packed_desc, id)),
        (descriptor::FLAGS, offset_of!(r::vring_packed_desc, flags)),
        (descriptor::BYTES, size_of::<r::vring_packed_desc>()),
        (event::OFF_WRAP, offset_of!(r::vring_packed_desc_event, off_wrap)),
        (event::FLAGS, offset_of!(r::vring_packed_desc_event, flags)),
        (event::BYTES, size_of::<r::vring_packed_desc_event>()),
    ];
    for (ours, theirs) in sizes {
        assert_eq!(ours, theirs);
    }
    let flags = [
        (descriptor::NEXT, r::VRING_DESC_F_NEXT),
        (descriptor::WRITE, r::VRING_DESC_F_WRITE),
        (descriptor::INDIRECT, r::VRING_DESC_F_INDIRECT),
        (descriptor::AVAIL, 1 << r::VRING_PACKED_DESC_F_AVAIL),
        (descriptor::USED, 1 << r::VRING_PACKED_DESC_F_USED),
        (event::ENABLE, r::VRING_PACKED_EVENT_FLAG_ENABLE),
        (event::DISABLE, r::VRING_PACKED_EVENT_FLAG_DISABLE),
        (event::DESC, r::VRING_PACKED_EVENT_FLAG_DESC),
        (event::WRAP, 1 << r::VRING_PACKED_EVENT_F_WRAP_CTR),
    ];
    for (ours, theirs) in flags {
        assert_eq!(u32::from(ours), theirs);
    }
}

#[test]
fn configuration_and_header_lie_as_the_headers_structures_do() {
    use net::{config, header};
    let config = [
        (config::MAC, offset_of!(n::virtio_net_config, mac)),
        (config::STATUS, offset_of!(n::virtio_net_config, status)),
        (config::MAX_VIRTQUEUE_PAIRS, offset_of!(n::virtio_net_config, max_virtqueue_pairs)),
        (config::MTU, offset_of!(n::virtio_net_config, mtu)),
        (config::SPEED, offset_of!(n::virtio_net_config, speed)),
        (config::DUPLEX, offset_of!(n::virtio_net_config, duplex)),
        (config::RSS_MAX_KEY_SIZE, offset_of!(n::virtio_net_config, rss_max_key_size)),
        (
            config::RSS_MAX_INDIRECTION_TABLE_LENGTH,
            offset_of!(n::virtio_net_config, rss_max_indirection_table_length),
        ),
        (config::SUPPORTED_HASH_TYPES, offset_of!(n::virtio_net_config, supported_hash_types)),
        (config::BYTES, size_of::<n::virtio_net_config>()),
    ];
    for (ours, theirs) in config {
        assert_eq!(ours as usize, theirs);
    }
    let header = [
        (header::FLAGS, offset_of!(n::virtio_net_hdr, flags)),
        (header::GSO_TYPE, offset_of!(n::virtio_net_hdr, gso_type)),
        (header::HDR_LEN, offset_of!(n::virtio_net_hdr, hdr_len)),
        (header::GSO_SIZE, offset_of!(n::virtio_net_hdr, gso_size)),
        (header::CSUM_START, offset_of!(n::virtio_net_hdr, csum_start)),
        (header::CSUM_OFFSET, offset_of!(n::virtio_net_hdr, csum_offset)),
        (header::NUM_BUFFERS, offset_of!(n::virtio_net_hdr_mrg_rxbuf, num_buffers)),
        (header::NUM_BUFFERS, offset_of!(n::virtio_net_hdr_v1, num_buffers)),
        (header::HASH_VALUE, offset_of!(n::virtio_net_hdr_v1_hash, hash_value)),
        (header::HASH_REPORT, offset_of!(n::virtio_net_hdr_v1_hash, hash_report)),
        (header::BYTES_LEGACY, size_of::<n::virtio_net_hdr>()),
        (header::BYTES, size_of::<n::virtio_net_hdr_v1>()),
        (header::BYTES_HASH, size_of::<n::virtio_net_hdr_v1_hash>()),
    ];
    for (ours, theirs) in header {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn header_and_configuration_values_are_the_headers() {
    use net::{config, hash, header};
    let values = [
        (header::NEEDS_CSUM.into(), n::VIRTIO_NET_HDR_F_NEEDS_CSUM),
        (header::DATA_VALID.into(), n::VIRTIO_NET_HDR_F_DATA_VALID),
        (header::RSC_INFO.into(), n::VIRTIO_NET_HDR_F_RSC_INFO),
        (header::GSO_NONE.into(), n::VIRTIO_NET_HDR_GSO_NONE),
        (header::GSO_TCPV4.into(), n::VIRTIO_NET_HDR_GSO_TCPV4),
        (header::GSO_UDP.into(), n::VIRTIO_NET_HDR_GSO_UDP),
        (header::GSO_TCPV6.into(), n::VIRTIO_NET_HDR_GSO_TCPV6),
        (header::GSO_UDP_L4.into(), n::VIRTIO_NET_HDR_GSO_UDP_L4),
        (header::GSO_ECN.into(), n::VIRTIO_NET_HDR_GSO_ECN),
        (config::LINK_UP.into(), n::VIRTIO_NET_S_LINK_UP),
        (config::ANNOUNCE.into(), n::VIRTIO_NET_S_ANNOUNCE),
        (hash::IPV4, n::VIRTIO_NET_RSS_HASH_TYPE_IPv4),
        (hash::TCPV4, n::VIRTIO_NET_RSS_HASH_TYPE_TCPv4),
        (hash::UDPV4, n::VIRTIO_NET_RSS_HASH_TYPE_UDPv4),
        (hash::IPV6, n::VIRTIO_NET_RSS_HASH_TYPE_IPv6),
        (hash::TCPV6, n::VIRTIO_NET_RSS_HASH_TYPE_TCPv6),
        (hash::UDPV6, n::VIRTIO_NET_RSS_HASH_TYPE_UDPv6),
        (hash::IP_EX, n::VIRTIO_NET_RSS_HASH_TYPE_IP_EX),
        (hash::TCP_EX, n::VIRTIO_NET_RSS_HASH_TYPE_TCP_EX),
        (hash::UDP_EX, n::VIRTIO_NET_RSS_HASH_TYPE_UDP_EX),
        (hash::REPORT_NONE.into(), n::VIRTIO_NET_HASH_REPORT_NONE),
        (hash::REPORT_IPV4.into(), n::VIRTIO_NET_HASH_REPORT_IPv4),
        (hash::REPORT_TCPV4.into(), n::VIRTIO_NET_HASH_REPORT_TCPv4),
        (hash::REPORT_UDPV4.into(), n::VIRTIO_NET_HASH_REPORT_UDPv4),
        (hash::REPORT_IPV6.into(), n::VIRTIO_NET_HASH_REPORT_IPv6),
        (hash::REPORT_TCPV6.into(), n::VIRTIO_NET_HASH_REPORT_TCPv6),
        (hash::REPORT_UDPV6.into(), n::VIRTIO_NET_HASH_REPORT_UDPv6),
        (hash::REPORT_IPV6_EX.into(), n::VIRTIO_NET_HASH_REPORT_IPv6_EX),
        (hash::REPORT_TCPV6_EX.into(), n::VIRTIO_NET_HASH_REPORT_TCPv6_EX),
        (hash::REPORT_UDPV6_EX.into(), n::VIRTIO_NET_HASH_REPORT_UDPv6_EX),
    ];
    for (ours, theirs) in values {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn control_commands_are_the_headers() {
    use control::{announce, coalescing, guest_offloads, mac, mq, rx, vlan};
    let values = [
        (control::OK, n::VIRTIO_NET_OK),
        (control::ERR, n::VIRTIO_NET_ERR),
        (rx::CLASS, n::VIRTIO_NET_CTRL_RX),
        (rx::PROMISC, n::VIRTIO_NET_CTRL_RX_PROMISC),
        (rx::ALLMULTI, n::VIRTIO_NET_CTRL_RX_ALLMULTI),
        (rx::ALLUNI, n::VIRTIO_NET_CTRL_RX_ALLUNI),
        (rx::NOMULTI, n::VIRTIO_NET_CTRL_RX_NOMULTI),
        (rx::NOUNI, n::VIRTIO_NET_CTRL_RX_NOUNI),
        (rx::NOBCAST, n::VIRTIO_NET_CTRL_RX_NOBCAST),
        (mac::CLASS, n::VIRTIO_NET_CTRL_MAC),
        (mac::TABLE_SET, n::VIRTIO_NET_CTRL_MAC_TABLE_SET),
        (mac::ADDR_SET, n::VIRTIO_NET_CTRL_MAC_ADDR_SET),
        (vlan::CLASS, n::VIRTIO_NET_CTRL_VLAN),
        (vlan::ADD, n::VIRTIO_NET_CTRL_VLAN_ADD),
        (vlan::DEL, n::VIRTIO_NET_CTRL_VLAN_DEL),
        (announce::CLASS, n::VIRTIO_NET_CTRL_ANNOUNCE),
        (announce::ACK, n::VIRTIO_NET_CTRL_ANNOUNCE_ACK),
        (mq::CLASS, n::VIRTIO_NET_CTRL_MQ),
        (mq::VQ_PAIRS_SET, n::VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET),
        (mq::RSS_CONFIG, n::VIRTIO_NET_CTRL_MQ_RSS_CONFIG),
        (mq::HASH_CONFIG, n::VIRTIO_NET_CTRL_MQ_HASH_CONFIG),
        (guest_offloads::CLASS, n::VIRTIO_NET_CTRL_GUEST_OFFLOADS),
        (guest_offloads::SET, n::VIRTIO_NET_CTRL_GUEST_OFFLOADS_SET),
        (coalescing::CLASS, n::VIRTIO_NET_CTRL_NOTF_COAL),
        (coalescing::TX_SET, n::VIRTIO_NET_CTRL_NOTF_COAL_TX_SET),
        (coalescing::RX_SET, n::VIRTIO_NET_CTRL_NOTF_COAL_RX_SET),
        (coalescing::VQ_SET, n::VIRTIO_NET_CTRL_NOTF_COAL_VQ_SET),
        (coalescing::VQ_GET, n::VIRTIO_NET_CTRL_NOTF_COAL_VQ_GET),
    ];
    for (ours, theirs) in values {
        assert_eq!(u32::from(ours), theirs);
    }
    assert_eq!(u32::from(mq::PAIRS_MIN), n::VIRTIO_NET_CTRL_MQ_VQ_PAIRS_MIN);
    assert_eq!(u32::from(mq::PAIRS_MAX), n::VIRTIO_NET_CTRL_MQ_VQ_PAIRS_MAX);
}

/// Beside ours, what linux/virtio_pci.h says, in its order.
#[test]
fn pci_registers_are_where_linux_has_them() {
    use pci::{common, legacy};
    let legacy = [
        (legacy::DEVICE_FEATURES, 0),
        (legacy::DRIVER_FEATURES, 4),
        (legacy::QUEUE_ADDRESS, 8),
        (legacy::QUEUE_SIZE, 12),
        (legacy::QUEUE_SELECT, 14),
        (legacy::QUEUE_NOTIFY, 16),
        (legacy::DEVICE_STATUS, 18),
        (legacy::ISR_STATUS, 19),
        (legacy::CONFIG_MSIX_VECTOR, 20),
        (legacy::QUEUE_MSIX_VECTOR, 22),
        (legacy::CONFIG, 20),
        (legacy::CONFIG_MSIX, 24),
        (legacy::PAGE as u32, 4096),
    ];
    let common = [
        (common::DEVICE_FEATURE_SELECT, 0),
        (common::DEVICE_FEATURE, 4),
        (common::DRIVER_FEATURE_SELECT, 8),
        (common::DRIVER_FEATURE, 12),
        (common::CONFIG_MSIX_VECTOR, 16),
        (common::NUM_QUEUES, 18),
        (common::DEVICE_STATUS, 20),
        (common::CONFIG_GENERATION, 21),
        (common::QUEUE_SELECT, 22),
        (common::QUEUE_SIZE, 24),
        (common::QUEUE_MSIX_VECTOR, 26),
        (common::QUEUE_ENABLE, 28),
        (common::QUEUE_NOTIFY_OFF, 30),
        (common::QUEUE_DESC, 32),
        (common::QUEUE_DRIVER, 40),
        (common::QUEUE_DEVICE, 48),
        (common::QUEUE_NOTIF_CONFIG_DATA, 56),
        (common::QUEUE_RESET, 58),
        (common::ADMIN_QUEUE_INDEX, 60),
        (common::ADMIN_QUEUE_NUM, 62),
    ];
    for (ours, theirs) in legacy.into_iter().chain(common) {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn pci_capabilities_are_as_linux_has_them() {
    use pci::{capability, isr};
    let capability_fields = [
        (capability::VNDR, 0),
        (capability::NEXT, 1),
        (capability::LEN, 2),
        (capability::CFG_TYPE, 3),
        (capability::BAR, 4),
        (capability::OFFSET, 8),
        (capability::LENGTH, 12),
        (capability::NOTIFY_OFF_MULTIPLIER, 16),
    ];
    for (ours, theirs) in capability_fields {
        assert_eq!(ours, theirs);
    }
    let types = [
        (capability::TYPE_COMMON, 1),
        (capability::TYPE_NOTIFY, 2),
        (capability::TYPE_ISR, 3),
        (capability::TYPE_DEVICE, 4),
        (capability::TYPE_PCI, 5),
        (capability::TYPE_SHARED_MEMORY, 8),
        (isr::CONFIG, 2),
    ];
    for (ours, theirs) in types {
        assert_eq!(ours, theirs);
    }
    assert_eq!(pci::NO_VECTOR, 0xFFFF);
}

/// A structure's fields follow one another without a gap, each at a multiple of its width, and end
/// where the structure does.
#[test]
fn fields_fill_their_structures() {
    use net::config;
    use pci::common;
    for (fields, bytes) in [(common::FIELDS, common::BYTES_ALL), (config::FIELDS, config::BYTES)] {
        let mut end = 0;
        for field in fields {
            assert_eq!((field.offset, field.offset % field.width), (end, 0), "{}", field.name);
            end = field.at(field.count);
        }
        assert_eq!(end, bytes);
    }
    let (field, part) = common::lookup(common::QUEUE_DRIVER + 5).unwrap();
    assert_eq!((field.name, part, field.at(part)), ("queue_driver", 1, common::QUEUE_DRIVER + 4));
    assert_eq!(common::lookup(common::BYTES_ALL), None);
}

#[test]
fn an_event_is_needed_when_its_index_is_passed() {
    // Linux's vring_need_event, by its meaning: does old..new hold the event?
    for (event, new, old, wanted) in [
        (4, 5, 4, true),
        (4, 4, 3, false),
        (5, 5, 4, false),
        (3, 10, 2, true),
        (0xFFFF, 0, 0xFFFF, true),
        (0, 0, 0xFFFF, false),
        (7, 7, 7, false),
    ] {
        assert_eq!(split::needs_event(event, new, old), wanted, "{event} {new} {old}");
    }
}
