//! What `--help` ends with: lines to copy.

pub const ALL: &str = "\
Examples:
  ixora demo                                              nothing needed
  ixora model 82599 --socket /tmp/nic --wire gen:rate=1M  a NIC, in one terminal
  ixora pcap vfio-user:/tmp/nic out.pcapng                and its driver, in another
  ixora fwd 0000:03:00.0 0000:03:00.1                     two real ports (see ixora doctor)

Exit status: 0 when all went well, 1 when something failed, 2 for wrong use.
-v shows what the driver does, -vv each register access, too; IXORA_LOG=driver=debug,warn
of which part.";

pub const FWD: &str = "\
Examples:
  ixora fwd 0000:03:00.0 0000:03:00.1
  ixora fwd vfio-user:/tmp/a vfio-user:/tmp/b --queues 4 --threads 2 --cpu 2,3
  ixora fwd af_xdp:eth1 af_packet:eth2                    interfaces of Linux's (root)
  ixora fwd model:82599,wire=gen:rate=1M model:82599,wire=sink:check --duration 5s --json";

pub const PKTGEN: &str = "\
Examples:
  ixora pktgen 0000:03:00.0 --size 64 --rate 14.88M --flows 16
  ixora pktgen 0000:03:00.0 --size imix --rate 2M --duration 30s
  ixora pktgen vfio-user:/tmp/nic --count 10000 --rate 100k --to 02:00:5e:10:00:01";

pub const PCAP: &str = "\
Examples:
  ixora pcap 0000:03:00.0 out.pcapng --count 1000
  ixora pcap vfio-user:/tmp/nic out.pcapng --duration 10s --interrupts";

pub const OVERLAY: &str = "\
Examples:
  ixora overlay demo                                      nothing needed
  ixora overlay demo --protocol geneve --size imix --duration 5s --json
  ixora overlay demo --offload nic                        NICs (models) put packets into tunnels
  ixora overlay run overlay.toml --control /tmp/overlay   docs/overlays.md has the keys
  ixora overlay show /tmp/overlay                         what it holds, in another terminal
  ixora overlay explain inner.pcap --config overlay.toml  why packets go where they go";

pub const ECHO: &str = "\
Examples:
  ixora echo 0000:03:00.0
  ixora echo vfio-user:/tmp/nic --ip 10.9.9.2             and ping 10.9.9.2
  ixora echo tap:ixora0 --ip 10.9.9.2                     as a host beside this one (root)
  ixora echo model:82599,wire=gen:rate=10k+sink --duration 2s";

pub const PF: &str = "\
Examples:
  ixora model xl710 --socket /tmp/nic --vfs 2             a card with two, at /tmp/nic.vf0 and .vf1
  ixora pf vfio-user:/tmp/nic --vfs 2                     hosts them; then, in other terminals:
  ixora echo vfio-user:/tmp/nic.vf0
  ixora pf 0000:03:00.0 --vfs 4 --vf 0,mac=02:00:00:00:00:01,vlan=7 --vf 1,trust,spoofcheck=off";

pub const SERVE: &str = "\
Examples:
  ixora serve echo --port tap:ixora0 --addr 10.9.9.2/24   as a host beside this one (root);
  ip addr add 10.9.9.1/24 dev ixora0                      then, in another terminal:
  nc 10.9.9.2 7
  ixora serve echo --port 0000:03:00.0 --addr dhcp --addr auto   as the network says
  ixora serve memcached --port tap:ixora0 --addr 10.9.9.2/24 --memory 1G
  ixora serve http --port tap:ixora0 --addr 10.9.9.2/24 --root /srv/www
  ixora serve iperf3 --port tap:ixora0 --addr 10.9.9.2/24     then: iperf3 -c 10.9.9.2 -P 4
  ixora serve echo --port 0000:03:00.0 --addr 10.0.0.2/24 --listen 7777 --queues 2 --threads 2";

pub const SERVE_DEMO: &str = "\
Examples:
  ixora serve demo                                        nothing needed
  ixora serve demo memcached --mix etc --rate 10k,50k --connections 64
  ixora serve demo http --size 5000 --depth 4 --json";

