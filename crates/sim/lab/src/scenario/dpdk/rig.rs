//! What the checks work with: testpmd's prompt, the host's ends of both cables,
//! the models' counters, and a record of what was found.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::frames;
use super::prompt::Prompt;
use crate::Result;
use crate::scenario::Served;
use crate::traffic::Cable;

/// Cores, memory, and nothing that is not needed.
const ENVIRONMENT: &str = "-l 0,1 -m 128 --no-telemetry -- -i --total-num-mbufs=8192 --rxd=512 --txd=512";
/// Frames between two pairs of markers: with those, what a socket holds (unix(7),
/// `max_dgram_qlen`).
const BURST: usize = 6;
/// Bounds a hang: a frame that is expected comes long before, and so do counts that agree.
const LIMIT: Duration = Duration::from_secs(20);
/// Until a socket with no room is tried again.
const PAUSE: Duration = Duration::from_micros(50);
/// Until counts that do not agree are read again.
const AGAIN: Duration = Duration::from_millis(100);
/// How a command begins that changes nothing.
const QUESTION: &str = "show ";

/// Port 0 and port 1, each with a cable to the host.
#[derive(Debug)]
pub struct Rig<'a> {
    /// The prompt of testpmd.
    pub prompt: &'a mut Prompt,
    /// The host's ends.
    pub cables: &'a [Cable; 2],
    /// The models, as they are served to the guest.
    pub served: &'a mut Served,
    /// Whether testpmd may crash while its last port is closed, or behind that.
    pub may_crash_at_exit: bool,
    /// Pairs of markers sent so far.
    pub markers: u16,
    /// Checks that passed.
    pub passed: Vec<String>,
    /// Checks that failed, each with what was seen.
    pub failed: Vec<String>,
}

