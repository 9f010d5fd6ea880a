//! `ixora overlay run` whose entries are others' than the file's: what `bridge fdb` wrote into
//! the kernel, what a controller wrote by the API, and what frames say that come.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::common::host::{Host, ip};
use crate::common::{Done, IXORA, Running, may_make_interfaces, start_command, until};
use crate::overlay_hosts::{address, answers, cable, end};
use rustix::process::Signal;

/// The far host's address in the virtual network.
const STATION: &str = "02:00:00:00:0b:01";

/// A host behind an endpoint, and two far ends on its underlay, at which one station is by
/// turns.
struct Fabric {
    inside: Host,
    middle: Host,
    one: Host,
    other: Host,
}

impl Fabric {
    fn new() -> Fabric {
        let (inside, middle, one, other) = (Host::new(), Host::new(), Host::new(), Host::new());
        cable(&middle, "ul0", &one, "wire");
        cable(&one, "far0", &other, "wire");
        cable(&middle, "in0", &inside, "host");
        address(&inside, "host", "10.1.0.1/24");
        inside.run(|| ip(&format!("neigh add 10.1.0.2 lladdr {STATION} dev host nud permanent")));
        middle.run(|| {
            ip("link add vx100 type vxlan id 100 local 192.0.2.1 dstport 4789 nolearning");
            ip("link set vx100 addrgenmode none");
            ip("link set vx100 up");
        });
        one.run(|| {
            ip("link add br0 type bridge");
            ip("link set br0 addrgenmode none");
            ip("link set wire master br0");
            ip("link set far0 master br0");
            ip("link set br0 up");
            ip("addr add 192.0.2.2/24 dev br0");
        });
        other.run(|| ip("addr add 192.0.2.3/24 dev wire"));
        for (host, local) in [(&one, "192.0.2.2"), (&other, "192.0.2.3")] {
            host.run(move || {
                ip(&format!("link add vx type vxlan id 100 remote 192.0.2.1 local {local} dstport 4789"));
                ip(&format!("link set vx address {STATION} mtu 1400 addrgenmode none"));
                ip("addr add 10.1.0.2/24 dev vx");
            });
        }
        Fabric { inside, middle, one, other }
    }

    /// Lets the station be at one far end and not at the other.
    fn be_at(host: &Host, not_at: &Host) {
        not_at.run(|| ip("link set vx down"));
        host.run(|| ip("link set vx up"));
    }

    /// Runs an endpoint that learns from somebody, with an API at a socket.
    fn endpoint(&self, place: &Path, learn: &str) -> Running {
        let link = if learn == "kernel" { "link = \"ul0\"\n" } else { "" };
        let text = format!(
            "learn = \"{learn}\"\n[api]\nlisten = \"{}\"\n\
             [[underlay]]\nname = \"up\"\nport = \"af_packet:ul0\"\naddresses = [\"192.0.2.1/24\"]\nmtu = 1600\n{link}\
             [[network]]\nnumber = 100\nprotocol = \"vxlan\"\ninner = \"af_packet:in0\"\n",
            place.join("api").display()
        );
        self.start(place, &text)
    }

    /// Runs an endpoint with this configuration.
    fn start(&self, place: &Path, text: &str) -> Running {
        let (file, place) = (place.join("overlay.toml"), place.to_owned());
        std::fs::write(&file, text).expect("a file");
        self.middle.run(move || {
            let mut command = Command::new(IXORA);
            command
                .args(["overlay", "run", "--json", "--interrupts", "--control"])
                .arg(place.join("control"));
            start_command(command.arg(&file), &place)
        })
    }

    /// Compares with the kernel.
    fn reconcile(&self, place: &Path, options: &str) -> Done {
        let (place, options) = (place.to_owned(), format!("overlay reconcile --json {options}"));
        self.middle.run(move || start_command(Command::new(IXORA).args(options.split(' ')), &place)).wait(20)
    }

    /// Changes a forwarding database of the kernel's.
    fn bridge(&self, arguments: &'static str) {
        let done = self.middle.run(move || Command::new("bridge").args(arguments.split(' ')).status());
        assert!(done.expect("iproute2").success(), "bridge {arguments}");
    }

    fn answers(&self) -> bool {
        answers(&self.inside, "10.1.0.2", 56)
    }
}

