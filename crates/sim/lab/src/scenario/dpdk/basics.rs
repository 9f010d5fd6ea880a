//! Frames through both ports and back, and counts that agree on all sides; links
//! and ports that are taken down and brought up again.

use super::Nic;
use super::rig::Rig;
use crate::Result;
use crate::traffic::{Traffic, both, exchange};

/// Frames under way in each direction: what a socket holds.
const WINDOW: u32 = 8;
/// Of eight frames by turns, how many fall into each of the counters' sizes.
const SIZES: [(&str, u64); 5] = [
    ("size_64_packets", 1),
    ("size_65_to_127_packets", 1),
    ("size_128_to_255_packets", 1),
    ("size_256_to_511_packets", 1),
    ("size_512_to_1023_packets", 1),
];
const LARGEST: u64 = 3;

/// Both links are up, and DPDK knows the NICs as what they are.
pub fn up(rig: &mut Rig<'_>, nic: &Nic) -> Result<()> {
    for port in 0..2 {
        let up = rig.link(port, "up")?;
        let said = rig.say(&format!("show port info {port}"))?;
        let (driver, speed) = (format!("Driver name: {}", nic.driver), format!("Link speed: {}", nic.speed));
        let known = [&driver, &speed, "Link duplex: full-duplex"];
        let mac = format!("MAC address: 02:49:58:00:00:0{}", port + 1);
        let known = up && known.iter().all(|word| said.contains(*word)) && said.contains(&mac);
        rig.check(&format!("port {port}: link, speed, address"), known, &said);
    }
    Ok(())
}

/// `count` frames each way at a rate without loss, every one in order and
/// unchanged.
pub fn forward(rig: &mut Rig<'_>, name: &str, count: u32) {
    let all = Traffic { sent: count, back: count, ..Traffic::default() };
    let seen = both(rig.cables, |into, out_of| exchange(into, out_of, count, WINDOW));
    rig.check(&format!("{name}: {count} frames each way in order and unchanged"), seen == [all; 2], &seen);
}

/// As [`forward`], and testpmd, the counters that the driver reads and the models
/// agree on how many.
pub fn counted(rig: &mut Rig<'_>, nic: &Nic, count: u32) -> Result<()> {
    rig.say_all(&["clear port stats all", "clear port xstats all", "clear fwd stats all"])?;
    let count64 = u64::from(count);
    let before = [rig.counter(0, "rx_packets")?, rig.counter(1, "rx_packets")?];
    forward(rig, "forwarded", count);
    let said = rig.say("stop")?;
    let loss = said.lines().filter_map(|line| super::rig::number(line, "-dropped")).sum::<u64>();
    rig.check("testpmd dropped none", loss == 0, &said);
    for (port, before) in before.into_iter().enumerate() {
        // Twice: a counter that is cleared when it is read is added up once.
        for turn in ["", " again"] {
            let wanted = [count64, count64, 0, 0, 0, 0];
            let seen = rig.wait_until(|rig| statistics(rig, port), |seen| *seen == wanted)?;
            rig.check(&format!("port {port}: statistics{turn}"), seen == wanted, &seen);
        }
        let counts = rig.counts(port)?;
        let wanted = |name: &str, wanted: u64| counts.get(name) == Some(&wanted);
        let good = nic.packets.iter().all(|name| wanted(name, count64));
        rig.check(&format!("port {port}: counters of queues and in all"), good, &counts);
        let sizes = SIZES.into_iter().chain([(nic.largest, LARGEST)]);
        let mut sizes = sizes.flat_map(|(name, of)| ["rx", "tx"].map(|way| (format!("{way}_{name}"), of)));
        let good = sizes.all(|(name, of)| wanted(&name, count64 / 8 * of));
        rig.check(&format!("port {port}: counters by size"), good, &counts);
        let errors: Vec<_> =
            counts.keys().filter(|name| name.contains("error") || name.contains("drop")).collect();
        rig.check(&format!("port {port}: no errors counted"), errors.is_empty(), &errors);
        let counted = rig.counter(port, "rx_packets")?.zip(before).map(|(after, before)| after - before);
        rig.check(&format!("port {port}: the model counted as many"), counted == Some(count64), &counted);
    }
    rig.say("start").map(drop)
}

/// What the driver counted for a port: received, sent, and what went wrong.
fn statistics(rig: &mut Rig<'_>, port: usize) -> Result<Vec<u64>> {
    let names = ["RX-packets", "TX-packets", "RX-missed", "RX-errors", "TX-errors", "RX-nombuf"];
    names.iter().map(|name| Ok(rig.statistic(port, name)?.unwrap_or(u64::MAX))).collect()
}

/// Ports stopped and started, and what they carry then.
pub fn restarted(rig: &mut Rig<'_>) -> Result<()> {
    let up = rig.stopped(&[])?;
    rig.check("ports stop and start", up, &up);
    forward(rig, "started again", 800);
    Ok(())
}

/// A link taken down and up, and what it carries then. On a backplane DPDK does
/// nothing of the kind.
pub fn darkened(rig: &mut Rig<'_>) -> Result<()> {
    rig.say("set link-down port 1")?;
    let down = rig.link(1, "down")?;
    rig.check("a link goes down", down, &down);
    rig.say("set link-up port 1")?;
    let up = rig.link(1, "up")?;
    rig.check("and comes up", up, &up);
    forward(rig, "up again", 800);
    Ok(())
}
