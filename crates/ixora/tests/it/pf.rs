//! `ixora pf` and drivers of virtual functions, each in a process of its own, on a model in another.

use crate::common::{captured, run, start, until};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn other_processes_drive_the_virtual_functions_that_one_hosts() {
    hosted("xl710", "iavf", 0);
}

#[test]
fn other_processes_drive_the_older_virtual_functions_that_one_hosts() {
    // The mode of all frames, which a pool does not have.
    hosted("82599", "ixgbevf", 1);
}

/// Packets of one virtual function come to another by its address, by way of its driver's host.
fn hosted(chip: &str, driver: &str, most_refused: u64) {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("nic");
    let vf = |n: usize| format!("vfio-user:{}.vf{n}", socket.display());
    let arguments = format!("model {chip} --json --vfs 2 --socket {}", socket.display());
    let model = start(place.path(), &arguments);
    until("sockets", || place.path().join("nic.vf1").exists());
    let host = start(
        place.path(),
        &format!("pf vfio-user:{} --vfs 2 --vf 1,mac=02:00:5e:00:00:11 --json", socket.display()),
    );
    // Until it is hosted, that is what opening it tells.
    let mut told = run(place.path(), &format!("info {} --json", vf(1)));
    until("the host", || {
        if told.code() != Some(0) {
            assert!(told.stderr.contains("needs a driver that hosts it"), "{told:#?}");
            told = run(place.path(), &format!("info {} --json", vf(1)));
        }
        told.code() == Some(0)
    });
    let told: Value = serde_json::from_str(&told.stdout).expect("it is JSON");
    assert_eq!(told["driver"], driver, "{told}");
    let file = place.path().join("out.pcapng");
    let capture = start(place.path(), &format!("pcap {} {} --count 100 --json", vf(1), file.display()));
    until("capture", || file.exists());
    let sender =
        start(place.path(), &format!("pktgen {} --rate 5k --allow-short --to 02:00:5e:00:00:11", vf(0)));
    let done = capture.wait(30);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let packets = captured(&file);
    assert_eq!(packets.len(), 100);
    assert!(packets.iter().all(|packet| packet[..6] == [2, 0, 0x5E, 0, 0, 0x11]));
    sender.signal(Signal::INT);
    let sent = sender.wait(20);
    assert_eq!(sent.code(), Some(0), "{sent:#?}");
    host.signal(Signal::TERM);
    let counted = host.wait(20);
    assert_eq!(counted.code(), Some(0), "{counted:#?}");
    let counted: Value = serde_json::from_str(&counted.stdout).expect("it is JSON");
    assert!(counted["vfs"][0]["refused"].as_u64() <= Some(most_refused), "{counted}");
    assert!(counted["vfs"][1]["messages"].as_u64() > Some(5), "{counted}");
    model.signal(Signal::TERM);
    assert_eq!(model.wait(20).code(), Some(0));
}

#[test]
fn what_cannot_be_hosted_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    for (arguments, code, why) in [
        ("pf model:virtio-net --vfs 1", 1, "no driver for 1af4:1041"),
        ("pf model:82599 --vfs 1", 1, "the device has 0 virtual functions, and 1 are asked for"),
        ("pf model:xl710 --vfs 1", 1, "the device has 0 virtual functions, and 1 are asked for"),
        ("pf model:xl710 --vfs 1 --vf 3,trust", 2, "--vf 3 is given, and 1 are hosted"),
        ("pf model:xl710 --vf 0,colour=5", 2, "\"colour=5\" is unknown"),
        ("pf model:xl710 --vf 0,trust,trust=off", 2, "trust is given twice"),
        ("pf model:xl710 --vf 0,trust --vf 0,rate=50", 2, "--vf 0 is given twice"),
        (
            "pf model:xl710 --vfs 3 --vf 2,mac=02:00:00:00:00:11 --vf 0,mac=02:00:00:00:00:11",
            2,
            "--vf 2 and --vf 0 have the same address 02:00:00:00:00:11",
        ),
        ("model 82599 --socket x --vfs 64", 2, "82599 has 63 virtual functions, not 64"),
        ("model xl710 --socket x --vfs 16", 2, "xl710 has 15 virtual functions, not 16"),
    ] {
        let done = run(place.path(), arguments);
        assert_eq!(done.code(), Some(code), "{arguments}: {done:#?}");
        assert!(done.stderr.contains(why), "{arguments}: {done:#?}");
    }
}