impl Rig<'_> {
    /// A check by its name.
    pub fn check(&mut self, name: &str, good: bool, seen: &dyn Debug) {
        match good {
            true => self.passed.push(name.to_owned()),
            false => self.failed.push(format!("{name}: {seen:?}")),
        }
    }

    /// Starts testpmd with further arguments.
    pub fn start(&mut self, arguments: &str) -> Result<()> {
        self.prompt.start(&format!("{ENVIRONMENT} {arguments}"), Duration::from_secs(180))?;
        self.say("set xstats-hide-zero on")?;
        self.linked().map(drop)
    }

    /// Says a command. When this returns, the devices have seen each register write
    /// that it made: QEMU sends writes without waiting for the device, but a read does
    /// not overtake them, so a register of each device is read after the prompt.
    pub fn say(&mut self, command: &str) -> Result<String> {
        let said = self.prompt.say(command)?;
        if !command.starts_with(QUESTION) {
            // For these, the driver reads the device's statistics registers.
            self.prompt.say("show port stats all")?;
        }
        Ok(said)
    }

    /// Types several commands at the prompt, one after the other.
    pub fn say_all(&mut self, commands: &[&str]) -> Result<()> {
        commands.iter().try_for_each(|command| self.say(command).map(drop))
    }

    /// Says what can only be said while the ports stand still, and waits for their
    /// links to come up again; whether they do.
    pub fn stopped(&mut self, commands: &[&str]) -> Result<bool> {
        self.say_all(&["stop", "port stop all"])?;
        self.say_all(commands)?;
        self.say_all(&["port start all", "start"])?;
        self.linked()
    }

    /// Waits until both links are up.
    fn linked(&mut self) -> Result<bool> {
        Ok(self.link(0, "up")? && self.link(1, "up")?)
    }

    /// Ends testpmd, which must end well.
    pub fn quit(&mut self, name: &str) -> Result<()> {
        let words = self.prompt.quit()?;
        let last = words.find("Shutting down port 1").map_or("", |at| &words[at..]);
        let crashed = self.may_crash_at_exit && last.contains("ended with 139");
        self.check(name, crashed || words.contains("ended with 0"), &words.lines().last());
        Ok(())
    }

    /// What a port counted since it was last cleared, but for zeros.
    pub fn counts(&mut self, port: usize) -> Result<BTreeMap<String, u64>> {
        let said = self.say(&format!("show port xstats {port}"))?;
        let lines = said.lines().filter_map(|line| line.trim().split_once(": "));
        Ok(lines.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect())
    }

    /// The number behind `name` in what testpmd says of a port.
    pub fn statistic(&mut self, port: usize, name: &str) -> Result<Option<u64>> {
        let said = self.say(&format!("show port stats {port}"))?;
        Ok(number(&said, name))
    }

    /// A counter of a model.
    pub fn counter(&mut self, port: usize, name: &str) -> Result<Option<u64>> {
        let report = self.served.report()?;
        Ok(report["endpoints"][port]["device"]["counters"][name].as_u64())
    }

    /// Looks until what is seen is good, or for so long that it never will be: for
    /// counts that are taken while the last frames are on their way.
    pub fn wait_until<T>(
        &mut self,
        mut look: impl FnMut(&mut Self) -> Result<T>,
        good: impl Fn(&T) -> bool,
    ) -> Result<T> {
        let begin = Instant::now();
        loop {
            let seen = look(self)?;
            if good(&seen) || begin.elapsed() > LIMIT {
                return Ok(seen);
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// Waits until a port says so of its link.
    pub fn link(&mut self, port: usize, state: &str) -> Result<bool> {
        let state = format!("Link status: {state}");
        let is_so = |said: &String| said.contains(&state);
        let said = self.wait_until(|rig| rig.say(&format!("show port info {port}")), is_so)?;
        Ok(is_so(&said))
    }

    /// Sends frames to a port and takes what the other one sends. After each few
    /// frames come two markers, one for each of two queues: what was sent before
    /// them and is not there when they are has been lost.
    pub fn pass(&mut self, port: usize, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut back = Vec::new();
        for frames in frames.chunks(BURST) {
            self.markers += 1;
            let markers = frames::markers(self.markers);
            let sent = frames.iter().chain(&markers).all(|frame| self.give(port, frame));
            if !sent || !self.take(1 - port, markers.len(), &mut back) {
                self.failed.push(format!("port {port} has room, and its markers come through"));
                break;
            }
        }
        back
    }

    /// Takes what a port sends until so many of the latest markers have come;
    /// `false` when they do not.
    fn take(&self, port: usize, mut markers: usize, back: &mut Vec<Vec<u8>>) -> bool {
        let begin = Instant::now();
        while markers > 0 {
            let left = LIMIT.saturating_sub(begin.elapsed());
            let Some(frame) = self.cables[port].recv(left) else { return false };
            match frames::marker(&frame) {
                None => back.push(frame),
                Some(number) if number == self.markers => markers -= 1,
                Some(_) => {} // of frames that were given up
            }
        }
        true
    }

    /// Gives a port a frame; `false` when there is no room for it.
    fn give(&self, port: usize, frame: &[u8]) -> bool {
        let begin = Instant::now();
        while !self.cables[port].send(frame) {
            if begin.elapsed() > LIMIT {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Whether all these frames come through one by one, each with what
    /// `changed` makes of it.
    pub fn all_pass(
        &mut self,
        name: &str,
        port: usize,
        frames: &[Vec<u8>],
        changed: impl Fn(&[u8]) -> Vec<u8>,
    ) {
        let back = self.pass(port, frames);
        let expected: Vec<Vec<u8>> = frames.iter().map(|frame| changed(frame)).collect();
        let other = expected.iter().zip(&back).position(|(expected, back)| expected != back);
        let head = |frame: &Vec<u8>| (frame.len(), frame[..frame.len().min(48)].to_vec());
        let first = other.map(|n| (n, head(&expected[n]), head(&back[n])));
        self.check(
            name,
            back.len() == expected.len() && other.is_none(),
            &(back.len(), expected.len(), first),
        );
    }

    /// Whether none of these frames comes through, but the markers behind them.
    pub fn none_pass(&mut self, name: &str, port: usize, frames: &[Vec<u8>]) {
        let back = self.pass(port, frames);
        self.check(name, back.is_empty(), &format_args!("{} of {} came", back.len(), frames.len()));
    }
}

/// The number behind `name` and a colon.
pub fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.split_once(&format!("{name}:"))?.1;
    rest.split_whitespace().next()?.parse().ok()
}
