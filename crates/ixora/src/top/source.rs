//! Where a running router is asked: its control socket (Click's protocol 1.3), or its
//! metrics over HTTP. What it answers is bounded in length and time.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::sample::Sample;
use crate::told::{Bounded, LONGEST, Stream, printable};
use crate::{Failure, control_socket};

/// How long a connection, and the next part of an answer, may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// The longest line of the control protocol.
const LINE: u64 = 64 << 10;

/// A router that can be asked.
pub enum Source {
    /// Through its control socket.
    Control(Control),
    /// Through its metrics: host and port.
    Metrics(String),
    /// An overlay, through its control socket at this path.
    Overlay(PathBuf),
}

/// A connection to a control socket.
pub struct Control {
    stream: BufReader<Bounded<Box<dyn Stream>>>,
    place: String,
}

impl Source {
    /// Finds the router.
    pub fn connect(place: &str) -> Result<Source, Failure> {
        if let Some(rest) = place.strip_prefix("http://") {
            let host = rest.split('/').next().unwrap_or(rest);
            return Ok(Source::Metrics(host.to_string()));
        }
        if is_overlay(place) {
            return Ok(Source::Overlay(place.into()));
        }
        Control::connect(place).map(Source::Control)
    }

    /// What was counted until now.
    pub fn sample(&mut self) -> Result<Sample, Failure> {
        match self {
            Source::Control(control) => {
                let text = control.read("figures")?;
                let mut sample = Sample::of_figures(&text)
                    .ok_or_else(|| Failure::new("'figures' is not as it should be"))?;
                if let Ok(ports) = control.answer("ports")? {
                    sample.add_ports(&ports); // some routers have none
                }
                Ok(sample)
            }
            Source::Overlay(path) => {
                let text = control_socket::ask(path, "metrics", crate::overlay::START)?;
                let no_overlay = || Failure::new(format!("{} is no overlay's", path.display()));
                Sample::of_metrics(&text).ok_or_else(no_overlay)
            }
            Source::Metrics(host) => {
                let text = fetch(host)?;
                Sample::of_metrics(&text).ok_or_else(|| {
                    Failure::new(format!("http://{host}/metrics has no counters of a router or an overlay"))
                })
            }
        }
    }

    /// Has packets and cycles counted, or not; whether that could be said.
    pub fn measure(&mut self, on: bool) -> Result<bool, Failure> {
        match self {
            Source::Control(control) => control.write("measure", if on { "true" } else { "false" }),
            Source::Metrics(_) | Source::Overlay(_) => Ok(false),
        }
    }
}

/// Whether an overlay listens at this path. A router greets whoever comes, an overlay waits for
/// a line: it is sent at once, and the first answer tells who gave it.
fn is_overlay(place: &str) -> bool {
    let Ok(stream) = UnixStream::connect(place) else { return false };
    let mut stream = Bounded::new(stream, TIME_LIMIT);
    let mut first = [0; FIRST.len()];
    let asked = stream.ask(b"metrics\n").and_then(|()| stream.read_exact(&mut first));
    asked.is_ok() && first == *FIRST
}

/// How an overlay's metrics begin.
const FIRST: &[u8; 20] = b"# HELP ixora_overlay";

