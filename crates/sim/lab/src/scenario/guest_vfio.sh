# Two 82576 behind an IOMMU: hugepages, vfio-pci, and our program starts.
check "program starts" ixora --version
check "hugepages" sh -c 'echo 32 >/proc/sys/vm/nr_hugepages; grep -q "HugePages_Total: *32" /proc/meminfo'
check "two NICs" test $(nics | wc -l) = 2
for nic in $(nics); do
    check "$nic to vfio-pci" vfio $nic
    check "$nic has a group" test -e /dev/vfio/$(basename $(readlink /sys/bus/pci/devices/$nic/iommu_group))
done
ixora doctor
