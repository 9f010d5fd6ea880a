//! The guest's root: a cpio archive in the "new ASCII" format.
//!
//! Documentation/driver-api/early-userspace/buffer-format.rst of Linux. Several
//! archives may follow one another, so that a test is appended to a base that is
//! made once. No compression: QEMU hands it over as it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::{Error, Result};

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive under construction.
#[derive(Debug, Default, Clone)]
pub struct Archive {
    bytes: Vec<u8>,
    made: BTreeSet<String>,
    inode: u32,
}

impl Archive {
    /// Nothing in it.
    pub fn new() -> Archive {
        Archive::default()
    }

    /// A directory with those above it; one that is there already stays.
    pub fn directory(&mut self, path: &str) {
        let path = path.trim_matches('/');
        if path.is_empty() || !self.made.insert(path.to_owned()) {
            return;
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.directory(above);
        }
        self.entry(path, DIRECTORY, b"");
    }

    /// A file that is read.
    pub fn file(&mut self, path: &str, data: &[u8]) {
        self.put(path, FILE, data);
    }

    /// A file that is run.
    pub fn program(&mut self, path: &str, data: &[u8]) {
        self.put(path, PROGRAM, data);
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, to: &str) {
        self.put(path, LINK, to.as_bytes());
    }

    /// A copy of a file of the host, to be run.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read.
    pub fn copy(&mut self, path: &str, from: &Path) -> Result<()> {
        let data = fs::read(from).map_err(Error::at(from))?;
        self.program(path, &data);
        Ok(())
    }

    fn put(&mut self, path: &str, mode: u32, data: &[u8]) {
        let path = path.trim_matches('/');
        if let Some((above, _)) = path.rsplit_once('/') {
            self.directory(above);
        }
        if self.made.insert(path.to_owned()) {
            self.entry(path, mode, data);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, data: &[u8]) {
        self.inode += 1;
        let (links, inode) = (if mode == DIRECTORY { 2 } else { 1 }, self.inode);
        let (size, name) = (data.len(), path.len() + 1);
        // Magic, then 13 fields of eight hexadecimal digits.
        let header = format!(
            "070701{inode:08X}{mode:08X}{0:08X}{0:08X}{links:08X}{0:08X}{size:08X}\
             {0:08X}{0:08X}{0:08X}{0:08X}{name:08X}{0:08X}",
            0
        );
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The archive with its end.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, b"");
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn entries_are_aligned_and_come_once() {
        let mut archive = Archive::new();
        archive.file("a/b/c", b"12345");
        archive.file("a/b/d", b"");
        archive.file("a/b/c", b"again");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("070701").count(), 5, "a, a/b, c, d and the end");
        assert!(!text.contains("again"));
    }

    /// The other side: cpio itself, where the machine has it.
    #[test]
    fn cpio_reads_it() {
        let Ok(mut child) =
            Command::new("cpio").args(["-t", "--quiet"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        else {
            return;
        };
        let mut archive = Archive::new();
        archive.program("bin/x", b"#!/bin/sh\n");
        archive.link("bin/y", "x");
        let bytes = archive.finish();
        child.stdin.take().expect("piped").write_all(&bytes).expect("written");
        let output = child.wait_with_output().expect("ended");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "bin\nbin/x\nbin/y\n");
    }
}
