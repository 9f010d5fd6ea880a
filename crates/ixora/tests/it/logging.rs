//! What is logged, and which words ask for it.

use std::path::Path;
use std::process::Command;

use crate::common::{Done, IXORA, run, start_command};

fn logged(place: &Path, level: &str, arguments: &[&str]) -> Done {
    let mut command = Command::new(IXORA);
    start_command(command.env("IXORA_LOG", level).args(arguments), place).wait(30)
}

#[test]
fn the_driver_tells_what_it_does() {
    let place = tempfile::tempdir().expect("a directory");
    let text = "f :: FromDevice(\"model:82599\", PROMISC false) -> Discard;
        Script(write f.add_mac 02:00:00:00:00:05, write f.remove_mac 02:00:00:00:00:05, stop)";
    let done = logged(place.path(), "debug", &["click", "-e", text]);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    for step in [
        "DEBUG driver::intel::port: reset port=\"model:82599\"",
        "CTRL (0x0) is 0x",
        "EEC (0x10010) is 0x",
        "receive side: address 02:49:58:00:00:01",
        "transmit side",
        "receive queue 0: 512 descriptors at 0x",
        "transmit queue 0: 512 descriptors at 0x",
        "RXDCTL (0x1028) is 0x2000000",
        "receiving on",
        "link up, 10 Gbit/s",
        "filter: address 02:00:00:00:00:05 added",
        "filter: address 02:00:00:00:00:05 removed",
        "receive queue 0: taken back",
        "left: quiesced and reset, no bus master",
    ] {
        assert!(done.stderr.contains(step), "{step}: {done:#?}");
    }
    assert!(!done.stderr.contains("TRACE"), "registers are for another level");
    // A date and a time of the day, to the microsecond.
    let first = done.stderr.lines().next().unwrap_or_default();
    assert!(
        first.get(4..5) == Some("-") && first.get(10..11) == Some("T") && first.contains("Z "),
        "{first}"
    );
}

#[test]
fn the_other_drivers_tell_it_too() {
    let place = tempfile::tempdir().expect("a directory");
    for (port, steps) in [
        ("model:xl710", ["admin command", "receive queue 0: 512 descriptors", "link up"]),
        ("model:virtio-net", ["features: ", "queue 0: 512 descriptors", "status 0x"]),
    ] {
        let done = run(place.path(), &format!("echo {port} --duration 100ms -v"));
        assert_eq!(done.code(), Some(0), "{done:#?}");
        for step in steps {
            assert!(done.stderr.contains(step), "{port}: {step}: {done:#?}");
        }
    }
}

#[test]
fn each_register_access_is_told_where_that_is_asked_for() {
    let place = tempfile::tempdir().expect("a directory");
    let port = ["echo", "model:82599,wire=gen:rate=1k", "--count", "20"];
    let done = logged(place.path(), "bus=trace", &port);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    for access in ["write CTRL (0x0): 0x", "read LINKS (0x42a4): 0x", "write RDBAL[0] (0x1000): 0x"] {
        assert!(done.stderr.contains(access), "{access}: {done:#?}");
    }
    assert!(done.stderr.contains("write RDT[0] (0x1018): 0x"), "doorbells, too: {done:#?}");
    let verbose = run(place.path(), "-vv echo model:virtio-net --duration 100ms");
    assert!(verbose.stderr.contains("TRACE bus::traced: write register (0x"), "{verbose:#?}");
}

#[test]
fn a_word_that_is_no_level_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    for (level, says) in
        [("loud", "\"loud\" is no level"), ("drivers=debug", "\"drivers\" is no level and logs nothing")]
    {
        let done = logged(place.path(), level, &["echo", "model:82599", "--duration", "100ms"]);
        assert_eq!(done.code(), Some(2), "{done:#?}");
        assert!(done.stderr.contains("IXORA_LOG: ") && done.stderr.contains(says), "{done:#?}");
    }
}
