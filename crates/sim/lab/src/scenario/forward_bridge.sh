# Linux's bridge between two NICs.
modprobe igb; modprobe bridge
check "two interfaces" await 20 test -d /sys/class/net/eth1
# Linux's own frames would be counted among those sent.
for which in all default; do sysctl -q -w net.ipv6.conf.$which.disable_ipv6=1; done
ip link add br0 type bridge
for nic in eth0 eth1; do
    ip link set $nic master br0; ip link set $nic up
done
ip link set br0 up
forwarding() { [ "$(cat /sys/class/net/eth[01]/brport/state | tr -d '\n')" = 33 ]; }
check "forwarding" await 60 forwarding
listen
echo "LAB: ready"
hear # the last frame is back
check "frames sent" test "$(cat /sys/class/net/eth1/statistics/tx_packets)" -ge $COUNT
