# Two XL710s on one cable, each in a network namespace of its own.
function=$(nics | head -n 1)
# reset WORD: through the driver's own debugging interface.
reset() { echo $1 >/sys/kernel/debug/i40e/$function/command; }

mount -t debugfs debug /sys/kernel/debug
begun i40e 40000Mb/s
check "TSO is on" sh -c 'ip netns exec a ethtool -k eth0 | grep -q "tcp-segmentation-offload: on"'
transferred
spread 'rx-[0-9]+.packets: [1-9]'
tagged
long
filtered
queried '(crc|length|csum|oversize|undersize)_(errors|error|bad): [1-9]'
check "negotiation anew" a ethtool -r eth0
check "link after that" await 20 carrier a eth0
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
