//! HTTP: what each request is answered with, and that it does not matter where requests are
//! cut and how little room there is for answers.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use service::http::{Files, Session};
use service::{Buffer, Http, Output, Protocol};

const START_S: i64 = 784_111_777;
const HOST: &str = "Host: here\r\n";

/// A server of some files and a client of it.
struct Client {
    server: Http,
    session: Session,
    output: Buffer,
    has_ended: bool,
}

/// An answer as a client reads it.
#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}: ")))?;
        line.split_once(": ").map(|(_, value)| value)
    }
}

fn write(root: &Path, name: &str, body: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, body).unwrap();
}

fn files() -> Arc<Files> {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "index.html", b"<p>index</p>");
    write(root.path(), "a.txt", b"0123456789");
    write(root.path(), "sub dir/index.html", b"below");
    write(root.path(), "large.bin", &vec![7; 100_000]);
    write(root.path(), "empty", b"");
    write(root.path(), ".secret", b"nobody's");
    std::os::unix::fs::symlink("/etc/passwd", root.path().join("link")).unwrap();
    Arc::new(Files::read(root.path(), 1 << 20).unwrap())
}

impl Client {
    fn new(files: &Arc<Files>) -> Client {
        let server = Http::new(files.clone(), START_S);
        Client { server, session: Session::default(), output: Buffer::default(), has_ended: false }
    }

    fn ask_in(&mut self, request: &[u8], piece: usize, room: usize) -> Vec<u8> {
        for piece in request.chunks(piece) {
            let mut rest = piece;
            while !self.has_ended {
                self.output.room = room;
                let taken = self.server.take(&mut self.session, rest, &mut self.output);
                rest = &rest[taken.used..];
                self.has_ended |= taken.ends;
                let is_waiting = self.server.is_answering(&self.session) || self.output.is_full();
                if rest.is_empty() && !is_waiting {
                    break;
                }
            }
        }
        std::mem::take(&mut self.output.bytes)
    }

    /// Sends one request on a connection of its own; its answer.
    fn once(files: &Arc<Files>, request: &str) -> (Answer, bool) {
        let mut client = Client::new(files);
        let answer = client.ask_in(request.as_bytes(), usize::MAX, usize::MAX);
        let mut answers = parse(&answer, !request.starts_with("HEAD"));
        assert_eq!(answers.len(), 1, "{request}: {answers:?}");
        (answers.remove(0), client.has_ended)
    }
}

/// Reads answers in a row.
fn parse(mut bytes: &[u8], has_bodies: bool) -> Vec<Answer> {
    let mut answers = vec![];
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: vec![] };
        let len = answer.field("content-length").map_or(0, |len| len.parse().unwrap());
        let len = if has_bodies { len } else { 0 };
        answer.body = bytes[end..end + len].to_vec();
        bytes = &bytes[end + len..];
        answers.push(answer);
    }
    answers
}

/// The answer to GET of a path, with fields of the request.
fn get(files: &Arc<Files>, path: &str, fields: &str) -> Answer {
    Client::once(files, &format!("GET {path} HTTP/1.1\r\n{HOST}{fields}\r\n")).0
}

