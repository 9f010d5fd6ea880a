//! Segment routing of the kernel's: routes that encapsulate, and the end of a segment.

use overlay::{Layer, Protocol, Tunnel};

use crate::traffic::exchange;
use crate::wire_between::Hosts;

/// RFC 8986: H.Encaps and its reduced form from the kernel, End.DT6 at the kernel.
#[test]
fn srv6() {
    for mode in ["encap", "encap.red"] {
        let Some(hosts) = Hosts::new() else { return };
        let there = &hosts.there;
        for all in ["ipv6/conf/all/seg6_enabled", "ipv6/conf/un0/seg6_enabled", "ipv6/conf/all/forwarding"] {
            there.set(all, "1");
        }
        // The inner network's address is on the loopback interface; packets to us are routed
        // into the segment, with the kernel's header of segments in either form.
        let mtu = 1500 - 40 - 24;
        hosts.address("lo", mtu, false);
        there.ip("address del fd07::2/64 dev lo");
        there.ip("address add fd07::2/128 dev lo nodad");
        let route = format!(
            "-6 route add fd07::1/128 encap seg6 mode {mode} segs 2001:db8::1 dev un0 src fd07::2 mtu {mtu}"
        );
        let end = "-6 route add 2001:db8::d6/128 encap seg6local action End.DT6 table local dev un0";
        if !there.try_ip(&route) || !there.try_ip(end) {
            println!("passed over: this kernel has no segment routing");
            return;
        }
        there.ip("-6 route add 2001:db8::1/128 dev un0");
        let way = |local: &str, remote: &str| {
            Tunnel::new(Protocol::named("srv6").unwrap(), local.parse().unwrap(), remote.parse().unwrap())
        };
        let sent_by = way("2001:db8::1", "2001:db8::d6");
        let joined = hosts.join(Layer::Ip, &sent_by, &way("2001:db8::1", "2001:db8::2"));
        exchange(&joined.here, &joined.there, true, mtu);
        let (sending, receiving) = joined.end();
        assert_eq!((receiving.total(), sending.iter().collect::<Vec<_>>()), (0, vec![]), "{mode}");
    }
}

/// RFC 8986: IPv4 packets in segments, to End.DX4 at the kernel.
#[test]
fn srv6_carries_ipv4() {
    let Some(hosts) = Hosts::new() else { return };
    let there = &hosts.there;
    for all in ["ipv6/conf/all/seg6_enabled", "ipv6/conf/un0/seg6_enabled", "ipv6/conf/all/forwarding"] {
        there.set(all, "1");
    }
    let mtu = 1500 - 40 - 24;
    hosts.address("lo", mtu, false);
    there.ip("address del 10.7.0.2/24 dev lo");
    there.ip("address add 10.7.0.2/32 dev lo");
    let route = format!(
        "route add 10.7.0.1/32 encap seg6 mode encap segs 2001:db8::1 dev un0 src 10.7.0.2 mtu {mtu}"
    );
    // The next hop 0.0.0.0 stands for the packet's own destination.
    let end = "-6 route add 2001:db8::d4/128 encap seg6local action End.DX4 nh4 0.0.0.0 dev un0";
    if !there.try_ip(&route) || !there.try_ip(end) {
        println!("passed over: this kernel has no segment routing");
        return;
    }
    there.ip("-6 route add 2001:db8::1/128 dev un0");
    let way = |local: &str, remote: &str| {
        Tunnel::new(Protocol::named("srv6").unwrap(), local.parse().unwrap(), remote.parse().unwrap())
    };
    let sent_by = way("2001:db8::1", "2001:db8::d4");
    let joined = hosts.join(Layer::Ip, &sent_by, &way("2001:db8::1", "2001:db8::2"));
    exchange(&joined.here, &joined.there, false, mtu);
    let (sending, receiving) = joined.end();
    assert_eq!((receiving.total(), sending.iter().collect::<Vec<_>>()), (0, vec![]));
}
