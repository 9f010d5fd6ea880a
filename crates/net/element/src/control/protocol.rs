//! The language of control sockets: Click's ControlSocket protocol 1.3.
//!
//! Lines of words, ended by CR, LF or both; some commands take data behind their
//! line. [`parse`] takes one command off the front of what a client sent; it knows
//! nothing of sockets or handlers. What a client may make us keep is bounded by
//! [`MAX_LINE`] and [`MAX_DATA`]. A line of another protocol is fatal: a browser that is
//! made to send something here (HTTP, or TLS with text of a stranger's in it) sends
//! nothing that is done.

/// The first line a client sees.
pub const BANNER: &str = "Click::ControlSocket/1.3\r\n";
/// Bytes of a line.
pub const MAX_LINE: usize = 64 << 10;
/// Bytes of a command's data.
pub const MAX_DATA: usize = 1 << 20;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// An empty line.
    Nothing,
    /// Reads a handler.
    Read {
        /// The handler's name, `ELEMENT.HANDLER` or a global one.
        handler: String,
        /// What it is asked with.
        parameter: String,
    },
    /// Writes a handler.
    Write {
        /// The handler's name, `ELEMENT.HANDLER` or a global one.
        handler: String,
        /// What is written.
        value: String,
    },
    /// Asks whether a handler can be read, or written.
    Check {
        /// The handler's name, `ELEMENT.HANDLER` or a global one.
        handler: String,
        /// Whether it is to be written.
        write: bool,
    },
    /// A binary call of the kernel's kind, of which there are none.
    Llrpc {
        /// Which call is meant: `element#number`.
        name: String,
        /// What comes with it.
        data: Vec<u8>,
    },
    /// What can be asked for.
    Help,
    /// The connection ends; whether more was said than that.
    Quit(bool),
    /// None of these.
    Bad {
        /// What is answered.
        code: u16,
        /// And in words.
        message: String,
        /// The place where the next command begins is lost.
        fatal: bool,
    },
}

/// What stands at the front of a client's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// A command, and how many bytes it takes.
    Request(Request, usize),
    /// More must come first.
    Wait,
}

fn bad(code: u16, message: impl Into<String>) -> Request {
    Request::Bad { code, message: message.into(), fatal: false }
}

/// Takes a line off: the line and where the next one begins. `None`: it is not
/// there yet.
fn line(input: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = input.get(from..)?;
    let end = rest.iter().position(|b| matches!(b, b'\r' | b'\n'))?;
    let both = rest[end..].starts_with(b"\r\n");
    Some((&rest[..end], from + end + 1 + usize::from(both)))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Takes a command off the front of `input`; `closed` when no more comes.
pub fn parse(input: &[u8], closed: bool) -> Parsed {
    parse_on(input, closed, &mut 0)
}

/// As [`parse`], of an input that may have been looked at before: `looked` is how far it
/// need not be looked at again. Who sends a long text byte by byte has us read it once.
pub fn parse_on(input: &[u8], closed: bool, looked: &mut usize) -> Parsed {
    let parsed = front(input, closed, looked);
    if parsed != Parsed::Wait {
        *looked = 0;
    }
    parsed
}

fn front(input: &[u8], closed: bool, looked: &mut usize) -> Parsed {
    let (line, next) = match line(input, 0) {
        Some(found) => found,
        None if input.len() > MAX_LINE => {
            let message = "Line too long".to_string();
            return Parsed::Request(Request::Bad { code: 500, message, fatal: true }, input.len());
        }
        None if closed => (input, input.len()),
        None => return Parsed::Wait,
    };
    let line = text(line);
    let (command, rest) = word(&line);
    let (handler, tail) = word(rest);
    if is_foreign(command, handler, tail) {
        let message = "This is not HTTP".to_string();
        return Parsed::Request(Request::Bad { code: 500, message, fatal: true }, input.len());
    }
    let tail = tail.trim();
    let (command, handler) = (command.to_ascii_uppercase(), handler.to_string());
    let done = |request| Parsed::Request(request, next);
    let wrong = || done(bad(500, "Wrong number of arguments"));
    match command.as_str() {
        "" => done(Request::Nothing),
        "READ" | "GET" | "WRITE" | "SET" | "READUNTIL" | "WRITEUNTIL" if handler.is_empty() => wrong(),
        "READ" | "GET" => done(Request::Read { handler, parameter: tail.into() }),
        "WRITE" | "SET" => done(Request::Write { handler, value: tail.into() }),
        "READUNTIL" | "WRITEUNTIL" => {
            until(input, next, tail, (closed, looked), |data| call(&command, handler, data))
        }
        "READDATA" | "WRITEDATA" | "SETDATA" => match words(tail) {
            1 => data(input, next, tail, closed, &command, |data| call(&command, handler, data)),
            _ => wrong(),
        },
        "CHECKREAD" | "CHECKWRITE" if handler.is_empty() || !tail.is_empty() => wrong(),
        "CHECKREAD" | "CHECKWRITE" => done(Request::Check { handler, write: command == "CHECKWRITE" }),
        "LLRPC" if handler.is_empty() || words(tail) > 1 => wrong(),
        "LLRPC" if tail.is_empty() => done(Request::Llrpc { name: handler, data: vec![] }),
        "LLRPC" => data(input, next, tail, closed, "llrpc", |data| {
            let data = data.to_vec();
            Request::Llrpc { name: handler, data }
        }),
        "HELP" => done(Request::Help),
        "QUIT" | "CLOSE" => done(Request::Quit(!rest.trim().is_empty())),
        _ => done(bad(501, format!("Command '{command}' unimplemented"))),
    }
}

fn word(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()))
}

