//! FRR itself: three hosts in network namespaces on one Ethernet, each with zebra and bgpd of
//! Debian's packages, which are unpacked beside the system. What BGP EVPN tells one of them is
//! in the overlay's table, and a host that moves is followed within a second.
//!
//! It needs root, `ip` and `bridge`, and fetches packages (`IXORA_OFFLINE` leaves it out):
//! `cargo test -p ixora-control --test evpn -- --nocapture` prints how long the followers took.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use control::admission::Admission;
use control::fpm::{Fpm, PORT};
use control::kernel::{Kernel, RECEIVE_BUFFER};
use control::{Binding, Key, Mirror, Options, Origin, Owner, Program, Value};
use lab::frr::{self, Router};
use lab::packages::{Packages, Suite, Tree};
use overlay::Overlay;

const HOST: &str = "02:00:00:00:01:01";
/// How often a machine that moved sends at its new place.
const BETWEEN_FRAMES: Duration = Duration::from_secs(2);

/// Runs `ip`, `bridge` or another program of this machine's.
fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The namespaces and daemons, which go with the value.
struct Fabric {
    prefix: String,
    routers: Vec<Router>,
    directory: tempfile::TempDir,
}

impl Fabric {
    fn new(tree: &Tree) -> Fabric {
        let prefix = format!("evpn{}", std::process::id());
        let mut fabric = Fabric { prefix, routers: vec![], directory: tempfile::tempdir().unwrap() };
        let switch = fabric.name(0);
        run(&format!("ip netns add {switch}"));
        run(&format!("ip -n {switch} link add br0 type bridge"));
        run(&format!("ip -n {switch} link set br0 up"));
        (1..=3).for_each(|host| fabric.add_host(host));
        (1..=3).for_each(|host| fabric.start(host, tree));
        fabric
    }

    fn name(&self, host: u8) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// A host: a port to the fabric, a VXLAN device in a bridge, and a place for a machine.
    fn add_host(&self, host: u8) {
        let (name, switch) = (self.name(host), self.name(0));
        run(&format!("ip netns add {name}"));
        run(&format!("ip link add u0 netns {name} type veth peer name p{host} netns {switch}"));
        run(&format!("ip -n {switch} link set p{host} master br0 up"));
        for command in [
            "link set lo up".to_string(),
            "link set u0 up".to_string(),
            format!("addr add 10.9.0.{host}/24 dev u0"),
            format!("addr add 10.9.1.{host}/32 dev lo"),
            "link add br10 type bridge".to_string(),
            "link set br10 up".to_string(),
            format!("link add vx10 type vxlan id 10 local 10.9.1.{host} dstport 4789 nolearning"),
            "link set vx10 master br10 addrgenmode none".to_string(),
            "link set vx10 type bridge_slave neigh_suppress on learning off".to_string(),
            "link set vx10 up".to_string(),
            "link add m0 type veth peer name tap0".to_string(),
            "link set tap0 master br10 up".to_string(),
            "link set m0 up".to_string(),
        ] {
            run(&format!("ip -n {name} {command}"));
        }
    }

    fn bgp(host: u8) -> String {
        let peers: Vec<u8> = (1..=3).filter(|peer| *peer != host).collect();
        let mut text = format!(
            "hostname h{host}\nrouter bgp 65000\n bgp router-id 10.9.1.{host}\n no bgp default ipv4-unicast\n \
             timers bgp 1 3\n"
        );
        for peer in &peers {
            let _ = writeln!(
                text,
                " neighbor 10.9.0.{peer} remote-as 65000\n neighbor 10.9.0.{peer} timers connect 1"
            );
            let _ = writeln!(text, " neighbor 10.9.0.{peer} advertisement-interval 0");
        }
        let activate: String =
            peers.iter().map(|peer| format!("  neighbor 10.9.0.{peer} activate\n")).collect();
        let _ = write!(
            text,
            " address-family ipv4 unicast\n  network 10.9.1.{host}/32\n{activate} exit-address-family\n"
        );
        let _ =
            write!(text, " address-family l2vpn evpn\n{activate}  advertise-all-vni\n exit-address-family\n");
        text
    }

    /// Starts zebra and bgpd in a host's namespace.
    fn start(&mut self, host: u8, tree: &Tree) {
        let directory = self.directory.path().join(host.to_string());
        fs::create_dir(&directory).unwrap();
        let zebra = format!("hostname h{host}\nfpm address 127.0.0.1\n");
        let (fabric, bgpd) = (&*self, Fabric::bgp(host));
        let router = std::thread::scope(|scope| {
            let started = scope.spawn(|| {
                fabric.enter(host);
                Router::start(tree.clone(), directory, &zebra, &bgpd)
            });
            started.join().unwrap()
        });
        self.routers.push(router.unwrap());
    }

    /// A machine appears at a host, or is gone.
    fn machine(&self, host: u8, is_there: bool) {
        let what = if is_there { "replace" } else { "del" };
        let kind = if is_there { "dynamic" } else { "" };
        run(&format!("bridge -n {} fdb {what} {HOST} dev tap0 master {kind}", self.name(host)));
    }

