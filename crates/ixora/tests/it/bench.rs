//! `ixora bench tcp`, `bench growth` and `bench latency`: that their rows are whole, not how fast
//! they are.

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

#[test]
fn bench_growth_has_each_axis_its_curves_and_its_pictures() {
    let place = tempfile::tempdir().expect("a directory");
    let (file, folder) = (place.path().join("rows.json"), place.path().join("plots"));
    let command = format!(
        "bench growth --axis flows,prefixes,elements,rules,queues,ports --at 1,16 --packets 2000 --windows 2 \
         --cpu 0 --json {} --svg {}",
        file.display(),
        folder.display()
    );
    let done = start(place.path(), &command).wait(240);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let text = std::fs::read_to_string(&file).expect("the rows");
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(all["conditions"]["tsc_hz"].as_u64() > Some(0), "{all:#}");
    let rows = all["rows"].as_array().expect("a list");
    let wanted = [
        ("flows", &["router", "nat"][..]),
        ("prefixes", &["RadixIPLookup", "ipv4", "ipv6"]),
        ("elements", &["Null", "Counter", "Paint", "EtherMirror"]),
        ("rules", &["addresses", "flows", "access list", "patterns"]),
        ("queues", &["forward"]),
        ("ports", &["forward"]),
    ];
    let named: Vec<_> = rows.iter().map(|row| json!([row["axis"], row["curve"], row["x"]])).collect();
    let places = |(axis, curves): &(&str, &[&str])| {
        let place = |curve: &&str| [1, 16].map(|x| json!([axis, curve, x]));
        curves.iter().flat_map(place).collect::<Vec<_>>()
    };
    assert_eq!(named, wanted.iter().flat_map(places).collect::<Vec<_>>());
    for row in rows {
        assert!(row["cycles_per_packet"]["min"].as_f64() > Some(0.0), "{row:#}");
        assert!(row["windows"] == 2 && row["packets"] == 2000 && row["batch"] == 32, "{row:#}");
        assert_eq!(row["cycles_per_element"] == json!(null), row["axis"] != "elements", "{row:#}");
        let has_table = ["nat", "ipv4", "ipv6"].iter().any(|curve| row["curve"] == *curve);
        assert_eq!(row["table_bytes"] == json!(null), !has_table, "{row:#}");
    }
    let curves = all["curves"].as_array().expect("a list");
    assert_eq!(curves.len() * 2, rows.len(), "{curves:#?}");
    for (axis, names) in wanted {
        let svg = std::fs::read_to_string(folder.join(format!("growth-{axis}.svg"))).expect("a picture");
        assert!(names.iter().all(|name| svg.contains(name)) && svg.contains("2 windows of 2000"), "{svg}");
        assert!(done.stdout.contains(&format!("growth-{axis}.svg")), "{done:#?}");
    }
}

#[test]
fn bench_growth_measures_threads_and_says_what_is_too_much() {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), "bench growth --axis threads --at 1 --packets 1000 --windows 1 --cpu 0");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.stdout.contains("threads   source"), "{done:#?}");
    for (command, said) in [
        ("--axis threads --at 2 --cpu 0", "--cpu 0,1"),
        ("--axis rules --at 10001", "from 1 to 10000"),
        ("--axis flows --at 0", "from 1 to 1000000"),
        ("--axis flows --packets 0", "at least 1"),
        ("--axis flows --windows 0", "at least 1"),
        ("--axis flows --batch 0", "from 1 to 256"),
        ("--axis flows --cpu 4000", "this process may use"),
    ] {
        let done = run(place.path(), &format!("bench growth {command}"));
        assert_eq!(done.code(), Some(2), "{command}: {done:#?}");
        assert!(done.stderr.contains("fix:") && done.stderr.contains(said), "{command}: {done:#?}");
    }
}

