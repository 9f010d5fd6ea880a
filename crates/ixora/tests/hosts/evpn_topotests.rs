//! Topologies of FRR's own EVPN topotests, with `ixora overlay run` in the place of the kernel's
//! dataplane: each test has its topotest's name, and looks at the endpoint's table and at pings.
//!
//! Not here are what needs bonds (bgp_evpn_mh: `segment_hosts.rs` has what stands in its place) and
//! bgp_evpn_vxlan_topo1 (`evpn_hosts.rs`). They need root, and fetch packages (`IXORA_OFFLINE`
//! leaves them out).

mod clos;
mod rt5;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::host::{Host, ip};
use crate::common::{IXORA, Running, may_make_interfaces, output, start_command, until};
use crate::evpn_hosts::{bgp, remote, run, started};
use crate::overlay_hosts::{answers, cable, end};
use lab::frr::{self, Router};
use lab::packages::{Packages, Suite, Tree};
use serde_json::Value;

/// The cable of a router to the one that it is told of first, at either end.
const UPLINK: &str = "u1";

/// What every test begins with: `None` where it is left out.
fn packages() -> Option<Tree> {
    may_make_interfaces().then(|| Packages::of_test(frr::PACKAGES, Suite::BOOKWORM))?
}

/// A provider edge: FRR, an endpoint, and a machine in each of its networks.
struct Edge {
    number: usize,
    host: Host,
    /// The outer address of its tunnels.
    local: String,
    machines: Vec<(u32, Host)>,
    place: PathBuf,
    router: Option<Router>,
    endpoint: Option<Running>,
}

/// The address of the machine at an edge, the same in each network.
fn inner(edge: usize) -> &'static str {
    ["10.1.0.1", "10.1.0.2", "10.1.0.3"][edge - 1]
}

fn station(network: u32, edge: usize) -> String {
    format!("02:00:00:00:{network:02x}:{edge:02x}")
}

impl Edge {
    /// An edge with its VXLAN devices, to which FRR writes, and its machines; without cables to others.
    fn new(number: usize, local: &str, networks: &[u32], place: &Path) -> Edge {
        let (host, place) = (Host::new(), place.join(format!("edge{number}")));
        std::fs::create_dir(&place).expect("a directory");
        host.run(|| ip("link set lo up"));
        let machines = networks.iter().zip(["in0", "in1", "in2"]).map(|(network, port)| {
            let machine = Host::new();
            cable(&host, port, &machine, "host");
            let set = format!("link set host address {}", station(*network, number));
            machine.run(move || ip(&set));
            let own = format!("addr add {}/24 dev host", inner(number));
            machine.run(move || ip(&own));
            for command in [
                format!("link add br{network} type bridge"),
                format!("link set br{network} addrgenmode none up"),
                format!("link add vx{network} type vxlan id {network} local {local} dstport 4789 nolearning"),
                format!("link set vx{network} master br{network} addrgenmode none"),
                format!("link set vx{network} up"),
                format!("link set {port} master br{network}"),
            ] {
                host.run(move || ip(&command));
            }
            let vxlan = format!("link set dev vx{network} isolated on learning off flood off");
            run(&host, "bridge", vxlan);
            run(&host, "bridge", format!("link set dev {port} isolated on learning on"));
            (*network, machine)
        });
        let machines = machines.collect();
        Edge { number, host, local: local.to_owned(), machines, place, router: None, endpoint: None }
    }

    fn start_router(&mut self, tree: &Tree, bgpd: String) {
        let (tree, directory) = (tree.clone(), self.place.join("frr"));
        self.router = Some(self.host.run(move || started(tree, directory, &bgpd)));
    }

