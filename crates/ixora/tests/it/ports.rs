//! Applications on served models, and what they say when there is none.

use std::fs::File;
use std::time::Instant;

use crate::common::{model, run, start};
use interface::pcap::Reader;
use rustix::process::Signal;

#[test]
fn a_rate_that_is_not_reached_is_an_error() {
    let place = tempfile::tempdir().expect("a directory");
    // Longer than the 20 ms for which a thread may have had no turn.
    let words = "pktgen model:82599,wire=sink --rate 10000M --count 2000000";
    let sent = run(place.path(), &format!("{words} --json"));
    assert_eq!(sent.code(), Some(1), "{sent:#?}");
    assert!(sent.stderr.contains("--allow-short"), "{sent:#?}");
    let json = sent.json();
    assert_eq!(json["notes"]["pktgen_asked_pps"], 10_000_000_000_u64, "{json:#}");
    assert!(json["error"].as_str().is_some_and(|error| error.contains("were asked for")), "{json:#}");
    let allowed = run(place.path(), &format!("{words} --allow-short"));
    assert_eq!(allowed.code(), Some(0), "{allowed:#?}");
}

#[test]
fn no_more_are_sent_than_the_rate_says() {
    let place = tempfile::tempdir().expect("a directory");
    let words = "pktgen model:82599,wire=sink --rate 2k --duration 1s --allow-short --json";
    let sent = run(place.path(), words);
    let count = sent.json()["tx_packets"].as_u64().unwrap_or(u64::MAX);
    assert!((1..=2_020).contains(&count), "{sent:#?}");
}

/// A rate is that of the packets: what a run takes before its first one and behind its last one is
/// no part of it.
#[test]
fn the_rate_is_told_from_the_first_packet_to_the_last() {
    let place = tempfile::tempdir().expect("a directory");
    let words = "pktgen model:82599,wire=sink --rate 10k --count 500 --allow-short --json";
    let rate = |_| {
        let sent = run(place.path(), words).json();
        assert_eq!(sent["tx_packets"], 500, "{sent:#}");
        sent["mpps"].as_f64().expect("a number")
    };
    // Another program may have the thread's core when the last one is due; that cannot be always.
    let mut rates = (0..20).map(rate);
    assert!(rates.any(|rate| (0.0098..=0.0102).contains(&rate)));
}

#[test]
fn one_packet_is_no_packets() {
    let place = tempfile::tempdir().expect("a directory");
    let said = run(place.path(), "pktgen model:82599,wire=sink --count 1 --queues 2").stdout;
    assert!(
        said.starts_with("pktgen: 1 packet in ") && said.contains("received 0 packets, sent 1\n"),
        "{said}"
    );
    assert!(said.contains("queue 0: 1 packet\n") && said.contains("queue 1: 0 packets\n"), "{said}");
}

#[test]
fn what_pktgen_sends_the_sink_gets() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, port) = model(place.path(), "--wire sink");
    let sent = run(place.path(), &format!("pktgen {port} --count 10000 --rate 100k --allow-short --json"));
    assert_eq!(sent.code(), Some(0), "{sent:#?}");
    assert_eq!(sent.json()["tx_packets"], 10_000);
    model.signal(Signal::TERM);
    let served = model.wait(10);
    assert_eq!(served.code(), Some(0), "{served:#?}");
    let wire = served.json()["endpoints"][0]["device"]["wire"]["from_host"].clone();
    assert_eq!(wire["delivered"], 10_000, "{wire:#}");
    assert!(!place.path().join("nic").exists(), "the socket goes with its server");
}

#[test]
fn a_capture_holds_what_was_received() {
    let place = tempfile::tempdir().expect("a directory");
    let (_model, port) = model(place.path(), "--wire gen:rate=20k,flows=4,size=128");
    let file = place.path().join("out.pcapng");
    let done = run(place.path(), &format!("pcap {port} {} --count 500 --json", file.display()));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let mut reader = Reader::new(File::open(&file).expect("written")).expect("pcapng");
    let mut packets = 0;
    while let Some(record) = reader.next().expect("whole blocks") {
        assert_eq!(record.data.len(), 124);
        packets += 1;
    }
    assert_eq!(packets, 500);
}

