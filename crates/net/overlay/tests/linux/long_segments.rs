//! Long TCP segments of the kernel's, which get a tunnel's headers once and are cut behind that:
//! the kernel at the far end takes the pieces.

use overlay::{Layer, Protocol, Tunnel};

use crate::traffic::{exchange, long_stream};
use crate::wire_between::Hosts;

/// Bytes of a stream: 50 MiB.
const STREAM: usize = 50 << 20;

/// VXLAN over IPv4, whose headers have no checksum: 50 MiB in each version of IP, compared byte by
/// byte, most of them in segments longer than a frame.
#[test]
fn a_tap_interface_gives_long_segments() {
    let Some(hosts) = Hosts::with_inner("in0,gso") else { return };
    let added = "link add tun0 type vxlan id 100 dstport 4789 local 192.0.2.2 remote 192.0.2.1";
    if !hosts.there.try_ip(added) {
        println!("passed over: this kernel has no device for vxlan");
        return;
    }
    let mtu = 1500 - 50;
    hosts.address("tun0", mtu, true);
    let (local, remote) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let tunnel = Tunnel::new(Protocol::named("vxlan").unwrap(), local, remote).with_identifier(100);
    let joined = hosts.join(Layer::Ethernet, &tunnel, &tunnel);
    for is_v6 in [false, true] {
        exchange(&joined.here, &joined.there, is_v6, mtu);
        long_stream(&joined.here, &joined.there, is_v6, STREAM);
    }
    let (sending, receiving, cut) = joined.end_with_cut();
    assert_eq!((sending.total(), receiving.total()), (0, 0), "{sending:?} {receiving:?}");
    // A frame has 1,398 bytes of a stream at most.
    let frames = 2 * STREAM / 1398;
    println!("{cut} segments were cut; in frames the streams are {frames}");
    assert!(cut > 100 && (cut as usize) < frames / 2, "{cut} segments were cut");
}
