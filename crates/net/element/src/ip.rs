//! IP: headers, routes, fragments, annotations.

mod address;
mod address_translator;
mod chains;
mod check_header;
mod combo;
mod dec_ttl;
mod drop_broadcasts;
mod encap;
mod field_info;
mod fix_src;
mod forward;
pub(crate) mod fragmenter;
mod gw_options;
pub(crate) mod header_check;
pub(crate) mod ip6;
mod ip6_packet;
mod leases;
mod lookup;
mod lookup6;
mod mark_header;
pub(crate) mod modify;
mod paint;
mod protocol_translator;
mod rate_monitor;
mod rate_tree;
pub(crate) mod reassembler;
mod rip_send;
mod route_text;
mod routes;
mod slots;
mod strip_header;
mod tos;
mod truncate_payload;

pub use address::{GetIpAddress, SetIpAddress, StoreIpAddress};
pub(crate) use chains::CHAINS;
pub use check_header::{CheckIpHeader, Checks};
pub use combo::{IpInputCombo, IpOutputCombo};
pub use dec_ttl::DecIpTtl;
pub use drop_broadcasts::DropBroadcasts;
pub use fix_src::FixIpSrc;
pub use gw_options::IpGwOptions;
pub use ip6::{CheckIp6Header, DecIp6Hlim, GetIp6Address, MarkIp6Header, SetIp6Address};
pub use lookup::{Fixed, Lookup, route};
pub use mark_header::MarkIpHeader;
pub use modify::{IpMirror, SetIpChecksum};
pub use paint::{CheckPaint, Paint, PaintSwitch, PaintTee};
pub use strip_header::StripHeader;
pub use tos::{MarkCe, SetTos};
pub use truncate_payload::TruncateIpPayload;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &address::CONSTANT,
    &address::FROM_PACKET,
    &address::INTO_PACKET,
    &address_translator::CLASS,
    &check_header::CLASS,
    &check_header::WITHOUT_CHECKSUM,
    &combo::INPUT,
    &combo::OUTPUT,
    &dec_ttl::CLASS,
    &drop_broadcasts::CLASS,
    &encap::CLASS,
    &field_info::CLASS,
    &fix_src::CLASS,
    &fragmenter::CLASS,
    &gw_options::CLASS,
    &ip6::CHECK,
    &ip6::CONSTANT,
    &ip6::DEC_HOPS,
    &ip6::FROM_PACKET,
    &ip6::MARK,
    &ip6::TOO_BIG,
    &ip6_packet::DSCP,
    &ip6_packet::ENCAP,
    &ip6_packet::MIRROR,
    &ip6_packet::PRINT,
    &lookup6::CLASS,
    &lookup::DIRECT,
    &lookup::LINEAR,
    &lookup::MULTI,
    &lookup::RADIX,
    &lookup::RANGE,
    &lookup::SORTED,
    &lookup::STATIC,
    &mark_header::CLASS,
    &paint::CHECK,
    &paint::PAINT,
    &paint::PAINT_TEE,
    &paint::SWITCH,
    &protocol_translator::TO_V4,
    &protocol_translator::TO_V6,
    &rate_monitor::CLASS,
    &reassembler::CLASS,
    &rip_send::CLASS,
    &modify::CHECKSUM,
    &modify::MIRROR,
    &modify::RANDOM,
    &strip_header::BACK,
    &strip_header::TO_NETWORK,
    &strip_header::TO_TRANSPORT,
    &tos::MARK_CE,
    &tos::SET_DSCP,
    &tos::SET_ECN,
    &truncate_payload::CLASS,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] =
    &[("LookupIPRoute", "StaticIPLookup"), ("LookupIPRoute2", "RadixIPLookup")];
