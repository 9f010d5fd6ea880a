//! Heads of requests (RFC 9112, sections 3 and 6), read by `httparse`.

/// The most header fields of a request.
const MAX_FIELDS: usize = 64;

/// The status of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u16, pub &'static str);

/// The statuses that there are here (RFC 9110, section 15).
#[allow(missing_docs, reason = "the names are those of RFC 9110")]
impl Status {
    pub const OK: Status = Status(200, "OK");
    pub const PARTIAL_CONTENT: Status = Status(206, "Partial Content");
    pub const MOVED_PERMANENTLY: Status = Status(301, "Moved Permanently");
    pub const NOT_MODIFIED: Status = Status(304, "Not Modified");
    pub const BAD_REQUEST: Status = Status(400, "Bad Request");
    pub const NOT_FOUND: Status = Status(404, "Not Found");
    pub const METHOD_NOT_ALLOWED: Status = Status(405, "Method Not Allowed");
    pub const PRECONDITION_FAILED: Status = Status(412, "Precondition Failed");
    pub const CONTENT_TOO_LARGE: Status = Status(413, "Content Too Large");
    pub const URI_TOO_LONG: Status = Status(414, "URI Too Long");
    pub const RANGE_NOT_SATISFIABLE: Status = Status(416, "Range Not Satisfiable");
    pub const FIELDS_TOO_LARGE: Status = Status(431, "Request Header Fields Too Large");
    pub const NOT_IMPLEMENTED: Status = Status(501, "Not Implemented");
    pub const VERSION_NOT_SUPPORTED: Status = Status(505, "HTTP Version Not Supported");
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The file is wanted, with what is told of it (GET).
    Get,
    /// What is told of the file.
    Head,
    /// What the server can do (OPTIONS, of no file).
    Options,
    /// A method that there is, for no file.
    Other,
    /// No method that is known.
    Unknown,
}

/// The content of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// So many bytes, mostly none.
    Length(u64),
    /// Chunks, each with its length.
    Chunked,
}

/// A request as far as it matters here.
#[derive(Debug)]
pub struct Request<'a> {
    /// What is to be done.
    pub method: Method,
    /// The path, with its escapes undone.
    pub path: Vec<u8>,
    /// The query with its question mark, as it stands there.
    pub query: &'a [u8],
    /// Whether more requests may follow.
    pub keeps_alive: bool,
    /// HTTP/1.0, where that must be said.
    pub is_old: bool,
    /// What follows the head.
    pub content: Content,
    /// Fields that say what is wanted of the file.
    pub fields: Fields<'a>,
}

/// Fields of conditions and ranges (RFC 9110, sections 13 and 14).
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the names are those of the fields")]
pub struct Fields<'a> {
    pub if_match: Vec<&'a [u8]>,
    pub if_none_match: Vec<&'a [u8]>,
    pub if_modified_since: Option<&'a [u8]>,
    pub if_unmodified_since: Option<&'a [u8]>,
    pub if_range: Option<&'a [u8]>,
    pub range: Option<&'a [u8]>,
}

/// What fields say about the message itself.
#[derive(Default)]
struct Framing {
    hosts: usize,
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
    keeps: bool,
    expects: bool,
}

/// Reads a whole head.
///
/// # Errors
/// The status that it is refused with; the connection cannot go on.
pub fn parse(head: &[u8]) -> Result<Request<'_>, Status> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Status::FIELDS_TOO_LARGE),
        Err(httparse::Error::Version) => return Err(bad_version(head)),
        _ => return Err(Status::BAD_REQUEST),
    }
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(Status::BAD_REQUEST);
    };
    let (mut framing, mut wanted) = (Framing::default(), Fields::default());
    for field in parsed.headers.iter() {
        take_field(field.name, field.value, &mut framing, &mut wanted)?;
    }
    let is_old = version == 0;
    // RFC 9112, section 3.2: one Host, and not more; section 6.1: not both framings.
    if (!is_old && framing.hosts != 1) || framing.hosts > 1 {
        return Err(Status::BAD_REQUEST);
    }
    if framing.is_chunked && (framing.length.is_some() || is_old) {
        return Err(Status::BAD_REQUEST);
    }
    let content = match framing.is_chunked {
        true => Content::Chunked,
        false => Content::Length(framing.length.unwrap_or(0)),
    };
    let (path, query) = split(target).ok_or(Status::BAD_REQUEST)?;
    // An answer comes at once: whether content still follows that was to be asked for is not
    // known (RFC 9110, section 10.1.1).
    let is_unsure = framing.expects && content != Content::Length(0);
    Ok(Request {
        method: match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "OPTIONS" if path == b"*" => Method::Options,
            "POST" | "PUT" | "DELETE" | "OPTIONS" | "TRACE" | "CONNECT" | "PATCH" => Method::Other,
            _ => Method::Unknown,
        },
        path: unescaped(path).ok_or(Status::BAD_REQUEST)?,
        query,
        keeps_alive: !framing.closes && !is_unsure && (!is_old || framing.keeps),
        is_old,
        content,
        fields: wanted,
    })
}

/// A version that is no HTTP/1, or nothing like a version.
fn bad_version(head: &[u8]) -> Status {
    let line = head.split(|byte| *byte == b'\n').find(|line| line.len() > 1).unwrap_or_default();
    let mut words = line.trim_ascii().split(|byte| *byte == b' ');
    let (last, more) = (words.nth(2).unwrap_or_default(), words.next());
    match last.strip_prefix(b"HTTP/").filter(|_| more.is_none()) {
        Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit() => {
            Status::VERSION_NOT_SUPPORTED
        }
        _ => Status::BAD_REQUEST,
    }
}

