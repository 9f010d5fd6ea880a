# DPDK's testpmd on two NICs by VFIO. The host talks to it over the second
# serial line: a line of arguments starts it, `end` is the last.
check "two NICs" test $(nics | wc -l) = 2
for nic in $(nics); do check "$nic to vfio-pci" vfio $nic; done
echo 80 >/proc/sys/vm/nr_hugepages
check "hugepages" grep -q 'HugePages_Total: *80' /proc/meminfo
chmod 755 / # or DPDK loads no driver
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M nodev /dev/hugepages
listen
echo "LAB: ready"
while read -r words <&3 && [ "$words" != end ]; do
    dpdk-testpmd $words <&3 >&3 2>&1
    echo "ended with $?" >&3
done
