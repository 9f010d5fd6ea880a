// A home gateway: many hosts behind one address. What they begin is let out, with the
// gateway's address and a port of its own; only answers come back in.
//   ixora click conf/nat.click IN=af_packet:lan0 OUT=af_packet:wan0 GATEWAY=203.0.113.254
define(
  $IN af_packet:lan0, $ETH0 02:00:00:00:00:01, $NET0 192.168.1.1/24,
  $OUT af_packet:wan0, $ETH1 02:00:00:00:00:02, $NET1 203.0.113.1/24, $GATEWAY 203.0.113.254
);
AddressInfo(inside $NET0 $ETH0, outside $NET1 $ETH1);

// A port: IPv4 packets to send come in, those that were received go out.
elementclass Port { $port, $me |
  FromDevice($port) -> HostEtherFilter($me:eth) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  c[0] -> ARPResponder($me:ip $me:eth) -> out :: ToDevice($port);
  c[1] -> [1] arp :: ARPQuerier($me:ip, $me:eth) -> out;
  c[2] -> Strip(14) -> CheckIPHeader(INTERFACES $me:ipnet) -> output;
  c[3] -> Discard;
  input -> DropBroadcasts -> FixIPSrc($me:ip) -> IPFragmenter(1500, HONOR_DF false) -> [0] arp;
}
in :: Port("$IN", inside);
out :: Port("$OUT", outside);

// Flows: input 0 is from inside, input 1 from outside; output 0 to outside, 1 to inside.
// No host inside can take all ports, or all that are remembered.
rw :: IPRewriter(pattern outside:ip 1024-65535 - - 0 1, drop, HOST_CAPACITY 4096);
ping :: ICMPPingRewriter(pattern outside:ip - - - 0 1, drop, HOST_CAPACITY 256);
errors :: ICMPRewriter(rw ping);

// From inside: to the gateway itself, or out.
in -> home :: IPClassifier(dst host inside:ip, -);
home[0] -> mine :: IPClassifier(icmp type echo, -);
mine[0] -> ICMPPingResponder -> in;
mine[1] -> Discard;
home[1] -> ttl :: DecIPTTL -> go :: IPClassifier(tcp or udp, icmp type echo, -);
ttl[1] -> ICMPError(inside:ip, timeexceeded) -> in;
go[0] -> [0] rw;
go[1] -> [0] ping;
go[2] -> Discard;

// To outside: neighbours, or by way of the gateway.
rw[0] -> way :: StaticIPLookup(outside:ipnet 0, 0.0.0.0/0 $GATEWAY 0) -> out;
ping[0] -> way;

// From outside: answers to what was begun, and errors about it.
out -> come :: IPClassifier(tcp or udp, icmp type echo-reply, icmp, -);
come[0] -> [1] rw;
come[1] -> [1] ping;
come[2] -> errors;
come[3] -> Discard;
rw[1] -> back :: DecIPTTL -> in;
ping[1] -> back;
errors -> back;
