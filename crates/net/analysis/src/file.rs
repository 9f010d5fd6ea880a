//! Files that packets are read from: by name, `-` for the standard input, or a text in
//! the configuration; compressed ones are read through `gzip`, `bzip2`, `xz` or `zstd`,
//! as Click reads them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use graph::Cx;
use graph::class::SystemUse;
use memory::Batch;

/// How compressed files begin, and who unpacks them.
const PACKED: &[(&[u8], &str)] = &[
    (&[0x1F, 0x8B], "gzip"),
    (&[0x1F, 0x9D], "gzip"),
    (b"BZh", "bzip2"),
    (&[0xFD, b'7', b'z', b'X', b'Z', 0], "xz"),
    (&[0x28, 0xB5, 0x2F, 0xFD], "zstd"),
];

/// Endings of compressed files.
const ENDINGS: &[&str] = &[".gz", ".Z", ".bz2", ".xz", ".zst"];

/// Says that a file of this name is packed or unpacked by a program, if it is.
pub(crate) fn say_packed(path: &str, setup: &mut graph::Setup<'_>) {
    if ENDINGS.iter().any(|ending| path.ends_with(ending)) {
        setup.will_need(SystemUse::ProgramsAtStart);
    }
}

/// A file that is read from its beginning to its end.
pub(crate) struct Source {
    name: String,
    reader: Box<dyn BufRead + Send>,
    position: u64,
    size: Option<u64>,
    unpacker: Option<Child>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.name, self.position)
    }
}

/// A file that can be read more than once: it stays open, because a confined process opens
/// nothing. What is unpacked, or is no regular file, is opened each time.
#[derive(Debug, Default)]
pub(crate) struct NamedFile {
    pub(crate) path: String,
    file: Option<File>,
}

impl NamedFile {
    pub(crate) fn new(path: String) -> NamedFile {
        NamedFile { path, file: None }
    }

    /// Reads it from its beginning.
    ///
    /// # Errors
    /// As those of [`Source::open`].
    pub(crate) fn open(&mut self) -> io::Result<Source> {
        if self.file.is_none() {
            self.file = plain_file(&self.path);
        }
        let Some(file) = &self.file else { return Source::open(&self.path) };
        let mut file = file.try_clone()?;
        file.rewind()?;
        Source::of_file(&self.path, file)
    }
}

/// A regular file that is not packed.
fn plain_file(path: &str) -> Option<File> {
    // Of a pipe not even the beginning is read: who writes to it has one reader.
    std::fs::metadata(path).ok().filter(|found| found.is_file())?;
    let file = File::open(path).ok()?;
    let mut start = [0; 6];
    let length = file.read_at(&mut start, 0).ok()?;
    let is_packed = PACKED.iter().any(|(magic, _)| start[..length].starts_with(magic));
    (!is_packed).then_some(file)
}

/// A system's error without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

/// What a file is called in messages.
pub(crate) fn shown(path: &str) -> &str {
    if path == "-" { "<stdin>" } else { path }
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// When there is none, or it cannot be unpacked.
    pub(crate) fn open(path: &str) -> io::Result<Source> {
        if path == "-" {
            let reader = Box::new(BufReader::new(io::stdin()));
            return Ok(Source { name: "<stdin>".into(), reader, position: 0, size: None, unpacker: None });
        }
        Source::of_file(path, File::open(path)?)
    }

    /// Reads a file that is open, from where it is.
    ///
    /// # Errors
    /// When it cannot be read or unpacked.
    pub(crate) fn of_file(path: &str, file: File) -> io::Result<Source> {
        let size = regular_size(&file);
        let mut file = BufReader::with_capacity(1 << 16, file);
        let start = file.fill_buf()?;
        let packed = PACKED.iter().find(|(magic, _)| start.starts_with(magic));
        let name = path.to_string();
        let Some((_, program)) = packed else {
            return Ok(Source { name, reader: Box::new(file), position: 0, size, unpacker: None });
        };
        drop(file);
        let spawned =
            Command::new(program).arg("-dc").stdin(File::open(path)?).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| io::Error::other(format!("{program}: {error}")))?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let reader = Box::new(BufReader::with_capacity(1 << 16, output));
        Ok(Source { name, reader, position: 0, size: None, unpacker: Some(child) })
    }

    /// A text that is read as a file.
    pub(crate) fn of_text(text: &str) -> Source {
        let bytes = text.as_bytes().to_vec();
        let size = Some(bytes.len() as u64);
        let reader = Box::new(Cursor::new(bytes));
        Source { name: "<data>".into(), reader, position: 0, size, unpacker: None }
    }

    /// Bytes read so far, unpacked.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes in it, where that is known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Whether there is nothing more to read.
    pub(crate) fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.reader.fill_buf()?.is_empty())
    }

    /// The next line, without its end; `None` at the end of the file. A line ends with
    /// `\n`, `\r` or both. Of one longer than `most` bytes the rest is passed over.
    pub(crate) fn line(&mut self, most: usize) -> io::Result<Option<Vec<u8>>> {
        let mut line = vec![];
        let mut any = false;
        loop {
            let buffer = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if buffer.is_empty() {
                return Ok(any.then_some(line));
            }
            any = true;
            let end = buffer.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &buffer[..end.unwrap_or(buffer.len())];
            line.extend(&part[..part.len().min(most - line.len().min(most))]);
            let returned = end.is_some_and(|end| buffer[end] == b'\r');
            let used = part.len() + usize::from(end.is_some());
            self.consume(used);
            if end.is_some() {
                if returned && self.reader.fill_buf()?.first() == Some(&b'\n') {
                    self.consume(1);
                }
                return Ok(Some(line));
            }
        }
    }

    /// Fills `bytes`; how many were there to fill it with.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl Read for Source {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(to)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
        self.position += count as u64;
    }
}

/// Ends those packets of a batch that a file took, the first ones, and drops the others, for a
/// reason of the class's. Where packets go on none is lost.
pub(crate) fn account_for(cx: &mut Cx<'_>, batch: &mut Batch, written: u64, reason: usize) {
    if written == batch.len() as u64 || cx.outputs() > 0 {
        return;
    }
    for _ in 0..written {
        batch.pop_front().into_iter().for_each(|packet| cx.free(packet));
    }
    cx.drop_batch(reason, batch);
}

/// Bytes of a regular file. By fstat(2): a confined process may not ask by a name, and the
/// standard library asks with an empty one.
pub(crate) fn regular_size(file: &File) -> Option<u64> {
    let stat = rustix::fs::fstat(file).ok()?;
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file().then_some(stat.st_size as u64)
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(mut child) = self.unpacker.take() {
            // It may still want to write what nobody reads: it has no reader any more. That
            // ends it where a confined process may not.
            self.reader = Box::new(io::empty());
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
