//! `ixora overlay run` with Open vSwitch of Debian's packages at the far end: its datapath in
//! user space, which needs no module of the kernel, and its own VXLAN and Geneve.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::host::{Host, ip};
use crate::common::{IXORA, Running, may_make_interfaces, run, start_command, until};
use crate::overlay_hosts::{answers, cable, end, stream};
use crate::router_hosts::probe;
use lab::openvswitch::{Daemon, Switch};
use lab::packages::{Packages, Suite, Tree};
use lab::scenario::chosen;

/// A destination that is unreachable as the packet is too long and may not be fragmented (RFC 792).
const TOO_LONG: (u8, u8) = (3, 4);

/// The tunnel and what is below it.
#[derive(Clone, Copy)]
struct Tunnel {
    /// Its name, the same with us and with the switch.
    protocol: &'static str,
    /// Our port of the underlay.
    port: &'static str,
    is_v6: bool,
}

impl Tunnel {
    /// Our address and the switch's, and the length of their prefix.
    fn ends(self) -> [&'static str; 3] {
        if self.is_v6 { ["2001:db8::1", "2001:db8::2", "64"] } else { ["192.0.2.1", "192.0.2.2", "24"] }
    }

    /// The longest packet inside: without outer IP and UDP, eight bytes of the tunnel and the
    /// inner Ethernet header.
    fn mtu(self) -> usize {
        1500 - if self.is_v6 { 40 } else { 20 } - 8 - 8 - 14
    }
}

/// Our endpoint in one host, with a TAP interface as its network, and a switch in the other one.
struct Meeting {
    tunnel: Tunnel,
    place: tempfile::TempDir,
    inside: Host,
    far: Host,
    switch: Switch,
    endpoint: Running,
}

impl Meeting {
    fn new(tunnel: Tunnel, tree: Tree) -> Meeting {
        let place = tempfile::tempdir().expect("a directory");
        let (inside, far) = (Host::new(), Host::new());
        cable(&inside, "ul0", &far, "wire");
        inside.run(|| ip("link set ul0 mtu 1500"));
        far.run(|| ip("link set wire mtu 1500"));
        let endpoint = start(&inside, tunnel, place.path());
        let directory = place.path().to_owned();
        let switch = far.run(move || joined(tree, directory, tunnel));
        let mtu = tunnel.mtu();
        inside.run(move || {
            until("interface", || has("in0"));
            address("in0", "10.1.0.1", mtu);
        });
        Meeting { tunnel, place, inside, far, switch, endpoint }
    }

    fn answers(&self) -> bool {
        answers(&self.inside, "10.1.0.2", 56)
    }

    /// What was dropped for this reason until now.
    fn dropped(&self, reason: &str) -> u64 {
        let show = format!("overlay show {} --metrics", self.place.path().join("control").display());
        let metrics = run(self.place.path(), &show).stdout;
        let of_reason = format!("reason=\"{reason}\"");
        let drops = metrics.lines().filter(|line| line.starts_with("ixora_overlay_drops_total{"));
        let counts =
            drops.filter(|line| line.contains(&of_reason)).filter_map(|line| line.rsplit(' ').next());
        counts.map(|count| count.parse::<u64>().expect("a number")).sum()
    }

    /// Pings of all lengths up to the longest, both ways; of one that is longer the sender is told.
    fn lengths(&self) {
        let mtu = self.tunnel.mtu();
        for data in [0, 1, 1000, mtu - 29, mtu - 28] {
            assert!(answers(&self.inside, "10.1.0.2", data), "{data}");
            assert!(answers(&self.far, "10.1.0.1", data), "{data}");
        }
        let told = self.inside.run(move || {
            ip("link set in0 mtu 1500");
            let told = probe("10.1.0.2", 64, mtu - 27);
            ip(&format!("link set in0 mtu {mtu}"));
            ip("route flush cache");
            told
        });
        assert_eq!(told.map(|(_, kind, code)| (kind, code)), Some(TOO_LONG));
    }

