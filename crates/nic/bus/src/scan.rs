//! The PCI network devices of this machine as sysfs tells, for `ixora doctor`
//! and for refusing a device that somebody is using. Reads only.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Address, Error, Ids, Result};

/// A PCI network device.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it sits.
    pub address: Address,
    /// Who made it and what it is.
    pub ids: Ids,
    /// The kernel driver bound to it.
    pub driver: Option<String>,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// Its IOMMU group.
    pub iommu_group: Option<u32>,
    /// Names of the kernel's network interfaces on it.
    pub interfaces: Vec<String>,
    /// Those of them that are up: somebody is using them.
    pub up: Vec<String>,
    /// Link speed in Mbit/s, where the kernel's driver tells.
    pub speed_mbps: Option<u32>,
}

/// Network controllers: base class 2 (PCI Code and ID Assignment 1.11).
const CLASS_NETWORK: u32 = 0x02;

/// Lists this machine's PCI network devices, by address.
pub fn scan() -> Vec<Found> {
    scan_in(Path::new("/sys"))
}

/// Lists those of the sysfs tree at `root`.
pub fn scan_in(root: &Path) -> Vec<Found> {
    let names = names(&root.join("bus/pci/devices"));
    let addresses = names.iter().filter_map(|name| name.parse::<Address>().ok());
    addresses
        .map(|address| identify(&root.join("bus/pci/devices").join(address.to_string()), address))
        .filter(|found| found.ids.class >> 16 == CLASS_NETWORK)
        .collect()
}

fn identify(directory: &Path, address: Address) -> Found {
    let hex = |name: &str| {
        let text = text(directory, name).unwrap_or_default();
        u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0)
    };
    let there = interfaces(directory);
    let name = |interface: &PathBuf| Some(interface.file_name()?.to_str()?.to_owned());
    Found {
        address,
        ids: Ids {
            vendor: hex("vendor") as u16,
            device: hex("device") as u16,
            revision: hex("revision") as u8,
            class: hex("class"),
            subsystem_vendor: hex("subsystem_vendor") as u16,
            subsystem: hex("subsystem_device") as u16,
        },
        driver: link_name(directory, "driver"),
        numa_node: text(directory, "numa_node").and_then(|text| text.parse().ok()),
        iommu_group: link_name(directory, "iommu_group").and_then(|name| name.parse().ok()),
        speed_mbps: there.iter().find_map(|interface| text(interface, "speed")?.parse().ok()),
        up: there.iter().filter(|interface| is_up(interface)).filter_map(name).collect(),
        interfaces: there.iter().filter_map(name).collect(),
    }
}

/// The directories of a device's network interfaces. Those of a virtio device are not its own but
/// its child's on the virtio bus (`virtio2/net/eth0`).
fn interfaces(directory: &Path) -> Vec<PathBuf> {
    let children = names(directory).into_iter().filter(|name| name.starts_with("virtio"));
    let places = children.map(|child| directory.join(child)).chain([directory.to_owned()]);
    let nets = places.map(|place| place.join("net"));
    nets.flat_map(|net| names(&net).into_iter().map(move |name| net.join(name))).collect()
}

/// Whether the interface with this directory is up.
fn is_up(interface: &Path) -> bool {
    const IFF_UP: u32 = 1;
    let flags = text(interface, "flags").unwrap_or_default();
    u32::from_str_radix(flags.trim_start_matches("0x"), 16).is_ok_and(|flags| flags & IFF_UP != 0)
}

/// Refuses a device one of whose network interfaces is up: taking its driver
/// away could cut off whoever is logged in over it.
pub(crate) fn refuse_interface_in_use(directory: &Path, address: Address) -> Result<()> {
    match identify(directory, address).up.first() {
        None => Ok(()),
        Some(interface) => Err(Error::Setup {
            device: address.to_string(),
            what: format!("the kernel is using it as {interface}, which is up"),
            fix: format!("take it down first: ip link set {interface} down"),
        }),
    }
}

/// Last part of what the link points at: a driver's name, a group's number.
pub(crate) fn link_name(directory: &Path, name: &str) -> Option<String> {
    let target = fs::read_link(directory.join(name)).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

fn text(directory: &Path, name: &str) -> Option<String> {
    Some(fs::read_to_string(directory.join(name)).ok()?.trim().to_owned())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
