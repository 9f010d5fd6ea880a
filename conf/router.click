// The router of "Fast Userspace Packet Processing": the standard router of Click's
// own paper with a fixed encapsulation in place of ARP. Four ports, a net each.
//   ixora click conf/router.click P0=af_packet:eth1 P1=af_packet:eth2 P2=af_packet:eth3 P3=af_packet:eth4
define($P0 af_packet:eth1, $P1 af_packet:eth2, $P2 af_packet:eth3, $P3 af_packet:eth4, $MTU 1500);

elementclass In { $port, $colour |
  FromDevice($port) -> c :: Classifier(12/0800, -)
    -> Paint($colour) -> Strip(14) -> CheckIPHeader -> output;
  c[1] -> Discard;
}

elementclass Out { $port, $colour, $ip, $from, $to |
  input -> DropBroadcasts -> pt :: PaintTee($colour) -> gw :: IPGWOptions($ip)
    -> FixIPSrc($ip) -> ttl :: DecIPTTL -> frag :: IPFragmenter($MTU)
    -> EtherEncap(0x0800, $from, $to) -> ToDevice($port);
  // Errors go back into the routing table, as ICMP messages.
  pt[1] -> ICMPError($ip, redirect, host) -> output;
  gw[1] -> ICMPError($ip, parameterproblem) -> output;
  ttl[1] -> ICMPError($ip, timeexceeded) -> output;
  frag[1] -> ICMPError($ip, unreachable, needfrag, PMTU $MTU) -> output;
}

rt :: StaticIPLookup(10.0.0.0/16 0, 10.1.0.0/16 1, 10.2.0.0/16 2, 10.3.0.0/16 3);

In("$P0", 1) -> rt; In("$P1", 2) -> rt; In("$P2", 3) -> rt; In("$P3", 4) -> rt;

rt[0] -> o0 :: Out("$P0", 1, 10.0.0.1, 02:00:00:00:00:01, 02:00:00:00:01:00); o0 -> rt;
rt[1] -> o1 :: Out("$P1", 2, 10.1.0.1, 02:00:00:00:00:02, 02:00:00:00:01:01); o1 -> rt;
rt[2] -> o2 :: Out("$P2", 3, 10.2.0.1, 02:00:00:00:00:03, 02:00:00:00:01:02); o2 -> rt;
rt[3] -> o3 :: Out("$P3", 4, 10.3.0.1, 02:00:00:00:00:04, 02:00:00:00:01:03); o3 -> rt;
