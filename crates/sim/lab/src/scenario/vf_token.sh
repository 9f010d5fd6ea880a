# A 82576 and its virtual function, both bound to vfio-pci: who opens the virtual function gives the
# token that the physical one was opened with, or is told so. Nobody hosts it, so that its driver says
# that no host answers as soon as VFIO has opened it.
pf=$(nics | head -n 1)
token=14d63f20-8445-11ea-8900-1f9ce7d5650d
other=bd8d9d2b-5a5f-4f5a-a211-f591514ba1f3
modprobe vfio_pci enable_sriov=1
check "$pf to vfio-pci" vfio $pf
check "it has a virtual function" sh -c "echo 1 >/sys/bus/pci/devices/$pf/sriov_numvfs"
vf=$(basename "$(readlink /sys/bus/pci/devices/$pf/virtfn0)")
check "$vf to vfio-pci" vfio $vf
ulimit -l unlimited
# says WORD PORT: whether opening a port ends with an error that has a word.
says() { ixora info "$2" >/tmp/said 2>&1 && return 1; cat /tmp/said; grep -qE "$1" /tmp/said; }
check "no token is named, with what to write" says "write $vf,vf_token=UUID, with the token that its physical function $pf" $vf
check "a token before the physical function has one is named" says "not the one of its physical function $pf" $vf,vf_token=$token
ixora echo $pf,vf_token=$token --quiet >/tmp/echo 2>&1 &
host=$!
# The token is the physical function's from when VFIO has opened that.
check "with the token VFIO opens it" await 60 says 'physical function (needs a driver|did not answer)' $vf,vf_token=$token
check "another token is named" says "not the one of its physical function $pf" $vf,vf_token=$other
check "no token likewise" says "vf_token=UUID" $vf
check "the physical function works meanwhile" kill -0 $host
kill -INT $host
check "and ends well" wait $host
cat /tmp/echo
dmesg | grep -iE 'vfio|token' | tail -n 20
