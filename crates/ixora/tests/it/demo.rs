//! The main job: it balances its accounts, ends when told, and leaves nothing.

use crate::common::{names, run, start, until};
use rustix::process::Signal;

#[test]
fn the_forwarder_passes_and_nothing_is_left() {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), "demo --duration 1s --rate 100k --json");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["verdict"]["passed"], true, "{done:#?}");
    assert_eq!(done.json()["verdict"]["reasons"], serde_json::json!([]), "{done:#?}");
    let accounts = &done.json()["accounts"];
    assert_eq!(accounts["balanced"], true, "{accounts:#}");
    let mut delivered = 0;
    for direction in accounts["directions"].as_array().expect("a list") {
        assert_eq!(direction["balanced"], true, "{accounts:#}");
        let n = direction["delivered"].as_u64().expect("a number");
        assert!(n > 500, "{accounts:#}");
        delivered += n;
    }
    assert_eq!(accounts["delivered"], delivered, "{accounts:#}");
    for endpoint in done.json()["models"]["endpoints"].as_array().expect("a list") {
        let findings = &endpoint["device"]["findings"];
        assert_eq!(*findings, serde_json::json!([]), "the linter has nothing to say about our driver");
        // The report is of the time after the ports were closed.
        assert_eq!(endpoint["attached"], false, "{endpoint:#}");
        assert_eq!(endpoint["left_mapped"], serde_json::json!([0, 0]), "{endpoint:#}");
    }
    for port in done.json()["summary"]["findings"].as_array().expect("a list") {
        assert_eq!(port["findings"], serde_json::json!([]), "{port:#}");
    }
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn an_interrupt_ends_it_with_its_accounts() {
    let place = tempfile::tempdir().expect("a directory");
    let demo = start(place.path(), "demo --duration 60s --rate 100k --json");
    until("sockets", || names(place.path()).len() == 1);
    std::thread::sleep(std::time::Duration::from_millis(500));
    demo.interrupt_group();
    let done = demo.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["accounts"]["balanced"], true);
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn models_that_die_are_named() {
    let place = tempfile::tempdir().expect("a directory");
    let demo = start(place.path(), "demo --duration 60s --rate 100k --json");
    until("sockets", || names(place.path()).len() == 1);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", demo.id())).expect("a list");
    let child: i32 = children.split_whitespace().next().expect("a child").parse().expect("a number");
    let child = rustix::process::Pid::from_raw(child).expect("an id");
    rustix::process::kill_process(child, Signal::KILL).expect("the models run");
    let done = demo.wait(15);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("error: "), "{done:#?}");
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn more_than_can_be_forwarded_is_lost_by_name() {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), "demo --duration 1s --rate max --json");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["verdict"]["passed"], true, "{done:#?}");
    for direction in done.json()["accounts"]["directions"].as_array().expect("a list") {
        assert_eq!(direction["balanced"], true, "{done:#?}");
    }
    assert_eq!(done.json()["summary"]["missing_buffers"], 0);
}

#[test]
fn a_driver_that_gets_no_core_for_a_while_is_not_taken_for_one_that_stalls() {
    for rate in ["50k", "14.88M", "max"] {
        let place = tempfile::tempdir().expect("a directory");
        let demo = start(place.path(), &format!("demo --duration 2s --rate {rate} --json"));
        until("sockets", || names(place.path()).len() == 1);
        // The models are a process of their own and go on; all of ours is stopped.
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(200));
            demo.signal(Signal::STOP);
            std::thread::sleep(std::time::Duration::from_millis(300));
            demo.signal(Signal::CONT);
        }
        let done = demo.wait(20);
        assert_eq!(done.code(), Some(0), "{done:#?}");
        assert_eq!(done.json()["verdict"]["passed"], true, "{done:#?}");
    }
}

#[test]
fn short_runs_and_few_frames_pass() {
    for options in ["--duration 100ms", "--duration 1s --rate 20", "--duration 300ms --ring 4096 --rate max"]
    {
        let place = tempfile::tempdir().expect("a directory");
        let done = run(place.path(), &format!("demo {options} --json"));
        assert_eq!(done.code(), Some(0), "{done:#?}");
        assert_eq!(done.json()["verdict"]["passed"], true, "{done:#?}");
    }
}

#[test]
fn the_models_clean_up_after_a_demo_that_was_killed() {
    let place = tempfile::tempdir().expect("a directory");
    let demo = start(place.path(), "demo --duration 60s --rate 10k --json");
    until("sockets", || names(place.path()).len() == 1);
    std::thread::sleep(std::time::Duration::from_millis(500));
    demo.signal(Signal::KILL);
    assert_eq!(demo.wait(10).code(), None);
    until("end of the models", || names(place.path()).is_empty());
}

#[test]
fn a_place_too_deep_for_sockets_is_named() {
    let place = tempfile::tempdir().expect("a directory");
    let deep = place.path().join("x".repeat(120));
    std::fs::create_dir(&deep).expect("a directory");
    let done = run(&deep, "demo --duration 1s --json");
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(
        done.stderr.contains("too long a path") && done.stderr.contains("fix: export TMPDIR"),
        "{done:#?}"
    );
    assert_eq!(names(&deep), Vec::<String>::new());
}
