# Two NICs on one cable. Our programs on both; then Linux on one, ours on the other.
nics=$(nics); a=${nics%%[[:space:]]*}; b=${nics##*[[:space:]]}
for nic in $a $b; do check "$nic to vfio-pci" vfio $nic; done
echo 64 >/proc/sys/vm/nr_hugepages
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M,mode=1777 nodev /dev/hugepages
echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
ulimit -l unlimited
chmod 666 /dev/vfio/vfio; chown 65534 /dev/vfio/[0-9]*
# start PROGRAM WORDS…: one of ours as nobody, in the background; says in /tmp/PROGRAM.
start() {
    rm -f /tmp/$1
    su nobody -c "ixora $*" >/tmp/$1 2>&1 &
    started=$!
    await 30 grep -q '[0-9] [kM]*pps' /tmp/$1
}

# A capture of what a generator sends, read by somebody else.
check "pcap starts" start pcap $b /tmp/file.pcapng --count 2000
su nobody -c "ixora pktgen $a --count 2000 --rate 5k --allow-short --to ff:ff:ff:ff:ff:ff --size 128 --flows 4" >/tmp/pktgen 2>&1
check "pktgen ends well" test $? = 0
await 20 grep -q '^pcap:' /tmp/pcap; wait $started
check "pcap ends well" test $? = 0
cat /tmp/pktgen /tmp/pcap
check "pktgen sent all" grep -q 'sent 2000' /tmp/pktgen
check "pcap received all" grep -q 'received 2000 packets' /tmp/pcap
su nobody -c 'tcpdump -n -e -r /tmp/file.pcapng' >/tmp/frames; head -n 2 /tmp/frames
check "the file has all frames" test "$(wc -l </tmp/frames)" = 2000
check "the file has all bytes of them" test "$(grep -c 'length 124: .* UDP' /tmp/frames)" = 2000
check "four flows" test "$(grep -o '10.0.0.1.[0-9]* > ' /tmp/frames | sort -u | wc -l)" = 4

# A host that answers: Linux asks.
echo >/sys/bus/pci/devices/$a/driver_override
echo $a >/sys/bus/pci/drivers/vfio-pci/unbind
for module in $MODULES; do modprobe $module; done
echo $a >/sys/bus/pci/drivers_probe
check "Linux has one NIC" await 20 test -d /sys/class/net/eth0
check "echo starts" start echo $b --ip 10.0.0.2
ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up
await 60 ping -c 1 -W 1 10.0.0.2
check "ping is answered" ping -c 20 -i 0.2 -W 2 10.0.0.2
check "long ping is answered" ping -c 5 -i 0.2 -W 2 -s 1472 -M do 10.0.0.2
ip neigh show dev eth0
killall -TERM ixora; wait $started
check "echo ends well" test $? = 0
cat /tmp/echo
