//! What every guest is made of: QEMU, a kernel, and a base of tools.
//!
//! The base holds a static busybox, programs of Debian with their libraries,
//! modules of the kernel and `/init`, which sources `/lab/test.sh` and powers
//! off. It is made once for each set of parts and kept in the cache.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::initramfs::Archive;
use crate::kernel::Kernel;
use crate::packages::{Packages, Suite, Tree};
use crate::{Error, Result};

/// The first program of the guest.
const INIT: &str = include_str!("guest/init.sh");

/// Modules that some scenario loads.
const MODULES: &[&str] = &[
    "ixgbe",
    "ixgbevf",
    "i40e",
    "iavf",
    "igb",
    "e1000e",
    "virtio_pci",
    "virtio_net",
    "8021q",
    "vfio_pci",
    "vfio_iommu_type1",
    "uio_pci_generic",
    "veth",
    "bridge",
];

/// Packages with the tools of the guest, and their programs.
const TOOLS: &[(&str, &[&str])] = &[
    // A shell that runs the tools of Debian, not those of busybox.
    ("dash", &["bin/dash", "usr/bin/dash"]),
    ("iproute2", &["sbin/ip", "bin/ip", "usr/bin/ip"]),
    ("ethtool", &["sbin/ethtool", "usr/sbin/ethtool"]),
    ("iputils-ping", &["bin/ping", "usr/bin/ping"]),
];

/// All that a machine needs before a test is known.
#[derive(Debug)]
pub struct Guest {
    qemu: Tree,
    kernel: Kernel,
    base: Archive,
    tsc_khz: Option<u64>,
}

impl Guest {
    /// Fetches what is missing in the cache.
    ///
    /// # Errors
    /// What [`Packages::tree`] says.
    pub fn fetch(packages: &Packages) -> Result<Guest> {
        let qemu = packages.tree(&["qemu-system-x86"], Suite::TRIXIE_BACKPORTS)?;
        let busybox = packages.alone(&["busybox-static"], Suite::BOOKWORM)?;
        let busybox = busybox.first(&["bin/busybox", "usr/bin/busybox"])?;
        let kernel = Kernel::fetch(packages, Suite::BOOKWORM)?;
        let names: Vec<&str> = TOOLS.iter().map(|(package, _)| *package).collect();
        let tools = packages.tree(&names, Suite::BOOKWORM)?;
        let mut base = Archive::new();
        for directory in ["proc", "sys", "dev", "tmp", "run/netns", "var/run", "etc", "lab", "root"] {
            base.directory(directory);
        }
        base.program("init", INIT.as_bytes());
        base.copy("bin/busybox", &busybox)?;
        base.link("usr/bin/sh", "dash");
        for (_, places) in TOOLS {
            let program = tools.first(places)?;
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            base.copy(&format!("usr/bin/{name}"), &program)?;
            libraries(&mut base, &tools, program)?;
        }
        modules(&mut base, &kernel)?;
        Ok(Guest { qemu, kernel, base, tsc_khz: None })
    }

    /// Tells guests how often this machine's time stamp counter ticks in a second,
    /// which is theirs under QEMU's translator. A kernel that measures it while the
    /// machine is busy may be wrong by any factor, and then all its waiting is.
    pub fn with_tsc(mut self, hz: u64) -> Guest {
        self.tsc_khz = Some(hz / 1000);
        self
    }

    /// In thousands a second, where it is known.
    pub(crate) fn tsc_khz(&self) -> Option<u64> {
        self.tsc_khz
    }

    /// The unpacked packages of QEMU.
    pub fn qemu(&self) -> &Tree {
        &self.qemu
    }

    /// The kernel that guests boot.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The tools, to which a test is added.
    pub fn base(&self) -> Archive {
        self.base.clone()
    }
}

/// A program's libraries and its loader, as the tree's own loader finds them.
fn libraries(base: &mut Archive, tree: &Tree, program: PathBuf) -> Result<()> {
    let loader = tree.loader()?;
    let paths = std::env::join_paths(tree.libraries()).unwrap_or_default();
    let output = std::process::Command::new(&loader)
        .arg("--library-path")
        .arg(paths)
        .arg("--list")
        .arg(&program)
        .output()
        .map_err(Error::at(&loader))?;
    base.copy("lib64/ld-linux-x86-64.so.2", &loader)?;
    add_listed(base, &output.stdout)
}

/// Puts a program of unpacked packages into an archive, with the tree's libraries
/// where they are looked for.
///
/// # Errors
/// [`Error::Missing`] when it is not in the tree, [`Error::File`] when it cannot
/// be read or the tree's loader does not start.
pub fn tree_program(archive: &mut Archive, tree: &Tree, program: &str) -> Result<()> {
    let file = tree.file(program)?;
    archive.copy(program, &file)?;
    libraries(archive, tree, file)
}

/// Puts a program of the host into an archive, with the host's libraries and
/// loader where they are looked for: they are as new as those of the base, or
/// newer, and serve its tools, too.
///
/// # Errors
/// [`Error::File`] when something cannot be read or the loader does not start.
pub fn host_program(archive: &mut Archive, to: &str, program: &Path) -> Result<()> {
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    archive.copy(to, program)?;
    archive.copy("lib64/ld-linux-x86-64.so.2", loader)?;
    let output = std::process::Command::new(loader).arg("--list").arg(program).output();
    add_listed(archive, &output.map_err(Error::at(loader))?.stdout)
}

/// Adds libraries from the loader's list, lines of `name => path (address)`.
fn add_listed(archive: &mut Archive, list: &[u8]) -> Result<()> {
    for line in String::from_utf8_lossy(list).lines() {
        let Some((name, rest)) = line.trim().split_once(" => ") else { continue };
        let path = rest.split(" (").next().unwrap_or_default();
        if path.starts_with('/') && !name.contains('/') {
            archive.copy(&format!("lib/x86_64-linux-gnu/{name}"), path.as_ref())?;
        }
    }
    Ok(())
}

/// The modules and the list by which the guest's modprobe finds them.
fn modules(base: &mut Archive, kernel: &Kernel) -> Result<()> {
    let below = format!("lib/modules/{}", kernel.version());
    let mut list = String::new();
    let mut done = std::collections::BTreeSet::new();
    for name in MODULES {
        let Ok(chain) = kernel.chain(name) else { continue }; // built in
        for path in chain {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if !done.insert(name.clone()) {
                continue;
            }
            let full = kernel.root().join(path);
            let data = fs::read(&full).map_err(Error::at(&full))?;
            base.file(&format!("{below}/{}", path.display()), &data);
            let mut needs = kernel.chain(&name)?;
            needs.pop();
            let needs: Vec<String> = needs.iter().rev().map(|path| path.display().to_string()).collect();
            let _ = writeln!(list, "{}: {}", path.display(), needs.join(" "));
        }
    }
    base.file(&format!("{below}/modules.dep"), list.as_bytes());
    Ok(())
}
