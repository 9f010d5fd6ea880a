//! Servers, loads, hosts of virtual functions and tunnel endpoints give up what others give up, and
//! are asked meanwhile, by clients that mean harm too.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::router::{EACCES, EPERM, assert_answer};
use super::{assert_confined, expected_user, refused, until_confined};
use crate::common::{Running, names, run, start, until};

/// Packets of which it is seen that they are sent.
const ENOUGH: u64 = 100;
/// How long an answer may take.
const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

/// A port that nobody has.
fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("an address").port()
}

/// What a port answers to some bytes, up to the end of the connection.
fn ask(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(LIMIT).expect("a limit");
    // One who is refused amid is told why all the same.
    let _ = stream.write_all(bytes);
    let mut answer = vec![];
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn end(running: Running) {
    running.signal(Signal::TERM);
    let done = running.wait(20);
    assert_eq!(done.code(), Some(0), "{done:#?}");
}

#[test]
fn a_server_is_asked_with_nothing_left_to_abuse() {
    let place = tempfile::tempdir().expect("a directory");
    let (control, metrics) = (place.path().join("control"), free_port());
    let server = start(
        place.path(),
        &format!(
            "serve memcached --port model:82599 --addr 10.0.0.2/24 --control {} --metrics={metrics} --json",
            control.display()
        ),
    );
    assert_confined(server.id(), expected_user());
    refused::try_all(server.id());
    let file = std::fs::symlink_metadata(&control).expect("a socket");
    assert_eq!(file.mode() & 0o777, 0o600, "others do not ask");
    let shown = run(place.path(), &format!("tcp show {} --json", control.display()));
    assert_eq!(shown.code(), Some(0), "{shown:#?}");
    let answer = ask(metrics, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    end(server);
    until("end of the socket", || names(place.path()).is_empty());
}

#[test]
fn a_load_has_nothing_left_to_abuse() {
    let place = tempfile::tempdir().expect("a directory");
    let load = start(
        place.path(),
        "load echo --port model:82599 --addr 10.0.0.1/24 --to 10.0.0.2 --connections 3 --duration 20s",
    );
    assert_confined(load.id(), expected_user());
    refused::try_all(load.id());
    load.signal(Signal::INT);
    load.wait(20); // nobody answered it
}

#[test]
fn who_hosts_virtual_functions_has_nothing_left_to_abuse() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("nic");
    let model = start(place.path(), &format!("model xl710 --json --vfs 2 --socket {}", socket.display()));
    until_confined(model.id());
    let host = start(place.path(), &format!("pf vfio-user:{} --vfs 2 --json", socket.display()));
    assert_confined(host.id(), expected_user());
    refused::try_all(host.id());
    refused::try_all(model.id());
    let mut told = run(place.path(), &format!("info vfio-user:{}.vf1 --json", socket.display()));
    until("the host's answers", || {
        if told.code() != Some(0) {
            told = run(place.path(), &format!("info vfio-user:{}.vf1 --json", socket.display()));
        }
        told.code() == Some(0)
    });
    end(host);
    end(model);
}

/// A tunnel endpoint that controllers and FRR may change; the ports at which they do.
fn endpoint(place: &Path) -> (Running, u16, u16) {
    let (api, fpm) = (free_port(), free_port());
    let file = place.join("overlay.toml");
    let text = format!(
        "[[underlay]]\nname = \"up\"\nport = \"model:82599,wire=sink\"\naddresses = [\"192.0.2.1/24\"]\n\
         [[network]]\nnumber = 100\nprotocol = \"vxlan\"\ninner = \"model:82599,wire=sink\"\n\
         [api]\nlisten = \"127.0.0.1:{api}\"\n[fpm]\nlisten = \"127.0.0.1:{fpm}\"\n"
    );
    std::fs::write(&file, format!("learn = \"fpm\"\n{text}")).expect("a file");
    let running = start(place, &format!("overlay run {} --json", file.display()));
    until_confined(running.id());
    (running, api, fpm)
}

/// Half and endless requests, nonsense and a crowd, at the ports of controllers and of FRR: who asks
/// rightly is answered all the same, by a process that is confined.
#[test]
fn an_endpoint_is_told_by_others_with_little_left_to_abuse() {
    let place = tempfile::tempdir().expect("a directory");
    let (endpoint, api, fpm) = endpoint(place.path());
    assert_confined(endpoint.id(), expected_user());
    for what in ["make a TCP socket", "run a program", "make a process", "map code"] {
        assert_answer(endpoint.id(), what, EPERM);
    }
    // It reads its configuration again, and nothing beside it.
    if runtime::confine::landlock_version().is_some() {
        assert_answer(endpoint.id(), "open a file", EACCES);
    }
    let head = "PUT /v1/networks/100/entries/02:00:00:00:0d:01 HTTP/1.1\r\nHost: localhost\r\n";
    for (bytes, status) in [
        (b"\x16\x03\x01\x02\x00\x01".to_vec(), "400"),
        (format!("{head}X: {}\r\n\r\n", "y".repeat(1 << 20)).into_bytes(), "431"),
        (format!("{head}Content-Length: 99999999999999999999\r\n\r\n").into_bytes(), "413"),
        (format!("{head}Content-Length: 3\r\n\r\n{{]}}").into_bytes(), "400"),
        (format!("{head}Origin: http://a.stranger\r\nContent-Length: 0\r\n\r\n").into_bytes(), "403"),
    ] {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        // A request that is wrong in itself keeps the connection: the next one ends it.
        let bytes =
            [bytes, b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec()];
        let answer = ask(api, &bytes.concat());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{start}: {answer}");
    }
    let connect = |port: u16| TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let crowd: Vec<TcpStream> = (0..100).map(|n| connect([api, fpm][n % 2])).collect();
    for (n, mut client) in crowd.iter().enumerate() {
        // Some are refused meanwhile.
        let _ = client.write_all([&b"GET /v1/sta"[..], &[1, 1, 0]][n % 2]);
    }
    drop(ask(fpm, b"GET / HTTP/1.1\r\n\r\n"));
    let entry = format!("{head}Connection: close\r\nContent-Length: 23\r\n\r\n{{\"remote\": \"192.0.2.2\"}}");
    let answer = ask(api, entry.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    drop(crowd);
    end(endpoint);
}

/// The NIC of an endpoint that is confined, in this process and in another one, is told of an entry
/// that comes afterwards, and puts its packets into tunnels.
#[test]
fn a_nic_is_told_of_tunnels_with_nothing_left_to_abuse() {
    for is_served in [false, true] {
        let place = tempfile::tempdir().expect("a directory");
        let (file, socket, nic) =
            (place.path().join("overlay.toml"), place.path().join("control"), place.path().join("nic"));
        let model = is_served.then(|| {
            let model = format!("model 82599 --json --encap-offload 4 --socket {}", nic.display());
            start(place.path(), &model)
        });
        model.iter().for_each(|model| until_confined(model.id()));
        let port = match is_served {
            true => format!("vfio-user:{}", nic.display()),
            false => "model:82599,encap-offload=4,wire=sink".to_owned(),
        };
        let text = format!(
            "[[underlay]]\nname = \"up\"\nport = \"{port}\"\naddresses = [\"192.0.2.1/24\"]\noffload = \"nic\"\n\
             neighbors = {{ \"192.0.2.2\" = \"02:00:00:00:00:02\" }}\n\
             [[network]]\nnumber = 100\nprotocol = \"vxlan\"\nunknown = \"punt\"\n\
             inner = \"model:82599,wire=gen:rate=2k,dst=02:00:00:00:0b:01+sink\"\n"
        );
        std::fs::write(&file, &text).expect("a file");
        let control = socket.display();
        let endpoint =
            start(place.path(), &format!("overlay run {} --control {control} --json", file.display()));
        assert_confined(endpoint.id(), expected_user());
        assert_answer(endpoint.id(), "run a program", EPERM);
        let entry = "[[network.entry]]\nkey = \"02:00:00:00:0b:01\"\nremote = \"192.0.2.2\"\n";
        std::fs::write(&file, text + entry).expect("a file");
        endpoint.signal(Signal::HUP);
        until("entry in the NIC", || {
            let shown = run(place.path(), &format!("overlay show {control} --json"));
            shown.code() == Some(0) && shown.json()["nic"]["entries"] == 1
        });
        until("packets that the NIC put into tunnels", || {
            let shown = run(place.path(), &format!("overlay show {control} --json"));
            if shown.code() != Some(0) {
                return false;
            }
            // What the NIC gives back is forwarded once more, by software.
            let count = |name: &str| shown.json()["accounts"]["networks"][0][name].as_u64();
            let [forwarded, returned] = ["forwarded", "returned"].map(|name| count(name).unwrap_or(0));
            forwarded > 2 * returned + 2 * ENOUGH
        });
        endpoint.signal(Signal::TERM);
        let done = endpoint.wait(20);
        assert_eq!(done.code(), Some(0), "{done:#?}");
        let json = done.json();
        assert_eq!(json["overlay"]["balanced"], true, "{json:#}");
        let ports = json["summary"]["ports"].as_array().expect("a list");
        let sent: u64 = ports.iter().filter_map(|port| port["counters"]["encap_sent"].as_u64()).sum();
        assert!(sent > ENOUGH, "{json:#}");
        model.into_iter().for_each(end);
    }
}
