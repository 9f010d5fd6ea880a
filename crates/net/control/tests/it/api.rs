//! The HTTP API, by its parser and over sockets.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use control::admission::Admission;
use control::api::http::{MAX_BODY, MAX_HEAD, Method, Parsed, parse};
use control::api::server::{STALL_NS, Server};
use control::api::{Controlled, OPENAPI, answer};
use control::json::{cursor, read_cursor};
use control::{Change, Far, Key, Owner, Program, Value};
use overlay::Overlay;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value as Json, json};

pub struct Rig {
    program: Program,
    overlay: Overlay,
    now_ns: i64,
}

impl Rig {
    pub fn new() -> Rig {
        Rig { program: Program::new(), overlay: Overlay::new(), now_ns: 7 }
    }

    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, Json) {
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        let bytes = [head.as_bytes(), body.as_bytes()].concat();
        let Parsed::Whole(request, length) = parse(&bytes, true) else { panic!("{:?}", parse(&bytes, true)) };
        assert_eq!(length, bytes.len());
        let Rig { program, overlay, now_ns } = self;
        let on =
            &mut Controlled { program, overlay, now_ns: *now_ns, status: json!({ "kernel": "current" }) };
        let response = answer(&request, on);
        let body =
            if response.body.is_empty() { Json::Null } else { serde_json::from_str(&response.body).unwrap() };
        (response.status, body)
    }

    fn remote(&self) -> Option<IpAddr> {
        self.overlay.get(10, 0x0200_0000_0101).map(|tunnel| tunnel.remote)
    }
}

const ENTRY: &str = "/v1/networks/10/entries/02:00:00:00:01:01";

