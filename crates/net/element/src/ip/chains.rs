//! Sequences of elements that packets go through in one program from the moment a router is
//! loaded: the ways of an IP router in front of its routing table, and behind it.

use graph::Each;
use graph::element::chain::Chain;
use graph::fused::chain::{End, Guard, Member, Then, Unfused, program};
use memory::Packet;

use super::fragmenter::{self, IpFragmenter};
use super::{
    CheckIpHeader, CheckPaint, DecIpTtl, DropBroadcasts, FixIpSrc, GetIpAddress, IpGwOptions, MarkIpHeader,
    Paint, PaintTee,
};
use super::{address, check_header, dec_ttl, drop_broadcasts, fix_src, gw_options, mark_header, paint};
use crate::ethernet::{self, EtherEncap};
use crate::standard::{self, Strip};

/// All chains of IP's elements.
pub(crate) static CHAINS: &[&Chain] = &[&INPUT, &OUTPUT];

/// From a port to the routing table.
static INPUT: Chain = Chain {
    classes: &[
        &paint::PAINT,
        &standard::strip::CLASS,
        &check_header::CLASS,
        &mark_header::CLASS,
        &address::FROM_PACKET,
    ],
    make: program::<One<Paint, One<Strip, One<CheckIpHeader, One<MarkIpHeader, One<GetIpAddress, End>>>>>>,
};

/// From the routing table to a port.
static OUTPUT: Chain = Chain {
    classes: &[
        &drop_broadcasts::CLASS,
        &paint::CHECK,
        &paint::PAINT_TEE,
        &gw_options::CLASS,
        &fix_src::CLASS,
        &dec_ttl::CLASS,
        &fragmenter::CLASS,
        &ethernet::encap::CLASS,
    ],
    make: program::<One<DropBroadcasts, One<CheckPaint, Then<Member<PaintTee>, Corrected>>>>,
};

/// What is behind `PaintTee`.
type Corrected = One<IpGwOptions, One<FixIpSrc, One<DecIpTtl, Then<Unfused<Fits>, One<EtherEncap, End>>>>>;

/// An element that looks at one packet, and what is behind it.
type One<K, R> = Then<Member<Each<K>>, R>;

/// Packets as short as an `IPFragmenter` sends them on.
struct Fits(usize);

impl Guard for Fits {
    type Of = IpFragmenter;

    fn of(element: &IpFragmenter) -> Fits {
        Fits(element.mtu())
    }

    #[inline(always)]
    fn passes(&self, packet: &Packet) -> bool {
        fragmenter::fits(packet, self.0)
    }
}
