//! A machine from its packages to what its program printed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::guest::Guest;
use lab::packages::Packages;
use lab::rig::control::{Message, Report};
use lab::rig::line::Line;
use lab::rig::{Cables, Machine, Rig};
use serde_json::Value;

use super::arguments;
use super::live::Live;
use super::problem::Problem;
use super::work_dir::WorkDir;

/// How long a listener listens before it looks about.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the program may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(30);
/// Lines of the console that stand below an error.
const TAIL: usize = 12;
/// Machines that are started until one boots: QEMU's translator hangs in a kernel's
/// boot now and then.
const STARTS: usize = 2;

/// The program and its words.
pub struct Order<'a> {
    pub app: &'a str,
    pub words: Vec<String>,
    /// A file that it writes in the guest.
    pub file: Option<&'a str>,
    pub cables: Cables<'a>,
}

/// What is left of the program in the guest.
#[derive(Debug, Default)]
pub struct Printed {
    pub out: String,
    pub errors: Vec<String>,
    pub status: Option<i32>,
    pub file: Option<Vec<u8>>,
}

impl Printed {
    /// The statistics that the program printed as JSON, if it did.
    pub fn statistics(&self) -> Option<Value> {
        serde_json::from_str(&self.out).ok()
    }

    /// What it failed with: its own error and fix, or all it said.
    fn problem(&self) -> Problem {
        let after = |mark: &str| self.errors.iter().find_map(|line| line.strip_prefix(mark));
        let cause = after("error: ").map_or_else(|| self.errors.join("; "), str::to_owned);
        let status = self.status.unwrap_or(-1);
        let problem = match cause.as_str() {
            "" => Problem::new(format!("the program in the machine ended with status {status}")),
            _ => Problem::new(format!("in the machine: {cause}")),
        };
        match after("fix: ") {
            Some(fix) => problem.fix(fix),
            None => problem,
        }
    }
}

/// A machine with its program at work.
pub struct Session {
    machine: Machine,
    printed: Printed,
    deadline: Instant,
    stop: Arc<AtomicBool>,
    pub live: Live,
    /// From power on to the guest's own first script.
    pub booted: Duration,
    /// To the program at work.
    pub ready: Duration,
}

/// Fetches what is missing.
pub fn fetch(live: &mut Live) -> Result<Guest, Problem> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(Problem::new(format!(
            "machines are x86-64 only, and this is {}",
            std::env::consts::ARCH
        )));
    }
    let packages = Packages::open()?;
    let start = Instant::now();
    let guest = thread::scope(|scope| {
        let fetching = scope.spawn(|| Guest::fetch(&packages).map(|guest| guest.with_tsc(bus::tsc::hz())));
        while !fetching.is_finished() {
            if start.elapsed() > Duration::from_secs(2) {
                live.show(|| {
                    let (cache, seconds) = (packages.cache().display(), start.elapsed().as_secs());
                    format!("fetching QEMU, a kernel and tools from Debian into {cache}, once: {seconds} s")
                });
            }
            thread::sleep(Duration::from_millis(10));
        }
        fetching.join()
    });
    live.close();
    Ok(guest.map_err(|_| Problem::new("a thread panicked: this is a bug in ixora"))??)
}

impl Session {
    /// Boots a machine and waits until its program is at work.
    pub fn start(
        guest: &Guest,
        place: &WorkDir,
        options: &arguments::Machine,
        order: Order<'_>,
        mut live: Live,
        stop: &Arc<AtomicBool>,
    ) -> Result<Session, Problem> {
        let rig = Rig {
            directory: place.path(),
            program: Path::new("/proc/self/exe"),
            nic: options.nic,
            cables: order.cables,
            app: order.app,
            words: &order.words,
            file: order.file,
            memory_mib: options.memory as usize,
            limit: options.timeout,
        };
        live.end(|| format!("a machine with {}", describe(options, order.cables)));
        let mut left = STARTS;
        let deadline = Instant::now() + options.timeout;
        loop {
            left -= 1;
            let machine = rig.boot(guest)?;
            let (stop, printed, none) = (stop.clone(), Printed::default(), Duration::ZERO);
            let mut session = Session { machine, printed, deadline, stop, live, booted: none, ready: none };
            if session.begin(left == 0)? {
                return Ok(session);
            }
            let hung =
                session.with_console(Problem::new("the machine hung while booting and is started again"));
            session.live.warn(&hung.cause);
            live = session.live;
        }
    }

    /// Until the program is at work; `false` for a machine that hangs before, unless
    /// it is the last one.
    fn begin(&mut self, last: bool) -> Result<bool, Problem> {
        let mut started = false;
        while !started {
            if !last && self.booted.is_zero() && self.machine.hangs() {
                return Ok(false);
            }
            self.live.show(|| format!("booting, {:.0} s", self.machine.start.elapsed().as_secs_f64()));
            match self.hear()? {
                Some(Message::Booted) => self.booted = self.machine.start.elapsed(),
                Some(Message::Started) => started = true,
                // A generator of few packets was done before anybody saw it at work.
                Some(Message::Ended(0)) => started = true,
                Some(Message::Done) => return Err(self.printed.problem()),
                _ => {}
            }
        }
        self.ready = self.machine.start.elapsed();
        let (booted, ready) = (self.booted.as_secs_f64(), self.ready.as_secs_f64());
        self.live.end(|| format!("booted in {booted:.1} s, at work after {ready:.1} s"));
        Ok(true)
    }

