//! One virtual machine: its command line, its console, and what it said.
//!
//! QEMU 11's own translator (TCG), q35, a serial console in a file. A guest
//! says `LAB: ok NAME` and `LAB: fail NAME WHY`, and `LAB: end` before it powers
//! off; anything else is for the reader of the log, but for a request of QEMU's that
//! a device refused. A guest that must wait for the host reads a line from its second
//! serial port.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::guest::Guest;
use crate::initramfs::Archive;
use crate::{Error, Result};

const WORDS: &str = "console=ttyS0 loglevel=7 panic=-1 oops=panic nokaslr mitigations=off tsc=reliable \
                     no_timer_check noreplace-smp net.ifnames=0 rdinit=/init";

/// What QEMU says when a process that serves a device refuses a request, whether QEMU
/// waited for its answer or not.
const REFUSED: [&str; 2] = ["error reply on async request", "vfio_container_dma_"];

/// What the guest's first program says first. A kernel that QEMU's translator does
/// not bring so far in [`Vm::boot_limit`] hangs, seen once in some hundred boots.
const BOOTED: &str = "LAB: booted";

/// What is to be booted.
#[derive(Debug)]
pub struct Vm<'a> {
    guest: &'a Guest,
    /// How many virtual processors it has.
    pub cpus: usize,
    /// Memory in MiB; other processes may map it.
    pub memory_mib: usize,
    /// With an IOMMU, so that VFIO works inside.
    pub iommu: bool,
    /// With a NUMA node for each of two processors, and half of the memory each.
    pub nodes: bool,
    /// Further arguments of QEMU: devices and their back ends.
    pub arguments: Vec<String>,
    /// What is added to the base: `lab/test.sh` among it.
    pub files: Archive,
    /// How long it may take.
    pub limit: Duration,
    /// Where its console goes, and QEMU's own complaints.
    pub log: PathBuf,
}

/// The socket of a machine that is told something, beside its log.
const LINE: &str = "line";

/// How a machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The test ran to its end.
    Finished,
    /// The kernel hung before the guest's first program: nothing was tested.
    NeverBooted,
    /// QEMU ended before the test.
    Died,
    /// The time was over.
    TimeLimit,
}

/// What a machine said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Checks that passed.
    pub passed: Vec<String>,
    /// Checks that failed, each with its reason.
    pub failed: Vec<String>,
    /// How it ended.
    pub end: End,
    /// How long it took.
    pub elapsed: Duration,
}

impl Outcome {
    /// Whether all went well, and something was checked at all.
    pub fn is_good(&self) -> bool {
        self.end == End::Finished && self.failed.is_empty() && !self.passed.is_empty()
    }
}

impl<'a> Vm<'a> {
    /// Two processors, 512 MiB, a test, and time enough for it on a machine that is
    /// busy with thirty other things: it only bounds a hang.
    pub fn new(guest: &'a Guest, log: PathBuf, script: &str) -> Vm<'a> {
        let mut files = Archive::new();
        files.file("lab/test.sh", script.as_bytes());
        let limit = Duration::from_secs(600);
        Vm {
            guest,
            cpus: 2,
            memory_mib: 512,
            iommu: false,
            nodes: false,
            arguments: Vec::new(),
            files,
            limit,
            log,
        }
    }

    /// Adds arguments of QEMU.
    pub fn with(mut self, arguments: &[&str]) -> Vm<'a> {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// A device that another process serves at a socket.
    pub fn served(self, socket: &Path) -> Vm<'a> {
        let device = format!(
            r#"{{"driver":"vfio-user-pci","socket":{{"path":"{}","type":"unix"}}}}"#,
            socket.display()
        );
        self.with(&["-device", &device])
    }

