# Our forwarder between two NICs: by VFIO as an ordinary user, or by sysfs as root.
# First COUNT frames, then as many as the host offers until it has seen enough.
check "two NICs" test $(nics | wc -l) = 2
echo 64 >/proc/sys/vm/nr_hugepages
check "hugepages" grep -q 'HugePages_Total: *64' /proc/meminfo
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M,mode=1777 nodev /dev/hugepages
echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
if [ $WAY = vfio ]; then
    for nic in $(nics); do check "$nic to vfio-pci" vfio $nic; done
    ulimit -l unlimited
    chmod 666 /dev/vfio/vfio; chown 65534 /dev/vfio/[0-9]*
fi
export IXORA_LOG=debug
# start WORDS…: the forwarder in the background; what it says is in /tmp/forward.
start() {
    command="ixora fwd $(echo $(nics)) $*"
    if [ $WAY = vfio ]; then command="su nobody -c '$command'"; fi
    rm -f /tmp/forward
    sh -c "$command" >/tmp/forward 2>&1 &
    forwarder=$!
    await 30 grep -q '[0-9] [kM]*pps' /tmp/forward
}
# rights: what the forwarder's threads may do, all of them (proc(5)).
rights() {
    tasks=$(grep -l ^fwd- /proc/[0-9]*/task/*/comm | head -n 1 | cut -d / -f 1-4)
    grep -hE '^(Uid|CapEff|NoNewPrivs|Seccomp):' $tasks/*/status | sort -u | tr -s '\t\n' ' '
}
listen

check "the forwarder starts" start --count $COUNT
expected="CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 Uid: 65534 65534 65534 65534 "
check "the forwarder is confined" test "$(rights)" = "$expected"
echo "LAB: ready"
wait $forwarder
check "the forwarder ends well" test $? = 0
cat /tmp/forward
check "the driver drives it so" grep -q "$LOG" /tmp/forward
check "counts agree" grep -q "received $COUNT packets, sent $COUNT" /tmp/forward

check "the forwarder starts again" start
echo "LAB: overload"
hear # the last frame is back
killall -TERM ixora
wait $forwarder
check "the forwarder ends well when told to" test $? = 0
cat /tmp/forward
