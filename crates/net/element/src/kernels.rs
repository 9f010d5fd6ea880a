//! Elements as programs have them that `ixora compile` makes: by type, and where it is
//! known, with the numbers of their configuration in the code.
//!
//! A class that is not here is no part of a program: it stays an element among others,
//! and packets leave the program for it.

use std::any::Any;

use graph::{Each, Element, Fate};
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

use crate::classify::straight;
use crate::ip::fragmenter::{self, IpFragmenter};

/// The most routes that are written out; larger tables look up whole batches.
const ROUTES: usize = 16;

/// How a class of elements is part of a program.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// The name of its class.
    pub class: &'static str,
    /// Its type in code, with this module as `kernels`; empty for one that stays outside
    /// and has [`Code::Aside`] in its place.
    pub path: &'static str,
    /// It emits packets beside those that come in.
    pub emits: bool,
    /// Whether packets that come in go on at an output, of so many: not where the only
    /// ones are those it emits, or the element itself sends.
    pub through: fn(usize, usize) -> bool,
    /// Code for an element as it is configured.
    pub code: fn(&dyn Element) -> Code,
}

/// Code for an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// It is asked as it is ([`graph::fused::Single`]).
    Asked,
    /// The fate of `packet`, an expression in which `kernel` is the element and `cx` its
    /// view.
    Fate(String),
    /// The fate of `packet` as an `Option`, without the element; where there is none the
    /// packet leaves the program for it.
    Aside(String),
    /// It cannot be part of a program as it is configured: why.
    Outside(&'static str),
}

const fn kernel(class: &'static str, path: &'static str) -> Kernel {
    coded(class, path, |_| Code::Asked)
}

const fn coded(class: &'static str, path: &'static str, code: fn(&dyn Element) -> Code) -> Kernel {
    Kernel { class, path, emits: false, through: |_, _| true, code }
}

/// One that emits copies at an output of its own.
const fn emitter(class: &'static str, path: &'static str, through: fn(usize, usize) -> bool) -> Kernel {
    Kernel { emits: true, through, ..kernel(class, path) }
}

