//! Tunnel endpoints: the demo's verdict and accounts, and configurations that are refused.

use std::io::{Read, Write};

use crate::common::{names, run};

/// What a demo printed that passed.
fn demo(options: &str) -> serde_json::Value {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), &format!("overlay demo --duration 300ms --rate 20k --json {options}"));
    assert_eq!(done.code(), Some(0), "{options}: {done:#?}");
    let json = done.json();
    assert_eq!(json["verdict"]["passed"], true, "{options}: {json:#}");
    for direction in json["directions"].as_array().expect("a list") {
        assert_eq!(direction["balanced"], true, "{options}: {direction:#}");
        assert_eq!(direction["wrong"], 0, "{options}: {direction:#}");
        assert!(direction["delivered"].as_u64().expect("a number") > 100, "{options}: {direction:#}");
        // Each endpoint has asked for the other.
        assert!(direction["resolution"].as_u64().expect("a number") >= 1, "{options}: {direction:#}");
    }
    assert_eq!(names(place.path()), Vec::<String>::new());
    json
}

#[test]
fn the_demo_carries_frames_through_every_tunnel() {
    for protocol in ["vxlan", "vxlan-gpe", "geneve", "nvgre", "gretap"] {
        demo(&format!("--protocol {protocol}"));
    }
}

#[test]
fn the_demo_carries_packets_through_every_tunnel() {
    for protocol in ["ipip", "gre", "gtpu", "mpls-gre", "mpls-udp", "lisp", "srv6"] {
        demo(&format!("--protocol {protocol}"));
    }
}

#[test]
fn the_demo_goes_over_ipv6_by_neighbour_discovery() {
    demo("--ipv6");
    demo("--ipv6 --protocol gre --size imix");
}

/// All packets get their headers in the NIC, on each model, whatever the protocol.
#[test]
fn the_demo_has_nics_put_packets_into_tunnels() {
    for options in
        ["", " --protocol gre --nic xl710", " --protocol vxlan-gpe", " --protocol srv6 --nic virtio-net"]
    {
        let json = demo(&format!("--offload nic --quiet{options}"));
        assert_eq!(json["offload"], "nic");
        for direction in json["directions"].as_array().expect("a list") {
            let (nic, delivered) = (&direction["nic"], direction["delivered"].as_u64());
            assert!(nic["sent"].as_u64() >= delivered, "{options}: {direction:#}");
            assert_eq!(nic["given_back"], 0, "{options}: {direction:#}");
        }
    }
    assert_eq!(demo("--quiet")["directions"][0]["nic"], serde_json::Value::Null);
}

/// A configuration with two networks on models, in a file.
fn configuration(place: &std::path::Path) -> std::path::PathBuf {
    let file = place.join("overlay.toml");
    let text = "[[underlay]]\nname = \"up\"\nport = \"model:82599,wire=sink\"\naddresses = [\"192.0.2.1/24\"]\n\
                neighbors = { \"192.0.2.2\" = \"02:00:00:00:00:02\" }\n\
                [[network]]\nnumber = 100\nprotocol = \"vxlan\"\n\
                inner = \"model:82599,wire=gen:rate=1k,dst=02:00:00:00:0b:01+sink\"\n\
                [[network.entry]]\nkey = \"02:00:00:00:0b:01\"\nremote = \"192.0.2.2\"\n\
                [[network.entry]]\nkey = \"02:00:00:00:0c:01\"\nremote = \"192.0.2.3\"\n";
    std::fs::write(&file, text).expect("a file");
    file
}

