//! What is looked at, one function each.

use interface::{Allowed, Medium};
use rustix::process::{Resource, getrlimit};

use super::system::{Refusal, System};
use super::{Check, State};

/// Every check, the demo's first.
pub fn all(system: &System) -> Vec<Check> {
    let mut checks = vec![
        demo(),
        kernel(system),
        processor(system),
        clock(system),
        hugepages(system),
        hugetlbfs(system),
        iommu(system),
        vfio(system),
        memlock(),
        confinement(system),
        interfaces(system),
        files(),
        isolation(system),
        governor(system),
        perf(system),
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
    let (release, words) = (system.read("/proc/sys/kernel/osrelease"), system.read("/proc/cmdline"));
    // Of the whole command line, what matters to a polling core or to VFIO.
    let ours = ["isolcpus=", "nohz_full=", "rcu_nocbs=", "intel_iommu=", "amd_iommu=", "iommu=", "hugepages"];
    let set = words.split_whitespace().filter(|word| ours.iter().any(|start| word.starts_with(start)));
    let set: Vec<&str> = set.collect();
    let seen = if set.is_empty() { release } else { format!("{release}, booted with {}", set.join(" ")) };
    check("kernel", State::Info, seen, "")
}

fn processor(system: &System) -> Check {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let place = if system.is_virtual() { ", in a virtual machine" } else { "" };
    let seen = format!("{} with {cores} cores{place}", system.cpu("model name"));
    let meaning = "the demo likes a core for the driver and one for the models; with one they take turns";
    check("processor", ok_if(cores > 1, State::Warn), seen, meaning)
}

/// Cycles are counted by the TSC (Intel SDM volume 3, section 18.17: invariant).
fn clock(system: &System) -> Check {
    let source = system.read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let flags = system.cpu("flags");
    let has = |flag: &str| flags.split(' ').any(|f| f == flag);
    let (steady, known) = (has("constant_tsc") && has("nonstop_tsc"), !flags.is_empty());
    let seen = match (known, steady) {
        (false, _) => "the processor has no TSC; nanoseconds are counted".to_owned(),
        (true, true) => format!("the TSC is invariant; the kernel's clock is {source}"),
        (true, false) => format!("the TSC may change its speed; the kernel's clock is {source}"),
    };
    let state = if known { ok_if(steady, State::Warn) } else { State::Info };
    check("clock", state, seen, "cycles per packet mean little: read Mpps instead")
}

fn hugepages(system: &System) -> Check {
    let count =
        |at: &str, what: &str| system.number(&format!("{at}/hugepages-2048kB/{what}_hugepages")).unwrap_or(0);
    let all = "/sys/kernel/mm/hugepages";
    let free = count(all, "free");
    let mut seen = format!("{free} of {} 2 MiB pages free", count(all, "nr"));
    for node in system.list("/sys/devices/system/node").iter().filter(|name| is_node(name)) {
        let at = format!("/sys/devices/system/node/{node}/hugepages");
        seen.push_str(&format!(", {} of {} on {node}", count(&at, "free"), count(&at, "nr")));
    }
    let meaning =
        "a NIC reached through sysfs sees physical addresses and needs them; elsewhere they save TLB misses";
    check("hugepages", ok_if(free >= 64, State::Warn), seen, meaning)
        .mend(as_root("echo 512 > /proc/sys/vm/nr_hugepages"))
}

fn is_node(name: &str) -> bool {
    name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok())
}

fn hugetlbfs(system: &System) -> Check {
    let mounts = system.read("/proc/mounts");
    match memory::backing::hugetlbfs_mount(&mounts) {
        Some(place) => check("hugetlbfs", State::Ok, format!("mounted at {place}"), ""),
        None => check("hugetlbfs", State::Info, "not mounted; anonymous hugepages serve as well", "")
            .mend(as_root("mkdir -p /dev/hugepages && mount -t hugetlbfs nodev /dev/hugepages")),
    }
}

