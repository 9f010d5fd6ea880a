//! `ixora compile`: the code it writes is the code beside these tests, and does what the
//! configuration does when it is not compiled: the same packets come out, those of a flow
//! in the same order, and the same is counted.
//!
//! `IXORA_BLESS=1` writes the code anew.
#![allow(clippy::unwrap_used)]

#[path = "../../../net/element/tests/it/differential/rig.rs"]
#[allow(dead_code)]
mod rig;
mod traffic;

use std::sync::Arc;

use graph::fused::Region;
use rig::{Input, Outcome, Rig};
use traffic::{frames, way};

/// The code of the configurations in the folder beside this.
#[allow(missing_docs, unused_imports, clippy::all, clippy::pedantic)]
mod golden {
    pub mod router {
        include!("compile/router.rs");
    }
    pub mod classes {
        include!("compile/classes.rs");
    }
    pub mod circle {
        include!("compile/circle.rs");
    }
    pub mod ports {
        include!("compile/ports.rs");
    }
    pub mod threads {
        include!("compile/threads.rs");
    }
}

struct Case {
    name: &'static str,
    text: &'static str,
    code: &'static str,
    regions: &'static [Region],
}

macro_rules! case {
    ($name:ident) => {
        Case {
            name: stringify!($name),
            text: include_str!(concat!("compile/", stringify!($name), ".click")),
            code: include_str!(concat!("compile/", stringify!($name), ".rs")),
            regions: golden::$name::REGIONS,
        }
    };
}

static CASES: &[Case] = &[case!(router), case!(classes), case!(circle), case!(ports), case!(threads)];

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap()
}

#[test]
fn the_code_is_what_stands_here() {
    for case in CASES {
        let (plan, made) = rig::made(case.text);
        let code = ixora::compile::code(&plan, &made);
        println!("{}\n{}", case.name, code.notes);
        if std::env::var_os("IXORA_BLESS").is_some() {
            let file = format!("{}/tests/it/compile/{}.rs", env!("CARGO_MANIFEST_DIR"), case.name);
            std::fs::write(file, &code.module).unwrap();
        } else {
            assert!(code.module == case.code, "{}: IXORA_BLESS=1 writes the code anew", case.name);
        }
    }
}

/// So many random frames for each of two sources.
fn input(seed: u64, counts: [usize; 2]) -> Arc<Input> {
    let sources = (seed..).zip(counts).map(|(seed, count)| frames(seed, count)).collect();
    Arc::new(Input { sources, way })
}

/// Runs a configuration as it is and compiled.
fn both(case: &Case, seed: u64, threads: usize, write: &[(&str, &str)]) -> [Outcome; 2] {
    [&[][..], case.regions].map(|regions| {
        let mut rig = Rig::new(case.text, regions, threads, &input(seed, [700, 500]));
        for (handler, value) in write {
            rig.router.write(handler, value).unwrap();
        }
        if threads == 1 {
            rig.run()
        } else {
            rig.run_threads(usize::MAX)
        }
        let outcome = rig.outcome();
        assert!(outcome.count() > 0);
        outcome
    })
}

#[test]
fn compiled_does_as_interpreted() {
    for name in ["router", "classes", "circle", "ports"] {
        for seed in 0..12 {
            let [interpreted, compiled] = both(case(name), 100 * seed, 1, &[]);
            assert!(interpreted.arrived.len() > 4, "{name}: {:?}", interpreted.drops);
            interpreted.assert_same(&compiled, &format!("{name}, seed {seed}"));
        }
    }
}

#[test]
fn every_way_is_taken() {
    let [interpreted, _] = both(case("router"), 1, 1, &[]);
    let sinks: std::collections::BTreeSet<u32> = interpreted.arrived.keys().map(|(sink, ..)| *sink).collect();
    assert_eq!(sinks, (0..10).filter(|sink| *sink != 6).collect(), "{:?}", interpreted.drops);
    let count = |name: &str| interpreted.handlers.get(name).map(String::as_str);
    assert!(count("o1/frag.fragments").is_some_and(|v| v != "0"), "some are fragmented");
    assert!(count("o1/ttl.drops").is_some_and(|v| v != "0"), "some are at their end");
    assert!(count("o1/gw.drops").is_some_and(|v| v != "0"), "some have wrong options");
}

