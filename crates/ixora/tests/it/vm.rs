//! `ixora vm` with real machines, from a real registry; `IXORA_OFFLINE` leaves
//! those out. What it says without a registry is tested in any case.

use crate::common::{Done, IXORA, Running, names, run, start, start_command, until};
use rustix::process::{Pid, Signal};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn offline() -> bool {
    std::env::var_os("IXORA_OFFLINE").is_some()
}

/// Runs a machine to its end, with the time that a first fetch may take.
fn machine(place: &Path, arguments: &str) -> Done {
    start(place, arguments).wait(600)
}

#[test]
fn every_frame_comes_back_and_nothing_is_left() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let done = machine(place.path(), "vm fwd --frames 20000 --json");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let report = done.json();
    assert_eq!((&report["ok"], &report["error"]), (&true.into(), &serde_json::Value::Null));
    let directions = report["directions"].as_array().expect("a list");
    assert_eq!(directions.len(), 2);
    for direction in directions {
        for (key, count) in [("offered", 20_000), ("back", 20_000), ("changed", 0), ("lost", 0)] {
            assert_eq!(direction[key], count, "{key} in {direction:#}");
        }
        assert!(direction["mpps"].as_f64().expect("a number") > 0.0);
    }
    assert_eq!(report["guest"]["rx_packets"], 40_000, "as the driver itself counts");
    assert_eq!(report["guest"]["ports"][0]["driver"], "virtio");
    assert!(report["boot_seconds"].as_f64() < report["ready_seconds"].as_f64());
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn a_driver_that_sleeps_is_woken_with_packed_rings_too() {
    if offline() {
        return;
    }
    // QEMU forgets a kick that it asked for by offset (EVENT_IDX) in a packed ring.
    let place = tempfile::tempdir().expect("a directory");
    let done = machine(place.path(), "vm fwd --nic virtio-packed --frames 10000 --json -- --interrupts");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.json()["directions"].as_array().expect("a list").iter().all(|d| d["back"] == 10_000));
}

#[test]
fn losses_above_saturation_have_names() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let done = machine(
        place.path(),
        "vm fwd --nic virtio-legacy --frames 30000 --size 64 --rate max --json -- --ring 64 --batch 256",
    );
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let report = done.json();
    let lost: u64 = [0, 1].iter().filter_map(|&n| report["directions"][n]["lost"].as_u64()).sum();
    let named = report["losses"]["tx_ring_full"].as_u64().unwrap_or_default();
    assert_eq!((lost, &report["unexplained"]), (named, &0.into()), "{report:#}");
    assert_eq!(report["access"], "sysfs");
}

#[test]
fn the_machine_answers_and_its_capture_is_what_was_sent() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let done = machine(place.path(), "vm echo --frames 2000 --json");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let rows = done.json()["directions"].as_array().expect("a list").clone();
    let back: Vec<(&str, u64)> = rows
        .iter()
        .map(|row| (row["name"].as_str().expect("a name"), row["back"].as_u64().expect("a number")))
        .collect();
    assert_eq!(back, [("arp", 1), ("ping", 10), ("udp", 2000)]);
    let file = place.path().join("out.pcapng");
    let done = machine(place.path(), &format!("vm pcap {} --frames 500 --json", file.display()));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["directions"][0]["back"], 500);
    assert!(std::fs::metadata(&file).expect("a capture").len() > 500 * 60);
}

#[test]
fn other_nics_and_the_generator() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    for (nic, driver) in
        [("virtio-packed", "virtio"), ("virtio-transitional", "virtio"), ("ixgbe-model", "ixgbe")]
    {
        let done = machine(place.path(), &format!("vm fwd --nic {nic} --frames 2000 --json"));
        assert_eq!(done.code(), Some(0), "{nic}: {done:#?}");
        let report = done.json();
        assert_eq!(report["guest"]["ports"][1]["driver"], driver, "{nic}");
        assert_eq!((&report["directions"][1]["back"], &report["nic"]), (&2000.into(), &nic.into()));
    }
    let done = machine(place.path(), "vm pktgen --nic igb --frames 5000 --size imix --json");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["directions"][0]["back"], 5000);
}

/// A forwarder that writes to every frame: the checker must not let it pass.
#[test]
fn changed_frames_are_a_failure() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let done = machine(place.path(), "vm fwd --nic igb --frames 1000 --json -- --touch");
    assert_eq!(done.code(), Some(1), "{done:#?}");
    let report = done.json();
    assert_eq!((&report["directions"][0]["changed"], &report["ok"]), (&1000.into(), &false.into()));
    assert!(report["error"].as_str().expect("an error").contains("2000 changed"), "{report:#}");
}

