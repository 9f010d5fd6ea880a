//! The i40e driver on two models of an XL710 or of an X722: counters, filters, queues, and rules for flows.

use std::collections::BTreeMap;

use super::frames::{self, Flow, tcp, udp};
use super::rig::Rig;
use super::{Nic, basics, filters, offloads, run};
use crate::Result;
use crate::scenario::Bench;
use crate::vm::Outcome;

const OWN: [u8; 6] = [0x02, 0x49, 0x58, 0, 0, 1];

/// Rules of the linter that DPDK 22.11 breaks at a register or with a command, each with the
/// reason why it works all the same.
const EXPLAINED: &[(&str, &str)] = &[
    // The driver lends as many pages as its queues' contexts need, and writes the count of a whole
    // segment (512) all the same: those behind are none. No context lies there.
    ("SegmentUnmapped", "segment 0"),
    // Closing a port leaves the queues of Flow Director enabled (i40e_fdir_teardown is called
    // only where its set-up fails). The reset that ends the closing stops them.
    ("ResetWithQueuesEnabled", "PFGEN_CTRL"),
];

const NIC: Nic = Nic {
    model: "xl710",
    driver: "net_i40e",
    plugin: None,
    speed: "40 Gbps",
    packets: &["rx_good_packets", "tx_good_packets", "rx_unicast_packets", "tx_unicast_packets"],
    largest: "size_1024_to_1522_packets",
    explained: EXPLAINED,
    hosted: None,
    may_crash_at_exit: false,
};

const X722: Nic = Nic { speed: "10 Gbps", ..NIC };

/// Each access reaches the model: all there is to check.
pub fn all(bench: &Bench, name: &str) -> Result<Outcome> {
    checked(bench, name, &NIC, &["--trap"])
}

/// As an X722: key and table of the hash by commands, more classes of packets.
pub fn x722(bench: &Bench, name: &str) -> Result<Outcome> {
    checked(bench, name, &X722, &["--trap", "--device-id", "37d0"])
}

fn checked(bench: &Bench, name: &str, nic: &Nic, words: &[&str]) -> Result<Outcome> {
    run(bench, name, nic, words, |rig| {
        rig.start("--rxq=1 --txq=1 --forward-mode=io")?;
        basics::up(rig, nic)?;
        rig.say("start")?;
        basics::counted(rig, nic, 8_000)?;
        basics::restarted(rig)?;
        basics::darkened(rig)?;
        filters::addresses(rig)?;
        rig.quit("testpmd ends well")?;
        rig.start("--rxq=2 --txq=2 --rss-udp --max-pkt-len=9018 --enable-scatter --tx-offloads=0x8000")?;
        known_key(rig)?;
        rig.say("start")?;
        spread(rig)?;
        directed(rig)?;
        offloads::scattered(rig);
        offloads::stripped(rig)?;
        filters::vlans(rig)?;
        offloads::inserted(rig)?;
        rig.quit("testpmd with two queues ends well")?;
        offloads::completed(rig, 8)
    })
}

/// Has both ports hash with the key of [`frames::rss`]. This driver's is longer; the rest of it is
/// not used for what has no more than addresses of IPv4 and ports.
fn known_key(rig: &mut Rig<'_>) -> Result<()> {
    const LEN: usize = 52;
    let key = frames::KEY.iter().copied().chain([0; LEN - frames::KEY.len()]);
    let key: String = key.map(|byte| format!("{byte:02x}")).collect();
    for port in 0..2 {
        rig.say(&format!("port config {port} rss-hash-key ipv4-udp {key}"))?;
    }
    Ok(())
}

/// The lengths of frames of which each is one of a kind.
const LENGTHS: std::ops::Range<usize> = 300..316;

/// Frames of which testpmd tells at once: more words than its line holds would stop it.
const AT_ONCE: usize = 4;

/// The queue of port 0 that a frame came to, and its hash.
type QueueAndHash = (u32, Option<u32>);

