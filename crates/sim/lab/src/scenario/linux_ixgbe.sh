# Two 82599s on one cable, each in a network namespace of its own.
begun ixgbe 10000Mb/s
transferred
spread 'rx_queue_[0-9]+_packets: [1-9]'
tagged
long
filtered
of_the_card
queried '(crc|length|csum_offload|long_length|short_length)_errors: [1-9]'
resized a ethtool -G eth0 rx 1024 tx 1024
if [ $ID = 10fb ]; then
    check "module" sh -c 'ip netns exec a ethtool -m eth0 | grep -q "Vendor name"'
fi
again ixgbe
judged
check "register dump" sh -c 'ip netns exec a ethtool -d eth0 | grep -q -i LINKS'
# The register test wants the low bits of RDLEN to stay zero; the ring registers
# are plain memory here, as the model polls them. The other four must pass.
tested Eeprom Interrupt Loopback Link
check "self-test: no register but RDLEN" sh -c "grep -Eq '^Register.*	 (0|4104)$' /tmp/selftest"
recovered
