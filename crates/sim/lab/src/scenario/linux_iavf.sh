# Virtual functions of two XL710s or X722s on one cable, each in a network namespace of its own. Our driver
# hosts them outside.

# The driver asks for the device's counters now and then only: those of its rings are as they are.
received() { b ethtool -S eth1 | awk '/rx-[0-9]+.packets/ { sum += $2 } END { print sum }'; }

# flowing: TCP from a to b, and pings to several addresses, so that each transmit queue has some, until
# /tmp/enough is there. After a reset Linux 6.1 gives its queues packets a moment before the host has started
# them: if the device did not send them then, TCP, which sends nothing again that waits in its own host,
# would rest for good.
flowing() {
    mkfifo /tmp/sent
    b sh -c 'timeout 500 nc -l -p 5000 <&9 | sha256sum >/tmp/sum' &
    await 5 sh -c 'ip netns exec b netstat -ltn | grep -q :5000'
    sha256sum </tmp/sent >/tmp/want &
    sums=$!
    (until [ -f /tmp/enough ]; do cat /tmp/piece; done) | tee /tmp/sent | a timeout 500 nc 10.0.0.2 5000 &
    flow=$!
    for n in 3 4 5 6 7 8; do b ip addr add 10.0.0.$n/24 dev eth1; done
    (until [ -f /tmp/enough ]; do
        for n in 2 3 4 5 6 7 8; do a ping -c 1 -W 1 10.0.0.$n; done
        usleep 100000
    done) >/tmp/pings 2>&1 &
    pings=$!
}
# Segments of TCP that came to b, and pings that were answered.
segments() { b awk '/^Tcp: [0-9]/ { print $11 }' /proc/net/snmp; }
answers() { grep -c 'bytes from' /tmp/pings; }
# more WHAT N: whether that is beyond N.
more() { [ $($1) -gt $2 ]; }
flows() { await 90 more segments $(($(segments) + 200)) || { where a eth0; where b eth1; false; }; }
# where NAMESPACE INTERFACE: what its queues, its vectors and its connections say, of traffic that rests.
where() {
    echo "--- $2"
    $1 ethtool -S $2 | grep -v ' 0$'
    $1 sh -c "cd /sys/class/net/$2/queues && grep . tx-*/tx_timeout tx-*/byte_queue_limits/inflight"
    grep "$2" /proc/interrupts
    $1 netstat -tn | grep :5000
}
pinged() { await 60 more answers $(($(answers) + 3)); }
# told N: whether the kernel's log has so many resets by a host: the message of it, or what the registers
# told where the mailbox was gone before that was read.
told() { [ $(dmesg | grep -cE 'Reset indication received|Hardware reset detected') -ge $1 ]; }

begun iavf $SPEED
check "TSO is on" sh -c 'ip netns exec a ethtool -k eth0 | grep -q "tcp-segmentation-offload: on"'
transferred
spread 'rx-[0-9]+.packets: [1-9]'
tagged
long
filtered
queried '(rx_unknown_protocol|tx_errors): [1-9]'
# Linux 6.1 waits five seconds for the reset that this takes, with the lock held that the reset
# takes too: it says that it is busy, and does it then. So it is with the MTU.
asked() { a ethtool -G eth0 rx 1024 tx 1024 || true; }
resized asked
# One host after the other resets its virtual function while packets are under way. TCP sends again what
# was lost, the driver is told, and all that was sent arrives.
listen
flowing
for n in 1 2; do
    check "packets are under way before reset $n" flows
    echo "LAB: reset $n"
    hear
    check "the driver is told of reset $n" await 60 told $n
    check "packets come after reset $n" flows
    check "pings are answered after reset $n" pinged
done
# Their hosts end and others come.
check "packets are under way before other hosts come" flows
echo "LAB: hosts"
hear
check "the drivers are told of other hosts" await 60 told 4
check "packets come after other hosts came" flows
check "pings are answered after other hosts came" pinged
echo enough >/tmp/enough
wait $flow $sums $pings
echo "LAB: no more resets"
hear
check "what was sent under resets arrived" test "$(cat /tmp/want)" = "$(cat /tmp/sum)"
dmesg | grep -i iavf | tail -n 30
again iavf
judged
