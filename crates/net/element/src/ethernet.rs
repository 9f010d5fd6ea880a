//! Ethernet: headers, VLANs, ARP.

mod address;
mod address_annotations;
mod arp_querier;
mod arp_responder;
mod arp_table;
mod check_arp;
pub(crate) mod encap;
mod ether_span_tree;
mod ether_switch;
mod host_filter;
mod mark;
mod neighbor;
mod pause_source;
mod resolution_timer;
mod spanning_tree;
mod vlan;

pub use address::{EtherMirror, EtherRewrite};
pub use address_annotations::{EnsureEther, GetEtherAddress, SetEtherAddress, StoreEtherAddress};
pub use arp_responder::ArpResponder;
pub use check_arp::CheckArpHeader;
pub use encap::EtherEncap;
pub use host_filter::HostEtherFilter;
pub use mark::MarkMacHeader;
pub use vlan::{EtherVlanEncap, SetVlanAnno, StripHeader, VlanDecap, VlanEncap};

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &address::MIRROR,
    &address::REWRITE,
    &arp_querier::CLASS,
    &arp_responder::CLASS,
    &arp_responder::FAKER,
    &arp_table::CLASS,
    &check_arp::CLASS,
    &encap::CLASS,
    &ether_span_tree::CLASS,
    &ether_switch::CLASS,
    &ether_switch::LISTEN,
    &host_filter::CLASS,
    &mark::CLASS,
    &neighbor::ADVERTISER,
    &neighbor::SOLICITOR,
    &pause_source::CLASS,
    &address_annotations::ENSURE,
    &address_annotations::GET,
    &address_annotations::SET,
    &address_annotations::STORE,
    &vlan::ANNOTATE,
    &vlan::DECAP,
    &vlan::ENCAP,
    &vlan::ETHER_ENCAP,
    &vlan::STRIP,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[
    ("EtherVlanEncap", "EtherVLANEncap"),
    ("MarkEtherHeader", "MarkMACHeader"),
    ("SetVlanAnno", "SetVLANAnno"),
    ("StripEtherVlanHeader", "StripEtherVLANHeader"),
];
