//! What is looked at, one function each.

use rustix::process::{Resource, getrlimit};

use super::system::System;
use super::{Check, State};

/// Every check, the demo's first.
pub fn all(system: &System) -> Vec<Check> {
    let mut checks = vec![
        demo(),
        kernel(system),
        processor(system),
        hugepages(system),
        hugetlbfs(system),
        iommu(system),
        vfio(system),
        memlock(),
        files(),
        isolation(system),
        governor(system),
    ];
    checks.extend(nics(system));
    checks
}

fn check(name: &'static str, state: State, seen: impl Into<String>, meaning: &'static str) -> Check {
    Check { name, state, seen: seen.into(), meaning, fix: None }
}

impl Check {
    fn mend(mut self, fix: impl Into<String>) -> Check {
        if self.state != State::Ok {
            self.fix = Some(fix.into());
        }
        self
    }
}

fn ok_if(good: bool, otherwise: State) -> State {
    if good { State::Ok } else { otherwise }
}

/// The demo needs anonymous shared memory and a place for sockets.
fn demo() -> Check {
    let memory = memory::Dma::new(memory::Options { backing: memory::Backing::Memfd, numa_node: None });
    let place = std::env::temp_dir();
    let writable = rustix::fs::access(&place, rustix::fs::Access::WRITE_OK).is_ok();
    match (memory.alloc(4096), writable) {
        (Err(error), _) => {
            check("demo", State::Missing, error.to_string(), "nothing works without shared memory")
        }
        (_, false) => {
            check("demo", State::Missing, format!("{} is not writable", place.display()), "sockets go there")
                .mend("export TMPDIR=/some/writable/directory")
        }
        _ => check("demo", State::Ok, "runs here: no root, no hugepages, no NIC needed", ""),
    }
}

fn kernel(system: &System) -> Check {
    check("kernel", State::Info, system.read("/proc/sys/kernel/osrelease"), "")
}

fn processor(system: &System) -> Check {
    let cpuinfo = system.read("/proc/cpuinfo");
    let field = |name: &str| {
        cpuinfo
            .lines()
            .find(|l| l.starts_with(name))
            .and_then(|l| l.split_once(':'))
            .map_or("", |(_, v)| v.trim())
    };
    let has = |flag: &str| field("flags").split(' ').any(|f| f == flag);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let place = if has("hypervisor") { ", in a virtual machine" } else { "" };
    let seen = format!("{} with {cores} cores{place}", field("model name"));
    let steady = has("constant_tsc") && has("nonstop_tsc");
    check(
        "processor",
        ok_if(steady && cores > 1, State::Warn),
        seen,
        "cycles are measured by a constant TSC, and the demo likes a core for the driver and one for the models",
    )
}

fn hugepages(system: &System) -> Check {
    let at = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    let (total, free) =
        (system.number(&format!("{at}/nr_hugepages")), system.number(&format!("{at}/free_hugepages")));
    let (total, free) = (total.unwrap_or(0), free.unwrap_or(0));
    let mut seen = format!("{free} of {total} 2 MiB pages free");
    for node in system.list("/sys/devices/system/node").iter().filter(|n| n.starts_with("node")) {
        let at = format!("/sys/devices/system/node/{node}/hugepages/hugepages-2048kB/free_hugepages");
        if let Some(free) = system.number(&at) {
            seen.push_str(&format!(", {free} on {node}"));
        }
    }
    let meaning =
        "a NIC reached through sysfs sees physical addresses and needs them; elsewhere they save TLB misses";
    check("hugepages", ok_if(free >= 64, State::Warn), seen, meaning)
        .mend("echo 512 > /proc/sys/vm/nr_hugepages")
}

fn hugetlbfs(system: &System) -> Check {
    let mounts = system.read("/proc/mounts");
    match memory::backing::hugetlbfs_mount(&mounts) {
        Some(place) => check("hugetlbfs", State::Ok, format!("mounted at {place}"), ""),
        None => check("hugetlbfs", State::Info, "not mounted; anonymous hugepages serve as well", "")
            .mend("mkdir -p /dev/hugepages && mount -t hugetlbfs nodev /dev/hugepages"),
    }
}

fn iommu(system: &System) -> Check {
    let groups = system.list("/sys/kernel/iommu_groups").len();
    let words = system.read("/proc/cmdline");
    let asked = ["intel_iommu=on", "amd_iommu=on", "iommu=pt"].iter().find(|word| words.contains(**word));
    let seen = match (groups, asked) {
        (0, None) => "off".to_owned(),
        (0, Some(word)) => {
            format!("{word} is set, but there are no groups: turn it on in the firmware (VT-d, AMD-Vi)")
        }
        (n, _) => format!("on, {n} groups"),
    };
    let meaning = "VFIO needs it to drive a NIC without root and to keep it to our memory";
    check("iommu", ok_if(groups > 0, State::Missing), seen, meaning)
        .mend("add intel_iommu=on iommu=pt (or amd_iommu=on) to the kernel's command line and reboot")
}

