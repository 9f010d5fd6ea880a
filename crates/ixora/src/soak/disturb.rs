//! What is done to programs while they work: pauses, strangers at their sockets, new
//! configurations, and peers that are no devices.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testbed::fault::Random;

use super::plan::Peer;
use super::process::Process;
use super::{Trouble, pause};

/// How long a router may take to answer on its control socket, on a busy machine.
const ANSWER: Duration = Duration::from_secs(20);
/// The most bytes that a stranger sends.
const MOST: u64 = 300;

/// SIGSTOP, and SIGCONT later.
pub fn stop_and_continue(process: &Process, time: Duration) {
    process.signal(Signal::STOP);
    pause(time);
    process.signal(Signal::CONT);
}

/// Connects, sends random bytes and hangs up. Nobody there is nobody to disturb.
pub fn be_a_stranger(socket: &Path, seed: u64) {
    let mut random = Random::new(seed);
    if let Ok(mut stream) = UnixStream::connect(socket) {
        let bytes: Vec<u8> = (0..random.below(MOST)).map(|_| random.next() as u8).collect();
        let _ = stream.write_all(&bytes);
    }
}

/// A client of a router's control socket.
pub struct Control(BufReader<UnixStream>);

impl Control {
    /// Connects, once the router listens.
    pub fn open(socket: &Path, router: &mut Process) -> Result<Control, Trouble> {
        let end = Instant::now() + ANSWER;
        loop {
            if let Ok(stream) = UnixStream::connect(socket) {
                let limits =
                    stream.set_read_timeout(Some(ANSWER)).and(stream.set_write_timeout(Some(ANSWER)));
                limits.map_err(|error| Trouble::failed(format!("control socket: {error}")))?;
                let mut control = Control(BufReader::new(stream));
                control.line()?;
                return Ok(control);
            }
            if router.ended().is_some() || Instant::now() >= end {
                return Err(Trouble::failed(format!("no control socket; {}", router.condition())));
            }
            super::check_interrupt()?;
            pause(Duration::from_millis(10));
        }
    }

    fn line(&mut self) -> Result<String, Trouble> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(1..) => Ok(line),
            Ok(0) => Err(Trouble::failed("the router closed the control connection")),
            Err(error) => Err(Trouble::failed(format!("no answer on the control socket: {error}"))),
        }
    }

    /// The lines of one reply; the last one has a blank behind its number.
    fn reply(&mut self) -> Result<String, Trouble> {
        let mut all = String::new();
        loop {
            let line = self.line()?;
            all += &line;
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(all);
            }
        }
    }

    /// Writes another configuration; `Ok` with the reply when it was taken, `Err` with
    /// it when it was refused.
    pub fn configure(&mut self, text: &str) -> Result<Result<String, String>, Trouble> {
        let words = format!("WRITEDATA hotconfig {}\r\n{text}", text.len());
        let sent = self.0.get_mut().write_all(words.as_bytes());
        sent.map_err(|error| Trouble::failed(format!("control socket: {error}")))?;
        let reply = self.reply()?;
        Ok(if reply.starts_with("200") { Ok(reply) } else { Err(reply) })
    }

    /// Reads a few handlers of the router; hangs up in the middle of a request if so.
    pub fn inspect(mut self, hang_up: bool) -> Result<(), Trouble> {
        let failed = |error| Trouble::failed(format!("control socket: {error}"));
        for handler in ["list", "flatconfig", "handlers"] {
            let words = format!("READ {handler}\r\n");
            if hang_up {
                let half = &words.as_bytes()[..words.len() / 2];
                return self.0.get_mut().write_all(half).map_err(failed);
            }
            self.0.get_mut().write_all(words.as_bytes()).map_err(failed)?;
            if !self.reply()?.starts_with("200") {
                continue;
            }
            let head = self.line()?;
            let len = head.trim().strip_prefix("DATA ").and_then(|len| len.parse::<usize>().ok());
            let len = len.ok_or_else(|| Trouble::failed(format!("control socket: {head:?}")))?;
            self.0.read_exact(&mut vec![0; len]).map_err(failed)?;
        }
        Ok(())
    }
}

/// A socket with somebody behind it who is no device.
pub struct Impostor {
    listener: UnixListener,
    peer: Peer,
    /// Connections of one that says nothing, which stay open.
    mute: Vec<UnixStream>,
}

impl Impostor {
    /// Listens at a path.
    pub fn new(socket: &Path, peer: Peer) -> Result<Impostor, Trouble> {
        let bound = UnixListener::bind(socket).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = bound.map_err(|error| Trouble::failed(format!("{}: {error}", socket.display())))?;
        Ok(Impostor { listener, peer, mute: vec![] })
    }

    /// Does what this one does with each client, until the program has ended or its
    /// time is over.
    pub fn serve(&mut self, program: &mut Process, limit: Duration) {
        let end = Instant::now() + limit;
        while program.ended().is_none() && Instant::now() < end {
            match self.listener.accept() {
                Ok((stream, _)) => self.meet(stream),
                Err(_) => pause(Duration::from_millis(5)),
            }
        }
    }

    fn meet(&mut self, mut stream: UnixStream) {
        // A client that sends nothing is not waited for.
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let mut request = [0; 4096];
        match self.peer {
            Peer::HangsUp => {}
            Peer::HangsUpLater => drop(stream.read(&mut request)),
            Peer::Garbage(seed) => {
                let mut random = Random::new(seed);
                let _ = stream.read(&mut request);
                let bytes: Vec<u8> = (0..1 + random.below(MOST)).map(|_| random.next() as u8).collect();
                let _ = stream.write_all(&bytes);
            }
            Peer::Mute => self.mute.push(stream),
        }
    }
}
