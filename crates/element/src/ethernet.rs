//! Ethernet: headers, VLANs, ARP.

mod address;
mod arp_querier;
mod arp_responder;
mod arp_table;
mod encap;
mod host_filter;
mod mark;
mod neighbor;
mod vlan;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &address::MIRROR,
    &address::REWRITE,
    &arp_querier::CLASS,
    &arp_responder::CLASS,
    &arp_responder::FAKER,
    &arp_table::CLASS,
    &encap::CLASS,
    &host_filter::CLASS,
    &mark::CLASS,
    &neighbor::ADVERTISER,
    &neighbor::SOLICITOR,
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