/// The process of a machine that has run for some seconds.
fn qemu(running: &Running) -> Pid {
    let qemu = begun(running);
    std::thread::sleep(Duration::from_secs(3));
    qemu
}

/// The process of a machine.
fn begun(running: &Running) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", running.id());
    let is_qemu = |id: &&str| {
        let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains("qemu-system")
    };
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        if let Some(id) = children.split_whitespace().find(is_qemu) {
            return Pid::from_raw(id.parse().expect("a number")).expect("an id");
        }
        assert!(Instant::now() < end, "no machine");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_killed_command_leaves_no_machine() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let running = start(place.path(), "vm fwd --frames 100000000 --json");
    let qemu = qemu(&running);
    running.signal(Signal::KILL);
    drop(running);
    let alive = || {
        std::fs::read(format!("/proc/{}/cmdline", qemu.as_raw_nonzero())).is_ok_and(|words| !words.is_empty())
    };
    until("end of the machine", || !alive());
    until("end of its directory", || names(place.path()).is_empty());
}

#[test]
fn a_machine_that_dies_is_named_with_its_console() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let running = start(place.path(), "vm fwd --frames 100000000 --json");
    let qemu = qemu(&running);
    rustix::process::kill_process(qemu, Signal::KILL).expect("killed");
    let done = running.wait(30);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    let report = done.json();
    assert!(report["error"].as_str().expect("an error").contains("machine ended"), "{report:#}");
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn a_machine_that_hangs_in_its_boot_is_started_again() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let running = start(place.path(), "vm fwd --frames 1000 --timeout 90s --json");
    let qemu = begun(&running);
    let directory = std::fs::read_dir(place.path()).expect("a directory").next().expect("one").expect("read");
    let console = directory.path().join("console.log");
    until("kernel's first words", || std::fs::metadata(&console).is_ok_and(|log| log.len() > 0));
    rustix::process::kill_process(qemu, Signal::STOP).expect("stopped");
    let done = running.wait(600);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.stderr.contains("warning: the machine hung while booting"), "{done:#?}");
    assert_eq!(done.json()["directions"][0]["back"], 1000);
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn what_the_program_in_the_machine_refuses_is_told() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let done = machine(place.path(), "vm pktgen --frames 10 --json -- --ring 63");
    assert_eq!(done.code(), Some(1), "{done:#?}");
    let report = done.json();
    assert_eq!(report["ok"], false);
    let error = report["error"].as_str().expect("an error");
    assert!(error.contains("in the machine") && error.contains("power of two"), "{error}");
}

#[test]
fn an_interrupt_ends_the_machine_and_leaves_nothing() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let running = start(place.path(), "vm fwd --frames 100000000 --json");
    until("machine", || !names(place.path()).is_empty());
    std::thread::sleep(Duration::from_secs(2));
    running.signal(Signal::TERM);
    let done = running.wait(30);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert_eq!(done.json()["error"], "interrupted");
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn without_a_registry_the_report_is_valid_and_says_what_to_do() {
    let place = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(IXORA);
    command.args(["vm", "fwd", "--json"]).env("IXORA_CACHE", place.path().join("cache"));
    // Nobody listens at the port for discarding, RFC 863.
    command.env("IXORA_DEBIAN_MIRROR", "http://127.0.0.1:9/debian").env("http_proxy", "");
    let done = start_command(&mut command, place.path()).wait(120);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    let report = done.json();
    assert_eq!((&report["command"], &report["ok"]), (&"vm fwd".into(), &false.into()));
    assert!(report["error"].as_str().expect("an error").contains("cannot fetch"), "{report:#}");
    assert!(report["fix"].as_str().expect("a fix").contains("IXORA_DEBIAN_MIRROR"), "{report:#}");
    assert!(done.stderr.contains("fix: "), "{done:#?}");
}

#[test]
fn wrong_words_are_refused_before_anything_is_fetched() {
    let place = tempfile::tempdir().expect("a directory");
    for (words, said) in [
        ("vm fwd --nic e1000", "virtio-legacy"),
        ("vm fwd --size 63", "64 to 1518"),
        ("vm fwd --rate soon", "auto"),
        ("vm fwd --memory 10", "384"),
    ] {
        let done = run(place.path(), words);
        assert_eq!(done.code(), Some(2), "{done:#?}");
        assert!(done.stderr.contains(said), "{words}: {}", done.stderr);
    }
}
