//! What a user writes to name a wire.
//!
//! ```text
//! wire      = part *( "+" part )
//! part      = "loop" | "pair" | "sink" [":check" ["=tag"]]
//!           | "gen" [":" *( size= | rate= | flows= | count= | dst= | hold )]
//!           | "pcap:" FILE *( ",loop" | ",rate=" | ",hold" )
//!           | "record:" FILE [",limit=" FRAMES]
//!           | "tap:" NAME
//!           | "unix:" LOCAL [",remote=" REMOTE]
//!           | "fault:" FAULTS
//! ```
//! `sink:check` verifies tags and checksums, `check=tag` tags only, at a few
//! nanoseconds a frame. A capture with a rate begins when the NIC has taken its first packet. `gen` and
//! `pcap` are sources, `sink` takes what the host sends; `loop`, `pair`, `tap` and `unix` are both.
//! `record` and `fault` go with any.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Rate;
use super::check::MAX_FLOWS;
use crate::fault;

/// Why a wire cannot be had.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No such kind of wire.
    #[error("`{0}` is no wire: use loop, pair, sink, gen, pcap:FILE, record:FILE, tap:NAME or unix:PATH")]
    BarKind(String),
    /// An option that the part does not have.
    #[error("{part} has no option `{option}`: it has {has}")]
    Option {
        /// The part of the wire that was named.
        part: &'static str,
        /// What was written.
        option: String,
        /// What could be.
        has: &'static str,
    },
    /// A value that makes no sense.
    #[error("`{value}` is no {what}: write {wanted}")]
    Value {
        /// What it is the value of.
        what: &'static str,
        /// What was written.
        value: String,
        /// What could be.
        wanted: &'static str,
    },
    /// Something that must be there is not.
    #[error("{part} needs {what}, as in `{example}`")]
    Missing {
        /// The part of the wire that was named.
        part: &'static str,
        /// What is missing.
        what: &'static str,
        /// How it is written.
        example: &'static str,
    },
    /// Two parts that both want the same end of the cable.
    #[error(
        "`{0}` and `{1}` cannot be one wire: join one of gen, pcap with sink; add record or fault to any"
    )]
    Clash(&'static str, &'static str),
    /// `pair` without another.
    #[error("`pair` joins two devices, but {0} of them have it: give it to an even number")]
    Unpaired(usize),
    /// The frames would need too much memory.
    #[error(
        "the frames of flows x sizes need {needs} MiB, more than {limit}: use fewer flows or smaller frames"
    )]
    TooMuch {
        /// MiB that it would take.
        needs: usize,
        /// MiB that are allowed.
        limit: usize,
    },
    /// The mark on frames has eight bits for the generator.
    #[error("more than 256 generators in one testbed")]
    TooManyGenerators,
    /// A path that no socket can have.
    #[error(transparent)]
    SocketPath(#[from] bus::Error),
    /// A file, socket or interface that would not open.
    #[error("{what}: {error}{fix}")]
    Open {
        /// What was opened.
        what: String,
        /// What the system or the file's reader said.
        error: String,
        /// What to do about it, after a colon; may be empty.
        fix: &'static str,
    },
}

impl SpecError {
    pub(crate) fn value(what: &'static str, value: &str, wanted: &'static str) -> SpecError {
        SpecError::Value { what, value: value.to_owned(), wanted }
    }
}

/// Sizes of generated frames in bytes as on the wire: with the CRC, which
/// RFC 2544 counts and frames in memory do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All the same.
    Fixed(usize),
    /// From the first to the second, in up to 64 even steps.
    Range(usize, usize),
    /// Seven of 64, four of 594, one of 1518: the Internet mix.
    Imix,
}

/// The smallest and largest frame that may be asked for.
const SIZES: std::ops::RangeInclusive<usize> = 64..=15_872;
const MAX_STEPS: usize = 64;

impl Sizes {
    /// The sizes, in the order in which they are sent.
    pub(super) fn cycle(self) -> Vec<usize> {
        match self {
            Sizes::Fixed(size) => vec![size],
            Sizes::Range(first, last) => {
                let steps = (last - first).clamp(1, MAX_STEPS - 1);
                (0..=steps).map(|n| first + (last - first) * n / steps).collect()
            }
            // Spread, not in blocks.
            Sizes::Imix => vec![64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 64, 594],
        }
    }
}

impl FromStr for Sizes {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Sizes, SpecError> {
        let wrong = || SpecError::value("size", text, "64 to 15872 bytes (with CRC), 64-1518, or `imix`");
        let size = |text: &str| text.parse().ok().filter(|size| SIZES.contains(size)).ok_or_else(wrong);
        match text.split_once('-') {
            None if text == "imix" => Ok(Sizes::Imix),
            None => Ok(Sizes::Fixed(size(text)?)),
            Some((first, last)) => match (size(first)?, size(last)?) {
                (first, last) if first < last => Ok(Sizes::Range(first, last)),
                (first, last) if first == last => Ok(Sizes::Fixed(first)),
                _ => Err(wrong()),
            },
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Range(first, last) => write!(f, "{first}-{last}"),
            Sizes::Imix => f.write_str("imix"),
        }
    }
}

