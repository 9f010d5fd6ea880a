//! Elements as programs have them that `ixora compile` makes: by type, and where it is
//! known, with the numbers of their configuration in the code.
//!
//! A class that is not here is no part of a program: it stays an element among others,
//! and packets leave the program for it.

use std::any::Any;

use graph::{Each, Element};
use memory::Packet;

pub use crate::classify::{Classifier, IpFilter, headers, holds, holds_in};
pub use crate::ethernet::{
    EtherEncap, EtherMirror, EtherRewrite, EtherVlanEncap, HostEtherFilter, MarkMacHeader, SetVlanAnno,
    StripHeader as StripVlanHeader, VlanDecap, VlanEncap,
};
pub use crate::ip::{
    CheckIp6Header, CheckIpHeader, CheckPaint, Checks, DecIp6Hlim, DecIpTtl, DropBroadcasts, FixIpSrc, Fixed,
    GetIp6Address, GetIpAddress, IpGwOptions, IpMirror, Lookup, MarkCe, MarkIp6Header, MarkIpHeader, Paint,
    PaintTee, SetIp6Address, SetIpAddress, SetIpChecksum, SetTos, StoreIpAddress,
    StripHeader as StripIpHeader, route,
};
pub use crate::standard::{
    CheckLength, Counter, Hash, Null, Pass, SetAnnoByte, StaticSwitch, Strip, Switch, Truncate, Unstrip,
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
    /// and has a [`Code::Guard`] in its place.
    pub path: &'static str,
    /// It emits packets beside those that come in.
    pub emits: bool,
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
    /// Whether `packet` goes on at output 0 untouched; if not it leaves the program for
    /// the element.
    Guard(String),
    /// It cannot be part of a program as it is configured: why.
    Outside(&'static str),
}

const fn kernel(class: &'static str, path: &'static str) -> Kernel {
    Kernel { class, path, emits: false, code: |_| Code::Asked }
}

const fn coded(class: &'static str, path: &'static str, code: fn(&dyn Element) -> Code) -> Kernel {
    Kernel { class, path, emits: false, code }
}

/// All classes that can be part of a program.
pub const KERNELS: &[Kernel] = &[
    kernel("Align", "Each<kernels::Pass>"),
    coded("CheckIPHeader", "Each<kernels::CheckIpHeader>", check_ip_header),
    coded("CheckIPHeader2", "Each<kernels::CheckIpHeader>", check_ip_header),
    kernel("CheckIP6Header", "Each<kernels::CheckIp6Header>"),
    kernel("CheckLength", "Each<kernels::CheckLength>"),
    kernel("CheckPaint", "Each<kernels::CheckPaint>"),
    coded("Classifier", "Each<kernels::Classifier>", classifier),
    kernel("Counter", "kernels::Counter"),
    kernel("DecIP6HLIM", "Each<kernels::DecIp6Hlim>"),
    kernel("DecIPTTL", "Each<kernels::DecIpTtl>"),
    kernel("DropBroadcasts", "Each<kernels::DropBroadcasts>"),
    kernel("EtherEncap", "Each<kernels::EtherEncap>"),
    kernel("EtherMirror", "Each<kernels::EtherMirror>"),
    kernel("EtherRewrite", "Each<kernels::EtherRewrite>"),
    kernel("EtherVLANEncap", "Each<kernels::EtherVlanEncap>"),
    kernel("FixIPSrc", "Each<kernels::FixIpSrc>"),
    kernel("GetIP6Address", "Each<kernels::GetIp6Address>"),
    kernel("GetIPAddress", "Each<kernels::GetIpAddress>"),
    kernel("HashSwitch", "Each<kernels::Hash>"),
    kernel("HostEtherFilter", "Each<kernels::HostEtherFilter>"),
    coded("IPClassifier", "Each<kernels::IpFilter>", ip_filter),
    coded("IPFilter", "Each<kernels::IpFilter>", ip_filter),
    coded("IPFragmenter", "", fragmenter),
    kernel("IPGWOptions", "Each<kernels::IpGwOptions>"),
    kernel("IPMirror", "Each<kernels::IpMirror>"),
    coded("LookupIPRouteMP", "kernels::Lookup", lookup),
    kernel("MarkIPCE", "Each<kernels::MarkCe>"),
    kernel("MarkIP6Header", "Each<kernels::MarkIp6Header>"),
    kernel("MarkIPHeader", "Each<kernels::MarkIpHeader>"),
    kernel("MarkMACHeader", "Each<kernels::MarkMacHeader>"),
    kernel("Null", "kernels::Null"),
    kernel("Paint", "Each<kernels::Paint>"),
    Kernel { emits: true, ..kernel("PaintTee", "kernels::PaintTee") },
    kernel("PushNull", "kernels::Null"),
    kernel("SetAnnoByte", "Each<kernels::SetAnnoByte>"),
    kernel("SetIP6Address", "Each<kernels::SetIp6Address>"),
    kernel("SetIPAddress", "Each<kernels::SetIpAddress>"),
    kernel("SetIPChecksum", "Each<kernels::SetIpChecksum>"),
    kernel("SetIPDSCP", "Each<kernels::SetTos>"),
    kernel("SetIPECN", "Each<kernels::SetTos>"),
    kernel("SetTCPChecksum", "Each<kernels::SetTcpChecksum>"),
    kernel("SetUDPChecksum", "Each<kernels::SetUdpChecksum>"),
    kernel("SetVLANAnno", "Each<kernels::SetVlanAnno>"),
    coded("StaticIPLookup", "kernels::Lookup", lookup),
    kernel("StaticSwitch", "Each<kernels::StaticSwitch>"),
    kernel("StoreIPAddress", "Each<kernels::StoreIpAddress>"),
    coded("Strip", "Each<kernels::Strip>", strip),
    kernel("StripEtherVLANHeader", "Each<kernels::StripVlanHeader>"),
    kernel("StripIPHeader", "Each<kernels::StripIpHeader>"),
    kernel("StripToNetworkHeader", "Each<kernels::StripIpHeader>"),
    kernel("Switch", "Each<kernels::Switch>"),
    kernel("Truncate", "Each<kernels::Truncate>"),
    kernel("UDPIPEncap", "Each<kernels::UdpIpEncap>"),
    kernel("Unstrip", "Each<kernels::Unstrip>"),
    kernel("UnstripIPHeader", "Each<kernels::StripIpHeader>"),
    kernel("VLANDecap", "Each<kernels::VlanDecap>"),
    kernel("VLANEncap", "Each<kernels::VlanEncap>"),
];

/// How a class is part of a program, by its own name (not an alias).
pub fn of(class: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.class == class)
}

/// Whether a packet is as short as an `IPFragmenter` sends it on.
#[inline(always)]
pub fn fits(packet: &Packet, mtu: usize) -> bool {
    fragmenter::fits(packet, mtu)
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
        Some(Code::Guard(format!("kernels::fits(packet, {})", kernel.mtu())))
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
    use super::KERNELS;

    #[test]
    fn every_kernel_is_of_a_class() {
        let registry = crate::registry();
        for kernel in KERNELS {
            assert!(registry.find(kernel.class).is_some_and(|c| c.name == kernel.class), "{}", kernel.class);
        }
    }
}
