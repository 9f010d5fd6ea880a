# Virtual functions of two 82599s on one cable, each in a network namespace of its own. Our driver
# hosts them outside.

begun ixgbevf 10000Mb/s
check "TSO is on" sh -c 'ip netns exec a ethtool -k eth0 | grep -q "tcp-segmentation-offload: on"'
transferred
spread 'rx_queue_[0-9]+_packets: [1-9]'
tagged
long
# A pool of the 82599 has no mode of all frames.
a ip neigh replace 10.0.0.99 lladdr 02:00:00:00:00:99 dev eth0
check "filtered" unwanted
queried '(rx_csum_offload_errors|tx_timeout_count): [1-9]'
resized a ethtool -G eth0 rx 1024 tx 1024
# Their hosts end and others come. Linux 6.1 takes its link for down then, and begins anew only when it
# is refused something, which our host does not do unasked: it works again when its module is loaded.
listen
echo "LAB: hosts"
hear
dmesg | grep -i ixgbevf | tail -n 30
again ixgbevf
judged
