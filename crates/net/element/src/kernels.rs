//! What programs that `ixora compile` writes name of the elements: their types, and the
//! functions that stand for some of them. How each is part of a program stands in its
//! class ([`graph::element::kernel`]).

use graph::Action;
use memory::Packet;

pub use crate::classify::{Classifier, IpFilter, headers, holds, holds_in};
pub use crate::ethernet::{
    ArpResponder, CheckArpHeader, EnsureEther, EtherEncap, EtherMirror, EtherRewrite, EtherVlanEncap,
    GetEtherAddress, HostEtherFilter, MarkMacHeader, SetEtherAddress, SetVlanAnno, StoreEtherAddress,
    StripHeader as StripVlanHeader, VlanDecap, VlanEncap,
};
pub use crate::icmp::PingResponder;
pub use crate::ip::{
    CheckIp6Header, CheckIpHeader, CheckPaint, Checks, DecIp6Hlim, DecIpTtl, DropBroadcasts, FixIpSrc, Fixed,
    GetIp6Address, GetIpAddress, IpGwOptions, IpInputCombo, IpMirror, IpOutputCombo, Lookup, MarkCe,
    MarkIp6Header, MarkIpHeader, Paint, PaintSwitch, PaintTee, SetIp6Address, SetIpAddress, SetIpChecksum,
    SetTos, StoreIpAddress, StripHeader as StripIpHeader, TruncateIpPayload, route,
};
pub use crate::standard::{
    CheckCrc, CheckLength, Counter, CpuSwitch, ExactPaintSwitch, Hash, Null, Pad, Pass, SetAnnoByte, SetCrc,
    SetPacketType, StaticSwitch, StoreData, Strip, Switch, Tee, Truncate, Unstrip,
};
pub use crate::tcpudp::{SetTcpChecksum, SetUdpChecksum, UdpIpEncap};

use crate::ip::fragmenter;

/// [`PerPacket`](graph::PerPacket) elements of a type that has its name here.
macro_rules! each {
    ($name:ident) => {
        graph::element::kernel::Inside::each::<$crate::kernels::$name>(concat!(
            "Each<kernels::",
            stringify!($name),
            ">"
        ))
    };
}

/// Elements of a type that has its name here, and is asked about one packet itself.
macro_rules! single {
    ($name:ident) => {
        graph::element::kernel::Inside::single::<$crate::kernels::$name>(concat!(
            "kernels::",
            stringify!($name)
        ))
    };
}

pub(crate) use {each, single};

// Why elements of some classes are no part of programs.
pub(crate) const BATCH: &str = "it looks up a batch at a time";
pub(crate) const LOCK: &str = "it changes a table that threads share, under a lock";
pub(crate) const ORDER: &str =
    "it numbers packets in the order they come, which a program changes between flows";

/// Whether a packet is as short as an `IPFragmenter` sends it on.
#[inline(always)]
pub fn fits(packet: &Packet, mtu: usize) -> bool {
    fragmenter::fits(packet, mtu)
}

/// Where `PaintSwitch` sends a packet; `None` if to all outputs.
#[inline(always)]
pub fn colored(packet: &Packet, anno: usize) -> Option<Action> {
    PaintSwitch::action(packet, anno)
}
