//! Where programs are built: one folder in the user's cache for all of them, in which Ixora's
//! own crates are built once. A folder that others can write to would let them put their
//! program in its place.

use std::fs::{DirBuilder, symlink_metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::Failure;

/// The folder, made if it is not there.
///
/// # Errors
/// When there is no place for it, or others can write to it.
pub fn folder() -> Result<PathBuf, Failure> {
    private_folder(&cache()?)
}

/// Cargo's target folder for all programs; `CARGO_TARGET_DIR`, where that is set.
///
/// # Errors
/// As [`folder`].
pub fn target() -> Result<PathBuf, Failure> {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|target| !target.is_empty()) {
        Some(target) => Ok(PathBuf::from(target)),
        None => Ok(folder()?.join("target")),
    }
}

/// The user's cache (XDG Base Directory Specification, `XDG_CACHE_HOME`).
fn cache() -> Result<PathBuf, Failure> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    cache.ok_or_else(|| {
        Failure::new("there is no place to build programs in").fix("export XDG_CACHE_HOME=/some/directory")
    })
}

/// The folder of ours in a cache, made if it is not there; refused if anybody but this user
/// can put something into it.
fn private_folder(cache: &Path) -> Result<PathBuf, Failure> {
    let folder = cache.join("ixora-compiled");
    let failed = |error| Failure::new(format!("cannot make {}: {error}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    let found = symlink_metadata(&folder).map_err(failed)?; // a link is not followed
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != own || found.mode() & 0o022 != 0 {
        return Err(Failure::new(format!("{} can be written by others than user {own}", folder.display()))
            .fix("remove it, or export XDG_CACHE_HOME=/some/directory of yours"));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::private_folder;
    use std::fs::{Permissions, create_dir, set_permissions, symlink_metadata};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn programs_are_built_where_nobody_else_writes() {
        let cache = tempfile::tempdir().expect("a directory");
        let folder = private_folder(cache.path()).expect("it is made");
        assert_eq!(symlink_metadata(&folder).expect("a folder").permissions().mode() & 0o777, 0o700);
        assert_eq!(private_folder(cache.path()).ok(), Some(folder.clone()), "and taken again");
        set_permissions(&folder, Permissions::from_mode(0o777)).expect("it is ours");
        assert!(private_folder(cache.path()).is_err(), "all may write to it");
        let elsewhere = cache.path().join("elsewhere");
        create_dir(&elsewhere).expect("a folder");
        std::fs::remove_dir(&folder).expect("it is empty");
        symlink(&elsewhere, &folder).expect("a link");
        assert!(private_folder(cache.path()).is_err(), "it leads somewhere else");
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(&folder).expect("a link");
            create_dir(&folder).expect("a folder");
            std::os::unix::fs::chown(&folder, Some(65534), None).expect("root may");
            assert!(private_folder(cache.path()).is_err(), "it is somebody else's");
        }
    }
}
