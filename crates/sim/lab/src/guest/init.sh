#!/usr/bin/dash
# The guest's first program: mounts, then the test, then off.
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs run /run
mount -t tmpfs shm /dev/shm
ln -sf /run /var/run
mkdir -p /run/netns
ip link set lo up
dmesg -n 4
echo "LAB: booted"
dmesg | grep tsc: # the clock by which this guest waits

# ok NAME / fail NAME WHY: what the host reads.
ok() { echo "LAB: ok $*"; }
fail() { echo "LAB: fail $*"; }
# check NAME COMMAND…: by the command's exit status, its words after a failure.
check() {
    name=$1; shift
    if "$@" >/tmp/check.out 2>&1; then ok "$name"; else
        code=$?
        tail -n 20 /tmp/check.out
        fail "$name" "$* ended with $code"
    fi
}
# await SECONDS COMMAND…: until the command succeeds, which is begun within so many seconds,
# however long it takes by itself.
await() {
    end=$(($(cut -d. -f1 /proc/uptime) + $1)); shift
    until "$@" >/dev/null 2>&1; do
        [ $(cut -d. -f1 /proc/uptime) -lt $end ] || return 1
        usleep 200000
    done
}
# vfio PCI-ADDRESS: the device to vfio-pci, whoever had it.
vfio() {
    modprobe vfio_pci; modprobe vfio_iommu_type1
    if [ -e /sys/bus/pci/devices/$1/driver ]; then
        echo $1 >/sys/bus/pci/devices/$1/driver/unbind
    fi
    echo vfio-pci >/sys/bus/pci/devices/$1/driver_override
    echo $1 >/sys/bus/pci/drivers_probe
    [ "$(basename "$(readlink /sys/bus/pci/devices/$1/driver)")" = vfio-pci ]
}
# nics: PCI addresses of network devices, in order.
nics() {
    for device in /sys/bus/pci/devices/*; do
        case $(cat $device/class) in 0x0200*) basename $device ;; esac
    done
}
# listen, then hear: waits until the host says that the guest may go on.
listen() { stty -F /dev/ttyS1 raw -echo; exec 3<>/dev/ttyS1; }
hear() { read -r word <&3; }
[ -f /lab/environment ] && . /lab/environment
. /lab/test.sh
echo "LAB: end"
poweroff -f
