# Two 82576s, hosted by Linux's igb; a virtual function of each is for a driver in user space.
# Nothing is on the cable but what that sends.
for of in all default; do echo 1 >/proc/sys/net/ipv6/conf/$of/disable_ipv6; done 2>/dev/null
cards=$(nics)
check "igb loads" modprobe igb
check "two interfaces" await 20 test -d /sys/class/net/eth1
for card in $cards; do
    check "$card has a virtual function" sh -c "echo 1 >/sys/bus/pci/devices/$card/sriov_numvfs"
done
dmesg | grep -iE 'igb|sr-iov|BAR'
for n in 0 1; do
    ip link set eth$n mtu 9000
    check "eth$n gives it an address" ip link set eth$n vf 0 mac 02:49:58:00:00:0$((n + 1))
    check "eth$n trusts it" ip link set eth$n vf 0 trust on
    check "eth$n is up" ip link set eth$n up
done
vfs=$(for n in 0 1; do basename "$(readlink /sys/class/net/eth$n/device/virtfn0)"; done)
for vf in $vfs; do check "$vf to vfio-pci" vfio $vf; done
check "link" await 40 sh -c '[ $(cat /sys/class/net/eth0/carrier)$(cat /sys/class/net/eth1/carrier) = 11 ]'
ulimit -l unlimited
# QEMU's igb silently drops a frame whose buffer crosses into a page elsewhere: see igb.sh.
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M nodev /dev/hugepages
echo 64 >/proc/sys/vm/nr_hugepages
check "hugepages" grep -q 'HugePages_Total: *64' /proc/meminfo
# Nobody special: only the two groups are this user's, and locked memory.
echo 'user:x:1000:1000::/:/bin/sh' >/etc/passwd
chmod 666 /dev/vfio/vfio; chown 1000 /dev/vfio/[0-9]*
su user -c "vfio_guest igbvf $(echo $vfs)" 2>&1
check "program of an ordinary user ends well" test $? = 0
# The card is reset under the driver, and begins anew.
su user -c "vfio_guest igbvf-reset $(echo $vfs)" >/tmp/reset 2>&1 &
program=$!
check "they work" await 60 grep -q READY /tmp/reset
ip link set eth0 down; ip link set eth0 up
wait $program
check "likewise behind a reset" test $? = 0
cat /tmp/reset
ip link show; dmesg | tail -n 20