/// All classes that can be part of a program.
pub const KERNELS: &[Kernel] = &[
    kernel("Align", "Each<kernels::Pass>"),
    kernel("ARPResponder", "Each<kernels::ArpResponder>"),
    kernel("CheckARPHeader", "Each<kernels::CheckArpHeader>"),
    kernel("CheckCRC32", "Each<kernels::CheckCrc>"),
    coded("CheckIPHeader", "Each<kernels::CheckIpHeader>", check_ip_header),
    coded("CheckIPHeader2", "Each<kernels::CheckIpHeader>", check_ip_header),
    kernel("CheckIP6Header", "Each<kernels::CheckIp6Header>"),
    kernel("CheckLength", "Each<kernels::CheckLength>"),
    kernel("CheckPaint", "Each<kernels::CheckPaint>"),
    coded("Classifier", "Each<kernels::Classifier>", classifier),
    kernel("Counter", "kernels::Counter"),
    kernel("CPUSwitch", "Each<kernels::CpuSwitch>"),
    kernel("DecIP6HLIM", "Each<kernels::DecIp6Hlim>"),
    kernel("DecIPTTL", "Each<kernels::DecIpTtl>"),
    kernel("DropBroadcasts", "Each<kernels::DropBroadcasts>"),
    kernel("EnsureEther", "Each<kernels::EnsureEther>"),
    kernel("EtherEncap", "Each<kernels::EtherEncap>"),
    kernel("EtherMirror", "Each<kernels::EtherMirror>"),
    kernel("EtherRewrite", "Each<kernels::EtherRewrite>"),
    kernel("EtherVLANEncap", "Each<kernels::EtherVlanEncap>"),
    kernel("ExactPaintSwitch", "Each<kernels::ExactPaintSwitch>"),
    kernel("FixIPSrc", "Each<kernels::FixIpSrc>"),
    kernel("GetEtherAddress", "Each<kernels::GetEtherAddress>"),
    kernel("GetIP6Address", "Each<kernels::GetIp6Address>"),
    kernel("GetIPAddress", "Each<kernels::GetIpAddress>"),
    kernel("HashSwitch", "Each<kernels::Hash>"),
    kernel("HostEtherFilter", "Each<kernels::HostEtherFilter>"),
    kernel("ICMPPingResponder", "Each<kernels::PingResponder>"),
    coded("IPClassifier", "Each<kernels::IpFilter>", ip_filter),
    coded("IPFilter", "Each<kernels::IpFilter>", ip_filter),
    Kernel { through: |output, _| output == 0, ..coded("IPFragmenter", "", fragmenter) },
    kernel("IPGWOptions", "Each<kernels::IpGwOptions>"),
    kernel("IPInputCombo", "Each<kernels::IpInputCombo>"),
    kernel("IPMirror", "Each<kernels::IpMirror>"),
    emitter("IPOutputCombo", "kernels::IpOutputCombo", |output, _| output != 1),
    coded("LookupIPRouteMP", "kernels::Lookup", lookup),
    kernel("MarkIPCE", "Each<kernels::MarkCe>"),
    kernel("MarkIP6Header", "Each<kernels::MarkIp6Header>"),
    kernel("MarkIPHeader", "Each<kernels::MarkIpHeader>"),
    kernel("MarkMACHeader", "Each<kernels::MarkMacHeader>"),
    kernel("Null", "kernels::Null"),
    kernel("Pad", "Each<kernels::Pad>"),
    kernel("Paint", "Each<kernels::Paint>"),
    coded("PaintSwitch", "", paint_switch),
    emitter("PaintTee", "kernels::PaintTee", |output, _| output == 0),
    kernel("PushNull", "kernels::Null"),
    kernel("SetAnnoByte", "Each<kernels::SetAnnoByte>"),
    kernel("SetCRC32", "Each<kernels::SetCrc>"),
    kernel("SetEtherAddress", "Each<kernels::SetEtherAddress>"),
    kernel("SetIP6Address", "Each<kernels::SetIp6Address>"),
    kernel("SetIPAddress", "Each<kernels::SetIpAddress>"),
    kernel("SetIPChecksum", "Each<kernels::SetIpChecksum>"),
    kernel("SetIPDSCP", "Each<kernels::SetTos>"),
    kernel("SetIPECN", "Each<kernels::SetTos>"),
    kernel("SetPacketType", "Each<kernels::SetPacketType>"),
    kernel("SetTCPChecksum", "Each<kernels::SetTcpChecksum>"),
    kernel("SetUDPChecksum", "Each<kernels::SetUdpChecksum>"),
    kernel("SetVLANAnno", "Each<kernels::SetVlanAnno>"),
    coded("StaticIPLookup", "kernels::Lookup", lookup),
    kernel("StaticSwitch", "Each<kernels::StaticSwitch>"),
    kernel("StoreData", "Each<kernels::StoreData>"),
    kernel("StoreEtherAddress", "Each<kernels::StoreEtherAddress>"),
    kernel("StoreIPAddress", "Each<kernels::StoreIpAddress>"),
    coded("Strip", "Each<kernels::Strip>", strip),
    kernel("StripEtherVLANHeader", "Each<kernels::StripVlanHeader>"),
    kernel("StripIPHeader", "Each<kernels::StripIpHeader>"),
    kernel("StripToNetworkHeader", "Each<kernels::StripIpHeader>"),
    kernel("Switch", "Each<kernels::Switch>"),
    emitter("Tee", "kernels::Tee", |output, outputs| output + 1 == outputs),
    kernel("Truncate", "Each<kernels::Truncate>"),
    kernel("TruncateIPPayload", "Each<kernels::TruncateIpPayload>"),
    kernel("UDPIPEncap", "Each<kernels::UdpIpEncap>"),
    kernel("Unstrip", "Each<kernels::Unstrip>"),
    kernel("UnstripIPHeader", "Each<kernels::StripIpHeader>"),
    kernel("VLANDecap", "Each<kernels::VlanDecap>"),
    kernel("VLANEncap", "Each<kernels::VlanEncap>"),
];

const BATCH: &str = "it looks up a batch at a time";
const LOCK: &str = "it locks its table once for a batch";
const ORDER: &str = "it numbers packets in the order they come, which a program changes between flows";
const PRINT: &str = "it prints in the order of batches";
const CLOCK: &str = "it reads the clock once for a batch";

