//! Files that packets are read from: by name, `-` for the standard input, or a text in
//! the configuration; compressed ones are read through `gzip`, `bzip2`, `xz` or `zstd`,
//! as Click reads them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::process::{Child, Command, Stdio};

/// How compressed files begin, and who unpacks them.
const PACKED: &[(&[u8], &str)] = &[
    (&[0x1F, 0x8B], "gzip"),
    (&[0x1F, 0x9D], "gzip"),
    (b"BZh", "bzip2"),
    (&[0xFD, b'7', b'z', b'X', b'Z', 0], "xz"),
    (&[0x28, 0xB5, 0x2F, 0xFD], "zstd"),
];

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
        let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
        let size = file.get_ref().metadata().ok().filter(|m| m.is_file()).map(|m| m.len());
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

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(mut child) = self.unpacker.take() {
            // It may still want to write what nobody reads.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