#[test]
fn models_in_the_process_forward_and_count_each_loss() {
    let place = tempfile::tempdir().expect("a directory");
    let port = "model:82599,wire=gen:rate=50k,count=5000,flows=8";
    let done = run(place.path(), &format!("fwd {port} {port} --queues 2 --threads 2 --duration 1s --json"));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let summary = done.json();
    assert_eq!(summary["missing_buffers"], 0);
    let losses: u64 = summary["losses"].as_object().expect("a map").values().filter_map(|n| n.as_u64()).sum();
    let sent = summary["tx_packets"].as_u64().expect("a number");
    assert!(sent > 0 && sent + losses <= 10_000, "{summary:#}");
    // A list for each port that is a model, with what its linter found.
    let findings = summary["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), 2, "{summary:#}");
    for (n, port) in findings.iter().enumerate() {
        assert_eq!((&port["port"], &port["name"]), (&n.into(), &"model:82599".into()), "{port:#}");
        assert_eq!(port["findings"], serde_json::json!([]), "the linter has nothing to say about our driver");
    }
}

#[test]
fn a_forwarder_with_fixed_buffers_loses_nothing_and_says_which_ports_have_none() {
    let place = tempfile::tempdir().expect("a directory");
    let port = "model:82599,wire=gen:rate=20k,count=2000,flows=8,hold+sink:check";
    for touch in ["", " --touch"] {
        let run = |command: &str| run(place.path(), command);
        let done =
            run(&format!("fwd {port} {port} --fixed-buffers{touch} --count 4000 --duration 20s --json"));
        assert_eq!(done.code(), Some(0), "{done:#?}");
        let summary = done.json();
        assert_eq!(
            (&summary["rx_packets"], &summary["tx_packets"]),
            (&4000.into(), &4000.into()),
            "{summary:#}"
        );
        assert_eq!((&summary["losses"], &summary["missing_buffers"]), (&serde_json::json!({}), &0.into()));
        for port in summary["findings"].as_array().expect("a list") {
            assert_eq!(port["findings"], serde_json::json!([]), "{summary:#}");
        }
    }
    for (ports, code, says) in [
        ("model:82599 model:virtio-net", 1, "cannot forward in fixed buffers"),
        ("model:xl710 model:82599", 2, "fixed buffers"),
        ("model:82599 model:82599 --queues 2", 2, "fixed buffers have one of each kind"),
        ("model:82599 model:82599 --max-frame 9000", 2, "it has to fit one"),
    ] {
        let done = run(place.path(), &format!("fwd {ports} --fixed-buffers --duration 1s"));
        assert_eq!(done.code(), Some(code), "{done:#?}");
        assert!(done.stderr.contains(says), "{ports}: {done:#?}");
    }
}

#[test]
fn a_server_that_dies_ends_a_forwarder_with_its_name() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, port) = model(place.path(), "--wire gen:rate=10k");
    let echo = start(place.path(), &format!("echo {port} --json"));
    std::thread::sleep(std::time::Duration::from_millis(700));
    model.signal(Signal::KILL);
    let done = echo.wait(15);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("nic"), "{done:#?}");
}

#[test]
fn a_second_client_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let (_model, port) = model(place.path(), "--wire gen:rate=10k");
    let first = start(place.path(), &format!("echo {port} --json"));
    std::thread::sleep(std::time::Duration::from_millis(700));
    let second = run(place.path(), &format!("echo {port} --json"));
    assert_eq!(second.code(), Some(1), "{second:#?}");
    assert!(second.stderr.contains("another client is attached"), "{second:#?}");
    first.signal(Signal::TERM);
    let first = first.wait(10);
    assert_eq!(first.code(), Some(0), "{first:#?}");
}

#[test]
fn what_is_not_there_is_named_at_once() {
    let place = tempfile::tempdir().expect("a directory");
    for (arguments, code, says) in [
        (
            "echo vfio-user:/nonexistent/nic",
            1,
            "fix: start the model first: ixora model 82599 --socket /nonexistent/nic",
        ),
        ("echo 0000:7f:1f.7", 1, "0000:7f:1f.7\nfix: ixora doctor"),
        ("fwd vfio-user:/nonexistent/a vfio-user:/nonexistent/b", 1, "/nonexistent/a"),
        ("echo model:82599 --ip 10.9.9", 2, "10.9.9"),
        ("pktgen model:82599 --size large", 2, "imix"),
        ("echo garbage", 2, "fix: "),
        ("echo model:486", 2, "82599"),
        ("echo model:82599,wire=string", 2, "string"),
        ("echo model:82599 --ring 100", 2, "power of two"),
        ("echo model:82599 --batch 257", 2, "256"),
        ("echo model:82599 --queues 129", 2, "128"),
        ("pktgen model:82599 --size 63", 2, "64"),
        ("pktgen model:82599 --rate fast", 2, "500k"),
        ("echo model:82599 --batch 0", 2, "1..=256"),
        ("echo model:82599 --max-frame 20000", 2, "15,500"),
        ("echo model:82599 --cpu 4000", 2, "may use 0"),
        ("echo model:82599,wire=gen:size=10", 2, "64 to 15872"),
        ("echo model:82599,wire=pcap:/nonexistent", 1, "/nonexistent"),
        ("fwd vfio-user:/x vfio-user:/x", 2, "twice"),
        ("fwd model:82599,wire=pair model:82599", 2, "pair"),
        ("pcap model:82599 /nonexistent/out.pcapng", 1, "/nonexistent/out.pcapng"),
        ("demo --size 10", 2, "64 to 15872"),
        ("demo --ring 100", 2, "power of two"),
        ("demo --duration soon", 2, "500ms"),
        ("model 486 --socket x", 2, "82599"),
        ("model 82599 --socket /nonexistent/nic", 1, "/nonexistent/nic"),
        ("model 82599 --socket x --wire cat5", 2, "use loop"),
        ("model 82599 --socket x --wire loop --wire sink", 2, "one --wire for each"),
        ("model 82599 --socket x --fault fly=1", 2, "garbage"),
        ("model 82599 --socket x --fault drop=0.5,late=0.1", 2, "--wire loop+fault:drop"),
    ] {
        let begin = Instant::now();
        let done = run(place.path(), arguments);
        assert_eq!(done.code(), Some(code), "{arguments}: {done:#?}");
        assert!(done.stderr.contains(says), "{arguments}: {done:#?}");
        assert!(begin.elapsed().as_secs() < 6, "{arguments} took {:?}", begin.elapsed());
    }
}

