# Two virtio NICs on one cable, each in a network namespace of its own. On PCI
# the model is the device; over vhost-user (BACK=vhost) it has the rings, and the
# rest of the device is QEMU's, which leaves filtering to its back end's cable.
a() { ip netns exec a "$@"; }
b() { ip netns exec b "$@"; }
carrier() { [ "$(ip netns exec $1 cat /sys/class/net/$2/carrier)" = 1 ]; }
# answered ADDRESS: waits until a ping is, from namespace a.
answered() { await 60 ip netns exec a ping -c 1 -W 1 $1; }
# listening N: whether so many ports of 5001 and up are listened on, in namespace b.
listening() { [ "$(b netstat -ltn | grep -cE ':50[01][0-9] ')" -ge $1 ]; }
up() {
    ip netns add a; ip netns add b
    ip link set eth0 netns a; ip link set eth1 netns b
    a ip addr add 10.0.0.1/24 dev eth0; b ip addr add 10.0.0.2/24 dev eth1
    a ip link set eth0 up; b ip link set eth1 up
    await 40 carrier a eth0 && await 40 carrier b eth1
}

modprobe 8021q
check "transport loads" modprobe virtio_pci
check "driver loads" modprobe virtio_net
check "two interfaces" await 20 test -d /sys/class/net/eth1
cat /sys/bus/virtio/devices/*/features
check "packed rings" grep -q '^.\{34\}1' /sys/bus/virtio/devices/virtio0/features
check "link" up
a ethtool eth0
check "speed" sh -c 'ip netns exec a ethtool eth0 | grep -q "Speed: 10000Mb/s"'
answered 10.0.0.2
check "ping" a ping -c 5 -i 0.2 -W 2 10.0.0.2

# 50 MB over TCP each way, compared at the other end.
mkdir /tmp/files
dd if=/dev/urandom of=/tmp/files/data bs=1M count=50 2>/dev/null
want=$(sha256sum </tmp/files/data)
a httpd -p 10.0.0.1:80 -h /tmp/files; b httpd -p 10.0.0.2:80 -h /tmp/files
transfer() { [ "$want" = "$($1 wget -q -O - http://$2/data | sha256sum)" ]; }
check "50 MB over TCP" transfer a 10.0.0.2
check "50 MB over TCP, the other way" transfer b 10.0.0.1
a ethtool -K eth0 tso off gso off >/dev/null
check "50 MB over TCP, not cut by the device" transfer b 10.0.0.1
a ethtool -K eth0 tx off >/dev/null
check "50 MB over TCP, checksums by Linux" transfer b 10.0.0.1
a ethtool -K eth0 tx on >/dev/null; a ethtool -K eth0 tso on gso on >/dev/null

echo flow >/tmp/flow
check "two queue pairs" sh -c \
    'ip netns exec a ethtool -L eth0 combined 2; ip netns exec b ethtool -L eth1 combined 2;
     ip netns exec b ethtool -l eth1 | tail -n 1 | grep -q 2'
for port in 5001 5002 5003 5004 5005 5006 5007 5008 5009 5010 5011 5012; do
    b nc -l -p $port >/dev/null &
done
await 20 listening 12
for port in 5001 5002 5003 5004 5005 5006 5007 5008 5009 5010 5011 5012; do
    a nc -w 1 10.0.0.2 $port </tmp/flow
done
wait
check "more than one queue receives" sh -c \
    '[ $(ip netns exec b ethtool -S eth1 | grep -cE "rx_queue_[0-9]+_packets: [1-9]") -ge 2 ]'
check "one queue pair" sh -c 'ip netns exec a ethtool -L eth0 combined 1; ip netns exec a ping -c 3 -i 0.2 10.0.0.2'

a ip link add link eth0 name v0 type vlan id 42; b ip link add link eth1 name v1 type vlan id 42
a ip addr add 10.0.42.1/24 dev v0; b ip addr add 10.0.42.2/24 dev v1
a ip link set v0 up; b ip link set v1 up
answered 10.0.42.2
check "VLAN" a ping -c 3 -i 0.2 -W 2 10.0.42.2
a ip link del v0; b ip link del v1

# A station that is not there: its frames count as received only when promiscuous.
a ip neigh replace 10.0.0.99 lladdr 02:00:00:00:00:99 dev eth0
received() { b cat /sys/class/net/eth1/statistics/rx_packets; }
absent() { a ping -q -c 10 -i 0.1 -W 1 10.0.0.99; }
before=$(received); absent; between=$(received)
b ip link set eth1 promisc on
absent; after=$(received)
echo "not promiscuous $before to $between, promiscuous to $after"
if [ $BACK = pci ]; then check "filtered" test $((between - before)) -lt 10; fi
check "promiscuous" test $((after - between)) -ge 10
b ip link set eth1 promisc off

check "address changed" sh -c \
    'ip netns exec a ip link set eth0 address 02:49:58:00:00:77 && ip netns exec a ping -c 3 -i 0.2 -W 2 10.0.0.2'
check "statistics" a ethtool -S eth0
check "driver's information" a ethtool -i eth0
if [ $BACK = pci ]; then # a back end would have to reset single rings
    check "ring sizes" a ethtool -G eth0 rx 512 tx 512
    answered 10.0.0.2
    check "ping after new rings" a ping -c 3 -i 0.2 -W 2 10.0.0.2
fi
a ip link set eth0 down; a ip link set eth0 up
answered 10.0.0.2
check "ping after down and up" a ping -c 3 -i 0.2 -W 2 10.0.0.2
check "no errors counted" sh -c \
    'ip netns exec b cat /sys/class/net/eth1/statistics/rx_errors | grep -qx 0'

check "driver unloads" rmmod virtio_net
ip netns del a; ip netns del b
check "driver loads again" modprobe virtio_net
await 20 test -d /sys/class/net/eth1
check "link again" up
answered 10.0.0.2
check "ping again" a ping -c 5 -i 0.2 -W 2 10.0.0.2