fn iommu(system: &System) -> Check {
    let groups = system.list("/sys/kernel/iommu_groups").len();
    let words = system.read("/proc/cmdline");
    let asked = ["intel_iommu=on", "amd_iommu=on", "iommu=pt"].iter().find(|word| words.contains(**word));
    let seen = match (groups, asked) {
        (0, None) => "off".to_owned(),
        (0, Some(word)) => format!("{word} is set, but there are no groups"),
        (n, _) => format!("on, {n} groups"),
    };
    let meaning = "VFIO needs it to drive a NIC without root and to keep it to our memory";
    // AMD's is on wherever the firmware lets it.
    let amd = system.cpu("vendor_id") == "AuthenticAMD";
    let fix = match (asked, system.is_virtual()) {
        (_, true) => "start the virtual machine with a virtual IOMMU (QEMU: -device intel-iommu)".to_owned(),
        (Some(_), _) => "turn the IOMMU on in the firmware (VT-d, AMD-Vi)".to_owned(),
        (None, _) if amd => boot_with(system, "iommu=pt"),
        (None, _) => boot_with(system, "intel_iommu=on iommu=pt"),
    };
    check("iommu", ok_if(groups > 0, State::Missing), seen, meaning).mend(fix)
}

/// How this system adds words to its kernel's command line.
fn boot_with(system: &System, words: &str) -> String {
    if ["/usr/sbin/grubby", "/usr/bin/grubby"].iter().any(|tool| system.has(tool)) {
        return as_root(&format!("grubby --update-kernel=ALL --args=\"{words}\" && reboot"));
    }
    if system.has("/usr/sbin/update-grub") {
        // Debian's GRUB reads all of grub.d; what is there already stays.
        let (line, at) =
            (format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {words}\""), "/etc/default/grub.d");
        let root = sudo();
        return format!(
            "{root}mkdir -p {at} && echo '{line}' | {root}tee -a {at}/ixora.cfg && {root}update-grub && {root}reboot"
        );
    }
    format!("add {words} to the kernel's command line and reboot")
}

/// What stands before a command that only root may run.
fn sudo() -> &'static str {
    if rustix::process::geteuid().is_root() { "" } else { "sudo " }
}

/// A command, redirections included, for whoever is asking.
fn as_root(command: &str) -> String {
    if sudo().is_empty() { command.to_owned() } else { format!("sudo sh -c '{command}'") }
}

fn vfio(system: &System) -> Check {
    let module = system.has("/sys/bus/pci/drivers/vfio-pci");
    let device = system.has("/dev/vfio/vfio");
    let meaning = "the way to a NIC that needs no root";
    match (module, device) {
        (true, true) => vfio_groups(system, meaning),
        _ => {
            let seen =
                if device { "vfio is there, but vfio-pci is not loaded" } else { "not there" }.to_owned();
            match system.has_module("vfio-pci") {
                true => check("vfio", State::Missing, seen, meaning).mend(as_root("modprobe vfio-pci")),
                false => {
                    check("vfio", State::Missing, seen + "; this kernel has no module vfio-pci", meaning)
                }
            }
        }
    }
}

