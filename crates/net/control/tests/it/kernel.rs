//! The kernel itself, in a network namespace of the test's: what `ip` and `bridge` change is
//! in the overlay's table. Needs root, like the tests of interfaces.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use control::kernel::{Kernel, RECEIVE_BUFFER};
use control::reconcile::{Asker, Difference, compare, fix};
use control::{Binding, Change, End, Key, Mirror, Options, Owner, Program, Value};
use overlay::Overlay;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, getsockname, sendto, socket_with};
use wire::MacAddress;

use crate::messages::{Device, Fdb};

/// A network namespace, which goes with the value.
struct Namespace(String);

impl Namespace {
    /// Makes a namespace and moves this thread into it.
    fn enter(name: &str) -> Namespace {
        assert!(rustix::process::getuid().is_root(), "this test makes a network namespace: run it as root");
        let namespace = Namespace(format!("ixora-{name}-{}", std::process::id()));
        run("ip", &["netns", "add", &namespace.0]);
        let file = File::open(format!("/run/netns/{}", namespace.0)).unwrap();
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&file),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )
        .unwrap();
        namespace
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Runs a program in this thread's namespace.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ip(arguments: &str) -> String {
    run("ip", &arguments.split_whitespace().collect::<Vec<_>>())
}

fn bridge(arguments: &str) -> String {
    run("bridge", &arguments.split_whitespace().collect::<Vec<_>>())
}