/// Asks the API; the status line and what follows.
fn ask(place: &Path, method: &str, path: &str, body: &str) -> String {
    let mut stream = None;
    until("socket of the API", || {
        stream = UnixStream::connect(place.join("api")).ok();
        stream.is_some()
    });
    let mut stream = stream.expect("just connected");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn entries_of_the_kernel_are_followed_when_they_come_move_and_go() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let fabric = Fabric::new();
    Fabric::be_at(&fabric.one, &fabric.other);
    let endpoint = fabric.endpoint(place.path(), "kernel");
    assert!(!fabric.answers(), "nobody told of it yet");
    fabric.bridge("fdb add 02:00:00:00:0b:01 dev vx100 dst 192.0.2.2 self permanent");
    until("answer of the first far end", || fabric.answers());
    Fabric::be_at(&fabric.other, &fabric.one);
    assert!(!fabric.answers(), "the kernel does not know that it moved");
    fabric.bridge("fdb replace 02:00:00:00:0b:01 dev vx100 dst 192.0.2.3 self permanent");
    until("answer of the other far end", || fabric.answers());
    let claim = ask(place.path(), "GET", "/v1/networks/100/entries/02:00:00:00:0b:01", "");
    assert!(claim.contains("\"owner\":\"kernel\"") && claim.contains("192.0.2.3"), "{claim}");
    fabric.bridge("fdb del 02:00:00:00:0b:01 dev vx100 dst 192.0.2.3 self");
    until("silence without an entry", || !fabric.answers());
    // The list of those who get what is unknown.
    fabric.bridge("fdb append 00:00:00:00:00:00 dev vx100 dst 192.0.2.3 self permanent");
    until("answer to a copy", || fabric.answers());
    let done = end(endpoint);
    assert!(done.json()["overlay"]["drops"]["overlay_no_copy"].as_u64() > Some(0), "{done:#?}");
}

#[test]
fn entries_of_a_controller_are_used_and_hide_those_of_the_kernel() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let fabric = Fabric::new();
    Fabric::be_at(&fabric.other, &fabric.one);
    let endpoint = fabric.endpoint(place.path(), "kernel");
    fabric.bridge("fdb add 02:00:00:00:0b:01 dev vx100 dst 192.0.2.2 self permanent");
    let path = format!("/v1/networks/100/entries/{STATION}");
    until("the kernel's entry", || ask(place.path(), "GET", &path, "").contains("192.0.2.2"));
    assert!(!fabric.answers(), "the kernel's far end is not where the station is");
    let answer = ask(place.path(), "PUT", &path, "{\"remote\": \"192.0.2.3\"}");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    until("answer by the controller's entry", || fabric.answers());
    // What is different from the kernel is named, with whose it is; to mend that is not the
    // kernel's.
    for options in ["", " --fix"] {
        let control = format!("--control {}{options}", place.path().join("control").display());
        let done = fabric.reconcile(place.path(), &control);
        let (differences, text) = (&done.json()["differences"], done.json()["text"].to_string());
        assert_eq!((done.code(), differences[0]["kind"].as_str()), (Some(1), Some("different")), "{done:#?}");
        assert_eq!(
            (differences.as_array().map(Vec::len), differences[0]["owner"].as_str()),
            (Some(1), Some("api"))
        );
        assert!(text.contains(&format!("different: entry {STATION} of network 100")), "{text}");
    }
    let answer = ask(place.path(), "DELETE", &path, "");
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    until("the kernel's way again", || !fabric.answers());
    let done = fabric.reconcile(place.path(), &place.path().join("control").display().to_string());
    assert_eq!((done.code(), &done.json()["clean"]), (Some(0), &serde_json::Value::Bool(true)), "{done:#?}");
    // The configuration alone has no entry.
    let done =
        fabric.reconcile(place.path(), &format!("--config {}", place.path().join("overlay.toml").display()));
    assert_eq!(done.json()["differences"][0]["kind"], "missing", "{done:#?}");
    assert_eq!(done.json()["differences"].as_array().map(Vec::len), Some(1), "{done:#?}");
    end(endpoint);
}

