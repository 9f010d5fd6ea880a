//! `ixora bench tcp`: that its rows are whole, not how fast they are.

use serde_json::json;

use crate::common::{run, start};

#[test]
fn bench_tcp_has_a_row_for_each_shape_and_its_conditions() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("rows.json");
    let done = start(place.path(), &format!("bench tcp --quick --json {}", file.display())).wait(120);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.stdout.contains("TSC") && done.stdout.contains("cycles/request"), "{done:#?}");
    let text = std::fs::read_to_string(&file).expect("the rows");
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(all["conditions"]["tsc_hz"].as_u64() > Some(0) && all["cpus"] == json!([0]), "{all:#}");
    let rows = all["rows"].as_array().expect("a list");
    let shape = |row: &serde_json::Value| json!([row["connections"], row["messages"], row["size"]]);
    let shapes: Vec<_> = rows.iter().map(shape).collect();
    let wanted = [
        json!([1, null, 64]),
        json!([256, null, 64]),
        json!([64, 1, 64]),
        json!([64, 16, 64]),
        json!([64, null, 64]),
        json!([64, null, 4096]),
    ];
    assert_eq!(shapes, wanted);
    for row in rows {
        assert!(row["requests"].as_u64() >= Some(1000) && row["windows"] == 1, "{row:#}");
        assert!(row["cycles_per_request"]["min"].as_f64() > Some(0.0), "{row:#}");
        assert!(row["requests_per_s"].as_f64() > Some(0.0), "{row:#}");
        assert!(row["calibration"].as_array().is_some_and(|both| both.len() == 2), "{row:#}");
        assert_eq!(row["resent"], 0, "{row:#}");
        let opens = row["messages"] != json!(null);
        assert_eq!(row["opened"].as_u64() > Some(0), opens, "{row:#}");
    }
}

#[test]
fn bench_tcp_says_what_is_too_much() {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), "bench tcp --connections 65536 --size 65536");
    assert_eq!(done.code(), Some(2), "{done:#?}");
    assert!(done.stderr.contains("65536 connections") && done.stderr.contains("fix:"), "{done:#?}");
    let done = run(place.path(), "bench tcp --messages 0");
    assert_eq!(done.code(), Some(2), "{done:#?}");
}