    /// Listens for a moment, and keeps what the program printed. A problem comes
    /// with the end of the console.
    fn hear(&mut self) -> Result<Option<Message>, Problem> {
        self.listen().map_err(|problem| self.with_console(problem))
    }

    fn listen(&mut self) -> Result<Option<Message>, Problem> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Problem::new("interrupted"));
        }
        if Instant::now() > self.deadline {
            return Err(Problem::new("the machine's time was over").fix("give it more with --timeout"));
        }
        let message = match self.machine.hear(POLL_INTERVAL) {
            Report::Nothing => return Ok(None),
            Report::Gone => return Err(Problem::new("the machine ended before its program did")),
            Report::Message(message) => message,
        };
        match &message {
            Message::Out(line) => self.printed.out += &(line.clone() + "\n"),
            Message::Err(line) => self.printed.errors.push(line.clone()),
            Message::Ended(status) => self.printed.status = Some(*status),
            Message::File(bytes) => self.printed.file = Some(bytes.clone()),
            Message::Problem(why) => return Err(Problem::new(format!("in the machine: {why}"))),
            Message::Booted | Message::Started | Message::Done => {}
        }
        Ok(Some(message))
    }

    /// Watches until `done` says so, or the program has ended by itself.
    pub fn watch(
        &mut self,
        mut done: impl FnMut() -> bool,
        mut line: impl FnMut() -> String,
    ) -> Result<(), Problem> {
        while !done() && self.printed.status.is_none() {
            self.live.show(&mut line);
            self.hear()?;
        }
        self.live.close();
        Ok(())
    }

    /// Asks the program to end, unless it has, and takes what it printed.
    pub fn finish(&mut self) -> Result<&Printed, Problem> {
        if self.printed.status.is_none() {
            self.machine.stop();
        }
        self.deadline = self.deadline.max(Instant::now() + GRACE);
        while self.hear()? != Some(Message::Done) {}
        match self.printed.status {
            Some(0) => Ok(&self.printed),
            _ => Err(self.printed.problem()),
        }
    }

    /// What the program printed so far.
    pub fn printed(&self) -> &Printed {
        &self.printed
    }

    /// The models' report, where the NICs are models.
    pub fn models(&mut self) -> Result<Option<Value>, Problem> {
        Ok(self.machine.models.as_mut().map(lab::scenario::Served::report).transpose()?)
    }

    /// What the linter found, where the NICs are models.
    pub fn findings(&mut self) -> Result<Vec<String>, Problem> {
        let models = self.machine.models.as_mut();
        Ok(models.map(|models| models.findings(&[])).transpose()?.unwrap_or_default())
    }

    /// The machine itself, for a shell.
    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// A problem with the end of the console below it.
    fn with_console(&mut self, problem: Problem) -> Problem {
        self.live.close();
        if self.stop.load(Ordering::Relaxed) {
            return problem;
        }
        let console = self.machine.console();
        let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let tail = &lines[lines.len().saturating_sub(TAIL)..];
        match tail.is_empty() {
            true => problem,
            false => Problem {
                cause: format!("{}; its console ended with:\n  {}", problem.cause, tail.join("\n  ")),
                ..problem
            },
        }
    }
}

/// The NICs in words.
pub fn describe(options: &arguments::Machine, cables: Cables<'_>) -> String {
    let nics = match cables {
        Cables::Lines([_]) => "one NIC".to_owned(),
        Cables::Lines(lines) => format!("{} NICs", lines.len()),
        Cables::Pair => "two NICs on one cable".to_owned(),
    };
    let way = if options.nic.is_by_vfio() { "VFIO, an ordinary user" } else { "physical addresses, root" };
    format!("{nics}, {} ({way})", options.nic.name())
}

/// Lines to the host, one for each name.
pub fn lines(place: &WorkDir, names: &[&str]) -> Result<Vec<Line>, Problem> {
    names.iter().map(|name| Ok(Line::new(place.path(), name)?)).collect()
}

/// Where the console of a session is, for the reader.
pub fn console(place: &WorkDir) -> PathBuf {
    place.path().join("console.log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_error_and_fix_come_out_of_the_machine() {
        let errors = ["noise", "error: no IOMMU", "fix: boot with one"].map(str::to_owned).to_vec();
        let printed = Printed { errors, status: Some(1), ..Printed::default() };
        assert_eq!(printed.problem(), Problem::new("in the machine: no IOMMU").fix("boot with one"));
        let silent = Printed { status: Some(139), ..Printed::default() };
        assert!(silent.problem().cause.ends_with("status 139"));
        let wordy = Printed { errors: vec!["Killed".to_owned()], status: Some(137), ..Printed::default() };
        assert!(wordy.problem().cause.contains("Killed"));
    }
}