/// `gen`: what to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorSpec {
    /// Sizes of frames.
    pub size: Sizes,
    /// Frames per second.
    pub rate: Rate,
    /// How many UDP flows take turns, 1 to 65,536.
    pub flows: u32,
    /// How many frames in all; `None`: no end.
    pub count: Option<u64>,
    /// Destination address; `None`: the device's own.
    pub to: Option<[u8; 6]>,
    /// Sends nothing before [`Cable::start_source`](super::Cable::start_source).
    pub hold: bool,
}

impl Default for GeneratorSpec {
    fn default() -> GeneratorSpec {
        GeneratorSpec {
            size: Sizes::Fixed(64),
            rate: Rate::Max,
            flows: 1,
            count: None,
            to: None,
            hold: false,
        }
    }
}

/// Where frames for the host come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceSpec {
    /// A generator, `gen`.
    Generator(GeneratorSpec),
    /// A capture file, `pcap`.
    Capture {
        /// The file, pcap or pcapng.
        path: PathBuf,
        /// Begin again at its end.
        repeat: bool,
        /// Frames per second.
        rate: Rate,
        /// Sends nothing before [`Cable::start_source`](super::Cable::start_source).
        hold: bool,
    },
}

/// The other end of the cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndSpec {
    Traffic { source: Option<SourceSpec>, check: Option<bool> },
    Loop,
    Pair,
    Tap(String),
    Unix { local: PathBuf, remote: Option<PathBuf> },
}

/// A wire as a user asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub(super) text: String,
    pub(super) end: EndSpec,
    pub(super) record: Option<(PathBuf, u64)>,
    pub(super) fault: Option<fault::Spec>,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Spec {
    /// Whether it is a `pair`, which needs a second one.
    pub fn is_pair(&self) -> bool {
        self.end == EndSpec::Pair
    }

    /// Whether frames are recorded in a file.
    pub fn records(&self) -> bool {
        self.record.is_some()
    }

    /// The socket that it binds, if it is a `unix` wire.
    pub fn socket(&self) -> Option<&Path> {
        match &self.end {
            EndSpec::Unix { local, .. } => Some(local),
            _ => None,
        }
    }
}

const KINDS: [&str; 9] = ["loop", "pair", "sink", "gen", "pcap", "record", "tap", "unix", "fault"];

/// Splits at each `+` that a kind of wire follows, so that paths may have one.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let begins = |rest: &str| {
        KINDS.iter().any(|kind| {
            let after = rest.strip_prefix(kind);
            after.is_some_and(|after| after.is_empty() || after.starts_with([':', '+']))
        })
    };
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let cut = text.match_indices('+').map(|(at, _)| at).find(|&at| begins(&text[at + 1..]));
        rest = cut.map(|at| &text[at + 1..]);
        Some(cut.map_or(text, |at| &text[..at]))
    })
}

/// `key=value` options, separated by commas; a key without value has an empty one.
fn options(text: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let all = text.unwrap_or_default().split(',').filter(|option| !option.is_empty());
    all.map(|option| option.split_once('=').unwrap_or((option, "")))
}

fn unknown(part: &'static str, option: &str, has: &'static str) -> SpecError {
    SpecError::Option { part, option: option.to_owned(), has }
}

/// The path in front of the options.
fn path<'a>(
    part: &'static str,
    text: Option<&'a str>,
    example: &'static str,
) -> Result<(PathBuf, Option<&'a str>), SpecError> {
    let text = text.unwrap_or_default();
    let (path, options) = text.split_once(',').map_or((text, None), |(path, rest)| (path, Some(rest)));
    if path.is_empty() {
        return Err(SpecError::Missing { part, what: "a path", example });
    }
    Ok((path.into(), options))
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let (mut source, mut sink, mut both) = (None, None, None);
        let (mut record, mut fault) = (None, None);
        for part in parts(text) {
            let (kind, rest) = part.split_once(':').map_or((part, None), |(kind, rest)| (kind, Some(rest)));
            match kind {
                "gen" => fill(&mut source, "gen", SourceSpec::Generator(generator(rest)?))?,
                "pcap" => fill(&mut source, "pcap", capture(rest)?)?,
                "sink" => fill(&mut sink, "sink", check(rest)?)?,
                "record" => fill(&mut record, "record", recorder(rest)?)?,
                "fault" => fill(&mut fault, "fault", rest.unwrap_or_default().parse()?)?,
                "loop" => fill(&mut both, "loop", bare("loop", rest, EndSpec::Loop)?)?,
                "pair" => fill(&mut both, "pair", bare("pair", rest, EndSpec::Pair)?)?,
                "tap" => fill(&mut both, "tap", tap(rest)?)?,
                "unix" => fill(&mut both, "unix", unix(rest)?)?,
                _ => return Err(SpecError::BarKind(part.to_owned())),
            }
        }
        let end = match (both, source, sink) {
            (Some((name, _)), Some((other, _)), _) => return Err(SpecError::Clash(name, other)),
            (Some((name, _)), _, Some(_)) => return Err(SpecError::Clash(name, "sink")),
            (Some((_, end)), None, None) => end,
            (None, source, sink) => EndSpec::Traffic {
                source: source.map(|(_, source)| source),
                check: sink.and_then(|(_, check)| check),
            },
        };
        let (record, fault) = (record.map(|(_, record)| record), fault.map(|(_, fault)| fault));
        Ok(Spec { text: text.to_owned(), end, record, fault })
    }
}

