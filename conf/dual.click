// A router between two networks, for IPv4 and IPv6: it answers ARP, neighbour
// discovery and ping, and tells senders of hops that are over, of packets that are
// too long, of better ways and of ways that are not, as RFC 1812 and RFC 4443 ask.
//   ixora click conf/dual.click P0=af_packet:eth1 P1=af_packet:eth2
//   ixora click conf/dual.click P0=0000:03:00.0 P1=0000:03:00.1 NET1=192.0.2.1/24
// docs/router.md tries it out on this machine, step by step.
define(
  $P0 af_packet:eth1, $ETH0 02:00:00:00:00:01, $NET0 10.0.1.1/24, $NET6_0 2001:db8:1::1/64, $MTU0 1500,
  $P1 af_packet:eth2, $ETH1 02:00:00:00:00:02, $NET1 10.0.2.1/24, $NET6_1 2001:db8:2::1/64, $MTU1 1500
);
// The Ethernet addresses are the router's own, not the interfaces': the kernel, which
// sees the packets on af_packet as well, takes them for somebody else's.
AddressInfo(port0 $NET0 $NET6_0 $ETH0, port1 $NET1 $NET6_1 $ETH1);

// Tells the sender of an IPv6 packet, from the address of the port it came in by.
elementclass Tell6 { $type, $code, $mtu |
  input -> from :: PaintSwitch;
  from[0] -> Discard; // the router's own packets
  from[1] -> ICMP6Error(port0, $type, $code, PMTU $mtu) -> rate :: RatedSplitter(1000) -> output;
  from[2] -> ICMP6Error(port1, $type, $code, PMTU $mtu) -> rate;
}

// A port. In: IPv4 packets to send, IPv6 packets to send, IPv6 packets to a neighbour
// that take no hop. Out: IPv4 packets to route, IPv6 packets to route.
elementclass Port { $port, $me, $colour, $mtu |
  FromDevice($port) -> HostEtherFilter($me:eth) -> Paint($colour)
    -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800,
                       12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
  out :: ToDevice($port);

  // Who has which address.
  c[0] -> ARPResponder($me:ip $me:eth) -> out;
  c[1] -> [1] arp :: ARPQuerier($me:ip, $me:eth) -> out; arp[1] -> out;
  c[3] -> IP6NDAdvertiser($me/128 fe80::1/128 $me:eth) -> out;
  c[4] -> [1] nd :: IP6NDSolicitor($me, $me:eth) -> out; nd[1] -> out;

  // IPv4 comes in and goes out.
  c[2] -> Strip(14) -> CheckIPHeader(INTERFACES $me:ipnet)
    -> IPFilter(deny src net 0.0.0.0/8 or src net 127.0.0.0/8 or src net 224.0.0.0/3, allow all) -> [0] output;
  input[0] -> DropBroadcasts -> pt :: PaintTee($colour) -> gw :: IPGWOptions($me:ip)
    -> FixIPSrc($me:ip) -> ttl :: DecIPTTL -> frag :: IPFragmenter($mtu) -> [0] arp;
  pt[1] -> ICMPError($me:ip, redirect, host) -> rate :: RatedSplitter(1000) -> [0] output;
  gw[1] -> ICMPError($me:ip, parameterproblem) -> rate;
  ttl[1] -> ICMPError($me:ip, timeexceeded) -> rate;
  frag[1] -> ICMPError($me:ip, unreachable, needfrag, PMTU $mtu) -> rate;
  arp[2] -> ICMPError($me:ip, unreachable, host) -> rate;

  // IPv6 comes in and goes out. What has an address of this link only stays on it.
  c[5] -> Strip(14) -> CheckIP6Header(:: ::1) -> [1] output;
  input[1] -> DropBroadcasts -> link :: Classifier(8/fe80%ffc0, -);
  link[0] -> Discard;
  link[1] -> pt6 :: PaintTee($colour) -> hops :: DecIP6HLIM -> long :: IP6Fragmenter($mtu) -> [0] nd;
  pt6[1] -> ICMP6Error(fe80::1, 137, 0) -> RatedSplitter(1000) -> [0] nd;
  hops[1] -> Tell6(3, 0, $mtu) -> [1] output;
  long[1] -> Tell6(2, 0, $mtu) -> [1] output;
  nd[2] -> Tell6(1, 3, $mtu) -> [1] output;
  input[2] -> [0] nd;
  c[6] -> Discard;
}

p0 :: Port("$P0", port0, 1, $MTU0);
p1 :: Port("$P1", port1, 2, $MTU1);

// IPv4: 0 and 1 are the ports, 2 is here, 3 goes nowhere, 4 is told that there is no
// way. `write rt.set 0.0.0.0/0 10.0.2.254 1` makes a default route.
rt :: RadixIPLookup(port0:ip/32 2, port1:ip/32 2, port0:bcast/32 3, port1:bcast/32 3,
                    port0:ipnet 0, port1:ipnet 1,
                    0.0.0.0/8 3, 127.0.0.0/8 3, 224.0.0.0/3 3, 0.0.0.0/0 4);
p0[0] -> rt; p1[0] -> rt;
rt[0] -> [0] p0; rt[1] -> [0] p1;
rt[2] -> whole :: IPReassembler -> mine :: IPClassifier(icmp type echo, icmp, udp, -);
rt[3] -> Discard;
rt[4] -> ICMPError(port0:ip, unreachable, net) -> rate :: RatedSplitter(1000) -> rt;
mine[0] -> ICMPPingResponder -> Paint(0) -> rt;
mine[1] -> Discard;
mine[2] -> ICMPError(port0:ip, unreachable, port) -> rate;
mine[3] -> ICMPError(port0:ip, unreachable, protocol) -> rate;
whole[1] -> ICMPError(port0:ip, timeexceeded, reassembly) -> rate;

// IPv6, likewise.
rt6 :: LookupIP6Route(port0/128 2, port1/128 2, fe80::1/128 2, port0 0, port1 1,
                      ::/8 3, fe80::/10 3, ff00::/8 3, ::/0 4);
p0[1] -> rt6; p1[1] -> rt6;
rt6[0] -> [1] p0; rt6[1] -> [1] p1;
rt6[2] -> mine6 :: Classifier(6/3a 40/80, 6/3a, 6/11, -);
rt6[3] -> Discard;
rt6[4] -> Tell6(1, 0, 1500) -> rt6;
mine6[0] -> ICMP6PingResponder -> back :: Classifier(24/fe80%ffc0, -);
back[0] -> asked :: PaintSwitch; // to an address of the link: out where it came in
asked[0] -> Discard; asked[1] -> [2] p0; asked[2] -> [2] p1;
back[1] -> Paint(0) -> rt6;
mine6[1] -> Discard;
mine6[2] -> Tell6(1, 4, 1500) -> rt6;
mine6[3] -> Paint(6, 17) -> Tell6(4, 1, 1500) -> rt6; // the unknown protocol is byte 6
