# Two 82576s behind VFIO, for a driver in user space.
for nic in $(nics); do check "$nic to vfio-pci" vfio $nic; done
ulimit -l unlimited
# QEMU's igb silently drops a frame that it should send when the buffer crosses
# from one page into another that does not lie behind it in the guest's memory.
# Behind an IOMMU of 4 KiB pages that happens now and then; not in hugepages.
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M nodev /dev/hugepages
echo 64 >/proc/sys/vm/nr_hugepages
check "hugepages" grep -q 'HugePages_Total: *64' /proc/meminfo
# Nobody special: only the two groups are this user's, and locked memory.
echo 'user:x:1000:1000::/:/bin/sh' >/etc/passwd
chmod 666 /dev/vfio/vfio; chown 1000 /dev/vfio/[0-9]*
su user -c "vfio_guest igb $(echo $(nics))" 2>&1
check "program of an ordinary user ends well" test $? = 0
