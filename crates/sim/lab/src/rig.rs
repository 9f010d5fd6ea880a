//! A guest in which our program works on NICs that nobody here wrote, or on our
//! own models, with the host at the other end of their cables.
//!
//! [`Rig`] says what is wanted, [`Rig::boot`] starts it, a [`Machine`] is it
//! under way. [`mod@line`] and [`load`] are the host's side of the traffic,
//! [`control`] what host and guest tell each other.

pub mod control;
pub mod line;
pub mod load;
pub mod program;

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::guest::Guest;
use crate::scenario::Served;
use crate::vm::{Running, Vm};
use crate::{Error, Result};
use control::{Control, Report};
use line::Line;

const SCRIPT: &str = include_str!("rig/guest.sh");
/// QEMU has connected by then, or does not start.
const STARTS: Duration = Duration::from_secs(15);
/// Hugepages of 2 MiB in the guest.
const PAGES: usize = 64;

/// A kind of NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nic {
    /// virtio 1.x, split rings.
    Virtio,
    /// virtio 1.x, packed rings.
    VirtioPacked,
    /// virtio with both faces.
    VirtioTransitional,
    /// virtio before 1.0: I/O ports, physical addresses.
    VirtioLegacy,
    /// QEMU's Intel 82576.
    Igb,
    /// Our model of Intel's 82599, served to QEMU over vfio-user.
    IxgbeModel,
}

impl Nic {
    /// All NICs that guests can have.
    pub const ALL: [Nic; 6] = [
        Nic::Virtio,
        Nic::VirtioPacked,
        Nic::VirtioTransitional,
        Nic::VirtioLegacy,
        Nic::Igb,
        Nic::IxgbeModel,
    ];

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Nic::Virtio => "virtio",
            Nic::VirtioPacked => "virtio-packed",
            Nic::VirtioTransitional => "virtio-transitional",
            Nic::VirtioLegacy => "virtio-legacy",
            Nic::Igb => "igb",
            Nic::IxgbeModel => "ixgbe-model",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Nic> {
        Nic::ALL.into_iter().find(|nic| nic.name() == name)
    }

    /// Whether a driver gets at it by VFIO, behind an IOMMU and as an ordinary
    /// user. virtio takes part in that only by a feature of 1.0 (section 6,
    /// `VIRTIO_F_ACCESS_PLATFORM`), which QEMU refuses for the older faces: they
    /// are driven through sysfs, with physical addresses, by root.
    pub fn is_by_vfio(self) -> bool {
        !matches!(self, Nic::VirtioTransitional | Nic::VirtioLegacy)
    }

    /// The address of the NIC number `n` on a machine.
    pub fn mac(self, n: u8) -> [u8; 6] {
        match self {
            Nic::IxgbeModel => [0x02, 0x49, 0x58, 0, 0, n + 1],
            _ => [0x52, 0x54, 0x00, 0x49, 0x58, n + 1],
        }
    }

    /// Frames that its cable to the host holds, where it loses what comes on top
    /// of them: QEMU waits, our models do not. unix(7), `max_dgram_qlen`.
    pub fn cable_holds(self) -> Option<u32> {
        let limit = || fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").ok()?.trim().parse().ok();
        (self == Nic::IxgbeModel).then(|| limit().unwrap_or(10_u32).max(1))
    }

    /// QEMU's device; `None` for one that another process serves.
    fn device(self) -> Option<&'static str> {
        match self {
            Nic::Virtio => Some("virtio-net-pci,disable-legacy=on,iommu_platform=on"),
            Nic::VirtioPacked => Some("virtio-net-pci,disable-legacy=on,iommu_platform=on,packed=on"),
            Nic::VirtioTransitional => Some("virtio-net-pci,disable-legacy=off,disable-modern=off"),
            Nic::VirtioLegacy => Some("virtio-net-pci,disable-modern=on"),
            Nic::Igb => Some("igb"),
            Nic::IxgbeModel => None,
        }
    }
}

/// Where the NICs' cables end.
#[derive(Debug, Clone, Copy)]
pub enum Cables<'a> {
    /// One NIC for each line to the host.
    Lines(&'a [Line]),
    /// Two NICs on one cable.
    Pair,
}

impl Cables<'_> {
    fn nics(&self) -> usize {
        match self {
            Cables::Lines(lines) => lines.len(),
            Cables::Pair => 2,
        }
    }
}

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Rig<'a> {
    /// Sockets and the console's log, `console.log`, are in this directory.
    pub directory: &'a Path,
    /// The program, `ixora`.
    pub program: &'a Path,
    /// The kind of all its NICs.
    pub nic: Nic,
    /// Where they end.
    pub cables: Cables<'a>,
    /// The command of `ixora` that runs in the guest, or `shell`.
    pub app: &'a str,
    /// Its words behind the addresses of the NICs.
    pub words: &'a [String],
    /// A file that it writes in the guest, to be sent to the host.
    pub file: Option<&'a str>,
    /// The guest's memory, MiB.
    pub memory_mib: usize,
    /// How long the machine may live.
    pub limit: Duration,
}

/// A guest under way; it ends with its handle.
#[derive(Debug)]
pub struct Machine {
    /// What the guest says.
    pub control: Control,
    /// When it was started.
    pub start: Instant,
    /// The process of the models, where the NICs are such.
    pub models: Option<Served>,
    running: Running,
}

