// A firewall on a cable: two ports, no addresses of its own. Hosts inside may begin
// what the rules allow; from outside only answers come in, and a web server's clients.
//   ixora click conf/firewall.click IN=af_packet:eth1 OUT=af_packet:eth2 WEB=10.0.1.80
define($IN af_packet:eth1, $OUT af_packet:eth2, $WEB 10.0.1.80);

// A port: frames to send come in; IPv4 frames and ARP frames that were received go out.
elementclass Port { $port |
  input -> ToDevice($port);
  FromDevice($port) -> c :: Classifier(12/0800, 12/0806, -);
  c[0] -> CheckIPHeader(14) -> [0] output;
  c[1] -> [1] output;
  c[2] -> Discard; // IPv6 and all else
}
in :: Port("$IN");
out :: Port("$OUT");
in[1] -> out; // ARP passes
out[1] -> in;

// Flows that are known pass both ways. Input 0: whoever is inside begins one; input 1:
// nobody outside does; input 2: but the web server's clients may.
flows :: IPRewriter(keep 0 1, drop, keep 1 0);
flows[0] -> out;
flows[1] -> in;

in -> rules :: IPFilter(
  1 icmp type echo,                          // ping others
  1 icmp type echo-reply,
  0 udp dst port 53 or udp dst port 123,     // names and the time
  0 tcp dst port 80 or tcp dst port 443,     // the web
  0 src host $WEB and tcp src port 80,       // our own web server's answers
  deny all);
rules[0] -> [0] flows;
rules[1] -> out;

out -> guests :: IPClassifier(
  dst host $WEB and tcp dst port 80,
  icmp type echo-reply or icmp type unreachable or icmp type timeexceeded,
  tcp or udp,
  -);
guests[0] -> [2] flows;
guests[1] -> in;
guests[2] -> [1] flows;
guests[3] -> denied :: Discard;
