# A router on two threads, bound to the cores of two nodes.
check "two nodes" test -d /sys/devices/system/node/node1
ixora click -j 2 -a -e 'RatedSource(RATE 10) -> Discard; s :: RatedSource(RATE 10) -> Discard; StaticThreadSched(s 1);' &
router=$!
# Mappings of packet memory, all of whose pages are on one node.
on() {
    grep "file=/memfd:" /proc/$router/numa_maps | grep " N$1=" | grep -qv " N$2="
}
each() { on 0 1 && on 1 0; }
check "each thread's buffers are on its node" await 60 each
grep "file=" /proc/$router/numa_maps
kill $router
