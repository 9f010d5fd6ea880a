//! The files of a server: all are read at the start, within a limit, so that nothing is
//! opened while it runs and no path of a request ever comes to a file system.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use super::date;

/// Files and directories together.
const MAX_ENTRIES: usize = 1 << 20;

/// Why files could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or a directory cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file or directory that cannot be read.
        path: PathBuf,
        /// Why it cannot be read.
        error: io::Error,
    },
    /// The files are more than there is room for.
    #[error("the files of {root} are larger than {limit} bytes in all")]
    TooLarge {
        /// The directory that the files are in.
        root: PathBuf,
        /// What they may have.
        limit: usize,
    },
    /// There are too many files.
    #[error("{root} has more than {MAX_ENTRIES} files")]
    TooMany {
        /// The directory that the files are in.
        root: PathBuf,
    },
}

/// A file, with what is told of it.
#[derive(Debug)]
pub struct File {
    /// All bytes of the file.
    pub body: Box<[u8]>,
    /// Its entity tag, in quotes: the same for the same bytes.
    pub etag: String,
    /// When it was changed last, in seconds of Unix time.
    pub modified_s: i64,
    /// The lines of a head that tell of it, but for its length.
    pub head: String,
}

impl File {
    /// A file of a type.
    pub fn new(body: Vec<u8>, content_type: &str, modified_s: i64) -> File {
        let mut hasher = DefaultHasher::new();
        hasher.write(&body);
        let etag = format!("\"{:x}-{:x}\"", body.len(), hasher.finish());
        let modified = date::format(modified_s);
        let head = format!(
            "Content-Type: {content_type}\r\nETag: {etag}\r\nLast-Modified: {modified}\r\nAccept-Ranges: bytes\r\n"
        );
        File { body: body.into(), etag, modified_s, head }
    }
}

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The file of this number.
    File(usize),
    /// A directory with an index, which has a slash behind its name.
    Directory,
}

/// The files of a server by their paths.
#[derive(Debug, Default)]
pub struct Files {
    files: Vec<File>,
    paths: HashMap<Vec<u8>, Found>,
    /// The file that all paths lead to, when there is but one.
    only: Option<usize>,
}

impl Files {
    /// One body for all paths.
    pub fn fixed(body: Vec<u8>, now_s: i64) -> Files {
        let files = vec![File::new(body, "text/plain; charset=utf-8", now_s)];
        Files { files, paths: HashMap::new(), only: Some(0) }
    }

    /// Reads all files below a directory. What begins with a dot is left out but
    /// `.well-known`, and so are symbolic links.
    ///
    /// # Errors
    /// [`Error`]: what cannot be read, and more than `limit` bytes.
    pub fn read(root: &Path, limit: usize) -> Result<Files, Error> {
        let mut files = Files::default();
        let mut left = limit;
        let mut directories = vec![(root.to_path_buf(), b"/".to_vec())];
        while let Some((directory, at)) = directories.pop() {
            let failed = |error| Error::Read { path: directory.clone(), error };
            for entry in fs::read_dir(&directory).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name().into_encoded_bytes();
                if name.starts_with(b".") && name != b".well-known" {
                    continue;
                }
                if files.paths.len() + directories.len() >= MAX_ENTRIES {
                    return Err(Error::TooMany { root: root.to_path_buf() });
                }
                let (kind, path) = (entry.file_type().map_err(failed)?, [&at[..], &name].concat());
                if kind.is_dir() {
                    directories.push((entry.path(), [&path[..], b"/"].concat()));
                } else if kind.is_file() {
                    let file = read(&entry.path(), left)?;
                    left = file
                        .as_ref()
                        .and_then(|file| left.checked_sub(file.body.len()))
                        .ok_or_else(|| Error::TooLarge { root: root.to_path_buf(), limit })?;
                    files.add(path, file.into_iter());
                }
            }
        }
        Ok(files)
    }

    fn add(&mut self, path: Vec<u8>, file: impl Iterator<Item = File>) {
        let found = Found::File(self.files.len());
        self.files.extend(file);
        if let Some(directory) = path.strip_suffix(b"index.html").filter(|path| path.ends_with(b"/")) {
            self.paths.insert(directory.to_vec(), found);
            self.paths.insert(directory[..directory.len() - 1].to_vec(), Found::Directory);
        }
        self.paths.insert(path, found);
    }

    /// What a path is, without its query and its escapes.
    pub fn find(&self, path: &[u8]) -> Option<Found> {
        self.only.map(Found::File).or_else(|| self.paths.get(path).copied())
    }

    /// A file by its number.
    pub fn get(&self, number: usize) -> Option<&File> {
        self.files.get(number)
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// Reads a file; `None` when it has more bytes than are left.
fn read(path: &Path, left: usize) -> Result<Option<File>, Error> {
    let failed = |error| Error::Read { path: path.to_path_buf(), error };
    let about = fs::metadata(path).map_err(failed)?;
    if about.len() > left as u64 {
        return Ok(None);
    }
    let body = fs::read(path).map_err(failed)?;
    let modified = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified_s = modified.map_or(0, |time| time.as_secs() as i64);
    Ok(Some(File::new(body, content_type(path), modified_s)))
}

/// The type of a file by its name.
fn content_type(path: &Path) -> &'static str {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.as_deref().unwrap_or_default() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "txt" | "md" | "log" => "text/plain; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "mp4" => "video/mp4",
        "gz" | "tgz" => "application/gzip",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}
