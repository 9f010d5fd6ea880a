//! HTTP/1.1 and 1.0 for files (RFC 9110, 9112): GET and HEAD, connections that stay open,
//! requests in a row, conditions, entity tags and single ranges. Several ranges at once are
//! answered with the whole file, as section 14.2 of RFC 9110 allows. Content of requests is
//! discarded, within a limit.

mod answer;
mod content;
mod date;
mod files;
mod request;

use std::sync::Arc;

use port::Counter;

use crate::output::Output;
use crate::server::{Protocol, Taken};
use answer::Answer;
use content::Rest;
pub use files::{Error, Files};
use request::{Content, Status};

/// The longest head of a request.
const MAX_HEAD: usize = 8192;
/// The longest content of a request, which is discarded.
const MAX_CONTENT: u64 = 1 << 20;
const SECOND_NS: i64 = 1_000_000_000;

/// What a server counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    requests: u64,
    not_found: u64,
    not_modified: u64,
    refused: u64,
}

/// A server of files.
#[derive(Debug)]
pub struct Http {
    files: Arc<Files>,
    /// Unix time when the server was made.
    started_s: i64,
    writer: Writer,
    counted: Counted,
}

/// What heads of answers are written with.
#[derive(Debug)]
struct Writer {
    /// Unix time at the zero of the clock.
    zero_s: i64,
    /// The time as it was told last, and its text.
    date: (i64, String),
    /// Heads are put together here.
    scratch: Vec<u8>,
}

/// What is known of a connection.
#[derive(Debug, Default)]
pub struct Session {
    /// The part of a head that came.
    head: Vec<u8>,
    state: State,
    /// A part of a file that is being sent: its number, from where and to where.
    sending: Option<(usize, usize, usize)>,
}

#[derive(Debug, Default)]
enum State {
    /// A head comes.
    #[default]
    Head,
    /// Content comes, and how much of it may.
    Content(Rest, u64),
    /// The connection ends behind the answer.
    Ended,
}

impl Http {
    /// A server of files. `started_s` is the present in seconds of Unix time.
    pub fn new(files: Arc<Files>, started_s: i64) -> Http {
        let writer = Writer { zero_s: started_s, date: (i64::MIN, String::new()), scratch: Vec::new() };
        Http { files, started_s, writer, counted: Counted::default() }
    }

    /// Goes on with a file that found no room; whether all of it has been sent.
    fn send_rest(&self, session: &mut Session, output: &mut impl Output) -> bool {
        let Some((number, from, to)) = session.sending else { return true };
        let body = self.files.get(number).and_then(|file| file.body.get(from..to)).unwrap_or_default();
        let sent = output.write(body);
        let is_sent = sent == body.len();
        session.sending = (!is_sent).then_some((number, from + sent, to));
        is_sent
    }

    /// Takes bytes of a head, and answers when it is whole; how many.
    fn head(&mut self, session: &mut Session, input: &[u8], output: &mut impl Output) -> usize {
        if session.head.is_empty() {
            // RFC 9112, section 2.2: empty lines in front of a request are passed over.
            let blank = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if blank > 0 {
                return blank;
            }
            if let Some(end) = end_of_head(input, 0).filter(|end| *end <= MAX_HEAD) {
                self.request(session, &input[..end], output);
                return end;
            }
        }
        let before = session.head.len();
        let count = input.len().min(MAX_HEAD - before);
        session.head.extend_from_slice(&input[..count]);
        if let Some(end) = end_of_head(&session.head, before.saturating_sub(3)) {
            let head = std::mem::take(&mut session.head);
            self.request(session, &head[..end], output);
            return end - before;
        }
        if session.head.len() == MAX_HEAD {
            let is_line = session.head.contains(&b'\n');
            let status = if is_line { Status::FIELDS_TOO_LARGE } else { Status::URI_TOO_LONG };
            session.head = Vec::new();
            self.refuse(session, status, output);
        }
        count
    }

