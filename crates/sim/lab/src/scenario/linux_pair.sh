# Two NICs on one cable, each in a network namespace of its own: what is looked at with
# any driver of Linux's.
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

# begun DRIVER SPEED: from the module to the first pings.
begun() {
    modprobe 8021q
    # Something to read from that never ends and never says anything.
    mkfifo /tmp/silence; exec 9<>/tmp/silence
    check "driver loads" modprobe $1
    check "two interfaces" await 20 test -d /sys/class/net/eth1
    dmesg | grep -i $1
    check "link" up
    a ethtool eth0
    check "speed" sh -c "ip netns exec a ethtool eth0 | grep -q 'Speed: $2'"
    answered 10.0.0.2
    check "ping" a ping -c 5 -i 0.2 -W 2 10.0.0.2
}

# transferred: 50 MB over TCP, compared at the other end.
transferred() {
    dd if=/dev/urandom of=/tmp/piece bs=1M count=10 2>/dev/null
    want=$(cat /tmp/piece /tmp/piece /tmp/piece /tmp/piece /tmp/piece | sha256sum)
    b sh -c 'timeout 300 nc -l -p 5000 <&9 | sha256sum >/tmp/sum' &
    listener=$!
    await 5 sh -c 'ip netns exec b netstat -ltn | grep -q :5000'
    start=$(cut -d. -f1 /proc/uptime)
    cat /tmp/piece /tmp/piece /tmp/piece /tmp/piece /tmp/piece | a timeout 300 nc 10.0.0.2 5000
    wait $listener
    echo "50 MB in $(($(cut -d. -f1 /proc/uptime) - start)) s"
    check "50 MB over TCP" test "$want" = "$(cat /tmp/sum)"
}

# spread PATTERN: several flows for RSS; what the statistics say of a queue that has received.
spread() {
    echo flow >/tmp/flow
    for port in 5001 5002 5003 5004 5005 5006 5007 5008 5009 5010 5011 5012; do
        b timeout 60 nc -l -p $port <&9 >/dev/null &
        flows="$flows $!"
    done
    await 20 listening 12
    for port in 5001 5002 5003 5004 5005 5006 5007 5008 5009 5010 5011 5012; do
        a nc -w 1 10.0.0.2 $port </tmp/flow
    done
    wait $flows
    b ethtool -S eth1 | grep -E "$1"
    check "RSS on more than one queue" sh -c "[ \$(ip netns exec b ethtool -S eth1 | grep -cE '$1') -ge 2 ]"
}

# tagged: a VLAN. long: frames of 9,000 bytes.
tagged() {
    a ip link add link eth0 name v0 type vlan id 42; b ip link add link eth1 name v1 type vlan id 42
    a ip addr add 10.0.42.1/24 dev v0; b ip addr add 10.0.42.2/24 dev v1
    a ip link set v0 up; b ip link set v1 up
    answered 10.0.42.2
    check "VLAN" a ping -c 3 -i 0.2 -W 2 10.0.42.2
    a ip link del v0; b ip link del v1
}
long() {
    a ip link set eth0 mtu 9000; b ip link set eth1 mtu 9000
    answered 10.0.0.2
    check "jumbo" a ping -c 3 -i 0.2 -W 2 -M do -s 8900 10.0.0.2
    a ip link set eth0 mtu 1500; b ip link set eth1 mtu 1500
    answered 10.0.0.2
}

# filtered: a station that is not there; its frames count as received only when promiscuous.
received() { b cat /sys/class/net/eth1/statistics/rx_packets; }
wanted() {
    before=$(received)
    a ping -q -c 10 -i 0.1 -W 1 10.0.0.99
    [ $(($(received) - before)) -ge 10 ]
}
unwanted() { ! wanted; }
filtered() {
    a ip neigh replace 10.0.0.99 lladdr 02:00:00:00:00:99 dev eth0
    check "filtered" unwanted
    b ip link set eth1 promisc on
    # The driver may tell the device later, and QEMU does not wait for a write.
    check "promiscuous" await 60 wanted
    b ip link set eth1 promisc off
}

# of_the_card: what only a driver of a whole card tells.
of_the_card() {
    check "EEPROM" a ethtool -e eth0 offset 0 length 64
    check "pause parameters" a ethtool -a eth0
}

# queried PATTERN: what the driver tells and takes; errors are what the pattern finds.
queried() {
    check "statistics" a ethtool -S eth0
    check "no errors counted" sh -c "! ip netns exec b ethtool -S eth1 | grep -E '$1'"
    check "driver's information" a ethtool -i eth0
    check "coalescing" a ethtool -C eth0 rx-usecs 50
}

# resized COMMAND…: other rings, after the command that asks for them.
rings() { a ethtool -g eth0 | sed -n '/^Current/,$p' | grep -q '^RX:.*1024'; }
resized() {
    check "ring sizes" "$@"
    check "ring sizes told" await 20 rings
    answered 10.0.0.2
    check "ping after new rings" a ping -c 3 -i 0.2 -W 2 10.0.0.2
}

# again DRIVER: the module is unloaded and loaded.
again() {
    check "driver unloads" modprobe -r $1
    ip netns del a; ip netns del b
    check "driver loads again" modprobe $1
    await 20 test -d /sys/class/net/eth1
    check "link again" up
    answered 10.0.0.2
    check "ping again" a ping -c 5 -i 0.2 -W 2 10.0.0.2
}

# judged: up to here the linter judges; what follows goes to forbidden places on purpose.
judged() {
    listen
    echo "LAB: judge"
    hear
}
# tested PART…: parts of the driver's own diagnosis that must pass.
tested() {
    a ethtool -t eth0 offline >/tmp/selftest; cat /tmp/selftest
    for part in "$@"; do
        check "self-test: $part" sh -c "grep -q '^$part.*	 0$' /tmp/selftest"
    done
}
recovered() {
    answered 10.0.0.2
    check "ping after the self-test" a ping -c 3 -i 0.2 -W 2 10.0.0.2
}
