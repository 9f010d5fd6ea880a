//! What the NIC does for the driver: it spreads flows over queues, scatters jumbo
//! frames, takes tags off and puts them on, checks and makes checksums, segments.

use wire::{ethernet, vlan};

use super::frames::{self, Flow, IP, L4, TCP_DATA, checksums_hold, tagged, tcp, udp};
use super::rig::{Rig, number};
use crate::Result;

/// Where frames go: to whom it may concern, for ports that are promiscuous.
const TO: [u8; 6] = [0x02, 0, 0, 0, 0, 2];

/// Datagrams of as many flows, of mixed sizes.
fn flows(count: u16) -> Vec<Vec<u8>> {
    let sizes = [60, 64, 99, 128, 511, 1514];
    (0..count).map(|n| udp(Flow { to: TO, port: 3000 + n }, sizes[usize::from(n) % sizes.len()])).collect()
}

/// Two queues: each flow goes where the hash of its addresses and ports says.
pub fn spread(rig: &mut Rig<'_>) -> Result<()> {
    for port in 0..2 {
        // DPDK counts all queues together unless it is told otherwise.
        rig.say(&format!("set stat_qmap rx {port} 1 1"))?;
        rig.say("clear port xstats all")?;
        let (frames, before) = (flows(200), rig.markers);
        let back = rig.pass(port, &frames);
        let markers = u64::from(rig.markers - before);
        // Two queues may overtake each other.
        let mut sorted = [frames, back];
        sorted.iter_mut().for_each(|frames| frames.sort());
        let [frames, back] = sorted;
        rig.check(&format!("port {port}: 200 flows come through"), frames == back, &back.len());
        // The redirection table that DPDK makes names the queues by turns.
        let odd = (0..200).filter(|n| frames::rss(&Flow { to: TO, port: 3000 + n }.tuple()) & 1 == 1).count()
            as u64;
        // Of each pair of markers, one goes to each queue.
        let wanted = [200 - odd + markers, odd + markers];
        let counts = |rig: &mut Rig<'_>| {
            let counts = rig.counts(port)?;
            Ok(["rx_q0_packets", "rx_q1_packets"].map(|name| counts.get(name).copied().unwrap_or(0)))
        };
        let seen = rig.wait_until(counts, |seen| *seen == wanted)?;
        rig.check(&format!("port {port}: each in the queue of its hash"), seen == wanted, &(wanted, seen));
    }
    Ok(())
}

/// Frames larger than a buffer, up to the largest that was asked for.
pub fn scattered(rig: &mut Rig<'_>) {
    let sizes = [1515, 2048, 2049, 4096, 6000, 8999, 9014];
    let frames: Vec<_> = sizes.iter().map(|&size| udp(Flow { to: TO, port: 4000 }, size)).collect();
    rig.all_pass("jumbo frames in several buffers", 0, &frames, <[u8]>::to_vec);
    rig.all_pass("jumbo frames, the other way", 1, &frames, <[u8]>::to_vec);
    let large = vec![udp(Flow { to: TO, port: 4000 }, 9100)];
    rig.none_pass("larger than asked for", 0, &large);
}

/// Tags are taken off received frames, or left.
pub fn stripped(rig: &mut Rig<'_>) -> Result<()> {
    let with = vec![tagged(&flows(1)[0], 0x602A)];
    let strip = |frame: &[u8]| [&frame[..ethernet::ADDRESSES_LEN], &frame[vlan::TAGGED_LEN..]].concat();
    rig.say("vlan set strip on 0")?;
    rig.all_pass("tags are taken off", 0, &with, strip);
    rig.say("vlan set strip off 0")?;
    rig.all_pass("tags are left where they are", 0, &with, <[u8]>::to_vec);
    Ok(())
}

/// Tags are put on sent frames, for good: testpmd does not get rid of them again.
pub fn inserted(rig: &mut Rig<'_>) -> Result<()> {
    // Forwarding as it stands puts no tags on; this way addresses are swapped.
    let swapped = |frame: &[u8]| {
        let mut frame = frame.to_vec();
        if let Some(mut addresses) = ethernet::Addresses::of_mut(&mut frame) {
            addresses.swap();
        }
        frame
    };
    rig.stopped(&["set fwd macswap", "tx_vlan set 1 77"])?;
    rig.all_pass("tags are put on", 0, &flows(1), |frame| tagged(&swapped(frame), 77));
    rig.all_pass("but not by the other port", 1, &flows(1), swapped);
    Ok(())
}

