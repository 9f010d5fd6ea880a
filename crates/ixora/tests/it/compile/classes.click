// Many classes, several programs with others between them.
f0 :: Feed(0, 32) -> len :: CheckLength(1400) -> Align(4, 0) -> MarkMACHeader -> hf :: HostEtherFilter(02:00:00:00:00:02, DROP_OTHER false)
  -> in :: Counter -> c :: Classifier(12/8100, 12/86dd, 12/0800, -);
len[1] -> Keep(0);
c[0] -> StripEtherVLANHeader -> Keep(1);
c[1] -> Strip(14) -> k6 :: CheckIP6Header -> GetIP6Address(24) -> hl :: DecIP6HLIM -> Keep(2); hl[1] -> Keep(3);
c[2] -> Strip(14) -> MarkIPHeader -> k :: CheckIPHeader2 -> GetIPAddress(16)
  -> f :: IPFilter(drop src net 10.3.0.0/16, 1 udp && dst port > 30000, allow all)
  -> ic :: IPClassifier(tcp, icmp, udp, -);
k[1] -> Keep(4);
f[1] -> q :: Queue(1000) -> u :: Unqueue(9) -> p :: Paint(3) -> after :: Counter -> cp :: CheckPaint(3) -> Keep(5); cp[1] -> Keep(6);
ic[0] -> dscp :: SetIPDSCP(10) -> SetTCPChecksum -> [0]j :: Null;
ic[1] -> IPMirror -> SetIPChecksum -> j;
ic[2] -> SetIPDSCP(11) -> SetUDPChecksum -> j;
ic[3] -> SetAnnoByte(PAINT, 9) -> j;
j -> h :: HashSwitch(12, 4);
h[0] -> e0 :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> VLANEncap(5) -> Keep(7);
h[1] -> sw :: Switch(1); sw[0] -> Keep(8); sw[1] -> x :: StaticSwitch(0); x[0] -> Keep(9); x[1] -> Keep(10);
h[2] -> StoreIPAddress(10.9.9.9, src) -> SetIPAddress(10.1.1.1) -> StripIPHeader -> UnstripIPHeader -> Truncate(30) -> Unstrip(4) -> EtherMirror -> Keep(11);
c[3] -> EtherRewrite(1:1:1:1:1:1, 3:3:3:3:3:3) -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 7) -> Keep(12);
