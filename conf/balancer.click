// A load balancer: one address for clients, the connections shared out among servers
// in turn. The servers' way to the clients is this machine.
//   ixora click conf/balancer.click IN=af_packet:eth1 OUT=af_packet:eth2
define(
  $IN af_packet:eth1, $ETH0 02:00:00:00:00:01, $NET0 10.0.1.1/24, $SERVICE 80,
  $OUT af_packet:eth2, $ETH1 02:00:00:00:00:02, $NET1 10.0.2.1/24,
  $SERVER0 10.0.2.10, $SERVER1 10.0.2.11
);
AddressInfo(clients $NET0 $ETH0, servers $NET1 $ETH1);

elementclass Port { $port, $me |
  FromDevice($port) -> HostEtherFilter($me:eth) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  c[0] -> ARPResponder($me:ip $me:eth) -> out :: ToDevice($port);
  c[1] -> [1] arp :: ARPQuerier($me:ip, $me:eth) -> out;
  c[2] -> Strip(14) -> CheckIPHeader(INTERFACES $me:ipnet) -> output;
  c[3] -> Discard;
  input -> DropBroadcasts -> ttl :: DecIPTTL -> IPFragmenter(1500, HONOR_DF false) -> [0] arp;
  ttl[1] -> Discard;
}
in :: Port("$IN", clients);
out :: Port("$OUT", servers);

// Each new connection gets the next server; its packets stay with that one.
// SourceIPHashMapper instead keeps all of a client's connections together.
turn :: RoundRobinIPMapper(- - $SERVER0 - 0 1, - - $SERVER1 - 0 1);
rw :: IPRewriter(turn, drop);

in -> asked :: IPClassifier(dst host clients:ip and tcp dst port $SERVICE, icmp type echo and dst host clients:ip, -);
asked[0] -> [0] rw;
asked[1] -> ICMPPingResponder -> in;
asked[2] -> Discard;
out -> answer :: IPClassifier(tcp src port $SERVICE, -);
answer[0] -> [1] rw;
answer[1] -> Discard;
rw[0] -> out;
rw[1] -> in;
