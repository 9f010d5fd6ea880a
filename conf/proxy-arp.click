// One network on two cables: a switch that goes by IP addresses. Each side hears from
// this machine that it has the other side's addresses (proxy ARP, RFC 1027); hosts keep
// their addresses and masks, and broadcasts stay where they are.
//   ixora click conf/proxy-arp.click P0=af_packet:eth1 P1=af_packet:eth2
define(
  $P0 af_packet:eth1, $ETH0 02:00:00:00:00:01, $SIDE0 10.0.0.0/25,
  $P1 af_packet:eth2, $ETH1 02:00:00:00:00:02, $SIDE1 10.0.0.128/25,
  $ME 10.0.0.126 // whom this machine says it is when it asks
);

// `there`: addresses of the other side.
elementclass Port { $port, $eth, $there |
  FromDevice($port) -> HostEtherFilter($eth) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  c[0] -> ARPResponder($there $eth, $ME/32 $eth) -> out :: ToDevice($port);
  c[1] -> [1] arp :: ARPQuerier($ME, $eth) -> out;
  c[2] -> Strip(14) -> CheckIPHeader -> output;
  c[3] -> Discard;
  input -> DropBroadcasts -> [0] arp;
}
p0 :: Port("$P0", $ETH0, $SIDE1);
p1 :: Port("$P1", $ETH1, $SIDE0);

rt :: StaticIPLookup($ME/32 2, $SIDE0 0, $SIDE1 1);
p0 -> rt; p1 -> rt;
rt[0] -> p0;
rt[1] -> p1;
rt[2] -> here :: IPClassifier(icmp type echo, -) -> ICMPPingResponder -> rt;
here[1] -> Discard;
