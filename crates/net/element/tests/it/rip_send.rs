//! `RIPSend`: when it announces its route, and what it says.

use crate::{Rig, run};

#[test]
fn a_route_is_announced_after_three_seconds_and_then_each_half_minute() {
    let mut rig = run(
        "r :: RIPSend(18.26.4.24, 18.26.4.255, 10.0.0.0/8, 10) -> CheckIPHeader -> CheckUDPHeader
           -> IPFilter(allow src 18.26.4.24 and dst 18.26.4.255 and src udp port 520 and dst udp port 520)
           -> c :: Counter -> Discard;
         DriverManager(wait 2900ms, print $(c.count), wait 200ms, print $(c.count), wait 29.8s, print $(c.count),
                       wait 200ms, print $(c.count), stop)",
    );
    assert_eq!(rig.printed(), "0\n1\n1\n2\n");
    assert_eq!(rig.read("c.byte_count"), "104");
    for wrong in
        ["1.2.3.4, 1.2.3.5, 10.0.0.0/8", "1.2.3.4, 1.2.3.5, x, 1", "1.2.3.4, 1.2.3.5, 10.0.0.0/8, 1, 2"]
    {
        assert!(Rig::new(&format!("RIPSend({wrong}) -> Discard")).is_err(), "{wrong}");
    }
}