    /// Frames with a tag are carried with it: at both ends a switch has a port that is in the VLAN
    /// alone. (Not every kernel has devices for VLANs.)
    fn vlan(&self, tree: Tree) {
        let directory = self.place.path().join("tags");
        std::fs::create_dir(&directory).expect("a directory");
        let _switch = self.inside.run(move || {
            let switch = Switch::start(tree, directory, Daemon::Plain, &[], &[]).expect("a switch");
            set(&switch, "add-br tags -- set bridge tags datapath_type=netdev");
            set(&switch, "add-port tags in0");
            port_in_vlan(&switch, "tags");
            address("v30", "10.2.0.1", 1400);
            switch
        });
        until("answer in the VLAN", || answers(&self.inside, "10.2.0.2", 56));
        assert!(answers(&self.far, "10.2.0.1", 1372));
    }

    /// What comes with an identifier of no network is dropped by that name.
    fn unknown_identifier(&self) {
        let before = self.dropped("overlay_unknown_end");
        until("packets with an unknown identifier", || {
            assert!(!answers(&self.far, "10.9.0.1", 56), "nobody has that network");
            self.dropped("overlay_unknown_end") > before
        });
        assert!(self.answers());
    }

    /// RFC 8926, section 3.5: options that are not known are passed over, unless they are critical.
    fn options(&self) {
        let flows = |words: &[&str]| self.switch.flows(words).expect("the switch does it");
        flows(&["add-tlv-map", "br0", "{class=0x102,type=0x1,len=4}->tun_metadata0"]);
        flows(&["add-tlv-map", "br0", "{class=0x102,type=0x81,len=8}->tun_metadata1"]);
        let send_with = |field: &str| {
            flows(&[
                "add-flow",
                "br0",
                &format!("priority=9,in_port=LOCAL,actions=set_field:{field},output:tun"),
            ]);
        };
        send_with("0x11223344->tun_metadata0");
        let with_option = || {
            flows(&["dump-flows", "br0"])
                .lines()
                .any(|line| line.contains("tun_metadata0") && !line.contains("n_packets=0,"))
        };
        until("answers with an option", || self.answers() && with_option());
        assert_eq!(self.dropped("overlay_critical_option"), 0);
        send_with("0x1122334455667788->tun_metadata1");
        until("packets with a critical option", || {
            !self.answers() && self.dropped("overlay_critical_option") > 0
        });
        flows(&["--strict", "del-flows", "br0", "priority=9,in_port=LOCAL"]);
        until("answers without options", || self.answers());
    }
}

/// Whether this thread's namespace has such an interface.
fn has(interface: &str) -> bool {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").expect("the kernel's list");
    devices.lines().any(|line| line.trim_start().starts_with(&format!("{interface}:")))
}

/// Starts our endpoint with one network, which learns where stations are.
fn start(host: &Host, tunnel: Tunnel, place: &Path) -> Running {
    let ([local, remote, prefix], Tunnel { protocol, port, .. }) = (tunnel.ends(), tunnel);
    let text = format!(
        "[[underlay]]\nname = \"up\"\nport = \"{port}\"\naddresses = [\"{local}/{prefix}\"]\n\
         [[network]]\nnumber = 100\nprotocol = \"{protocol}\"\ninner = \"tap:in0\"\n\
         flood = [\"{remote}\"]\nlearning = true\n"
    );
    let (file, place) = (place.join("overlay.toml"), place.to_owned());
    std::fs::write(&file, text).expect("a file");
    host.run(move || {
        let mut command = Command::new(IXORA);
        command.args(["overlay", "run", "--json", "--interrupts", "--control"]).arg(place.join("control"));
        start_command(command.arg(&file), &place)
    })
}

/// Changes the database of a switch by words with spaces between them.
fn set(switch: &Switch, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    switch.set(&words).expect("the switch does it");
}

