//! Linux's virtio_net driver, unmodified, on two virtio models joined by a
//! cable: whole devices on PCI, or the rings of QEMU's devices over vhost-user.
//!
//! One guest, two network namespaces, one NIC in each. The script in
//! `linux_virtio.sh` says what is looked at; the linter's report of the whole run
//! is the last check.

use std::path::Path;

use super::{Bench, Served};
use crate::Result;
use crate::vm::{Outcome, Vm};

const SCRIPT: &str = include_str!("linux_virtio.sh");
/// Queue pairs of a device of QEMU's.
const PAIRS: usize = 2;

/// Rules of the linter that Linux 6.1 breaks, each with the reason why it works
/// all the same: none.
const EXPLAINED: &[(&str, &str)] = &[];

/// With everything the model offers: packed rings, event indices, offloads.
pub fn pci(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, "pci", "--socket", |vm, sockets| vm.served(&sockets[0]).served(&sockets[1]))
}

/// As the back end of devices of QEMU's, packed rings, too.
pub fn vhost(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, "vhost", "--vhost-user", |vm, [a, b]| fronted(fronted(vm, a, 0), b, 1))
}

fn run<'a>(
    bench: &'a Bench,
    name: &str,
    back: &str,
    way: &str,
    attach: impl FnOnce(Vm<'a>, &[std::path::PathBuf; 2]) -> Vm<'a>,
) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let sockets = [directory.join("a.sock"), directory.join("b.sock")];
    let paths = sockets.each_ref().map(|path| path.display().to_string());
    let words = ["virtio-net", way, &paths[0], way, &paths[1], "--wire", "pair"];
    let mut served = Served::start(bench.ixora(), &words, &directory.join("model.log"))?;
    let mut vm = attach(Vm::new(&bench.guest, bench.log(name), SCRIPT), &sockets);
    vm.files.file("lab/environment", format!("BACK={back}\n").as_bytes());
    let mut outcome = vm.run()?;
    let findings = served.findings(EXPLAINED)?;
    match findings.is_empty() {
        true => outcome.passed.push("linter: nothing found".to_owned()),
        false => outcome.failed.extend(findings.iter().map(|finding| format!("linter: {finding}"))),
    }
    Ok(outcome)
}

/// A device of QEMU's whose rings are at the other end of a socket.
fn fronted<'a>(vm: Vm<'a>, socket: &Path, n: usize) -> Vm<'a> {
    let chardev = format!("socket,id=c{n},path={}", socket.display());
    let netdev = format!("vhost-user,id=n{n},chardev=c{n},queues={PAIRS}");
    // An interrupt for each ring, the control queue and the configuration.
    let (vectors, mac) = (2 * PAIRS + 2, format!("02:49:58:00:00:0{}", n + 1));
    let device = format!(
        "virtio-net-pci,disable-legacy=on,packed=on,mq=on,vectors={vectors},mac={mac},speed=10000,duplex=full"
    );
    vm.with(&["-chardev", &chardev]).nic(&device, &netdev, n)
}