fn fill<T>(place: &mut Option<(&'static str, T)>, name: &'static str, value: T) -> Result<(), SpecError> {
    match place.replace((name, value)) {
        None => Ok(()),
        Some((other, _)) => Err(SpecError::Clash(other, name)),
    }
}

fn bare(part: &'static str, rest: Option<&str>, end: EndSpec) -> Result<EndSpec, SpecError> {
    match rest {
        None | Some("") => Ok(end),
        Some(rest) => Err(unknown(part, rest, "none")),
    }
}

fn generator(rest: Option<&str>) -> Result<GeneratorSpec, SpecError> {
    let mut spec = GeneratorSpec::default();
    for (key, value) in options(rest) {
        match key {
            "size" => spec.size = value.parse()?,
            "rate" => spec.rate = value.parse()?,
            "flows" => spec.flows = flows(value)?,
            "count" => spec.count = Some(number("count", value)?),
            "dst" => spec.to = Some(mac(value)?),
            "hold" if value.is_empty() => spec.hold = true,
            _ => return Err(unknown("gen", key, "size, rate, flows, count, dst, hold")),
        }
    }
    Ok(spec)
}

fn flows(text: &str) -> Result<u32, SpecError> {
    let flows = text.parse().ok().filter(|flows| (1..=MAX_FLOWS as u32).contains(flows));
    flows.ok_or_else(|| SpecError::value("number of flows", text, "1 to 65536"))
}

/// A number of frames, with the suffixes of rates.
fn number(what: &'static str, text: &str) -> Result<u64, SpecError> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.ok_or_else(|| SpecError::value(what, text, "frames as 5000, 250k or 10M"))
}

fn mac(text: &str) -> Result<[u8; 6], SpecError> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).ok().filter(|_| byte.len() == 2 && !byte.starts_with('+')))
        .collect();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| SpecError::value("MAC address", text, "six bytes as 02:00:00:00:00:01"))
}

fn capture(rest: Option<&str>) -> Result<SourceSpec, SpecError> {
    let (path, rest) = path("pcap", rest, "pcap:in.pcapng,loop")?;
    let (mut repeat, mut rate, mut hold) = (false, Rate::Max, false);
    for (key, value) in options(rest) {
        match key {
            "loop" if value.is_empty() => repeat = true,
            "rate" => rate = value.parse()?,
            "hold" if value.is_empty() => hold = true,
            _ => return Err(unknown("pcap", key, "loop, rate, hold")),
        }
    }
    Ok(SourceSpec::Capture { path, repeat, rate, hold })
}

fn recorder(rest: Option<&str>) -> Result<(PathBuf, u64), SpecError> {
    let (path, rest) = path("record", rest, "record:out.pcapng")?;
    let mut limit = u64::MAX;
    for (key, value) in options(rest) {
        match key {
            "limit" => limit = number("limit", value)?,
            _ => return Err(unknown("record", key, "limit")),
        }
    }
    Ok((path, limit))
}

/// `Some(true)`: tags and checksums, `Some(false)`: tags only.
fn check(rest: Option<&str>) -> Result<Option<bool>, SpecError> {
    let mut check = None;
    for (key, value) in options(rest) {
        check = match (key, value) {
            ("check", "") => Some(true),
            ("check", "tag") => Some(false),
            _ => return Err(unknown("sink", key, "check, check=tag")),
        };
    }
    Ok(check)
}

fn tap(rest: Option<&str>) -> Result<EndSpec, SpecError> {
    let name = rest.unwrap_or_default();
    // IFNAMSIZ is 16 with its terminator; the kernel refuses slashes and blanks.
    let bad = name.len() > 15 || name.contains(|c: char| c == '/' || c.is_whitespace() || c == '\0');
    match name {
        "" => Err(SpecError::Missing { part: "tap", what: "a name", example: "tap:ixora0" }),
        _ if bad => Err(SpecError::value("interface name", name, "up to 15 bytes without blank or slash")),
        _ => Ok(EndSpec::Tap(name.to_owned())),
    }
}

fn unix(rest: Option<&str>) -> Result<EndSpec, SpecError> {
    let (local, rest) = path("unix", rest, "unix:/tmp/a.sock,remote=/tmp/b.sock")?;
    let mut remote = None;
    for (key, value) in options(rest) {
        match key {
            "remote" if !value.is_empty() => remote = Some(value.into()),
            _ => return Err(unknown("unix", key, "remote=PATH")),
        }
    }
    Ok(EndSpec::Unix { local, remote })
}