    /// Starts the endpoint, with ports at these interfaces.
    fn start_endpoint(&mut self, uplinks: &[(&str, String)]) {
        let mut text = "learn = \"kernel\"\n".to_owned();
        for (link, address) in uplinks {
            let _ = write!(
                text,
                "[[underlay]]\nname = \"{link}\"\nport = \"af_packet:{link}\"\nlink = \"{link}\"\n\
                 addresses = [\"{address}\"]\nmtu = 1700\n"
            );
        }
        for (place, (network, _)) in self.machines.iter().enumerate() {
            let _ = write!(
                text,
                "[[network]]\nnumber = {network}\nprotocol = \"vxlan\"\ninner = \"af_packet:in{place}\"\n\
                 local = \"{}\"\n",
                self.local
            );
        }
        self.endpoint = Some(endpoint(&self.host, &self.place, &text));
    }

    fn machine(&self, network: u32) -> &Host {
        let machine = self.machines.iter().find(|(number, _)| *number == network);
        &machine.expect("a machine in the network").1
    }

    /// Whether the machine in a network has an answer of the one at another edge.
    fn answers(&self, network: u32, edge: &Edge) -> bool {
        answers(self.machine(network), inner(edge.number), 56)
    }

    fn until_answers(&self, network: u32, edge: &Edge) {
        let what = format!("answer in network {network} to {} from {}", self.number, edge.number);
        until(&what, || self.answers(network, edge));
    }

    /// Where the entry of another edge's machine leads, in a network.
    fn entry(&self, network: u32, edge: &Edge) -> Option<String> {
        entry(&shown(&self.place), network, &station(network, edge.number))
    }

    /// Waits until the entry of another edge's machine leads there, or is gone.
    fn until_leads(&self, network: u32, edge: &Edge, leads: bool) {
        let to = leads.then(|| edge.local.clone());
        let what = format!("entry of network {network} at {} of {} to {to:?}", self.number, edge.number);
        until(&what, || self.entry(network, edge) == to);
    }

    /// The flood list of a network.
    fn floods(&self, network: u32) -> Vec<String> {
        let shown = shown(&self.place);
        let all = shown["floods"].as_array().into_iter().flatten();
        let mut all: Vec<String> =
            all.filter(|flood| flood["network"] == network).filter_map(remote).collect();
        all.sort();
        all
    }

    fn until_floods(&self, network: u32, to: &[&Edge]) {
        let mut to: Vec<&str> = to.iter().map(|edge| edge.local.as_str()).collect();
        to.sort_unstable();
        until(&format!("flood list of network {network} at {}: {to:?}", self.number), || {
            self.floods(network) == to
        });
    }

    /// Asserts that the table is what the kernel has.
    fn assert_is_as_the_kernel(&self) {
        let mut command = Command::new(IXORA);
        let done = output(command.args(["overlay", "reconcile"]).arg(self.place.join("control")));
        assert!(done.status.success(), "{done:#?}");
    }

    /// Ends the endpoint and FRR, whose daemons leave no last log.
    fn end(&mut self) {
        let router = self.router.take().expect("it runs");
        for (daemon, process) in router.processes() {
            let left = format!("/var/tmp/frr/{daemon}.{process}");
            assert!(!Path::new(&left).exists(), "{left}");
        }
        end(self.endpoint.take().expect("it runs"));
    }
}

/// Runs an endpoint of this configuration.
fn endpoint(host: &Host, place: &Path, text: &str) -> Running {
    let (file, control, at) = (place.join("overlay.toml"), place.join("control"), place.to_owned());
    std::fs::write(&file, text).expect("a file");
    let running = host.run(move || {
        let mut command = Command::new(IXORA);
        command.args(["overlay", "run", "--json", "--interrupts", "--control"]).arg(control).arg(file);
        start_command(&mut command, &at)
    });
    until("socket of an endpoint", || place.join("control").exists());
    running
}

/// What `ixora overlay show --json` says of the endpoint in a place.
fn shown(place: &Path) -> Value {
    let mut command = Command::new(IXORA);
    let done = output(command.args(["overlay", "show", "--json"]).arg(place.join("control")));
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:#?}"))
}

