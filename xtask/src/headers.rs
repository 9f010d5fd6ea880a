//! `wire` is the only place that knows a header: where its fields are, which number a
//! protocol has, how a checksum is added up. This check reads all code that is no test
//! and refuses what [`rules`] recognises elsewhere, but for the places in [`ALLOWED`],
//! and for [`WITNESSES`], which know headers once more on purpose.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::step::{Failure, root, rust_files};

mod rules;

/// Parts of paths under `crates/` where headers may be known as well, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("base/wire/", "it is the place"),
    ("base/regs/", "registers and descriptors of NICs, no header of a packet"),
    ("nic/bus/", "messages of vfio-user and vhost-user, and PCI configuration space"),
    ("net/runtime/src/peer.rs", "messages of the kernel's sock_diag"),
    ("sim/testbed/src/twin/", "messages of vfio-user and vhost-user, which it mutates"),
    ("sim/packetdrill/src/", "structures of the C library, and the kernel's numbers of socket options"),
    ("sim/model/src/ixgbe/eeprom/image.rs", "words of an EEPROM"),
    ("sim/model/src/ixgbe/i2c/module.rs", "the memory of an SFP+ module"),
    ("graph/src/annotation.rs", "places of annotations, which Click numbers"),
    ("analysis/src/link.rs", "link layers that only capture files have"),
    ("/netlink.rs", "messages of the kernel's, not of the network"),
    ("/pcap/", "blocks of capture files"),
];

/// Files under `crates/` that know headers a second time, why, and the test that compares
/// them with `wire`: its file under `crates/` and its name.
const WITNESSES: &[(&str, &str, &str, &str)] = &[
    (
        "sim/testbed/src/wire/check.rs",
        "the sink that checks what a forwarder made with wire",
        "sim/testbed/src/wire/tests.rs",
        "the_check_is_a_second_witness_to_the_views",
    ),
    (
        "sim/lab/src/scenario/dpdk/frames.rs",
        "frames by which our model is compared with other people's drivers",
        "sim/lab/src/scenario/dpdk/frames.rs",
        "these_frames_are_a_second_witness_to_the_views",
    ),
];

/// Checks the source of all crates.
pub fn check() -> Result<(), Failure> {
    println!("==> headers");
    let mut files = vec![];
    rust_files(&root().join("crates"), &mut files)?;
    // Files beside the `src` folders are tests, benchmarks and examples.
    files.retain(|path| path.components().any(|part| part.as_os_str() == "src"));
    let mut used = BTreeSet::new();
    let mut wrong = vec![];
    for file in without_tests(&files)? {
        let text = read(&file)?;
        let shown = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        let found = rules::find(&text).map_err(|error| format!("{shown}: {error}"))?;
        let witnesses = WITNESSES.iter().map(|(file, ..)| *file);
        let mut allowed = ALLOWED.iter().map(|(part, _)| *part).chain(witnesses);
        match allowed.find(|part| shown.contains(part)) {
            Some(part) if !found.is_empty() => drop(used.insert(part)),
            Some(_) => {}
            None => wrong.extend(found.iter().map(|(line, what)| format!("{shown}:{line}: {what}"))),
        }
    }
    let allowed = ALLOWED.iter().map(|(part, _)| part).chain(WITNESSES.iter().map(|(file, ..)| file));
    wrong.extend(allowed.filter(|part| !used.contains(*part)).map(|part| {
        format!("xtask/src/headers.rs allows {part}, where nothing needs to be allowed: remove the line")
    }));
    for (witness, _, tests, name) in WITNESSES {
        if !read(&root().join("crates").join(tests))?.contains(&format!("fn {name}()")) {
            wrong.push(format!("crates/{tests} has no test {name} that compares {witness} with wire"));
        }
    }
    match wrong.len() {
        0 => Ok(()),
        count => Err(format!(
            "{}\n{count} places know a header (crates/base/wire has its fields, numbers and checksums; \
             xtask/src/headers.rs lists what may know them beside it)",
            wrong.join("\n")
        )),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// The files that are part of what is built: not those that another one declares as a
/// module of its tests.
fn without_tests(files: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut tests = BTreeSet::new();
    for file in files {
        let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") | None => file.parent().map(Path::to_path_buf),
            Some(_) => Some(file.with_extension("")),
        };
        let modules = rules::test_modules(&read(file)?);
        let modules = modules.map_err(|error| format!("{}: {error}", file.display()))?;
        for module in modules {
            tests.extend(folder.as_ref().map(|folder| folder.join(module)));
        }
    }
    let is_test = |file: &&PathBuf| tests.iter().any(|test| file.with_extension("").starts_with(test));
    Ok(files.iter().filter(|file| !is_test(file)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tests_are_left_out_wherever_they_are_declared() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let src = folder.path().join("src");
        fs::create_dir_all(src.join("queue/tests")).expect("made");
        let write = |name: &str, text: &str| fs::write(src.join(name), text).expect("written");
        write("lib.rs", "mod queue;");
        write("queue.rs", "#[cfg(test)]\nmod tests;\nmod ring;");
        write("queue/ring.rs", "");
        write("queue/tests.rs", "mod deep;");
        write("queue/tests/deep.rs", "");
        let mut files = vec![];
        rust_files(folder.path(), &mut files).expect("read");
        assert_eq!(files.len(), 5);
        let left = without_tests(&files).expect("read");
        let names: Vec<_> = left.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert_eq!(names, ["lib.rs", "ring.rs", "queue.rs"]);
    }
}
