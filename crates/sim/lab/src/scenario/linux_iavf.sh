# Virtual functions of two XL710s or X722s on one cable, each in a network namespace of its own. Our driver
# hosts them outside.

# The driver asks for the device's counters now and then only: those of its rings are as they are.
received() { b ethtool -S eth1 | awk '/rx-[0-9]+.packets/ { sum += $2 } END { print sum }'; }

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
# Their hosts end and others come. Nothing is sent meanwhile: a transmit queue that had packets under
# way then was stopped for Linux 6.1 until its module was loaded anew (the cause was not found).
listen
echo "LAB: hosts"
hear
answered 10.0.0.2
check "ping after other hosts came" a ping -c 3 -i 0.2 -W 2 10.0.0.2
dmesg | grep -i iavf | tail -n 30
again iavf
judged