/// Where the frames came to, by their lengths, as testpmd tells; and whether all came through.
fn places(rig: &mut Rig<'_>, frames: &[Vec<u8>]) -> Result<(BTreeMap<usize, QueueAndHash>, bool)> {
    let (mut places, mut whole) = (BTreeMap::new(), true);
    for frames in frames.chunks(AT_ONCE) {
        rig.say("set verbose 1")?;
        whole &= sorted(rig.pass(0, frames)) == frames;
        let told = rig.say("set verbose 0")?;
        places.extend(told.lines().filter_map(place).filter(|(length, _)| LENGTHS.contains(length)));
    }
    Ok((places, whole))
}

/// The length of a frame that testpmd tells of, and where it came to.
fn place(line: &str) -> Option<(usize, QueueAndHash)> {
    let word = |name: &str| line.split_once(name)?.1.split_whitespace().next();
    let number = |name: &str| u32::from_str_radix(word(name)?.strip_prefix("0x")?, 16).ok();
    let length = word(" length=")?.parse().ok()?;
    Some((length, (number("Receive queue=")?, number("RSS hash="))))
}

/// In the order of their lengths: frames of different queues may overtake each other.
fn sorted(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.sort_by_key(Vec::len);
    frames
}

/// Each flow comes to the queue that its hash says, which is told.
fn spread(rig: &mut Rig<'_>) -> Result<()> {
    let flows: Vec<_> =
        (8000..).zip(LENGTHS).map(|(port, length)| (Flow { to: OWN, port }, length)).collect();
    let frames: Vec<_> = flows.iter().map(|&(flow, length)| udp(flow, length)).collect();
    let seen = places(rig, &frames)?;
    // The redirection table that DPDK makes names the queues by turns.
    let wanted = flows.iter().map(|(flow, length)| {
        let hash = frames::rss(&flow.tuple());
        (*length, (hash & 1, Some(hash)))
    });
    let good = seen == (wanted.collect(), true);
    rig.check("each flow comes to the queue of its hash, which is told", good, &seen);
    Ok(())
}

/// A flow that rules lead to a queue, or drop; and what is no part of it.
fn directed(rig: &mut Rig<'_>) -> Result<()> {
    const FLOW: &str = "pattern eth / ipv4 src is 10.0.0.1 dst is 10.0.0.2 / udp src is 7000 dst is 9 / end";
    const MATCHED: &str = "rx_flow_director_sb_match_packets";
    let same = <[u8]>::to_vec;
    let frames: Vec<_> = LENGTHS.map(|length| udp(Flow { to: OWN, port: 7000 }, length)).collect();
    let others = [udp(Flow { to: OWN, port: 7001 }, 200), tcp(Flow { to: OWN, port: 7000 }, 1, 200)];
    rig.say("clear port xstats 0")?;
    for queue in [1, 0] {
        rig.say(&format!("flow create 0 ingress {FLOW} actions queue index {queue} / end"))?;
        let (seen, whole) = places(rig, &frames)?;
        let led = seen.len() == frames.len() && seen.values().all(|place| place.0 == queue);
        rig.check(&format!("a rule leads a flow to queue {queue}"), led && whole, &(seen, whole));
        rig.say("flow flush 0")?;
    }
    rig.say(&format!("flow create 0 ingress {FLOW} actions drop / end"))?;
    rig.none_pass("a rule drops a flow", 0, &frames);
    rig.all_pass("and no other", 0, &others, same);
    rig.say("flow flush 0")?;
    rig.all_pass("until it goes", 0, &frames, same);
    let counts = |rig: &mut Rig<'_>| Ok(rig.counts(0)?.get(MATCHED).copied());
    let wanted = Some(3 * frames.len() as u64);
    let seen = rig.wait_until(counts, |seen| *seen == wanted)?;
    rig.check("what rules matched is counted", seen == wanted, &seen);
    Ok(())
}
