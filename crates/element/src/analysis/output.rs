//! Where printers print to: the diagnostic output, or a file.

use std::fs::File;
use std::io::Write;

use graph::Cx;

/// A printer's output.
#[derive(Debug)]
pub(super) struct Output {
    path: Option<String>,
    file: Option<File>,
}

impl Output {
    /// A file, or the diagnostic output without one.
    pub(super) fn new(path: Option<String>) -> Output {
        Output { path, file: None }
    }

    /// Opens the file.
    pub(super) fn open(&mut self) -> Result<(), String> {
        if let Some(path) = &self.path {
            self.file = Some(File::create(path).map_err(|e| format!("{path}: {e}"))?);
        }
        Ok(())
    }

    /// Prints; whether to go on: what cannot be written is told once, not for
    /// every packet.
    pub(super) fn write(&mut self, cx: &Cx<'_>, text: &str) -> bool {
        let Some(file) = &mut self.file else {
            cx.say(text);
            return true;
        };
        match file.write_all(text.as_bytes()) {
            Ok(()) => true,
            Err(error) => {
                cx.say(&format!("{}: {error}\n", cx.name()));
                false
            }
        }
    }
}