/// Where an entry of a network leads.
fn entry(shown: &Value, network: u32, key: &str) -> Option<String> {
    let mut entries = shown["entries"].as_array()?.iter();
    remote(entries.find(|entry| entry["network"] == network && entry["key"] == *key)?)
}

/// Two edges with a cable between them, 192.168.1.1 and 192.168.1.2, which are the ends of tunnels too.
fn pair(networks: &[u32], place: &Path, tree: &Tree, bgpd: [String; 2]) -> [Edge; 2] {
    let mut edges = [1, 2].map(|number| Edge::new(number, &format!("192.168.1.{number}"), networks, place));
    cable(&edges[0].host, UPLINK, &edges[1].host, UPLINK);
    for (edge, bgpd) in edges.iter_mut().zip(bgpd) {
        let address = format!("{}/24", edge.local);
        let command = format!("addr add {address} dev {UPLINK}");
        edge.host.run(move || ip(&command));
        edge.start_router(tree, bgpd);
        edge.start_endpoint(&[(UPLINK, address)]);
    }
    edges
}

/// The BGP of one of a [`pair`].
fn bgp_of_pair(number: u32, evpn: &str) -> String {
    let (here, there) = (format!("192.168.1.{number}"), format!("192.168.1.{}", 3 - number));
    let peers = [(there, 65000 + 3 - number)];
    bgp("edge", (65000 + number, &here), &peers, "", &format!("  advertise-all-vni\n{evpn}"))
}

/// Three networks, of which the first edge lets the other flood to it in one only. Where FRR has no
/// `flooding` of its own for a network, a route map keeps the others' type 3 routes back.
#[test]
fn bgp_evpn_flooding_per_vni() {
    let Some(tree) = packages() else { return };
    let place = tempfile::tempdir().expect("a directory");
    let mut first = bgp_of_pair(1, "  neighbor 192.168.1.2 route-map flooding out\n");
    for network in [10, 30] {
        let _ = writeln!(first, "bgp extcommunity-list standard quiet permit rt 65001:{network}");
    }
    first += "route-map flooding deny 10\n match evpn route-type multicast\n match extcommunity quiet\n\
              route-map flooding permit 20\n";
    let mut edges = pair(&[10, 20, 30], place.path(), &tree, [first, bgp_of_pair(2, "")]);
    let [first, second] = &edges;
    second.until_floods(20, &[first]);
    for network in [10, 20, 30] {
        first.until_floods(network, &[second]);
    }
    for network in [10, 30] {
        assert_eq!(second.floods(network), [""; 0], "{network}");
        // Whoever asks for the other's address reaches nobody, until the other has spoken.
        assert!(!second.answers(network, first), "{network}");
        first.until_leads(network, second, true);
        first.until_answers(network, second);
        second.until_leads(network, first, true);
        second.until_answers(network, first);
        assert_eq!(second.floods(network), [""; 0], "{network}");
    }
    second.until_answers(20, first);
    first.until_answers(20, second);
    edges.iter_mut().for_each(Edge::end);
}

/// One edge's BGP ends and begins again. FRR 8.4 keeps no routes of EVPN meanwhile, so what it told
/// goes, no more and no less, and all of it comes back.
#[test]
fn bgp_evpn_gr() {
    let Some(tree) = packages() else { return };
    let place = tempfile::tempdir().expect("a directory");
    let bgpd = [1, 2].map(|number| bgp_of_pair(number, "") + "bgp graceful-restart\n");
    let mut edges = pair(&[100], place.path(), &tree, bgpd);
    let converged = |edges: &[Edge; 2]| {
        for (at, other) in [(0, 1), (1, 0)] {
            edges[at].until_floods(100, &[&edges[other]]);
            edges[at].until_answers(100, &edges[other]);
            edges[at].until_leads(100, &edges[other], true);
        }
    };
    converged(&edges);
    edges[1].router.as_mut().expect("it runs").kill_daemon("bgpd");
    for (at, other) in [(0, 1), (1, 0)] {
        edges[at].until_floods(100, &[]);
        edges[at].until_leads(100, &edges[other], false);
        edges[at].assert_is_as_the_kernel();
    }
    let mut router = edges[1].router.take().expect("it runs");
    let router = edges[1].host.run(move || router.restart().map(|()| router).expect("FRR"));
    edges[1].router = Some(router);
    converged(&edges);
    edges.iter().for_each(Edge::assert_is_as_the_kernel);
    edges.iter_mut().for_each(Edge::end);
}

