//! The soak test: it ends by itself with all checks held, and finds what is left behind
//! on purpose.

use crate::common::{names, run, start, start_command, until};

/// Some of everything, one episode after the other.
#[test]
fn a_short_soak_holds() {
    let place = tempfile::tempdir().expect("a directory");
    let done = start(place.path(), "soak --duration 20s --seed 9 --quiet --json").wait(300);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let summary = done.json();
    assert!(summary["packets"].as_u64().is_some_and(|packets| packets > 0), "{summary:#}");
    assert!(summary["episodes"].as_u64().is_some_and(|episodes| episodes > 0), "{summary:#}");
    assert_eq!(summary["failed"], serde_json::json!([]));
    assert_eq!(names(place.path()), Vec::<String>::new());
}

/// One episode that is short, with something left behind.
fn planted(what: &str) -> String {
    let place = tempfile::tempdir().expect("a directory");
    let logs = place.path().join("logs");
    let words =
        format!("soak --seed 1 --episode 0 --only peer --json --plant {what} --logs {}", logs.display());
    let done = start(place.path(), &words).wait(120);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("repeat: ixora soak --seed 1 --episode 0 --only peer"), "{done:#?}");
    assert!(logs.join("0").join("episode").exists(), "{done:#?}");
    let summary = done.json();
    summary["failed"][0]["failures"].to_string()
}

#[test]
fn what_is_left_behind_is_found() {
    for (what, words) in [
        ("descriptor", "open descriptors where there were"),
        ("thread", "threads where there were"),
        ("file", "left is left"),
        ("process", "is left: /bin/sleep 60"),
    ] {
        let failures = planted(what);
        assert!(failures.contains(words), "{what}: {failures}");
    }
}

#[test]
fn an_interrupt_ends_it_with_its_summary() {
    let place = tempfile::tempdir().expect("a directory");
    let soak = start(place.path(), "soak --duration 1h --seed 3 --json --only forward");
    until("scratch directory", || !names(place.path()).is_empty());
    std::thread::sleep(std::time::Duration::from_secs(1));
    soak.interrupt_group();
    let done = soak.wait(60);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["interrupted"], true);
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn the_same_seed_lists_the_same_episodes() {
    let place = tempfile::tempdir().expect("a directory");
    let list = |seed: u64| run(place.path(), &format!("soak --list 20 --seed {seed}")).stdout;
    assert!(list(5).contains("episode 19") && list(5) == list(5) && list(5) != list(6));
}

#[test]
fn programs_end_by_sighup_under_nohup() {
    let place = tempfile::tempdir().expect("a directory");
    let listed = run(place.path(), "soak --list 60 --only echo --seed 1").stdout;
    let is_short = |text: &&str| text.contains("then Signal(Hup)") && text.matches("ixora echo").count() == 1;
    let text = listed.split("episode ").find(is_short).expect("an episode that ends by SIGHUP");
    let number = text.lines().next().expect("its number");
    // What nohup(1) does. The shell runs as the leader of the group, and execs.
    let soak =
        format!("trap '' HUP; exec {} soak --duration 1s --episode {number}", env!("CARGO_BIN_EXE_ixora"));
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", &format!("{soak} --only echo --seed 1 --quiet --json")]);
    let done = start_command(&mut shell, place.path()).wait(300);
    assert_eq!(done.code(), Some(0), "{done:#?}");
}
