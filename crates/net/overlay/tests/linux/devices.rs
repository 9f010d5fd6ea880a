//! Devices of the kernel's that are the end of one tunnel.

use overlay::{Layer, Protocol, Tunnel};
use port::Reason;

use crate::traffic::exchange;
use crate::wire_between::Hosts;

/// A kernel's device and what we call it.
struct Device {
    protocol: &'static str,
    /// Arguments of `ip link add tun0 type`; both ends' addresses are put in.
    link: &'static str,
    is_v6: bool,
    /// Bytes in front of what the inner network counts as a packet: outer IP, the tunnel, and
    /// the inner Ethernet header of frames.
    overhead: usize,
    layer: Layer,
    /// Versions of IP that it carries.
    inner: &'static [bool],
    /// What else our tunnel has.
    with: fn(Tunnel) -> Tunnel,
}

const BOTH: &[bool] = &[false, true];

/// The ends' addresses on the underlay, ours first.
fn ends(is_v6: bool) -> [&'static str; 2] {
    if is_v6 { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "192.0.2.2"] }
}

/// Carries datagrams and streams both ways between us and a device.
fn meets(device: &Device) {
    let Some(hosts) = Hosts::new() else { return };
    let [here, there] = ends(device.is_v6);
    let added =
        hosts.there.try_ip(&format!("link add tun0 type {} local {there} remote {here}", device.link));
    if !added {
        println!("passed over: this kernel has no device for {}", device.link);
        return;
    }
    let mtu = 1500 - device.overhead;
    hosts.address("tun0", mtu, device.layer == Layer::Ethernet);
    let plain =
        Tunnel::new(Protocol::named(device.protocol).unwrap(), here.parse().unwrap(), there.parse().unwrap());
    let tunnel = (device.with)(plain);
    let joined = hosts.join(device.layer, &tunnel, &tunnel);
    for &is_v6 in device.inner {
        exchange(&joined.here, &joined.there, is_v6, mtu);
    }
    let (sending, receiving) = joined.end();
    let strange: Vec<_> = sending.iter().chain(receiving.iter()).filter(is_strange).collect();
    assert_eq!(strange, [], "{}", device.link);
}

/// What should not be dropped. A device of one version of IP says that of the other's
/// packets, such as the kernel's questions for routers, that there is no such way.
fn is_strange((reason, _): &(Reason, u64)) -> bool {
    *reason != Reason::OverlayWrongPayload
}

fn numbered(tunnel: Tunnel) -> Tunnel {
    tunnel.with_identifier(100)
}

/// A device of frames, over this version of IP.
fn frames(protocol: &'static str, link: &'static str, is_v6: bool, tunnel_len: usize) -> Device {
    let overhead = if is_v6 { 40 } else { 20 } + tunnel_len + 14;
    Device { protocol, link, is_v6, overhead, layer: Layer::Ethernet, inner: BOTH, with: numbered }
}

/// A device of IP packets, over this version of IP.
fn packets(protocol: &'static str, link: &'static str, is_v6: bool, tunnel_len: usize) -> Device {
    let overhead = if is_v6 { 40 } else { 20 } + tunnel_len;
    Device { protocol, link, is_v6, overhead, layer: Layer::Ip, inner: BOTH, with: |tunnel| tunnel }
}

/// RFC 7348. Over IPv6 the kernel sends checksums, and wants them.
#[test]
fn vxlan() {
    for is_v6 in [false, true] {
        meets(&frames("vxlan", "vxlan id 100 dstport 4789", is_v6, 16));
    }
    let summed = |tunnel| Tunnel { udp_checksum: true, ..numbered(tunnel) };
    let device = frames("vxlan", "vxlan id 100 dstport 4789 udpcsum", false, 16);
    meets(&Device { with: summed, ..device });
}

/// draft-ietf-nvo3-vxlan-gpe: IP packets without Ethernet headers. Linux has that on devices that
/// routes tell the far end and the identifier.
#[test]
fn vxlan_gpe() {
    let Some(hosts) = Hosts::new() else { return };
    if !hosts.there.try_ip("link add tun0 type vxlan external gpe dstport 4790") {
        println!("passed over: this kernel has no device for vxlan gpe");
        return;
    }
    let mtu = 1500 - 36;
    hosts.address("tun0", mtu, false);
    let way = "encap ip id 100 src 192.0.2.2 dst 192.0.2.1";
    hosts.there.ip(&format!("route add 10.7.0.1/32 {way} dev tun0"));
    hosts.there.ip(&format!("-6 route add fd07::1/128 {way} dev tun0"));
    let [here, there] = ends(false);
    let protocol = Protocol::named("vxlan-gpe").unwrap();
    let tunnel = numbered(Tunnel::new(protocol, here.parse().unwrap(), there.parse().unwrap()));
    let joined = hosts.join(Layer::Ip, &tunnel, &tunnel);
    for is_v6 in [false, true] {
        exchange(&joined.here, &joined.there, is_v6, mtu);
    }
    let (sending, receiving) = joined.end();
    assert_eq!((sending.total(), receiving.total()), (0, 0), "{sending:?} {receiving:?}");
}

/// Geneve (RFC 8926) over IPv4 and over IPv6.
#[test]
fn geneve() {
    for is_v6 in [false, true] {
        meets(&frames("geneve", "geneve id 100 dstport 6081", is_v6, 16));
    }
}

/// RFC 2784, RFC 2890.
#[test]
fn gre() {
    meets(&packets("gre", "gre", false, 4));
    let words = |tunnel| Tunnel { gre_checksum: true, gre_sequence: true, ..numbered(tunnel) };
    meets(&Device { with: words, ..packets("gre", "gre key 100 csum seq", false, 16) });
    // Without a limit of encapsulations, for which the kernel puts an option in front.
    meets(&packets("gre", "ip6gre encaplimit none", true, 4));
}

/// RFC 2784 with frames.
#[test]
fn gretap() {
    meets(&frames("gretap", "gretap key 100", false, 8));
    meets(&frames("gretap", "ip6gretap key 100 encaplimit none", true, 8));
}

/// RFC 2003, RFC 4213, RFC 2473.
#[test]
fn ip_in_ip() {
    meets(&Device { inner: &[false], ..packets("ipip", "ipip", false, 0) });
    meets(&Device { inner: &[true], ..packets("ipip", "sit", false, 0) });
    meets(&packets("ipip", "ip6tnl mode any encaplimit none", true, 0));
    // RFC 2473, section 4.1.1: with the option, which takes eight bytes of the kernel's packets.
    meets(&packets("ipip", "ip6tnl mode any", true, 8));
}