/// A head whose version is HTTP/1 with a later minor number, as one of the last that is known (RFC
/// 9110, section 2.5); `None` for another.
pub fn of_known_version(head: &[u8]) -> Option<Vec<u8>> {
    let start = head.iter().position(|byte| !b"\r\n".contains(byte))?;
    let line = head[start..].split(|byte| *byte == b'\n').next()?.trim_ascii_end();
    let [before @ .., b'2'..=b'9'] = line else { return None };
    let mut known = head.to_vec();
    *known.get_mut(start + before.len())? = b'1';
    before.ends_with(b" HTTP/1.").then_some(known)
}

/// Whether a field has the form of a host, with or without a port, or is empty (RFC 9110, section
/// 7.2; RFC 3986, section 3.2.2).
fn is_host(value: &[u8]) -> bool {
    if let Some(literal) = value.strip_prefix(b"[") {
        let Some(end) = literal.iter().position(|byte| *byte == b']') else { return false };
        return is_literal(&literal[..end]) && is_port(&literal[end + 1..]);
    }
    let is_of_name = |byte: &u8| {
        let is_mark =
            matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&'..=b',' | b';' | b'=');
        byte.is_ascii_alphanumeric() || is_mark
    };
    let end = value.iter().position(|byte| !is_of_name(byte)).unwrap_or(value.len());
    is_port(&value[end..])
}

/// Whether this has the form of an address of IPv6, perhaps with a zone (RFC 6874), or of a later version of
/// IP.
fn is_literal(literal: &[u8]) -> bool {
    let is_of_zone = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(byte);
    if let [b'v' | b'V', version, b'.', address @ ..] = literal {
        let is_of_address = |byte: &u8| is_of_zone(byte) || b":!$&'()*+,;=".contains(byte);
        return version.is_ascii_hexdigit() && !address.is_empty() && address.iter().all(is_of_address);
    }
    let end = literal.iter().position(|byte| *byte == b'%').unwrap_or(literal.len());
    let (address, zone) = literal.split_at(end);
    let is_of_address = |byte: &u8| byte.is_ascii_hexdigit() || b":.".contains(byte);
    !address.is_empty() && address.iter().all(is_of_address) && zone.iter().all(is_of_zone)
}

/// Whether nothing stands there, or a colon with digits.
fn is_port(text: &[u8]) -> bool {
    text.is_empty() || text.strip_prefix(b":").is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

/// Takes a field that matters here.
fn take_field<'a>(
    name: &str,
    value: &'a [u8],
    framing: &mut Framing,
    wanted: &mut Fields<'a>,
) -> Result<(), Status> {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let place = match () {
        () if is("host") => {
            framing.hosts += 1;
            return if is_host(value) { Ok(()) } else { Err(Status::BAD_REQUEST) };
        }
        () if is("content-length") => return take_length(value, framing),
        () if is("transfer-encoding") => {
            let is_known = value.trim_ascii().eq_ignore_ascii_case(b"chunked") && !framing.is_chunked;
            framing.is_chunked = true;
            return if is_known { Ok(()) } else { Err(Status::NOT_IMPLEMENTED) };
        }
        () if is("connection") => {
            for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                framing.closes |= word.eq_ignore_ascii_case(b"close");
                framing.keeps |= word.eq_ignore_ascii_case(b"keep-alive");
            }
            return Ok(());
        }
        () if is("expect") => {
            framing.expects = true;
            return Ok(());
        }
        // The lines of a list are one list (RFC 9110, section 5.3).
        () if is("if-match") => {
            wanted.if_match.push(value);
            return Ok(());
        }
        () if is("if-none-match") => {
            wanted.if_none_match.push(value);
            return Ok(());
        }
        () if is("if-modified-since") => &mut wanted.if_modified_since,
        () if is("if-unmodified-since") => &mut wanted.if_unmodified_since,
        () if is("if-range") => &mut wanted.if_range,
        () if is("range") => &mut wanted.range,
        () => return Ok(()),
    };
    *place = Some(value);
    Ok(())
}

/// A length that is a number, and the same wherever it is told (RFC 9112, section 6.3).
fn take_length(value: &[u8], framing: &mut Framing) -> Result<(), Status> {
    for word in value.split(|byte| *byte == b',') {
        let length = crate::text::number(word.trim_ascii()).ok_or(Status::BAD_REQUEST)?;
        if framing.length.replace(length).is_some_and(|before| before != length) {
            return Err(Status::BAD_REQUEST);
        }
    }
    Ok(())
}

/// The path and the query of a target, without scheme, authority and fragment.
fn split(target: &str) -> Option<(&[u8], &[u8])> {
    let target = target.as_bytes();
    let scheme = target.windows(3).position(|three| three == b"://").unwrap_or(0);
    let is_absolute = [&b"http"[..], b"https"].iter().any(|it| target[..scheme].eq_ignore_ascii_case(it));
    let target = match is_absolute {
        true => {
            // The authority ends there (RFC 3986, section 3.2).
            let rest = &target[scheme + 3..];
            &rest[rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len())..]
        }
        false => target,
    };
    let end = target.iter().position(|byte| *byte == b'#').unwrap_or(target.len());
    let path_end = target[..end].iter().position(|byte| *byte == b'?').unwrap_or(end);
    let (path, query) = target[..end].split_at(path_end);
    match path {
        b"" if is_absolute => Some((b"/", query)),
        b"*" | [b'/', ..] => Some((path, query)),
        _ => None,
    }
}

/// A path with its escapes undone.
fn unescaped(path: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = path.iter();
    let mut path = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => hex(*bytes.next()?)? << 4 | hex(*bytes.next()?)?,
            byte => *byte,
        };
        if byte == 0 {
            return None;
        }
        path.push(byte);
    }
    Some(path)
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}
