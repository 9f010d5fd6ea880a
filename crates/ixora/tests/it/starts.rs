//! Runs with several receive queues that begin while frames come: none finds a queue whose thread
//! has given it no buffers yet.

use std::process::Command;

use serde_json::Value;

use crate::common::{Done, IXORA, model_of, run, start_command};

/// Frames of many flows that come from before the program starts, for as long as it runs.
const WIRE: &str = "--wire gen:rate=1k,flows=64";
/// The devices whose ports start when all queues have buffers.
const DEVICES: [&str; 2] = ["82599", "xl710"];

/// A run that ended well: packets came, and no loss has a name.
fn lost_none(device: &str, done: &Done, losses: &Value) {
    assert_eq!(done.code(), Some(0), "{device}: {done:#?}");
    assert_eq!(losses, &serde_json::json!({}), "{device}: {done:#?}");
    for alarm in ["warn", "WARN", "error", "rx_disabled", "rx_filtered"] {
        assert!(!done.stderr.contains(alarm), "{device}: {alarm}: {done:#?}");
    }
}

#[test]
fn a_capture_of_several_queues_loses_nothing_at_its_start() {
    for device in DEVICES {
        for threads in [1, 2] {
            let place = tempfile::tempdir().expect("a directory");
            let (_model, port) = model_of(device, place.path(), WIRE);
            let file = place.path().join("out.pcapng");
            let done = run(
                place.path(),
                &format!("pcap {port} {} --queues 2 --threads {threads} --count 200 --json", file.display()),
            );
            let summary = done.json();
            lost_none(device, &done, &summary["losses"]);
            assert!(summary["rx_packets"].as_u64() >= Some(200), "{device}: {summary:#}");
        }
    }
}

#[test]
fn a_router_of_several_threads_loses_nothing_at_its_start() {
    for device in DEVICES {
        let place = tempfile::tempdir().expect("a directory");
        let (_model, port) = model_of(device, place.path(), WIRE);
        let text = format!("FromDevice({port}) -> c :: Counter(COUNT_CALL 200 stop) -> Discard");
        let mut command = Command::new(IXORA);
        command.args(["click", "-j", "2", "--json", "-h", "c.count", "-e", &text]);
        let done = start_command(&mut command, place.path()).wait(30);
        let all = done.json();
        lost_none(device, &done, &all["ports"][0]["losses"]);
        assert_eq!(all["ports"][0]["rx_queues"].as_array().map(Vec::len), Some(2), "{device}: {all:#}");
        assert_eq!(
            (&all["account"]["balanced"], &all["account"]["missing"]),
            (&true.into(), &0.into()),
            "{device}: {all:#}"
        );
    }
}
