//! The file system, networks and other processes, refused by landlock(7) where
//! the kernel has it: a second wall behind the filter of system calls.

use landlock::{ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetError, Scope};

use super::Needs;

/// What landlock refuses from now on, in words.
pub fn refuse_all(needs: Needs) -> Result<String, RulesetError> {
    // Newer kernels can refuse sending to a socket by its path, too.
    let files = if needs.datagrams { ABI::V8 } else { ABI::V9 };
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(files))?
        .handle_access(AccessNet::from_all(ABI::V9))?
        .scope(Scope::AbstractUnixSocket)?;
    let rules = match needs.child {
        None => rules.scope(Scope::Signal)?,
        Some(_) => rules,
    };
    Ok(describe(&rules.create()?.restrict_self()?.landlock))
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
            refuse_all(Needs::default()).expect("a ruleset");
            let open = move || std::fs::read(&path).map_err(|error| error.kind());
            (before, open(), std::thread::spawn(open).join().expect("no panic"))
        });
        let (before, after, child) = tried.join().expect("no panic");
        assert!(before);
        assert_eq!(after, Err(ErrorKind::PermissionDenied));
        assert_eq!(child, Err(ErrorKind::PermissionDenied));
        assert!(std::fs::metadata("/").is_ok() && place.path().exists(), "other threads go on");
    }
}