impl Rig<'_> {
    /// Starts the machine; its script runs some seconds later.
    ///
    /// # Errors
    /// [`Error::File`] for sockets, the program or the log; [`Error::Program`] or
    /// [`Error::Malformed`], with QEMU's words, when QEMU does not start.
    pub fn boot(&self, guest: &Guest) -> Result<Machine> {
        let log = self.directory.join("console.log");
        let mut vm = Vm::new(guest, log.clone(), SCRIPT);
        (vm.iommu, vm.limit, vm.memory_mib) = (self.nic.is_by_vfio(), self.limit, self.memory_mib);
        vm.files.file("lab/environment", self.environment().as_bytes());
        vm.files.file("lab/run", self.command().as_bytes());
        let bare = self.directory.join("ixora");
        strip(self.program, &bare)?;
        let vm = vm.host_program("ixora", &bare)?;
        let mut control = Control::new(self.directory)?;
        let (vm, models) = self.plug(vm)?;
        let vm = vm.with(&control.arguments().each_ref().map(String::as_str));
        // Nobody else ends it where this process is killed.
        let vm = vm.with(&["-run-with", "exit-with-parent=on"]);
        let start = Instant::now();
        let running = vm.start()?;
        if !control.connect(STARTS) {
            let reason = match running.console().trim() {
                "" => "QEMU did not start, and did not say why".to_owned(),
                said => format!("QEMU did not start: {said}"),
            };
            return Err(Error::Malformed { path: log, reason });
        }
        Ok(Machine { control, start, models, running })
    }

    /// Adds the NICs, and starts the process that serves them where there is one.
    fn plug<'b>(&self, mut vm: Vm<'b>) -> Result<(Vm<'b>, Option<Served>)> {
        let Some(device) = self.nic.device() else {
            let (sockets, served) = self.serve()?;
            let vm = sockets.iter().fold(vm, |vm, socket| vm.served(socket));
            return Ok((vm, Some(served)));
        };
        for n in 0..self.cables.nics() {
            let netdev = match self.cables {
                Cables::Lines(lines) => lines[n].netdev(&format!("n{n}")),
                Cables::Pair => format!("hubport,id=n{n},hubid=0"),
            };
            let mac = self.nic.mac(n as u8).map(|byte| format!("{byte:02x}")).join(":");
            let device = format!("{device},mac={mac}");
            vm = match self.nic.is_by_vfio() {
                true => vm.nic(&device, &netdev, n),
                // I/O ports are PCI's, not PCI Express's: no port of its own.
                false => vm.with(&["-netdev", &netdev, "-device", &format!("{device},netdev=n{n}")]),
            };
        }
        Ok((vm, None))
    }

    fn serve(&self) -> Result<(Vec<PathBuf>, Served)> {
        let mut words = vec!["82599".to_owned()];
        let mut sockets = Vec::new();
        for n in 0..self.cables.nics() {
            let socket = self.directory.join(format!("nic{n}"));
            let wire = match self.cables {
                Cables::Lines(lines) => lines[n].wire(),
                Cables::Pair => "pair".to_owned(),
            };
            words.extend(["--socket".to_owned(), socket.display().to_string(), "--wire".to_owned(), wire]);
            sockets.push(socket);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok((sockets, Served::start(self.program, &words, &self.directory.join("model.log"))?))
    }

    fn environment(&self) -> String {
        let way = if self.nic.is_by_vfio() { "vfio" } else { "sysfs" };
        let (app, nics, limit) = (self.app, self.cables.nics(), self.limit.as_secs() + 30);
        let file = self.file.unwrap_or_default();
        format!("APP={app}\nNICS={nics}\nWAY={way}\nPAGES={PAGES}\nLIMIT={limit}\nFILE={file}\n")
    }

    /// What the guest's shell runs, with the addresses as its words.
    fn command(&self) -> String {
        let mut command = format!("exec ixora {} \"$@\"", self.app);
        for word in self.words {
            let _ = write!(command, " '{}'", word.replace('\'', r"'\''"));
        }
        command + "\n"
    }
}

/// Copies a program without what it does not need to run.
fn strip(program: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(program).map_err(Error::at(program))?;
    fs::write(to, program::without_sections(bytes)).map_err(Error::at(to))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).map_err(Error::at(to))
}

impl Machine {
    /// Whether it should have booted long ago, and has not.
    pub fn hangs(&mut self) -> bool {
        self.running.hangs()
    }

    /// Listens to the guest, at most for so long.
    pub fn hear(&mut self, limit: Duration) -> Report {
        self.control.hear(limit)
    }

    /// Asks the program in the guest to end.
    pub fn stop(&mut self) {
        self.control.say("stop");
    }

    /// What the console said so far: the kernel's, the script's and QEMU's words.
    pub fn console(&self) -> String {
        self.running.console()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_name() {
        for nic in Nic::ALL {
            assert_eq!(Nic::named(nic.name()), Some(nic));
        }
        assert_eq!(Nic::named("e1000"), None);
    }

    #[test]
    fn words_reach_the_guests_shell_as_they_are() {
        let words = ["--batch".to_owned(), "a 'b' $c".to_owned()];
        let rig = Rig {
            directory: Path::new("/"),
            program: Path::new("/bin/true"),
            nic: Nic::Virtio,
            cables: Cables::Pair,
            app: "fwd",
            words: &words,
            file: None,
            memory_mib: 512,
            limit: Duration::from_secs(60),
        };
        let shown = rig.command().replace("exec ixora", "printf '%s.'");
        let output = std::process::Command::new("sh").args(["-c", &shown, "sh", "0000:01:00.0"]).output();
        let text = String::from_utf8(output.expect("a shell").stdout).expect("text");
        assert_eq!(text, "fwd.0000:01:00.0.--batch.a 'b' $c.");
        assert!(rig.environment().contains("WAY=vfio\n"));
    }
}
