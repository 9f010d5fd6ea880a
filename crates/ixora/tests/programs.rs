//! Programs of random graphs, and of a whole crate, are built and run: the same packets
//! come out as from the graphs as they are, in the same order, and the same is counted;
//! one packet at a time or many, on one thread or four.
//!
//! All are built at once, as one more program of this workspace, so that what it is made
//! of need not be built again. The graphs are others each time:
//!
//! ```sh
//! IXORA_SEED=17 cargo test -p ixora --test programs    # that graph alone
//! IXORA_CASES=200 cargo test -p ixora --test programs  # so many graphs
//! ```
#![allow(clippy::unwrap_used)]

#[path = "../../net/element/tests/it/differential/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../../net/element/tests/it/differential/rig.rs"]
#[allow(dead_code)]
mod rig;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use random::Random;

/// How many graphs there are, unless `IXORA_CASES` says so.
const GRAPHS: u64 = 24;

const COUNTED: &str =
    "define($n 5) i :: InfiniteSource(LIMIT $n, STOP true) -> Strip(1) -> c :: Counter -> d :: Discard;";

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn seeds() -> Vec<u64> {
    if let Some(seed) = number("IXORA_SEED") {
        return vec![seed];
    }
    let first = UNIX_EPOCH.elapsed().unwrap().as_millis() as u64 % 1_000_000 * 1000;
    (0..number("IXORA_CASES").unwrap_or(GRAPHS)).map(|n| first + n).collect()
}

/// The target folder, and one of this test's own in it.
fn folders() -> (&'static Path, PathBuf) {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    (own.parent().unwrap(), own.join("programs"))
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| {
        panic!("this test builds programs, and cannot run cargo: {error}; CARGO says where it is")
    })
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Writes the code of random graphs; how many elements of them are in programs.
fn write_graphs(folder: &Path, seeds: &[u64]) -> usize {
    let (mut all, mut table, mut fused) = (String::new(), String::new(), 0);
    for (n, seed) in seeds.iter().enumerate() {
        let text = random::text(&Random(*seed).nodes(), 32);
        let (plan, made) = rig::made(&text);
        let code = ixora::compile::code(&plan, &made);
        fused += code.notes.lines().filter(|line| line.contains("in program")).count();
        std::fs::write(folder.join(format!("graph{n}.rs")), code.module).unwrap();
        let _ = writeln!(all, "pub mod graph{n} {{ include!(\"graph{n}.rs\"); }}");
        let _ = write!(table, "({seed}, graph{n}::REGIONS), ");
    }
    let _ = writeln!(all, "pub static GRAPHS: &[(u64, &[graph::fused::Region])] = &[{table}];");
    let _ = writeln!(all, "pub mod counted {{ include!(\"counted/src/included.rs\"); }}");
    std::fs::write(folder.join("written.rs"), all).unwrap();
    fused
}

/// Has a crate written, with its `main` such that it can be part of another program.
fn write_crate(folder: &Path) {
    let counted = folder.join("counted");
    let mut ixora = Command::new(env!("CARGO_BIN_EXE_ixora"));
    ixora.args(["compile", "-e", COUNTED, "--no-build", "-o"]).arg(&counted);
    let out = ixora.output().unwrap();
    assert!(out.status.success(), "{}", said(&out));
    let main = std::fs::read_to_string(counted.join("src/main.rs")).unwrap();
    let inner = |line: &&str| !line.starts_with("//!") && !line.starts_with("#![");
    let main: String = main.lines().filter(inner).map(|line| format!("{line}\n")).collect();
    let main = main.replace("fn main()", "pub fn main()").replace("mod router;", "pub mod router;");
    std::fs::write(counted.join("src/included.rs"), main).unwrap();
}

/// What is built: the program, the seeds of the graphs in it, and how many elements were
/// fused.
struct Built {
    program: PathBuf,
    seeds: Vec<u64>,
    fused: usize,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let (target, folder) = folders();
        let _old = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let seeds = seeds();
        let fused = write_graphs(&folder, &seeds);
        write_crate(&folder);
        Built { program: build(target, &folder), seeds, fused }
    })
}

/// Builds the program with what this test itself was built with.
fn build(target: &Path, folder: &Path) -> PathBuf {
    let mut command = cargo();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    command.args(["test", "--no-run", "--workspace", "--test", "program", "--offline", "--locked"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    command.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(target);
    // The folder of a profile is called as the profile, apart from those of `debug`.
    let profile = Path::new(env!("CARGO_BIN_EXE_ixora")).parent().and_then(Path::file_name).unwrap();
    if profile != "debug" {
        command.arg("--profile").arg(profile);
    }
    let out = output(command.env("IXORA_PROGRAMS", folder));
    assert!(out.status.success(), "the programs are not built:\n{}", String::from_utf8_lossy(&out.stderr));
    let messages = String::from_utf8_lossy(&out.stdout);
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut programs = messages.filter(|m: &serde_json::Value| m["target"]["name"] == "program");
    let program = programs.next_back().and_then(|m| m["executable"].as_str().map(PathBuf::from));
    program.expect("cargo names it")
}

#[test]
fn compiled_graphs_do_as_interpreted_ones() {
    let Built { program, seeds, fused } = built();
    let out = output(Command::new(program).args(["compare", "2"]));
    let said = said(&out);
    println!("seeds {} and on: {fused} elements fused; {said}", seeds[0]);
    assert!(
        out.status.success(),
        "{said}\nIXORA_SEED=… cargo test -p ixora --test programs repeats the graph of a seed;\n\
         its code is in {}",
        folders().1.display()
    );
    assert!(seeds.len() < 12 || *fused > 10 * seeds.len(), "{fused} elements are in programs");
}

#[test]
fn a_crate_is_built_and_runs() {
    let program = &built().program;
    let run = |arguments: &[&str]| {
        let out = output(Command::new(program).args(arguments));
        (out.status.code(), said(&out))
    };
    assert_eq!(run(&["-h", "c.count", "-x", "c.byte_count"]).1.lines().next(), Some("5"));
    assert!(run(&["--explain"]).1.contains("2 of 4 elements in 1 program"));
    assert_eq!(run(&["-e", "Idle -> Discard"]).0, Some(2), "it has one configuration");
    // And all it needs is found, as its manifest says.
    let mut metadata = cargo();
    // What other platforms need has not been fetched.
    metadata.args(["metadata", "--offline", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    metadata.args(["--format-version", "1", "--manifest-path"]);
    let out = output(metadata.arg(folders().1.join("counted/Cargo.toml")));
    assert!(out.status.success(), "{}", said(&out));
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages: Vec<&str> =
        metadata["packages"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    for name in ["config", "ixora", "ixora-element", "ixora-graph", "ixora-memory"] {
        assert!(packages.contains(&name), "{name} is not in {packages:?}");
    }
}

/// The first is in all graphs; the others number packets in the order of all flows, or
/// ask which thread it is: nobody promises that to be the same.
const APART: [&str; 3] = ["SetAnnoByte", "UDPIPEncap", "CPUSwitch"];

/// Every class that can be in a program is in random graphs.
#[test]
fn no_class_is_left_out() {
    let registry = element::registry();
    let fused =
        |(name, class): &(&str, &graph::Class)| *name == class.name && class.kernel.inside().is_some();
    for (class, _) in registry.iter().filter(fused) {
        let is_it = |word: &str| word.trim() == class;
        let there = random::NODES.iter().any(|(chain, _)| {
            chain.split("->").any(|element| is_it(element.split('(').next().unwrap_or_default()))
        });
        assert!(there || APART.contains(&class), "{class} is in no random graph");
    }
}
