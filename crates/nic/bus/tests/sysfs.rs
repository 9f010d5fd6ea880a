//! The sysfs and VFIO ways in, on made-up trees: files in a directory.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bus::sysfs::Sysfs;
use bus::vfio::Vfio;
use bus::{Address, Addressing, Backend, BarKind, BarLayout, DmaRange, Error, Pci};

const NAME: &str = "0000:03:00.0";

struct Tree {
    root: tempfile::TempDir,
    device: PathBuf,
}

impl Tree {
    /// A network device with 8 KiB of memory in BAR 0 and 32 ports in BAR 2,
    /// bound to the driver `fakenet`.
    fn new() -> Tree {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("bus/pci/devices").join(NAME);
        let driver = root.path().join("bus/pci/drivers/fakenet");
        for directory in [&device.join("net/fake0"), &driver] {
            fs::create_dir_all(directory).unwrap();
        }
        let mut config = vec![0; 256];
        config[..4].copy_from_slice(&[0x86, 0x80, 0xFB, 0x10]);
        config[8..12].copy_from_slice(&[1, 0, 0, 2]);
        config[0x2C..0x30].copy_from_slice(&[0x86, 0x80, 3, 0]);
        let none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
        let resource = format!(
            "0x00000000fe000000 0x00000000fe001fff 0x0000000000140204\n{none}\
             0x000000000000e000 0x000000000000e01f 0x0000000000040101\n{none}{none}{none}"
        );
        let write = |name: &str, data: &[u8]| fs::write(device.join(name), data).unwrap();
        write("config", &config);
        write("resource", resource.as_bytes());
        write("resource0", &[0; 8192]);
        write("resource2", &[0; 32]);
        write("reset", b"");
        write("numa_node", b"1\n");
        write("vendor", b"0x8086\n");
        write("device", b"0x10fb\n");
        write("class", b"0x020000\n");
        write("net/fake0/flags", b"0x1002\n");
        write("net/fake0/speed", b"10000\n");
        symlink(&driver, device.join("driver")).unwrap();
        fs::write(driver.join("bind"), "").unwrap();
        fs::write(driver.join("unbind"), "").unwrap();
        Tree { root, device }
    }

    fn open(&self) -> bus::Result<Sysfs> {
        Sysfs::open_in(self.root.path(), address())
    }

    fn driver_file(&self, name: &str) -> String {
        fs::read_to_string(self.root.path().join("bus/pci/drivers/fakenet").join(name)).unwrap()
    }
}

fn address() -> Address {
    NAME.parse().unwrap()
}

#[test]
fn registers_are_the_resource_files() {
    let tree = Tree::new();
    let pci = Pci::new(Arc::new(tree.open().unwrap()));
    let bar = pci.bar(0).unwrap();
    assert_eq!((bar.len(), bar.kind(), bar.mapped().len()), (8192, BarKind::Memory, 1));
    bar.register(0x1234).write(0x0102_0304);
    assert_eq!(fs::read(tree.device.join("resource0")).unwrap()[0x1234..0x1238], [4, 3, 2, 1]);
    assert_eq!((bar.read32(0x1234), bar.read16(0x1236), bar.read32(8192)), (0x0102_0304, 0x0102, u32::MAX));
    let ports = pci.bar(2).unwrap();
    assert_eq!((ports.len(), ports.kind(), ports.mapped().len()), (32, BarKind::Io, 0));
    ports.write16(2, 0xBEEF);
    assert_eq!(fs::read(tree.device.join("resource2")).unwrap()[2..4], [0xEF, 0xBE]);
    assert_eq!((ports.register(0).read(), ports.read8(32), ports.faults()), (0xBEEF_0000, 0xFF, 1));
    assert!(matches!(pci.bar(1), Err(Error::NoBar { index: 1, .. })));
    assert!(matches!(pci.bar(6), Err(Error::NoBar { index: 6, .. })));
}

/// A backend as anybody may write one, without unsafe code: its BAR 0 is what another
/// backend said of its own.
#[derive(Debug)]
struct Another(BarLayout);

impl Backend for Another {
    fn name(&self) -> String {
        "another".to_owned()
    }
    fn read_config(&self, _: u16, _: &mut [u8]) -> bus::Result<()> {
        Ok(())
    }
    fn write_config(&self, _: u16, _: &[u8]) -> bus::Result<()> {
        Ok(())
    }
    fn bar_layout(&self, _: usize) -> bus::Result<BarLayout> {
        Ok(self.0.clone())
    }
    fn read_bar(&self, _: usize, _: u32, _: &mut [u8]) -> bus::Result<()> {
        Ok(())
    }
    fn write_bar(&self, _: usize, _: u32, _: &[u8]) -> bus::Result<()> {
        Ok(())
    }
    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }
    fn map_dma(&self, _: &DmaRange<'_>) -> bus::Result<()> {
        Ok(())
    }
    fn unmap_dma(&self, _: u64, _: usize) -> bus::Result<()> {
        Ok(())
    }
    fn reset(&self) -> bus::Result<()> {
        Ok(())
    }
}

