//! The user and the capabilities of a thread (credentials(7), capabilities(7)).

use std::fmt;

use rustix::fs::{Gid, Uid};
use rustix::io::{Errno, Result};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::Needs;

/// The user that has nothing (`nobody`, in Linux also the overflow id).
const NOBODY: u32 = 65534;

/// Who a thread is from now on.
pub enum User {
    /// The user that it was before.
    Same,
    /// No longer root.
    Other(u32),
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Same => f.write_str("same user"),
            User::Other(id) => write!(f, "user {id}"),
        }
    }
}

/// Keeps of all capabilities those that overrule the rights on files.
pub fn keep_files() -> Result<()> {
    set_no_new_privs(true)?;
    let files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER;
    let kept = rustix::thread::capabilities(None)?.permitted & files;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })
}

/// Drops all capabilities for good and, where it is root, becomes the user who
/// called `sudo`, or nobody.
pub fn drop_all(needs: &Needs) -> Result<User> {
    set_no_new_privs(true)?;
    for bit in 0..u64::BITS {
        // Up to the last that this kernel knows; only who may set its own
        // capabilities may, and who may not has none to lose here.
        if remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)).is_err() {
            break;
        }
    }
    let user = match rustix::process::geteuid().is_root() {
        true => become_other(needs)?,
        false => User::Same,
    };
    let _ = clear_ambient_capability_set(); // kernels before 4.3 have none
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(user)
}

/// The user and group that called `sudo`, where we are root by that.
pub fn caller() -> Option<(u32, u32)> {
    let id = |name| std::env::var(name).ok()?.parse().ok().filter(|&id: &u32| id != 0);
    let caller = id("SUDO_UID").zip(id("SUDO_GID"));
    caller.filter(|_| rustix::process::geteuid().is_root())
}

/// Asks something as the user whom root becomes, in a thread of its own that is that user;
/// `None` where no such thread can be had.
pub fn ask_as_other<T: Send>(ask: impl FnOnce() -> T + Send) -> Option<T> {
    let asked = || drop_all(&Needs::default()).ok().map(|_| ask());
    std::thread::scope(|scope| scope.spawn(asked).join().ok().flatten())
}

fn become_other(needs: &Needs) -> Result<User> {
    let (user, group) = match caller() {
        Some(caller) => caller,
        // The sockets at the other ends of `unix:` wires are root's own: nobody
        // could not send to them.
        None if needs.datagrams || needs.roots_files => return Ok(User::Same),
        None => (NOBODY, NOBODY),
    };
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(group));
    let changed = set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(gid, gid, gid))
        .and_then(|()| set_thread_res_uid(uid, uid, uid));
    match changed {
        Ok(()) => Ok(User::Other(user)),
        // A container whose root has no other users: without capabilities it is
        // an ordinary one.
        Err(Errno::INVAL | Errno::PERM) => Ok(User::Same),
        Err(errno) => Err(errno),
    }
}
