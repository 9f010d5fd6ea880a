//! A machine that is connected to two endpoints, an Ethernet segment, and a third endpoint with
//! another machine: who hands on what is for all, as FRR says it and `docs/overlays-control.md`
//! hands it on to the API.
//!
//! FRR itself has segments at bonds and bridges with VLANs alone, which not every kernel has; what
//! stands in its place here says what it says.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::host::{Host, ip};
use crate::common::{IXORA, Running, may_make_interfaces, output, start_command, until};
use crate::overlay_hosts::{address, cable, end};
use lab::packages::{Packages, Suite, Tree};
use serde_json::Value;

/// What the commands of the page need beside FRR.
const PACKAGES: &[&str] = &["curl", "jq"];
const LEAVES: usize = 3;
/// Frames that must go one way, or not.
const FRAMES: u64 = 5;

struct Leaf {
    host: Host,
    place: PathBuf,
}

struct Fabric {
    leaves: Vec<Leaf>,
    /// The machine with a cable to the first leaf and one to the second.
    machine: Host,
    far: Host,
    _core: Host,
    _place: tempfile::TempDir,
}

/// What `show evpn es detail json` says at a leaf: FRR 8.4 and 10.3.
fn says(is_designated: bool, peers: &[usize]) -> String {
    let role = if is_designated { "df" } else { "nonDF" };
    let peers: Vec<String> = peers
        .iter()
        .map(|n| {
            format!(
                r#"{{"vtep":"192.0.2.{n}","dfAlgorithm":"preference","dfPreference":{n}00,"nexthopId":2}}"#
            )
        })
        .collect();
    let peers = match peers.is_empty() {
        true => String::new(), // it leaves the list out
        false => format!(r#","vteps":[{}]"#, peers.join(",")),
    };
    let segment = |number: usize, rest: &str| {
        format!(
            r#"{{"esi":"03:02:00:00:00:ee:01:00:00:0{number}","accessPort":"bond{number}","flags":["local",{rest}}}"#
        )
    };
    let rest =
        format!(r#""{role}","readyForBgp","bridgePort","operUp"],"vniCount":1,"dfPreference":100{peers}"#);
    format!("[{},{}]", segment(2, r#""nonDF"],"vteps":[{"vtep":"192.0.2.77"}]"#), segment(1, &rest))
}

/// The commands of the page that ask FRR and tell the endpoint.
fn commands() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/overlays-control.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().expect("its end"));
    let block = blocks.find(|block| block.contains("show evpn es detail json")).expect("the commands");
    // No test runs without an end.
    block.replacen("while sleep 1;", "for turn in $(seq 600); do sleep 0.2;", 1).replacen("; do\n", ";\n", 1)
}

/// Sends a frame to all from an address.
fn send(host: &Host, from: &'static str) {
    host.run(move || {
        let socket = UdpSocket::bind((from, 0)).expect("an address");
        socket.set_broadcast(true).expect("a socket");
        let (net, _) = from.rsplit_once('.').expect("an address");
        socket.send_to(b"all", format!("{net}.255:9")).expect("sent");
    });
}

/// How many frames came by an interface.
fn came(host: &Host, interface: &'static str) -> u64 {
    let shown = host.run(move || output(Command::new("ip").args(["-s", "-j", "link", "show", interface])));
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    shown[0]["stats64"]["rx"]["packets"].as_u64().expect("a count")
}

impl Leaf {
    fn shown(&self) -> Value {
        let mut command = Command::new(IXORA);
        let done = output(command.args(["overlay", "show", "--json"]).arg(self.place.join("control")));
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:#?}"))
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.shown()["accounts"]["underlay"][0]["drops"][reason].as_u64().unwrap_or(0)
    }

    /// What FRR says here from now on.
    fn let_say(&self, says: &str) {
        let (new, file) = (self.place.join("new"), self.place.join("says"));
        std::fs::write(&new, says).and_then(|()| std::fs::rename(new, file)).expect("room");
    }

    /// Starts the endpoint, which floods to the two others.
    fn run(&self, number: usize) -> Running {
        let others: Vec<String> =
            (1..=LEAVES).filter(|n| *n != number).map(|n| format!("\"192.0.2.{n}\"")).collect();
        let text = format!(
            "[api]\nlisten = \"127.0.0.1:8080\"\n\
             [[underlay]]\nname = \"up\"\nport = \"af_packet:ul0\"\naddresses = [\"192.0.2.{number}/24\"]\nmtu = 1600\n\
             [[network]]\nnumber = 10\nprotocol = \"vxlan\"\ninner = \"af_packet:in0\"\nflood = [{}]\n",
            others.join(", ")
        );
        let (file, place) = (self.place.join("overlay.toml"), self.place.clone());
        std::fs::write(&file, text).expect("a file");
        let running = self.host.run(move || {
            let mut command = Command::new(IXORA);
            command.args(["overlay", "run", "--json", "--interrupts", "--control"]);
            start_command(command.arg(place.join("control")).arg(file), &place)
        });
        until("socket of an endpoint", || self.place.join("control").exists());
        running
    }

    /// Starts the commands of the page, with programs from the packages and what stands in FRR's place.
    fn tell(&self, tree: &Tree) -> Running {
        let programs = self.place.join("bin");
        std::fs::create_dir(&programs).expect("a folder");
        let mut all = vec![("vtysh", format!("exec cat '{}'", self.place.join("says").display()))];
        for name in PACKAGES {
            let program = tree.command(&format!("usr/bin/{name}")).expect("the packages have it");
            let mut text = format!("exec {}", program.get_program().display());
            program.get_args().for_each(|word| _ = write!(text, " '{}'", word.display()));
            all.push((name, text + " \"$@\""));
        }
        for (name, text) in all {
            let file = programs.join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("room");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("ours");
        }
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let place = self.place.clone();
        self.host.run(move || {
            start_command(Command::new("sh").arg("-c").arg(commands()).env("PATH", path), &place)
        })
    }

    fn until_segment(&self, is_designated: bool, peers: &[&str]) {
        until(&format!("segment, {is_designated}, {peers:?}"), || {
            let is = &self.shown()["segments"][0];
            is["designated"] == is_designated
                && is["peers"] == serde_json::json!(peers)
                && is["owner"] == "api"
        });
    }
}

impl Fabric {
    fn new() -> Fabric {
        let (machine, far, core) = (Host::new(), Host::new(), Host::new());
        let place = tempfile::tempdir().expect("a directory");
        core.run(|| {
            ip("link add br0 type bridge");
            ip("link set br0 addrgenmode none up");
        });
        let leaf = |number: usize| {
            let (host, place) = (Host::new(), place.path().join(number.to_string()));
            std::fs::create_dir(&place).expect("a folder");
            host.run(|| ip("link set lo up"));
            let port = ["p1", "p2", "p3"][number - 1];
            cable(&host, "ul0", &core, port);
            core.run(move || ip(&format!("link set {port} master br0")));
            Leaf { host, place }
        };
        let leaves: Vec<Leaf> = (1..=LEAVES).map(leaf).collect();
        cable(&leaves[0].host, "in0", &machine, "eth1");
        cable(&leaves[1].host, "in0", &machine, "eth2");
        cable(&leaves[2].host, "in0", &far, "eth3");
        address(&machine, "eth1", "10.1.1.1/24");
        address(&machine, "eth2", "10.1.2.1/24");
        address(&far, "eth3", "10.1.3.1/24");
        Fabric { leaves, machine, far, _core: core, _place: place }
    }

    /// Frames that came to the machine by its two cables.
    fn came(&self) -> [u64; 2] {
        ["eth1", "eth2"].map(|cable| came(&self.machine, cable))
    }

    /// Sends frames until a leaf has dropped some by this name: what came before them is where it
    /// goes by then. The first ones may find nobody who knows their leaf's neighbours.
    fn send_in_vain(&self, host: &Host, from: &'static str, at: usize, reason: &str) {
        let before = self.leaves[at].dropped(reason);
        until(reason, || {
            send(host, from);
            self.leaves[at].dropped(reason) >= before + FRAMES
        });
    }
}

#[test]
fn a_segment_gets_what_is_for_all_once_and_nothing_of_its_own() {
    if !may_make_interfaces() {
        return;
    }
    let Some(tree) = Packages::of_test(PACKAGES, Suite::BOOKWORM) else { return };
    let fabric = Fabric::new();
    let endpoints: Vec<Running> = (1..).zip(&fabric.leaves).map(|(number, leaf)| leaf.run(number)).collect();
    let [first, second, _] = &fabric.leaves[..] else { panic!("three leaves") };
    // Nobody said that it is a segment: all comes twice, and its own comes back.
    until("frames by both cables", || {
        send(&fabric.far, "10.1.3.1");
        fabric.came().iter().all(|came| *came > 0)
    });
    let before = came(&fabric.machine, "eth2");
    until("its own frames by the other cable", || {
        send(&fabric.machine, "10.1.1.1");
        came(&fabric.machine, "eth2") >= before + FRAMES
    });
    first.let_say(&says(false, &[2]));
    second.let_say(&says(true, &[1]));
    let tellers = [first, second].map(|leaf| leaf.tell(&tree));
    first.until_segment(false, &["192.0.2.2"]);
    second.until_segment(true, &["192.0.2.1"]);
    // The first ones may meet the table of before.
    fabric.send_in_vain(&fabric.far, "10.1.3.1", 0, "overlay_not_designated");
    let before = fabric.came();
    fabric.send_in_vain(&fabric.far, "10.1.3.1", 0, "overlay_not_designated");
    until("frames by the designated forwarder", || fabric.came()[1] >= before[1] + FRAMES);
    assert_eq!(fabric.came()[0], before[0], "what is for all comes once");
    let before = (fabric.came(), came(&fabric.far, "eth3"));
    fabric.send_in_vain(&fabric.machine, "10.1.1.1", 1, "overlay_split_horizon");
    fabric.send_in_vain(&fabric.machine, "10.1.2.1", 0, "overlay_split_horizon");
    until("frames at the far machine", || came(&fabric.far, "eth3") >= before.1 + FRAMES);
    assert_eq!(fabric.came(), before.0, "nothing of its own comes back");
    // The second one loses its cable, and FRR tells the first.
    first.let_say(&says(true, &[]));
    first.until_segment(true, &[]);
    let before = came(&fabric.machine, "eth1");
    until("frames by the new designated forwarder", || {
        send(&fabric.far, "10.1.3.1");
        came(&fabric.machine, "eth1") > before
    });
    drop(tellers);
    endpoints.into_iter().for_each(|endpoint| _ = end(endpoint));
}