/// Which of VFIO's devices this user can open, tried.
fn vfio_groups(system: &System, meaning: &'static str) -> Check {
    let groups = system.list("/dev/vfio").into_iter().filter(|name| name.parse::<u32>().is_ok());
    let groups: Vec<String> = groups.collect();
    let paths =
        ["vfio".to_owned()].into_iter().chain(groups.iter().cloned()).map(|n| format!("/dev/vfio/{n}"));
    let refused: Vec<(String, Refusal)> =
        paths.filter_map(|path| system.refusal(&path).map(|refusal| (path, refusal))).collect();
    let of = |kind: &Refusal| -> Vec<&str> {
        refused.iter().filter(|(_, refusal)| refusal == kind).map(|(path, _)| path.as_str()).collect()
    };
    let (closed, busy) = (of(&Refusal::NotAllowed), of(&Refusal::Busy));
    let broken = refused.iter().filter_map(|(path, refusal)| match refusal {
        Refusal::Other(why) => Some(format!("{path} cannot be opened: {why}")),
        _ => None,
    });
    let mut parts: Vec<String> = broken.collect();
    let usable = parts.is_empty() && closed.is_empty();
    if !closed.is_empty() {
        parts.push(format!("not allowed to use {}", closed.join(", ")));
    }
    if !busy.is_empty() {
        parts.push(format!("another program has {}", busy.join(", ")));
    }
    if usable {
        parts.insert(
            0,
            match groups.is_empty() {
                true => "vfio-pci is loaded; no device is bound to it".to_owned(),
                false => format!("vfio-pci is loaded; groups {}", groups.join(", ")),
            },
        );
    }
    let found = check("vfio", ok_if(usable, State::Missing), parts.join("; "), meaning);
    match (closed.is_empty(), sudo().is_empty()) {
        (true, _) => found,
        (false, false) => found.mend(format!("sudo chown $USER {}", closed.join(" "))),
        // Root is only refused what its container has not.
        (false, true) => {
            found.mend(format!("start the container with --device {}", closed.join(" --device ")))
        }
    }
}

