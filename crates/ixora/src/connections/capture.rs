//! `ixora tcp capture`: the frames of a connection of a server that runs, as pcapng.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use interface::pcap::{Blocks, Direction, PacketOptions, Writer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tcp::{Copied, Copies, Peer, Room, Taken};

use super::START;
use crate::apps::load::arguments::To;
use crate::apps::pcap::create;
use crate::rate::duration;
use crate::{Failure, control_socket, signal};

/// How often a client comes for what was copied, and how long one that does not come is waited for.
const INTERVAL: Duration = Duration::from_millis(50);
const LEASE: Duration = Duration::from_secs(15);
/// A client that is there may wait as long as this for an answer, for others come before it.
const _: () = assert!(LEASE.as_secs() > control_socket::ANSWER.as_secs());
/// Room for what all hosts copied and nobody has taken, in bytes: an answer has twice as many.
const ROOM: usize = 4 << 20;

/// What is asked for.
#[derive(Args, Debug)]
pub struct Capture {
    /// The socket that the server listens at, its `--control`.
    pub control: PathBuf,
    /// The other side: 10.0.0.9, 10.0.0.9:50718, [fd00::9]:50718. With a port, the frames of its
    /// connection; without one, those of all connections of the address.
    pub peer: To,
    /// The file to write, pcapng; `-` for standard output.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Stop after so many frames.
    #[arg(long)]
    pub count: Option<u64>,
    /// Stop after this time.
    #[arg(long, value_parser = duration)]
    pub duration: Option<Duration>,
}

/// Copied frames as they go over the socket.
#[derive(Debug, Serialize, Deserialize)]
struct Frames {
    /// Of each the time in nanoseconds since 1970, whether it was sent, and its bytes as digits.
    frames: Vec<(u64, bool, String)>,
    lost: u64,
}

/// Writes what comes and goes until a signal, or as long as was asked for.
pub fn run(arguments: &Capture) -> Result<(), Failure> {
    let Capture { control, peer: To(address, port), .. } = arguments;
    let stop = signal::stop_flag()?;
    let port = port.map_or("-".to_owned(), |port| port.to_string());
    let begun = ask(control, &format!("capture {address} {port}"))?;
    let number = begun["number"].as_u64().ok_or_else(|| no_server(control))?;
    let done = write(arguments, number, &stop);
    // The server may have ended.
    let _ = ask(control, &format!("capture-end {number}"));
    let (written, lost) = done?;
    eprintln!("{written} frames, {lost} lost on their way here");
    Ok(())
}

/// Writes the frames of the capture of this number; how many they are, and how many were lost.
fn write(arguments: &Capture, number: u64, stop: &AtomicBool) -> Result<(u64, u64), Failure> {
    let Capture { control, file, .. } = arguments;
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", file.display()));
    let mut writer = create(file).and_then(|file| Writer::new(Blocks::new(file), &[])).map_err(failed)?;
    writer.add_interface("serve", "time stamps when a batch was received or sent").map_err(failed)?;
    let end = arguments.duration.map(|duration| Instant::now() + duration);
    let (mut left, mut written, mut lost) = (arguments.count.unwrap_or(u64::MAX), 0_u64, 0_u64);
    while !stop.load(Ordering::Relaxed) && left > 0 && end.is_none_or(|end| Instant::now() < end) {
        thread::sleep(INTERVAL);
        let answer = ask(control, &format!("captured {number}"))?;
        let Frames { frames, lost: more } = serde_json::from_value(answer).map_err(|error| {
            Failure::new(format!("{} answers something else: {error}", control.display()))
        })?;
        lost += more;
        for (time_ns, is_sent, digits) in frames.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX))
        {
            let direction = if is_sent { Direction::Outbound } else { Direction::Inbound };
            let options = PacketOptions { direction, ..PacketOptions::default() };
            writer.write(0, time_ns, &control_socket::bytes(&digits), options).map_err(failed)?;
            (left, written) = (left - 1, written + 1);
        }
        writer.flush().map_err(failed)?;
    }
    Ok((written, lost))
}

fn ask(control: &Path, request: &str) -> Result<Value, Failure> {
    read(control, &control_socket::ask(control, request, START)?)
}