/// The only entry of an endpoint, if it has one: whose it is, where it leads, and packets by it.
fn entry(place: &Path) -> Option<(String, String, u64)> {
    let control = place.join("control");
    let mut show = Command::new(IXORA);
    let shown = start_command(show.args(["overlay", "show", "--json"]).arg(control), place).wait(20);
    let entries = (shown.code() == Some(0)).then(|| shown.json()["entries"].clone())?;
    let entry = entries.as_array().filter(|entries| entries.len() == 1)?.first()?;
    let text = |name: &str| entry[name].as_str().map(str::to_owned);
    Some((text("owner")?, text("tunnel")?, entry["packets"].as_u64()?))
}

/// RFC 7348, section 4.1: a station is where its frames come from, also when it moved.
#[test]
fn stations_are_learned_from_what_they_send() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let fabric = Fabric::new();
    Fabric::be_at(&fabric.one, &fabric.other);
    let endpoint = fabric.start(
        place.path(),
        "[[underlay]]\nname = \"up\"\nport = \"af_packet:ul0\"\naddresses = [\"192.0.2.1/24\"]\nmtu = 1600\n\
         [[network]]\nnumber = 100\nprotocol = \"vxlan\"\ninner = \"af_packet:in0\"\n\
         flood = [\"192.0.2.2\", \"192.0.2.3\"]\nlearning = { ageing = 60 }\n",
    );
    until("answer to a copy for all", || fabric.answers());
    let is_at = |remote: &str| {
        entry(place.path()).is_some_and(|(owner, tunnel, packets)| {
            (owner.as_str(), packets > 0) == ("learned", true) && tunnel.contains(&format!("> {remote},"))
        })
    };
    until("packets by the entry that was learned", || fabric.answers() && is_at("192.0.2.2"));
    Fabric::be_at(&fabric.other, &fabric.one);
    assert!(!fabric.answers(), "it was heard of at the first far end");
    until("answer to the station", || answers(&fabric.other, "10.1.0.1", 56));
    until("the station at the other far end", || fabric.answers() && is_at("192.0.2.3"));
    end(endpoint);
}

/// When the kernel tells faster than it is listened to, messages are lost: that is said and counted,
/// everything is asked for again, and the table is the kernel's afterwards.
#[test]
fn an_overflow_is_said_and_the_table_is_the_kernels_again() {
    const ENTRIES: u32 = 100_000;
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let fabric = Fabric::new();
    Fabric::be_at(&fabric.one, &fabric.other);
    let endpoint = fabric.endpoint(place.path(), "kernel");
    fabric.bridge("fdb add 02:00:00:00:0b:01 dev vx100 dst 192.0.2.2 self permanent");
    until("answer of the far end", || fabric.answers());
    let batch = place.path().join("entries");
    let lines: String = (0..ENTRIES)
        .map(|n| {
            let [_, a, b, c] = n.to_be_bytes();
            format!("fdb add 02:00:01:{a:02x}:{b:02x}:{c:02x} dev vx100 dst 192.0.2.3 self permanent\n")
        })
        .collect();
    std::fs::write(&batch, lines).expect("a file");
    // It hears nothing while it stands still; its socket has room for a third of that.
    endpoint.signal(Signal::STOP);
    let done = fabric.middle.run(move || Command::new("bridge").arg("-batch").arg(&batch).status());
    assert!(done.expect("iproute2").success());
    fabric.bridge("fdb del 02:00:01:00:00:07 dev vx100 dst 192.0.2.3 self");
    endpoint.signal(Signal::CONT);
    let metric = |name: &str, what: &str| {
        let mut show = Command::new(IXORA);
        let show = show.args(["overlay", "show", "--metrics"]).arg(place.path().join("control"));
        let shown = start_command(show, place.path()).wait(20).stdout;
        let line = shown.lines().find(|line| line.starts_with(name) && line.contains(what));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
    };
    until("an overflow", || metric("ixora_overlay_control_total", "\"overflows\"").is_some_and(|it| it > 0));
    until("all entries", || metric("ixora_overlay_entries", "\"100\"") == Some(u64::from(ENTRIES)));
    until("a table that is the kernel's", || metric("ixora_overlay_kernel_current", "") == Some(1));
    let control = format!("--control {}", place.path().join("control").display());
    let done = fabric.reconcile(place.path(), &control);
    assert_eq!((done.code(), &done.json()["clean"]), (Some(0), &serde_json::Value::Bool(true)), "{done:#?}");
    assert!(fabric.answers());
    let done = end(endpoint);
    assert!(done.stderr.contains("rtnetlink's socket overflowed"), "{done:#?}");
}