/// The NIC sends what it has an entry for, and software what it gives back: all frames are accounted for.
#[test]
fn a_nic_with_a_table_of_its_own_puts_packets_into_tunnels() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("overlay.toml");
    let mut text = "[[underlay]]\nname = \"up\"\nport = \"model:82599,encap-offload=1,wire=sink\"\n\
                    addresses = [\"192.0.2.1/24\"]\noffload = \"nic\"\n\
                    neighbors = { \"192.0.2.2\" = \"02:00:00:00:00:02\" }\n"
        .to_owned();
    for (number, last) in [(100, "0b"), (200, "0c")] {
        text += &format!(
            "[[network]]\nnumber = {number}\nprotocol = \"vxlan\"\n\
             inner = \"model:82599,wire=gen:rate=2k,dst=02:00:00:00:{last}:01+sink\"\n\
             [[network.entry]]\nkey = \"02:00:00:00:{last}:01\"\nremote = \"192.0.2.2\"\n"
        );
    }
    std::fs::write(&file, text).expect("a file");
    let socket = place.path().join("control");
    let command = format!("overlay run {} --control {} --json", file.display(), socket.display());
    let endpoint = crate::common::start(place.path(), &command);
    let mut state = serde_json::Value::Null;
    crate::common::until("send by both", || {
        let done = run(place.path(), &format!("overlay show {} --json", socket.display()));
        state = if done.code() == Some(0) { done.json() } else { serde_json::Value::Null };
        let forwarded = |n: usize| state["accounts"]["networks"][n]["forwarded"].as_u64();
        forwarded(0) > Some(50) && forwarded(1) > Some(50)
    });
    let nic =
        serde_json::json!({ "underlay": "up", "entries": 1, "without_room": 1, "restored": 0, "walks": 1 });
    assert_eq!(state["nic"], nic);
    let show = |option: &str| run(place.path(), &format!("overlay show {}{option}", socket.display())).stdout;
    let text = show("");
    let line = "NIC of up: entries 1, in software for lack of room 1; told all again: 0, \
                the table gone over: 1\n";
    assert!(text.contains(line), "{text}");
    let metrics = show(" --metrics");
    for (series, value) in
        [("entries", 1), ("entries_without_room", 1), ("restored_total", 0), ("table_walks_total", 1)]
    {
        let line = format!("ixora_overlay_nic_{series}{{underlay=\"up\"}} {value}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    endpoint.signal(rustix::process::Signal::TERM);
    let done = endpoint.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let json = done.json();
    let overlay = &json["overlay"];
    assert_eq!((&overlay["balanced"], &overlay["drops"]), (&true.into(), &serde_json::json!({})), "{json:#}");
    let count = |value: &serde_json::Value| value.as_u64().expect("a number");
    assert_eq!(count(&overlay["networks"][0]["returned"]), 0, "the NIC has its entry: {json:#}");
    let returned = count(&overlay["networks"][1]["returned"]);
    assert!(returned > 50 && returned == count(&overlay["underlay"][0]["given_back"]), "{json:#}");
    let ports = json["summary"]["ports"].as_array().expect("a list");
    let sent = ports.iter().filter_map(|port| port["counters"]["encap_sent"].as_u64()).sum::<u64>();
    assert!(sent > 50, "{json:#}");
}

/// A capture of frames to these stations.
fn capture(place: &std::path::Path, stations: &[u8]) -> std::path::PathBuf {
    let path = place.join("inner.pcap");
    // The classic format's header: magic, version 2.4, no zone, no accuracy, 64 KiB, Ethernet.
    let mut bytes = [0xA1B2_C3D4_u32, 2 | 4 << 16, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for station in stations {
        let mut frame = vec![2, 0, 0, 0, *station, 1, 2, 0, 0, 0, 0x0A, 1, 0x88, 0xB5];
        frame.resize(60, 0);
        bytes.extend([0u32, 0, 60, 60].map(u32::to_le_bytes).concat());
        bytes.extend(frame);
    }
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// A capture with a rate begins when the endpoint takes packets, and not one of it is lost.
#[test]
fn no_packet_of_a_capture_comes_before_an_endpoint_is_there() {
    const PACKETS: usize = 2000;
    let place = tempfile::tempdir().expect("a directory");
    let (file, capture) = (place.path().join("overlay.toml"), capture(place.path(), &[0x0B; PACKETS]));
    let text = format!(
        "[[underlay]]\nname = \"up\"\nport = \"model:82599,wire=sink\"\naddresses = [\"192.0.2.1/24\"]\n\
         neighbors = {{ \"192.0.2.2\" = \"02:00:00:00:00:02\" }}\n\
         [[network]]\nnumber = 100\nprotocol = \"vxlan\"\ninner = \"model:82599,wire=pcap:{},rate=10k\"\n\
         [[network.entry]]\nkey = \"02:00:00:00:0b:01\"\nremote = \"192.0.2.2\"\n",
        capture.display()
    );
    std::fs::write(&file, text).expect("a file");
    let socket = place.path().join("control");
    let command = format!("overlay run {} --control {} --json", file.display(), socket.display());
    let endpoint = crate::common::start(place.path(), &command);
    crate::common::until("the whole capture", || {
        let done = run(place.path(), &format!("overlay show {} --json", socket.display()));
        done.code() == Some(0) && done.json()["accounts"]["networks"][0]["forwarded"] == PACKETS
    });
    endpoint.signal(rustix::process::Signal::TERM);
    assert_eq!(endpoint.wait(10).code(), Some(0));
}

#[test]
fn a_configuration_alone_explains_a_capture() {
    let place = tempfile::tempdir().expect("a directory");
    let (config, pcap) = (configuration(place.path()), capture(place.path(), &[0x0B, 0x0C, 0x0D]));
    let done = run(
        place.path(),
        &format!("overlay explain {} --config {} --json", pcap.display(), config.display()),
    );
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let packets = done.json();
    assert_eq!(packets[0]["entry"], "vxlan 192.0.2.1 > 192.0.2.2, identifier 100");
    assert_eq!((&packets[0]["outcome"], &packets[0]["port"]), (&"sent".into(), &0.into()));
    let headers = packets[0]["headers"].as_str().expect("a text");
    assert!(headers.contains("> 02:00:00:00:00:02, 192.0.2.1 > 192.0.2.2, TTL 64"), "{headers}");
    assert!(headers.ends_with("> 4789"), "{headers}");
    assert_eq!(packets[1]["outcome"], "sent", "its next hop is taken to be found");
    assert_eq!(packets[2]["outcome"], "overlay_unknown_key");
    let done = run(place.path(), &format!("overlay explain {} --config /nowhere", pcap.display()));
    assert_eq!(done.code(), Some(2), "{done:#?}");
}

#[test]
fn a_running_endpoint_tells_what_it_holds() {
    let place = tempfile::tempdir().expect("a directory");
    let (config, socket) = (configuration(place.path()), place.path().join("control"));
    let pcap = capture(place.path(), &[0x0B, 0x0C]);
    let command = format!("overlay run {} --control {} --json", config.display(), socket.display());
    let endpoint = crate::common::start(place.path(), &command);
    let mut state = serde_json::Value::Null;
    crate::common::until("answer with packets", || {
        let done = run(place.path(), &format!("overlay show {} --json", socket.display()));
        state = if done.code() == Some(0) { done.json() } else { serde_json::Value::Null };
        state["accounts"]["networks"][0]["forwarded"].as_u64() > Some(0)
    });
    assert_eq!(state["entries"][0]["state"], "ready", "{state:#}");
    assert!(state["entries"][0]["age"].as_f64().is_some_and(|age| age < 60.0), "{state:#}");
    assert!(state["entries"][0]["packets"].as_u64() > Some(0), "{state:#}");
    assert!(state["entries"][0]["used"].as_f64().is_some_and(|used| used < 60.0), "{state:#}");
    assert_eq!(state["entries"][1]["state"], "overlay_no_neighbor", "{state:#}");
    assert!(state["entries"][1]["used"].is_null(), "{state:#}");
    assert_eq!(state["next_hops"][0]["address"], "192.0.2.3", "{state:#}");
    let ask = |what: &str| run(place.path(), &format!("overlay {what}"));
    let text = ask(&format!("show {}", socket.display()));
    assert!(text.stdout.contains("unresolved"), "{text:#?}");
    let metrics = ask(&format!("show {} --metrics", socket.display()));
    assert!(
        metrics.stdout.contains("ixora_overlay_forwarded_packets_total{network=\"100\"}"),
        "{metrics:#?}"
    );
    let explained = ask(&format!("explain {} --control {} --json", pcap.display(), socket.display()));
    assert_eq!(explained.json()[0]["outcome"], "sent", "{explained:#?}");
    assert_eq!(explained.json()[1]["outcome"], "overlay_no_neighbor", "{explained:#?}");
    endpoint.signal(rustix::process::Signal::TERM);
    let done = endpoint.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["overlay"]["balanced"], true, "{done:#?}");
    crate::common::until("end of the socket", || !socket.exists());
    assert_eq!(ask(&format!("show {}", socket.display())).code(), Some(1));
}

/// What a port loses before or behind all that an endpoint counts is told while it runs.
#[test]
fn losses_of_ports_are_told_while_an_endpoint_runs() {
    let place = tempfile::tempdir().expect("a directory");
    let (config, socket) = (configuration(place.path()), place.path().join("control"));
    let text = std::fs::read_to_string(&config).expect("a file");
    std::fs::write(&config, text.replace("gen:rate=1k", "gen:rate=1k,size=9000")).expect("a file");
    let command = format!("overlay run {} --control {} --json", config.display(), socket.display());
    let endpoint = crate::common::start(place.path(), &command);
    let show = |option: &str| run(place.path(), &format!("overlay show {}{option}", socket.display()));
    crate::common::until("frames that are too long", || {
        let done = show(" --json");
        let state = if done.code() == Some(0) { done.json() } else { serde_json::Value::Null };
        state["port_losses"][0]["losses"]["rx_oversize"].as_u64() > Some(0)
    });
    let text = show("").stdout;
    assert!(text.contains("\nport network 100:\n") && text.contains("  lost  rx_oversize "), "{text}");
    let metrics = show(" --metrics").stdout;
    let is_told = |line: &str| {
        let labels = line.strip_prefix("ixora_port_losses_total{port=\"network 100\",");
        labels.is_some_and(|labels| labels.contains("reason=\"rx_oversize\"") && !labels.ends_with(" 0"))
    };
    assert!(metrics.lines().any(is_told), "{metrics}");
    endpoint.signal(rustix::process::Signal::TERM);
    assert_eq!(endpoint.wait(10).code(), Some(0));
}

/// The metrics of an endpoint over HTTP, as it is named there.
fn metrics(port: u16, path: &str, host: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// The series of an endpoint that follows nobody are those of the page's table, but for what is
/// told of those who are followed.
fn all_series_are_documented(metrics: &str) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/overlays.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `ixora_")?.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split('`').step_by(2).filter(|name| !name.is_empty()));
    // The first of a row is named whole, and others by their ends.
    let whole = |name: &str| match ["overlay", "port"].iter().any(|start| name.starts_with(start)) {
        true => format!("ixora_{name}"),
        false => format!("ixora_overlay{name}"),
    };
    let documented: std::collections::BTreeSet<String> = names.map(whole).collect();
    let served = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let mut served: std::collections::BTreeSet<String> = served.map(str::to_owned).collect();
    served.extend(["kernel_current", "control_total"].map(|end| format!("ixora_overlay_{end}")));
    assert_eq!(documented, served);
}

/// The usual configuration, but that a group of two far ends is in the place of one.
fn configuration_of_a_group(place: &std::path::Path) -> std::path::PathBuf {
    let config = configuration(place);
    let text = std::fs::read_to_string(&config).expect("a file");
    let group =
        "[[group]]\nname = \"pair\"\nremotes = [\"192.0.2.2\", { remote = \"192.0.2.3\", weight = 9 }]\n";
    let entry = "remote = \"192.0.2.2\"\n[[network.entry]]";
    assert!(text.contains(entry), "{text}");
    let text = text.replace(entry, "group = \"pair\"\n[[network.entry]]");
    let text = text.replace("number = 100", "number = 100\nsegment = { designated = false }");
    std::fs::write(&config, format!("{group}{text}")).expect("a file");
    config
}

/// A group of two far ends of which one is known: what goes there is explained with the member
/// that was picked, counted by far end, served over HTTP and seen by `ixora top`.
#[test]
fn tunnels_are_seen_by_people_and_by_prometheus() {
    let place = tempfile::tempdir().expect("a directory");
    let (config, socket) = (configuration_of_a_group(place.path()), place.path().join("control"));
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let control = socket.display();
    let command = format!("overlay run {} --control {control} --metrics={port} --json", config.display());
    let endpoint = crate::common::start(place.path(), &command);
    let series = "ixora_overlay_far_end_packets_total{network=\"100\",far_end=\"192.0.2.2\"} ";
    let count = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    crate::common::until("metrics with packets", || {
        let is_there = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        is_there && count(&metrics(port, "/metrics", "localhost")) > 0
    });
    let text = metrics(port, "/metrics", "localhost");
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("ixora_overlay_port_up{underlay=\"up\"} 1"), "{text}");
    assert!(text.contains("ixora_overlay_entries{network=\"100\"} 2"), "{text}");
    // Of a group each far end has its own, whether there is a way or not.
    let other = "{network=\"100\",far_end=\"192.0.2.3\"}";
    assert!(text.contains(&format!("ixora_overlay_far_end_packets_total{other} 0\n")), "{text}");
    assert!(text.contains(&format!("ixora_overlay_far_end_entries{other} 2\n")), "{text}");
    assert!(text.contains("ixora_overlay_segment_designated{network=\"100\"} 0\n"), "{text}");
    all_series_are_documented(&text);
    assert!(metrics(port, "/metrics", "a.stranger").starts_with("HTTP/1.1 421"));
    assert!(metrics(port, "/other", "localhost").starts_with("HTTP/1.1 404"));
    for source in [format!("http://127.0.0.1:{port}"), control.to_string()] {
        let top = run(place.path(), &format!("top {source} --once --json --interval 200ms"));
        assert_eq!(top.code(), Some(0), "{source}: {top:#?}");
        let json = top.json();
        let tunnel = json["tunnels"].as_array().and_then(|all| all.iter().find(|it| it["entries"] == 1));
        assert_eq!(tunnel.expect("a tunnel")["network"], "100", "{source}: {json:#}");
        let names: Vec<&str> =
            json["ports"].as_array().into_iter().flatten().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["up", "network 100"], "{source}");
        assert_eq!((&json["ports"][1]["link"], &json["entries"]), (&"up, 10 Gbit/s".into(), &2.into()));
    }
    let pcap = capture(place.path(), &[0x0B]);
    let explained =
        run(place.path(), &format!("overlay explain {} --control {control} --json", pcap.display())).json();
    let told = &explained[0];
    assert_eq!((&told["outcome"], &told["owner"]), (&"sent".into(), &"static".into()), "{explained:#}");
    // There is no way to the other one.
    assert_eq!(
        (&told["member"], &told["tunnel"]),
        (&1.into(), &"vxlan 192.0.2.1 > 192.0.2.2, identifier 100".into())
    );
    assert!(
        told["entry"].as_str().is_some_and(|entry| entry.ends_with("192.0.2.3, identifier 100 (weight 9)"))
    );
    endpoint.signal(rustix::process::Signal::TERM);
    let done = endpoint.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["overlay"]["balanced"], true, "{done:#?}");
}

