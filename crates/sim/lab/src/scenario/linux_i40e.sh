# Two XL710s on one cable, or two X722s, each in a network namespace of its own.
function=$(nics | head -n 1)
# reset WORD: through the driver's own debugging interface.
reset() { echo $1 >/sys/kernel/debug/i40e/$function/command; }

# packets QUEUE: what a receive queue of eth1 has counted.
packets() { b ethtool -S eth1 | sed -n "s/^ *rx-$1.packets: //p"; }
# pings COUNT: whether so many of ten pings are answered.
pings() { a ping -q -c 10 -i 0.1 -W 1 10.0.0.2 | grep -q ", $1 received"; }
# came QUEUE: whether pings come to a queue, by its counter.
came() {
    before=$(packets $1)
    pings 10 && [ $(($(packets $1) - before)) -ge 10 ]
}
# steered: a flow led to one queue, to the other, and dropped, by filters of eth1.
steered() {
    for queue in 0 1; do
        check "filter: queue $queue" b ethtool -N eth1 flow-type ip4 src-ip 10.0.0.1 dst-ip 10.0.0.2 action $queue loc 5
        check "pings come to queue $queue" await 5 came $queue
    done
    check "filter: drop" b ethtool -N eth1 flow-type ip4 src-ip 10.0.0.1 dst-ip 10.0.0.2 action -1 loc 5
    check "no ping comes" await 5 pings 0
    check "filter: removed" b ethtool -N eth1 delete 5
    check "pings come again" await 5 pings 10
    b ethtool -S eth1 | grep fdir
    check "matches are counted" sh -c "ip netns exec b ethtool -S eth1 | grep -q 'fdir_sb_match: [1-9]'"
}

# hashed: key and table of the hash as they were set.
hashed() {
    key=$(seq 1 52 | while read n; do printf ':%02x' $n; done)
    check "hash: key and table" b ethtool -X eth1 hkey ${key#:} equal 2
    b ethtool -x eth1 | grep -v 'off$' | head -n 70
    check "hash: the key is told" sh -c "ip netns exec b ethtool -x eth1 | grep -q ${key#:}"
    check "hash: the table is told" sh -c "ip netns exec b ethtool -x eth1 | grep -q '504: *0 *1 *0 *1 *0 *1 *0 *1'"
    check "hash: back to the default" b ethtool -X eth1 default
}

mount -t debugfs debug /sys/kernel/debug
begun i40e $SPEED
check "TSO is on" sh -c 'ip netns exec a ethtool -k eth0 | grep -q "tcp-segmentation-offload: on"'
transferred
spread 'rx-[0-9]+.packets: [1-9]'
hashed
tagged
long
filtered
steered
of_the_card
queried '(crc|length|csum|oversize|undersize)_(errors|error|bad): [1-9]'
resized a ethtool -G eth0 rx 1024 tx 1024
check "negotiation anew" a ethtool -r eth0
check "link after that" await 40 carrier a eth0
for kind in pfr corer globr; do
    check "reset: $kind" reset $kind
    answered 10.0.0.2
    check "ping after $kind" a ping -c 3 -i 0.2 -W 2 10.0.0.2
done
dmesg | grep -i i40e | tail -n 30
again i40e
judged
check "register dump" sh -c 'ip netns exec a ethtool -d eth0 | grep -q -i 0x'
# The test of interrupts is left out: it waits for a millisecond, and QEMU may take longer.
tested Register Eeprom Link
recovered
