//! The lines of a summary: what those that begin with `!` say, and the packets of
//! the others.

use std::net::Ipv4Addr;

use graph::lang::args;
use graph::value::unsigned;
use graph::{ConfFault, Cx};
use wire::ip::Protocol;

use super::builder::{Defaults, Flow, PacketBuilder};
use super::source::Descriptions;
use super::text_file::{LONGEST, TextFile};
use super::{Known, VERSION, value};
use crate::file::Source;

/// Fields of a line that are looked at.
const MOST_FIELDS: usize = 256;

/// A file of lines.
pub(super) struct Lines {
    /// The file; lines are records where it is binary.
    pub(super) file: TextFile,
    pub(super) with_checksums: bool,
    pub(super) defaults: Defaults,
    binary: bool,
    fields: Vec<Option<&'static Known>>,
    /// In which order they are put into a packet.
    order: Vec<usize>,
    /// What there is to say before anything is read.
    notes: Vec<String>,
}

impl Default for Lines {
    fn default() -> Lines {
        let defaults =
            Defaults { protocol: Protocol::TCP.0, flow: None, aggregate: 0, minor_version: VERSION.1 };
        Lines {
            file: TextFile::default(),
            with_checksums: false,
            defaults,
            binary: false,
            fields: vec![],
            order: vec![],
            notes: vec![],
        }
    }
}

impl Lines {
    /// Takes fields and flow that hold until the file says others.
    pub(super) fn preset(&mut self, fields: Option<&str>, flow: Option<&str>) -> Result<(), ConfFault> {
        if let Some(fields) = fields {
            self.notes = self.set_fields(fields);
        }
        if let Some(flow) = flow {
            let words: Vec<&str> = args::words(flow);
            // A first word that is none of them, as in the line of a file, is left out.
            let skipped = words.first().is_some_and(|w| *w != "-" && w.parse::<Ipv4Addr>().is_err());
            let words = &words[usize::from(skipped)..];
            self.defaults.flow = Some(parse_flow(words).ok_or("bad FLOWID specification")?);
            if let Some(word) = words.get(4) {
                self.defaults.protocol = parse_protocol(word).ok_or("bad protocol in FLOWID")?;
            }
        }
        Ok(())
    }

    fn complain(&self, cx: &Cx<'_>, what: &str) {
        self.file.complain(cx, if self.binary { "record " } else { "" }, what);
    }

    /// The next line, or what a record holds; `true` for a packet's record.
    fn read(&mut self, cx: &Cx<'_>) -> Option<(Vec<u8>, bool)> {
        match self.binary {
            false => self.file.line(cx).map(|line| (line, false)),
            true => self.file.read(cx, "record ", record),
        }
    }

    /// Reads a line that begins with `!`.
    fn instruct(&mut self, cx: &Cx<'_>, text: &str) {
        let words = args::words(text);
        let Some((first, rest)) = words.split_first() else { return };
        match *first {
            "!IPSummaryDump" if self.file.line == 1 => self.check_version(cx, rest),
            "!data" | "!contents" => {
                for note in self.set_fields(&text[first.len()..]) {
                    self.complain(cx, &note);
                }
                if self.fields.is_empty() {
                    self.complain(cx, "no contents specified");
                }
            }
            "!flowid" => match parse_flow(rest) {
                None => {
                    self.defaults.flow = None;
                    self.complain(cx, "bad !flowid specification");
                }
                flow => {
                    self.defaults.flow = flow;
                    match rest.get(4).map(|word| parse_protocol(word)) {
                        Some(Some(protocol)) => self.defaults.protocol = protocol,
                        Some(None) => self.complain(cx, "bad protocol in !flowid"),
                        None => {}
                    }
                }
            },
            "!proto" => match rest {
                [word] => match parse_protocol(word) {
                    Some(protocol) => self.defaults.protocol = protocol,
                    None => self.complain(cx, "bad protocol in !proto"),
                },
                _ => self.complain(cx, "bad !proto"),
            },
            "!aggregate" => match rest {
                [word] if unsigned(word).is_some_and(|n| n <= u32::MAX.into()) => {
                    self.defaults.aggregate = unsigned(word).unwrap_or(0) as u32;
                }
                _ => self.complain(cx, "bad !aggregate specification"),
            },
            "!binary" => {
                if !rest.is_empty() {
                    self.complain(cx, "bad !binary specification");
                }
                (self.binary, self.file.line) = (true, 0);
            }
            _ => {}
        }
    }

