//! A directory of unpacked packages, and how its programs run from there.
//!
//! A program of another Debian needs that Debian's C library, so it is started
//! through the tree's own dynamic loader. No maintainer script has run: what
//! only those make is not there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Result};

/// A directory of unpacked packages, which stands for `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: PathBuf) -> Tree {
        Tree { root }
    }

    /// The directory that stands for `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file of the tree, as in `usr/bin/dpdk-testpmd`.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not there.
    pub fn file(&self, path: &str) -> Result<PathBuf> {
        self.first(&[path])
    }

    /// The first of several that is there.
    ///
    /// # Errors
    /// [`Error::Missing`] with the first when none is.
    pub fn first(&self, paths: &[&str]) -> Result<PathBuf> {
        let found = paths.iter().map(|path| self.root.join(path)).find(|path| path.exists());
        found.ok_or_else(|| Error::Missing {
            file: PathBuf::from(paths.first().copied().unwrap_or_default()),
            root: self.root.clone(),
        })
    }

    /// The dynamic loader.
    ///
    /// # Errors
    /// [`Error::Missing`] when the tree was fetched without the C library.
    pub fn loader(&self) -> Result<PathBuf> {
        let name = match std::env::consts::ARCH {
            "aarch64" => "ld-linux-aarch64.so.1",
            _ => "ld-linux-x86-64.so.2",
        };
        let places = ["lib64", "usr/lib64", "lib", "usr/lib"].map(|place| format!("{place}/{name}"));
        let deep = [format!("usr/lib/{}/{name}", triplet()), format!("lib/{}/{name}", triplet())];
        let places: Vec<&str> = places.iter().chain(&deep).map(String::as_str).collect();
        self.first(&places)
    }

    /// Where its shared libraries are.
    pub fn libraries(&self) -> Vec<PathBuf> {
        let both = ["usr/lib", "lib"].map(|lib| self.root.join(lib).join(triplet()));
        both.into_iter().filter(|path| path.exists()).collect()
    }

    /// A program of the tree, to be run with the tree's own libraries.
    ///
    /// # Errors
    /// [`Error::Missing`] when it or the C library is not there.
    pub fn command(&self, program: &str) -> Result<Command> {
        let program = self.file(program)?;
        let mut command = Command::new(self.loader()?);
        let libraries = std::env::join_paths(self.libraries()).unwrap_or_default();
        command.arg("--library-path").arg(libraries).arg("--argv0").arg(&program).arg(program);
        Ok(command)
    }
}

/// Debian's name for the machine in paths of libraries.
pub fn triplet() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named_with_its_tree() {
        let tree = Tree::new(PathBuf::from("/nowhere"));
        let error = tree.command("usr/bin/x").expect_err("not there").to_string();
        assert!(error.contains("usr/bin/x") && error.contains("/nowhere"), "{error}");
    }

    #[test]
    fn programs_run_through_the_trees_loader() {
        let home = tempfile::tempdir().expect("a directory");
        for file in ["usr/bin/x", "lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"] {
            let path = home.path().join(file);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
            std::fs::write(path, "").expect("written");
        }
        let command = Tree::new(home.path().to_owned()).command("usr/bin/x").expect("both there");
        assert!(command.get_program().to_string_lossy().contains("/ld-linux-"));
        assert!(command.get_args().last().expect("some").to_string_lossy().ends_with("usr/bin/x"));
    }
}