/// Why classes that one might look for are no part of programs.
const OUTSIDE: &[(&str, &str)] = &[
    ("ARPPrint", PRINT),
    ("ARPQuerier", LOCK),
    ("AverageCounter", CLOCK),
    ("DirectIPLookup", BATCH),
    ("ICMPError", ORDER),
    ("ICMPRewriter", LOCK),
    ("IPAddrPairRewriter", LOCK),
    ("IPAddrRewriter", LOCK),
    ("IPPrint", PRINT),
    ("IPRewriter", LOCK),
    ("LinearIPLookup", BATCH),
    ("NumberPacket", ORDER),
    ("Print", PRINT),
    ("RadixIPLookup", BATCH),
    ("RangeIPLookup", BATCH),
    ("RoundRobinSwitch", ORDER),
    ("SetTimestamp", CLOCK),
    ("SortedIPLookup", BATCH),
    ("TCPRewriter", LOCK),
    ("UDPRewriter", LOCK),
];

/// Why a class is no part of programs, if that is not just because nobody did it yet.
pub fn why_not(class: &str) -> Option<&'static str> {
    OUTSIDE.iter().find(|(name, _)| *name == class).map(|(_, why)| *why)
}

/// How a class is part of a program, by its own name (not an alias).
pub fn of(class: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.class == class)
}

/// Whether a packet is as short as an `IPFragmenter` sends it on.
#[inline(always)]
pub fn fits(packet: &Packet, mtu: usize) -> bool {
    fragmenter::fits(packet, mtu)
}

/// Where `PaintSwitch` sends a packet; `None` if to all outputs.
#[inline(always)]
pub fn colored(packet: &Packet, anno: usize) -> Option<Fate> {
    PaintSwitch::fate(packet, anno)
}

/// The code that `write` makes of an element, if it is a `T`.
fn of_type<T: Element>(element: &dyn Element, write: impl FnOnce(&T) -> Option<Code>) -> Code {
    let element: &dyn Any = element;
    element.downcast_ref().and_then(write).unwrap_or(Code::Asked)
}

fn check_ip_header(element: &dyn Element) -> Code {
    of_type(element, |Each(kernel): &Each<CheckIpHeader>| {
        let Checks { offset, checksum, sources } = kernel.checks();
        let checks =
            format!("kernels::Checks {{ offset: {offset}, checksum: {checksum}, sources: {sources} }}");
        Some(Code::Fate(format!("kernel.0.check(cx, packet, {checks})")))
    })
}

fn classifier(element: &dyn Element) -> Code {
    of_type(element, |Each(kernel): &Each<Classifier>| straight::code(kernel.program()).map(Code::Fate))
}

fn ip_filter(element: &dyn Element) -> Code {
    of_type(element, |Each(kernel): &Each<IpFilter>| {
        straight::code_in_headers(kernel.program()).map(Code::Fate)
    })
}

fn strip(element: &dyn Element) -> Code {
    of_type(element, |Each(kernel): &Each<Strip>| {
        Some(Code::Fate(format!("kernels::Strip::with({}).packet(cx, 0, packet)", kernel.length())))
    })
}

fn fragmenter(element: &dyn Element) -> Code {
    of_type(element, |kernel: &IpFragmenter| {
        Some(Code::Aside(format!("kernels::fits(packet, {}).then_some(Fate::ON)", kernel.mtu())))
    })
}

fn paint_switch(element: &dyn Element) -> Code {
    of_type(element, |kernel: &PaintSwitch| {
        Some(Code::Aside(format!("kernels::colored(packet, {})", kernel.anno())))
    })
}

fn lookup(element: &dyn Element) -> Code {
    of_type(element, |kernel: &Lookup| {
        let routes = kernel.fixed();
        if routes.len() > ROUTES {
            return Some(Code::Outside("it has many routes, and looks up a batch at a time"));
        }
        let line = |Fixed { prefix, mask, port, gateway }: &Fixed| {
            format!(
                "kernels::Fixed {{ prefix: {prefix:#x}, mask: {mask:#x}, port: {port}, gateway: {gateway:#x} }}"
            )
        };
        let routes = routes.iter().map(line).collect::<Vec<_>>().join(", ");
        Some(Code::Fate(format!(
            "match kernels::route(const {{ &[{routes}] }}, packet) {{ Some(fate) => fate, None => kernel.miss(cx, packet) }}"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::{KERNELS, OUTSIDE};

    #[test]
    fn every_kernel_is_of_a_class() {
        let registry = crate::registry();
        for kernel in KERNELS {
            assert!(registry.find(kernel.class).is_some_and(|c| c.name == kernel.class), "{}", kernel.class);
        }
        for (class, why) in OUTSIDE {
            assert!(registry.find(class).is_some() && super::of(class).is_none(), "{class}: {why}");
        }
    }
}
