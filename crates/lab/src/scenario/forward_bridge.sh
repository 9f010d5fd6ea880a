# Linux's bridge between two NICs.
modprobe igb; modprobe bridge
check "two interfaces" await 20 test -d /sys/class/net/eth1
ip link add br0 type bridge
for nic in eth0 eth1; do
    sysctl -q -w net.ipv6.conf.$nic.disable_ipv6=1
    ip link set $nic master br0; ip link set $nic up
done
ip link set br0 up
forwarding() { [ "$(cat /sys/class/net/$1/brport/state)" = 3 ]; }
check "forwarding" await 40 forwarding eth1
echo "LAB: ready"
# The host sends; what the second NIC has sent tells that it is over.
sent() { [ "$(cat /sys/class/net/eth1/statistics/tx_packets)" -ge $COUNT ]; }
check "frames sent" await 200 sent
sleep 1
