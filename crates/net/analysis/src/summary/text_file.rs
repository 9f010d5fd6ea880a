//! A file of lines: where reading is, and what is said of it with the file's name and the
//! number of the line.

use graph::Cx;

use crate::file::{Source, plain, shown};

/// Bytes of a line, and of a record, that are looked at.
pub(super) const LONGEST: usize = 1 << 20;

/// A file that is read line by line.
#[derive(Debug, Default)]
pub(super) struct TextFile {
    pub(super) path: String,
    /// The lines themselves, where there is no file.
    pub(super) data: Option<String>,
    /// A file that is not there, or empty, is no error.
    pub(super) may_miss: bool,
    pub(super) source: Option<Source>,
    /// Where the file ended.
    pub(super) end_position: u64,
    /// Lines or records read.
    pub(super) line: u64,
    /// A line was complained about: no more of that.
    pub(super) complained: bool,
}

impl TextFile {
    /// The name by which messages mean it.
    pub(super) fn name(&self) -> &str {
        if self.data.is_some() { "<data>" } else { shown(&self.path) }
    }

    /// Bytes in it, where that is known.
    pub(super) fn size(&self) -> Option<u64> {
        self.source.as_ref().and_then(Source::size)
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> u64 {
        self.source.as_ref().map_or(self.end_position, Source::position)
    }

    /// Opens it; whether there is something to read.
    ///
    /// # Errors
    /// When it cannot be opened, or is empty and must not be.
    pub(super) fn open(&mut self) -> Result<bool, String> {
        let opened = match &self.data {
            Some(data) => Ok(Source::of_text(data)),
            None => Source::open(&self.path),
        };
        let mut source = match opened {
            Ok(source) => source,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && self.may_miss => return Ok(false),
            Err(e) => return Err(format!("{}: {}", shown(&self.path), plain(&e))),
        };
        // What comes from a terminal or another program is not waited for now.
        if self.path != "-" && source.is_at_end().is_ok_and(|end| end) {
            if self.may_miss || self.data.is_some() {
                return Ok(false);
            }
            return Err(format!("{}: empty file", self.name()));
        }
        self.source = Some(source);
        Ok(true)
    }

    /// The next line without its end; `None` at the end of the file.
    pub(super) fn line(&mut self, cx: &Cx<'_>) -> Option<Vec<u8>> {
        self.read(cx, "", |source| source.line(LONGEST).map_err(|e| e.to_string()))
    }

    /// What `take` finds next, a line or a record; `None` at the end of the file.
    pub(super) fn read<T>(
        &mut self,
        cx: &Cx<'_>,
        unit: &str,
        take: impl FnOnce(&mut Source) -> Result<Option<T>, String>,
    ) -> Option<T> {
        match take(self.source.as_mut()?) {
            Ok(Some(found)) => {
                self.line += 1;
                return Some(found);
            }
            Ok(None) => {}
            Err(error) => self.complain(cx, unit, &error),
        }
        self.end_position = self.position();
        self.source = None;
        None
    }

    /// Says what is wrong with the line that was read last; `unit` stands before its number.
    pub(super) fn complain(&self, cx: &Cx<'_>, unit: &str, what: &str) {
        cx.say(&format!("{}:{unit}{}: {what}\n", self.name(), self.line));
    }

    /// Complains of what Click finds before it reads lines; `line` stands behind the file's name.
    pub(super) fn complain_first(&self, cx: &Cx<'_>, doing: &str, (line, what): (&str, &str)) {
        let (place, name, class) = (cx.landmark(), cx.name(), cx.class());
        cx.say(&format!("{place}: While {doing} '{name} :: {class}':\n{}{line}:   {what}\n", self.name()));
    }

    /// Whether a line was complained about before; from now on one was.
    pub(super) fn has_complained(&mut self) -> bool {
        std::mem::replace(&mut self.complained, true)
    }
}