/// Joins an edge, 10.9.1.1 or 10.9.1.2, to a router by which it has the other, and starts its endpoint.
fn join_by(core: &Host, edge: &mut Edge) {
    let (number, local) = (edge.number, edge.local.clone());
    let port = ["d1", "d2"][number - 1];
    cable(&edge.host, UPLINK, core, port);
    let [here, there] = [1, 2].map(|end| format!("10.9.2{number}.{end}"));
    let address = format!("{here}/24");
    let commands = [
        format!("addr add {local}/32 dev lo"),
        format!("addr add {address} dev {UPLINK}"),
        format!("route add 10.9.1.{}/32 via {there}", 3 - number),
    ];
    edge.host.run(move || commands.iter().for_each(|command| ip(command)));
    core.run(move || {
        ip(&format!("addr add {there}/24 dev {port}"));
        ip(&format!("route add {local}/32 via {here}"));
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may");
    });
    edge.start_endpoint(&[(UPLINK, address)]);
}

/// Two edges behind a third router, of which one says that its routes are of a site (Site of Origin,
/// RFC 4364, section 7); the other takes none of its own site's. The topotest does it by `mac-vrf soo`,
/// which FRR 8.4 does by route maps.
#[test]
fn bgp_evpn_vxlan_macvrf_soo_topo1() {
    const NETWORK: u32 = 101;
    let Some(tree) = packages() else { return };
    let place = tempfile::tempdir().expect("a directory");
    let core = Host::new();
    let mut edges =
        [1, 2].map(|number| Edge::new(number, &format!("10.9.1.{number}"), &[NETWORK], place.path()));
    edges.iter_mut().for_each(|edge| join_by(&core, edge));
    for number in 1..=2 {
        let (here, there) = (format!("10.9.1.{number}"), format!("10.9.1.{}", 3 - number));
        let map = ["in", "out"][number - 1];
        let evpn = format!(
            "  advertise-all-vni\n  neighbor {there} route-map {map} {map}\n exit-address-family\n \
             neighbor {there} update-source lo\n address-family l2vpn evpn\n"
        );
        let text = bgp("edge", (65000, &here), &[(there, 65000)], "", &evpn)
            + "bgp extcommunity-list standard site permit soo 65000:1\n\
               route-map in deny 1\n match extcommunity site\nroute-map in permit 2\n\
               route-map out permit 1\n";
        edges[number - 1].start_router(&tree, text);
    }
    let [first, second] = &edges;
    let converged = || {
        first.until_floods(NETWORK, &[second]);
        second.until_floods(NETWORK, &[first]);
        first.until_answers(NETWORK, second);
        first.until_leads(NETWORK, second, true);
        second.until_leads(NETWORK, first, true);
    };
    let tell = |command: &str| {
        let router = second.router.as_ref().expect("it runs");
        router.tell(&["configure terminal", "route-map out permit 1", command]).expect("FRR");
    };
    converged();
    tell("set extcommunity soo 65000:1");
    first.until_floods(NETWORK, &[]);
    first.until_leads(NETWORK, second, false);
    second.until_leads(NETWORK, first, true);
    assert!(!first.answers(NETWORK, second), "its routes are not taken");
    tell("set extcommunity soo 65000:2");
    converged();
    edges.iter_mut().for_each(Edge::end);
}