/// A testpmd that has the NIC complete what it sends, from its start to its end: checksums, of which
/// `told_l4` of the 8 wrong ones of datagrams and segments are told, and segments.
pub fn completed(rig: &mut Rig<'_>, told_l4: u64) -> Result<()> {
    rig.start(
        "--forward-mode=csum --max-pkt-len=9018 --enable-rx-cksum --enable-scatter --tx-offloads=0x802e",
    )?;
    rig.stopped(&["csum set ip hw 1", "csum set udp hw 1", "csum set tcp hw 1"])?;
    checksums(rig, told_l4)?;
    segmented(rig)?;
    rig.quit("testpmd with checksums ends well")
}

/// Frames with broken checksums are told, `told_l4` of the 8 of datagrams and segments, and mended
/// on their way out.
fn checksums(rig: &mut Rig<'_>, told_l4: u64) -> Result<()> {
    let mut frames = flows(8);
    frames.extend((0..8).map(|n| tcp(Flow { to: TO, port: 5000 + n }, 7, 60 + 97 * usize::from(n))));
    for (n, frame) in frames.iter_mut().enumerate() {
        let place = if n % 4 == 0 { IP + 10 } else { frames::l4_checksum(frame) };
        // One of four is whole, one has a wrong header, two wrong contents.
        frame[place] ^= if n % 4 == 3 { 0 } else { 0xFF };
    }
    rig.say("clear fwd stats all")?;
    let back = rig.pass(0, &frames);
    let mended = back.iter().filter(|frame| checksums_hold(frame)).count();
    rig.check("checksums are made", back.len() == 16 && mended == 16, &(back.len(), mended));
    let told = |rig: &mut Rig<'_>| {
        let said = rig.say("show fwd stats all")?;
        Ok(["Bad-ipcsum", "Bad-l4csum"].map(|name| number(&said, name)))
    };
    let wanted = [Some(4), Some(told_l4)];
    let seen = rig.wait_until(told, |seen| *seen == wanted)?;
    rig.check("wrong checksums are told", seen == wanted, &seen);
    Ok(())
}

/// A large segment leaves as several that fit, each right.
fn segmented(rig: &mut Rig<'_>) -> Result<()> {
    const SEGMENT: usize = 1448;
    rig.stopped(&[&format!("tso set {SEGMENT} 1")])?;
    let large = tcp(Flow { to: TO, port: 6000 }, 1_000_000, TCP_DATA + 5 * SEGMENT + 100);
    let back = rig.pass(0, std::slice::from_ref(&large));
    let lengths: Vec<usize> = back.iter().map(Vec::len).collect();
    let wanted = [[TCP_DATA + SEGMENT; 5].as_slice(), &[TCP_DATA + 100]].concat();
    rig.check("a large segment is cut", lengths == wanted, &lengths);
    let numbers: Vec<u32> = back
        .iter()
        .map(|frame| u32::from_be_bytes(frame[L4 + 4..L4 + 8].try_into().unwrap_or_default()))
        .collect();
    let wanted: Vec<u32> = (0..6).map(|n| 1_000_000 + n * SEGMENT as u32).collect();
    rig.check("sequence numbers go on", numbers == wanted, &numbers);
    let right = back.iter().all(|frame| checksums_hold(frame));
    let data = back.iter().flat_map(|frame| frame[TCP_DATA..].to_vec()).collect::<Vec<u8>>();
    rig.check("their checksums and contents", right && data == large[TCP_DATA..], &(right, data.len()));
    let pushed = back.iter().map(|frame| frame[L4 + 13] & 0x08 != 0).collect::<Vec<bool>>();
    rig.check("only the last one pushes", pushed == [false, false, false, false, false, true], &pushed);
    let small = vec![tcp(Flow { to: TO, port: 6001 }, 7, 200)];
    let back = rig.pass(0, &small);
    rig.check("a small one stays whole", back.len() == 1 && checksums_hold(&back[0]), &back.len());
    Ok(())
}
