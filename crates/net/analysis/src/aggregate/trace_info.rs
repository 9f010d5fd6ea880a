//! What `AggregateIPFlows` tells of flows in a file: `TRACEINFO`, an XML document.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;

use graph::clock::SECOND_NS;
use graph::well_known::{FILENAME, PACKET_FILEPOS};
use graph::{Cx, Named};

use super::flows::Flow;
use crate::file::{plain, regular_size};

/// What is counted of a flow for it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stats {
    first_ns: i64,
    position: u64,
    /// Packets in the direction of the first one, and in the other.
    pub(super) packets: [u64; 2],
}

/// The file, if there is to be one. What was in it is kept until the router begins: an element
/// that takes another's place goes on in its document.
pub(super) struct TraceInfo {
    path: Option<String>,
    source: Option<String>,
    file: Option<BufWriter<File>>,
    /// The document has its beginning.
    begun: bool,
}

fn seconds(ns: i64) -> String {
    format!("{}.{:09}", ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS))
}

impl TraceInfo {
    pub(super) fn new(path: Option<String>, source: Option<String>) -> TraceInfo {
        TraceInfo { path, source, file: None, begun: false }
    }

    /// Says when there is no such source.
    pub(super) fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        match self.source.as_ref().is_some_and(|source| named.find(source).is_none()) {
            true => Err("SOURCE: does not name an element".into()),
            false => Ok(()),
        }
    }

    pub(super) fn open(&mut self) -> Result<(), String> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        if path != "-" {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
            self.file = Some(BufWriter::new(file.map_err(|e| format!("{path}: {}", plain(&e)))?));
        }
        Ok(())
    }

    /// Goes on where `old` was, if that wrote the same document.
    pub(super) fn take_over(&mut self, old: &mut TraceInfo) {
        if old.begun && (&old.path, &old.source) == (&self.path, &self.source) {
            *self = std::mem::replace(old, TraceInfo::new(None, None));
        }
    }

    /// Writes the document's beginning, unless that was taken over.
    pub(super) fn begin_document(&mut self, cx: &mut Cx<'_>) {
        if self.path.is_none() || std::mem::replace(&mut self.begun, true) {
            return;
        }
        // A pipe or a device has no length to set.
        let file = self.file.as_ref().map(BufWriter::get_ref).filter(|file| regular_size(file).is_some());
        if let Some(Err(error)) = file.map(|file| file.set_len(0)) {
            return self.fail(cx, &error);
        }
        let mut text = "<?xml version='1.0' standalone='yes'?>\n<trace".to_string();
        if let Some(source) = &self.source {
            // One that has no such handler is all right.
            if let Ok(name) = cx.read_of(source, FILENAME, "") {
                let name = name.trim().replace('&', "&amp;").replace('\'', "&apos;").replace('<', "&lt;");
                text += &format!(" file='{name}'");
            }
        }
        self.put(cx, &format!("{text}>\n"));
    }

    /// Nothing more is written.
    fn fail(&mut self, cx: &mut Cx<'_>, error: &io::Error) {
        cx.fail(&format!("{}: {error}\n", cx.name()));
        (self.path, self.file) = (None, None);
    }

    fn put(&mut self, cx: &mut Cx<'_>, text: &str) {
        let Some(file) = &mut self.file else { return cx.print(text) };
        if let Err(error) = file.write_all(text.as_bytes()) {
            self.fail(cx, &error);
        }
    }

    /// A flow begins.
    pub(super) fn begin(&self, cx: &mut Cx<'_>, at: i64) -> Stats {
        let mut position = || cx.read_of(self.source.as_ref()?, PACKET_FILEPOS, "").ok();
        let position = self.path.as_ref().and_then(|_| position()).and_then(|text| text.trim().parse().ok());
        Stats { first_ns: at, position: position.unwrap_or(0), packets: [0; 2] }
    }

    /// A flow between two hosts, the lower address first, has ended.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>, (a, b): (u32, u32), flow: &Flow) {
        if self.path.is_none() {
            return;
        }
        let (mut from, mut to) = ((a, flow.ports.0), (b, flow.ports.1));
        if flow.reverse {
            (from, to) = (to, from);
        }
        let mut text = format!(
            "<flow aggregate='{}' src='{}' sport='{}' dst='{}' dport='{}' begin='{}' duration='{}'",
            flow.aggregate,
            Ipv4Addr::from(from.0),
            from.1,
            Ipv4Addr::from(to.0),
            to.1,
            seconds(flow.stats.first_ns),
            seconds(flow.last_ns.saturating_sub(flow.stats.first_ns)),
        );
        if flow.stats.position != 0 {
            text += &format!(" filepos='{}'", flow.stats.position);
        }
        let [forth, back] = flow.stats.packets;
        text += &format!(
            ">\n  <stream dir='0' packets='{forth}' /><stream dir='1' packets='{back}' />\n</flow>\n"
        );
        self.put(cx, &text);
    }

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        // On standard output it is left open, as Click leaves it: other things follow.
        if self.begun && self.file.is_some() {
            self.put(cx, "</trace>\n");
        }
        if let Some(Err(error)) = self.file.as_mut().map(Write::flush) {
            self.fail(cx, &error);
        }
        self.path = None;
    }
}
