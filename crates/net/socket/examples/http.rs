//! An HTTP server by blocking streams: a thread for each connection, as with `std::net`.
//!
//! `cargo run --release -p ixora-socket --example http [tap:ixora0 10.9.9.2/24]`, and then
//! `curl http://10.9.9.2/hello`

mod support;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::thread;

use socket::blocking::{TcpListener, TcpStream};
use socket::{Limits, Network};

const PORT: u16 = 80;
/// The longest head of a request in bytes.
const HEAD: u64 = 8192;

/// Answers requests until the client ends.
fn serve(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(support::LIMIT))?;
    stream.set_write_timeout(Some(support::LIMIT))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = (&mut reader).take(HEAD).lines();
        let Some(request) = head.next().transpose()? else { return Ok(()) };
        let is_whole = head.map_while(io::Result::ok).any(|line| line.is_empty());
        let mut words = request.split(' ');
        let (status, text) = match (is_whole, words.next(), words.next()) {
            (true, Some("GET"), Some(path)) => ("200 OK", format!("you asked for {path}\n")),
            (true, Some(_), Some(_)) => ("501 Not Implemented", String::new()),
            _ => ("400 Bad Request", String::new()),
        };
        let is_last = status != "200 OK";
        let connection = if is_last { "close" } else { "keep-alive" };
        let len = text.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\n\
             Connection: {connection}\r\n\r\n"
        );
        let mut writer = stream;
        writer.write_all((head + &text).as_bytes())?;
        if is_last {
            return Ok(());
        }
    }
}

/// Accepts connections until the host ends; `Limits::connections` bounds the threads.
fn accept(listener: &TcpListener) {
    while let Ok((stream, peer)) = listener.accept() {
        thread::spawn(move || {
            if let Err(error) = serve(&stream) {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

fn main() -> support::Result {
    let mut place = support::ExamplePort::open()?;
    let (network, engine) = socket::network(&[place.own], Limits::default())?;
    let node = place.start(&[], Box::new(engine))?;
    let listener = TcpListener::bind(&network, PORT)?;
    thread::spawn(move || accept(&listener));
    place.finish(node, talk)
}

/// Asks twice on one connection, and then what is refused.
fn talk(network: &Network, to: IpAddr) -> support::Result {
    let mut stream = TcpStream::connect_timeout(network, (to, PORT).into(), support::LIMIT)?;
    stream.set_read_timeout(Some(support::LIMIT))?;
    let requests = ["GET /one HTTP/1.1", "GET /two HTTP/1.1", "PUT /three HTTP/1.1"];
    for request in requests {
        stream.write_all(format!("{request}\r\nHost: example\r\n\r\n").as_bytes())?;
    }
    let mut answers = String::new();
    stream.read_to_string(&mut answers)?;
    let expected = ["HTTP/1.1 200", "you asked for /one\n", "HTTP/1.1 200", "you asked for /two\n"];
    let mut rest = &answers[..];
    for part in expected.into_iter().chain(["HTTP/1.1 501"]) {
        let at = rest.find(part).ok_or_else(|| format!("no {part:?} in {answers}"))?;
        rest = &rest[at + part.len()..];
    }
    Ok(())
}
