//! The scenarios: a guest, what it meets, and what must come of it.
//!
//! Each has a name, a time limit and a log, and needs nothing of the others.
//! Programs of the project are run as they are, from the build's directory.

mod accounting;
mod apps;
mod dpdk;
mod forward;
mod guest_vfio;
mod igb;
mod linux_i40e;
mod linux_iavf;
mod linux_ixgbe;
mod linux_ixgbevf;
mod linux_pair;
mod linux_virtio;
mod numa;
mod ovs;
mod pf;
mod served;
mod soak;
mod vfio_models;
mod xdp;

use std::path::{Path, PathBuf};

use crate::Result;
use crate::guest::Guest;
use crate::packages::{DPDK, Packages, Suite};
use crate::vm::Outcome;

pub use served::Served;

/// What scenarios share.
#[derive(Debug)]
pub struct Bench {
    /// QEMU, kernel and tools.
    pub guest: Guest,
    /// The program under test.
    pub ixora: PathBuf,
    /// Where logs and sockets go; each scenario has a directory of its own.
    pub logs: PathBuf,
}

impl Bench {
    /// The directory of a scenario, empty.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.logs.join(name);
        let _ = std::fs::remove_dir_all(&path); // what an earlier run left
        std::fs::create_dir_all(&path).map_err(crate::Error::at(&path))?;
        Ok(path)
    }

    /// Where the console of a scenario is kept.
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs.join(name).join("console.log")
    }

    pub(crate) fn ixora(&self) -> &Path {
        &self.ixora
    }
}

/// One test of the lab.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// As it is written on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Packages of Debian 12 that it wants besides those of [`Guest`], with all they
    /// depend on.
    pub packages: &'static [&'static str],
    /// Runs the scenario under its name, by which its log is called; what came of it.
    pub run: fn(&Bench, &str) -> Result<Outcome>,
}

impl Scenario {
    /// Fetches the packages that are missing in the cache.
    ///
    /// # Errors
    /// What [`Packages::tree`] says.
    pub fn fetch(&self, packages: &Packages) -> Result<()> {
        match self.packages {
            [] => Ok(()),
            names => packages.tree(names, Suite::BOOKWORM).map(drop),
        }
    }
}

