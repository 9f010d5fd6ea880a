// The paper's router with two ways in and four out; what goes wrong comes back to rt.
elementclass Out { $n, $ip, $eth |
  input -> DropBroadcasts -> pt :: PaintTee($n) -> gw :: IPGWOptions($ip) -> FixIPSrc($ip)
  -> ttl :: DecIPTTL -> frag :: IPFragmenter(576) -> EtherEncap(0x0800, 02:00:00:00:01:01, $eth) -> output;
  pt[1] -> [1]output;
  gw[1] -> ICMPError($ip, parameterproblem) -> [2]output;
  ttl[1] -> ICMPError($ip, timeexceeded) -> [2]output;
  frag[1] -> ICMPError($ip, unreachable, needfrag) -> [2]output;
}
f0 :: Feed(0, 32) -> c0 :: Classifier(12/0806, 12/0800, -); f1 :: Feed(1, 7) -> c1 :: Classifier(12/0806, 12/0800, -);
c0[0] -> arp :: Keep(8); c1[0] -> arp; c0[2] -> other :: Keep(9); c1[2] -> other;
c0[1] -> Paint(1) -> ip :: Strip(14) -> k :: CheckIPHeader(INTERFACES 10.0.0.1/24 10.1.0.1/24) -> n :: Counter
  -> rt :: StaticIPLookup(10.0.0.0/16 0, 10.1.0.0/16 1, 10.2.0.0/16 10.2.0.9 2, 10.3.0.0/16 3, 10.3.7.0/24 4);
c1[1] -> Paint(2) -> ip;
k[1] -> bad :: Keep(7);
rt[0] -> o0 :: Out(1, 10.0.0.1, 02:00:00:00:02:00) -> s0 :: Keep(0);
rt[1] -> o1 :: Out(2, 10.1.0.1, 02:00:00:00:02:01) -> s1 :: Keep(1);
rt[2] -> o2 :: Out(3, 10.2.0.1, 02:00:00:00:02:02) -> s2 :: Keep(2);
rt[3] -> o3 :: Out(4, 10.3.0.1, 02:00:00:00:02:03) -> s3 :: Keep(3);
rt[4] -> host :: Keep(4);
red :: Keep(5); o0[1] -> red; o1[1] -> red; o2[1] -> red; o3[1] -> red;
o0[2] -> rt; o1[2] -> rt; o2[2] -> rt; o3[2] -> rt;
