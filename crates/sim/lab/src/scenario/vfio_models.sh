# Two cards of each family and a virtual function of each, all behind VFIO: our drivers of the
# virtual functions with hosts of ours, then those of the cards.
for nic in $(nics); do check "$nic to vfio-pci" vfio $nic; done
ulimit -l unlimited
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M,mode=1777 nodev /dev/hugepages
echo 64 >/proc/sys/vm/nr_hugepages
check "hugepages" grep -q 'HugePages_Total: *64' /proc/meminfo
# Nobody special: only the groups are this user's, and locked memory.
echo 'user:x:1000:1000::/:/bin/sh' >/etc/passwd
chmod 666 /dev/vfio/vfio; chown 1000 /dev/vfio/[0-9]*
# of ID: the addresses of the NICs with a device id.
of() {
    for nic in $(nics); do
        [ "$(cat /sys/bus/pci/devices/$nic/device)" = "0x$1" ] && echo $nic
    done
}
# family CARD DRIVER VF DRIVER: their device ids and drivers.
family() {
    hosts=
    for card in $(of $1); do
        n=$(($(echo $hosts | wc -w) + 1))
        policy="0,mac=02:49:58:00:00:0$n,trust,spoofcheck=off"
        su user -c "exec ixora pf $card --vfs 1 --vf $policy" >/tmp/$2-$n 2>&1 &
        hosts="$hosts $!"
        check "$2 hosts a virtual function of $card" await 60 grep -q 'hosting virtual function 0' /tmp/$2-$n
    done
    su user -c "vfio_guest $4 $(echo $(of $3))" 2>&1
    check "$4: program of an ordinary user ends well" test $? = 0
    # The first host resets its own under the driver, which begins anew.
    su user -c "vfio_guest $4-reset $(echo $(of $3))" >/tmp/reset-$4 2>&1 &
    program=$!
    check "$4: they work" await 60 grep -q READY /tmp/reset-$4
    kill -USR1 $(echo $hosts | cut -d" " -f1)
    wait $program
    check "$4: likewise behind a reset" test $? = 0
    cat /tmp/reset-$4
    for host in $hosts; do
        kill -INT $host
        check "a host ends well" wait $host
    done
    cat /tmp/$2-*
    su user -c "vfio_guest $2 $(echo $(of $1))" 2>&1
    check "$2: program of an ordinary user ends well" test $? = 0
}
family 1583 i40e 154c iavf
family 10fb ixgbe 10ed ixgbevf