/// Runs many commands at once.
fn batch(program: &str, commands: &str) {
    use std::io::Write;
    let mut child = Command::new(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{program} -batch failed");
}

struct Rig {
    kernel: Kernel,
    mirror: Mirror,
    have: BTreeMap<Key, Value>,
}

impl Rig {
    fn new(buffer: usize) -> Rig {
        let ports = vec![Binding { link: "under0".into(), port: 0, vlan: None, mtu: None }];
        let locals = vec![IpAddr::from([192, 0, 2, 1])];
        let mut mirror = Mirror::new(Options { ports, locals, ..Options::default() });
        let kernel = Kernel::open(&mut mirror, buffer).unwrap();
        Rig { kernel, mirror, have: BTreeMap::new() }
    }

    fn follow(&mut self) {
        while self.kernel.turn(&mut self.mirror, 64).unwrap() {}
        for change in self.mirror.changes() {
            match change.value {
                Some(value) => drop(self.have.insert(change.key, value)),
                None => drop(self.have.remove(&change.key)),
            }
        }
        assert_eq!(self.mirror.counters().malformed, 0);
    }

    /// Follows until something is so; the kernel tells of some changes a moment later.
    fn until(&mut self, what: &str, is_so: impl Fn(&Rig) -> bool) {
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            self.follow();
            if is_so(self) {
                return;
            }
            assert!(Instant::now() < limit, "waited in vain until {what}: {:#?}", self.have);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn remote(&self, vni: u32, mac: &str) -> Option<String> {
        match self.have.get(&Key::Entry(vni, mac.parse().unwrap()))? {
            Value::Entry(far) => Some(far.remote.to_string()),
            _ => None,
        }
    }

    /// The far ends of a group.
    fn remotes(&self, vni: u32, mac: &str) -> Vec<String> {
        match self.have.get(&Key::Entry(vni, mac.parse().unwrap())) {
            Some(Value::Group(group)) => {
                group.fars.iter().map(|weighted| weighted.far.remote.to_string()).collect()
            }
            _ => vec![],
        }
    }

    /// The weights of a group's far ends.
    fn weights(&self, vni: u32, mac: &str) -> Vec<u16> {
        match self.have.get(&Key::Entry(vni, mac.parse().unwrap())) {
            Some(Value::Group(group)) => group.fars.iter().map(|weighted| weighted.weight).collect(),
            _ => vec![],
        }
    }

    fn flood(&self, vni: u32) -> Vec<String> {
        match self.have.get(&Key::Flood(vni)) {
            Some(Value::Flood(fars)) => fars.iter().map(|far| far.remote.to_string()).collect(),
            _ => vec![],
        }
    }

    /// What `bridge fdb show` says of a device, as this table would have it.
    fn shown(&self, device: &str, vni: u32) -> BTreeMap<Key, Vec<IpAddr>> {
        let mut all: BTreeMap<Key, Vec<IpAddr>> = BTreeMap::new();
        for line in bridge(&format!("fdb show dev {device}")).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let after = |word| words.iter().position(|it| *it == word).map(|at| words[at + 1]);
            let (Some(dst), Ok(mac)) = (after("dst"), words[0].parse::<MacAddress>()) else { continue };
            let vni = after("src_vni").map_or(vni, |vni| vni.parse().unwrap());
            let key = if mac.0 == [0; 6] { Key::Flood(vni) } else { Key::Entry(vni, mac) };
            all.entry(key).or_default().push(dst.parse().unwrap());
        }
        all.values_mut().for_each(|fars| fars.sort());
        all
    }

    fn entries(&self) -> BTreeMap<Key, Vec<IpAddr>> {
        let fars = |value: &Value| match value {
            Value::Entry(far) => Some(vec![far.remote]),
            Value::Flood(fars) => Some(fars.iter().map(|far| far.remote).collect()),
            _ => None,
        };
        self.have.iter().filter_map(|(key, value)| Some((*key, fars(value)?))).collect()
    }
}

const HOST: &str = "02:00:00:00:01:01";
const ALL: &str = "00:00:00:00:00:00";

#[test]
fn entries_of_the_kernel_are_followed() {
    let _namespace = Namespace::enter("fdb");
    ip("link add vx10 type vxlan id 10 local 192.0.2.1 dstport 4789 nolearning");
    ip("link set vx10 up");
    bridge(&format!("fdb add {HOST} dev vx10 dst 192.0.2.2"));
    let mut rig = Rig::new(RECEIVE_BUFFER);
    rig.until("what was there before", |rig| rig.remote(10, HOST).as_deref() == Some("192.0.2.2"));
    bridge(&format!("fdb replace {HOST} dev vx10 dst 192.0.2.3 extern_learn"));
    rig.until("a move", |rig| rig.remote(10, HOST).as_deref() == Some("192.0.2.3"));
    for last in [2, 3, 4] {
        bridge(&format!("fdb append {ALL} dev vx10 dst 192.0.2.{last}"));
    }
    rig.until("three places to flood", |rig| rig.flood(10).len() == 3);
    bridge(&format!("fdb del {ALL} dev vx10 dst 192.0.2.3"));
    rig.until("two of them", |rig| rig.flood(10) == ["192.0.2.2", "192.0.2.4"]);
    assert_eq!(rig.entries(), rig.shown("vx10", 10));
    bridge(&format!("fdb replace {HOST} dev vx10 dst 192.0.2.4 port 8472 vni 77"));
    rig.until("another port and network there", |rig| {
        let far = rig.have.get(&Key::Entry(10, HOST.parse().unwrap()));
        matches!(far, Some(Value::Entry(far)) if far.port == Some(8472) && far.vni == 77)
    });
    bridge(&format!("fdb del {HOST} dev vx10"));
    rig.until("the entry went", |rig| rig.remote(10, HOST).is_none());
    // The device goes and comes back by another number.
    ip("link del vx10");
    rig.until("the network went", |rig| rig.have.is_empty());
    ip("link add vx10 type vxlan id 10 local 192.0.2.1 dstport 4789 nolearning");
    ip("link set vx10 up");
    bridge(&format!("fdb add {HOST} dev vx10 dst 192.0.2.5"));
    rig.until("the new one", |rig| rig.remote(10, HOST).as_deref() == Some("192.0.2.5"));
    assert_eq!(rig.flood(10), [] as [String; 0]);
    ip("link add vx20 type vxlan id 20 local 2001:db8::1 dstport 8472 udp6zerocsumrx nolearning");
    ip("link set vx20 up");
    bridge(&format!("fdb add {HOST} dev vx20 dst 2001:db8::2"));
    rig.until("one over IPv6", |rig| rig.remote(20, HOST).as_deref() == Some("2001:db8::2"));
    let end = End { local: "2001:db8::1".parse().unwrap(), port: Some(8472), zero_checksum: true };
    assert_eq!(rig.have[&Key::Network(20)], Value::Network(end));
}

#[test]
fn reconciling_asks_the_kernel_afresh() {
    let _namespace = Namespace::enter("reconcile");
    ip("link add vx10 type vxlan id 10 local 192.0.2.1 dstport 4789 nolearning");
    ip("link set vx10 up");
    bridge(&format!("fdb add {HOST} dev vx10 dst 192.0.2.2"));
    let (options, mut overlay, mut program) = (Options::default(), Overlay::new(), Program::new());
    let report = compare(&program, &overlay, &options, &Asker::open().unwrap().now(&options).unwrap());
    assert_eq!(report.kernel.iter().map(Difference::kind).collect::<Vec<_>>(), ["missing", "missing"]);
    fix(&mut program, &mut overlay, &report, 0);
    assert!(compare(&program, &overlay, &options, &Asker::open().unwrap().now(&options).unwrap()).is_clean());
    bridge(&format!("fdb replace {HOST} dev vx10 dst 192.0.2.3"));
    let report = compare(&program, &overlay, &options, &Asker::open().unwrap().now(&options).unwrap());
    assert_eq!(report.kernel.iter().map(Difference::kind).collect::<Vec<_>>(), ["different"]);
}

/// What is mended is the kernel's from then on: it goes when the kernel lets it go, though the
/// message that told of it first was lost.
#[test]
fn what_was_mended_follows_the_kernel() {
    let _namespace = Namespace::enter("mended");
    ip("link add vx10 type vxlan id 10 local 192.0.2.1 dstport 4789 nolearning");
    ip("link set vx10 up");
    let mut rig = Rig::new(RECEIVE_BUFFER);
    rig.until("the network", |rig| rig.have.contains_key(&Key::Network(10)));
    bridge(&format!("fdb add {HOST} dev vx10 dst 192.0.2.2"));
    // Another mirror has what the socket tells now: for this one it is lost.
    let mut other = Mirror::new(Options::default());
    while rig.kernel.turn(&mut other, 64).unwrap() || other.is_empty() {}
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let changes = rig.have.iter().map(|(key, value)| Change { key: *key, value: Some(value.clone()) });
    program.apply(&mut overlay, Owner::Kernel, changes.collect(), 0);
    let options = Options { ports: Vec::new(), ..Options::default() };
    let report = compare(&program, &overlay, &options, &Asker::open().unwrap().now(&options).unwrap());
    let place = Key::Entry(10, HOST.parse().unwrap());
    assert_eq!(report.kernel.iter().map(|it| it.key).collect::<Vec<_>>(), [place]);
    assert_eq!(fix(&mut program, &mut overlay, &report, 0), 1);
    rig.mirror.touch(report.kernel.iter().map(|it| it.key));
    rig.kernel.ask_again();
    rig.until("the entry", |rig| rig.remote(10, HOST).is_some());
    bridge(&format!("fdb del {HOST} dev vx10 dst 192.0.2.2"));
    rig.until("the entry went", |rig| rig.remote(10, HOST).is_none());
}

#[test]
fn a_device_for_all_networks_is_followed() {
    let _namespace = Namespace::enter("external");
    ip("link add vx type vxlan external local 192.0.2.1 dstport 4789 nolearning");
    ip("link set vx up");
    let mut rig = Rig::new(RECEIVE_BUFFER);
    bridge(&format!("fdb add {HOST} dev vx dst 192.0.2.2 vni 100 src_vni 100"));
    bridge(&format!("fdb add {HOST} dev vx dst 192.0.2.3 vni 200 src_vni 200"));
    bridge(&format!("fdb append {ALL} dev vx dst 192.0.2.2 vni 100 src_vni 100"));
    rig.until("two networks", |rig| {
        rig.remote(100, HOST).as_deref() == Some("192.0.2.2")
            && rig.remote(200, HOST).as_deref() == Some("192.0.2.3")
            && rig.flood(100) == ["192.0.2.2"]
    });
    assert_eq!(rig.entries(), rig.shown("vx", 0));
}

#[test]
fn far_ends_that_share_a_segment_are_followed() {
    let _namespace = Namespace::enter("nexthops");
    ip("link add vx10 type vxlan id 10 local 192.0.2.1 dstport 4789 nolearning");
    ip("link set vx10 up");
    let mut rig = Rig::new(RECEIVE_BUFFER);
    ip("nexthop add id 1 via 192.0.2.2 fdb");
    ip("nexthop add id 2 via 192.0.2.3 fdb");
    ip("nexthop add id 10 group 1/2 fdb");
    bridge(&format!("fdb add {HOST} dev vx10 nhid 10"));
    rig.until("both", |rig| rig.remotes(10, HOST) == ["192.0.2.2", "192.0.2.3"]);
    assert_eq!(rig.weights(10, HOST), [1, 1]);
    ip("nexthop replace id 10 group 1,20/2,255 fdb");
    rig.until("weights", |rig| rig.weights(10, HOST) == [20, 255]);
    ip("nexthop del id 1");
    rig.until("the other one", |rig| rig.remotes(10, HOST) == ["192.0.2.3"]);
    // The group goes with its last member, and entries go with the group, without a message.
    ip("nexthop del id 2");
    rig.until("nothing", |rig| !rig.have.contains_key(&Key::Entry(10, HOST.parse().unwrap())));
    ip("nexthop add id 1 via 192.0.2.2 fdb");
    ip("nexthop add id 10 group 1 fdb");
    rig.follow();
    assert_eq!((rig.remote(10, HOST), rig.shown("vx10", 10).len()), (None, 0));
}

#[test]
fn the_underlay_of_the_kernel_is_followed() {
    let _namespace = Namespace::enter("underlay");
    ip("link add under0 type veth peer name far0");
    ip("addr add 192.0.2.1/24 dev under0");
    ip("link set under0 up");
    ip("link set far0 up");
    let mut rig = Rig::new(RECEIVE_BUFFER);
    let prefix = ("10.0.0.0".parse::<IpAddr>().unwrap(), 8);
    let by = |rig: &Rig| match rig.have.get(&Key::Route(prefix)) {
        Some(Value::Route(route)) => route.gateway.map(|gateway| gateway.to_string()),
        _ => None,
    };
    rig.until(
        "the port is up",
        |rig| matches!(rig.have.get(&Key::Port(0)), Some(Value::Port(port)) if port.is_up),
    );
    ip("route add 10.0.0.0/8 via 192.0.2.9");
    ip("neigh replace 192.0.2.9 lladdr 02:00:00:00:00:09 dev under0");
    let neighbor = Key::Neighbor(0, "192.0.2.9".parse().unwrap());
    rig.until("the route and its next hop", |rig| by(rig).is_some() && rig.have.contains_key(&neighbor));
    ip("route replace 10.0.0.0/8 via 192.0.2.8");
    rig.until("another next hop", |rig| by(rig).as_deref() == Some("192.0.2.8"));
    ip("nexthop add id 60 via 192.0.2.7 dev under0");
    ip("route replace 10.0.0.0/8 nhid 60");
    rig.until("a nexthop object", |rig| by(rig).as_deref() == Some("192.0.2.7"));
    ip("nexthop replace id 60 via 192.0.2.6 dev under0");
    rig.until("another one", |rig| by(rig).as_deref() == Some("192.0.2.6"));
    // IPv4 routes and nexthop objects go with their device without a message.
    ip("link set under0 down");
    ip("link set under0 up");
    rig.until("the route went", |rig| !rig.have.contains_key(&Key::Route(prefix)));
    rig.until("the neighbour went", |rig| !rig.have.contains_key(&neighbor));
    assert!(!ip("route").contains("10.0.0.0/8") && !ip("nexthop").contains("id 60"));
    let connected = Key::Route(("192.0.2.0".parse().unwrap(), 24));
    rig.until("the port's own prefix", |rig| rig.have.contains_key(&connected));
}

/// Of routes of one prefix the first is used, which one that is prepended becomes; the others stay.
/// Linux does not tell of routes that go with the last IPv4 address of their device.
#[test]
fn routes_go_with_what_they_stood_in_front_of_and_with_addresses() {
    let _namespace = Namespace::enter("prepend");
    ip("link add under0 type veth peer name far0");
    ip("addr add 192.0.2.1/24 dev under0");
    ip("link set under0 up");
    ip("link set far0 up");
    let mut rig = Rig::new(RECEIVE_BUFFER);
    let prefix = ("10.0.0.0".parse::<IpAddr>().unwrap(), 8);
    let by = |rig: &Rig| match rig.have.get(&Key::Route(prefix)) {
        Some(Value::Route(route)) => route.gateway.map(|gateway| gateway.to_string()),
        _ => None,
    };
    ip("route add 10.0.0.0/8 via 192.0.2.9");
    rig.until("the route", |rig| by(rig).as_deref() == Some("192.0.2.9"));
    ip("route prepend 10.0.0.0/8 via 192.0.2.8");
    rig.until("one in front", |rig| by(rig).as_deref() == Some("192.0.2.8"));
    ip("route append 10.0.0.0/8 via 192.0.2.7");
    ip("route del 10.0.0.0/8 via 192.0.2.8");
    rig.until("the first again", |rig| by(rig).as_deref() == Some("192.0.2.9"));
    ip("route replace 10.0.0.0/8 via 192.0.2.6");
    rig.until("what replaced the first", |rig| by(rig).as_deref() == Some("192.0.2.6"));
    ip("route del 10.0.0.0/8 via 192.0.2.6");
    rig.until("the last", |rig| by(rig).as_deref() == Some("192.0.2.7"));
    ip("nexthop add id 5 via 192.0.2.5 dev under0");
    ip("route prepend 10.0.0.0/8 nhid 5");
    rig.until("a nexthop object in front", |rig| by(rig).as_deref() == Some("192.0.2.5"));
    ip("nexthop del id 5");
    rig.until("the last again", |rig| by(rig).as_deref() == Some("192.0.2.7"));
    ip("addr del 192.0.2.1/24 dev under0");
    rig.until("none", |rig| !rig.have.contains_key(&Key::Route(prefix)));
    assert!(!ip("route").contains("10.0.0.0/8"));
}

#[test]
fn a_device_that_flaps_leaves_the_table_as_the_kernel_has_it() {
    let _namespace = Namespace::enter("flap");
    ip("link add vx10 type vxlan id 10 local 192.0.2.1 dstport 4789 nolearning");
    ip("link set vx10 up");
    let mut entries = String::new();
    for n in 0..500 {
        entries += &format!(
            "fdb add 02:00:00:01:{:02x}:{:02x} dev vx10 dst 192.0.2.{}\n",
            n >> 8,
            n & 255,
            2 + n % 9
        );
    }
    batch("bridge", &entries);
    let mut rig = Rig::new(RECEIVE_BUFFER);
    rig.until("all came", |rig| rig.entries().len() == 500);
    let flaps = std::thread::scope(|scope| {
        let flapping = scope.spawn(|| {
            // The namespace is the thread's.
            let started = Instant::now();
            for n in 0..100u32 {
                batch("ip", "link set vx10 down\nlink set vx10 up\n");
                bridge(&format!("fdb replace {HOST} dev vx10 dst 192.0.2.{}", 2 + n % 9));
                let due = Duration::from_millis(10) * (n + 1);
                std::thread::sleep(due.saturating_sub(started.elapsed()));
            }
        });
        while !flapping.is_finished() {
            rig.follow();
        }
        flapping.join()
    });
    flaps.unwrap();
    rig.until("the table is the kernel's", |rig| rig.entries() == rig.shown("vx10", 10));
    assert_eq!(rig.entries().len(), 501);
}

#[test]
fn an_overflow_is_noticed_and_everything_asked_for_again() {
    let _namespace = Namespace::enter("overflow");
    ip("link add vx10 type vxlan id 10 local 192.0.2.1 dstport 4789 nolearning");
    ip("link set vx10 up");
    let mut rig = Rig::new(4 << 10);
    rig.until("the network", |rig| rig.have.contains_key(&Key::Network(10)));
    let mut entries = String::new();
    for n in 0..100_000u32 {
        let [_, a, b, c] = n.to_be_bytes();
        entries += &format!("fdb add 02:00:00:{a:02x}:{b:02x}:{c:02x} dev vx10 dst 192.0.2.{}\n", 2 + n % 9);
    }
    batch("bridge", &entries);
    bridge("fdb del 02:00:00:00:00:07 dev vx10");
    rig.until("all are there", |rig| rig.entries().len() == 99_999 && rig.kernel.is_current());
    assert_eq!(rig.entries(), rig.shown("vx10", 10));
    let counters = rig.kernel.counters();
    assert!(counters.overflows > 0 && counters.rounds > 1, "{counters:?}");
}

/// Whoever may send datagrams to the socket is not the kernel: what they say is counted and not heard.
#[test]
fn datagrams_of_other_processes_are_thrown_away() {
    let _namespace = Namespace::enter("foreign");
    let mut rig = Rig::new(RECEIVE_BUFFER);
    rig.follow();
    let before = (rig.mirror.len(), rig.mirror.counters().messages);
    let local = Some(IpAddr::from([192, 0, 2, 1]));
    let device = Device { index: 7, name: "vx", up: true, vxlan: Some((10, local, false)), mtu: 1450 };
    let entry = Fdb::to(7, [2, 0, 0, 0, 1, 1], IpAddr::from([192, 0, 2, 2]));
    let forged = [device.added(), entry.added()].concat();
    let stranger = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).unwrap();
    let own: SocketAddrNetlink = getsockname(&rig.kernel).unwrap().try_into().unwrap();
    let to = SocketAddrNetlink::new(own.pid(), 0);
    assert_eq!(sendto(&stranger, &forged, SendFlags::empty(), &to).unwrap(), forged.len());
    rig.until("it came", |rig| rig.kernel.counters().foreign == 1);
    assert_eq!((rig.mirror.len(), rig.mirror.counters().messages), before);
    assert!(rig.kernel.is_current());
}
