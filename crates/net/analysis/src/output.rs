//! Where printers print to: the diagnostic output, or a file.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use graph::{Cx, Refused};
use interface::pcap::Blocks;
use memory::Packet;

use super::text;

/// Whether a printer prints; all threads have one.
#[derive(Debug, Clone)]
pub(super) struct Active(Arc<AtomicBool>);

impl Active {
    pub(super) fn new(active: bool) -> Active {
        Active(Arc::new(AtomicBool::new(active)))
    }

    // Relaxed: a lone value; threads see a change when they see it.
    #[inline]
    pub(super) fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, active: bool) {
        self.0.store(active, Ordering::Relaxed);
    }

    /// Sets it to what is written to the handler `active`.
    pub(super) fn write(&self, value: &str) -> Result<(), Refused> {
        self.set(text::truth(value)?);
        Ok(())
    }
}

/// What elements have in common that print a line for each packet: what lines begin with,
/// whether they are printed, and where to.
#[derive(Debug)]
pub(super) struct LinePrinter {
    pub(super) label: String,
    /// Whether lines show when the packet came.
    pub(super) timestamp: bool,
    pub(super) active: Active,
    pub(super) output: Output,
}

impl LinePrinter {
    /// The beginning of a packet's line.
    pub(super) fn begin(&self, packet: &Packet) -> String {
        let mut line = String::new();
        if !self.label.is_empty() {
            line += &format!("{}: ", self.label);
        }
        if self.timestamp {
            line += &format!("{}: ", text::time(packet.annotations().timestamp_ns));
        }
        line
    }

    /// Prints a line; what cannot be written ends printing.
    pub(super) fn print(&mut self, cx: &Cx<'_>, line: &str) {
        self.active.set(self.output.write(cx, line));
    }

    /// The same for another thread; `None` where it prints to a file.
    pub(super) fn for_another(&self) -> Option<LinePrinter> {
        let (label, active) = (self.label.clone(), self.active.clone());
        Some(LinePrinter { output: self.output.for_another()?, label, active, ..*self })
    }
}

/// A printer's output.
#[derive(Debug)]
pub(super) struct Output {
    path: Option<String>,
    file: Option<Blocks>,
    /// Nobody reads it.
    nowhere: bool,
}

impl Output {
    /// A file, or the diagnostic output without one.
    pub(super) fn new(path: Option<String>) -> Output {
        Output { path, file: None, nowhere: false }
    }

    /// The same for what is printed to `channel`, one that nobody reads unless it is the
    /// `default` one.
    pub(super) fn on_channel(mut self, channel: Option<String>) -> Output {
        self.nowhere = channel.is_some_and(|channel| !matches!(channel.as_str(), "" | "default"));
        self
    }

    /// The same for another thread; `None` where it is a file, which is there once.
    pub(super) fn for_another(&self) -> Option<Output> {
        self.path.is_none().then_some(Output { path: None, file: None, nowhere: self.nowhere })
    }

    /// Opens the file.
    pub(super) fn open(&mut self) -> Result<(), String> {
        if let Some(path) = &self.path {
            self.file = Some(Blocks::new(File::create(path).map_err(|e| format!("{path}: {e}"))?));
        }
        Ok(())
    }

    /// Prints; whether to go on: what cannot be written is told once, not for
    /// every packet.
    pub(super) fn write(&mut self, cx: &Cx<'_>, text: &str) -> bool {
        let Some(file) = &mut self.file else {
            if !self.nowhere {
                cx.say(text);
            }
            return true;
        };
        match file.write_all(text.as_bytes()).and_then(|()| file.flush()) {
            Ok(()) => true,
            Err(error) => {
                cx.fail(&format!("{}: {error}\n", cx.name()));
                false
            }
        }
    }
}
