//! What a request is answered with: conditions (RFC 9110, section 13) and ranges (section 14).

use super::date;
use super::files::{File, Files, Found};
use super::request::{Fields, Method, Request, Status};

/// An answer, before it is written.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The status code of the answer's first line.
    pub status: Status,
    /// The file, by its number too, and which part of it.
    file: Option<(usize, &'a File)>,
    part: (usize, usize),
    /// Whether the body is left out.
    is_head: bool,
    /// Whether a client of HTTP/1.0 is told that the connection stays.
    is_old: bool,
    /// Where the file is instead.
    location: Option<Vec<u8>>,
    /// The methods that are known, where they are told.
    allowed: Option<&'static str>,
}

impl Answer<'_> {
    /// An answer that tells its status and no more.
    pub fn of(status: Status) -> Answer<'static> {
        let (file, part, location, allowed) = (None, (0, 0), None, None);
        Answer { status, file, part, is_head: false, is_old: false, location, allowed }
    }

    /// The answer to a request.
    pub fn to<'a>(request: &Request, files: &'a Files) -> Answer<'a> {
        let mut answer = match request.method {
            Method::Get | Method::Head => find(request, files),
            Method::Options => Answer { allowed: Some("GET, HEAD, OPTIONS"), ..Answer::of(Status::OK) },
            Method::Other => Answer { allowed: Some("GET, HEAD"), ..Answer::of(Status::METHOD_NOT_ALLOWED) },
            Method::Unknown => Answer::of(Status::NOT_IMPLEMENTED),
        };
        answer.is_head = request.method == Method::Head;
        answer.is_old = request.is_old;
        answer
    }

    /// The part of a file that follows the head: its number, from where and to where.
    pub fn body(&self) -> Option<(usize, usize, usize)> {
        let has_body = matches!(self.status, Status::OK | Status::PARTIAL_CONTENT) && !self.is_head;
        let (number, _) = self.file.filter(|_| has_body && self.part.0 < self.part.1)?;
        Some((number, self.part.0, self.part.1))
    }

    /// Writes the head, and the text of a status that no file goes with.
    pub fn write(&self, date: &str, closes: bool, to: &mut Vec<u8>) {
        let Status(code, reason) = self.status;
        let mut add = |text: &str| to.extend_from_slice(text.as_bytes());
        add(&format!("HTTP/1.1 {code} {reason}\r\nDate: {date}\r\nServer: ixora\r\n"));
        if closes {
            add("Connection: close\r\n");
        } else if self.is_old {
            add("Connection: keep-alive\r\n");
        }
        if let Some(allowed) = self.allowed {
            add(&format!("Allow: {allowed}\r\n"));
        }
        if let Some((_, file)) = self.file {
            let (from, to) = self.part;
            let len = file.body.len();
            match self.status {
                Status::RANGE_NOT_SATISFIABLE => add(&format!("Content-Range: bytes */{len}\r\n")),
                Status::PARTIAL_CONTENT => add(&format!("Content-Range: bytes {from}-{}/{len}\r\n", to - 1)),
                _ => {}
            }
            if matches!(self.status, Status::OK | Status::PARTIAL_CONTENT | Status::NOT_MODIFIED) {
                add(&file.head);
            }
        }
        if let Some(location) = &self.location {
            to.extend_from_slice(b"Location: ");
            to.extend_from_slice(location);
            to.extend_from_slice(b"\r\n");
        }
        self.write_length(to);
    }

    fn write_length(&self, to: &mut Vec<u8>) {
        let mut add = |text: &str| to.extend_from_slice(text.as_bytes());
        match self.status {
            Status::OK | Status::PARTIAL_CONTENT => {
                add(&format!("Content-Length: {}\r\n\r\n", self.part.1 - self.part.0));
            }
            Status::NOT_MODIFIED => add("\r\n"),
            Status(code, reason) => {
                let text = format!("{code} {reason}\n");
                let len = text.len();
                add(&format!("Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len}\r\n\r\n"));
                if !self.is_head {
                    add(&text);
                }
            }
        }
    }
}