pub const LOAD: &str = "\
Examples:
  ixora load echo --port tap:ixora1 --addr 10.9.8.2/24 --to 10.9.8.1:7 --connections 100
  ixora load memcached --port 0000:03:00.0 --addr 10.0.0.3/24 --to 10.0.0.2 --mix etc --rate 10k,100k,200k
  ixora load http --port tap:ixora1 --addr 10.9.8.2/24 --to 10.9.8.1:8000 --path /index.html --depth 4";

pub const MODEL: &str = "\
Examples:
  ixora model 82599 --socket /tmp/nic --wire gen:size=64,rate=1M,flows=16
  ixora model 82599 --socket /tmp/a --socket /tmp/b --wire pair
  ixora model 82599 --socket /tmp/nic --wire tap:ixora0       (root)
  ixora model 82599 --socket /tmp/nic --wire loop --fault late=0.01,seed=7

SIGINT and SIGTERM end it; it prints what every wire carried and lost, and what
the linter found.";

pub const DEMO: &str = "\
Examples:
  ixora demo
  ixora demo --rate max --duration 3s
  ixora demo --size 1518 --rate 800k --json";

pub const SOAK: &str = "\
Examples:
  ixora soak --duration 1m
  ixora soak --duration 1h --json
  ixora soak --seed 7 --episode 12                        one episode again
  ixora soak --duration 5m --only router --only capture

Exit status: 0 when all checks held, 1 when one failed. The seed repeats a run.";

pub const INFO: &str = "\
Examples:
  ixora info                                              drivers, forms of ports, losses by name
  ixora info --drivers                                    what each offers, and what shows it
  ixora info model:82599 --queues 4
  ixora info 0000:03:00.0 --json";

pub const DOCTOR: &str = "\
Examples:
  ixora doctor
  ixora doctor --json";

pub const BENCH: &str = "\
Examples:
  ixora bench driver --workload fwd --batch 32 --ring 512
  ixora bench driver --cores one --json rows.json
  ixora bench growth --axis flows,rules --svg figures
  ixora bench latency --work forward --batch 32 --svg figures
  ixora bench tables --table nat,arp-scan --packets 200000
  ixora bench tcp --connections 1,65536 --json tcp.json";

pub const VM: &str = "\
Examples:
  ixora vm fwd                                        two virtio NICs, 200,000 frames
  ixora vm fwd --nic igb --frames 500000 --size 64
  ixora vm fwd --nic virtio-packed --rate max -- --ring 128 --batch 8
  ixora vm pcap out.pcapng --nic virtio-legacy
  ixora vm shell --nic ixgbe-model

The first run fetches QEMU and a kernel, 1 GB unpacked, from Debian's packages into
~/.cache/ixora ($IXORA_CACHE); nothing is installed.";

pub const COMPILE: &str = "\
Examples:
  ixora compile conf/router.click P0=0000:03:00.0 P1=0000:03:00.1
  ixora compile router.click -o /tmp/router && /tmp/router/router -j 2 --explain
  ixora compile -e 'FromDevice(tap:t0) -> Strip(14) -> Discard' --no-build

The program takes the words of ixora click but the configuration, which is built in.";

pub const TCP: &str = "\
Examples:
  ixora serve http --port tap:ixora0 --addr 10.9.9.2/24 --control /run/http.sock
  ixora tcp show /run/http.sock                           its connections, as `ss -ti` tells them
  ixora tcp show /run/http.sock state established dst 10.0.0.9    those of one client, as `ss` filters
  ixora tcp show /run/http.sock --json | jq '.connections[] | select(.lost > 0)'
  ixora tcp show /run/http.sock --metrics                 as Prometheus reads it
  ixora tcp top /run/http.sock                            who moves most, once a second
  ixora tcp cores /run/http.sock 2                        serve by two of its queues from now on";

pub const TOP: &str = "\
Examples:
  ixora click -p 7777 conf/router.click                   a router with a control socket
  ixora top 7777                                          and what it does, once a second
  ixora top /run/router.sock --once --json                for scripts
  ixora top http://127.0.0.1:9464 --sort cycles           through --metrics";

pub const COMPLETIONS: &str = "\
Examples:
  ixora completions bash > ~/.local/share/bash-completion/completions/ixora
  ixora completions zsh > ~/.zfunc/_ixora
  ixora completions fish > ~/.config/fish/completions/ixora.fish";
