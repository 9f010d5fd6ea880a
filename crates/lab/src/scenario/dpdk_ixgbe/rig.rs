//! What the checks work with: testpmd's prompt, the host's ends of both cables,
//! the models' books, and a record of what was found.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::prompt::Prompt;
use crate::Result;
use crate::scenario::Served;
use crate::traffic::Cable;

/// Cores, memory, and nothing that is not needed.
const ENVIRONMENT: &str = "-l 0,1 -m 128 --no-telemetry -- -i --total-num-mbufs=8192 --rxd=512 --txd=512";
/// Frames under way at a time: what a socket holds.
const BURST: usize = 8;
/// No frame for so long: none comes any more.
const SILENCE: Duration = Duration::from_millis(1500);
/// Until a socket with no room is tried again.
const PAUSE: Duration = Duration::from_micros(50);
/// After the last one that is expected.
const MOMENT: Duration = Duration::from_millis(5);

/// Port 0 and port 1, each with a cable to the host.
#[derive(Debug)]
pub struct Rig<'a> {
    /// testpmd.
    pub prompt: &'a mut Prompt,
    /// The host's ends.
    pub cables: &'a [Cable; 2],
    /// The models.
    pub served: &'a mut Served,
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
        self.prompt.start(&format!("{ENVIRONMENT} {arguments}"), Duration::from_secs(90))?;
        self.say("set xstats-hide-zero on")?;
        Ok(())
    }

    /// Says a command.
    pub fn say(&mut self, command: &str) -> Result<String> {
        self.prompt.say(command)
    }

    /// Says several.
    pub fn say_all(&mut self, commands: &[&str]) -> Result<()> {
        commands.iter().try_for_each(|command| self.say(command).map(drop))
    }

    /// Says what can only be said while the ports stand still.
    pub fn stopped(&mut self, commands: &[&str]) -> Result<()> {
        self.say_all(&["stop", "port stop all"])?;
        self.say_all(commands)?;
        self.say_all(&["port start all", "start"])
    }

    /// Ends testpmd, which must end well.
    pub fn quit(&mut self, name: &str) -> Result<()> {
        let words = self.prompt.quit()?;
        self.check(name, words.contains("ended with 0"), &words.lines().last());
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
    pub fn book(&mut self, port: usize, name: &str) -> Result<Option<u64>> {
        let report = self.served.report()?;
        Ok(report["endpoints"][port]["device"]["counters"][name].as_u64())
    }

    /// Waits until a port says so of its link.
    pub fn link(&mut self, port: usize, state: &str) -> Result<bool> {
        for _ in 0..40 {
            let said = self.say(&format!("show port info {port}"))?;
            if said.contains(&format!("Link status: {state}")) {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        Ok(false)
    }

    /// Sends frames to a port and takes what the other one sends until `expected`
    /// have come, or none comes any more.
    pub fn pass(&mut self, port: usize, frames: &[Vec<u8>], expected: usize) -> Vec<Vec<u8>> {
        let (into, out_of) = (&self.cables[port], &self.cables[1 - port]);
        let (mut back, mut patience) = (Vec::new(), SILENCE);
        for (n, frame) in frames.iter().enumerate() {
            let begin = Instant::now();
            while !into.send(frame) && begin.elapsed() < patience {
                std::thread::sleep(PAUSE);
            }
            // The rest of a burst may be on its way, no more.
            while back.len() + BURST <= n.min(expected) {
                let Some(frame) = out_of.recv(patience) else {
                    patience = MOMENT; // something is lost, and is not waited for again
                    break;
                };
                back.push(frame);
            }
        }
        while let Some(frame) = out_of.recv(if back.len() < expected { patience } else { MOMENT }) {
            back.push(frame);
        }
        back
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
        let back = self.pass(port, frames, frames.len());
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

    /// Whether none of these frames comes through.
    pub fn none_pass(&mut self, name: &str, port: usize, frames: &[Vec<u8>]) {
        let back = self.pass(port, frames, 0);
        let late = self.cables[1 - port].recv(Duration::from_millis(300));
        let seen = back.len() + usize::from(late.is_some());
        self.check(name, seen == 0, &format_args!("{seen} of {} came", frames.len()));
    }
}

/// The number behind `name` and a colon.
pub fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.split_once(&format!("{name}:"))?.1;
    rest.split_whitespace().next()?.parse().ok()
}
