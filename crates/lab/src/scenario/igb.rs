//! Our igb driver in a guest, unprivileged by VFIO, on QEMU's 82576: what each
//! of its features does on two NICs joined by a cable, and forwarding between two
//! NICs with the host as generator and checker.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Bench;
use crate::initramfs::Archive;
use crate::traffic::{Cable, Traffic, exchange};
use crate::vm::{Outcome, Vm};
use crate::{Error, Result};

const SCRIPT: &str = include_str!("igb.sh");

/// Frames in each direction: with both, a million at a rate that the guest keeps
/// up with. Then some as fast as they go.
const FRAMES: u32 = 500_000;
const FLOOD: u32 = 100_000;
/// Frames under way in each direction at a rate without loss.
const WINDOW: u32 = 64;

/// The checks of `igb_guest`, an example of the crate `ixora-port`.
pub fn features(bench: &Bench, name: &str) -> Result<Outcome> {
    bench.directory(name)?;
    let hubs = ["hubport,id=n0,hubid=0".to_owned(), "hubport,id=n1,hubid=0".to_owned()];
    guest(bench, name, "", &hubs)?.run()
}

/// A million frames there and back, and then more than the guest can take.
pub fn forward(bench: &Bench, name: &str) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let cables = [Cable::new(&directory, "a")?, Cable::new(&directory, "b")?];
    let netdevs = [cables[0].netdev("n0"), cables[1].netdev("n1")];
    let mut running = guest(bench, name, "fwd", &netdevs)?.start()?;
    let (mut calm, mut flood) = ([Traffic::default(); 2], [Traffic::default(); 2]);
    if running.says("LAB: ready") {
        calm = both(&cables, FRAMES, Some(WINDOW));
        flood = both(&cables, FLOOD, None);
    }
    let console = bench.log(name);
    let mut outcome = running.wait()?;
    let text = std::fs::read_to_string(&console).map_err(Error::at(&console))?;
    for (n, direction) in ["there", "back"].into_iter().enumerate() {
        let (calm, flood) = (calm[n], flood[n]);
        let all = Traffic { sent: FRAMES, back: FRAMES, changed: 0, overtaken: 0 };
        judge(&mut outcome, &format!("{direction}: every frame, in order, unchanged"), calm == all, &calm);
        let whole = flood.changed == 0 && flood.overtaken == 0 && flood.sent == FLOOD;
        judge(&mut outcome, &format!("{direction}: flooded, in order, unchanged"), whole, &flood);
        // Received, sent and refused, as the guest's queues counted them.
        let counts = counts(&text, direction);
        let lost = calm.sent + flood.sent - calm.back - flood.back;
        let [received, sent, refused] = counts;
        let named = received == calm.sent + flood.sent && sent + refused == received && refused == lost;
        judge(&mut outcome, &format!("{direction}: every loss has a name"), named, &(counts, lost));
    }
    Ok(outcome)
}

fn judge(outcome: &mut Outcome, name: &str, good: bool, seen: &dyn std::fmt::Debug) {
    match good {
        true => outcome.passed.push(name.to_owned()),
        false => outcome.failed.push(format!("{name}: {seen:?}")),
    }
}

/// Frames in both directions at once.
pub(super) fn both(cables: &[Cable; 2], count: u32, window: Option<u32>) -> [Traffic; 2] {
    let [a, b] = cables;
    std::thread::scope(|scope| {
        let there = scope.spawn(|| exchange(a, b, count, window));
        let back = exchange(b, a, count, window);
        [there.join().unwrap_or_default(), back]
    })
}

/// The numbers behind `FORWARD` and a direction.
fn counts(console: &str, direction: &str) -> [u32; 3] {
    let line = console.lines().find_map(|line| line.trim().strip_prefix("FORWARD ")?.strip_prefix(direction));
    let mut numbers = line.unwrap_or_default().split_whitespace().map_while(|word| word.parse().ok());
    [(); 3].map(|()| numbers.next().unwrap_or_default())
}

/// A guest with an IOMMU and two igb NICs, each behind a port of its own: their
/// virtual functions would not fit beside others.
fn guest<'a>(bench: &'a Bench, name: &str, words: &str, netdevs: &[String; 2]) -> Result<Vm<'a>> {
    let mut vm = Vm::new(&bench.guest, bench.log(name), SCRIPT);
    vm.iommu = true;
    vm.limit = Duration::from_secs(240);
    vm.files.file("lab/environment", format!("WORDS={words}\n").as_bytes());
    add_program(&mut vm.files, &bench.ixora().with_file_name("examples").join("igb_guest"))?;
    for (n, netdev) in netdevs.iter().enumerate() {
        let port = format!("pcie-root-port,id=r{n},chassis={n},addr=0x{:x}", n + 5);
        let nic = format!("igb,netdev=n{n},bus=r{n},mac=52:54:00:49:58:0{}", n + 1);
        vm = vm.with(&["-netdev", netdev, "-device", &port, "-device", &nic]);
    }
    Ok(vm)
}

/// Puts a program of this machine with its loader and libraries into `/lab`.
fn add_program(files: &mut Archive, program: &Path) -> Result<()> {
    files.copy("lab/igb_guest", program)?;
    let loader = PathBuf::from("/lib64/ld-linux-x86-64.so.2");
    let output = Command::new(&loader).arg("--list").arg(program).output().map_err(Error::at(&loader))?;
    files.copy("lab/ld.so", &loader)?;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((name, rest)) = line.trim().split_once(" => ") else { continue };
        let path = rest.split(" (").next().unwrap_or_default();
        files.copy(&format!("lab/lib/{name}"), path.as_ref())?;
    }
    Ok(())
}