/// All of them, in the order in which they run: what takes long first, since it would
/// run alone at the end where several run at the same time.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "soak",
        about: "a minute of our soak test: faults, kills, hot swaps, shortages; no guest",
        packages: &[],
        run: soak::run,
    },
    Scenario {
        name: "linux-ixgbe-sfp",
        about: "Linux's ixgbe on the 82599 model, fibre with an SFP+ module",
        packages: &[],
        run: linux_ixgbe::sfp,
    },
    Scenario {
        name: "linux-ixgbe-kx4",
        about: "Linux's ixgbe on the 82599 model, a backplane without a module",
        packages: &[],
        run: linux_ixgbe::kx4,
    },
    Scenario {
        name: "linux-i40e",
        about: "Linux's i40e on the XL710 model: TCP, RSS, VLANs, resets, self-test",
        packages: &[],
        run: linux_i40e::qsfp,
    },
    Scenario {
        name: "linux-i40e-x722",
        about: "Linux's i40e on the XL710 model as an X722: likewise",
        packages: &[],
        run: linux_i40e::x722,
    },
    Scenario {
        name: "linux-iavf",
        about: "Linux's iavf on virtual functions of the XL710 model, which our driver hosts; reset under traffic, its host restarted",
        packages: &[],
        run: linux_iavf::hosted,
    },
    Scenario {
        name: "linux-iavf-x722",
        about: "Linux's iavf on virtual functions of the XL710 model as an X722: likewise",
        packages: &[],
        run: linux_iavf::x722,
    },
    Scenario {
        name: "linux-ixgbevf",
        about: "Linux's ixgbevf on virtual functions of the 82599 model, which our driver hosts; its host restarted",
        packages: &[],
        run: linux_ixgbevf::hosted,
    },
    Scenario {
        name: "dpdk-ixgbe",
        about: "DPDK's ixgbe driver on two 82599 models, by VFIO in a guest: counters, filters, offloads",
        packages: DPDK,
        run: dpdk::ixgbe::all,
    },
    Scenario {
        name: "dpdk-i40e",
        about: "DPDK's i40e driver on two XL710 models, by VFIO in a guest: counters, filters, flow rules",
        packages: DPDK,
        run: dpdk::i40e::all,
    },
    Scenario {
        name: "dpdk-i40e-x722",
        about: "DPDK's i40e driver on the XL710 model as an X722: likewise",
        packages: DPDK,
        run: dpdk::i40e::x722,
    },
    Scenario {
        name: "dpdk-iavf",
        about: "DPDK's iavf driver on virtual functions of two XL710 models, which our driver hosts, by VFIO in a guest",
        packages: DPDK,
        run: dpdk::iavf::hosted,
    },
    Scenario {
        name: "igb-fwd",
        about: "our forwarder on two 82576, by VFIO as an ordinary user: a million frames, then too many",
        packages: &[],
        run: forward::igb,
    },
    Scenario {
        name: "virtio-modern-fwd",
        about: "our forwarder on modern virtio, split rings, by VFIO as an ordinary user; likewise",
        packages: &[],
        run: forward::virtio_modern,
    },
    Scenario {
        name: "virtio-packed-fwd",
        about: "our forwarder on modern virtio, packed rings, by VFIO as an ordinary user; likewise",
        packages: &[],
        run: forward::virtio_packed,
    },
    Scenario {
        name: "linux-virtio",
        about: "Linux's virtio_net on the virtio model, packed rings, two queue pairs",
        packages: &[],
        run: linux_virtio::pci,
    },
    Scenario {
        name: "linux-virtio-vhost",
        about: "Linux's virtio_net in QEMU's devices, their rings over vhost-user on the virtio model",
        packages: &[],
        run: linux_virtio::vhost,
    },
    Scenario {
        name: "vfio-models",
        about: "our i40e, iavf, ixgbe and ixgbevf drivers by VFIO on the models, with hosts of ours: link, filters, checksums, jumbo, interrupts",
        packages: &[],
        run: vfio_models::features,
    },
    Scenario {
        name: "igb-features",
        about: "our igb driver on QEMU's 82576 by VFIO: link, filters, VLAN, checksums, jumbo, RSS, interrupts",
        packages: &[],
        run: igb::features,
    },
    Scenario {
        name: "igbvf-features",
        about: "our igbvf driver by VFIO on virtual functions of QEMU's 82576, which Linux's igb hosts: likewise, and a reset",
        packages: &[],
        run: igb::virtual_functions,
    },
    Scenario {
        name: "linux-ixgbe-xdp",
        about: "our AF_XDP port without copies, on Linux's ixgbe on the 82599 model",
        packages: &[],
        run: xdp::zero_copy,
    },
    Scenario {
        name: "virtio-transitional-fwd",
        about: "our forwarder on transitional virtio: capabilities, physical addresses; likewise",
        packages: &[],
        run: forward::virtio_transitional,
    },
    Scenario {
        name: "virtio-legacy-fwd",
        about: "our forwarder on legacy virtio: I/O ports, physical addresses; frames in order, then too many",
        packages: &[],
        run: forward::virtio_legacy,
    },
    Scenario {
        name: "igb-apps",
        about: "our pktgen, pcap and echo on two 82576; tcpdump and Linux's ping judge them",
        packages: apps::PACKAGES,
        run: apps::igb,
    },
    Scenario {
        name: "ovs-dpdk",
        about: "our pktgen and pcap, joined by Open vSwitch with DPDK through vhost-user; no guest",
        packages: ovs::PACKAGES,
        run: ovs::run,
    },
    Scenario {
        name: "virtio-apps",
        about: "our pktgen, pcap and echo on modern virtio; likewise",
        packages: apps::PACKAGES,
        run: apps::virtio,
    },
    Scenario {
        name: "dpdk-ixgbe-mapped",
        about: "likewise with mapped ring registers, as a backplane without a module: half a million frames",
        packages: DPDK,
        run: dpdk::ixgbe::mapped,
    },
    Scenario {
        name: "linux-bridge-igb",
        about: "Linux's bridge between two 82576 of QEMU: that generator and checker are right",
        packages: &[],
        run: forward::bridge,
    },
    Scenario {
        name: "guest-vfio",
        about: "our program in a guest: VFIO behind an IOMMU, two NICs of QEMU",
        packages: &[],
        run: guest_vfio::run,
    },
    Scenario {
        name: "vf-token",
        about: "a virtual function of QEMU's 82576 whose physical one another process of ours drives by VFIO: the token of both",
        packages: &[],
        run: igb::token,
    },
    Scenario {
        name: "numa",
        about: "a router on two NUMA nodes: each thread's buffers are on its own",
        packages: &[],
        run: numa::run,
    },
];

/// Those whose name has one of the words in it; all for no words.
pub fn chosen(words: &[String]) -> Vec<&'static Scenario> {
    let wanted = |scenario: &&Scenario| {
        words.is_empty() || words.iter().any(|word| scenario.name.contains(word.as_str()))
    };
    ALL.iter().filter(wanted).collect()
}