#[test]
fn registers_stay_mapped_for_whoever_has_their_layout() {
    let tree = Tree::new();
    let sysfs = tree.open().unwrap();
    let layout = sysfs.bar_layout(0).unwrap();
    let bar = Pci::new(Arc::new(Another(layout))).bar(0).unwrap();
    let register = bar.register(0x1234);
    drop(sysfs);
    register.write(7);
    assert_eq!((register.read(), bar.read32(0x1234), bar.clone().read8(0x1234)), (7, 7, 7));
    assert_eq!(fs::read(tree.device.join("resource0")).unwrap()[0x1234], 7);
}

#[test]
fn the_driver_is_put_back_and_dma_ended() {
    let tree = Tree::new();
    let pci = Pci::new(Arc::new(tree.open().unwrap()));
    assert_eq!((tree.driver_file("unbind"), tree.driver_file("bind")), (NAME.to_owned(), String::new()));
    let ids = pci.ids().unwrap();
    assert_eq!((ids.device, ids.class, ids.subsystem_vendor, ids.subsystem), (0x10FB, 0x020000, 0x8086, 3));
    pci.set_bus_master(true).unwrap();
    assert_eq!(fs::read(tree.device.join("config")).unwrap()[4], 7);
    pci.reset().unwrap();
    assert_eq!(fs::read(tree.device.join("reset")).unwrap(), b"1");
    let bar = pci.bar(0).unwrap();
    drop(pci);
    assert_eq!(tree.driver_file("bind"), "", "a BAR keeps the device");
    drop(bar);
    assert_eq!(tree.driver_file("bind"), NAME);
    assert_eq!(fs::read(tree.device.join("config")).unwrap()[4], 3);
}

#[test]
fn what_sysfs_can_and_cannot() {
    let tree = Tree::new();
    let sysfs = tree.open().unwrap();
    assert_eq!(
        (sysfs.addressing(), sysfs.numa_node(), sysfs.interrupt_vectors()),
        (Addressing::Physical, Some(1), 0)
    );
    // SAFETY: nothing is done with it, which is what is tested.
    let range = unsafe { DmaRange::new(std::ptr::null_mut(), 4096, 0, None) };
    sysfs.map_dma(&range).unwrap();
    sysfs.unmap_dma(0, 4096).unwrap();
    let event = fs::File::open("/dev/null").unwrap();
    let error = sysfs.set_interrupt(0, Some(event.as_fd())).unwrap_err().to_string();
    assert!(error.contains("bind the device to vfio-pci, or poll"), "{error}");
    fs::write(tree.device.join("numa_node"), "-1\n").unwrap();
    assert_eq!(sysfs.numa_node(), None);
}

#[test]
fn a_reset_opens_nothing() {
    let tree = Tree::new();
    let sysfs = tree.open().unwrap();
    // As for a confined program: there is nothing by this name any more.
    fs::rename(tree.device.join("reset"), tree.device.join("moved")).unwrap();
    sysfs.reset().unwrap();
    assert_eq!(fs::read(tree.device.join("moved")).unwrap(), b"1");
    drop(sysfs);
    let sysfs = tree.open().unwrap();
    assert!(matches!(sysfs.reset(), Err(Error::Unsupported { .. })), "a device without the file");
}

#[test]
fn a_device_in_use_is_left_alone() {
    let tree = Tree::new();
    fs::write(tree.device.join("net/fake0/flags"), "0x1003\n").unwrap();
    let error = tree.open().unwrap_err().to_string();
    assert!(error.contains("ip link set fake0 down"), "{error}");
    assert_eq!(tree.driver_file("unbind"), "");
    fs::write(tree.device.join("net/fake0/flags"), "0x1002\n").unwrap();
    let first = tree.open().unwrap();
    let error = tree.open().unwrap_err().to_string();
    assert!(error.contains("another process drives the device"), "{error}");
    drop(first);
    tree.open().unwrap();
}

/// The interface of a virtio device is not in the PCI device's directory but in the virtio one's
/// within.
#[test]
fn a_virtio_device_in_use_is_left_alone() {
    let tree = Tree::new();
    let interface = tree.device.join("virtio2/net/eth5");
    fs::create_dir_all(&interface).unwrap();
    fs::write(interface.join("flags"), "0x1003\n").unwrap();
    let error = tree.open().unwrap_err().to_string();
    assert!(
        error.contains("using it as eth5, which is up") && error.contains("ip link set eth5 down"),
        "{error}"
    );
    assert_eq!((tree.driver_file("unbind"), tree.driver_file("bind")), (String::new(), String::new()));
    let found = &bus::scan::scan_in(tree.root.path())[0];
    assert_eq!(
        (&found.interfaces[..], &found.up[..]),
        (&["eth5".into(), "fake0".into()][..], &["eth5".into()][..])
    );
    fs::write(interface.join("flags"), "0x1002\n").unwrap();
    tree.open().unwrap();
}

