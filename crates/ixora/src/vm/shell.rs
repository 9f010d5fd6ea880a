//! A terminal in the machine: its second serial port, joined with ours. Two NICs
//! on one cable are bound for the driver.

use std::io::{IsTerminal, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::rig::Cables;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::arguments::Shell;
use super::live::Live;
use super::problem::Problem;
use super::session::{self, Order, Session};
use super::work_dir::WorkDir;
use crate::Failure;
use crate::terminal::Raw;

/// Ctrl-], as telnet(1) has it.
const ESCAPE: u8 = 0x1D;

/// How often a signal is looked for.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

const GREETING: &str = "\
root's shell in the machine; its NICs $A and $B are ready for the driver, and on
one cable:
  ixora echo $A --ip 10.9.9.2 -q &
  ixora pktgen $B --count 1000
Ctrl-] or exit ends the machine.";

/// Boots, and joins the terminals until one of them ends.
pub fn run(arguments: &Shell, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let options = arguments.machine();
    let mut live = Live::new(false);
    let work = || -> Result<(), Problem> {
        let place = WorkDir::new(&options)?;
        let guest = session::fetch(&mut live)?;
        let order = Order { app: "shell", words: Vec::new(), file: None, cables: Cables::Pair };
        let mut session = Session::start(&guest, &place, &options, order, live, stop)?;
        println!("{GREETING}");
        let stream = session.machine().control.stream().and_then(|stream| stream.try_clone().ok());
        let stream = stream.ok_or_else(|| Problem::new("the machine has no terminal"))?;
        join(stream, stop).map_err(|error| Problem::new(format!("the machine's terminal: {error}")))
    };
    Ok(work()?)
}

/// Both ways at once. At the end of our input the machine may still say what it
/// has to say: a script of commands can be piped in.
fn join(mut stream: UnixStream, stop: &AtomicBool) -> std::io::Result<()> {
    stream.set_read_timeout(None)?;
    let _raw = std::io::stdin().is_terminal().then(Raw::new);
    let (mut input, mut output) = (std::io::stdin(), std::io::stdout());
    let mut bytes = [0; 4096];
    let mut listening = true;
    while !stop.load(Ordering::Relaxed) {
        let mut fds = vec![PollFd::new(&stream, PollFlags::IN)];
        if listening {
            fds.push(PollFd::new(&input, PollFlags::IN));
        }
        match poll(&mut fds, Some(&POLL_INTERVAL)) {
            Err(Errno::INTR) => continue,
            ready => ready?,
        };
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if ready[0] {
            let count = stream.read(&mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            output.write_all(&bytes[..count])?;
            output.flush()?;
        }
        if ready.get(1) == Some(&true) {
            let count = input.read(&mut bytes)?;
            let escape = bytes[..count].iter().position(|&byte| byte == ESCAPE);
            stream.write_all(&bytes[..escape.unwrap_or(count)])?;
            if escape.is_some() {
                return stream.shutdown(Shutdown::Both);
            }
            listening = count > 0;
        }
    }
    Ok(())
}