fn memlock() -> Check {
    let limit = getrlimit(Resource::Memlock).current;
    let enough = limit.is_none_or(|bytes| bytes >= 256 << 20) || rustix::process::geteuid().is_root();
    let seen = limit.map_or("unlimited".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
    let meaning = "VFIO pins packet memory and counts it against this limit";
    check("memlock", ok_if(enough, State::Warn), seen, meaning)
        .mend(format!("{}prlimit --pid $$ --memlock=unlimited:unlimited", sudo()))
}

/// What is left to whoever takes a program over: `runtime::confine`.
fn confinement(system: &System) -> Check {
    // Kernels before 4.14 have filters and no list of what they can do.
    let filters = system.read("/proc/sys/kernel/seccomp/actions_avail").split(' ').any(|act| act == "errno");
    let landlock = if system.is_here() { runtime::confine::landlock_version() } else { None };
    let (state, seen, meaning) = match (filters, landlock) {
        (false, _) => (
            State::Missing,
            "the kernel says nothing of seccomp filters".to_owned(),
            "programs run with --no-confine only: they keep their privileges",
        ),
        (true, None) => (
            State::Info,
            "system calls are filtered; the kernel has no landlock as a second wall".to_owned(),
            "",
        ),
        (true, Some(version)) => {
            (State::Ok, format!("system calls are filtered, files refused by landlock {version}"), "")
        }
    };
    let found = check("confinement", state, seen, meaning);
    let (modules, wanted) = (system.read("/sys/kernel/security/lsm"), state == State::Info);
    match !modules.is_empty() && !modules.contains("landlock") && wanted {
        true => found.mend(boot_with(system, &format!("lsm=landlock,{modules}"))),
        false => found,
    }
}

/// What it takes to open interfaces of Linux's, tried for whoever asks.
fn interfaces(system: &System) -> Check {
    let protocols = system.read("/proc/net/protocols");
    let has = |name: &str| protocols.lines().any(|line| line.split(' ').next() == Some(name));
    let there = |medium: Medium| match medium {
        Medium::AfXdp => has("XDP"),
        Medium::AfPacket => has("PACKET"),
        Medium::Tap => system.has("/dev/net/tun") || system.has("/sys/class/misc/tun"),
    };
    let (known, missing): (Vec<Medium>, Vec<Medium>) = Medium::ALL.into_iter().partition(|m| there(*m));
    let allowed = |medium: &Medium| if system.is_here() { medium.try_out().ok() } else { Some(Allowed::All) };
    let word = |medium: Medium| match (missing.contains(&medium), allowed(&medium)) {
        (true, _) => format!("{} no", medium.prefix()),
        (_, None) => format!("{} not for this user", medium.prefix()),
        (_, Some(Allowed::Own)) => format!("{} only interfaces made for this user", medium.prefix()),
        (_, Some(Allowed::All)) => format!("{} yes", medium.prefix()),
    };
    let seen = Medium::ALL.map(word).join(", ");
    let closed = known.iter().any(|medium| allowed(medium) != Some(Allowed::All));
    let state = ok_if(missing.is_empty() && !closed, State::Info);
    let found = check("interfaces", state, seen, "");
    // AF_XDP is in a kernel or it is not.
    let modules = [(Medium::AfPacket, "af_packet"), (Medium::Tap, "tun")];
    let modules = modules.iter().filter(|(medium, name)| missing.contains(medium) && system.has_module(name));
    let modules: Vec<&str> = modules.map(|(_, name)| *name).collect();
    match (modules.is_empty(), !closed) {
        (false, _) => found.mend(as_root(&format!("modprobe -a {}", modules.join(" ")))),
        (true, false) => found.mend("run it as root: sudo ixora …"),
        (true, true) => found,
    }
}

fn files() -> Check {
    let limit = getrlimit(Resource::Nofile).current;
    let enough = limit.is_none_or(|n| n >= 1024);
    let seen = limit.map_or("unlimited".to_owned(), |n| n.to_string());
    let meaning = "each interrupt vector and socket is one";
    check("open files", ok_if(enough, State::Warn), seen, meaning).mend("ulimit -n 4096")
}

fn isolation(system: &System) -> Check {
    let isolated = system.read("/sys/devices/system/cpu/isolated");
    let tickless = system.read("/sys/devices/system/cpu/nohz_full");
    let tickless =
        if tickless.starts_with(|c: char| c.is_ascii_digit()) { tickless } else { "none".to_owned() };
    if isolated.is_empty() {
        // The last core: the first has the system's own work.
        let last = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
        let meaning = "other processes may interrupt a polling core";
        return check(
            "isolation",
            State::Info,
            format!("no core is isolated, tickless: {tickless}"),
            meaning,
        )
        .mend(boot_with(system, &format!("isolcpus={last} nohz_full={last} rcu_nocbs={last}")));
    }
    check("isolation", State::Ok, format!("isolated: {isolated}, tickless: {tickless}"), "")
}

fn governor(system: &System) -> Check {
    let governor = system.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    match governor.as_str() {
        "" => check("governor", State::Info, "the system does not say", ""),
        "performance" => check("governor", State::Ok, governor, ""),
        _ => check("governor", State::Warn, governor, "cores slow down between bursts")
            .mend(as_root("cpupower frequency-set -g performance")),
    }
}

/// Above 2, a process may not even measure itself (kernel's perf security guide).
fn perf(system: &System) -> Check {
    let counters = ["cpu", "cpu_core", "armv8_pmuv3_0"];
    let counters = counters.iter().any(|pmu| system.has(&format!("/sys/bus/event_source/devices/{pmu}")));
    let level = system.read("/proc/sys/kernel/perf_event_paranoid").parse::<i32>().ok();
    let closed = level.is_some_and(|level| level > 2) && !rustix::process::geteuid().is_root();
    let meaning = "perf shows where cycles go; ixora itself counts them without it";
    let (state, seen) = match (counters, closed, level) {
        (_, _, None) => (State::Info, "this kernel has no perf events".to_owned()),
        (false, ..) => (State::Info, "no hardware counters here".to_owned()),
        (true, true, Some(level)) => (State::Warn, format!("closed to users (perf_event_paranoid {level})")),
        (true, false, Some(_)) => (State::Ok, "hardware counters can be read".to_owned()),
    };
    let found = check("perf", state, seen, meaning);
    if state == State::Warn { found.mend(as_root("sysctl kernel.perf_event_paranoid=1")) } else { found }
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
    found.iter().map(|found| nic(system, found)).collect()
}

fn nic(system: &System, found: &bus::scan::Found) -> Check {
    let ours = ports::driver_of(found.ids.vendor, found.ids.device);
    let mut seen = format!("{} {:04x}:{:04x}", found.address, found.ids.vendor, found.ids.device);
    let driver = found.driver.as_ref().map_or("no driver".to_owned(), |driver| format!("driver {driver}"));
    let node = found.numa_node.map_or("unknown NUMA node".to_owned(), |node| format!("NUMA node {node}"));
    let group = found.iommu_group.map(|group| format!("IOMMU group {group}"));
    let interface =
        (!found.interfaces.is_empty()).then(|| format!("interface {}", found.interfaces.join(" ")));
    let used = (!found.up.is_empty()).then(|| "in use".to_owned());
    for word in [Some(driver), Some(node), group, interface, used].into_iter().flatten() {
        seen.push_str(&format!(", {word}"));
    }
    let Some(ours) = ours else {
        seen.push_str("; ixora has no driver for it");
        return check("nic", State::Info, seen, "");
    };
    seen.push_str(&format!("; ixora's driver is {}", ours.name));
    if found.driver.as_deref() == Some("vfio-pci") {
        return check("nic", State::Ok, seen, "");
    }
    let loadable = system.has("/sys/bus/pci/drivers/vfio-pci") || system.has_module("vfio-pci");
    if found.iommu_group.is_none() || !loadable {
        let meaning = "without IOMMU or vfio-pci only root can drive it, through sysfs";
        return check("nic", State::Warn, seen, meaning);
    }
    let meaning = match found.up.is_empty() {
        true => "bind it to vfio-pci, and it needs no root",
        false => "bound to vfio-pci it needs no root, but the connections on its interface end",
    };
    check("nic", State::Warn, seen, meaning).mend(as_root(&bind(found)))
}

/// Takes a NIC from its driver, if it has one, and gives it to vfio-pci.
fn bind(found: &bus::scan::Found) -> String {
    let address = found.address;
    let at = format!("/sys/bus/pci/devices/{address}");
    let mut command: String = found.up.iter().map(|name| format!("ip link set {name} down && ")).collect();
    command.push_str(&format!("echo vfio-pci > {at}/driver_override"));
    if found.driver.is_some() {
        command.push_str(&format!(" && echo {address} > {at}/driver/unbind"));
    }
    command + &format!(" && echo {address} > /sys/bus/pci/drivers_probe")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of these files.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        let system = System::at(root.path());
        (root, system)
    }

    fn by_name(system: &System, name: &str) -> Check {
        all(system).into_iter().find(|check| check.name == name).expect("checked")
    }

    #[test]
    fn what_is_missing_comes_with_its_fix() {
        let (_root, system) = machine(&[
            ("proc/cmdline", "quiet isolcpus=1\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("lib/modules/6.1.0/modules.dep", "kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/vfio.ko\n"),
            ("proc/mounts", "none /mnt/huge hugetlbfs rw,pagesize=2M 0 0\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n"),
            ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
            ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "500\n"),
        ]);
        let hugepages = by_name(&system, "hugepages");
        assert_eq!((hugepages.state, hugepages.fix), (State::Ok, None));
        assert_eq!(hugepages.seen, "500 of 512 2 MiB pages free, 500 of 512 on node0");
        assert_eq!(by_name(&system, "hugetlbfs").seen, "mounted at /mnt/huge");
        assert!(by_name(&system, "kernel").seen.ends_with("booted with isolcpus=1"));
        let iommu = by_name(&system, "iommu");
        assert_eq!(iommu.state, State::Missing);
        assert!(iommu.fix.expect("has a fix").contains("intel_iommu=on"));
        assert!(by_name(&system, "vfio").fix.expect("has a fix").contains("modprobe"));
    }

    /// A socket in a device's place cannot be opened, not even by root, whatever its mode is.
    #[test]
    fn groups_of_vfio_are_opened_to_see_whether_they_can_be() {
        let (root, system) = machine(&[
            ("sys/bus/pci/drivers/vfio-pci/new_id", ""),
            ("dev/vfio/vfio", ""),
            ("dev/vfio/7", ""),
        ]);
        let open = by_name(&system, "vfio");
        assert_eq!((open.state, &*open.seen), (State::Ok, "vfio-pci is loaded; groups 7"));
        let socket = std::os::unix::net::UnixListener::bind(root.path().join("dev/vfio/8"));
        let closed = by_name(&system, "vfio");
        assert_eq!(closed.state, State::Missing, "{closed:?}");
        assert!(closed.seen.starts_with("/dev/vfio/8 cannot be opened: "), "{}", closed.seen);
        drop(socket);
        std::fs::remove_file(root.path().join("dev/vfio/8")).expect("it is there");
        std::fs::remove_file(root.path().join("dev/vfio/vfio")).expect("it is there");
        let _socket = std::os::unix::net::UnixListener::bind(root.path().join("dev/vfio/vfio"));
        assert_eq!(by_name(&system, "vfio").state, State::Missing, "no group is of use without it");
    }

    /// A file that its mode closes; root is refused none for that.
    #[test]
    fn a_closed_group_of_vfio_comes_with_its_fix() {
        use std::os::unix::fs::PermissionsExt;
        let (root, system) = machine(&[
            ("sys/bus/pci/drivers/vfio-pci/new_id", ""),
            ("dev/vfio/vfio", ""),
            ("dev/vfio/7", ""),
        ]);
        let closed = std::fs::Permissions::from_mode(0o0);
        std::fs::set_permissions(root.path().join("dev/vfio/7"), closed).expect("it is ours");
        let found = by_name(&system, "vfio");
        match rustix::process::geteuid().is_root() {
            true => assert_eq!(found.state, State::Ok, "{found:?}"),
            false => {
                assert_eq!((found.state, &*found.seen), (State::Missing, "not allowed to use /dev/vfio/7"));
                assert_eq!(found.fix.as_deref(), Some("sudo chown $USER /dev/vfio/7"));
            }
        }
    }

    #[test]
    fn why_a_device_is_closed_is_told_apart() {
        use rustix::io::Errno;
        let of = |errno: Errno| Refusal::from(std::io::Error::from(errno));
        assert_eq!([Errno::ACCESS, Errno::PERM].map(of), [Refusal::NotAllowed, Refusal::NotAllowed]);
        assert_eq!(of(Errno::BUSY), Refusal::Busy);
        assert!(matches!(of(Errno::NODEV), Refusal::Other(_)));
    }

    #[test]
    fn the_way_to_an_iommu_is_the_machines_own() {
        let fix = |files: &[(&str, &str)]| {
            let (_root, system) = machine(files);
            by_name(&system, "iommu").fix.expect("has a fix")
        };
        let amd = fix(&[("proc/cpuinfo", "vendor_id : AuthenticAMD\n"), ("usr/sbin/grubby", "")]);
        assert!(amd.contains("grubby --update-kernel=ALL --args=\"iommu=pt\""), "{amd}");
        let debian = fix(&[("usr/sbin/update-grub", "")]);
        assert!(debian.contains("$GRUB_CMDLINE_LINUX intel_iommu=on iommu=pt") && debian.contains("tee -a"));
        assert!(fix(&[("proc/cmdline", "intel_iommu=on")]).contains("firmware"));
        assert!(fix(&[("proc/cpuinfo", "flags : fpu hypervisor\n")]).contains("virtual IOMMU"));
    }

    #[test]
    fn confinement_is_told_and_can_be_mended() {
        let seen = |files: &[(&str, &str)]| {
            let (_root, system) = machine(files);
            by_name(&system, "confinement")
        };
        assert_eq!(seen(&[]).state, State::Missing);
        let filters = ("proc/sys/kernel/seccomp/actions_avail", "kill_process errno allow\n");
        let bare = seen(&[filters]);
        assert_eq!((bare.state, bare.fix), (State::Info, None));
        let fix = seen(&[filters, ("sys/kernel/security/lsm", "lockdown,yama\n")]).fix.expect("has a fix");
        assert!(fix.contains("lsm=landlock,lockdown,yama"), "{fix}");
    }

    #[test]
    fn ways_to_interfaces_are_told_apart() {
        let seen = |files: &[(&str, &str)]| {
            let (_root, system) = machine(files);
            let found = by_name(&system, "interfaces");
            (found.state, found.seen, found.fix.unwrap_or_default())
        };
        let (state, none, fix) = seen(&[]);
        assert_eq!((state, none.as_str()), (State::Info, "af_xdp no, af_packet no, tap no"));
        assert_eq!(fix, "", "a module that this kernel has not cannot be loaded");
        let release = ("proc/sys/kernel/osrelease", "6.1.0\n");
        let modules =
            ("lib/modules/6.1.0/modules.dep", "kernel/drivers/net/tun.ko:\nkernel/af_packet.ko.zst: a\n");
        let (_, _, fix) = seen(&[release, modules]);
        assert!(fix.ends_with("modprobe -a af_packet tun"), "{fix}");
        let protocols = ("proc/net/protocols", "protocol  size\nPACKET    1600\nXDP 1088\nMPTCP 1\n");
        let (state, all, fix) = seen(&[protocols, ("dev/net/tun", "")]);
        assert_eq!(
            (state, all.as_str(), fix.as_str()),
            (State::Ok, "af_xdp yes, af_packet yes, tap yes", "")
        );
    }

    #[test]
    fn a_clock_that_may_stop_is_no_clock() {
        let state = |flags: &str| {
            let (_root, system) = machine(&[("proc/cpuinfo", &format!("flags\t\t: {flags}\n"))]);
            by_name(&system, "clock").state
        };
        assert_eq!(state("fpu constant_tsc nonstop_tsc"), State::Ok);
        assert_eq!(state("fpu constant_tsc"), State::Warn);
    }

    #[test]
    fn a_nic_in_use_is_not_taken_in_silence() {
        let at = "sys/bus/pci/devices/0000:03:00.0";
        let file = |name: &str, text: &str| (format!("{at}/{name}"), text.to_owned());
        let check = |flags: &str| {
            let files = [
                ("sys/bus/pci/drivers/vfio-pci/new_id".to_owned(), String::new()),
                ("sys/kernel/iommu_groups/7/type".to_owned(), String::new()),
                file("vendor", "0x8086\n"),
                file("device", "0x10fb\n"),
                file("class", "0x020000\n"),
                file("numa_node", "1\n"),
                file("net/eth7/flags", flags),
            ];
            let files = files.each_ref().map(|(path, text)| (path.as_str(), text.as_str()));
            let (root, system) = machine(&files);
            let alone = by_name(&system, "nic");
            assert_eq!(alone.fix, None, "without an IOMMU there is nothing to bind it for: {alone:?}");
            let (group, link) = (root.path().join("sys/kernel/iommu_groups/7"), root.path().join(at));
            std::os::unix::fs::symlink(group, link.join("iommu_group")).expect("a link");
            by_name(&system, "nic")
        };
        let up = check("0x1003\n");
        assert!(up.seen.contains("NUMA node 1, IOMMU group 7, interface eth7, in use"), "{}", up.seen);
        assert!(up.meaning.contains("connections"));
        assert!(up.fix.expect("has a fix").contains("ip link set eth7 down && echo vfio-pci > /sys/bus"));
        let down = check("0x1002\n");
        assert!(!down.seen.contains("in use") && !down.meaning.contains("connections"));
        assert!(!down.fix.expect("has a fix").contains("unbind"), "it has no driver to take it from");
    }
}
