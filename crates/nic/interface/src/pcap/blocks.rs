//! The file behind a capture's writer: it ends with a whole block, also where the disk is
//! full in the middle of one.

use std::fs::File;
use std::io::{self, Write};

/// Bytes that are kept before they go to the file.
const CAPACITY: usize = 64 << 10;

/// A file that takes blocks. Each call of [`Write::write`] is one; they go to the file by
/// [`Write::flush`], and when there are many. After an error none goes there any more.
#[derive(Debug)]
pub struct Blocks {
    file: File,
    buffer: Vec<u8>,
    /// Where each block of the buffer ends.
    ends: Vec<usize>,
    /// Bytes that the file has.
    written: u64,
    lost: u64,
    failed: bool,
}

impl Blocks {
    /// Nothing is written to the file yet, which is empty.
    pub fn new(file: File) -> Blocks {
        let buffer = Vec::with_capacity(CAPACITY);
        Blocks { file, buffer, ends: Vec::new(), written: 0, lost: 0, failed: false }
    }

    /// Blocks that are not in the file, and never will be.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Writes what is buffered; how many bytes the file took.
    fn put(&mut self) -> (usize, io::Result<()>) {
        let mut done = 0;
        while done < self.buffer.len() {
            match self.file.write(&self.buffer[done..]) {
                Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Takes the beginning of a block back that is not whole. What is no file of a disk,
    /// a pipe say, keeps it.
    fn cut(&mut self) {
        if let Err(error) = self.file.set_len(self.written) {
            tracing::debug!("the last block of a capture is not whole: {error}");
        }
    }
}

impl Write for Blocks {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        if self.failed {
            self.lost += 1;
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.buffer.extend_from_slice(block);
        self.ends.push(self.buffer.len());
        if self.buffer.len() >= CAPACITY {
            self.flush()?;
        }
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let (done, put) = self.put();
        if put.is_err() {
            let whole = self.ends.iter().take_while(|end| **end <= done).count();
            let end = whole.checked_sub(1).map_or(0, |last| self.ends[last]);
            self.written += end as u64;
            if end < done {
                self.cut();
            }
            self.lost += (self.ends.len() - whole) as u64;
            self.failed = true;
        } else {
            self.written += done as u64;
        }
        self.buffer.clear();
        self.ends.clear();
        put
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_takes_no_more_ends_with_a_whole_block() {
        let file = rustix::fs::memfd_create(c"capture", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        let mut blocks = Blocks::new(file.into());
        for _ in 0..10 {
            blocks.write_all(&[7; 100]).expect("it is buffered");
        }
        blocks.flush().expect("room");
        // What a disk took that was full in the middle of the third block.
        blocks.file.write_all(&[8; 230]).expect("room");
        blocks.written += 200;
        blocks.cut();
        assert_eq!(blocks.file.metadata().expect("a file").len(), 1200, "twelve whole blocks");
    }

    #[test]
    fn blocks_that_a_full_disk_does_not_take_are_counted() {
        let full = File::options().write(true).open("/dev/full").expect("a device");
        let mut blocks = Blocks::new(full);
        for _ in 0..3 {
            blocks.write_all(&[1; 8]).expect("it is buffered");
        }
        let error = blocks.flush().expect_err("it is full");
        assert_eq!((error.raw_os_error(), blocks.lost()), (Some(libc::ENOSPC), 3));
        assert!(blocks.write_all(&[1; 8]).is_err());
        assert_eq!(blocks.lost(), 4);
    }
}
