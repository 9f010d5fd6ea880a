//! apt with a state of its own: lists, archives, sources and an empty status.
//!
//! apt.conf(5), sources.list(5), apt-get(8). Nothing of the machine's apt is
//! changed; its mirror and its keyring are read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use super::{Depth, Suite};
use crate::{Error, Result, limited};

/// Lists older than this are fetched again before a download.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long apt may take for lists, or for all archives of a tree.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// Names another mirror than apt's.
const MIRROR: &str = "IXORA_DEBIAN_MIRROR";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// One suite's apt.
pub(super) struct Apt {
    home: PathBuf,
    suite: Suite,
}

impl Apt {
    /// Makes the directories and files that apt wants in `home`.
    pub(super) fn new(home: &Path, suite: Suite) -> Result<Apt> {
        for directory in ["state/lists/partial", "cache/archives/partial", "etc"] {
            let path = home.join(directory);
            fs::create_dir_all(&path).map_err(Error::at(&path))?;
        }
        for directory in ["apt.conf.d", "preferences.d", "trusted.gpg.d", "sources.list.d"] {
            let path = home.join("etc").join(directory);
            fs::create_dir_all(&path).map_err(Error::at(&path))?;
        }
        let sources = format!(
            "Types: deb\nURIs: {}\nSuites: {}\nComponents: main\nSigned-By: {KEYRING}\n",
            mirror()?,
            suite.releases()
        );
        let place = home.display();
        let configuration = format!(
            "Dir \"{place}\";\nDir::State \"{place}/state\";\nDir::State::status \"{place}/status\";\n\
             Dir::Cache \"{place}/cache\";\nDir::Etc \"{place}/etc\";\nAPT::Sandbox::User \"\";\n\
             Acquire::Languages \"none\";\nAPT::Update::Error-Mode \"any\";\nAcquire::Retries \"2\";\n\
             Acquire::http::Timeout \"20\";\nAcquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";\n\
             #clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Post-Invoke;\n"
        );
        let files =
            [("status", ""), ("etc/sources.list.d/lab.sources", &sources), ("apt.conf", &configuration)];
        for (name, text) in files {
            let path = home.join(name);
            fs::write(&path, text).map_err(Error::at(&path))?;
        }
        Ok(Apt { home: home.to_owned(), suite })
    }

    /// Downloads packages, and what they depend on, and says where they lie.
    pub(super) fn download(&self, packages: &[&str], depth: Depth) -> Result<Vec<PathBuf>> {
        if self.is_stale() {
            self.update(packages)?;
        }
        match self.fetch(packages, depth) {
            Ok(archives) => Ok(archives),
            Err(_) => {
                // A mirror that has moved on: look again, once.
                self.update(packages)?;
                self.fetch(packages, depth)
            }
        }
    }

    fn is_stale(&self) -> bool {
        let age = |at: SystemTime| SystemTime::now().duration_since(at).unwrap_or_default();
        let stamp = self.home.join("updated").metadata().and_then(|meta| meta.modified());
        stamp.map_or(true, |at| age(at) > STALE)
    }

    fn update(&self, packages: &[&str]) -> Result<()> {
        let stamp = self.home.join("updated");
        self.run(packages, &self.home, &["update"])?;
        fs::write(&stamp, "").map_err(Error::at(&stamp))
    }

    fn fetch(&self, packages: &[&str], depth: Depth) -> Result<Vec<PathBuf>> {
        let fresh = self.home.join("fresh");
        match fs::remove_dir_all(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::at(&fresh)(error)),
            _ => fs::create_dir_all(&fresh).map_err(Error::at(&fresh))?,
        }
        let target = self.suite.target();
        let plan = match depth {
            Depth::Alone => packages.iter().map(|&name| name.to_owned()).collect(),
            Depth::Closed => {
                let mut words = vec!["install", "--simulate", "--no-install-recommends", "-t", &target];
                words.extend(packages);
                planned(&self.run(packages, &fresh, &words)?)
            }
        };
        let mut words = vec!["download", "-t", &target];
        words.extend(plan.iter().map(String::as_str));
        self.run(packages, &fresh, &words)?;
        let entries = fs::read_dir(&fresh).map_err(Error::at(&fresh))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect())
    }

    /// Removes the archives, which have been unpacked.
    pub(super) fn tidy(&self) {
        let _ = fs::remove_dir_all(self.home.join("fresh")); // the next download does it, too
    }

    /// Runs apt-get in a directory; its complaint becomes the error.
    fn run(&self, packages: &[&str], directory: &Path, words: &[&str]) -> Result<Output> {
        let mut apt = Command::new("apt-get");
        apt.args(["-q", "-y"]).args(words).current_dir(directory);
        apt.env("APT_CONFIG", self.home.join("apt.conf")).env("LC_ALL", "C");
        let output = limited::output(&mut apt, LIMIT).map_err(|source| Error::Program {
            program: "apt-get".to_owned(),
            package: "apt",
            source,
        })?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::Fetch { packages: packages.join(" "), suite: self.suite.target(), reason: reason(&said) })
    }
}