#[test]
fn a_controller_writes_reads_and_deletes() {
    let mut rig = Rig::new();
    let (status, body) = rig.ask("PUT", ENTRY, r#"{"remote": "192.0.2.2"}"#);
    assert!(status == 400 && body["error"].as_str().unwrap().contains("local"), "{body}");
    assert_eq!(rig.ask("PUT", "/v1/networks/10", r#"{"local": "192.0.2.1"}"#).0, 201);
    assert_eq!(rig.ask("PUT", ENTRY, r#"{"remote": "192.0.2.2"}"#).0, 201);
    assert_eq!(rig.ask("PUT", ENTRY, r#"{"remote": "192.0.2.3", "vni": 77, "port": 8472}"#).0, 204);
    assert_eq!(rig.remote(), Some(IpAddr::from([192, 0, 2, 3])));
    let (status, body) = rig.ask("GET", ENTRY, "");
    let is = json!({ "remote": "192.0.2.3", "local": "192.0.2.1", "vni": 77, "port": 8472 });
    let at = json!({ "kind": "entry", "vni": 10, "mac": "02:00:00:00:01:01" });
    let usage = json!({ "packets": 0, "bytes": 0, "last_ns": null });
    assert_eq!(
        (status, body),
        (200, json!({ "at": at, "is": is, "owner": "api", "since_ns": 7, "usage": usage }))
    );
    let flood =
        r#"{"far_ends": [{"remote": "192.0.2.9"}, {"remote": "192.0.2.8"}, {"remote": "192.0.2.9"}]}"#;
    assert_eq!(rig.ask("PUT", "/v1/networks/10/flood", flood).0, 201);
    let (_, body) = rig.ask("GET", "/v1/networks/10/flood", "");
    assert_eq!(body["is"]["far_ends"].as_array().unwrap().len(), 2);
    let (_, page) = rig.ask("GET", "/v1/claims?owner=api&after=network-10", "");
    assert_eq!((page["total"].as_u64(), page["claims"].as_array().unwrap().len()), (Some(3), 2));
    let (_, status) = rig.ask("GET", "/v1/status", "");
    assert_eq!((&status["claims"]["api"], &status["more"]["kernel"]), (&json!(3), &json!("current")));
    assert_eq!(rig.ask("DELETE", ENTRY, "").0, 204);
    assert_eq!((rig.ask("DELETE", ENTRY, "").0, rig.ask("GET", ENTRY, "").0, rig.remote()), (404, 404, None));
}

#[test]
fn an_end_has_the_port_that_a_controller_writes_and_far_ends_take_it_over() {
    let mut rig = Rig::new();
    let end = r#"{"local": "2001:db8::1", "port": 8472, "accept_zero_checksum": true}"#;
    assert_eq!(rig.ask("PUT", "/v1/networks/10", end).0, 201);
    let is: Json = serde_json::from_str(end).unwrap();
    assert_eq!(rig.ask("GET", "/v1/networks/10", "").1["is"], is);
    for (port, becomes) in
        [("", json!(8472)), (r#", "port": 4789"#, Json::Null), (r#", "port": 9"#, json!(9))]
    {
        let body = format!(r#"{{"remote": "2001:db8::2"{port}}}"#);
        assert!(rig.ask("PUT", ENTRY, &body).0 < 300);
        assert_eq!(rig.ask("GET", ENTRY, "").1["is"]["port"], becomes, "{body}");
    }
    assert_eq!(rig.ask("PUT", "/v1/networks/10", r#"{"local": "2001:db8::1", "port": 4789}"#).0, 204);
    let is = json!({ "local": "2001:db8::1", "port": null, "accept_zero_checksum": false });
    assert_eq!(rig.ask("GET", "/v1/networks/10", "").1["is"], is);
    for (wrong, why) in [
        (r#""port": 65536"#, "from 1 to 65535"),
        (r#""port": 0"#, "from 1 to 65535"),
        (r#""accept_zero_checksum": 1"#, "true or false"),
    ] {
        let (status, body) =
            rig.ask("PUT", "/v1/networks/10", &format!(r#"{{"local": "2001:db8::1", {wrong}}}"#));
        assert!(status == 400 && body["error"].as_str().unwrap().contains(why), "{wrong}: {body}");
    }
}

/// What FRR says of a segment, as a controller hands it on.
#[test]
fn a_controller_says_who_forwards_to_a_segment() {
    const SEGMENT: &str = "/v1/networks/10/segment";
    let mut rig = Rig::new();
    assert_eq!(rig.ask("PUT", "/v1/networks/10", r#"{"local": "192.0.2.1"}"#).0, 201);
    let peers = r#"{"designated": false, "peers": ["192.0.2.3", "192.0.2.2", "192.0.2.3"]}"#;
    assert_eq!(rig.ask("PUT", SEGMENT, peers).0, 201);
    let (_, body) = rig.ask("GET", SEGMENT, "");
    assert_eq!(body["is"], json!({ "designated": false, "peers": ["192.0.2.2", "192.0.2.3"] }));
    assert_eq!(body["at"], json!({ "kind": "segment", "vni": 10 }));
    let has = |rig: &Rig| rig.overlay.segment(10).map(|segment| (segment.is_designated, segment.peers.len()));
    assert_eq!(has(&rig), Some((false, 2)));
    assert_eq!(rig.ask("PUT", SEGMENT, r#"{"designated": true}"#).0, 204);
    assert_eq!(has(&rig), Some((true, 0)));
    let many: Vec<String> = (0..=overlay::MAX_PEERS).map(|n| format!("10.0.0.{n}")).collect();
    let (status, body) = rig.ask("PUT", SEGMENT, &json!({ "designated": false, "peers": many }).to_string());
    assert!(status == 409 && body["error"].as_str().unwrap().contains("at most"), "{body}");
    assert_eq!(has(&rig), Some((true, 0)), "what is refused changes nothing");
    assert_eq!((rig.ask("DELETE", SEGMENT, "").0, has(&rig)), (204, None));
}

#[test]
fn what_a_controller_takes_back_is_the_kernels_again() {
    let mut rig = Rig::new();
    let far = |last| Far {
        remote: IpAddr::from([192, 0, 2, last]),
        local: IpAddr::from([192, 0, 2, 1]),
        vni: 10,
        port: None,
    };
    let key = Key::Entry(10, "02:00:00:00:01:01".parse().unwrap());
    let kernel = vec![
        Change { key: Key::Network(10), value: Some(Value::Network(control::End::new(far(1).local))) },
        Change { key, value: Some(Value::Entry(far(2))) },
    ];
    rig.program.apply(&mut rig.overlay, Owner::Kernel, kernel, 0);
    assert_eq!(rig.ask("PUT", ENTRY, r#"{"remote": "192.0.2.3"}"#).0, 201);
    assert_eq!(rig.remote(), Some(far(3).remote));
    assert_eq!(rig.ask("DELETE", ENTRY, "").0, 204);
    assert_eq!(rig.remote(), Some(far(2).remote));
    assert_eq!(rig.ask("DELETE", ENTRY, "").0, 404, "the kernel's is not a controller's to delete");
}

#[test]
fn wrong_requests_are_told_what_is_wrong_and_change_nothing() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask("PUT", "/v1/networks/10", r#"{"local": "192.0.2.1"}"#).0, 201);
    rig.now_ns += 1;
    for (path, body, status, why) in [
        ("/v1/networks/10", "{", 400, "line 1, column 1"),
        ("/v1/networks/10", "[]", 400, "object"),
        ("/v1/networks/10", r#"{"local": 5}"#, 400, "quotes"),
        ("/v1/networks/10", r#"{"local": "192.0.2.1", "lokal": 1}"#, 400, "lokal"),
        ("/v1/networks/10", r#"{"local": "224.0.0.1"}"#, 400, "224.0.0.1"),
        ("/v1/networks/0", r#"{"local": "192.0.2.1"}"#, 400, "network's number"),
        ("/v1/networks/16777216", r#"{"local": "192.0.2.1"}"#, 400, "network's number"),
        (ENTRY, r#"{"remote": "2001:db8::1"}"#, 400, "both"),
        (ENTRY, r#"{"remote": "239.0.0.1"}"#, 400, "one host"),
        (ENTRY, r#"{"remote": "192.0.2.2", "port": 0}"#, 400, "from 1 to 65535"),
        (ENTRY, r#"{"remote": "192.0.2.2", "vni": 16777216}"#, 400, "from 1"),
        ("/v1/networks/10/entries/01:00:00:00:00:01", r#"{"remote": "192.0.2.2"}"#, 400, "flood"),
        ("/v1/networks/10/entries/02", r#"{"remote": "192.0.2.2"}"#, 400, "Ethernet address"),
        ("/v1/networks/10/flood", r#"{"far_ends": [{"remote": "192.0.2.2"}, 5]}"#, 400, "far end 1"),
        ("/v1/networks/10/segment", r#"{"peers": []}"#, 400, "designated"),
        ("/v1/networks/10/segment", r#"{"designated": true, "peers": [7]}"#, 400, "7 in"),
        ("/v1/networks/10/segment", r#"{"designated": true, "peers": "192.0.2.2"}"#, 400, "a list"),
        ("/v1/networks/10/segment", r#"{"designated": 1}"#, 400, "true or false"),
        ("/v1/nothing", "{}", 404, "/v1/nothing"),
        ("/v1/status", "{}", 405, "GET"),
    ] {
        let (is, error) = rig.ask("PUT", path, body);
        assert!(
            is == status && error["error"].as_str().unwrap().contains(why),
            "{path} {body}: {is} {error}"
        );
    }
    assert_eq!(rig.program.claims(Owner::Api).len(), 1);
    assert_eq!(rig.program.refused().len(), 0);
    // The network is as it was, and since then.
    assert_eq!(rig.ask("GET", "/v1/networks/10", "").1["since_ns"], 7);
    let vxlan = overlay::Protocol::named("vxlan").unwrap();
    let local = IpAddr::from([192, 0, 2, 1]);
    let own = overlay::Tunnel::new(vxlan, local, local).with_identifier(10);
    assert!(rig.overlay.end(&own).is_some());
    for path in ["/v1/claims?owner=nobody", "/v1/claims?after=x"] {
        assert_eq!(rig.ask("GET", path, "").0, 400);
    }
}

#[test]
fn pages_go_on_where_the_last_one_ended_whatever_changes_in_between() {
    let mut rig = Rig::new();
    let key = |n: u32| {
        let [_, a, b, c] = n.to_be_bytes();
        Key::Entry(10, wire::MacAddress([2, 0, 0, a, b, c]))
    };
    let far = Far { remote: [192, 0, 2, 2].into(), local: [192, 0, 2, 1].into(), vni: 10, port: None };
    let change = |n, there: bool| Change { key: key(n), value: there.then_some(Value::Entry(far)) };
    let all = (0..2500).map(|n| change(n, true)).collect();
    rig.program.apply(&mut rig.overlay, Owner::Api, all, 0);
    let (mut seen, mut path) = (vec![], "/v1/claims".to_string());
    loop {
        let (status, page) = rig.ask("GET", &path, "");
        assert_eq!(status, 200, "{page}");
        let macs = page["claims"].as_array().unwrap().iter().map(|claim| claim["at"]["mac"].to_string());
        seen.extend(macs);
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/claims?after={next}");
        // Of what was shown, some goes.
        let gone = (0..seen.len() as u32).step_by(2).map(|n| change(n, false)).collect();
        rig.program.apply(&mut rig.overlay, Owner::Api, gone, 0);
    }
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (2500, 2500));
}

proptest! {
    #[test]
    fn a_places_name_leads_back_to_it(port: u16, v4: u32, v6: u128, length: u8, vni: u32, mac: [u8; 6]) {
        let mac = wire::MacAddress(mac);
        let addresses = [IpAddr::V4(v4.into()), IpAddr::V6(v6.into())];
        let of_address = addresses.iter().flat_map(|ip| [Key::Neighbor(port, *ip), Key::Route((*ip, length))]);
        let entries = [Key::Entry(vni, mac), Key::Other(vni, v6), Key::Prefix(vni, (addresses[1], length))];
        let keys = [Key::Port(port), Key::Network(vni), Key::Flood(vni), Key::Segment(vni)].into_iter().chain(entries);
        for key in of_address.chain(keys) {
            let text = cursor(&key);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)), "{text}");
            prop_assert_eq!(read_cursor(&text), Ok(key));
        }
    }
}

#[test]
fn heads_that_http_does_not_have_or_we_do_not_are_refused() {
    let with = |fields: &str| {
        let host = if fields.contains("Host") { "" } else { "Host: localhost\r\n" };
        format!("GET / HTTP/1.1\r\n{host}{fields}\r\n\r\n")
    };
    let bad = |bytes: &[u8]| match parse(bytes, true) {
        Parsed::Bad(status, _) => status,
        Parsed::Whole(..) => 200,
        Parsed::Partial(_) => 0,
    };
    assert_eq!(bad(b"POST / HTTP/1.1\r\n\r\n"), 405);
    assert_eq!(bad(b"\x16\x03\x01\x02\x00\x01"), 400);
    assert_eq!(bad(b"GET / HT"), 0);
    for (fields, status) in [
        ("Host: 127.0.0.1:8080", 200),
        ("Host: [::1]", 200),
        ("Host: evil.example", 421),
        ("Host: 127.0.0.1\r\nHost: evil.example", 400),
        ("Host: localhost\r\nHost: localhost", 400),
        ("Host:", 421),
        ("Origin: http://evil.example", 403),
        ("Transfer-Encoding: chunked", 411),
        ("Content-Length: 1\r\nContent-Length: 1", 400),
        ("Content-Length: +1", 400),
        ("Content-Length: -1", 400),
        ("Content-Length: 99999999999999999999999", 413),
        ("Content-Length: 5", 0),
    ] {
        assert_eq!(bad(with(fields).as_bytes()), status, "{fields}");
    }
    assert_eq!(bad(with(&format!("X: {}", "y".repeat(MAX_HEAD))).as_bytes()), 431);
    for is_tcp in [true, false] {
        assert!(matches!(parse(b"GET / HTTP/1.1\r\n\r\n", is_tcp), Parsed::Bad(400, _)));
        assert!(matches!(parse(b"GET / HTTP/1.0\r\n\r\n", is_tcp), Parsed::Whole(..)));
        let twice = b"GET / HTTP/1.0\r\nHost: localhost\r\nHost: localhost\r\n\r\n";
        assert!(matches!(parse(twice, is_tcp), Parsed::Bad(400, _)));
    }
    assert_eq!(bad(with(&"X: y\r\n".repeat(65)).as_bytes()), 431);
    let long = with(&format!("Content-Length: {}", MAX_BODY + 1));
    assert_eq!(bad(long.as_bytes()), 413);
    let foreign = with("Host: any.example");
    assert!(
        matches!(parse(foreign.as_bytes(), false), Parsed::Whole(request, _) if request.method == Method::Get)
    );
}

/// Every operation of the description is answered, with a status that it lists; and what is
/// answered to a path that it does not have is 404.
#[test]
fn the_description_is_served_and_says_what_is_so() {
    let mut rig = Rig::new();
    let (status, served) = rig.ask("GET", "/v1/openapi.json", "");
    assert_eq!((status, &served), (200, &serde_json::from_str(OPENAPI).unwrap()));
    let mut asked = 0;
    for (path, operations) in served["paths"].as_object().unwrap() {
        for method in ["put", "get", "delete"] {
            let Some(operation) = operations.get(method) else { continue };
            let body =
                match operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str() {
                    Some("#/components/schemas/End") => r#"{"local": "192.0.2.1"}"#,
                    Some("#/components/schemas/FarEnd") => r#"{"remote": "192.0.2.2", "local": "192.0.2.1"}"#,
                    Some("#/components/schemas/Flood") => {
                        r#"{"far_ends": [{"remote": "192.0.2.2", "local": "192.0.2.1"}]}"#
                    }
                    Some("#/components/schemas/Segment") => r#"{"designated": true, "peers": ["192.0.2.2"]}"#,
                    Some(other) => panic!("{other} is not known here"),
                    None => "",
                };
            let path = path.replace("{vni}", "10").replace("{mac}", "02:00:00:00:01:01");
            for body in [body, "]"].into_iter().filter(|body| *body != "]" || method == "put") {
                let (status, answer) = rig.ask(&method.to_uppercase(), &path, body);
                let response = &operation["responses"][status.to_string()];
                assert!(response.is_object(), "{method} {path} gave {status}, which is not described");
                if let Some(schema) = response["content"]["application/json"]["schema"]["$ref"].as_str() {
                    let schema = &served["components"]["schemas"][schema.rsplit('/').next().unwrap()];
                    let names = |of: &Json| {
                        of.as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_string()).collect()
                    };
                    let required: BTreeSet<String> = names(&schema["required"]);
                    let has: BTreeSet<String> = answer.as_object().unwrap().keys().cloned().collect();
                    assert_eq!(required, has, "{method} {path}");
                }
                asked += 1;
            }
        }
    }
    assert!(asked >= 19, "{asked}");
}

struct Served {
    rig: Rig,
    server: Server,
}

impl Served {
    fn tcp() -> Served {
        let admission = Admission::new(&[]).unwrap();
        let server = Server::tcp(SocketAddr::from(([127, 0, 0, 1], 0)), admission).unwrap();
        Served { rig: Rig::new(), server }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    }

    /// Whether there is more to do at once.
    fn turn(&mut self) -> bool {
        let Rig { program, overlay, now_ns } = &mut self.rig;
        self.server.turn(&mut Controlled { program, overlay, now_ns: *now_ns, status: Json::Null })
    }

    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Served) -> bool) {
        let limit = Instant::now() + Duration::from_secs(20);
        while !is_so(self) {
            assert!(Instant::now() < limit, "waited in vain until {what}: {:?}", self.server.counters());
            self.turn();
        }
    }

    /// What comes until the other side closes.
    fn rest(&mut self, stream: &mut impl Read) -> String {
        let mut all = vec![];
        self.until("it was closed", |_| {
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk) {
                Ok(0) => true,
                Ok(length) => {
                    all.extend_from_slice(&chunk[..length]);
                    false
                }
                Err(_) => false,
            }
        });
        String::from_utf8(all).unwrap()
    }
}

#[test]
fn several_requests_go_by_one_connection() {
    let mut served = Served::tcp();
    let mut client = served.connect();
    let put = "PUT /v1/networks/10 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 22\r\n\r\n{\"local\": \"192.0.2.1\"}";
    let get = "GET /v1/networks/10 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for byte in format!("{put}{get}").bytes() {
        client.write_all(&[byte]).unwrap();
        served.turn();
    }
    let text = served.rest(&mut client);
    assert!(text.starts_with("HTTP/1.1 201 Created\r\n") && text.contains("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.ends_with("\"since_ns\":7}"), "{text}");
    assert_eq!((served.server.counters().answered, served.server.clients()), (2, 0));
}

#[test]
fn a_unix_socket_serves_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("api");
    let server = Server::unix(UnixListener::bind(&path).unwrap(), Admission::new(&[]).unwrap()).unwrap();
    let mut served = Served { rig: Rig::new(), server };
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_nonblocking(true).unwrap();
    client.write_all(b"GET /v1/status HTTP/1.0\r\n\r\n").unwrap();
    assert!(served.rest(&mut client).contains("\"refused\":0"));
}

#[test]
fn clients_that_stand_still_trickle_or_crowd_are_let_go() {
    let mut served = Served::tcp();
    let mut still = served.connect();
    still.write_all(b"GET /v1/sta").unwrap();
    served.until("it came", |served| served.server.counters().accepted == 1);
    served.rig.now_ns += STALL_NS;
    still.write_all(b"t").unwrap();
    served.turn();
    assert_eq!(served.server.counters().stalled, 0);
    served.rig.now_ns += 1;
    served.until("it was let go", |served| served.server.counters().stalled == 1);
    let crowd: Vec<TcpStream> = (0..70).map(|_| served.connect()).collect();
    assert!(served.turn(), "some of them wait for the next turn");
    let counters = served.server.counters();
    assert_eq!(counters.accepted + counters.refused, 1 + 64);
    served.until("all came", |served| {
        served.server.counters().accepted + served.server.counters().refused == 71
    });
    assert_eq!((served.server.clients(), served.server.counters().refused), (64, 6));
    drop(crowd);
    served.until("all left", |served| served.server.clients() == 0);
}

#[test]
fn a_client_that_floods_and_does_not_read_costs_little_and_is_let_go() {
    let mut served = Served::tcp();
    let mut flood = served.connect();
    let request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let limit = Instant::now() + Duration::from_secs(20);
    // Until nothing more is taken, however often the server turns.
    let mut refused = 0;
    while refused < 200 {
        assert!(Instant::now() < limit, "it takes everything");
        refused = if flood.write(&request).is_ok() { 0 } else { refused + 1 };
        served.turn();
    }
    served.rig.now_ns += STALL_NS + 1;
    served.until("it was let go", |served| served.server.counters().stalled == 1);
}

/// More than is answered in one turn, and the end of the client's side behind it.
#[test]
fn requests_in_front_of_a_clients_end_are_all_answered() {
    let mut served = Served::tcp();
    let mut client = served.connect();
    client.write_all(&b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200)).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let text = served.rest(&mut client);
    assert_eq!((text.matches("HTTP/1.1 200 OK").count(), served.server.counters().answered), (200, 200));
}

/// Long answers fill what may be unread before all requests are answered; where the system
/// takes them at once, nothing comes that would wake the server for the others.
#[test]
fn no_request_waits_for_something_to_come() {
    let mut served = Served::tcp();
    let far = Far { remote: [192, 0, 2, 2].into(), local: [192, 0, 2, 1].into(), vni: 10, port: None };
    let key = |n: u16| Key::Entry(10, wire::MacAddress([2, 0, 0, 0, (n >> 8) as u8, n as u8]));
    let all = (0..1000).map(|n| Change { key: key(n), value: Some(Value::Entry(far)) }).collect();
    served.rig.program.apply(&mut served.rig.overlay, Owner::Api, all, 0);
    let mut client = served.connect();
    client.set_nonblocking(false).unwrap();
    let page = b"GET /v1/claims HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(40);
    client.write_all(&page).unwrap();
    client.write_all(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        client.read_to_string(&mut text).map(|_| text.matches("HTTP/1.1 200 OK").count())
    });
    while served.server.counters().accepted == 0 || served.server.clients() > 0 {
        if !served.turn() && served.server.clients() > 0 {
            let flags = |write| if write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let sources = served.server.sources();
            let mut polled: Vec<PollFd<'_>> =
                sources.map(|(fd, write)| PollFd::from_borrowed_fd(fd, flags(write))).collect();
            let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
            let ready = poll(&mut polled, Some(&limit)).unwrap();
            assert!(ready > 0, "nothing to do, with {:?}", served.server.counters());
        }
    }
    assert_eq!(reader.join().unwrap().unwrap(), 41);
}

#[test]
fn a_port_that_others_reach_is_refused() {
    let error = Server::tcp(SocketAddr::from(([0, 0, 0, 0], 0)), Admission::new(&[]).unwrap()).unwrap_err();
    assert!(error.to_string().contains("127.0.0.1"));
}
