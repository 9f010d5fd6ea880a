# Two 82576s behind VFIO, for a driver in user space.
modprobe vfio_iommu_type1; modprobe vfio_pci
for device in 0000:01:00.0 0000:02:00.0; do
    echo vfio-pci >/sys/bus/pci/devices/$device/driver_override
    echo $device >/sys/bus/pci/drivers_probe
done
ulimit -l unlimited
# QEMU's igb silently drops a frame that it should send when the buffer crosses
# from one page into another that does not lie behind it in the guest's memory.
# Behind an IOMMU of 4 KiB pages that happens now and then; not in hugepages.
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M nodev /dev/hugepages
echo 64 >/proc/sys/vm/nr_hugepages
check "hugepages" grep -q 'HugePages_Total: *64' /proc/meminfo
check "vfio" test -c /dev/vfio/vfio
# Nobody special: only the two groups are this user's, and locked memory.
echo 'user:x:1000:1000::/:/bin/sh' >/etc/passwd
chmod 666 /dev/vfio/vfio; chown 1000 /dev/vfio/[0-9]*
echo "/lab/ld.so --library-path /lab/lib /lab/igb_guest $WORDS 0000:01:00.0 0000:02:00.0" >/lab/run
su user -c "sh /lab/run" 2>&1
check "program of an ordinary user ends well" test $? = 0