    fn check_version(&mut self, cx: &Cx<'_>, words: &[&str]) {
        let numbers = words.first().and_then(|word| word.split_once('.'));
        let version =
            |(major, minor): (&str, &str)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?));
        match numbers.and_then(version) {
            Some((major, minor)) if major == VERSION.0 && minor <= VERSION.1 => {
                self.defaults.minor_version = minor;
            }
            Some((major, minor)) => {
                let note = format!("warning: unexpected IPSummaryDump version {major}.{minor}");
                self.file.complain_first(cx, "initializing", (":0", &note));
            }
            None => {}
        }
    }

    /// Takes the names of the fields; what is to be said of those that are none.
    fn set_fields(&mut self, text: &str) -> Vec<String> {
        let mut notes = vec![];
        let words = args::words(text).into_iter().take(MOST_FIELDS);
        let fields = words.map(|word| {
            let word = String::from_utf8_lossy(&args::unquote(word)).into_owned();
            let known = Known::find(&word);
            if !known.is_some_and(Known::can_be_read) {
                notes.push(format!("warning: unknown content type '{word}'"));
            }
            known
        });
        self.fields = fields.collect();
        self.order = (0..self.fields.len()).collect();
        let fields = &self.fields;
        self.order.sort_by_key(|&n| (fields[n].map_or(0, |known| known.order), n));
        notes
    }

    /// A packet of a line; `None` when nothing in it is understood.
    fn builder_of_line(&self, text: &str) -> Option<PacketBuilder> {
        let words = split(text, self.fields.len());
        let mut builder = PacketBuilder::new(self.defaults);
        let mut any = false;
        for &n in &self.order {
            let (Some(known), Some(word)) = (self.fields[n], words.get(n)) else { continue };
            if *word == "-" || word.is_empty() {
                continue;
            }
            if let Some(said) = value::from_text(known, word, &builder) {
                builder.inject(known.field, said);
                any = true;
            }
        }
        any.then_some(builder)
    }

    /// A packet of a record.
    fn builder_of_record(&self, record: &[u8]) -> Option<PacketBuilder> {
        let mut rest = record;
        let mut said: Vec<_> =
            self.fields.iter().map(|known| known.and_then(|known| value::take(known, &mut rest))).collect();
        let mut builder = PacketBuilder::new(self.defaults);
        let mut any = false;
        for &n in &self.order {
            if let (Some(known), Some(said)) = (self.fields[n], said[n].take()) {
                builder.inject(known.field, said);
                any |= known.can_be_read();
            }
        }
        any.then_some(builder)
    }
}

impl Descriptions for Lines {
    fn file(&self) -> &TextFile {
        &self.file
    }

    fn open(&mut self, cx: &Cx<'_>) -> Result<(), String> {
        if self.file.open()? {
            for note in std::mem::take(&mut self.notes) {
                self.file.complain_first(cx, "configuring", (":0", &note));
            }
        }
        Ok(())
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Option<PacketBuilder> {
        loop {
            let (line, is_record) = self.read(cx)?;
            let text = String::from_utf8_lossy(&line);
            if self.file.line == 1 && !is_record && self.fields.is_empty() && !is_banner(&text) {
                let what = "warning: missing banner line; is this an IP summary dump?";
                self.file.complain_first(cx, "initializing", (":0", what));
            }
            if !is_record && (line.is_empty() || line[0] == b'#') {
                continue;
            }
            if !is_record && line[0] == b'!' {
                self.instruct(cx, &text);
                continue;
            }
            let builder = match is_record {
                true => self.builder_of_record(&line),
                false => self.builder_of_line(&text),
            };
            if let Some(mut builder) = builder {
                builder.finish(self.with_checksums);
                return Some(builder);
            }
            if !is_record && text.trim().is_empty() {
                continue;
            }
            cx.count_drops(1, 1);
            if !self.file.has_complained() {
                let missing = self.fields.is_empty();
                self.complain(cx, if missing { "no '!data' provided" } else { "packet parse error" });
            }
        }
    }
}

/// Whether a file may begin so.
fn is_banner(line: &str) -> bool {
    const BANNERS: &[&str] = &["!IPSummaryDump", "!creator", "!data", "!contents", "!proto", "!flowid"];
    BANNERS.iter().any(|banner| line.starts_with(banner))
}

/// A record's contents; `true` for a packet's, `false` for a line.
fn record(source: &mut Source) -> Result<Option<(Vec<u8>, bool)>, String> {
    let mut head = [0; 4];
    match source.fill(&mut head).map_err(|e| e.to_string())? {
        0 => return Ok(None),
        4 => {}
        _ => return Err("the file was cut in the middle of a record".into()),
    }
    let head = u32::from_be_bytes(head);
    let length = (head & 0x7FFF_FFFF) as usize;
    if length < 4 {
        return Err("binary record too short".into());
    }
    if length > LONGEST {
        return Err(format!("binary record of {length} bytes, longer than {LONGEST}"));
    }
    let mut bytes = vec![0; length - 4];
    if source.fill(&mut bytes).map_err(|e| e.to_string())? < bytes.len() {
        return Err("the file was cut in the middle of a record".into());
    }
    let is_record = head & 0x8000_0000 == 0;
    if !is_record {
        while bytes.last().is_some_and(|byte| matches!(byte, 0 | b'\n' | b'\r')) {
            bytes.pop();
        }
    }
    Ok(Some((bytes, is_record)))
}

/// The first words of a line; white space in double quotes does not end one.
fn split(text: &str, most: usize) -> Vec<&str> {
    let mut words = vec![];
    let mut rest = text.trim_start();
    while words.len() < most && !rest.is_empty() {
        let (mut quoted, mut escaped) = (false, false);
        let end = rest.bytes().position(|byte| {
            let ends = !quoted && byte.is_ascii_whitespace();
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ => {}
            }
            ends
        });
        let (word, more) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(word);
        rest = more.trim_start();
    }
    words
}

/// Addresses and ports, `-` for those that are not said.
fn parse_flow(words: &[&str]) -> Option<Flow> {
    let address = |n: usize| match *words.get(n)? {
        "-" => Some(Ipv4Addr::UNSPECIFIED),
        word => word.parse().ok(),
    };
    let port = |n: usize| match *words.get(n)? {
        "-" => Some(0),
        word => unsigned(word).and_then(|port| u16::try_from(port).ok()),
    };
    Some(Flow { source: address(0)?, sport: port(1)?, destination: address(2)?, dport: port(3)? })
}

fn parse_protocol(word: &str) -> Option<u8> {
    let named = || wire::names::PROTOCOLS.iter().find(|(name, _)| *name == word).map(|(_, it)| *it);
    let numbered = || unsigned(word).and_then(|number| u8::try_from(number).ok());
    value::lettered(word).or_else(named).map(|protocol| protocol.0).or_else(numbered)
}
