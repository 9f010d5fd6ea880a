//! An EVPN fabric of three leaves and two spines, as in FRR's topotests (bgp_evpn_vxlan_topo1 and
//! its relatives): FRR of Debian's packages in each, and in each leaf `ixora overlay run` in the
//! place of the kernel's dataplane. The kernel's VXLAN device is where FRR writes; its bridge learns
//! which stations are at the leaf, and lets no frame pass between them and that device.
//!
//! It needs root, and fetches packages (`IXORA_OFFLINE` leaves it out).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::host::{Host, ip};
use crate::common::{IXORA, Running, may_make_interfaces, output, start_command, until};
use crate::overlay_hosts::{address, answers, cable, end};
use lab::frr::{self, Router};
use lab::packages::{Packages, Suite, Tree};
use serde_json::Value;

const LEAVES: usize = 3;
const SPINES: usize = 2;

/// A leaf with the one machine behind it.
struct Leaf {
    host: Host,
    machine: Host,
    place: PathBuf,
    router: Option<Router>,
    endpoint: Option<Running>,
}

/// The fabric; daemons and namespaces go with it.
struct Fabric {
    tree: Tree,
    place: tempfile::TempDir,
    leaves: Vec<Leaf>,
    spines: Vec<(Host, Option<Router>)>,
}

/// Runs a program in a namespace, which must succeed.
pub fn run(host: &Host, program: &'static str, arguments: String) {
    let done = host.run(move || output(Command::new(program).args(arguments.split(' '))));
    assert!(done.status.success(), "{program}: {done:#?}");
}

/// The station of a machine: the number of the leaf at which it was first.
fn station(number: usize) -> String {
    format!("02:00:00:00:0a:{number:02x}")
}

fn loopback(leaf: usize) -> String {
    format!("10.9.1.{leaf}")
}

/// The address of a leaf on its cable to a spine, and the spine's.
fn ends(leaf: usize, spine: usize) -> [String; 2] {
    [1, 2].map(|end| format!("10.9.{}.{end}", 10 * spine + leaf))
}

/// The text of a BGP daemon's configuration: peers, and what is announced.
pub fn bgp(
    name: &str,
    (system, id): (u32, &str),
    peers: &[(String, u32)],
    networks: &str,
    evpn: &str,
) -> String {
    let mut text = format!(
        "hostname {name}\nrouter bgp {system}\n bgp router-id {id}\n no bgp default ipv4-unicast\n \
         no bgp ebgp-requires-policy\n timers bgp 3 30\n"
    );
    let mut activate = String::new();
    for (peer, system) in peers {
        let _ = writeln!(text, " neighbor {peer} remote-as {system}");
        let _ =
            writeln!(text, " neighbor {peer} timers connect 1\n neighbor {peer} advertisement-interval 0");
        let _ = writeln!(activate, "  neighbor {peer} activate");
    }
    let _ = write!(text, " address-family ipv4 unicast\n{networks}{activate} exit-address-family\n");
    let _ = write!(text, " address-family l2vpn evpn\n{activate}{evpn} exit-address-family\n");
    text
}

impl Fabric {
    fn new(tree: Tree) -> Fabric {
        let place = tempfile::tempdir().expect("a directory");
        let spines: Vec<(Host, Option<Router>)> = (0..SPINES).map(|_| (Host::new(), None)).collect();
        let leaves = (1..=LEAVES).map(|number| Leaf::new(number, &spines, place.path())).collect();
        let mut fabric = Fabric { tree, place, leaves, spines };
        for number in 1..=SPINES {
            fabric.start_spine(number);
        }
        for number in 1..=LEAVES {
            fabric.start_leaf(number);
        }
        fabric
    }

    fn start_spine(&mut self, number: usize) {
        let peers: Vec<_> =
            (1..=LEAVES).map(|leaf| (ends(leaf, number)[0].clone(), 65000 + leaf as u32)).collect();
        let id = format!("10.9.2.{number}");
        let bgpd = bgp("spine", (65100, &id), &peers, "", "");
        let (tree, directory) = (self.tree.clone(), self.place.path().join(format!("spine{number}")));
        let (host, router) = &mut self.spines[number - 1];
        *router = Some(host.run(move || started(tree, directory, &bgpd)));
    }

