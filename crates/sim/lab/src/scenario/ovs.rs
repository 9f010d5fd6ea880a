//! Open vSwitch with DPDK as the data plane between two of our programs: our
//! virtio driver is the front end of its vhost-user ports. No guest.
//!
//! Debian's packages, as an ordinary user: no hugepages, and the datapath is the
//! `dummy` one, which is the usual one of user space but makes no tap devices.
//! What the switch drops, because a receiver's ring is full, it counts.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Bench;
use crate::openvswitch::{Daemon, Switch};
use crate::packages::{Packages, Suite, Tree};
use crate::vm::{End, Outcome};
use crate::{Error, Result, limited};

/// Frames in each direction.
const FRAMES: u64 = 100_000;
/// The switch brings its statistics up to date every five seconds.
const STATISTICS: Duration = Duration::from_secs(15);
/// For a program to open its port.
const START: Duration = Duration::from_secs(20);
/// How long any program may take, of which the longest has a minute of its own.
const LIMIT: Duration = Duration::from_secs(180);
const PORTS: [&str; 2] = ["vh0", "vh1"];
/// The switch, and what it loads only when it needs it.
pub(super) const PACKAGES: &[&str] = &["openvswitch-switch-dpdk", "librte-mempool-ring23"];
/// The type of a capture file's block that holds a packet (pcapng, section 4.3).
const ENHANCED_PACKET: u32 = 6;
const DRIVER: &str = "dpdk/pmds-23.0/librte_mempool_ring.so.23";

/// A hundred thousand frames each way, one way after the other.
pub fn run(bench: &Bench, name: &str) -> Result<Outcome> {
    let start = Instant::now();
    let directory = bench.directory(name)?;
    let tree = Packages::open()?.tree(PACKAGES, Suite::BOOKWORM)?;
    let joined = Joined::start(tree, directory)?;
    let (mut passed, mut failed, mut missing) = (Vec::new(), Vec::new(), 0);
    for [from, to] in [PORTS, [PORTS[1], PORTS[0]]] {
        let [sent, received] = joined.exchange(bench.ixora(), from, to)?;
        missing += sent.saturating_sub(received);
        match sent == FRAMES && received > FRAMES / 2 {
            true => passed.push(format!("{from} to {to}: {received} of {FRAMES} frames")),
            false => failed.push(format!("{from} to {to}: {received} of {FRAMES} frames, {sent} sent")),
        }
    }
    match joined.await_drops(missing)? {
        dropped if dropped == missing => passed.push(format!("the switch dropped the other {missing}")),
        dropped => failed.push(format!("{missing} frames are missing, the switch dropped {dropped}")),
    }
    Ok(Outcome { passed, failed, end: End::Finished, elapsed: start.elapsed() })
}

/// The ports of two programs of ours, joined by a switch.
struct Joined {
    switch: Switch,
}

