//! The iavf driver on virtual functions of two models of an XL710, which our driver hosts: frames,
//! queues, checksums and segmentation.

use super::rig::Rig;
use super::{Nic, basics, offloads, run};
use crate::Result;
use crate::scenario::Bench;
use crate::vm::Outcome;

const NIC: Nic = Nic {
    model: "xl710",
    driver: "net_iavf",
    plugin: Some("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_iavf.so"),
    speed: "40 Gbps",
    packets: &[],
    largest: "",
    explained: &[],
    hosted: Some("0,trust,spoofcheck=off"),
    // While its last port is closed, or right behind that, testpmd ends by a segmentation fault now
    // and then (`cargo xtask lab dpdk-iavf --repeat N`). The cause was not found, nor whether it is
    // DPDK's or the model's.
    may_crash_at_exit: true,
};

/// A virtual function of each card, which receives all frames when testpmd asks for them, and sends on
/// what others sent.
pub fn hosted(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, &NIC, &["--vfs", "1"], |rig| {
        rig.start("--rxq=1 --txq=1 --forward-mode=io")?;
        known(rig)?;
        rig.say("start")?;
        basics::forward(rig, "forwarded", 8_000);
        basics::restarted(rig)?;
        rig.quit("testpmd ends well")?;
        rig.start("--rxq=2 --txq=2 --rss-udp --forward-mode=io")?;
        rig.say("start")?;
        basics::forward(rig, "forwarded by two queues", 8_000);
        rig.quit("testpmd with two queues ends well")?;
        offloads::completed(rig, 8)
    })
}

/// DPDK knows both as what they are, and their links.
fn known(rig: &mut Rig<'_>) -> Result<()> {
    for port in 0..2 {
        let said = rig.say(&format!("show port info {port}"))?;
        let (driver, speed) = (format!("Driver name: {}", NIC.driver), format!("Link speed: {}", NIC.speed));
        let good = said.contains(&driver) && said.contains(&speed);
        rig.check(&format!("port {port}: driver and speed"), good, &said);
    }
    Ok(())
}
