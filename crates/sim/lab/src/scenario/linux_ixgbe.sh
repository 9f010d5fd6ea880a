# Two 82599s on one cable, each in a network namespace of its own.
a() { ip netns exec a "$@"; }
b() { ip netns exec b "$@"; }
carrier() { [ "$(ip netns exec $1 cat /sys/class/net/$2/carrier)" = 1 ]; }
# answered ADDRESS: waits until a ping is, from namespace a.
answered() { await 20 ip netns exec a ping -c 1 -W 1 $1; }
up() {
    ip netns add a; ip netns add b
    ip link set eth0 netns a; ip link set eth1 netns b
    a ip addr add 10.0.0.1/24 dev eth0; b ip addr add 10.0.0.2/24 dev eth1
    a ip link set eth0 up; b ip link set eth1 up
    await 20 carrier a eth0 && await 20 carrier b eth1
}
statistic() { ip netns exec $1 ethtool -S $2 | sed -n "s/^ *$3: //p"; }

modprobe 8021q
# Something to read from that never ends and never says anything.
mkfifo /tmp/silence; exec 9<>/tmp/silence
check "driver loads" modprobe ixgbe
check "two interfaces" await 20 test -d /sys/class/net/eth1
dmesg | grep -i ixgbe
check "link" up
a ethtool eth0
check "speed" sh -c 'ip netns exec a ethtool eth0 | grep -q "Speed: 10000Mb/s"'
answered 10.0.0.2
check "ping" a ping -c 5 -i 0.2 -W 2 10.0.0.2

# 50 MB over TCP, compared at the other end; several flows for RSS.
dd if=/dev/urandom of=/tmp/piece bs=1M count=10 2>/dev/null
want=$(cat /tmp/piece /tmp/piece /tmp/piece /tmp/piece /tmp/piece | sha256sum)
b sh -c 'nc -l -p 5000 <&9 | sha256sum >/tmp/sum' &
listener=$!
await 5 sh -c 'ip netns exec b netstat -ltn | grep -q :5000'
start=$(cut -d. -f1 /proc/uptime)
cat /tmp/piece /tmp/piece /tmp/piece /tmp/piece /tmp/piece | a nc 10.0.0.2 5000
wait $listener
echo "50 MB in $(($(cut -d. -f1 /proc/uptime) - start)) s"
check "50 MB over TCP" test "$want" = "$(cat /tmp/sum)"

echo flow >/tmp/flow
for port in 5001 5002 5003 5004 5005 5006 5007 5008 5009 5010 5011 5012; do
    b nc -l -p $port <&9 >/dev/null &
    flows="$flows $!"
done
usleep 500000
for port in 5001 5002 5003 5004 5005 5006 5007 5008 5009 5010 5011 5012; do
    a nc -w 1 10.0.0.2 $port </tmp/flow
done
wait $flows
b ethtool -S eth1 | grep -E 'rx_queue_[0-9]+_packets: [1-9]'
check "RSS on more than one queue" sh -c \
    '[ $(ip netns exec b ethtool -S eth1 | grep -cE "rx_queue_[0-9]+_packets: [1-9]") -ge 2 ]'

a ip link add link eth0 name v0 type vlan id 42; b ip link add link eth1 name v1 type vlan id 42
a ip addr add 10.0.42.1/24 dev v0; b ip addr add 10.0.42.2/24 dev v1
a ip link set v0 up; b ip link set v1 up
answered 10.0.42.2
check "VLAN" a ping -c 3 -i 0.2 -W 2 10.0.42.2
a ip link del v0; b ip link del v1

a ip link set eth0 mtu 9000; b ip link set eth1 mtu 9000
answered 10.0.0.2
check "jumbo" a ping -c 3 -i 0.2 -W 2 -M do -s 8900 10.0.0.2
a ip link set eth0 mtu 1500; b ip link set eth1 mtu 1500
answered 10.0.0.2

# A station that is not there: its frames count as received only when promiscuous.
a ip neigh replace 10.0.0.99 lladdr 02:00:00:00:00:99 dev eth0
received() { b cat /sys/class/net/eth1/statistics/rx_packets; }
absent() { a ping -q -c 10 -i 0.1 -W 1 10.0.0.99; }
before=$(received); absent; between=$(received)
b ip link set eth1 promisc on
# A read of the device, here of its EEPROM, which does not overtake the write above.
b ethtool -e eth1 offset 0 length 2 >/dev/null
absent; after=$(received)
echo "not promiscuous $before to $between, promiscuous to $after"
check "filtered" test $((between - before)) -lt 10
check "promiscuous" test $((after - between)) -ge 10
b ip link set eth1 promisc off

check "statistics" a ethtool -S eth0
check "no errors counted" sh -c \
    '! ip netns exec b ethtool -S eth1 | grep -E "(crc|length|csum_offload|long_length|short_length)_errors: [1-9]"'
check "EEPROM" a ethtool -e eth0 offset 0 length 64
if [ $ID = 10fb ]; then
    check "module" sh -c 'ip netns exec a ethtool -m eth0 | grep -q "Vendor name"'
fi
check "driver's information" a ethtool -i eth0
check "pause parameters" a ethtool -a eth0
check "coalescing" a ethtool -C eth0 rx-usecs 50
check "ring sizes" a ethtool -G eth0 rx 1024 tx 1024
answered 10.0.0.2
check "ping after new rings" a ping -c 3 -i 0.2 -W 2 10.0.0.2
check "driver unloads" modprobe -r ixgbe
ip netns del a; ip netns del b
check "driver loads again" modprobe ixgbe
await 20 test -d /sys/class/net/eth1
check "link again" up
answered 10.0.0.2
check "ping again" a ping -c 5 -i 0.2 -W 2 10.0.0.2

# Up to here the linter judges: what follows goes to forbidden places on purpose.
listen
echo "LAB: judge"
hear
check "register dump" sh -c 'ip netns exec a ethtool -d eth0 | grep -q -i LINKS'
# The register test wants the low bits of RDLEN to stay zero; the ring registers
# are plain memory here, as the model polls them. The other four must pass.
a ethtool -t eth0 offline >/tmp/selftest; cat /tmp/selftest
for part in Eeprom Interrupt Loopback Link; do
    check "self-test: $part" sh -c "grep -q '^$part.*	 0$' /tmp/selftest"
done
check "self-test: no register but RDLEN" sh -c "grep -Eq '^Register.*	 (0|4104)$' /tmp/selftest"
answered 10.0.0.2
check "ping after the self-test" a ping -c 3 -i 0.2 -W 2 10.0.0.2
