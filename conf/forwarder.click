// The paper's forwarder: what comes in at one port leaves at the other, both ways.
//   ixora click conf/forwarder.click A=af_packet:eth1 B=af_packet:eth2
//   ixora click conf/forwarder.click A=model:82599 B=model:82599,wire=gen:rate=1M
//   ixora click conf/forwarder.click A=0000:03:00.0 B=0000:03:00.1 -j 2 -a
FromDevice("$A") -> EtherMirror -> ToDevice("$B");
FromDevice("$B") -> EtherMirror -> ToDevice("$A");
