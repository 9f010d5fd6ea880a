// Ways in that are alike as well as ways out, to a sink each.
elementclass In { $n | input -> c :: Classifier(12/0800, -) -> Paint($n) -> Strip(14) -> k :: CheckIPHeader -> output; c[1] -> [1]output; }
elementclass Out { $n, $eth | input -> pt :: PaintTee($n) -> ttl :: DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:01, $eth) -> output; pt[1] -> [1]output; ttl[1] -> [1]output; }
f0 :: Feed(0, 32); f1 :: Feed(1, 7);
i0 :: In(1); i1 :: In(2); f0 -> i0; f1 -> i1; i0[1] -> Keep(8); i1[1] -> Keep(9);
i0 -> rt :: StaticIPLookup(10.0.0.0/16 0, 10.1.0.0/16 2, 10.2.0.0/16 3, 0/0 1); i1 -> rt;
rt[0] -> o0 :: Out(1, 02:00:00:00:02:00) -> Keep(0); o0[1] -> Keep(4);
rt[1] -> h :: HashSwitch(12, 4);
h[0] -> l0 :: StaticIPLookup(11.0.0.0/8 0, 10.4.0.0/16 10.4.0.1 0) -> Keep(7);
h[1] -> l1 :: StaticIPLookup(10.4.0.0/15 0) -> Keep(10);
rt[2] -> o1 :: Out(2, 02:00:00:00:02:01) -> Keep(1); o1[1] -> Keep(5);
rt[3] -> o2 :: Out(3, 02:00:00:00:02:02) -> Keep(2); o2[1] -> Keep(6);