    fn start_leaf(&mut self, number: usize) {
        let peers: Vec<_> = (1..=SPINES).map(|spine| (ends(number, spine)[1].clone(), 65100)).collect();
        let networks = format!("  network {}/32\n", loopback(number));
        let system = 65000 + number as u32;
        let bgpd = bgp("leaf", (system, &loopback(number)), &peers, &networks, "  advertise-all-vni\n");
        let (tree, leaf) = (self.tree.clone(), &mut self.leaves[number - 1]);
        let directory = leaf.place.join("frr");
        leaf.router = Some(leaf.host.run(move || started(tree, directory, &bgpd)));
        leaf.endpoint = Some(leaf.run_endpoint(number));
    }

    fn leaf(&self, number: usize) -> &Leaf {
        &self.leaves[number - 1]
    }

    /// Waits until a leaf's table leads a machine's frames there, or nowhere.
    fn until_leads(&self, leaf: usize, machine: usize, to: Option<usize>) {
        let to = to.map(loopback);
        until(&format!("entry of machine {machine} at leaf {leaf} to {to:?}"), || {
            self.leaf(leaf).entry(machine).map(|entry| entry.0) == to
        });
    }

    /// Waits until a leaf floods to these and no others.
    fn until_floods(&self, leaf: usize, to: &[usize]) {
        let to: Vec<String> = to.iter().map(|leaf| loopback(*leaf)).collect();
        let (mut seen, mut looked, start) = (vec![], 1u32, Instant::now());
        until(&format!("flood list of leaf {leaf}: {to:?}"), || {
            let floods = self.leaf(leaf).flood();
            if floods != seen || start.elapsed() > Duration::from_secs(25) * looked {
                println!("leaf {leaf} floods to {floods:?}"); // told where the test fails
                self.tell_of_kernels();
                seen.clone_from(&floods);
                looked += 1;
            }
            floods == to
        });
    }

    /// Prints what FRR wrote into the leaves' kernels, and what connections of BGP there are: who of
    /// BGP, the kernel and the endpoint is behind.
    fn tell_of_kernels(&self) {
        let hosts = self.leaves.iter().map(|leaf| &leaf.host).chain(self.spines.iter().map(|spine| &spine.0));
        for (number, host) in (1..).zip(hosts) {
            for shown in ["bridge fdb show dev vx10", "ss -tno"] {
                let mut words = shown.split(' ');
                let program = words.next().unwrap_or_default();
                let arguments: Vec<&str> = words.collect();
                let shown = host.run(move || output(Command::new(program).args(arguments)));
                println!("{number}: {}", String::from_utf8_lossy(&shown.stdout));
            }
        }
    }

    /// Waits until one machine has an answer of the address that another one was given.
    fn until_answers(&self, from: usize, to: usize) {
        let address: &'static str = ["10.1.0.1", "10.1.0.2", "10.1.0.3"][to - 1];
        until(&format!("answer of {address} to machine {from}"), || {
            answers(&self.leaf(from).machine, address, 56)
        });
    }
}

/// FRR's daemons in the namespace of this thread.
pub fn started(tree: Tree, directory: PathBuf, bgpd: &str) -> Router {
    std::fs::create_dir_all(&directory).expect("a directory");
    Router::start(tree, directory, "hostname router\nfpm address 127.0.0.1\n", bgpd).expect("FRR")
}