    /// A second serial port, over which the guest hears from [`Running::tell`]; its
    /// script calls `listen` before it says that it is ready for that.
    pub fn told(self) -> Vm<'a> {
        let path = self.log.with_file_name(LINE);
        self.line(&path)
    }

    /// A second serial port, with the host's end at a socket.
    pub fn line(self, socket: &Path) -> Vm<'a> {
        let chardev = format!("socket,id=line,path={},server=on,wait=off", socket.display());
        self.with(&["-chardev", &chardev, "-serial", "chardev:line"])
    }

    /// Number `n` of QEMU's own NICs, `igb`, `e1000e` or `virtio-net-pci` with
    /// options, behind a `-netdev` with the id `nN`. Each has a port of its own:
    /// the virtual functions of two 82576 do not fit side by side.
    pub fn nic(self, device: &str, netdev: &str, n: usize) -> Vm<'a> {
        let port = format!("pcie-root-port,id=r{n},chassis={n},addr=0x{:x}", n + 5);
        let nic = format!("{device},netdev=n{n},bus=r{n}");
        self.with(&["-netdev", netdev, "-device", &port, "-device", &nic])
    }

    /// Two NICs of QEMU's own on one cable.
    pub fn pair(self, devices: [&str; 2]) -> Vm<'a> {
        let [a, b] = devices;
        self.nic(a, "hubport,id=n0,hubid=0", 0).nic(b, "hubport,id=n1,hubid=0", 1)
    }

    /// A program of the host, as `usr/bin/NAME`.
    ///
    /// # Errors
    /// As [`crate::guest::host_program`].
    pub fn host_program(mut self, name: &str, program: &Path) -> Result<Vm<'a>> {
        crate::guest::host_program(&mut self.files, &format!("usr/bin/{name}"), program)?;
        Ok(self)
    }

    /// Boots it.
    ///
    /// # Errors
    /// [`Error::File`] when the log or the archive cannot be written;
    /// [`Error::Program`] when QEMU does not start.
    pub fn start(self) -> Result<Running> {
        let directory = self.log.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(Error::at(directory))?;
        let archive = self.log.with_extension("cpio");
        let mut bytes = self.guest.base().finish();
        bytes.extend(self.files.clone().finish());
        fs::write(&archive, bytes).map_err(Error::at(&archive))?;
        let log = File::create(&self.log).map_err(Error::at(&self.log))?;
        let errors = log.try_clone().map_err(Error::at(&self.log))?;
        let mut command = self.guest.qemu().command("usr/bin/qemu-system-x86_64")?;
        let root = self.guest.qemu().root();
        let split = if self.iommu { ",kernel-irqchip=split" } else { "" };
        let mut words = if self.iommu { format!("{WORDS} intel_iommu=on") } else { WORDS.to_owned() };
        if let Some(khz) = self.guest.tsc_khz() {
            words += &format!(" tsc_early_khz={khz}");
        }
        command.env("QEMU_MODULE_DIR", root.join("usr/lib/x86_64-linux-gnu/qemu"));
        for share in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
            command.arg("-L").arg(root.join(share));
        }
        command.args(["-accel", "tcg,thread=multi", "-nodefaults", "-no-user-config", "-no-reboot"]);
        command.args(["-display", "none", "-serial", "stdio", "-cpu", "max"]);
        command.args(["-smp", &self.cpus.to_string(), "-m", &format!("{}M", self.memory_mib)]);
        let memory = |id: &str, mib: usize| format!("memory-backend-memfd,id={id},size={mib}M,share=on");
        if self.nodes {
            for (node, id) in ["m0", "m1"].into_iter().enumerate() {
                command.args(["-object", &memory(id, self.memory_mib / 2)]);
                command.args(["-numa", &format!("node,nodeid={node},memdev={id},cpus={node}")]);
            }
            command.args(["-M", &format!("q35{split}")]);
        } else {
            command.args(["-object", &memory("m", self.memory_mib)]);
            command.args(["-M", &format!("q35,memory-backend=m{split}")]);
        }
        if self.iommu {
            command.args(["-device", "intel-iommu,intremap=on,caching-mode=on"]);
        }
        command.arg("-kernel").arg(self.guest.kernel().image());
        command.arg("-initrd").arg(&archive).args(["-append", &words]).args(&self.arguments);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().map_err(|source| Error::Program {
            program: "qemu-system-x86_64".to_owned(),
            package: "qemu-system-x86",
            source,
        })?;
        let (start, boot_limit) = (Instant::now(), self.boot_limit());
        let (limit, log) = (self.limit, self.log);
        let booting = Some(Boot { heard: start, said: 0 });
        Ok(Running { child, start, boot_limit, booting, limit, log, archive })
    }

    /// A kernel hangs that has not started its first program and says nothing for so long. It
    /// takes some seconds in all, and on a machine that is busy with thirty other things each
    /// of its words takes as many times as long.
    fn boot_limit(&self) -> Duration {
        (self.limit / 3).clamp(Duration::from_secs(30), Duration::from_secs(150))
    }

    /// Boots it and waits for its end.
    ///
    /// # Errors
    /// As [`Vm::start`].
    pub fn run(self) -> Result<Outcome> {
        self.start()?.wait()
    }
}

/// What a kernel that boots has said.
#[derive(Debug, Clone, Copy)]
struct Boot {
    /// When it said something that was new.
    heard: Instant,
    /// Bytes of the console.
    said: usize,
}

/// A machine under way; it ends with its handle.
#[derive(Debug)]
pub struct Running {
    child: Child,
    start: Instant,
    boot_limit: Duration,
    /// Until its first program has started.
    booting: Option<Boot>,
    limit: Duration,
    log: PathBuf,
    archive: PathBuf,
}

