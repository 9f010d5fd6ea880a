//! The crate of a compiled configuration, and how it is built.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Code, cache};
use crate::Failure;

/// The crate of a program.
pub struct Package {
    /// The folder of the crate.
    pub folder: PathBuf,
    /// What the program is called.
    name: String,
    /// The configuration's file.
    file: String,
    /// The folder of Ixora's source.
    source: PathBuf,
}

/// A name that cargo takes.
fn named(file: &str) -> String {
    let stem = Path::new(file).file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
    let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = stem.unwrap_or_default().chars().map(fits).take(LONGEST).collect();
    let name = name.trim_matches('-');
    match name.chars().next() {
        // Names of Ixora's own crates, and of cargo's folders, are taken.
        Some(first) if first.is_ascii_alphabetic() && !TAKEN.contains(&name) => name.to_string(),
        Some(_) => format!("router-{name}"),
        None => "router".to_string(),
    }
}

/// The most characters of a name: cargo calls files by it, and adds to it.
const LONGEST: usize = 64;

const TAKEN: &[&str] = &[
    "ixora",
    "element",
    "graph",
    "memory",
    "click",
    "test",
    "build",
    "deps",
    "examples",
    "incremental",
    "src",
    "core",
    "std",
    "alloc",
];

/// A text as TOML quotes it.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Whether a folder is Ixora's source.
fn is_source(folder: &Path) -> bool {
    ["crates/ixora/Cargo.toml", "crates/net/graph/src/run/fused.rs", "Cargo.lock"]
        .iter()
        .all(|file| folder.join(file).is_file())
}

/// Ixora's source in this folder.
///
/// # Errors
/// When it is something else.
pub fn source_in(folder: &Path) -> Result<PathBuf, Failure> {
    canonical_source(folder).ok_or_else(|| {
        Failure::usage(format!("{} is not Ixora's source", folder.display()))
            .fix("name the folder that Ixora's Cargo.lock is in")
    })
}

/// Ixora's source: around the working directory, beside this program where `cargo xtask install`
/// put both, or where this program was built.
///
/// # Errors
/// When it is at none of these places; the caller knows what can be done.
pub fn find_source() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default();
    let installed = program.parent().map(|folder| folder.join(INSTALLED));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    here.ancestors()
        .find_map(canonical_source)
        .or_else(|| canonical_source(&installed?))
        .or_else(|| canonical_source(&built))
        .ok_or_else(|| Failure::new("a program is built with Ixora's source, which is not here"))
}

/// The source, from the folder of an installed program.
const INSTALLED: &str = "../share/ixora/src";

fn canonical_source(folder: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(folder).ok().filter(|folder| is_source(folder))
}

impl Package {
    /// The crate for a configuration's file, which is built with this source of Ixora's.
    pub fn new(file: &str, folder: Option<&Path>, source: PathBuf) -> Package {
        let name = named(file);
        let beside = Path::new(file).parent().filter(|_| Path::new(file).is_file()).unwrap_or(Path::new(""));
        let folder = folder.map_or_else(|| beside.join(format!("{name}-compiled")), Path::to_path_buf);
        Package { folder, name, file: file.to_string(), source }
    }

    /// Writes all files. A crate that was written there before is replaced; what else is
    /// in the folder stays.
    ///
    /// # Errors
    /// When they cannot be written, or the folder holds something else.
    pub fn write(&self, configuration: &str, code: &Code) -> Result<(), Failure> {
        self.check_folder()?;
        let failed = |error| Failure::new(format!("{}: {error}", self.folder.display()));
        std::fs::create_dir_all(self.folder.join("src")).map_err(failed)?;
        let files = [
            ("Cargo.toml", self.manifest()),
            ("src/main.rs", self.main()),
            ("src/router.rs", code.module.clone()),
            ("src/router.click", configuration.to_string()),
            ("src/notes.txt", code.notes.clone()),
        ];
        for (file, text) in files {
            self.put(file, &text)?;
        }
        // With the versions that Ixora was tested with.
        let lock = std::fs::read_to_string(self.source.join("Cargo.lock")).map_err(failed)?;
        self.put("Cargo.lock", &lock)
    }

    /// Refuses a folder that holds another crate, or another file where the program goes.
    fn check_folder(&self) -> Result<(), Failure> {
        let refused = |found: String| Failure::usage(found).fix("--output DIR names another folder");
        match std::fs::read_to_string(self.folder.join("Cargo.toml")) {
            Ok(text) if text.contains(MARK) => return Ok(()),
            Ok(_) => return Err(refused(format!("{} is another crate", self.folder.display()))),
            Err(_) => {}
        }
        let program = self.folder.join(&self.name);
        match program.symlink_metadata() {
            Ok(_) => Err(refused(format!("{} is there already", program.display()))),
            Err(_) => Ok(()),
        }
    }

