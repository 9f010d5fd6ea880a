//! What a DPDK driver expects to find of PCI devices bound to `igb_uio`: a tree
//! of files as in sysfs, of devices that there are only here.
//!
//! DPDK looks for devices where `SYSFS_PCI_DEVICES` says, but for their UIO
//! device in `/sys/class/uio` and `/dev`; so the tree is mounted there, in a
//! mount namespace that only the driver is in.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use bus::Ids;
use bus::config_space::ConfigSpace;
use tempfile::TempDir;

use super::Nic;

/// What the driver finds of each device, which is an Ethernet controller, beside its device id.
const INTEL: Ids =
    Ids { vendor: 0x8086, device: 0, revision: 0, class: 0x02_0000, subsystem_vendor: 0x8086, subsystem: 3 };

/// A shell's command: makes devices and mounts, then becomes the driver. `$0`
/// is the tree, the arguments are the driver's command line.
pub const ENTER: &str = r#"
set -e
mount -t tmpfs tmpfs "$0/dev"
mknod -m 666 "$0/dev/null" c 1 3
mknod -m 666 "$0/dev/zero" c 1 5
mknod -m 666 "$0/dev/random" c 1 8
mknod -m 666 "$0/dev/urandom" c 1 9
mkfifo "$0/dev/uio0" "$0/dev/uio1"
mkdir "$0/dev/hugepages"
mount -t hugetlbfs hugetlbfs "$0/dev/hugepages"
mount --bind "$0/class" /sys/class
mount --rbind "$0/dev" /dev
exec "$@"
"#;

/// What a driver finds of a device before it maps registers.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    device: u16,
    /// Bytes of BAR 0.
    registers: u64,
}

impl Function {
    /// A minimal device's.
    pub fn of(nic: Nic) -> Function {
        match nic {
            Nic::Ixgbe => {
                Function { device: testbed::minimal::DEVICE, registers: regs::ixgbe::BAR0_LEN.into() }
            }
            Nic::I40e => {
                Function { device: testbed::i40e::DEVICE_QSFP, registers: regs::i40e::BAR0_LEN.into() }
            }
        }
    }
}

/// The tree; removed when dropped.
#[derive(Debug)]
pub struct Tree(TempDir);

/// Where BAR 0 would be on a bus.
const BAR0: u64 = 0xF000_0000;

/// The address of device `n`.
pub fn address(n: usize) -> String {
    format!("0000:00:{:02x}.0", n + 1)
}

impl Tree {
    /// A tree of devices whose registers are these files, which must stay open
    /// as long as the tree is used.
    pub fn new(registers: &[BorrowedFd<'_>], function: Function) -> io::Result<Tree> {
        let tree = Tree(tempfile::Builder::new().prefix("ixora-peers-").tempdir()?);
        fs::create_dir(tree.path().join("dev"))?;
        fs::create_dir_all(tree.path().join("igb_uio"))?;
        for (n, file) in registers.iter().enumerate() {
            tree.add(n, function, *file)?;
        }
        Ok(tree)
    }

    /// The directory that the tree is in.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// What `SYSFS_PCI_DEVICES` is to be.
    pub fn devices(&self) -> PathBuf {
        self.path().join("devices")
    }

    fn add(&self, n: usize, function: Function, registers: BorrowedFd<'_>) -> io::Result<()> {
        let Function { device, registers: len } = function;
        let place = self.devices().join(address(n));
        fs::create_dir_all(place.join(format!("uio/uio{n}")))?;
        let class = self.path().join(format!("class/uio/uio{n}"));
        fs::create_dir_all(&class)?;
        symlink(&place, class.join("device"))?;
        symlink(self.path().join("igb_uio"), place.join("driver"))?;
        symlink(
            format!("/proc/{}/fd/{}", std::process::id(), registers.as_raw_fd()),
            place.join("resource0"),
        )?;
        // Flags: IORESOURCE_MEM.
        let first = format!("0x{BAR0:016x} 0x{:016x} 0x200\n", BAR0 + len - 1);
        let none = format!("0x{0:016x} 0x{0:016x} 0x{0:016x}\n", 0);
        fs::write(place.join("resource"), first + &none.repeat(6))?;
        let ids = Ids { device, ..INTEL };
        let mut config = [0; 256];
        ConfigSpace::new(ids).read(0, &mut config);
        fs::write(place.join("config"), config)?;
        let facts = [
            ("vendor", format!("0x{:04x}", ids.vendor)),
            ("device", format!("0x{:04x}", ids.device)),
            ("subsystem_vendor", format!("0x{:04x}", ids.subsystem_vendor)),
            ("subsystem_device", format!("0x{:04x}", ids.subsystem)),
            ("class", format!("0x{:06x}", ids.class)),
            ("max_vfs", "0".to_owned()),
            ("numa_node", "0".to_owned()),
        ];
        facts.iter().try_for_each(|(name, text)| fs::write(place.join(name), format!("{text}\n")))
    }
}