impl Running {
    /// What its console said so far.
    pub fn console(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Waits until the console has said something; `false` when the machine
    /// ended or the time was over first.
    pub fn says(&mut self, text: &str) -> bool {
        loop {
            if self.console().contains(text) {
                return true;
            }
            if self.is_over() || !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether its time is over, or that to boot.
    fn is_over(&mut self) -> bool {
        self.start.elapsed() >= self.limit || self.hangs()
    }

    /// Whether it has not booted, and does not go on with it.
    pub fn hangs(&mut self) -> bool {
        let Some(boot) = self.booting else { return false };
        // Who cannot read the console cannot tell.
        let console = fs::read(&self.log).unwrap_or_else(|_| BOOTED.into());
        self.booting = boot.goes_on(&console, Instant::now());
        self.booting.is_some_and(|boot| boot.heard.elapsed() >= self.boot_limit)
    }

    /// Tells the script, which waits for a line with `hear`, to go on.
    ///
    /// # Errors
    /// [`Error::File`] when the machine is gone.
    pub fn tell(&self) -> Result<()> {
        let path = self.log.with_file_name(LINE);
        let mut stream = UnixStream::connect(&path).map_err(Error::at(&path))?;
        stream.write_all(b"go on\n").map_err(Error::at(&path))
    }

    /// Waits for the machine's end, or for its time to be over.
    ///
    /// # Errors
    /// [`Error::File`] when the log cannot be read.
    pub fn wait(mut self) -> Result<Outcome> {
        let mut timely = true;
        while matches!(self.child.try_wait(), Ok(None)) {
            if self.is_over() {
                timely = false;
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let elapsed = self.start.elapsed();
        let text = fs::read(&self.log).map_err(Error::at(&self.log))?;
        Ok(outcome(&String::from_utf8_lossy(&text), timely, elapsed))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.archive);
    }
}

impl Boot {
    /// After the console says so much; nothing when it has booted.
    fn goes_on(self, console: &[u8], now: Instant) -> Option<Boot> {
        let said = console.len();
        match String::from_utf8_lossy(console).contains(BOOTED) {
            true => None,
            false if said == self.said => Some(self),
            false => Some(Boot { heard: now, said }),
        }
    }
}

fn outcome(console: &str, timely: bool, elapsed: Duration) -> Outcome {
    let marks = console.lines().filter_map(|line| line.trim().split_once("LAB: ")).map(|(_, mark)| mark);
    let (mut passed, mut failed, mut end) = (Vec::new(), Vec::new(), End::Died);
    for mark in marks {
        match mark.split_once(' ') {
            Some(("ok", name)) => passed.push(name.to_owned()),
            Some(("fail", why)) => failed.push(why.to_owned()),
            None if mark == "end" => end = End::Finished,
            _ => {}
        }
    }
    let refused = console.lines().filter(|line| REFUSED.iter().any(|sign| line.contains(sign)));
    failed.extend(refused.map(|line| format!("QEMU: {}", line.trim())));
    let end = match timely {
        true => end,
        false if !console.contains(BOOTED) => End::NeverBooted,
        false => End::TimeLimit,
    };
    Outcome { passed, failed, end, elapsed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_read_by_its_marks() {
        let console = "[    0.1] Linux\r\nLAB: ok link\r\nnoise\r\nLAB: fail ping 3 lost\r\nLAB: end\r\n";
        let said = outcome(console, true, Duration::ZERO);
        assert_eq!((said.passed, said.failed), (vec!["link".to_owned()], vec!["ping 3 lost".to_owned()]));
        assert_eq!(said.end, End::Finished);
        assert!(outcome("LAB: ok a\nLAB: end", true, Duration::ZERO).is_good());
        assert!(!outcome("LAB: ok a\n", true, Duration::ZERO).is_good(), "QEMU died");
        let late = outcome("LAB: booted\nLAB: ok a\nLAB: end", false, Duration::ZERO);
        assert!(!late.is_good() && late.end == End::TimeLimit);
        assert_eq!(outcome("[    0.1] Linux", false, Duration::ZERO).end, End::NeverBooted);
        assert!(!outcome("LAB: end", true, Duration::ZERO).is_good(), "nothing was checked");
    }

    #[test]
    fn a_kernel_hangs_when_it_is_silent_not_when_it_is_slow() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let boot = Boot { heard: start, said: 0 };
        let slow = boot.goes_on(b"[    0.1] Linux", after(40)).expect("it has not booted");
        assert_eq!((slow.heard, slow.said), (after(40), 15));
        let silent = slow.goes_on(b"[    0.1] Linux", after(90)).expect("it has not booted");
        assert_eq!(silent.heard, after(40));
        assert!(silent.goes_on(b"[    0.1] Linux\r\nLAB: booted\r\n", after(95)).is_none());
    }

    #[test]
    fn a_request_that_a_device_refused_is_a_failure() {
        let said = "vfio_user_rcv error reply on async request command 3 error Invalid argument";
        let console = format!("LAB: ok a\nLAB: end\n[    9.2] reboot: Power down\n{said}\n");
        let outcome = outcome(&console, true, Duration::ZERO);
        assert_eq!(outcome.failed, [format!("QEMU: {said}")]);
    }
}