/// Whether a line is none of this protocol's but the beginning of something else that a
/// browser sends: a request line of HTTP (RFC 9112, section 3; its third word is the
/// version, its second a path, a URL or `*`), a header (its first word ends with a
/// colon), or bytes, as those that a TLS connection begins with.
fn is_foreign(command: &str, second: &str, tail: &str) -> bool {
    let is_bytes = command.bytes().any(|byte| byte.is_ascii_control());
    let is_version = words(tail) == 1 && tail.trim_start().to_ascii_uppercase().starts_with("HTTP/");
    is_bytes || is_version || command.ends_with(':') || second.starts_with('/') || second.contains("://")
}

fn words(tail: &str) -> usize {
    tail.split_whitespace().count()
}

fn call(command: &str, handler: String, data: &[u8]) -> Request {
    match command.starts_with('R') {
        true => Request::Read { handler, parameter: text(data) },
        false => Request::Write { handler, value: text(data) },
    }
}

fn missing(input: &[u8], closed: bool) -> Parsed {
    match closed {
        true => Parsed::Request(bad(500, "Not enough data"), input.len()),
        false => Parsed::Wait,
    }
}

/// So many bytes behind the line.
fn data(
    input: &[u8],
    from: usize,
    length: &str,
    closed: bool,
    command: &str,
    request: impl FnOnce(&[u8]) -> Request,
) -> Parsed {
    let Ok(length) = length.parse::<usize>() else {
        return Parsed::Request(bad(500, format!("Syntax error in '{command}'")), from);
    };
    if length > MAX_DATA {
        let message = format!("Data too large, at most {MAX_DATA} bytes");
        return Parsed::Request(Request::Bad { code: 521, message, fatal: true }, input.len());
    }
    match input.get(from..from + length) {
        Some(data) => Parsed::Request(request(data), from + length),
        None => missing(input, closed),
    }
}

/// Lines up to one that equals `terminator`, spaces at its end aside.
fn until(
    input: &[u8],
    from: usize,
    terminator: &str,
    (closed, looked): (bool, &mut usize),
    request: impl FnOnce(&[u8]) -> Request,
) -> Parsed {
    let mut at = from.max(*looked);
    while let Some((found, next)) = line(input, at) {
        if found.trim_ascii_end() == terminator.as_bytes() {
            return Parsed::Request(request(&input[from..at]), next);
        }
        if next == input.len() && input.ends_with(b"\r") {
            break; // the other half of this line's end may come
        }
        at = next;
    }
    *looked = at;
    if input.len() - from > MAX_DATA {
        let message = format!("Data too large, at most {MAX_DATA} bytes");
        return Parsed::Request(Request::Bad { code: 521, message, fatal: true }, input.len());
    }
    missing(input, closed)
}

/// Appends a line of an answer; `more` when another one of the same follows.
pub fn say(out: &mut Vec<u8>, code: u16, more: bool, message: &str) {
    let line: String = message.bytes().map(printable).collect();
    out.extend_from_slice(format!("{code}{}{line}\r\n", if more { '-' } else { ' ' }).as_bytes());
}

/// A byte as lines show it: `^J` for a control character, octal for what is not ASCII.
fn printable(byte: u8) -> String {
    match byte {
        32..=126 => char::from(byte).to_string(),
        0..32 => format!("^{}", char::from(byte + 64)),
        _ => format!("\\{byte:03o}"),
    }
}

/// What is wrong with a binary call, as to its number and its data: a code, and words.
pub fn refuse_llrpc(name: &str, data: &[u8], read_only: bool) -> (u16, String) {
    let digits = name.split_once('#').map_or("", |(_, digits)| digits);
    let Ok(number) = u32::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16) else {
        return (500, format!("Syntax error in LLRPC name '{name}'"));
    };
    // Click's include/click/llrpc.h: how many bytes, which way, and whether that is all.
    let size = (number >> 16 & 0xFFF) as usize;
    let (takes, gives, flat) = (number >> 31 == 1, number >> 30 & 1 == 1, number >> 14 & 1 == 1);
    match (size > 0 && (takes || gives) && flat, read_only) {
        (false, _) => (501, format!("Cannot call LLRPC '{name}' remotely")),
        (_, true) => (530, format!("Permission denied for '{name}'")),
        _ if takes && data.len() != size => (522, format!("LLRPC '{name}' requires {size} bytes input data")),
        _ => (522, format!("LLRPC '{name}' error: Invalid argument")),
    }
}

/// Appends a message, and the lines that explain it.
pub fn say_all(out: &mut Vec<u8>, code: u16, message: &str, lines: &str) {
    let lines: Vec<&str> = lines.lines().filter(|l| !l.is_empty()).collect();
    if lines.is_empty() {
        return say(out, code, false, message);
    }
    say(out, code, true, &format!("{message}:"));
    for (i, line) in lines.iter().enumerate() {
        say(out, code, i + 1 < lines.len(), line);
    }
}

/// Appends what a handler read.
pub fn say_data(out: &mut Vec<u8>, data: &str) {
    out.extend_from_slice(format!("DATA {}\r\n{data}", data.len()).as_bytes());
}

/// What `HELP` answers.
pub const HELP: &[&str] = &[
    "Commands supported:",
    "READ handler [arg...]   reads a handler, returns DATA",
    "READDATA handler n      reads a handler with n bytes of data, returns DATA",
    "READUNTIL handler end   reads a handler with lines up to end, returns DATA",
    "WRITE handler [arg...]  writes a handler",
    "WRITEDATA handler n     writes n bytes of data to a handler",
    "WRITEUNTIL handler end  writes lines up to end to a handler",
    "CHECKREAD handler       whether a handler can be read",
    "CHECKWRITE handler      whether a handler can be written",
    "LLRPC elt#number [n]    makes a binary call with n bytes of data, returns DATA",
    "QUIT                    closes the connection",
];