/// Asks an endpoint's API; the status line and what follows.
fn ask_api(port: u16, method: &str, path: &str, body: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let (head, length) = ("HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length", body.len());
    let request = format!("{method} {path} {head}: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_controller_writes_entries_beside_those_of_the_file() {
    let place = tempfile::tempdir().expect("a directory");
    let (config, socket) = (configuration(place.path()), place.path().join("control"));
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let text = std::fs::read_to_string(&config).expect("a file");
    std::fs::write(&config, format!("{text}[api]\nlisten = \"127.0.0.1:{port}\"\n")).expect("a file");
    let command = format!("overlay run {} --control {} --json", config.display(), socket.display());
    let endpoint = crate::common::start(place.path(), &command);
    crate::common::until("API", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let entry = |station: &str| format!("/v1/networks/100/entries/02:00:00:00:{station}:01");
    let answer = ask_api(port, "PUT", &entry("0d"), "{\"remote\": \"192.0.2.2\"}");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let answer = ask_api(port, "PUT", &entry("0b"), "{\"remote\": \"192.0.2.9\"}");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let state = run(place.path(), &format!("overlay show {} --json", socket.display())).json();
    let shown =
        |at: usize| [&state["entries"][at]["owner"], &state["entries"][at]["tunnel"]].map(|it| it.as_str());
    let by = |owner, tunnel| [Some(owner), Some(tunnel)];
    assert_eq!(shown(0), by("static", "vxlan 192.0.2.1 > 192.0.2.2, identifier 100"), "{state:#}");
    assert_eq!(shown(2), by("api", "vxlan 192.0.2.1 > 192.0.2.2, identifier 100"), "{state:#}");
    assert_eq!(state["control"]["api"]["answered"], 2, "{state:#}");
    let pcap = capture(place.path(), &[0x0D]);
    let explain = format!("overlay explain {} --control {} --json", pcap.display(), socket.display());
    let explained = run(place.path(), &explain).json();
    assert_eq!(explained[0]["outcome"], "sent", "{explained:#}");
    assert_eq!(explained[0]["owner"], "api", "{explained:#}");
    assert!(explained[0]["age_ms"].as_u64().is_some_and(|age| age < 60_000), "{explained:#}");
    endpoint.signal(rustix::process::Signal::TERM);
    let done = endpoint.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
}

#[test]
fn a_mistake_is_told_with_its_place() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("overlay.toml");
    std::fs::write(&file, "[[underlay]]\nname = \"up\"\nprot = \"tap:x\"\n").expect("a file");
    let done = run(place.path(), &format!("overlay run {}", file.display()));
    assert_eq!(done.code(), Some(2), "{done:#?}");
    let text = format!("{}: line 3, column 1: a port of the underlay has no `prot`", file.display());
    assert!(done.stderr.contains(&text) && done.stderr.contains("fix: it may have name, port"), "{done:#?}");
}