#[test]
fn files_are_found_by_their_paths_and_nothing_else_is() {
    let files = files();
    let index = get(&files, "/", "");
    assert_eq!((index.status, &index.body[..]), (200, &b"<p>index</p>"[..]));
    assert_eq!(index.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(index.field("date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(get(&files, "/index.html?x=1", ""), index);
    for absolute in
        ["http://elsewhere/index.html", "HTTP://elsewhere", "https://elsewhere?next=/a.txt#/a.txt"]
    {
        assert_eq!(get(&files, absolute, ""), index, "{absolute}");
    }
    assert_eq!(get(&files, "/sub%20dir/", "").body, b"below");
    let moved = get(&files, "/sub%20dir", "");
    assert_eq!((moved.status, moved.field("location")), (301, Some("/sub%20dir/")));
    let moved = get(&files, "/sub%20dir?a=/b#c", "");
    assert_eq!((moved.status, moved.field("location")), (301, Some("/sub%20dir/?a=/b")));
    assert_eq!((get(&files, "/large.bin", "").body.len(), get(&files, "/empty", "").status), (100_000, 200));
    for nothing in
        ["/nothing", "/../../etc/passwd", "/%2e%2e/etc/passwd", "/link", "/.secret", "//a.txt", "*"]
    {
        assert_eq!(get(&files, nothing, "").status, 404, "{nothing}");
    }
}

#[test]
fn requests_are_refused_by_their_form() {
    let files = files();
    let long = "x".repeat(9000);
    let many = "A: b\r\n".repeat(65);
    let cases = [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{HOST}{HOST}\r\n"), 400),
        (format!("GET nowhere HTTP/1.1\r\n{HOST}\r\n"), 400),
        (format!("GET /%zz HTTP/1.1\r\n{HOST}\r\n"), 400),
        (format!("GET /a%00b HTTP/1.1\r\n{HOST}\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{HOST}Content-Length: x\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{HOST}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{HOST}A b: c\r\n\r\n"), 400),
        ("\u{1}\u{2}\r\n\r\n".to_owned(), 400),
        (format!("PUT / HTTP/1.1\r\n{HOST}Content-Length: 9999999\r\n\r\n"), 413),
        (format!("GET /{long} HTTP/1.1\r\n{HOST}\r\n"), 414),
        (format!("GET / HTTP/1.1\r\n{HOST}A: {long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{HOST}{many}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip, chunked\r\n\r\n"), 501),
        (format!("GET / HTTP/2.0\r\n{HOST}\r\n"), 505),
        (format!("GET / HTTP/0.9\r\n{HOST}\r\n"), 505),
        (format!("GET /a HTTP/1.2 HTTP/1.9\r\n{HOST}\r\n"), 400),
        ("GET / HTTP/1.9\r\n\r\n".to_owned(), 400),
        (format!("GET /a b HTTP/1.1\r\n{HOST}\r\n"), 400),
    ];
    for (request, status) in cases {
        let (answer, has_ended) = Client::once(&files, &request);
        assert_eq!((answer.status, has_ended), (status, true), "{request:?}");
        assert_eq!(answer.field("connection"), Some("close"));
    }
    let (answer, has_ended) = Client::once(&files, &format!("DELETE / HTTP/1.1\r\n{HOST}\r\n"));
    assert_eq!((answer.status, answer.field("allow"), has_ended), (405, Some("GET, HEAD"), false));
    assert_eq!(Client::once(&files, &format!("BREW / HTTP/1.1\r\n{HOST}\r\n")).0.status, 501);
}

/// RFC 9112, section 3.2: what is no host, with or without a port, is refused.
#[test]
fn hosts_have_their_form() {
    let files = files();
    let status =
        |host: &str| Client::once(&files, &format!("GET /a.txt HTTP/1.1\r\nHost:{host}\r\n\r\n")).0.status;
    for host in [
        "",
        " ",
        " a",
        " a-b.c_d~:80",
        " 10.0.0.2:",
        " [fd00::2]",
        " [::1]:8080",
        " %41!$&'()*+,;=",
        " a \t",
        " [fe80::1%25eth0]:80",
        " [v1.a:b]",
    ] {
        assert_eq!(status(host), 200, "{host}");
    }
    for host in [
        " a b", " a/b", " u@a", " a?", " a#", " a:b", " a:80:80", " [::1", " ::1", " [::1]x", " [g:]", " []",
        " [v1.]", " a,b c", " \"a\"", " a\u{e9}",
    ] {
        assert_eq!(status(host), 400, "{host}");
    }
}

/// RFC 9110, section 2.5: a minor version that is not known is that which is, and 9.3.7: what a server can
/// do is told of it as a whole.
#[test]
fn later_versions_and_questions_about_the_server_are_answered() {
    let files = files();
    for version in ["1.2", "1.9"] {
        let (answer, has_ended) = Client::once(&files, &format!("GET /a.txt HTTP/{version}\r\n{HOST}\r\n"));
        assert_eq!(
            (answer.status, &answer.body[..], has_ended),
            (200, &b"0123456789"[..], false),
            "{version}"
        );
    }
    let (answer, has_ended) = Client::once(&files, &format!("OPTIONS * HTTP/1.1\r\n{HOST}\r\n"));
    assert_eq!((answer.status, &answer.body[..], has_ended), (200, &b""[..], false));
    assert_eq!(
        (answer.field("allow"), answer.field("content-length")),
        (Some("GET, HEAD, OPTIONS"), Some("0"))
    );
    assert_eq!(Client::once(&files, &format!("OPTIONS /a.txt HTTP/1.1\r\n{HOST}\r\n")).0.status, 405);
    assert_eq!(Client::once(&files, &format!("GET * HTTP/1.1\r\n{HOST}\r\n")).0.status, 404);
}

/// RFC 9110, section 5.3: a list may stand in several lines.
#[test]
fn tags_of_several_lines_are_one_list() {
    let files = files();
    let tag = get(&files, "/a.txt", "").field("etag").unwrap().to_owned();
    for (name, found, other) in [("If-Match", 200, 412), ("If-None-Match", 304, 200)] {
        for lines in [[&tag[..], "\"x\""], ["\"x\"", &tag]] {
            let fields = lines.map(|line| format!("{name}: {line}\r\n")).concat();
            assert_eq!(get(&files, "/a.txt", &fields).status, found, "{fields}");
        }
        let fields = format!("{name}: \"x\"\r\n{name}: \"y\"\r\n");
        assert_eq!(get(&files, "/a.txt", &fields).status, other, "{fields}");
    }
}

#[test]
fn connections_stay_open_as_versions_and_fields_say() {
    let files = files();
    let cases = [
        ("HTTP/1.1", "", false, None),
        ("HTTP/1.1", "Connection: close\r\n", true, Some("close")),
        ("HTTP/1.1", "Connection: upgrade, CLOSE\r\n", true, Some("close")),
        ("HTTP/1.0", "", true, Some("close")),
        ("HTTP/1.0", "Connection: Keep-Alive\r\n", false, Some("keep-alive")),
        ("HTTP/1.1", "Content-Length: 5\r\nExpect: 100-continue\r\n", true, Some("close")),
    ];
    for (version, fields, ends, said) in cases {
        let (answer, has_ended) = Client::once(&files, &format!("GET / {version}\r\n{HOST}{fields}\r\n"));
        assert_eq!((answer.status, has_ended, answer.field("connection")), (200, ends, said), "{fields}");
    }
}

#[test]
fn content_of_requests_is_passed_over() {
    let files = files();
    let get = format!("GET /a.txt HTTP/1.1\r\n{HOST}\r\n");
    let contents = [
        "Content-Length: 20\r\n\r\nGET / HTTP/1.1\r\n\r\nxx".to_owned(),
        "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nGET /\r\n0A\r\n0123456789\r\n0\r\nT: x\r\n\r\n"
            .to_owned(),
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
    ];
    for content in contents {
        let mut client = Client::new(&files);
        let request = format!("POST / HTTP/1.1\r\n{HOST}{content}\r\n\r\n{get}");
        let answers = parse(&client.ask_in(request.as_bytes(), 3, usize::MAX), true);
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!((statuses, client.has_ended), (vec![405, 200], false), "{content}");
    }
    let wrong = [
        "x\r\n",
        "\r\n",
        "fffffffffffff\r\n",
        "100001\r\n",
        // Lines and chunks end with CR and LF, and with nothing else (section 7.1).
        "5\r\n01234xx0\r\n\r\n",
        "5\r\n01234\n\n0\r\n\r\n",
        "5\n01234\r\n0\r\n\r\n",
        "1\r1\r\n",
        "\r5\r\n01234\r\n0\r\n\r\n",
        "5\r\r\n01234\r\n0\r\n\r\n",
        "5;a\n01234\r\n0\r\n\r\n",
        "5;a\rb\r\n01234\r\n0\r\n\r\n",
        "0\r\nT: x\n\r\n",
        "0\r\n\n",
    ];
    for wrong in wrong {
        let mut client = Client::new(&files);
        let request = format!("GET / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n{wrong}{get}");
        let mut all = request.into_bytes();
        all.resize(all.len() + (2 << 20), b'x');
        let answers = parse(&client.ask_in(&all, 10_000, usize::MAX), true);
        assert_eq!((answers.len(), client.has_ended), (1, true), "{wrong}");
    }
}

#[test]
fn ranges_are_parts_of_the_file() {
    let files = files();
    let whole = get(&files, "/a.txt", "");
    let cases: [(&str, u16, &[u8], Option<&str>); 16] = [
        ("bytes=0-0", 206, b"0", Some("bytes 0-0/10")),
        ("bytes=2-4", 206, b"234", Some("bytes 2-4/10")),
        ("bytes=7-", 206, b"789", Some("bytes 7-9/10")),
        ("bytes=-3", 206, b"789", Some("bytes 7-9/10")),
        ("bytes=-99", 206, b"0123456789", Some("bytes 0-9/10")),
        ("bytes=5-99999999999999999999", 206, b"56789", Some("bytes 5-9/10")),
        ("bytes=-99999999999999999999", 206, b"0123456789", Some("bytes 0-9/10")),
        ("bytes=99999999999999999999-", 416, b"416 Range Not Satisfiable\n", Some("bytes */10")),
        (
            "bytes=99999999999999999999-99999999999999999999",
            416,
            b"416 Range Not Satisfiable\n",
            Some("bytes */10"),
        ),
        ("BYTES=2-4", 206, b"234", Some("bytes 2-4/10")),
        ("bytes=5-9999999999999999999x", 200, b"0123456789", None),
        ("bytes=10-", 416, b"416 Range Not Satisfiable\n", Some("bytes */10")),
        ("bytes=-0", 416, b"416 Range Not Satisfiable\n", Some("bytes */10")),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("bytes=4-2", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
    ];
    for (range, status, body, content_range) in cases {
        let answer = get(&files, "/a.txt", &format!("Range: {range}\r\n"));
        let seen = (answer.status, &answer.body[..], answer.field("content-range"));
        assert_eq!(seen, (status, body, content_range), "{range}");
    }
    let tag = whole.field("etag").unwrap();
    let with =
        |if_range: &str| get(&files, "/a.txt", &format!("Range: bytes=1-2\r\nIf-Range: {if_range}\r\n"));
    assert_eq!((with(tag).status, with("\"other\"").status), (206, 200));
    assert_eq!(with(whole.field("last-modified").unwrap()).status, 206);
    assert_eq!(with(&format!("W/{tag}")).status, 200);
}

#[test]
fn conditions_are_looked_at_in_their_order() {
    let files = files();
    let whole = get(&files, "/a.txt", "");
    let (tag, time) = (whole.field("etag").unwrap(), whole.field("last-modified").unwrap());
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    let cases = [
        (format!("If-None-Match: {tag}"), 304),
        (format!("If-None-Match: \"a\", W/{tag}"), 304),
        ("If-None-Match: *".to_owned(), 304),
        ("If-None-Match: \"a\"".to_owned(), 200),
        (format!("If-Modified-Since: {time}"), 304),
        (format!("If-Modified-Since: {old}"), 200),
        ("If-Modified-Since: sometimes".to_owned(), 200),
        (format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {time}"), 200),
        (format!("If-Match: {tag}"), 200),
        (format!("If-Match: W/{tag}"), 412),
        (format!("If-Unmodified-Since: {old}"), 412),
        (format!("If-Unmodified-Since: {time}"), 200),
    ];
    for (field, status) in cases {
        let answer = get(&files, "/a.txt", &format!("{field}\r\n"));
        assert_eq!(answer.status, status, "{field}");
        assert!(status != 304 || (answer.body.is_empty() && answer.field("etag") == Some(tag)), "{field}");
    }
}

#[test]
fn head_tells_what_get_would() {
    let files = files();
    for path in ["/a.txt", "/nothing", "/sub%20dir"] {
        let (head, _) = Client::once(&files, &format!("HEAD {path} HTTP/1.1\r\n{HOST}\r\n"));
        let whole = get(&files, path, "");
        assert_eq!((head.head, head.body), (whole.head, vec![]), "{path}");
    }
}

#[test]
fn more_files_than_there_is_room_for_are_refused() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a", &[0; 600]);
    assert_eq!(Files::read(root.path(), 1000).unwrap().len(), 1);
    write(root.path(), "b", &[0; 600]);
    let error = Files::read(root.path(), 1000).unwrap_err().to_string();
    assert!(error.contains("larger than 1000 bytes"), "{error}");
    assert!(Files::read(&root.path().join("nothing"), 1000).is_err());
}

fn request() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec!["/", "/a.txt", "/nothing", "/large.bin", "/sub%20dir", "/%zz"]);
    let line = prop::sample::select(vec!["GET", "HEAD", "POST", "BREW"]);
    let field = prop::sample::select(vec![
        "",
        "Range: bytes=2-90000\r\n",
        "If-None-Match: *\r\n",
        "A: b\r\nC: d\r\n",
        "Connection: close\r\n",
    ]);
    let content = prop::sample::select(vec![
        "\r\n",
        "Content-Length: 4\r\n\r\nGET ",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n",
        "\r\n\r\n",
    ]);
    (line, path, field, content)
        .prop_map(|(line, path, field, content)| format!("{line} {path} HTTP/1.1\r\n{HOST}{field}{content}"))
}

proptest! {
    #[test]
    fn answers_are_the_same_wherever_requests_are_cut(
        requests in prop::collection::vec(request(), 1..8),
        piece in 1..300_usize,
        room in 1..3000_usize,
    ) {
        let (all, files) = (requests.concat(), files());
        let mut client = Client::new(&files);
        let whole = client.ask_in(all.as_bytes(), usize::MAX, usize::MAX);
        for (piece, room) in [(1, usize::MAX), (piece, room)] {
            let mut other = Client::new(&files);
            prop_assert!(other.ask_in(all.as_bytes(), piece, room) == whole);
            prop_assert_eq!(other.has_ended, client.has_ended);
        }
    }

    #[test]
    fn any_bytes_are_answered_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..500), piece in 1..50_usize) {
        let files = Arc::new(Files::fixed(b"body".to_vec(), START_S));
        let mut client = Client::new(&files);
        client.ask_in(&bytes, piece, 100);
        let request = format!("GET / HTTP/1.1\r\n{HOST}");
        client.ask_in(&[request.as_bytes(), &bytes, b"\r\n\r\n"].concat(), piece, 100);
        prop_assert!(client.server.held(&client.session) <= 16_384);
    }
}
