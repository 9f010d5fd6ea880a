//! A guest of QEMU's on our virtio model over vhost-user. The guest is the boot
//! ROM of QEMU's own virtio card (iPXE): it asks for an address and listens for
//! answers, with a driver that nobody here wrote, in seconds and without an
//! operating system.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use lab::packages::{Packages, Suite, Tree};
use testbed::serve::{Endpoint, Options};
use testbed::vhost_user;
use testbed::virtio;
use testbed::wire::Cable;

const LIMIT: Duration = Duration::from_secs(60);

/// QEMU, whose boot ROM asks for an address by a device behind a socket.
fn boot(tree: &Tree, socket: &Path, mode: &str) -> Child {
    tree.command("usr/bin/qemu-system-x86_64")
        .unwrap()
        .args(["-accel", "tcg", "-M", "q35,memory-backend=m", "-m", "64M", "-nodefaults", "-no-user-config"])
        .args(["-object", "memory-backend-memfd,id=m,size=64M,share=on", "-display", "none", "-boot", "n"])
        .args(["-chardev", &format!("socket,id=c,path={}", socket.display())])
        .args(["-netdev", "vhost-user,id=n,chardev=c"])
        .args(["-device", &format!("virtio-net-pci,netdev=n,{mode}")])
        .arg("-L")
        .arg(tree.root().join("usr/share/qemu"))
        .arg("-L")
        .arg(tree.root().join("usr/share/seabios"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_boot_rom_sends_and_receives() {
    let packages =
        Packages::open().and_then(|packages| packages.tree(&["qemu-system-x86"], Suite::TRIXIE_BACKPORTS));
    let tree = match packages {
        Ok(tree) => tree,
        Err(error) if std::env::var_os("IXORA_OFFLINE").is_some() => return println!("passed over: {error}"),
        Err(error) => panic!("no QEMU: {error}; IXORA_OFFLINE=1 leaves this test out"),
    };
    for mode in ["disable-modern=on", "disable-legacy=on"] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let cable = Cable::open(&"gen:rate=1000".parse().unwrap()).unwrap();
        let device = virtio::open(&virtio::Options::default(), cable);
        let endpoint = Endpoint { socket: socket.clone(), device };
        let serving = vhost_user::bind(vec![endpoint]).unwrap().serve(Options::default()).unwrap();
        let mut child = boot(&tree, &socket, mode);
        let (begin, mut ended) = (Instant::now(), None);
        let report = loop {
            let report = serving.report().endpoints.remove(0);
            let count = |name: &str| report.device.counters[name];
            ended = ended.or(child.try_wait().unwrap());
            if count("tx_packets") > 0 && count("rx_packets") > 0
                || begin.elapsed() > LIMIT
                || ended.is_some()
            {
                break report;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let _ = child.kill();
        let _ = child.wait();
        assert!(report.device.counters["tx_packets"] > 0, "{mode}: {ended:?} {report:?}");
        assert!(report.device.counters["rx_packets"] > 0, "{mode}: {report:?}");
        assert_eq!((report.client_faults, report.last_fault), (0, None), "{mode}");
    }
}