/// A port of a bridge for this host itself, whose frames have a tag in the bridge.
fn port_in_vlan(switch: &Switch, bridge: &str) {
    set(switch, &format!("add-port {bridge} v30 tag=30 -- set Interface v30 type=internal"));
}

/// Sets an interface up with this address and length of packets.
fn address(interface: &str, address: &str, mtu: usize) {
    ip(&format!("link set {interface} mtu {mtu} addrgenmode none"));
    ip(&format!("addr add {address}/24 dev {interface}"));
    ip(&format!("link set {interface} up"));
}

/// A switch in this thread's namespace: a bridge on the wire with the address of the tunnels'
/// end, one whose frames go into a tunnel to us, with a port in a VLAN, and one whose tunnel has an
/// identifier that we do not know.
fn joined(tree: Tree, directory: PathBuf, tunnel: Tunnel) -> Switch {
    let [remote, local, prefix] = tunnel.ends();
    ip("link set lo up");
    let switch = Switch::start(tree, directory, Daemon::Plain, &[], &[]).expect("a switch");
    for bridge in ["uplink", "br0", "br1"] {
        set(&switch, &format!("add-br {bridge} -- set bridge {bridge} datapath_type=netdev"));
    }
    set(&switch, "add-port uplink wire");
    for (bridge, name, identifier) in [("br0", "tun", 100), ("br1", "tun1", 999)] {
        let words = format!(
            "add-port {bridge} {name} -- set Interface {name} type={} options:remote_ip={remote} \
             options:key={identifier} options:csum={}",
            tunnel.protocol, tunnel.is_v6
        );
        set(&switch, &words);
    }
    port_in_vlan(&switch, "br0");
    let nodad = if tunnel.is_v6 { " nodad" } else { "" };
    ip(&format!("addr add {local}/{prefix} dev uplink{nodad}"));
    ip("link set uplink up");
    address("br0", "10.1.0.2", tunnel.mtu());
    address("v30", "10.2.0.2", 1400);
    address("br1", "10.9.0.2", 1400);
    ip("neigh add 10.9.0.1 lladdr 02:00:00:00:09:01 dev br1 nud permanent");
    switch
}

/// Our endpoint and a switch at both ends of a tunnel: pings, a VLAN, and 50 MiB each way.
fn meets(tunnel: Tunnel) {
    if !may_make_interfaces() {
        return;
    }
    // Those of the lab's scenario, which are fetched once for both.
    let scenario = chosen(&["ovs-dpdk".to_owned()]);
    let Some(tree) = Packages::of_test(scenario[0].packages, Suite::BOOKWORM) else { return };
    let meeting = Meeting::new(tunnel, tree.clone());
    until("answer through the tunnel", || meeting.answers());
    meeting.lengths();
    meeting.vlan(tree);
    meeting.unknown_identifier();
    stream(&meeting.inside, &meeting.far, "10.1.0.2");
    stream(&meeting.far, &meeting.inside, "10.1.0.1");
    if tunnel.protocol == "geneve" {
        meeting.options();
    }
    let done = end(meeting.endpoint);
    let overlay = &done.json()["overlay"];
    for reason in ["overlay_outer_checksum", "overlay_outer_malformed", "overlay_tunnel_malformed"] {
        assert_eq!(overlay["drops"].get(reason), None, "{overlay:#}");
    }
}

#[test]
fn open_vswitch_is_at_the_far_end_of_vxlan() {
    meets(Tunnel { protocol: "vxlan", port: "af_packet:ul0", is_v6: false });
}

#[test]
fn open_vswitch_is_at_the_far_end_of_vxlan_over_ipv6() {
    meets(Tunnel { protocol: "vxlan", port: "af_packet:ul0", is_v6: true });
}

#[test]
fn open_vswitch_is_at_the_far_end_of_geneve_with_options() {
    meets(Tunnel { protocol: "geneve", port: "af_xdp:ul0", is_v6: false });
}
