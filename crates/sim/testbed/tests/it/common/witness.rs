//! What a process has that could leak: file descriptors, threads, mappings of files.
#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Once;
use std::thread::sleep;
use std::time::Duration;

use bus::peer::Descriptor;
use rustix::io::Errno;

/// Counts of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    files: usize,
    threads: usize,
    mappings: usize,
}

impl Witness {
    /// What there is now.
    pub fn now() -> Witness {
        start_closer();
        let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
        // Shared mappings: of memory, BARs and files. Private ones are the allocator's.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_shared = |line: &&str| line.split(' ').nth(1).is_some_and(|access| access.ends_with('s'));
        Witness {
            files: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            mappings: maps.lines().filter(is_shared).count(),
        }
    }

    /// Waits until there is no more than there was: threads end in their own time.
    pub fn is_as_before(self) {
        if !self.comes() {
            self.fail();
        }
    }

    /// Likewise, but at most so many mapped files may be left for good. What is left is
    /// there before what comes next.
    #[must_use]
    pub fn has_kept_at_most(self, kept: usize) -> Witness {
        let most = Witness { files: self.files + kept, mappings: self.mappings + kept, ..self };
        most.is_as_before();
        if self.comes() { self } else { Witness::now() }
    }

    fn comes(self) -> bool {
        let fits = |now: Witness| {
            now.files <= self.files && now.threads <= self.threads && now.mappings <= self.mappings
        };
        (0..1000).any(|_| {
            fits(Witness::now()) || {
                sleep(Duration::from_millis(5));
                false
            }
        })
    }

    fn fail(self) -> ! {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let files = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        let files: Vec<_> = files.map(|file| file.display().to_string()).collect();
        panic!("there was {self:?}, there is {:?}: {files:?}", Witness::now());
    }
}

/// Has the thread started that closes what peers send, which never ends (`bus::peer`).
fn start_closer() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(Descriptor::new(reader));
        while rustix::io::write(&writer, &[0]) != Err(Errno::PIPE) {
            sleep(Duration::from_millis(1));
        }
    });
}