    fn put(&self, file: &str, text: &str) -> Result<(), Failure> {
        let path = self.folder.join(file);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(()); // and is not built again
        }
        std::fs::write(&path, text).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
    }

    fn manifest(&self) -> String {
        let path = |name: &str| quoted(&self.source.join("crates").join(name).to_string_lossy());
        format!(
            "{MARK}
[package]
name = \"{}\"
version = \"0.0.0\"
edition = \"2024\"
publish = false

[[bin]]
name = \"{}\"
path = \"src/main.rs\"

[workspace]

[dependencies]
ixora = {{ path = {} }}
element = {{ package = \"ixora-element\", path = {} }}
graph = {{ package = \"ixora-graph\", path = {} }}
memory = {{ package = \"ixora-memory\", path = {} }}
{PROFILE}",
            self.name,
            self.binary(),
            path("ixora"),
            path("net/element"),
            path("net/graph"),
            path("nic/memory")
        )
    }

    fn main(&self) -> String {
        format!(
            "//! The router of {:?}, made by `ixora compile`. Run it with --help.
#![forbid(unsafe_code)]

#[allow(unused_imports)] // which of them are used depends on the configuration
mod router;

fn main() -> std::process::ExitCode {{
    ixora::compiled::run(&ixora::compiled::Compiled {{
        name: {:?},
        configuration: include_str!(\"router.click\"),
        notes: include_str!(\"notes.txt\"),
        regions: router::REGIONS,
    }})
}}
",
            self.file, self.file
        )
    }

    /// Builds it; where the program is.
    ///
    /// # Errors
    /// When there is no cargo, or it fails.
    pub fn build(&self, profile: &str, offline: bool) -> Result<PathBuf, Failure> {
        let target = cache::target()?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--profile", profile, "--manifest-path"]).arg(self.folder.join("Cargo.toml"));
        command.arg("--target-dir").arg(&target);
        if offline {
            command.arg("--offline");
        }
        let status = command.status().map_err(|error| {
            Failure::new(format!("cannot run cargo: {error}")).fix("install Rust from https://rustup.rs")
        })?;
        if !status.success() {
            return Err(Failure::new(format!("cargo did not build {}", self.folder.display()))
                .fix("what it said is above; --no-build leaves the crate to you"));
        }
        let folder = if profile == "dev" { "debug" } else { profile };
        let (built, program) = (target.join(folder).join(self.binary()), self.folder.join(&self.name));
        let failed = |error| Failure::new(format!("{}: {error}", program.display()));
        // A program that runs keeps its file.
        match std::fs::remove_file(&program) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        std::fs::copy(&built, &program).map_err(failed)?;
        Ok(program)
    }

    /// The program's name among those of other configurations: files of one name may lie in
    /// several folders.
    fn binary(&self) -> String {
        let mut hasher = std::hash::DefaultHasher::new();
        std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone()).hash(&mut hasher);
        format!("{}-{:016x}", self.name, hasher.finish())
    }
}

/// How all programs are built, so that they share what they are made of.
const PROFILE: &str = include_str!("profile.toml");

/// The first line of every crate that is written here.
const MARK: &str = "# Made by `ixora compile`: do not change it, change the configuration.";

#[cfg(test)]
mod tests {
    use super::{MARK, PROFILE, Package, named, quoted};

    #[test]
    fn paths_are_quoted_as_toml_has_it() {
        assert_eq!(quoted("/a/e\u{301}\u{202e}"), "\"/a/e\u{301}\u{202e}\"");
        assert_eq!(quoted("/a\\b\"c\n"), r#""/a\\b\"c\u000A""#);
    }

    /// Cargo only warns of others, and builds them in as many units as it likes.
    #[test]
    fn the_profile_names_crates_that_there_are() {
        let lock = include_str!("../../../../Cargo.lock");
        let table = |line: &str| {
            let name = line.strip_prefix("[profile.release.package.")?.strip_suffix(']')?;
            (name != "\"*\"").then(|| name.to_owned())
        };
        let names: Vec<String> = PROFILE.lines().filter_map(table).collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            assert!(lock.contains(&format!("name = \"{name}\"\n")), "there is no crate {name}");
        }
    }

    #[test]
    fn names_are_such_that_cargo_takes() {
        assert_eq!(named("conf/My Router.click"), "my-router");
        assert_eq!(named("10g.click"), "router-10g");
        assert_eq!(named("graph.click"), "router-graph");
        assert_eq!(named("src.click"), "router-src");
        assert_eq!(named("<stdin>"), "stdin");
        assert_eq!(named(""), "router");
        assert_eq!(named(&"x".repeat(255)), "x".repeat(64));
    }

    /// The configuration itself may be called as the program would be.
    #[test]
    fn a_file_that_is_no_program_of_ours_stays() {
        let place = tempfile::tempdir().expect("a folder");
        let file = place.path().join("router");
        std::fs::write(&file, "Idle -> Discard;").expect("room");
        let name = file.to_str().expect("a path in UTF-8");
        let source = super::find_source().expect("the source is here");
        let package = Package::new(name, Some(place.path()), source);
        let code = super::Code { module: String::new(), notes: String::new(), programs: 0 };
        assert!(package.write("Idle -> Discard;", &code).is_err());
        assert_eq!(std::fs::read_dir(place.path()).expect("a folder").count(), 1, "nothing is written");
        // One that was written there before is.
        std::fs::write(place.path().join("Cargo.toml"), MARK).expect("room");
        assert!(package.write("Idle -> Discard;", &code).is_ok());
    }
}
