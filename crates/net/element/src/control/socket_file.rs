//! The file of a UNIX socket, which is taken away in the end: not one that was put in its
//! place meanwhile, nor one that was never a socket.

use std::fs::{Metadata, remove_file, symlink_metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;

/// The file of a socket that was bound.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: String,
    /// Which file it is: device and inode.
    identity: (u64, u64),
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl SocketFile {
    /// That of a socket that was just bound; `None` where it cannot be seen.
    pub(crate) fn bound(path: &str) -> Option<SocketFile> {
        let file = symlink_metadata(path).ok()?;
        Some(SocketFile { path: path.to_string(), identity: identity(&file) })
    }

    /// Takes it away, if it is there.
    pub(crate) fn remove(self) {
        if symlink_metadata(&self.path).is_ok_and(|file| identity(&file) == self.identity) {
            // Gone already is as good; a confined process may not, and has who does.
            let _ = remove_file(&self.path);
        }
    }
}

/// Takes away a socket's file that a router of this user's left which ended without a word;
/// whether it did. Another user's, a link, and what is no socket are left alone: to connect
/// to those is refused, too.
pub(super) fn remove_deserted(path: &str) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_ours = |file: Metadata| file.file_type().is_socket() && file.uid() == own;
    let nobody_listens = || {
        UnixStream::connect(path).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    symlink_metadata(path).is_ok_and(is_ours) && nobody_listens() && remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    fn text(path: &Path) -> &str {
        path.to_str().expect("a name")
    }

    #[test]
    fn only_what_was_bound_is_taken_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let _first = UnixListener::bind(&path).expect("a socket");
        let bound = SocketFile::bound(text(&path)).expect("it is there");
        std::fs::rename(&path, folder.path().join("elsewhere")).expect("moved");
        std::fs::write(&path, "somebody else's").expect("a file");
        bound.remove();
        assert!(path.exists());
        let bound = SocketFile::bound(text(&path)).expect("it is there");
        bound.remove();
        assert!(!path.exists());
    }

    #[test]
    fn only_a_deserted_socket_of_ours_gives_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let listens = UnixListener::bind(path("listens")).expect("a socket");
        drop(UnixListener::bind(path("deserted")).expect("a socket"));
        std::fs::write(path("file"), "text").expect("a file");
        std::os::unix::fs::symlink(path("deserted"), path("link")).expect("a link");
        for name in ["listens", "file", "link", "nothing"] {
            assert!(!remove_deserted(text(&path(name))), "{name}");
        }
        assert!(path("listens").exists() && path("file").exists() && path("link").exists());
        drop(listens);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path("listens"), Some(65534), None).expect("root may");
            assert!(!remove_deserted(text(&path("listens"))), "another user's");
        }
        assert!(remove_deserted(text(&path("deserted"))) && !path("deserted").exists());
    }
}
