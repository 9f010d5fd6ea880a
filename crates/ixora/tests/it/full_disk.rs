//! Files on a disk that becomes full: what was counted is in them, and the run fails.

use std::path::Path;
use std::process::Command;

use crate::common::{IXORA, Running, may_make_interfaces, run, start_command, until};

/// The program with `{disk}` in its arguments a folder of its own where 64 KiB have room, and
/// what it wrote there as `out.pcapng` in `place` when it has ended.
fn with_a_full_disk(place: &Path, arguments: &str) -> Running {
    let (disk, file) = (place.join("disk"), place.join("out.pcapng"));
    let (disk, file) = (disk.display().to_string(), file.display());
    let arguments = arguments.replace("{disk}", &disk);
    let script = format!(
        "mkdir -p {disk}; mount -t tmpfs -o size=64k none {disk} || exit 99; {} {arguments}; code=$?; \
         cp {disk}/out.pcapng {file}; exit $code",
        IXORA
    );
    let mut command = Command::new("unshare");
    start_command(command.args(["-m", "sh", "-c", &script]), place)
}

/// How many packets of a capture can be read; it ends with a whole one.
pub fn readable(path: &Path) -> u64 {
    let file = std::fs::File::open(path).expect("a capture");
    let mut reader = interface::pcap::Reader::new(file).expect("a capture");
    let mut packets = 0;
    while reader.next().expect("whole packets").is_some() {
        packets += 1;
    }
    packets
}

#[test]
fn a_capture_on_a_full_disk_has_the_packets_that_were_counted() {
    if !may_make_interfaces() {
        return; // it may mount nothing either
    }
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("out.pcapng");
    let port = "model:82599,wire=gen:rate=50k";
    let done = with_a_full_disk(place.path(), &format!("pcap {port} {{disk}}/out.pcapng --json")).wait(20);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("cannot write"), "{done:#?}");
    let summary = done.json();
    assert_eq!(summary["packets"], readable(&file), "{summary:#}");
    assert!(readable(&file) > 50, "{summary:#}");
    let lost = summary["losses"]["rx_not_written"].as_u64().expect("a loss");
    let received = summary["rx_packets"].as_u64().expect("a number");
    assert!(lost > 0 && readable(&file) + lost == received, "{summary:#}");
}

/// As a capture's: what is in the file was counted, what is not was dropped by name, and the
/// run failed.
#[test]
fn a_dump_on_a_full_disk_has_the_packets_that_were_counted() {
    if !may_make_interfaces() {
        return; // it may mount nothing either
    }
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("out.pcapng");
    let config = "FromDevice(\"model:82599,wire=gen:rate=50k\") -> d :: ToDump({disk}/out.pcapng); \
                  Script(wait 1s, stop)";
    let done = with_a_full_disk(place.path(), &format!("click -e '{config}' -h d.count --json")).wait(20);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert_eq!(done.stderr.matches("No space left").count(), 1, "{done:#?}");
    let (summary, readable) = (done.json(), readable(&file));
    let account = &summary["account"];
    let dropped = account["dropped"].as_array().expect("losses");
    let lost = dropped.iter().find(|lost| lost["element"] == "d" && lost["reason"] == "not written");
    let lost = lost.and_then(|lost| lost["packets"].as_u64()).expect("a loss");
    assert!(readable > 50 && lost > 0, "{summary:#}");
    assert_eq!(summary["handlers"]["d.count"], format!("{readable}\n"), "{summary:#}");
    assert_eq!(account["ended"][0]["packets"], readable, "{summary:#}");
    assert_eq!(account["balanced"], true, "{summary:#}");
}

#[test]
fn a_recorder_on_a_full_disk_fails_the_run() {
    if !may_make_interfaces() {
        return; // it may mount nothing either
    }
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("out.pcapng");
    let port = "model:82599,wire=gen:rate=50k+record:{disk}/out.pcapng";
    let done = with_a_full_disk(place.path(), &format!("echo {port} --duration 1s --json")).wait(20);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("frames were not recorded"), "{done:#?}");
    assert!(readable(&file) > 50);
    let socket = place.path().join("nic");
    let wire = "--wire gen:rate=50k+record:{disk}/out.pcapng --duration 4s";
    let model = with_a_full_disk(place.path(), &format!("model 82599 --socket {} {wire}", socket.display()));
    until("socket", || socket.exists());
    let echo = run(place.path(), &format!("echo vfio-user:{} --duration 1s", socket.display()));
    assert_eq!(echo.code(), Some(0), "{echo:#?}");
    let done = model.wait(15);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stdout.contains("not recorded  write failed"), "{done:#?}");
    assert!(!done.stdout.contains("injected") && readable(&file) > 50, "{done:#?}");
}

/// A summary that is piped to a program that has read enough ends its router.
#[test]
fn a_summary_whose_reader_is_gone_ends() {
    let config = "InfiniteSource -> ToIPSummaryDump(/dev/stdout, CONTENTS count)";
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ixora"))
        .args(["click", "-e", config])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program");
    let mut reader = child.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut reader, &mut [0; 100]).expect("the first lines");
    drop(reader);
    until("end", || child.try_wait().expect("its status").is_some());
}
