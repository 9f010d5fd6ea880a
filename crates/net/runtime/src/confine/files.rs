//! The file system, networks and other processes, refused by landlock(7) where
//! the kernel has it: a second wall behind the filter of system calls. Where files are
//! opened later it is the only one that knows their names.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use super::Needs;

/// What landlock refuses from now on, in words.
pub fn refuse(needs: &Needs) -> Result<String, RulesetError> {
    if needs.unknown {
        return Ok(format!("{}, files are not refused", describe(&others()?)));
    }
    // Newer kernels can refuse sending to a socket by its path, too.
    let version = if needs.datagrams { ABI::V8 } else { ABI::V9 };
    let mut rules = Ruleset::default().scope(Scope::AbstractUnixSocket)?;
    if !needs.files.any {
        rules = rules.handle_access(AccessFs::from_all(version))?;
    }
    // Who listens connects to UNIX sockets only.
    let net = if needs.listening { AccessNet::ConnectTcp.into() } else { AccessNet::from_all(ABI::V9) };
    rules = rules.handle_access(net)?;
    if needs.child.is_none() && !needs.signals {
        rules = rules.scope(Scope::Signal)?;
    }
    let rules = allow(rules.create()?, needs)?;
    Ok(describe(&rules.restrict_self()?.landlock))
}

/// Refuses what only a process with more privileges may do, so that nothing is different but
/// that the process is landlocked: none outside may be traced, or written to by its file
/// `mem` in `/proc`, which is no system call that a filter could tell from others.
fn others() -> Result<LandlockStatus, RulesetError> {
    let refused = AccessFs::MakeChar | AccessFs::MakeBlock;
    // Whoever refuses anything refuses moving files between folders, unless it is allowed.
    let rules = Ruleset::default().handle_access(refused | AccessFs::Refer)?.create()?;
    let rules = match PathFd::new("/") {
        Ok(root) => rules.add_rule(PathBeneath::new(root, AccessFs::Refer))?,
        Err(_) => rules,
    };
    Ok(rules.restrict_self()?.landlock)
}

/// Lets files be opened that a process opens later. With one that is not there yet its
/// folder is meant: a rule needs something that it is about.
fn allow(mut rules: RulesetCreated, needs: &Needs) -> Result<RulesetCreated, RulesetError> {
    if needs.files.any {
        return Ok(rules);
    }
    let write = AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::ReadDir
        | AccessFs::MakeSock;
    let run = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let mut add = |path: &Path, access: BitFlags<AccessFs>| -> Result<(), RulesetError> {
        let Some(place) = existing_ancestor(path) else { return Ok(()) };
        let access = if place.is_dir() { access } else { access & AccessFs::from_file(ABI::V9) };
        let Ok(file) = PathFd::new(place) else { return Ok(()) };
        (&mut rules).add_rule(PathBeneath::new(file, access)).map(drop)
    };
    needs.files.read.iter().try_for_each(|path| add(path, AccessFs::ReadFile.into()))?;
    needs.files.write.iter().try_for_each(|path| add(path, write))?;
    if needs.programs {
        add(Path::new("/"), run)?;
        add(Path::new("/dev/null"), write)?;
    }
    Ok(rules)
}

/// A path, or the nearest folder above it that is there.
pub fn existing_ancestor(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find(|place| place.exists()).map(Path::to_path_buf)
}

fn describe(status: &LandlockStatus) -> String {
    match status {
        LandlockStatus::Available { effective_abi, .. } => format!("landlock {}", *effective_abi as i32),
        LandlockStatus::NotEnabled => "landlock is off".to_owned(),
        LandlockStatus::NotImplemented => "no landlock".to_owned(),
    }
}

/// The version of landlock's interface here, if it has any. Asks in a thread of
/// its own, which loses its rights over it.
pub fn landlock_version() -> Option<i32> {
    let ask = || {
        let rules = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1)).ok()?;
        match rules.create().ok()?.restrict_self().ok()?.landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => {
                Some(kernel_abi.unwrap_or(effective_abi as i32))
            }
            _ => None,
        }
    };
    std::thread::spawn(ask).join().ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::Files;
    use std::io::ErrorKind;

    #[test]
    fn files_are_refused_to_the_thread_and_to_those_it_starts() {
        if landlock_version().is_none() {
            println!("passed over: this kernel has no landlock");
            return;
        }
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("file");
        std::fs::write(&path, "").expect("a file");
        let tried = std::thread::spawn(move || {
            let before = std::fs::read(&path).is_ok();
            refuse(&Needs::default()).expect("a ruleset");
            let open = move || std::fs::read(&path).map_err(|error| error.kind());
            (before, open(), std::thread::spawn(open).join().expect("no panic"))
        });
        let (before, after, child) = tried.join().expect("no panic");
        assert!(before);
        assert_eq!(after, Err(ErrorKind::PermissionDenied));
        assert_eq!(child, Err(ErrorKind::PermissionDenied));
        assert!(std::fs::metadata("/").is_ok() && place.path().exists(), "other threads go on");
    }

    #[test]
    fn who_may_open_any_file_writes_to_no_other_process() {
        if landlock_version().is_none() {
            println!("passed over: this kernel has no landlock");
            return;
        }
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let memory = format!("/proc/{}/mem", other.id());
        let place = tempfile::tempdir().expect("a directory");
        let (from, folder) = (place.path().join("file"), place.path().join("folder"));
        std::fs::write(&from, "").expect("a file");
        std::fs::create_dir(&folder).expect("a directory");
        let tried = std::thread::spawn(move || {
            let open = || std::fs::File::options().read(true).write(true).open(&memory).is_ok();
            let before = open();
            refuse(&Needs { unknown: true, ..Needs::default() }).expect("a ruleset");
            let moved = std::fs::rename(&from, folder.join("file")).map_err(|error| error.kind());
            (before, open(), moved, std::fs::read("/proc/self/cmdline").is_ok())
        });
        let tried = tried.join().expect("no panic");
        other.kill().and_then(|()| other.wait()).expect("it is ours");
        assert_eq!(tried, (true, false, Ok(()), true));
    }

    #[test]
    fn files_that_are_named_are_opened_and_no_others() {
        if landlock_version().is_none() {
            println!("passed over: this kernel has no landlock");
            return;
        }
        let place = tempfile::tempdir().expect("a directory");
        let (read, folder, other) =
            (place.path().join("read"), place.path().join("folder"), place.path().join("other"));
        for path in [&read, &other] {
            std::fs::write(path, "text").expect("a file");
        }
        std::fs::create_dir(&folder).expect("a directory");
        let (there, inner) = (read.clone(), folder.join("new/file"));
        // Not there yet: the folder above it is meant.
        let files = Files { read: vec![read], write: vec![folder.join("new")], any: false };
        let tried = std::thread::spawn(move || {
            refuse(&Needs { files, ..Needs::default() }).expect("a ruleset");
            let write = |path: &Path| std::fs::write(path, "new").map_err(|error| error.kind());
            let parent = inner.parent().expect("a folder");
            let made = std::fs::create_dir_all(parent).is_ok() && write(&inner).is_ok();
            let removed = std::fs::remove_file(&inner).is_ok();
            (
                std::fs::read(&there).is_ok(),
                made,
                removed,
                write(&there),
                std::fs::read(&other).is_err(),
                write(&other),
            )
        });
        let (read, made, removed, overwritten, hidden, elsewhere) = tried.join().expect("no panic");
        assert!(read && made && removed && hidden);
        assert_eq!(
            (overwritten, elsewhere),
            (Err(ErrorKind::PermissionDenied), Err(ErrorKind::PermissionDenied))
        );
    }
}
