//! The main job: it balances its books, ends when told, and leaves nothing.

mod common;

use common::{names, run, start, until};
use rustix::process::Signal;

#[test]
fn the_books_balance_and_nothing_is_left() {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), "demo --duration 1s --rate 100k --json");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let books = &done.json()["books"];
    assert_eq!(books["balanced"], true, "{books:#}");
    assert!(books["delivered"].as_u64().is_some_and(|n| n > 1000), "{books:#}");
    for endpoint in done.json()["models"]["endpoints"].as_array().expect("a list") {
        let findings = &endpoint["device"]["findings"];
        assert_eq!(*findings, serde_json::json!([]), "the linter has nothing to say about our driver");
    }
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn an_interrupt_ends_it_with_its_books() {
    let place = tempfile::tempdir().expect("a directory");
    let demo = start(place.path(), "demo --duration 60s --rate 100k --json");
    until("sockets", || names(place.path()).len() == 1);
    std::thread::sleep(std::time::Duration::from_millis(500));
    demo.interrupt_group();
    let done = demo.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["books"]["balanced"], true);
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
