# Our program on NICs of the guest, for a host at the other end of the second
# serial port (control.rs has the words). /lab/environment says which program.
stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
say() { echo "$*" >&3; }
# Nobody might be left to end this.
(sleep $LIMIT; poweroff -f) &
give_up() { say "problem $*"; sleep 5; poweroff -f; }
say booted

[ $(nics | wc -l) -ge $NICS ] || give_up "the guest has $(nics | wc -l) network devices of $NICS"
set -- $(nics | head -n $NICS)
echo $PAGES >/proc/sys/vm/nr_hugepages
grep -q "HugePages_Total: *$PAGES\$" /proc/meminfo ||
    give_up "the guest's memory has no room for $PAGES hugepages of 2 MiB: give it more with --memory"
mkdir -p /dev/hugepages; mount -t hugetlbfs -o pagesize=2M,mode=1777 nodev /dev/hugepages
echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
run() { exec sh /lab/run "$@"; }
if [ $WAY = vfio ]; then
    for nic in "$@"; do vfio $nic || give_up "$nic cannot be bound to vfio-pci"; done
    ulimit -l unlimited
    chmod 666 /dev/vfio/vfio; chown 65534 /dev/vfio/[0-9]*
    run() { exec su nobody -c "exec sh /lab/run $*"; }
fi

if [ $APP = shell ]; then
    say started
    exec 3>&-
    stty -F /dev/ttyS1 sane
    export A=$1 B=$2 PS1='machine:\w# '
    cd /root
    # With a terminal of its own, so that Ctrl-C reaches what runs in it.
    setsid -c sh -i <>/dev/ttyS1 >&0 2>&1
    poweroff -f
fi

run "$@" >/tmp/out 2>/tmp/err 3>&- &
program=$!
# Ports are open and rings are full when its first thread runs.
until grep -qs "^$APP-0\$" /proc/$program/task/*/comm; do
    kill -0 $program 2>/dev/null || break
    usleep 20000
done
kill -0 $program 2>/dev/null && say started
(read word <&3; kill -TERM $program) 2>/dev/null &
wait $program; code=$?
cat /tmp/err /tmp/out
sed 's/^/err /' /tmp/err >&3
sed 's/^/out /' /tmp/out >&3
say "ended $code"
if [ -n "$FILE" ] && [ -f "$FILE" ]; then
    say "file $(wc -c <$FILE)"
    cat $FILE >&3
fi
say "done"
sleep 5
