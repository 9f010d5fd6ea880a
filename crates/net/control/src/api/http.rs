//! Requests and answers of HTTP/1.1 (RFC 9112), as much as the API needs: GET, PUT and DELETE,
//! bodies with a length, several requests one after the other. What HTTP can do beyond that is
//! refused.

use serde_json::Value as Json;

/// Bytes of a request's head, at most.
pub const MAX_HEAD: usize = 8 << 10;
/// Bytes of a request's body, at most: a flood list of the greatest length fits.
pub const MAX_BODY: usize = 256 << 10;
/// Fields of a head, at most.
const MAX_FIELDS: usize = 64;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The client reads what there is.
    Get,
    /// The client writes what the body says.
    Put,
    /// The client deletes what there is.
    Delete,
}

/// A request, in the bytes that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// What is asked for.
    pub method: Method,
    /// The path, without the query.
    pub path: &'a str,
    /// The query behind the path, without its mark.
    pub query: &'a str,
    /// The body: all bytes of the length that the request says.
    pub body: &'a [u8],
    /// Whether the connection goes on afterwards.
    pub keeps: bool,
}

/// What the front of a connection's bytes is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The beginning of a request, which has so many bytes at least.
    Partial(usize),
    /// A request, and how many bytes it has.
    Whole(Request<'a>, usize),
    /// What cannot be answered: a status and why. The connection ends.
    Bad(u16, &'static str),
}

/// Reads the request at the front of some bytes. By TCP, the machine must be named by an
/// address or as `localhost`, so that no page of a stranger's reaches it by a name that was
/// made to lead here (DNS rebinding).
pub fn parse(bytes: &[u8], is_tcp: bool) -> Parsed<'_> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let limited = &bytes[..bytes.len().min(MAX_HEAD)];
    let length = match head.parse(limited) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if limited.len() < MAX_HEAD => {
            return Parsed::Partial(limited.len() + 1);
        }
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Parsed::Bad(431, "the head is too long");
        }
        Err(_) => return Parsed::Bad(400, "this is not HTTP/1.1"),
    };
    match request(&head, is_tcp) {
        Err((status, why)) => Parsed::Bad(status, why),
        Ok((request, body)) => match bytes.get(length..).and_then(|rest| rest.get(..body)) {
            Some(body) => Parsed::Whole(Request { body, ..request }, length + body.len()),
            None => Parsed::Partial(length + body),
        },
    }
}

/// A request without its body, and the body's length.
fn request<'a>(
    head: &httparse::Request<'_, 'a>,
    is_tcp: bool,
) -> Result<(Request<'a>, usize), (u16, &'static str)> {
    let method = match head.method {
        Some("GET") => Method::Get,
        Some("PUT") => Method::Put,
        Some("DELETE") => Method::Delete,
        _ => return Err((405, "the API has GET, PUT and DELETE")),
    };
    let target = head.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut hosts = values(head, "host");
    let host = match (head.version, hosts.next(), hosts.next()) {
        (Some(0), None, _) => None,
        (_, Some(host), None) => Some(host),
        _ => return Err((400, "name the host, and once (RFC 9112, section 3.2)")),
    };
    if is_tcp && !host.is_none_or(is_known_host) {
        return Err((421, "ask by an address or as localhost"));
    }
    if values(head, "origin").next().is_some() {
        return Err((403, "pages in browsers are not answered"));
    }
    if values(head, "transfer-encoding").next().is_some() {
        return Err((411, "give the body's length: Content-Length"));
    }
    let mut lengths = values(head, "content-length");
    let body = match (lengths.next(), lengths.next()) {
        (None, _) => 0,
        (Some(length), None) if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            length.parse().unwrap_or(usize::MAX)
        }
        _ => return Err((400, "Content-Length is not a number")),
    };
    if body > MAX_BODY {
        return Err((413, "the body is too long"));
    }
    let says = |what: &str| {
        let mut options = values(head, "connection").flat_map(|value| value.split(','));
        options.any(|option| option.trim().eq_ignore_ascii_case(what))
    };
    let keeps = if head.version == Some(1) { !says("close") } else { says("keep-alive") };
    Ok((Request { method, path, query, body: &[], keeps }, body))
}

/// The values of a head's fields of a name; one that is no text is as an empty one.
fn values<'a>(head: &httparse::Request<'_, 'a>, name: &'static str) -> impl Iterator<Item = &'a str> {
    let fields = head.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    fields.map(|field| std::str::from_utf8(field.value).unwrap_or("").trim())
}

/// Whether a `Host` (RFC 9110, section 7.2) is an address or `localhost`, with a port or
/// without.
fn is_known_host(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => return address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.parse::<std::net::Ipv4Addr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

impl<'a> Request<'a> {
    /// The names of all parameters in the query.
    pub fn parameters(&self) -> impl Iterator<Item = &'a str> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
    }

    /// The value of a parameter in the query.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find_map(|(is, value)| (is == name).then_some(value))
    }
}

/// An answer, before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body; none in an empty answer.
    pub body: String,
    /// What the body is.
    pub content_type: &'static str,
}

const JSON: &str = "application/json";

impl Response {
    /// An answer with a body.
    pub fn json(status: u16, body: &Json) -> Response {
        Response { status, body: body.to_string(), content_type: JSON }
    }

    /// An answer with a body that is JSON already.
    pub fn text(status: u16, body: &str) -> Response {
        Response { status, body: body.into(), content_type: JSON }
    }

    /// An answer with metrics, as Prometheus reads them (exposition format 0.0.4).
    pub fn metrics(body: String) -> Response {
        Response { status: 200, body, content_type: "text/plain; version=0.0.4" }
    }

    /// An answer without a body.
    pub fn empty(status: u16) -> Response {
        Response { status, body: String::new(), content_type: JSON }
    }

    /// The answer's bytes.
    pub fn bytes(&self, keeps: bool) -> Vec<u8> {
        let connection = if keeps { "keep-alive" } else { "close" };
        let head =
            format!("HTTP/1.1 {} {}\r\nConnection: {connection}\r\n", self.status, reason(self.status));
        let about = match self.status {
            204 => String::new(), // RFC 9110, section 8.6: no length
            _ => format!("Content-Type: {}\r\nContent-Length: {}\r\n", self.content_type, self.body.len()),
        };
        [head.as_bytes(), about.as_bytes(), b"\r\n", self.body.as_bytes()].concat()
    }
}

/// The words for a status (RFC 9110, section 15).
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        507 => "Insufficient Storage",
        _ => "Error",
    }
}