#[test]
fn the_doctor_speaks_json() {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), "doctor --json");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let checks = done.json();
    let demo = checks.as_array().expect("a list").iter().find(|check| check["name"] == "demo");
    assert_eq!(demo.expect("checked")["state"], "ok");
}

#[test]
fn a_port_and_the_build_tell_what_they_can_do() {
    let place = tempfile::tempdir().expect("a directory");
    let said = |arguments: &str| {
        let done = run(place.path(), arguments);
        assert_eq!(done.code(), Some(0), "{done:#?}");
        done.json()
    };
    let build = said("info --json");
    let names = |list: &str| -> Vec<String> {
        let list = build[list].as_array().expect("a list").iter();
        list.map(|row| {
            row.get("name").or(row.get("syntax")).expect("named").as_str().expect("text").to_owned()
        })
        .collect()
    };
    assert_eq!(names("drivers"), ["ixgbe", "ixgbevf", "igb", "igbvf", "i40e", "iavf", "virtio"]);
    assert!(names("losses").contains(&"rx_fifo_full".to_owned()) && names("ports").len() == 7, "{build:#}");
    let offered = said("info --drivers --json");
    let of = |name: &str| {
        let rows = offered["drivers"].as_array().expect("a list");
        rows.iter().find(|row| row["name"] == name).expect("it is there").clone()
    };
    assert_eq!(of("i40e")["limits"]["rss_table"], 512);
    assert_eq!(
        of("i40e")["features"]["flow-filter"],
        "i40e_flow::a_flow_comes_to_the_queue_that_it_is_led_to"
    );
    assert_eq!(of("igb")["features"]["rss"], "lab igb-features");
    assert!(of("virtio")["counters"].as_array().expect("a list").contains(&"rx_packets".into()));
    let table = run(place.path(), "info --drivers").stdout;
    assert!(table.contains("\nflow-filter ") && table.contains("lab igbvf-features"), "{table}");
    let nic = said("info model:82599 --queues 4 --vlan-strip --json");
    assert_eq!(nic["firmware"], serde_json::json!({}));
    let told = &said("info model:xl710 --json")["firmware"];
    assert_eq!((&told["interface"], &told["nvm"]), (&"1.7".into(), &"6.01".into()));
    assert_eq!(told["ddp"], "no profile");
    assert_eq!(
        (&nic["driver"], &nic["rx_queues"], &nic["limits"]["rx_queues"]),
        (&"ixgbe".into(), &4.into(), &128.into())
    );
    for (feature, state) in
        [("rss", "on"), ("vlan-strip", "on"), ("tso", "on"), ("scatter", "off"), ("timestamps", "no")]
    {
        assert_eq!(nic["features"][feature], state, "{feature}");
    }
    let virtio = said("info model:virtio-net --json");
    for (feature, state) in virtio["features"].as_object().expect("a table") {
        assert!(state == "no" || of("virtio")["features"].get(feature).is_some(), "{feature} is not offered");
    }
    for (feature, state) in [("vlan-strip", "no"), ("rx-checksum", "off"), ("scatter", "off"), ("rss", "off")]
    {
        assert_eq!(virtio["features"][feature], state, "{feature}");
    }
    let long = said("info model:virtio-net --max-frame 9000 --json");
    assert_eq!(long["features"]["scatter"], "on");
    assert_eq!(said("info model:virtio-net --checksums --json")["features"]["rx-checksum"], "on");
}

/// Frames of 64 KiB without checksums are nothing for a command that sends them as they came.
#[test]
fn a_tap_with_long_segments_is_refused_where_nobody_cuts_them() {
    let place = tempfile::tempdir().expect("a directory");
    let commands = [
        "fwd tap:x0,gso model:82599,wire=sink",
        "serve echo --port tap:x0,gso --addr 10.0.0.2/24",
        "echo tap:x0,gso",
    ];
    for command in commands {
        let done = run(place.path(), command);
        assert_eq!(done.code(), Some(2), "{command}: {done:#?}");
        assert!(done.stderr.contains("tap:x0,gso gives segments that are longer than a frame"), "{done:#?}");
        assert!(done.stderr.contains("fix: write tap:x0\n"), "{done:#?}");
    }
}
