//! DPDK's own forwarder, `testpmd`, with its driver on two minimal devices.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testbed::external::ExternalDriver;
use testbed::inprocess::Handle;
use testbed::testpmd::Dpdk;

use super::memory::{hugepages, reserve_more};
use super::sysfs::{ENTER, Function, Tree, address};
use super::{Nic, Setup, Work};
use crate::{Error, Result};

/// MiB of hugepages that it is given.
pub const MEMORY: u64 = 256;
/// Hugepages of 2 MiB that must be free for that.
pub const HUGEPAGES: u64 = MEMORY / 2 + 8;
/// How long it may take to come up, and how often it may fail to.
const START: Duration = Duration::from_secs(20);
const TRIES: usize = 4;

/// How DPDK's driver is made to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// SIMD receive and transmit, its default where no offloads are asked for.
    Vector,
    /// Bulk-allocating receive and simple transmit.
    Scalar,
}

/// A running testpmd, stopped except while it is measured.
#[derive(Debug)]
pub struct Testpmd {
    child: Child,
    pub handles: Vec<Handle>,
    /// Dropped after the child was killed.
    _outsides: Vec<ExternalDriver>,
    tree: Tree,
}

impl Testpmd {
    /// Starts it and waits until it forwards. Its driver waits by the microsecond
    /// for what a device of this kind does when it is let run: more than one try.
    pub fn start(setup: &Setup, path: Path, work: Work) -> Result<Testpmd> {
        let mut tries = (0..TRIES).map(|_| Testpmd::launch(setup, path, work));
        tries.find(Result::is_ok).unwrap_or_else(|| Testpmd::launch(setup, path, work))
    }

    fn launch(setup: &Setup, path: Path, work: Work) -> Result<Testpmd> {
        reserve_more(HUGEPAGES).map_err(|error| Error::new(format!("cannot reserve hugepages: {error}")))?;
        let (mut outsides, mut handles) = (Vec::new(), Vec::new());
        for n in 0..2 {
            let (outside, handle) =
                crate::device::minimal_external(setup.nic, n, setup.size.saturating_sub(4))?;
            outsides.push(outside);
            handles.push(handle);
        }
        let registers: Vec<_> = outsides.iter().map(ExternalDriver::registers).collect();
        let failed = |what: &str, error| Error::new(format!("{what}: {error}"));
        let tree = Tree::new(&registers, Function::of(setup.nic))
            .map_err(|error| failed("cannot make a tree of devices", error))?;
        // It looks at registers as soon as it starts, from its main thread on
        // the device's core, and waits for some of them by the microsecond.
        let core = Some(setup.driver_core);
        let stepper = testbed::inprocess::spawn(&handles, core, testbed::Idle::Spin)
            .map_err(crate::two_cores::no_thread)?;
        let child = command(setup, &tree, path, work)
            .and_then(|mut command| command.spawn())
            .map_err(|error| failed("cannot start testpmd", error))?;
        let mut testpmd = Testpmd { child, handles, _outsides: outsides, tree };
        testpmd.share_memory()?;
        testpmd.await_packets()?;
        testpmd.signal(Signal::STOP);
        drop(stepper);
        Ok(testpmd)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(id) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(id, signal); // a child that is gone is noticed elsewhere
        }
    }

    /// Packets that both devices have sent for it.
    pub fn sent(&self) -> u64 {
        self.count("tx_packets")
    }

    /// Packets whose buffers the devices could not reach.
    pub fn unreachable(&self) -> u64 {
        let drops = self.handles.iter().map(|handle| handle.report().drops);
        drops.map(|drops| drops.values().sum::<u64>()).sum()
    }

    fn count(&self, name: &str) -> u64 {
        let counters = self.handles.iter().map(|handle| handle.report().counters);
        counters.map(|counters| counters.get(name).copied().unwrap_or(0)).sum()
    }

    /// Shows its hugepages to the devices. It has all of them before it looks
    /// for devices (`-m`), and may have no more.
    fn share_memory(&mut self) -> Result<()> {
        let begin = Instant::now();
        let expected = (MEMORY << 20) / (2 << 20);
        loop {
            self.check(begin)?;
            let pages = hugepages(self.child.id()).unwrap_or_default(); // not there yet
            if pages.len() as u64 >= expected {
                return self.map(pages);
            }
            sleep(Duration::from_millis(50));
        }
    }

    fn map(&self, pages: Vec<super::memory::Hugepage>) -> Result<()> {
        let failed = |error| Error::new(format!("cannot map a page of testpmd's: {error}"));
        for page in pages {
            for outside in &self._outsides {
                let file = page.file.try_clone().map_err(failed)?;
                outside.map(page.physical, page.len, file, page.offset).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn await_packets(&mut self) -> Result<()> {
        let begin = Instant::now();
        while self.sent() < 100_000 {
            self.check(begin)?;
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether it still has time and lives.
    fn check(&mut self, begin: Instant) -> Result<()> {
        let said = |testpmd: &Testpmd| {
            let text = std::fs::read_to_string(testpmd.tree.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(12)..].join("\n  ")
        };
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(Error::new(format!("testpmd ended with {status}:\n  {}", said(self))));
        }
        match begin.elapsed() > START {
            true => Err(Error::new(format!("testpmd forwards nothing after {START:?}:\n  {}", said(self)))),
            false => Ok(()),
        }
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(setup: &Setup, tree: &Tree, path: Path, work: Work) -> std::io::Result<Command> {
    let log = File::create(tree.path().join("log"))?;
    let dpdk = match &setup.dpdk {
        Some(root) => Dpdk::at(root)?,
        None => {
            Dpdk::find().ok_or_else(|| std::io::Error::other("no DPDK: cargo xtask peers fetches one"))?
        }
    };
    let driver = match setup.nic {
        Nic::Ixgbe => "net_ixgbe",
        Nic::I40e => "net_i40e",
    };
    let testpmd = dpdk.command(&["bus_pci", "mempool_ring", driver])?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", ENTER]).arg(tree.path());
    command.arg(testpmd.get_program()).args(testpmd.get_args());
    command.env("SYSFS_PCI_DEVICES", tree.devices());
    let lcores = format!("0@{},1@{}", setup.model_core, setup.driver_core);
    command.args([
        "--lcores",
        &lcores,
        "--no-telemetry",
        "--no-shconf",
        "--iova-mode=pa",
        "--socket-limit",
        &MEMORY.to_string(),
    ]);
    command.args(["-m", &MEMORY.to_string(), "--file-prefix", &format!("ixora{}", std::process::id())]);
    if path == Path::Scalar {
        command.arg("--force-max-simd-bitwidth=64");
    }
    command.args(["-a", &address(0), "-a", &address(1)]);
    let (ring, batch) = (setup.ring, setup.batch);
    let forward = match work {
        Work::Forward => "io",
        Work::Macswap => "macswap",
    };
    command.args(["--", "--auto-start", "--nb-cores=1", "--disable-link-check", "--total-num-mbufs=8192"]);
    command.arg(format!("--forward-mode={forward}"));
    command.args([format!("--rxd={ring}"), format!("--txd={ring}"), format!("--burst={batch}")]);
    command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}
