// Packets go round until few hops are left.
f0 :: Feed(0, 32) -> Strip(14) -> k :: CheckIPHeader -> in :: Counter -> d :: DecIPTTL -> c :: IPClassifier(ip ttl > 5, ip ttl > 3, -);
c[0] -> round :: Counter -> in;
c[1] -> Keep(0);
c[2] -> Keep(1);
d[1] -> Keep(2);
k[1] -> Keep(3);