    /// Answers a request that the connection cannot go on behind.
    fn refuse(&mut self, session: &mut Session, status: Status, output: &mut impl Output) {
        self.counted.refused += 1;
        session.state = State::Ended;
        self.writer.send(session, &Answer::of(status), output);
    }

    /// Answers a whole head.
    fn request(&mut self, session: &mut Session, head: &[u8], output: &mut impl Output) {
        self.counted.requests += 1;
        let known;
        let request = match request::parse(head) {
            Err(Status::VERSION_NOT_SUPPORTED) => {
                known = request::of_known_version(head);
                known.as_deref().ok_or(Status::VERSION_NOT_SUPPORTED).and_then(request::parse)
            }
            request => request,
        };
        let request = match request {
            Ok(request) => request,
            Err(status) => return self.refuse(session, status, output),
        };
        session.state = match request.content {
            _ if !request.keeps_alive => State::Ended,
            Content::Length(0) => State::Head,
            Content::Length(length) if length > MAX_CONTENT => {
                return self.refuse(session, Status::CONTENT_TOO_LARGE, output);
            }
            Content::Length(length) => State::Content(Rest::bytes(length), length),
            Content::Chunked => State::Content(Rest::CHUNKED, MAX_CONTENT),
        };
        let answer = Answer::to(&request, &self.files);
        self.counted.not_found += u64::from(answer.status == Status::NOT_FOUND);
        self.counted.not_modified += u64::from(answer.status == Status::NOT_MODIFIED);
        self.writer.send(session, &answer, output);
    }
}

impl Writer {
    /// Sends a head, and has the body follow it.
    fn send(&mut self, session: &mut Session, answer: &Answer, output: &mut impl Output) {
        let now_s = self.zero_s + output.now_ns() / SECOND_NS;
        if self.date.0 != now_s {
            self.date = (now_s, date::format(now_s));
        }
        self.scratch.clear();
        answer.write(&self.date.1, matches!(session.state, State::Ended), &mut self.scratch);
        output.put(&self.scratch);
        session.sending = answer.body();
    }
}

/// Where a head ends that is looked for from `from` on: behind an empty line.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(line) = bytes.get(at..)?.iter().position(|byte| *byte == b'\n') {
        at += line + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

impl Protocol for Http {
    type Session = Session;

    fn begin(&mut self, now_ns: i64) {
        self.writer.zero_s = self.started_s - now_ns / SECOND_NS;
    }

    fn take(&mut self, session: &mut Session, input: &[u8], output: &mut impl Output) -> Taken {
        let mut used = 0;
        loop {
            if !self.send_rest(session, output) || output.is_full() {
                return Taken { used, ends: false, is_carried_out: false, is_paused: false };
            }
            let rest = &input[used..];
            match &mut session.state {
                State::Ended => return Taken { used, ends: true, is_carried_out: false, is_paused: false },
                _ if rest.is_empty() => {
                    return Taken { used, ends: false, is_carried_out: false, is_paused: false };
                }
                State::Head => used += self.head(session, rest, output),
                State::Content(content, limit) => match content.skip(rest, limit) {
                    Ok((count, is_over)) => {
                        used += count;
                        if is_over {
                            session.state = State::Head;
                        }
                    }
                    Err(content::Wrong) => {
                        // The request was answered: nothing is left to be said.
                        self.counted.refused += 1;
                        session.state = State::Ended;
                    }
                },
            }
        }
    }

    fn is_answering(&self, session: &Session) -> bool {
        session.sending.is_some()
    }

    fn held(&self, session: &Session) -> usize {
        session.head.capacity()
    }

    fn forget(&mut self, _: Session) {}

    fn awaits(&self, _: &Session) -> bool {
        // Between two requests as well.
        true
    }

    fn counters(&self) -> Vec<Counter> {
        vec![
            Counter::of("http_requests", self.counted.requests, "requests came"),
            Counter::of("http_not_found", self.counted.not_found, "requests were for no file"),
            Counter::of("http_not_modified", self.counted.not_modified, "clients had the file already"),
            Counter::of("http_refused", self.counted.refused, "requests were refused because of their form"),
        ]
    }
}