#[test]
fn handlers_are_where_they_were() {
    let write = [("o1/pt.color", "1"), ("o2/ttl.active", "false"), ("o0/EtherEncap@9.src", "9:9:9:9:9:9")];
    let (plan, _) = rig::made(case("router").text);
    let encap = plan.elements.iter().find(|e| e.name.starts_with("o0/EtherEncap")).unwrap();
    let source = format!("{}.src", encap.name);
    let write = [write[0], write[1], (source.as_str(), write[2].1)];
    let [interpreted, compiled] = both(case("router"), 7, 1, &write);
    interpreted.assert_same(&compiled, "written before the run");
    let plain = both(case("router"), 7, 1, &[]);
    assert_ne!(plain[1].arrived, compiled.arrived, "what is written matters");
    assert!(compiled.handlers.get(&source).is_some_and(|value| value == "09-09-09-09-09-09"));
}

/// In the middle of things: some of its numbers are in the code.
#[test]
fn an_element_of_a_program_takes_another_configuration() {
    let case = case("classes");
    let written = [
        ("c.config", "12/0800, 12/86dd, 12/8100, -"),
        ("f.config", "drop src net 10.2.0.0/16, 1 tcp, allow all"),
        ("p.color", "9"),
        ("dscp.config", "12"),
    ];
    let [plain, interpreted, compiled] =
        [(&[][..], 0), (&[][..], 4), (case.regions, 4)].map(|(regions, count)| {
            let mut rig = Rig::new(case.text, regions, 1, &input(8, [700, 0]));
            for (handler, value) in &written[..count] {
                rig.router.lanes_mut()[0].step(2);
                rig.router.write(handler, value).unwrap();
            }
            rig.run();
            rig.outcome()
        });
    interpreted.assert_same(&compiled, "written on the way");
    assert_ne!(plain.arrived, interpreted.arrived, "what is written matters");
}

#[test]
fn packets_are_counted_at_each_element() {
    for name in ["router", "classes", "circle", "ports"] {
        let case = case(name);
        let [interpreted, compiled] = [&[][..], case.regions]
            .map(|regions| rig::run_counted(case.text, regions, &input(9, [700, 500])).packets);
        assert_eq!(interpreted, compiled, "{name}");
        assert!(interpreted.values().filter(|packets| **packets > 0).count() > 5, "{interpreted:?}");
    }
}

#[test]
fn a_write_that_comes_while_the_program_is_at_work_is_done_afterwards() {
    let case = case("threads");
    let mut rig = Rig::new(case.text, case.regions, 1, &input(3, [700, 10]));
    rig.router.write("m.count_call", "100 p.color 9").unwrap();
    rig.run();
    assert_eq!(rig.router.read("p.color", "").unwrap(), "9");
    let arrived = rig.outcome().arrived;
    let copies = arrived.iter().filter(|((sink, ..), _)| *sink == 1).map(|(_, p)| p.len()).sum::<usize>();
    assert!((64..=160).contains(&copies), "{copies} were copied before");
}

#[test]
fn threads_have_a_program_each() {
    for seed in 0..4 {
        let [interpreted, compiled] = both(case("threads"), 1000 + seed, 2, &[]);
        interpreted.assert_same(&compiled, &format!("two threads, seed {seed}"));
    }
}

#[test]
fn counts_outlive_a_change_of_the_configuration() {
    let case = case("circle");
    for (old, new) in [(case.regions, case.regions), (case.regions, &[][..]), (&[][..], case.regions)] {
        let mut old = Rig::new(case.text, old, 1, &input(5, [300, 0]));
        old.run();
        let count = old.router.read("in.count", "").unwrap();
        let mut new = Rig::new(case.text, new, 1, &input(5, [0, 0]));
        new.router.take_over(&mut old.router);
        assert_eq!(new.router.read("in.count", "").unwrap(), count);
        assert_ne!(count, "0");
    }
}

/// A folder of this test's own.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _old = std::fs::remove_dir_all(&folder);
    folder
}

fn ixora(arguments: &[&str]) -> std::process::Output {
    crate::common::output(std::process::Command::new(env!("CARGO_BIN_EXE_ixora")).args(arguments))
}

const COUNTED: &str =
    "define($n 5) i :: InfiniteSource(LIMIT $n, STOP true) -> Strip(1) -> c :: Counter -> d :: Discard;";