impl Leaf {
    /// The interfaces of a leaf: cables to the spines, a VXLAN device for FRR, and a bridge that
    /// learns what machines are here.
    fn new(number: usize, spines: &[(Host, Option<Router>)], place: &Path) -> Leaf {
        let (host, machine) = (Host::new(), Host::new());
        const UP: [&str; SPINES] = ["u1", "u2"];
        const PEER: [&str; LEAVES] = ["d1", "d2", "d3"];
        for (n, (up, (spine, _))) in UP.into_iter().zip(spines).enumerate() {
            let peer = PEER[number - 1];
            cable(&host, up, spine, peer);
            let [here, there] = ends(number, n + 1);
            host.run(move || ip(&format!("addr add {here}/24 dev {up}")));
            spine.run(move || ip(&format!("addr add {there}/24 dev {peer}")));
            // It is the namespace of the thread that writes.
            spine.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may"));
        }
        cable(&host, "in0", &machine, "host");
        machine.run(move || ip(&format!("link set host address {}", station(number))));
        address(&machine, "host", ["10.1.0.1/24", "10.1.0.2/24", "10.1.0.3/24"][number - 1]);
        let local = loopback(number);
        for command in [
            "link set lo up".to_owned(),
            format!("addr add {local}/32 dev lo"),
            "link add br10 type bridge".to_owned(),
            "link set br10 addrgenmode none up".to_owned(),
            format!("link add vx10 type vxlan id 10 local {local} dstport 4789 nolearning"),
            "link set vx10 master br10 addrgenmode none".to_owned(),
            "link set vx10 up".to_owned(),
            "link set in0 master br10".to_owned(),
        ] {
            host.run(move || ip(&command));
        }
        // Ports that are isolated have nothing to do with each other.
        run(&host, "bridge", "link set dev vx10 isolated on learning off flood off".to_owned());
        run(&host, "bridge", "link set dev in0 isolated on learning on".to_owned());
        let place = place.join(format!("leaf{number}"));
        std::fs::create_dir(&place).expect("a directory");
        Leaf { host, machine, place, router: None, endpoint: None }
    }

    fn run_endpoint(&self, number: usize) -> Running {
        let mut text = "learn = \"kernel\"\n".to_owned();
        for spine in 1..=SPINES {
            let [here, _] = ends(number, spine);
            let _ = write!(
                text,
                "[[underlay]]\nname = \"up{spine}\"\nport = \"af_packet:u{spine}\"\nlink = \"u{spine}\"\n\
                 addresses = [\"{here}/24\"]\nmtu = 1700\n"
            );
        }
        let _ = write!(
            text,
            "[[network]]\nnumber = 10\nprotocol = \"vxlan\"\ninner = \"af_packet:in0\"\nlocal = \"{}\"\n",
            loopback(number)
        );
        let (file, control, place) =
            (self.place.join("overlay.toml"), self.place.join("control"), self.place.clone());
        std::fs::write(&file, text).expect("a file");
        let running = self.host.run(move || {
            let mut command = Command::new(IXORA);
            command.args(["overlay", "run", "--json", "--interrupts", "--control"]).arg(control).arg(file);
            start_command(&mut command, &place)
        });
        until("socket of an endpoint", || self.place.join("control").exists());
        running
    }

    /// What `ixora overlay show --json` says of the network.
    fn shown(&self) -> Value {
        let mut command = Command::new(IXORA);
        command.args(["overlay", "show", "--json"]).arg(self.place.join("control"));
        let done = output(&mut command);
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:#?}"))
    }

    /// Where an entry leads, and whose it is.
    fn entry(&self, machine: usize) -> Option<(String, String)> {
        let key = station(machine);
        let shown = self.shown();
        let entry = shown["entries"].as_array()?.iter().find(|entry| entry["key"] == *key)?;
        Some((remote(entry)?, entry["owner"].as_str()?.to_owned()))
    }

    fn flood(&self) -> Vec<String> {
        let shown = self.shown();
        let mut all: Vec<String> =
            shown["floods"].as_array().into_iter().flatten().filter_map(remote).collect();
        all.sort();
        all
    }

    fn end(&mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            end(endpoint);
        }
    }
}

/// The far end of the tunnel that something shown leads to.
pub fn remote(shown: &Value) -> Option<String> {
    let (_, remote) = shown["tunnel"].as_str()?.split_once("> ")?;
    Some(remote.split(',').next().unwrap_or_default().to_owned())
}