impl Joined {
    /// Starts the switch, and makes a bridge with the ports.
    fn start(tree: Tree, directory: PathBuf) -> Result<Joined> {
        let drivers = tree.libraries().into_iter().map(|library| library.join(DRIVER));
        let driver = drivers.into_iter().find(|file| file.exists()).unwrap_or_default();
        // Memory of its own for each port: all together would want a gigabyte.
        let eal = format!("--no-huge --legacy-mem -m 512 --no-pci --no-telemetry -d {}", driver.display());
        let columns = [
            "other_config:dpdk-init=true".to_owned(),
            "other_config:per-port-memory=true".to_owned(),
            format!("other_config:dpdk-extra=\"{eal}\""),
        ];
        let switch = Switch::start(tree, directory, Daemon::Dpdk, &columns, &["--enable-dummy"])?;
        switch.set(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"])?;
        for port in PORTS {
            let kind = "type=dpdkvhostuser";
            switch.set(&["add-port", "br0", port, "--", "set", "Interface", port, kind])?;
        }
        Ok(Joined { switch })
    }

    /// Frames from one port to the other: how many ours sent, and received.
    fn exchange(&self, ixora: &Path, from: &str, to: &str) -> Result<[u64; 2]> {
        let port = |name: &str| format!("vhost-user:{}", self.switch.at(name).display());
        // Rings that hold what comes while somebody else has the processor.
        let words = ["--count", &FRAMES.to_string(), "--ring", "4096", "--duration", "60s", "--json"];
        let file = self.switch.at(&format!("{to}.pcapng"));
        let (reports, errors) = (Stdio::piped(), Stdio::null());
        let mut pcap = Command::new(ixora);
        pcap.arg("pcap").arg(port(to)).arg(&file).args(words).stdout(reports).stderr(errors);
        let mut pcap = pcap.spawn().map_err(Error::at(ixora))?;
        let start = Instant::now();
        while self.switch.set(&["get", "Interface", to, "link_state"])? != "up" && start.elapsed() < START {
            sleep(Duration::from_millis(100));
        }
        // From here on the switch counts what it cannot deliver: nothing else to wait for.
        let mut pktgen = Command::new(ixora);
        pktgen.arg("pktgen").arg(port(from)).args(words);
        pktgen.args(["--rate", "25k", "--allow-short", "--to", "ff:ff:ff:ff:ff:ff"]);
        let sent = limited::said(&mut pktgen, LIMIT)?;
        if !self.await_end(&mut pcap, to, &file)? {
            let _ = kill_process(Pid::from_child(&pcap), Signal::TERM); // it may end just now
        }
        let received = last_words(pcap).map_err(Error::at(ixora))?;
        let read = |text: &str, key: &str| {
            serde_json::from_str::<Value>(text).ok().and_then(|report| report[key].as_u64()).unwrap_or(0)
        };
        Ok([read(&sent, "tx_packets"), read(&String::from_utf8_lossy(&received), "rx_packets")])
    }

    /// Waits until a receiver has ended, as all have come, or until its capture file
    /// holds what the switch did not drop; whether it has ended.
    fn await_end(&self, receiver: &mut Child, to: &str, file: &Path) -> Result<bool> {
        let start = Instant::now();
        while start.elapsed() < STATISTICS {
            if !matches!(receiver.try_wait(), Ok(None)) {
                return Ok(true);
            }
            let statistics = self.switch.set(&["get", "Interface", to, "statistics"])?;
            let delivered = sum(&statistics, "tx_packets");
            if delivered + drops(&statistics) >= FRAMES && captured(file)? >= delivered {
                break;
            }
            sleep(Duration::from_millis(200));
        }
        Ok(false)
    }

    /// What the switch says it dropped, once that is as many, or in the end.
    fn await_drops(&self, expected: u64) -> Result<u64> {
        let start = Instant::now();
        loop {
            let mut dropped = 0;
            for port in PORTS {
                dropped += drops(&self.switch.set(&["get", "Interface", port, "statistics"])?);
            }
            if dropped == expected || start.elapsed() > STATISTICS {
                return Ok(dropped);
            }
            sleep(Duration::from_millis(200));
        }
    }
}

/// What a program prints in the end; one that does not end is killed.
fn last_words(mut program: Child) -> std::io::Result<Vec<u8>> {
    let start = Instant::now();
    while matches!(program.try_wait(), Ok(None)) && start.elapsed() < LIMIT {
        sleep(Duration::from_millis(20));
    }
    let _ = program.kill(); // it may have ended
    program.wait_with_output().map(|output| output.stdout)
}

/// How many packets a capture file holds, of which the last block may be half written.
fn captured(file: &Path) -> Result<u64> {
    let bytes = std::fs::read(file).map_err(Error::at(file))?;
    let (mut rest, mut packets) = (&bytes[..], 0);
    while let Some((kind, after)) = rest.split_first_chunk()
        && let Some((length, _)) = after.split_first_chunk()
        && let Some((_, next)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)
        && next.len() < rest.len()
    {
        packets += u64::from(u32::from_le_bytes(*kind) == ENHANCED_PACKET);
        rest = next;
    }
    Ok(packets)
}

/// The sum of all drops in `{name=value, …}`.
fn drops(statistics: &str) -> u64 {
    sum(statistics, "drops")
}

/// The sum of those in `{name=value, …}` whose names end so.
fn sum(statistics: &str, end: &str) -> u64 {
    let pairs = statistics.trim_matches(['{', '}']).split(", ").filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| name.ends_with(end)).filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_packet_blocks_are_counted() {
        let block = |kind: u32, length: u32| {
            let mut bytes = [kind.to_le_bytes(), length.to_le_bytes()].concat();
            bytes.resize(length as usize, 0);
            bytes
        };
        let directory = tempfile::tempdir().expect("a capture file");
        let file = directory.path().join("a.pcapng");
        let whole = [block(1, 20), block(ENHANCED_PACKET, 92), block(ENHANCED_PACKET, 92)].concat();
        for (length, packets) in [(whole.len(), 2), (whole.len() - 1, 1), (20, 0), (3, 0), (0, 0)] {
            std::fs::write(&file, &whole[..length]).expect("a capture file");
            assert_eq!(captured(&file).expect("a capture file"), packets);
        }
        // A length of nothing ends the walk.
        std::fs::write(&file, [0; 64]).expect("a capture file");
        assert_eq!(captured(&file).expect("a capture file"), 0);
    }

    #[test]
    fn drops_are_summed_up() {
        assert_eq!(drops("{ovs_rx_qos_drops=1, ovs_tx_failure_drops=4774, ovs_tx_retries=11}"), 4775);
        assert_eq!(drops("{}"), 0);
        assert_eq!(sum("{rx_packets=7, tx_packets=5}", "tx_packets"), 5);
    }
}
