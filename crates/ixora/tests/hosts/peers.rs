//! DPDK's drivers on minimal devices, as `ixora bench peers` measures them: here that they come up
//! and forward, without which nothing is measured: figures mean nothing beside other tests. It needs root, for the physical
//! addresses of DPDK's memory, and fetches packages (`IXORA_OFFLINE` leaves it out).

use lab::packages::{DPDK, Packages, Suite};
use serde_json::Value;

use crate::common::{may_make_interfaces, start};

#[test]
fn dpdks_drivers_forward_on_minimal_devices() {
    if !may_make_interfaces() {
        return;
    }
    let Some(tree) = Packages::of_test(DPDK, Suite::BOOKWORM) else { return };
    let place = tempfile::tempdir().expect("a directory");
    let (dpdk, json) = (tree.root().display(), place.path().join("peers.json"));
    let words = format!("bench peers --windows 1 --dpdk {dpdk} --json {}", json.display());
    let bench = start(place.path(), &words);
    let done = bench.wait(1200); // it has several tries, which a busy machine may need
    if done.stderr.contains("cannot reserve hugepages") {
        return println!("passed over: {}", done.stderr.trim());
    }
    assert!(done.status.success(), "{done:#?}");
    let report = std::fs::read_to_string(json).expect("written");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    let devices: Vec<&str> = rows.iter().filter_map(|row| row["nic"].as_str()).collect();
    assert_eq!(devices, [["82599"; 4], ["xl710"; 4]].concat(), "by work and by path of DPDK's driver");
}
