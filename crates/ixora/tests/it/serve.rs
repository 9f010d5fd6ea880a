//! Servers and loads: the demo passes with every service, and a load says what it missed.

use std::path::Path;

use crate::common::{names, run, start, until};
use rustix::process::Signal;

#[test]
fn the_demo_of_each_service_passes_and_nothing_is_left() {
    let place = tempfile::tempdir().expect("a directory");
    for service in ["echo --size 3000", "http --size 5000 --depth 3", "memcached --mix etc --keys 500"] {
        let words = format!("serve demo {service} --duration 500ms --rate max,200 --connections 5 --json");
        let done = run(place.path(), &words);
        assert_eq!(done.code(), Some(0), "{service}: {done:#?}");
        let figures = done.json();
        assert_eq!(figures["verdict"]["passed"], true, "{figures:#}");
        let steps = figures["load"]["steps"].as_array().expect("a list");
        assert_eq!(steps.len(), 2, "{figures:#}");
        for step in steps {
            assert!(step["answers"].as_u64() > Some(20) && step["wrong"] == 0, "{step:#}");
            assert!(step["latency_ns"]["p50"].as_u64() <= step["latency_ns"]["p99"].as_u64(), "{step:#}");
        }
        assert_eq!(figures["load"]["connections"], 5);
        assert_eq!(names(place.path()), Vec::<String>::new());
    }
}

#[test]
fn latencies_by_load_are_drawn() {
    let place = tempfile::tempdir().expect("a directory");
    let svg = place.path().join("load.svg");
    let words = format!("serve demo echo --duration 300ms --rate 200,400 --json --svg {}", svg.display());
    let done = run(place.path(), &words);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let picture = std::fs::read_to_string(&svg).expect("a picture");
    for text in [
        "Echo, on two models",
        "16 connections",
        "answers in a second",
        "microseconds",
        "p99.9",
        "open loops",
    ] {
        assert!(picture.contains(text), "{text}: {picture}");
    }
    let words = format!("serve demo echo --duration 300ms --svg {}/nowhere/load.svg", place.path().display());
    let done = run(place.path(), &words);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("cannot write"), "{done:#?}");
}

/// Answers come back to the queue that asked, whatever the hash of an 82599 is.
#[test]
fn a_load_of_several_queues_has_its_answers_at_each() {
    let place = tempfile::tempdir().expect("a directory");
    let [server, client] = ["server", "client"].map(|name| place.path().join(name));
    let port = |own: &Path, other: &Path| {
        format!("--port model:82599,wire=unix:{},remote={}", own.display(), other.display())
    };
    let words = format!("serve echo {} --addr 10.0.0.2/24 --json", port(&server, &client));
    let running = start(place.path(), &words);
    until("socket", || server.exists());
    let ends = format!("{} --addr 10.0.0.1/24 --to 10.0.0.2", port(&client, &server));
    let words =
        format!("load echo {ends} --queues 3 --connections 10 --rate max,300 --duration 500ms --json");
    let done = run(place.path(), &words);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let load = &done.json()["load"];
    assert_eq!((&load["connections"], &load["whole"]), (&10.into(), &true.into()), "{load:#}");
    let steps = load["steps"].as_array().expect("a list");
    assert_eq!((steps.len(), &steps[1]["rate"]), (2, &300.0.into()), "{load:#}");
    assert!(steps.iter().all(|step| step["answers"].as_u64() > Some(20)), "{load:#}");
    let done = run(place.path(), &format!("load echo {ends} --queues 3 --connections 2"));
    assert!(done.stderr.contains("more queues than connections"), "{done:#?}");
    running.signal(Signal::TERM);
    assert_eq!(running.wait(20).code(), Some(0));
}

/// What a load says of ten connections that were answered to the end.
fn each_byte_was_right(figures: &serde_json::Value, service: &str) {
    let (connections, whole) = (&figures["connections"], &figures["whole"]);
    assert_eq!((connections, whole), (&10.into(), &true.into()), "{service}: {figures:#}");
    for step in figures["steps"].as_array().expect("a list") {
        assert!(step["answers"].as_u64() > Some(100) && step["wrong"] == 0, "{service}: {step:#}");
        assert_eq!(step["lost_connections"], 0, "{service}: {step:#}");
        // A request may still be on its way again in the end.
        assert!(step["unanswered"].as_u64() < Some(10), "{service}: {step:#}");
    }
}

/// A server with some connections lists those that a filter takes, also behind others that it would list.
fn lists_by_a_filter(place: &Path, control: &Path) {
    let chosen = |filter: &str| {
        let done = run(place, &format!("tcp show {} --json --limit 2 {filter}", control.display()));
        assert_eq!(done.code(), Some(0), "{filter}: {done:#?}");
        let listing = done.json();
        let connections = listing["connections"].as_array().expect("a list").clone();
        (connections, listing["more"].as_u64().expect("a number"))
    };
    let (some, more) = chosen("state established and dst 10.0.0.1");
    assert!(some.len() == 2 && more >= 8, "{some:#?} and {more}");
    for connection in &some {
        let remote = connection["remote"].as_str().expect("an address");
        let (one, more) = chosen(&format!("dst {remote}"));
        assert_eq!((one.len(), more, &one[0]["remote"]), (1, 0, &connection["remote"]));
    }
    assert_eq!(chosen("dst 10.0.0.9"), (vec![], 0));
    assert_eq!(chosen("state established and sport = :1"), (vec![], 0));
    let wrong = run(place, &format!("tcp show {} dst nobody", control.display()));
    assert!(wrong.code() == Some(2) && wrong.stderr.contains("`nobody` is no address"), "{wrong:#?}");
}

