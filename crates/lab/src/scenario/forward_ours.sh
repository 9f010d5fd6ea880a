# Our forwarder between two NICs: by VFIO as an ordinary user, or by sysfs as root.
check "two NICs" test $(nics | wc -l) = 2
echo 64 >/proc/sys/vm/nr_hugepages
check "hugepages" grep -q 'HugePages_Total: *64' /proc/meminfo
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M,mode=1777 nodev /dev/hugepages
command="ixora fwd $(echo $(nics)) --count $COUNT"
echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
if [ $WAY = vfio ]; then
    for nic in $(nics); do check "$nic to vfio-pci" vfio $nic; done
    ulimit -l unlimited
    chmod 666 /dev/vfio/vfio; chown 65534 /dev/vfio/[0-9]*
    command="su nobody -c '$command'"
fi
sh -c "$command" >/tmp/forward 2>&1 &
if await 30 grep -q Mpps /tmp/forward; then echo "LAB: ready"; else fail "the forwarder starts" "no rate"; fi
wait $!
check "the forwarder ends well" test $? = 0
cat /tmp/forward
check "counts agree" grep -q "received $COUNT packets, sent $COUNT" /tmp/forward
