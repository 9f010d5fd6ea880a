# eth0 is ours by AF_XDP, eth1 Linux's, in a namespace of its own.
b() { ip netns exec b "$@"; }
echo 64 >/proc/sys/vm/nr_hugepages
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M nodev /dev/hugepages
ulimit -l unlimited
check "driver loads" modprobe ixgbe
check "two interfaces" await 20 test -d /sys/class/net/eth1
ip netns add b; ip link set eth1 netns b
b ip addr add 10.0.0.1/24 dev eth1; b ip link set eth1 up; ip link set eth0 up
check "link" await 20 sh -c '[ "$(cat /sys/class/net/eth0/carrier)" = 1 ]'

ixora echo af_xdp:eth0 --ip 10.0.0.2 >/tmp/echo 2>&1 &
echo=$!
check "echo starts" await 30 grep -q '[0-9] [kM]*pps' /tmp/echo
await 60 sh -c 'ip netns exec b ping -c 1 -W 1 10.0.0.2'
check "ping is answered" b ping -c 20 -i 0.2 -W 2 10.0.0.2
# An 82599 counts buffers in KiB: of ours, with the kernel's headroom off, it uses one.
check "ping of 1,024 bytes is answered" b ping -c 5 -i 0.2 -W 2 -s 982 -M do 10.0.0.2
kill -TERM $echo; wait $echo
check "echo ends well" test $? = 0
cat /tmp/echo
check "nothing was copied" grep -q zerocopy /tmp/echo

ixora echo af_xdp:eth0,copy --ip 10.0.0.2 >/tmp/copy 2>&1 &
echo=$!
await 60 sh -c 'ip netns exec b ping -c 1 -W 1 10.0.0.2'
check "long ping is answered with copies" b ping -c 5 -i 0.2 -W 2 -s 1472 -M do 10.0.0.2
kill -TERM $echo; wait $echo
cat /tmp/copy

# The router's elements on it: Linux's pings come back by way of Click's language.
ixora click -e 'FromDevice(af_xdp:eth0) -> c :: Classifier(12/0806 20/0001, 12/0800, -);
    out :: ToDevice(af_xdp:eth0); c[2] -> Discard;
    c[0] -> ARPResponder(10.0.0.3 02:00:00:00:00:03) -> out;
    c[1] -> Strip(14) -> CheckIPHeader -> p :: ICMPPingResponder -> Unstrip(14) -> EtherMirror -> out;' -h out.count >/tmp/click 2>&1 &
router=$!
await 60 sh -c 'ip netns exec b ping -c 1 -W 1 10.0.0.3'
check "a router answers" b ping -c 20 -i 0.2 -W 2 10.0.0.3
kill -INT $router; wait $router
check "the router ends well" test $? = 0
cat /tmp/click