#[test]
fn a_device_behind_an_iommu_is_not_for_physical_addresses() {
    let tree = Tree::new();
    let group = tree.root.path().join("kernel/iommu_groups/7");
    fs::create_dir_all(&group).unwrap();
    fs::write(group.join("type"), "DMA-FQ\n").unwrap();
    symlink(&group, tree.device.join("iommu_group")).unwrap();
    let error = tree.open().unwrap_err().to_string();
    assert!(error.contains("group is DMA-FQ") && error.contains("vfio-pci is not loaded"), "{error}");
    assert!(!error.contains("driver_override"), "a command that cannot succeed: {error}");
    fs::create_dir_all(tree.root.path().join("bus/pci/drivers/vfio-pci")).unwrap();
    let error = tree.open().unwrap_err().to_string();
    assert!(error.contains("bind the device to vfio-pci: echo vfio-pci > "), "{error}");
    assert_eq!(tree.driver_file("unbind"), "");
    fs::write(group.join("type"), "identity\n").unwrap();
    tree.open().unwrap();
}

#[test]
fn what_a_killed_process_held_is_given_back() {
    let tree = Tree::new();
    let give_back = || bus::give_back_in(tree.root.path(), address());
    let (probe, driver) = (tree.root.path().join("bus/pci/drivers_probe"), tree.device.join("driver"));
    let config = || fs::read(tree.device.join("config")).unwrap()[4];
    let pci = Pci::new(Arc::new(tree.open().unwrap()));
    pci.set_bus_master(true).unwrap();
    let error = give_back().unwrap_err().to_string();
    assert!(error.contains("another process drives the device"), "{error}");
    drop(pci);
    fs::write(tree.device.join("config"), [0, 0, 0, 0, 7, 0]).unwrap();
    give_back().unwrap();
    assert_eq!((config(), probe.exists()), (7, false), "its driver has it");
    fs::remove_file(&driver).unwrap();
    give_back().unwrap();
    assert_eq!((config(), fs::read_to_string(&probe).unwrap().as_str()), (3, NAME));
}

#[test]
fn a_failed_open_gives_the_driver_back() {
    let tree = Tree::new();
    fs::remove_file(tree.device.join("resource0")).unwrap();
    assert!(tree.open().is_err());
    assert_eq!(tree.driver_file("bind"), NAME);
    let gone = Sysfs::open_in(tree.root.path(), "04:00.0".parse().unwrap()).unwrap_err();
    assert!(matches!(gone, Error::NoDevice { .. }));
}

#[test]
fn scanning_finds_network_devices_only() {
    let tree = Tree::new();
    let disk = tree.root.path().join("bus/pci/devices/0000:00:01.0");
    fs::create_dir_all(&disk).unwrap();
    fs::write(disk.join("class"), "0x010000\n").unwrap();
    symlink("../../../../kernel/iommu_groups/42", tree.device.join("iommu_group")).unwrap();
    let found = bus::scan::scan_in(tree.root.path());
    assert_eq!(found.len(), 1);
    let found = &found[0];
    assert_eq!((found.address, found.ids.vendor, found.ids.device), (address(), 0x8086, 0x10FB));
    assert_eq!(
        (found.driver.as_deref(), found.numa_node, found.iommu_group),
        (Some("fakenet"), Some(1), Some(42))
    );
    assert_eq!(
        (found.interfaces.as_slice(), found.speed_mbps),
        (["fake0".to_owned()].as_slice(), Some(10000))
    );
    assert!(bus::scan::scan_in(Path::new("/nonexistent")).is_empty());
}

#[test]
fn vfio_names_what_is_missing() {
    let tree = Tree::new();
    let dev = tree.root.path().join("dev");
    fs::create_dir_all(&dev).unwrap();
    let open = || Vfio::open_in(tree.root.path(), &dev, address(), None).unwrap_err().to_string();
    assert!(open().contains("boot with intel_iommu=on"), "{}", open());
    symlink("../../../../kernel/iommu_groups/42", tree.device.join("iommu_group")).unwrap();
    assert!(open().contains("modprobe vfio-pci"), "{}", open());
    fs::write(dev.join("vfio"), "").unwrap();
    assert!(open().contains("modprobe vfio_iommu_type1"), "{}", open());
    let gone = Vfio::open_in(tree.root.path(), &dev, "04:00.0".parse().unwrap(), None).unwrap_err();
    assert!(matches!(gone, Error::NoDevice { .. }));
}