fn vfio(system: &System) -> Check {
    let module = system.has("/sys/bus/pci/drivers/vfio-pci");
    let device = system.has("/dev/vfio/vfio");
    let groups: Vec<String> = system.list("/dev/vfio").into_iter().filter(|name| name != "vfio").collect();
    let seen = match (module, device) {
        (true, true) if groups.is_empty() => "vfio-pci is loaded; no device is bound to it".to_owned(),
        (true, true) => format!("vfio-pci is loaded; groups {}", groups.join(", ")),
        (false, true) => "vfio is there, but vfio-pci is not loaded".to_owned(),
        (_, false) => "not there".to_owned(),
    };
    check("vfio", ok_if(module && device, State::Missing), seen, "the way to a NIC that needs no root")
        .mend("modprobe vfio-pci")
}

fn memlock() -> Check {
    let limit = getrlimit(Resource::Memlock).current;
    let enough = limit.is_none_or(|bytes| bytes >= 256 << 20) || rustix::process::geteuid().is_root();
    let seen = limit.map_or("unlimited".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
    check(
        "memlock",
        ok_if(enough, State::Warn),
        seen,
        "VFIO pins packet memory and counts it against this limit",
    )
    .mend("ulimit -l unlimited (or memlock in /etc/security/limits.conf)")
}

fn files() -> Check {
    let limit = getrlimit(Resource::Nofile).current;
    let enough = limit.is_none_or(|n| n >= 1024);
    let seen = limit.map_or("unlimited".to_owned(), |n| n.to_string());
    check("open files", ok_if(enough, State::Warn), seen, "each interrupt vector and socket is one")
        .mend("ulimit -n 4096")
}

fn isolation(system: &System) -> Check {
    let isolated = system.read("/sys/devices/system/cpu/isolated");
    let tickless = system.read("/sys/devices/system/cpu/nohz_full");
    if isolated.is_empty() {
        let meaning = "other processes may interrupt a polling core";
        return check("isolation", State::Info, "no core is isolated", meaning).mend(
            "add isolcpus=1 nohz_full=1 rcu_nocbs=1 to the kernel's command line, for the cores that poll",
        );
    }
    check("isolation", State::Ok, format!("cores {isolated} isolated, {tickless} tickless"), "")
}

fn governor(system: &System) -> Check {
    let governor = system.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    match governor.as_str() {
        "" => check("governor", State::Info, "the system does not say", ""),
        "performance" => check("governor", State::Ok, governor, ""),
        _ => check("governor", State::Warn, governor, "cores slow down between bursts")
            .mend("cpupower frequency-set -g performance"),
    }
}

fn nics(system: &System) -> Vec<Check> {
    let found = match system.is_here() {
        true => bus::scan::scan(),
        false => bus::scan::scan_in(&system.sysfs()),
    };
    if found.is_empty() {
        return vec![check(
            "nics",
            State::Info,
            "no network device on PCI: use model:82599 and vfio-user",
            "",
        )];
    }
    found.iter().map(nic).collect()
}

fn nic(found: &bus::scan::Found) -> Check {
    let ours = found.ids.vendor == 0x8086 && driver::ixgbe::knows(found.ids.device);
    let bound = found.driver.as_deref();
    let node = found.numa_node.map_or("unknown NUMA node".to_owned(), |node| format!("NUMA node {node}"));
    let seen = format!(
        "{} {:04x}:{:04x}, {}, {node}{}",
        found.address,
        found.ids.vendor,
        found.ids.device,
        bound.map_or("no driver".to_owned(), |driver| format!("driver {driver}")),
        if ours { "" } else { "; ixora has no driver for it" },
    );
    match (ours, bound) {
        (true, Some("vfio-pci")) => check("nic", State::Ok, seen, ""),
        (true, _) => {
            let address = found.address;
            let at = format!("/sys/bus/pci/devices/{address}");
            check("nic", State::Warn, seen, "bind it to vfio-pci, and it needs no root").mend(format!(
                "echo vfio-pci > {at}/driver_override; echo {address} > {at}/driver/unbind; echo {address} > /sys/bus/pci/drivers_probe"
            ))
        }
        (false, _) => check("nic", State::Info, seen, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that has everything but an IOMMU.
    #[test]
    fn what_is_missing_comes_with_its_fix() {
        let root = tempfile::tempdir().expect("a directory");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        };
        put("proc/cmdline", "quiet\n");
        put("proc/mounts", "none /mnt/huge hugetlbfs rw,pagesize=2M 0 0\n");
        put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
        put("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
        let system = System::at(root.path());
        let by_name = |name| all(&system).into_iter().find(|check| check.name == name).expect("checked");
        assert_eq!(by_name("hugepages").state, State::Ok);
        assert_eq!(by_name("hugetlbfs").seen, "mounted at /mnt/huge");
        let iommu = by_name("iommu");
        assert_eq!(iommu.state, State::Missing);
        assert!(iommu.fix.expect("has a fix").contains("intel_iommu=on"));
        assert!(by_name("vfio").fix.expect("has a fix").contains("modprobe"));
    }
}
