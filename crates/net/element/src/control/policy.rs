//! What the command line says of control sockets, whatever a configuration says: a
//! configuration comes from many places, some of them a control socket.

use std::sync::Arc;

use graph::Setup;

/// Who may come in at a TCP port of this machine, and what clients may do.
#[derive(Debug, Clone)]
pub struct ControlPolicy {
    /// Whose connections are let in, beside root's.
    pub users: Vec<u32>,
    /// Clients may write handlers that take a file's name.
    pub files: bool,
    /// What to say of that when they may not: the command line's words.
    pub files_flag: &'static str,
}

impl Default for ControlPolicy {
    fn default() -> ControlPolicy {
        let users = vec![rustix::process::getuid().as_raw()];
        ControlPolicy { users, files: false, files_flag: "--control-files" }
    }
}

impl ControlPolicy {
    /// That of the router which an element is made for.
    pub(super) fn of(setup: &Setup<'_>) -> Arc<ControlPolicy> {
        setup.services.get().unwrap_or_default()
    }

    /// Whether a user's connections are let in.
    pub(super) fn admits(&self, user: Option<u32>) -> bool {
        user.is_some_and(|user| user == 0 || self.users.contains(&user))
    }
}
