//! Where a thing stands in a configuration.
//!
//! A [`SourceLocation`] is what Click calls a landmark, with a column: the file and line as
//! line directives (`# 100 "file"`) say them. It also remembers where the text
//! really is, so that [`Sources`] can show the line however it is called.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A text to read: a file, standard input, or a configuration from the command line.
#[derive(Clone, Debug)]
pub struct Source {
    /// As messages call it: a path, or `config` for one from the command line.
    pub name: String,
    /// Its bytes; UTF-8 where it matters, which is outside comments.
    pub text: Vec<u8>,
}

impl Source {
    /// A source; an empty name becomes `config`, as in Click.
    pub fn new(name: impl Into<String>, text: impl Into<Vec<u8>>) -> Source {
        let mut name = name.into();
        if name.is_empty() {
            name = "config".into();
        }
        Source { name, text: text.into() }
    }
}

/// A place in a source.
pub struct SourceLocation {
    /// The file, as line directives say it.
    pub file: Arc<str>,
    /// The line from 1, as line directives say it; 0 where there is none.
    pub line: u32,
    /// The column from 1, in characters; 0 where there is none.
    pub column: u32,
    /// Which source of [`Sources`]; `u32::MAX` for none.
    pub(crate) source: u32,
    /// Bytes from the source's start.
    pub(crate) offset: u32,
}

impl Clone for SourceLocation {
    fn clone(&self) -> SourceLocation {
        SourceLocation { file: self.file.clone(), ..*self }
    }

    /// Counts no more and no fewer holders of the file's name where it is the same: a parser
    /// does this for each token.
    fn clone_from(&mut self, source: &SourceLocation) {
        if !Arc::ptr_eq(&self.file, &source.file) {
            self.file.clone_from(&source.file);
        }
        (self.line, self.column) = (source.line, source.column);
        (self.source, self.offset) = (source.source, source.offset);
    }
}

impl SourceLocation {
    /// A place that is in no source: the command line, say.
    pub fn nowhere(file: &str) -> SourceLocation {
        SourceLocation { file: file.into(), line: 0, column: 0, source: u32::MAX, offset: 0 }
    }

    /// `file:line`, as Click prints it: without a line only the file, and no second
    /// colon after a file name that brings its own.
    pub fn landmark(&self) -> String {
        match (self.line, self.file.ends_with([':', ' ', '\t'])) {
            (0, _) => self.file.to_string(),
            (line, true) => format!("{}{line}", self.file),
            (line, false) => format!("{}:{line}", self.file),
        }
    }
}

impl SourceLocation {
    /// The place behind a text that begins here, if no line directive is in it.
    pub(crate) fn after(&self, text: &str) -> SourceLocation {
        let mut place = self.clone();
        place.offset += text.len() as u32;
        let ends = text.matches('\n').count() + text.matches('\r').count() - text.matches("\r\n").count();
        let last = text.rsplit(['\n', '\r']).next().unwrap_or("").chars().count() as u32;
        place.line = place.line.wrapping_add(ends as u32);
        place.column = if ends == 0 { place.column + last } else { 1 + last };
        place
    }
}

/// Writes the place as `file:line:column`.
impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.landmark())?;
        if self.line != 0 && self.column != 0 { write!(f, ":{}", self.column) } else { Ok(()) }
    }
}

impl fmt::Debug for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Places are equal that are called the same.
impl PartialEq for SourceLocation {
    fn eq(&self, other: &SourceLocation) -> bool {
        (self.line, self.column) == (other.line, other.column) && self.file == other.file
    }
}

impl Eq for SourceLocation {}

impl Hash for SourceLocation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.file, self.line, self.column).hash(state);
    }
}

/// The texts that were read, for showing lines of them. A clone is the same texts.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    texts: Vec<Arc<str>>,
}

impl Sources {
    /// Keeps a text; gives the number its places carry.
    pub(crate) fn add(&mut self, text: Arc<str>) -> u32 {
        self.texts.push(text);
        (self.texts.len() - 1) as u32
    }

    /// The text that was read first: the configuration itself, where libraries are read as well.
    pub fn first(&self) -> Option<Arc<str>> {
        self.texts.first().cloned()
    }

    /// The text from a place on.
    pub(crate) fn rest(&self, place: &SourceLocation) -> Option<&str> {
        self.texts.get(place.source as usize)?.get(place.offset as usize..)
    }

    /// The line a place is in, without its end, and where in it the place is, in
    /// bytes; none for a place in no source.
    pub fn line(&self, place: &SourceLocation) -> Option<(&str, usize)> {
        let text = self.texts.get(place.source as usize)?;
        let offset = (place.offset as usize).min(text.len());
        let start = text.get(..offset)?.rfind(['\n', '\r']).map_or(0, |at| at + 1);
        let end = text[offset..].find(['\n', '\r']).map_or(text.len(), |at| offset + at);
        Some((&text[start..end], offset - start))
    }
}
