//! Servers and loads: the demo passes with every service, and a load says what it missed.

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
