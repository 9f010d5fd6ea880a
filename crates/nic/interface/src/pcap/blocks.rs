//! The file behind a capture's writer: it ends with a whole block, also where the disk is
//! full in the middle of one.

use std::fs::File;
use std::io::{self, Seek, Write};

use rustix::fs::{OFlags, fcntl_getfl, fstat};

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
    /// Where the last whole block ends in the file.
    written: u64,
    lost: u64,
    failed: bool,
}

impl Blocks {
    /// Nothing is written to the file yet; what it has already stays.
    pub fn new(file: File) -> Blocks {
        let (buffer, written) = (Vec::with_capacity(CAPACITY), next_place(&file));
        Blocks { file, buffer, ends: Vec::new(), written, lost: 0, failed: false }
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

    /// Takes the first bytes of a block back that is not whole. What is no file of a disk,
    /// a pipe say, keeps them, and so does a file that has others' bytes behind them.
    fn cut(&mut self, bytes: u64) {
        // By `fstat`, which a confined process may call.
        let is_last = fstat(&self.file).is_ok_and(|is| is.st_size as u64 == self.written + bytes);
        let cut =
            if is_last { self.file.set_len(self.written) } else { Err(io::ErrorKind::InvalidInput.into()) };
        if let Err(error) = cut {
            tracing::debug!("the last block of a capture is not whole: {error}");
        }
    }
}

impl AsMut<Blocks> for Blocks {
    fn as_mut(&mut self) -> &mut Blocks {
        self
    }
}

/// Writes packets by `write` until one fails, and all of them to the file at once, so that what
/// was counted is there. How many of them the file took, and why it took no more.
pub fn put<W: AsMut<Blocks>, P>(
    writer: &mut W,
    packets: impl IntoIterator<Item = P>,
    mut write: impl FnMut(&mut W, P) -> io::Result<()>,
) -> (u64, io::Result<()>) {
    let before = writer.as_mut().lost();
    let (mut tried, mut done) = (0, Ok(()));
    for packet in packets {
        tried += 1;
        done = write(writer, packet);
        if done.is_err() {
            break;
        }
    }
    let done = done.and_then(|()| writer.as_mut().flush());
    (tried - (writer.as_mut().lost() - before), done)
}

/// Where in a file the next byte is written: behind all others, if it was opened to append.
fn next_place(mut file: &File) -> u64 {
    let appends = fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::APPEND));
    let place = if appends { file.metadata().map(|is| is.len()) } else { file.stream_position() };
    place.unwrap_or(0) // a pipe has none, and is never cut
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
                self.cut((done - end) as u64);
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
        blocks.cut(30);
        assert_eq!(blocks.file.metadata().expect("a file").len(), 1200, "twelve whole blocks");
    }

    /// A file as a shell gives it to a command: one command wrote to it before, or it is
    /// opened to append.
    #[test]
    fn what_was_in_a_file_before_stays() {
        for appends in [false, true] {
            let file = rustix::fs::memfd_create(c"capture", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
            let mut file = File::from(file);
            file.write_all(&[1; 500]).expect("room");
            if appends {
                file.rewind().expect("a file");
                rustix::fs::fcntl_setfl(&file, OFlags::APPEND).expect("a file");
            }
            let mut blocks = Blocks::new(file);
            blocks.write_all(&[7; 100]).expect("it is buffered");
            blocks.flush().expect("room");
            blocks.file.write_all(&[8; 30]).expect("room");
            blocks.cut(30);
            assert_eq!(blocks.file.metadata().expect("a file").len(), 600, "appends: {appends}");
        }
    }

    #[test]
    fn a_file_that_has_bytes_of_others_is_not_cut() {
        let file = rustix::fs::memfd_create(c"capture", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        let mut blocks = Blocks::new(file.into());
        blocks.file.write_all(&[8; 50]).expect("room");
        blocks.cut(30);
        assert_eq!(blocks.file.metadata().expect("a file").len(), 50);
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