fn find<'a>(request: &Request, files: &'a Files) -> Answer<'a> {
    match files.find(&request.path) {
        Some(Found::File(number)) => match files.get(number) {
            Some(file) => serve(number, file, request),
            None => Answer::of(Status::NOT_FOUND),
        },
        Some(Found::Directory) => {
            // The path is a directory's that is there: it has no control characters but
            // those that escapes brought.
            let location = Some([&escaped(&request.path), request.query].concat());
            Answer { location, ..Answer::of(Status::MOVED_PERMANENTLY) }
        }
        None => Answer::of(Status::NOT_FOUND),
    }
}

/// The path of a directory as a target, with the slash that was left out.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut target = Vec::with_capacity(path.len() + 1);
    for byte in path {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(byte) => {
                target.push(*byte)
            }
            byte => target.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    target.push(b'/');
    target
}

/// The answer with a file, by the order of section 13.2.2.
fn serve<'a>(number: usize, file: &'a File, request: &Request) -> Answer<'a> {
    let fields = &request.fields;
    let len = file.body.len();
    let answer = |status, part| Answer { file: Some((number, file)), part, ..Answer::of(status) };
    let whole = answer(Status::OK, (0, len));
    let is_changed_since = |time: &[u8]| date::parse(time).is_some_and(|time_s| file.modified_s > time_s);
    let fails = match (&fields.if_match[..], fields.if_unmodified_since) {
        (tags @ [_, ..], _) => !has_tag(tags, file, true),
        ([], Some(time)) => is_changed_since(time),
        ([], None) => false,
    };
    if fails {
        return answer(Status::PRECONDITION_FAILED, (0, 0));
    }
    let is_known = match (&fields.if_none_match[..], fields.if_modified_since) {
        (tags @ [_, ..], _) => has_tag(tags, file, false),
        ([], Some(time)) => date::parse(time).is_some_and(|time_s| file.modified_s <= time_s),
        ([], None) => false,
    };
    if is_known {
        return answer(Status::NOT_MODIFIED, (0, 0));
    }
    let Some(range) = fields.range.filter(|_| request.method == Method::Get && is_same(fields, file)) else {
        return whole;
    };
    match part(range, len) {
        None => whole,
        Some((from, to)) if from < to => answer(Status::PARTIAL_CONTENT, (from, to)),
        Some(_) => answer(Status::RANGE_NOT_SATISFIABLE, (0, 0)),
    }
}

/// Whether a range is of the file that the client knows (section 13.1.5).
fn is_same(fields: &Fields, file: &File) -> bool {
    match fields.if_range {
        None => true,
        Some(tag) if tag.starts_with(b"\"") => tag == file.etag.as_bytes(),
        Some(time) => date::parse(time) == Some(file.modified_s),
    }
}

/// Whether a list has the file's tag; a weak tag is none where the comparison is strong
/// (section 8.8.3.2).
fn has_tag(lines: &[&[u8]], file: &File, is_strong: bool) -> bool {
    let tags = lines.iter().flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    tags.into_iter().any(|tag| {
        let bare = tag.strip_prefix(b"W/");
        tag == b"*" || bare.filter(|_| !is_strong).unwrap_or(tag) == file.etag.as_bytes()
    })
}

/// The part of `len` bytes that a range asks for, an empty one when the file has none of it;
/// `None` for what is no single range of bytes, and is passed over.
fn part(range: &[u8], len: usize) -> Option<(usize, usize)> {
    let (unit, spec) = range.split_at_checked(b"bytes=".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    let spec = spec.trim_ascii();
    let dash = spec.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (spec[..dash].trim_ascii(), spec[dash + 1..].trim_ascii());
    // One of more than 64 bits is behind the end of any file.
    let number = |text: &[u8]| {
        let value = || crate::text::number(text).and_then(|value| usize::try_from(value).ok());
        text.iter().all(u8::is_ascii_digit).then(|| value().unwrap_or(usize::MAX))
    };
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => number(last).map(|count| (len - count.min(len), len)),
        (false, true) => number(first).map(|from| (from.min(len), len)),
        (false, false) => {
            let (from, last) = (number(first)?, number(last)?);
            (from <= last).then(|| (from.min(len), last.saturating_add(1).min(len)))
        }
    }
}