#[test]
fn bench_latency_has_a_row_for_each_load_and_its_pictures() {
    let place = tempfile::tempdir().expect("a directory");
    let (file, folder) = (place.path().join("rows.json"), place.path().join("plots"));
    let command = format!(
        "bench latency --batch 1,32 --load 5,10 --seconds 0.1 --json {} --svg {}",
        file.display(),
        folder.display()
    );
    let done = start(place.path(), &command).wait(240);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let text = std::fs::read_to_string(&file).expect("the rows");
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(all["shares"], json!([50.0, 90.0, 99.0, 99.9, 99.99]));
    let rows = all["rows"].as_array().expect("a list");
    let named: Vec<_> =
        rows.iter().map(|row| json!([row["work"], row["mode"], row["batch"], row["load"]])).collect();
    let mut wanted = vec![json!(["wire", "poll", 1, 5.0]), json!(["wire", "poll", 1, 10.0])];
    for (work, mode) in [("forward", "poll"), ("forward", "interrupt"), ("router", "poll")] {
        for batch in [1, 32] {
            wanted.extend([5.0, 10.0].map(|load| json!([work, mode, batch, load])));
        }
    }
    assert_eq!(named, wanted);
    for row in rows {
        let delays: Vec<u64> =
            row["delay_ns"].as_array().expect("delays").iter().filter_map(|ns| ns.as_u64()).collect();
        assert!(delays.len() == 5 && delays.is_sorted() && delays[0] > 0, "{row:#}");
        assert!(row["longest_ns"].as_u64() >= delays.last().copied(), "{row:#}");
        assert!(
            row["counted"].as_u64() > Some(0) && row["counted"].as_u64() <= row["sent"].as_u64(),
            "{row:#}"
        );
    }
    for name in ["wire-poll", "forward-poll", "forward-interrupt", "router-poll"] {
        let svg = std::fs::read_to_string(folder.join(format!("latency-{name}-512.svg"))).expect("a picture");
        assert!(svg.contains("microseconds") && svg.contains("batch 1"), "{svg}");
    }
}

#[test]
fn bench_latency_says_what_cannot_be_measured() {
    let place = tempfile::tempdir().expect("a directory");
    for (command, said) in [
        ("--work router --mode interrupt", "--mode poll"),
        ("--load 0", "--load from 0.1 to 200"),
        ("--batch 0", "--batch from 1 to 256"),
        ("--ring 100", "power of two"),
        ("--seconds 0", "--seconds from"),
        ("--cpu 0", "--cpu 0,1"),
    ] {
        let done = run(place.path(), &format!("bench latency {command}"));
        assert_eq!(done.code(), Some(2), "{command}: {done:#?}");
        assert!(done.stderr.contains("fix:") && done.stderr.contains(said), "{command}: {done:#?}");
    }
}

#[test]
fn bench_paper_overlay_fib_has_the_papers_figures_and_what_the_kernel_takes() {
    let place = tempfile::tempdir().expect("a directory");
    let folder = place.path().join("figures");
    let command =
        format!("bench paper overlay-fib --packets 1024 --windows 1 --cpu 0 --out {}", folder.display());
    let done = start(place.path(), &command).wait(240);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    for (name, stacked, labels) in [
        ("3", 5, 13),
        ("7", 3, 13),
        ("software", 3, 13),
        ("table2", 0, 24),
        ("table2-10", 0, 24),
        ("table2-40", 0, 24),
        ("table2-80", 0, 24),
    ] {
        let path = folder.join(format!("overlay-fib-{name}.json"));
        let text = std::fs::read_to_string(&path).expect("a figure");
        let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(all["conditions"]["tsc_hz"].as_u64() > Some(0), "{all:#}");
        let figure = &all["figure"];
        assert_eq!(figure["bars"]["stacked"], stacked, "{name}: {figure:#}");
        assert_eq!(figure["bars"]["labels"].as_array().map(Vec::len), Some(labels), "{name}");
        let series = figure["series"].as_array().expect("a list");
        let named = |name: &str| series.iter().find(|series| series["name"] == name);
        let first = if stacked > 0 { "inner" } else { "normal" };
        for point in named(first).expect(first)["points"].as_array().expect("points") {
            assert!(point[1]["median"].as_f64() > Some(0.0), "{name}: {point}");
        }
        let papers = if stacked > 0 { "the paper" } else { "the paper, normal" };
        let paper = named(papers).map(|series| series["points"].as_array().map(Vec::len));
        let wanted = match name {
            "table2-40" | "table2-80" => None,
            "table2" | "table2-10" => Some(Some(10)),
            _ => Some(Some(6)),
        };
        assert_eq!(paper, wanted, "{name}: {figure:#}");
        let svg = std::fs::read_to_string(path.with_extension("svg")).expect("a picture");
        assert!(svg.contains("VXLAN") && svg.contains(first), "{name}: {svg}");
    }
    // Of a link no more than it carries.
    let text = std::fs::read_to_string(folder.join("overlay-fib-table2-10.json")).expect("a figure");
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for series in all["figure"]["series"].as_array().expect("a list") {
        for point in series["points"].as_array().expect("points") {
            assert!(point[1]["max"].as_f64() < Some(10.0), "{series:#}");
        }
    }
    assert!(done.stdout.contains("NVGRE 1500") && done.stdout.contains("SRv6"), "{done:#?}");
    if crate::common::may_make_interfaces() {
        assert!(done.stdout.contains("this kernel"), "what the kernel takes: {done:#?}");
        assert!(done.stdout.contains("the kernel's packets go to a "), "{done:#?}");
    }
    let done = run(place.path(), "bench paper overlay-fib --figure 5");
    assert_eq!(done.code(), Some(2), "{done:#?}");
    assert!(done.stderr.contains("table2-40"), "{done:#?}");
}