#[test]
fn a_crate_is_written() {
    let folder = folder("written");
    let file = folder.join("counted.click");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(&file, COUNTED).unwrap();
    let out = ixora(&["compile", file.to_str().unwrap(), "n=7", "--no-build"]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains("2 of 4 elements in 1 program"), "{said}");
    let read = |name: &str| std::fs::read_to_string(folder.join("counted-compiled").join(name)).unwrap();
    assert!(read("src/router.click").contains("LIMIT 7"));
    assert!(read("src/router.rs").contains("kernels::Strip::with(1)"));
    assert!(read("Cargo.toml").contains("name = \"counted\""));
    // Somebody's own crate is not written over.
    std::fs::write(folder.join("counted-compiled/Cargo.toml"), "[package]").unwrap();
    let out = ixora(&["compile", file.to_str().unwrap(), "--no-build"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("is another crate"), "{said}");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let out = ixora(&["compile", "-e", "Idle -> Srtip(14) -> Discard", "--no-build"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("config:1:9") && said.contains("Strip"), "{said}");
    let out = ixora(&["compile", "-e", COUNTED, "--no-build", "--source", "/nowhere"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("is not Ixora's source"), "{said}");
}

#[test]
fn where_nothing_can_be_compiled_nothing_is_built() {
    let folder = folder("nothing");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "FromDevice(model:82599) -> Queue -> ToDevice(model:82599)";
    let out = ixora(&["compile", "-e", text, "-o", folder.join("out").to_str().unwrap()]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("nothing to compile here"), "{said}");
    assert!(String::from_utf8_lossy(&out.stdout).contains("as it is: "), "why, for each element");
    assert!(!folder.join("out").exists());
}

/// As `cargo xtask install` leaves it: the program, and the source in a folder beside.
#[test]
fn an_installed_program_finds_the_source_beside_it() {
    let prefix = folder("installed");
    let source = prefix.join("share/ixora/src");
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in ["crates/ixora/Cargo.toml", "crates/net/graph/src/run/fused.rs", "Cargo.lock"] {
        std::fs::create_dir_all(source.join(file).parent().unwrap()).unwrap();
        std::fs::copy(here.join(file), source.join(file)).unwrap();
    }
    let program = prefix.join("bin/ixora");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_ixora"), &program).unwrap();
    let mut command = std::process::Command::new(&program);
    // Not where this source would be found around the working directory.
    command.current_dir("/").args(["compile", "-e", COUNTED, "--no-build", "--json", "-o"]);
    let out = crate::common::output(command.arg(prefix.join("out")));
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let made: serde_json::Value = serde_json::from_slice(&out.stdout).expect("nothing but JSON");
    assert!(made["programs"].as_u64() >= Some(1) && made["built"].is_null(), "{made:#}");
    let manifest = std::fs::read_to_string(prefix.join("out/Cargo.toml")).unwrap();
    let source = std::fs::canonicalize(&source).unwrap();
    assert!(manifest.contains(source.to_str().unwrap()), "{manifest}");
}

/// All programs are built in one folder, so that two of one name must not be one file there.
#[test]
fn programs_of_one_name_have_files_of_their_own() {
    let folder = folder("names");
    let called = |place: &str| {
        let place = folder.join(place);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("counted.click"), COUNTED).unwrap();
        let out = ixora(&["compile", place.join("counted.click").to_str().unwrap(), "--no-build"]);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let manifest = std::fs::read_to_string(place.join("counted-compiled/Cargo.toml")).unwrap();
        let names = manifest.lines().filter_map(|line| line.strip_prefix("name = ")).map(str::to_owned);
        names.collect::<Vec<_>>()
    };
    let (one, other) = (called("a"), called("b"));
    assert_eq!((one[0].as_str(), other[0].as_str()), ("\"counted\"", "\"counted\""));
    assert!(one[1].starts_with("\"counted-") && one[1] != other[1], "{one:?} {other:?}");
    assert_eq!(one, called("a"), "and keep them");
}

#[test]
fn a_program_of_another_configuration_is_refused() {
    let (text, regions) = (case("circle").text, case("router").regions);
    let wrong = Rig::build(text, regions, 1, &input(0, [0, 0])).map(|_| ());
    let wrong = wrong.expect_err("the elements are others");
    assert!(wrong.contains("compile it again"), "{wrong}");
}