/// What FRR's topotests ask of a kernel: every leaf has the flood list of the others (type 3) and
/// their stations (type 2), machines reach each other, one that moves is followed and no packet goes
/// to where it was, a cable or a spine that fails moves what went by it, and a leaf whose FRR is
/// killed takes nothing of the others away and is back when it is started again.
#[test]
fn leaves_follow_frr_in_the_place_of_the_kernel() {
    if !may_make_interfaces() {
        return;
    }
    let Some(tree) = Packages::of_test(frr::PACKAGES, Suite::BOOKWORM) else { return };
    let mut fabric = Fabric::new(tree);
    for (leaf, others) in [(1, [2, 3]), (2, [1, 3]), (3, [1, 2])] {
        fabric.until_floods(leaf, &others);
    }
    for (from, to) in [(1, 2), (1, 3), (2, 3)] {
        fabric.until_answers(from, to);
    }
    for leaf in 1..=LEAVES {
        (1..=LEAVES).filter(|at| *at != leaf).for_each(|at| fabric.until_leads(leaf, at, Some(at)));
        assert_eq!(fabric.leaf(leaf).entry(leaf), None, "a leaf's own station is behind no tunnel");
    }
    // An entry is taken away and comes back while BGP is unsettled.
    until("the kernel's entry", || fabric.leaf(1).entry(2).is_some_and(|(_, owner)| owner == "kernel"));
    a_machine_moves(&fabric);
    cables_fail(&fabric);
    // Whoever is killed tells nobody; the others' stations stay.
    let mut router = fabric.leaves[1].router.take().expect("it runs");
    router.kill();
    fabric.until_floods(1, &[3]);
    fabric.until_leads(1, 3, Some(3));
    fabric.until_answers(1, 3);
    let router = fabric.leaves[1].host.run(move || {
        router.restart().expect("FRR");
        router
    });
    fabric.leaves[1].router = Some(router);
    fabric.until_floods(1, &[2, 3]);
    fabric.until_answers(1, 2);
    fabric.leaves.iter_mut().for_each(Leaf::end);
}

/// The machine of the second leaf is at the third one, and back.
fn a_machine_moves(fabric: &Fabric) {
    for (from, to) in [(2, 3), (3, 2)] {
        fabric.leaf(from).machine.run(|| ip("link set host down"));
        fabric.leaf(to).machine.run(move || {
            ip("link set host down");
            ip(&format!("link set host address {}", station(2)));
            ip("link set host up");
            if to == 3 {
                ip("addr add 10.1.0.2/24 dev host");
            }
        });
        until("answer from where the machine is now", || {
            // It speaks first, as a machine that was moved does.
            answers(&fabric.leaf(to).machine, "10.1.0.1", 56)
        });
        fabric.until_leads(1, 2, Some(to));
        fabric.until_answers(1, 2);
        if to == 2 {
            let third = &fabric.leaf(3).machine;
            third.run(|| {
                ip("addr del 10.1.0.2/24 dev host");
                ip(&format!("link set host address {}", station(3)));
                ip("link set host up");
            });
        }
    }
    until("answer of the third machine", || answers(&fabric.leaf(3).machine, "10.1.0.1", 56));
    fabric.until_leads(1, 3, Some(3));
}

/// Each of a leaf's cables fails in turn; what goes by the other one is not touched.
fn cables_fail(fabric: &Fabric) {
    for (cable, spine) in [("u1", 1), ("u2", 2)] {
        fabric.leaf(1).host.run(move || ip(&format!("link set {cable} down")));
        fabric.until_answers(1, 2);
        fabric.until_answers(3, 1);
        fabric.leaf(1).host.run(move || ip(&format!("link set {cable} up")));
        // The leaf's own routes may stay as they are: FRR 8.4 does not put a next hop back into a
        // group that the kernel took it out of.
        until("the spine's route by the cable again", || {
            let show = format!("route show {}", loopback(1));
            let shown =
                fabric.spines[spine - 1].0.run(move || output(Command::new("ip").args(show.split(' '))));
            String::from_utf8_lossy(&shown.stdout).contains(&format!("via {}", ends(1, spine)[0]))
        });
    }
}