    /// Moves this thread into a host's namespace.
    fn enter(&self, host: u8) {
        let file = File::open(format!("/run/netns/{}", self.name(host))).unwrap();
        let network = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(file.as_fd(), network).unwrap();
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.routers.clear();
        for host in 0..=3 {
            let _ = Command::new("ip").args(["netns", "del", &self.name(host)]).status();
        }
    }
}

/// What follows one host.
struct Follower {
    kernel: Kernel,
    mirror: Mirror,
    program: Program,
    overlay: Overlay,
}

impl Follower {
    fn until(&mut self, what: &str, most: Duration, mut is_so: impl FnMut(&Follower) -> bool) -> Duration {
        let started = Instant::now();
        loop {
            while self.kernel.turn(&mut self.mirror, 64).unwrap() {}
            let changes = self.mirror.changes();
            self.program.apply(&mut self.overlay, Owner::Kernel, changes, 0);
            self.overlay.publish();
            if is_so(self) {
                return started.elapsed();
            }
            assert!(started.elapsed() < most, "waited {most:?} in vain until {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn remote(&self) -> Option<String> {
        self.overlay.get(10, 0x0200_0000_0101).map(|tunnel| tunnel.remote.to_string())
    }

    fn flood(&self) -> Vec<String> {
        match self.program.value(&Key::Flood(10)) {
            Some(Value::Flood(fars)) => fars.iter().map(|far| far.remote.to_string()).collect(),
            _ => vec![],
        }
    }
}

/// Whether there may be network namespaces; where everything must run (`CI`), they must be there.
fn may_make_namespaces() -> bool {
    let may = rustix::process::geteuid().is_root();
    let must = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
    assert!(may || !must, "CI is set, but network namespaces need root");
    if !may {
        println!("passed over: network namespaces need root");
    }
    may
}

#[test]
fn a_machine_that_moves_is_followed_within_a_second() {
    if !may_make_namespaces() {
        return;
    }
    let Some(tree) = Packages::of_test(frr::PACKAGES, Suite::BOOKWORM) else { return };
    let mut fabric = Fabric::new(&tree);
    fabric.enter(1);
    let ports = vec![Binding { link: "u0".into(), port: 0, vlan: None, mtu: None }];
    let mut mirror = Mirror::new(Options { ports, ..Options::default() });
    let kernel = Kernel::open(&mut mirror, RECEIVE_BUFFER).unwrap();
    let mut follower = Follower { kernel, mirror, program: Program::new(), overlay: Overlay::new() };
    let minute = Duration::from_secs(60);
    follower
        .until("both far ends are in the flood list", minute, |it| it.flood() == ["10.9.1.2", "10.9.1.3"]);
    // FRR's routes to the far ends are by nexthop objects.
    let far_end = Key::Route(("10.9.1.2".parse().unwrap(), 32));
    follower.until("there is a way to them", minute, |it| {
        matches!(it.program.value(&far_end), Some(Value::Route(route)) if route.gateway == Some("10.9.0.2".parse().unwrap()))
    });
    fabric.machine(2, true);
    follower.until("the machine is known", minute, |it| it.remote().as_deref() == Some("10.9.1.2"));
    let mut times = vec![];
    for turn in 0..7 {
        let (from, to) = if turn % 2 == 0 { (2, 3) } else { (3, 2) };
        fabric.machine(from, false);
        fabric.machine(to, true);
        let there = format!("10.9.1.{to}");
        let mut sent = Instant::now();
        let took = follower.until("the machine moved", minute, |it| {
            // A machine goes on sending: where zebra takes the old place away after the new one was
            // learnt, the bridge forgets both until the next frame.
            if sent.elapsed() > BETWEEN_FRAMES {
                fabric.machine(to, true);
                sent = Instant::now();
            }
            it.remote().as_deref() == Some(&there)
        });
        println!("move {turn}: followed after {took:?}");
        times.push(took);
    }
    times.sort();
    // Somebody else may have the processor in one of them.
    assert!(times[times.len() / 2] < Duration::from_secs(1), "{times:?}");
    zebra_streams_what_is_read();
    fabric.machine(3, false);
    follower.until("the machine is gone", minute, |it| it.remote().is_none());
    // A host that fails takes nothing of the others' away.
    fabric.routers[2].kill();
    fabric.machine(2, true);
    follower.until("its far end left the flood list", minute, |it| it.flood() == ["10.9.1.2"]);
    follower.until("the machine is known", minute, |it| it.remote().as_deref() == Some("10.9.1.2"));
}

/// zebra of this namespace connects to FPM's port and sends what it has: all of it is read.
fn zebra_streams_what_is_read() {
    let mut mirror = Mirror::new(Options { entries: Origin::Fpm, ..Options::default() });
    let admission = Admission::new(&[]).unwrap();
    let mut fpm = Fpm::listen(SocketAddr::from(([127, 0, 0, 1], PORT)), 0).unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    while mirror.counters().messages < 8 {
        fpm.turn(&mut mirror, 0, &mut |peer, own| admission.tcp(peer, own));
        assert!(
            Instant::now() < limit,
            "zebra does not connect: {:?}, {:?}",
            fpm.counters(),
            mirror.counters()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let (frames, messages) = (fpm.counters(), mirror.counters());
    println!("zebra sent {} messages", messages.messages);
    assert_eq!((frames.wrong_frames, frames.refused, messages.malformed), (0, 0, 0));
}