/// Connections move between cores under load, and each byte of each answer is as it must be.
///
/// The wire is a pair of sockets that keep eleven datagrams each, and a machine that is busy looks at them
/// seldom: so few connections with one short request each lose no segment.
#[test]
fn cores_come_and_go_while_connections_are_served() {
    for (model, service, load) in [
        ("82599", "echo", "echo --size 1000"),
        ("xl710", "http --size 1000", "http"),
        ("82599", "memcached", "memcached --keys 200 --update 0.5"),
    ] {
        let place = tempfile::tempdir().expect("a directory");
        let [server, client, control] = ["server", "client", "control"].map(|name| place.path().join(name));
        let port = |own: &Path, other: &Path| {
            format!("--port model:{model},wire=unix:{},remote={}", own.display(), other.display())
        };
        let words = format!(
            "serve {service} {} --addr 10.0.0.2/24 --queues 4 --threads 2 --control {} --json",
            port(&server, &client),
            control.display()
        );
        let running = start(place.path(), &words);
        until("sockets", || server.exists() && control.exists());
        let cores = |words: &str| {
            let done = run(place.path(), &format!("tcp cores {}{words} --json", control.display()));
            assert_eq!(done.code(), Some(0), "{service}: {done:#?}");
            done.json()
        };
        let before = cores("");
        assert_eq!((&before["cores"], &before["most"], &before["moved"]), (&4.into(), &4.into(), &0.into()));
        let ends = format!("{} --addr 10.0.0.1/24 --to 10.0.0.2", port(&client, &server));
        let words = format!("load {load} {ends} --connections 10 --rate max --duration 10s --json");
        let loading = start(place.path(), &words);
        until("connections", || {
            // One whose handshake lost a segment opens later than the others.
            let words = format!("tcp show {} --json --limit 100 state established", control.display());
            let done = run(place.path(), &words);
            done.json()["connections"].as_array().is_some_and(|all| all.len() >= 10)
        });
        lists_by_a_filter(place.path(), &control);
        for count in [1, 3, 2, 4, 1, 4] {
            let now = cores(&format!(" {count}"));
            assert_eq!(now["cores"], count, "{service}: {now:#}");
            assert!(now["moved"].as_u64() > Some(0), "{service}: {now:#}");
            let groups = now["groups"].as_array().expect("a list");
            assert_eq!(groups.iter().filter(|groups| **groups != 0).count(), count);
        }
        let done = loading.wait(60);
        assert_eq!(done.code(), Some(0), "{service}: {done:#?}");
        each_byte_was_right(&done.json()["load"], service);
        let wrong = run(place.path(), &format!("tcp cores {} 5", control.display()));
        assert!(wrong.stderr.contains("there are 1 to 4 cores"), "{wrong:#?}");
        running.signal(Signal::TERM);
        let done = running.wait(20);
        assert_eq!(done.code(), Some(0), "{service}: {done:#?}");
        let summary = done.json();
        let counted = |name: &str| summary["notes"][name].as_u64().unwrap_or_default();
        assert!(counted("tcp_moved_here") > 10, "{service}: {summary:#}");
        assert_eq!(counted("tcp_moved_here"), counted("tcp_moved_away"), "{service}");
        assert_eq!(counted("tcp_move_refused"), 0, "{service}");
        assert_eq!(counted("tcp_resets_sent"), 0, "{service}: {summary:#}");
    }
}

/// A port that cannot lead flows elsewhere, and a server with one queue, say so.
#[test]
fn who_cannot_move_connections_says_why() {
    let place = tempfile::tempdir().expect("a directory");
    let control = place.path().join("control");
    let words = format!("serve echo --port model:82599 --addr 10.0.0.2/24 --control {}", control.display());
    let running = start(place.path(), &words);
    until("a socket", || control.exists());
    let done = run(place.path(), &format!("tcp cores {} 1", control.display()));
    assert!(done.code() == Some(1) && done.stderr.contains("one pair of queues"), "{done:#?}");
    running.signal(Signal::TERM);
    assert_eq!(running.wait(20).code(), Some(0));
}

#[test]
fn an_interrupt_ends_the_demo_with_its_figures() {
    let place = tempfile::tempdir().expect("a directory");
    let demo = start(place.path(), "serve demo echo --duration 60s --json");
    std::thread::sleep(std::time::Duration::from_secs(1));
    demo.signal(Signal::INT);
    let done = demo.wait(20);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["load"]["whole"], false);
    until("nothing", || names(place.path()).is_empty());
}

#[test]
fn a_load_that_meets_nobody_is_a_failure() {
    let place = tempfile::tempdir().expect("a directory");
    let words =
        "load echo --port model:82599 --addr 10.0.0.1/24 --to 10.0.0.2 --connections 3 --duration 100ms";
    let done = run(place.path(), words);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("3 connections were refused, or nobody answered"), "{done:#?}");
}
