//! DPDK's virtio-user against our virtio model over vhost-user: what both count
//! is the same.

use std::time::{Duration, Instant};

use crate::limit::Limit;
use testbed::serve::{Endpoint, EndpointReport, Options, Serving};
use testbed::testpmd::{Dpdk, Setup, Testpmd};
use testbed::vhost_user;
use testbed::view::Trust;
use testbed::virtio;
use testbed::wire::Cable;

const LIMIT: Duration = Duration::from_secs(20);

/// Our model, and a DPDK that drives it.
struct Join {
    serving: Serving,
    testpmd: Testpmd,
    _folder: tempfile::TempDir,
}

impl Join {
    fn open(dpdk: &Dpdk, wire: &str, pairs: u16, ring: &str) -> Join {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("vhost");
        let model = model::virtio::Options {
            pairs,
            features: model::virtio::Options::ALL,
            ..model::virtio::Options::default()
        };
        let options = virtio::Options { model, trust: Trust::Peer, ..virtio::Options::default() };
        let cable = Cable::open(&wire.parse().unwrap()).unwrap();
        let device = virtio::open(&options, cable);
        let endpoint = Endpoint { socket: socket.clone(), device };
        let serving = vhost_user::bind(vec![endpoint]).unwrap().serve(Options::default()).unwrap();
        let path = socket.display();
        let vdevs = vec![format!("net_virtio_user0,path={path},queues={pairs},queue_size=256{ring}")];
        let arguments = vec![format!("--rxq={pairs}"), format!("--txq={pairs}")];
        let setup = Setup { cores: [0, 1], vdevs, ring: 256, arguments };
        Join { testpmd: Testpmd::start(dpdk, &setup).unwrap(), serving, _folder: folder }
    }

    fn report(&self) -> EndpointReport {
        self.serving.report().endpoints.remove(0)
    }

    fn count(&self, name: &str) -> u64 {
        self.report().device.counters.get(name).copied().unwrap_or(0)
    }

    /// Waits until a counter of the model's has got this far.
    fn until(&self, name: &str, count: u64) {
        let begin = Instant::now();
        while self.count(name) < count {
            assert!(begin.elapsed() < LIMIT, "{name}: {:?}\n{}", self.report(), self.testpmd.transcript());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Both sides' counts, once nothing moves any more.
    fn run_until_idle(&mut self) {
        self.serving.stop_sources();
        let mut before = 0;
        let mut limit = Limit::time("nothing to move any more");
        loop {
            limit.check();
            std::thread::sleep(Duration::from_millis(100));
            let now = self.count("rx_packets") + self.count("tx_packets");
            if now == std::mem::replace(&mut before, now) {
                break;
            }
        }
        let (port, report) = (self.testpmd.port().unwrap(), self.report());
        let count = |name: &str| report.device.counters.get(name).copied().unwrap_or(0);
        assert_eq!((count("rx_packets"), count("rx_bytes")), (port.rx_packets, port.rx_bytes), "to DPDK");
        assert_eq!((count("tx_packets"), count("tx_bytes")), (port.tx_packets, port.tx_bytes), "from DPDK");
        let known = |finding: &&testbed::Finding| KNOWN.iter().all(|(rule, _)| finding.rule != *rule);
        let findings: Vec<_> = report.device.findings.iter().filter(known).collect();
        assert_eq!(findings, [] as [&testbed::Finding; 0], "the linter has nothing else against DPDK");
        assert_eq!((report.client_faults, report.last_fault), (0, None));
    }
}

/// What the linter finds in DPDK 22.11, and why.
const KNOWN: [(&str, &str); 1] = [(
    "TxNumBuffersSet",
    "a forwarded packet keeps the header it came with, unless that asks for an offload",
)];

/// DPDK's ways: its default, without mergeable buffers, in order, vectorized.
const RINGS: [&str; 8] = [
    "",
    ",mrg_rxbuf=0",
    ",in_order=1",
    ",mrg_rxbuf=0,vectorized=1",
    ",packed_vq=1",
    ",packed_vq=1,mrg_rxbuf=0",
    ",packed_vq=1,in_order=1",
    ",packed_vq=1,in_order=1,mrg_rxbuf=0,vectorized=1",
];

#[test]
fn dpdk_receives_what_the_wire_gives() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    for ring in RINGS {
        let mut join = Join::open(&dpdk, "gen:size=imix,rate=100k,hold", 1, ring);
        join.testpmd.say("set fwd rxonly").unwrap();
        join.testpmd.say("start").unwrap();
        join.serving.start_sources();
        join.until("rx_packets", 50_000);
        join.run_until_idle();
    }
}

#[test]
fn the_wire_takes_what_dpdk_sends() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    for ring in RINGS {
        let mut join = Join::open(&dpdk, "sink", 1, ring);
        join.testpmd.say("set fwd txonly").unwrap();
        // In two pieces, but for packed rings: see below.
        join.testpmd
            .say(if ring.contains("packed") { "set txpkts 260" } else { "set txpkts 60,200" })
            .unwrap();
        join.testpmd.say("start").unwrap();
        join.until("tx_packets", 50_000);
        join.testpmd.say("stop").unwrap();
        join.run_until_idle();
    }
}

#[test]
fn the_linter_sees_what_dpdk_does_wrong() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    // DPDK 22.11 makes the tables of packed rings once, with a header that the
    // device shall write (`vring_desc_init_indirect_packed`), and leaves that.
    let mut join = Join::open(&dpdk, "sink", 1, ",packed_vq=1");
    for command in ["set fwd txonly", "set txpkts 60,200", "start"] {
        join.testpmd.say(command).unwrap();
    }
    join.until("tx_offered", 1000);
    join.testpmd.say("stop").unwrap();
    let report = join.report().device;
    assert!(report.findings.iter().any(|finding| finding.rule == "WritableInTransmit"), "{report:?}");
    assert_eq!(report.drops.get("tx_bad_buffer"), report.counters.get("tx_offered"));
}

#[test]
fn dpdk_forwards_both_ways_on_several_pairs() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    for ring in ["", ",packed_vq=1"] {
        let mut join = Join::open(&dpdk, "gen:size=imix,rate=100k,flows=64,hold", 2, ring);
        join.testpmd.say("start").unwrap();
        join.serving.start_sources();
        join.until("tx_packets", 50_000);
        join.run_until_idle();
        let forwarded = join.testpmd.forwarded().unwrap();
        assert_eq!(
            join.count("rx_packets"),
            join.count("tx_packets") + forwarded.tx_dropped,
            "{forwarded:?}"
        );
    }
}

#[test]
fn one_front_end_after_the_other() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    let mut join = Join::open(&dpdk, "sink", 1, "");
    join.testpmd.say("set fwd txonly").unwrap();
    join.testpmd.say("start").unwrap();
    join.until("tx_packets", 1000);
    // Stopped and started: the rings go on where they were.
    for command in ["stop", "port stop 0", "port start 0", "start"] {
        join.testpmd.say(command).unwrap();
    }
    join.until("tx_packets", join.count("tx_packets") + 1000);
    join.testpmd.quit();
    let begin = Instant::now();
    while join.serving.report().endpoints[0].attached {
        assert!(begin.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = join.serving.report().endpoints.remove(0);
    assert_eq!((report.client_faults, report.device.mapped, report.device.clients), (0, (0, 0), 1));
}