/// What a server answered.
fn read(control: &Path, answer: &str) -> Result<Value, Failure> {
    let answer: Value = serde_json::from_str(answer).map_err(|error| match error.is_eof() {
        true => Failure::new(format!("{}: its answer ended early", control.display())),
        false => no_server(control),
    })?;
    match answer["error"].as_str() {
        Some(error) => Err(Failure::new(format!("{}: {error}", control.display()))),
        None => Ok(answer),
    }
}

fn no_server(control: &Path) -> Failure {
    Failure::new(format!("{} captures nothing: it is no server of ixora's", control.display()))
}

/// The server's side: one client at a time has its hosts copy frames.
pub struct Capturing {
    hosts: Vec<Copies>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Option<Client>,
    /// The number of the last capture.
    last: u64,
}

/// The client that captures at present.
struct Client {
    /// By which it names its capture: one that was waited for too long is not to take another's frames.
    number: u64,
    /// When it was here last.
    seen: Instant,
    /// Frames for its next answer.
    kept: Vec<Copied>,
}

impl Capturing {
    pub fn new(hosts: Vec<Copies>) -> Capturing {
        Capturing { hosts, state: Mutex::default() }
    }

    /// Begins for a client.
    pub fn begin(&self, address: &str, port: &str) -> Result<String, String> {
        let address: IpAddr = address.parse().map_err(|_| format!("{address} is no address"))?;
        let port =
            (port != "-").then(|| port.parse().map_err(|_| format!("{port} is no port"))).transpose()?;
        let mut state = self.state();
        if state.client.is_some() {
            let wait = LEASE.as_secs();
            return Err(format!("somebody captures already: try again when that has ended, or in {wait} s"));
        }
        // By the time no number is one of an earlier server at the same path.
        let number = now_ns().max(state.last + 1);
        *state =
            State { client: Some(Client { number, seen: Instant::now(), kept: Vec::new() }), last: number };
        let room = Room::new(ROOM);
        self.hosts.iter().for_each(|host| host.begin(Peer { address, port }, &room));
        Ok(json!({ "capturing": address.to_string(), "number": number }).to_string())
    }

    /// What hosts copied since the last time, in the order of time.
    pub fn take(&self, number: &str) -> Result<String, String> {
        let mut state = self.state();
        let client = client(&mut state, number)?;
        let since_ns = now_ns();
        let taken: Vec<Taken> = self.hosts.iter().map(Copies::take).collect();
        let lost = taken.iter().map(|taken| taken.lost).sum();
        let frames = in_order(taken, &mut client.kept, since_ns);
        let frames = frames.iter().map(|frame| (frame.time_ns, frame.is_sent, digits(&frame.bytes)));
        let answer = serde_json::to_string(&Frames { frames: frames.collect(), lost });
        // What it takes to make a long answer is not the client's time.
        client.seen = Instant::now();
        answer.map_err(|error| error.to_string())
    }

    /// Ends a capture, and forgets what was not taken.
    pub fn end(&self, number: &str) -> Result<String, String> {
        let mut state = self.state();
        client(&mut state, number)?;
        self.forget(&mut state);
        Ok(json!({}).to_string())
    }

    /// Ends it when the client has gone without a word.
    pub fn look(&self) {
        self.look_at(Instant::now());
    }

    fn look_at(&self, now: Instant) {
        let mut state = self.state();
        if state.client.as_ref().is_some_and(|client| now.duration_since(client.seen) > LEASE) {
            self.forget(&mut state);
        }
    }

    fn forget(&self, state: &mut State) {
        state.client = None;
        self.hosts.iter().for_each(Copies::end);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who captures, if the capture has this number.
fn client<'a>(state: &'a mut State, number: &str) -> Result<&'a mut Client, String> {
    let is_it = |client: &&mut Client| number.parse() == Ok(client.number);
    state.client.as_mut().filter(is_it).ok_or_else(|| {
        let wait = LEASE.as_secs();
        format!("this capture has ended: the server has waited for {wait} s")
    })
}