/// The packages that a simulated installation would configure, with versions.
fn planned(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut plan = Vec::new();
    for line in text.lines() {
        // Inst name (version release [architecture]) …
        let mut words = line.split_whitespace();
        if words.next() != Some("Inst") {
            continue;
        }
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        plan.push(format!("{name}={}", version.trim_start_matches('(')));
    }
    plan
}

/// What a reader can act on, from apt's complaints.
fn reason(said: &str) -> String {
    const AWAY: [&str; 5] =
        ["Could not resolve", "Could not connect", "Failed to fetch", "Temporary failure", "timed out"];
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with(['E', 'W'])).collect();
    let first = lines.first().copied().unwrap_or("apt-get failed and did not say why");
    match AWAY.iter().any(|sign| said.contains(sign)) {
        true => format!("the package registry is out of reach ({first})"),
        false => first.to_owned(),
    }
}

/// The address of a Debian mirror: the one that the machine's own apt uses.
fn mirror() -> Result<String> {
    if let Ok(mirror) = std::env::var(MIRROR)
        && !mirror.is_empty()
    {
        return Ok(mirror);
    }
    let words = ["indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"];
    let output = limited::output(Command::new("apt-get").args(words), LIMIT)
        .map_err(|source| Error::Program { program: "apt-get".to_owned(), package: "apt", source })?;
    chosen(&String::from_utf8_lossy(&output.stdout)).ok_or(Error::NoMirror)
}

/// The first repository that is a Debian archive by its path.
fn chosen(targets: &str) -> Option<String> {
    let mains = targets.lines().filter_map(|line| line.strip_suffix(" main"));
    mains.map(|uri| uri.trim_end_matches('/')).find(|uri| uri.ends_with("/debian")).map(str::to_owned)
}

/// Unpacks one archive into a directory that stands for `/`.
pub(super) fn unpack(archive: &Path, root: &Path) -> Result<()> {
    fs::create_dir_all(root).map_err(Error::at(root))?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-x").arg(archive).arg(root);
    let output = limited::output(&mut unpack, LIMIT).map_err(|source| Error::Program {
        program: "dpkg-deb".to_owned(),
        package: "dpkg",
        source,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Malformed { path: archive.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_a_debian_archive() {
        let targets = "http://one.invalid/tools/ main\nhttp://two.invalid/debian/ contrib\n\
                       http://three.invalid/debian-security/ main\nhttp://four.invalid/debian/ main\n";
        assert_eq!(chosen(targets).as_deref(), Some("http://four.invalid/debian"));
        assert_eq!(chosen("http://one.invalid/ubuntu/ main\n"), None);
    }

    #[test]
    fn an_unreachable_registry_is_said() {
        let said =
            "W: Failed to fetch http://x.invalid/InRelease  Could not resolve 'x.invalid'\nE: Some index";
        assert!(reason(said).starts_with("the package registry is out of reach"));
        assert_eq!(reason("E: Unable to locate package zz"), "E: Unable to locate package zz");
    }

    #[test]
    fn the_plan_is_read_with_versions() {
        use std::os::unix::process::ExitStatusExt;
        let stdout =
            b"Reading...\nInst libc6 (2.41-12 Debian:13 [amd64])\nConf libc6 (2.41-12 Debian:13 [amd64])\n";
        let status = std::process::ExitStatus::from_raw(0);
        let plan = planned(&Output { status, stdout: stdout.to_vec(), stderr: Vec::new() });
        assert_eq!(plan, ["libc6=2.41-12"]);
    }
}