fn tcp(address: &str) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIME_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Control {
    fn connect(place: &str) -> Result<Control, Failure> {
        let port = place.parse::<u16>().map(|port| format!("127.0.0.1:{port}"));
        let stream: std::io::Result<Box<dyn Stream>> = match port {
            Ok(address) => tcp(&address).map(|stream| Box::new(stream) as _),
            Err(_) if place.contains(':') && !place.contains('/') => {
                tcp(place).map(|stream| Box::new(stream) as _)
            }
            Err(_) => {
                bus::Error::check_socket_path(place.as_ref(), bus::LONGEST_SOCKET_PATH)?;
                UnixStream::connect(place).map(|stream| Box::new(stream) as _)
            }
        };
        let stream = stream.map_err(|error| {
            Failure::new(format!("{place}: {error}"))
                .fix("run the router with a control socket: ixora click -p 7777, or -u FILE")
        })?;
        let stream = BufReader::new(Bounded::new(stream, TIME_LIMIT));
        let mut control = Control { stream, place: place.to_string() };
        let greeting = control.line()?;
        if !greeting.starts_with("Click::ControlSocket/1.") {
            return Err(Failure::new(format!("{place} is no control socket")));
        }
        Ok(control)
    }

    fn lost(&self, error: &std::io::Error) -> Failure {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        match error.kind() {
            TimedOut | WouldBlock => Failure::new(format!("{}: no answer", self.place)),
            _ => Failure::new(format!("{}: {error}", self.place)),
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = vec![];
        let read = (&mut self.stream).take(LINE).read_until(b'\n', &mut line);
        match read {
            Ok(0) => Err(Failure::new(format!("{}: the router ended", self.place))),
            Ok(_) => Ok(printable(&line).trim_end().to_string()),
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// Sends a command; the code of the answer, and its last line.
    fn ask(&mut self, command: &str) -> Result<(u16, String), Failure> {
        let sent = self.stream.get_mut().ask(format!("{command}\r\n").as_bytes());
        sent.map_err(|error| self.lost(&error))?;
        loop {
            let line = self.line()?;
            if line.as_bytes().get(3) == Some(&b'-') {
                continue; // more of the same follows
            }
            let code = line.get(..3).and_then(|code| code.parse().ok());
            return code
                .map(|code| (code, line))
                .ok_or_else(|| Failure::new(format!("{}: not understood", self.place)));
        }
    }

    fn read(&mut self, handler: &str) -> Result<String, Failure> {
        self.answer(handler)?.map_err(|line| {
            Failure::new(format!("{}: {line}", self.place))
                .fix("only routers of ixora count packets and cycles for all elements")
        })
    }

    /// What a handler says, or why it says nothing.
    fn answer(&mut self, handler: &str) -> Result<Result<String, String>, Failure> {
        let (code, line) = self.ask(&format!("READ {handler}"))?;
        if code != 200 {
            return Ok(Err(line));
        }
        let header = self.line()?;
        let length = header.strip_prefix("DATA ").and_then(|n| n.trim().parse::<u64>().ok());
        let length = length.filter(|length| *length <= LONGEST);
        let length = length.ok_or_else(|| Failure::new(format!("{}: not understood", self.place)))?;
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data).map_err(|error| self.lost(&error))?;
        Ok(Ok(printable(&data)))
    }

    /// Writes a handler; false when that is not allowed.
    fn write(&mut self, handler: &str, value: &str) -> Result<bool, Failure> {
        Ok(self.ask(&format!("WRITE {handler} {value}"))?.0 == 200)
    }
}

/// Reads a router's metrics.
fn fetch(host: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("http://{host}: {error}")).fix("run the router with --metrics=9464")
    };
    let address = if host.contains(':') { host.to_string() } else { format!("{host}:9464") };
    let stream = tcp(&address).map_err(failed)?;
    // By its address: the router may know this name of its machine, or may not.
    let peer = stream.peer_addr().map_err(failed)?;
    let mut stream = Bounded::new(stream, TIME_LIMIT);
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {peer}\r\nConnection: close\r\n\r\n");
    stream.ask(request.as_bytes()).map_err(failed)?;
    let answer = printable(&stream.rest().map_err(failed)?);
    let (head, body) = answer.split_once("\n\n").unwrap_or((&answer, ""));
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_string()),
        _ => Err(Failure::new(format!("http://{host}: {}", head.lines().next().unwrap_or("no answer")))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn an_overlay_is_known_by_its_answer() {
        let place = tempfile::tempdir().expect("a directory");
        for (name, says, expected) in [
            ("overlay", "# HELP ixora_overlay_port_up x\n", true),
            ("router", "Click::ControlSocket/1.3\r\n", false),
            ("nobody", "", false),
        ] {
            let path = place.path().join(name);
            let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
            let one = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                stream.read_exact(&mut [0; 8]).expect("a line");
                stream.write_all(says.as_bytes()).expect("room");
            });
            assert_eq!(is_overlay(path.to_str().expect("a name")), expected, "{name}");
            one.join().expect("it ended");
        }
        assert!(!is_overlay(place.path().join("nothing").to_str().expect("a name")));
    }

    #[test]
    fn a_router_without_the_handler_of_ports_has_none() {
        let (stream, mut router) = UnixStream::pair().expect("a pair");
        let figures = "tsc=1\tthreads=1\tmeasured=false\ns\tStrip\t0\t0\t0\t0\ttoo short=7\n";
        let length = figures.len();
        let answers =
            format!("200 Read handler OK\r\nDATA {length}\r\n{figures}510 No handler named 'ports'\r\n");
        router.write_all(answers.as_bytes()).expect("room");
        let stream: Box<dyn Stream> = Box::new(stream);
        let stream = BufReader::new(Bounded::new(stream, TIME_LIMIT));
        let sample = Source::Control(Control { stream, place: "here".into() }).sample().expect("figures");
        assert_eq!((sample.rows.len(), sample.ports.len()), (1, 0));
    }
}