/// What hosts copied, and what was kept of the time before, in the order of time. What is not older than the
/// moment at which the first host was asked is kept: those asked before may have copied older frames since.
/// It is kept once, whatever its time is, for the clock may be set back.
fn in_order(taken: Vec<Taken>, kept: &mut Vec<Copied>, since_ns: u64) -> Vec<Copied> {
    let mut frames = std::mem::take(kept);
    let new = taken.into_iter().flat_map(|taken| taken.frames);
    let (older, newer): (Vec<Copied>, Vec<Copied>) = new.partition(|frame| frame.time_ns < since_ns);
    *kept = newer;
    frames.extend(older);
    frames.sort_by_key(|frame| frame.time_ns);
    frames
}

fn digits(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        digits.push(DIGITS[usize::from(byte >> 4)]);
        digits.push(DIGITS[usize::from(byte & 0xF)]);
    }
    digits
}

/// The time of copies.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(answer: Result<String, String>) -> String {
        let answer: Value = serde_json::from_str(&answer.expect("it begins")).expect("JSON");
        answer["number"].to_string()
    }

    fn capturing() -> Capturing {
        Capturing::new(vec![Copies::default(); 2])
    }

    /// The first client pauses for too long; what it asks for later is nothing to the second.
    #[test]
    fn who_was_waited_for_too_long_takes_and_ends_no_capture_of_others() {
        let capturing = capturing();
        let first = number(capturing.begin("10.0.0.9", "7"));
        assert!(capturing.begin("10.0.0.8", "-").is_err_and(|error| error.contains("captures already")));
        assert!(capturing.take(&first).is_ok());
        capturing.look_at(Instant::now() + LEASE / 2);
        assert!(capturing.take(&first).is_ok());
        capturing.look_at(Instant::now() + LEASE * 2);
        let second = number(capturing.begin("10.0.0.8", "-"));
        assert_ne!(first, second);
        for other in [&first, "", "-1"] {
            assert!(capturing.take(other).is_err_and(|error| error.contains("has ended")));
            assert!(capturing.end(other).is_err());
        }
        assert!(capturing.take(&second).is_ok() && capturing.end(&second).is_ok());
        assert!(capturing.take(&second).is_err());
    }

    #[test]
    fn frames_of_several_hosts_are_in_the_order_of_time_from_answer_to_answer() {
        let copied = |time_ns| Copied { time_ns, is_sent: false, bytes: vec![] };
        let taken = |times: &[u64]| Taken { frames: times.iter().copied().map(copied).collect(), lost: 0 };
        let mut kept = vec![];
        let times = |frames: Vec<Copied>| frames.iter().map(|frame| frame.time_ns).collect::<Vec<_>>();
        // The first host copies at 11 and 12 what the second one's 14 must wait for.
        let frames = in_order(vec![taken(&[1, 9]), taken(&[4, 14])], &mut kept, 10);
        assert_eq!(times(frames), [1, 4, 9]);
        let frames = in_order(vec![taken(&[11, 12]), taken(&[15, 20])], &mut kept, 20);
        assert_eq!(times(frames), [11, 12, 14, 15]);
        // The clock is set back to 5: nothing waits until it is 21 again.
        let frames = in_order(vec![taken(&[21]), taken(&[4])], &mut kept, 5);
        assert_eq!(times(frames), [4, 20]);
        let frames = in_order(vec![taken(&[5]), taken(&[8])], &mut kept, 7);
        assert_eq!(times(frames), [5, 21]);
        assert_eq!(times(kept), [8]);
    }

    #[test]
    fn an_answer_that_ended_early_is_told_from_one_of_no_server() {
        let cause = |answer| read(Path::new("/run/control"), answer).expect_err("none").cause().to_owned();
        assert!(cause("{\"frames\":[[1,true,\"00").ends_with("ended early"));
        assert!(cause("hello").contains("no server of ixora's"));
        assert!(cause("{\"error\":\"too bad\"}").ends_with(": too bad"));
    }

    #[test]
    fn bytes_go_as_digits_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(control_socket::bytes(&digits(&all)), all);
        assert!(digits(&all).starts_with("000102") && digits(&all).ends_with("fdfeff"));
    }
}
