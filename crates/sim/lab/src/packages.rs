//! Debian packages unpacked beside the system: nothing is installed.
//!
//! apt runs with a state of its own below the cache (`$IXORA_CACHE`, else
//! `ixora` in `$XDG_CACHE_HOME` or `~/.cache`), downloads only, and `dpkg-deb`
//! unpacks into a [`Tree`]. The mirror is the one the machine's own apt uses. A
//! tree that was not finished is made anew; processes take turns.

mod apt;
mod tree;

pub use tree::{Tree, triplet};

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use apt::Apt;
use rustix::fs::{FlockOperation, flock};

use crate::{Error, Result};

/// Debian 12's packages with DPDK's testpmd and the drivers that are used here: the same
/// set in guests, in tests and in measurements.
pub const DPDK: &[&str] = &[
    "dpdk-dev",
    "librte-bus-pci23",
    "librte-net-i40e23",
    "librte-net-ixgbe23",
    "librte-net-vhost23",
    "librte-net-virtio23",
    "librte-net-null23",
    "librte-mempool-ring23",
];

/// Written last, so that a tree with it is whole.
const MARKER: &str = "complete";

/// Where packages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    name: &'static str,
    backports: bool,
}

impl Suite {
    /// Debian 12, without backports.
    pub const BOOKWORM: Suite = Suite { name: "bookworm", backports: false };
    /// Debian 13, without backports.
    pub const TRIXIE: Suite = Suite { name: "trixie", backports: false };
    /// Debian 13 with newer versions of some: a QEMU with `vfio-user-pci`.
    pub const TRIXIE_BACKPORTS: Suite = Suite { name: "trixie", backports: true };

    /// The name of the release that is preferred.
    pub fn target(&self) -> String {
        if self.backports { format!("{}-backports", self.name) } else { self.name.to_owned() }
    }

    /// All releases that are looked at, separated by spaces.
    pub(crate) fn releases(&self) -> String {
        if self.backports { format!("{0} {0}-backports", self.name) } else { self.name.to_owned() }
    }
}

/// Whether what packages depend on comes with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// With all they depend on, the C library included.
    Closed,
    /// Only what is named.
    Alone,
}

/// The cache of package trees.
#[derive(Debug, Clone)]
pub struct Packages {
    cache: PathBuf,
}

impl Packages {
    /// The user's cache.
    ///
    /// # Errors
    /// [`Error::NoCache`] when no variable says where.
    pub fn open() -> Result<Packages> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = set("IXORA_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|home| home.join("ixora")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/ixora")));
        cache.map(Packages::at).ok_or(Error::NoCache)
    }

    /// A cache in a directory, which is made when first needed.
    pub fn at(cache: PathBuf) -> Packages {
        Packages { cache }
    }

    /// The cache's directory.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// These packages and all they depend on.
    ///
    /// # Errors
    /// [`Error::Fetch`] says which packages of which suite and why.
    pub fn tree(&self, packages: &[&str], suite: Suite) -> Result<Tree> {
        self.get(packages, suite, Depth::Closed)
    }

    /// As [`Packages::tree`], of a test: `None`, with a line that says so, where the user does not
    /// want a registry to be asked (`IXORA_OFFLINE`).
    ///
    /// # Panics
    /// When they cannot be fetched otherwise.
    pub fn of_test(packages: &[&str], suite: Suite) -> Option<Tree> {
        match Packages::open().and_then(|cache| cache.tree(packages, suite)) {
            Ok(tree) => Some(tree),
            Err(why) if std::env::var_os("IXORA_OFFLINE").is_some() => {
                println!("passed over: {why}");
                None
            }
            Err(why) => panic!("no {}: {why}; IXORA_OFFLINE=1 leaves this test out", packages.join(", ")),
        }
    }

    /// These packages without what they depend on.
    ///
    /// # Errors
    /// As [`Packages::tree`].
    pub fn alone(&self, packages: &[&str], suite: Suite) -> Result<Tree> {
        self.get(packages, suite, Depth::Alone)
    }

    /// Either, from the cache when it is there.
    ///
    /// # Errors
    /// As [`Packages::tree`].
    pub fn get(&self, packages: &[&str], suite: Suite, depth: Depth) -> Result<Tree> {
        let tree = Tree::new(self.cache.join(suite.target()).join(directory(packages, depth)));
        if is_complete(&tree) {
            return Ok(tree);
        }
        let _turn = self.lock()?;
        if is_complete(&tree) {
            return Ok(tree); // another process was faster
        }
        let root = tree.root();
        if root.exists() {
            fs::remove_dir_all(root).map_err(Error::at(root))?;
        }
        let apt = Apt::new(&self.cache.join("apt").join(suite.target()), suite)?;
        for archive in apt.download(packages, depth)? {
            apt::unpack(&archive, root)?;
        }
        apt.tidy();
        let marker = root.join(MARKER);
        fs::write(&marker, packages.join("\n")).map_err(Error::at(&marker))?;
        Ok(tree)
    }

    /// Waits for this process's turn at the cache. It ends with the file.
    pub(crate) fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.cache).map_err(Error::at(&self.cache))?;
        let path = self.cache.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(Error::at(&path))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|errno| Error::at(&path)(errno.into()))?;
        Ok(file)
    }
}

fn is_complete(tree: &Tree) -> bool {
    tree.root().join(MARKER).exists()
}

/// A name for a set of packages: the first one's, and a hash of them all.
fn directory(packages: &[&str], depth: Depth) -> String {
    let first = packages.first().copied().unwrap_or("none");
    // FNV-1a, 64 bits: short and the same everywhere.
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in packages.join(" ").bytes().chain([depth as u8]) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    format!("{first}-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_packages_do_not_share_a_directory() {
        let names = [
            directory(&["a", "b"], Depth::Closed),
            directory(&["a"], Depth::Closed),
            directory(&["a"], Depth::Alone),
        ];
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("a-")));
    }

    #[test]
    fn a_whole_tree_is_taken_as_it_is_and_a_torn_one_is_not() {
        let home = tempfile::tempdir().expect("a directory");
        let packages = Packages::at(home.path().to_owned());
        let root = home.path().join("bookworm").join(directory(&["x"], Depth::Closed));
        fs::create_dir_all(&root).expect("made");
        assert!(!is_complete(&Tree::new(root.clone())));
        fs::write(root.join(MARKER), "").expect("written");
        let tree = packages.tree(&["x"], Suite::BOOKWORM).expect("no apt needed");
        assert_eq!(tree.root(), root);
    }

    #[test]
    fn one_at_a_time() {
        let home = tempfile::tempdir().expect("a directory");
        let packages = Packages::at(home.path().to_owned());
        let turn = packages.lock().expect("free");
        let other = File::options().write(true).open(home.path().join("lock")).expect("there");
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(turn);
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_ok());
    }
}
