// A tunnel endpoint: frames of the network 100 cross an underlay in VXLAN.
//
//   ixora click conf/overlay.click INNER=tap:blue UP=af_packet:eth1
//   ixora click conf/overlay.click INNER=model:82599,wire=gen:rate=1k UP=model:82599
//
// The table has the keys of `ixora overlay` (docs/overlays.md), without those that name
// ports. Show it with `ixora click … -h fib.table`, change it with fib.add and fib.remove.

fib :: OverlayFIB(TEXT "
	[[underlay]]
	name = 'up'
	mac = '02:00:00:00:00:01'
	addresses = ['192.0.2.1/24']
	neighbors = { '192.0.2.2' = '02:00:00:00:00:02' }

	[[network]]
	number = 100
	protocol = 'vxlan'
	flood = ['192.0.2.2']

	[[network.entry]]
	key = '02:00:00:00:0b:01'
	remote = '192.0.2.2'
");

FromDevice("$INNER") -> OverlayEncap(fib, 100) -> up :: Queue(1024) -> ToDevice("$UP");

// What is no tunnel's: whoever asks for this end gets an answer.
FromDevice("$UP") -> out :: OverlayDecap(fib, 100);
out[1] -> Queue(1024) -> ToDevice("$INNER");
out[0] -> arp :: Classifier(12/0806 20/0001, -);
arp[0] -> ARPResponder(192.0.2.1 02:00:00:00:00:01) -> up;
arp[1] -> Discard;
