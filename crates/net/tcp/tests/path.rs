//! Paths that take shorter packets than the two ends do (RFC 1191, 8201 and 4821).
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::rig::{OURS, Rig, Sent, THEIRS, ends};
use common::{MS, SECOND};
use tcp::{Id, Key, Options};
use wire::tcp::Flags;

fn key() -> Key {
    Key { local: OURS.into(), remote: THEIRS.into(), local_port: 80, remote_port: 5000 }
}

/// Has a router tell that a segment was too long.
fn tell(rig: &mut Rig, sequence: u32, mtu: u32) -> Vec<Sent> {
    rig.with(|stack, io| _ = stack.too_big(&key(), sequence, mtu, io))
}

fn lengths(sent: &[Sent]) -> Vec<usize> {
    sent.iter().map(|segment| segment.payload.len()).collect()
}

fn size(rig: &Rig, id: Id) -> u32 {
    rig.stack.info(id).unwrap().payload_size
}

#[test]
fn what_was_too_long_is_sent_again_at_once_in_shorter_segments() {
    let (mut rig, id) = Rig::open(Options::default());
    let sent = rig.write(id, 3 * 1460);
    let window = rig.stack.info(id).unwrap().congestion_window;
    let again = tell(&mut rig, sent[1].header.sequence, 1300);
    assert_eq!(lengths(&again), [1260, 200, 1260, 200, 1260, 200]);
    assert_eq!(size(&rig, id), 1260);
    assert_eq!(rig.stack.info(id).unwrap().congestion_window, window, "nothing was congested");
    assert!(tell(&mut rig, sent[1].header.sequence, 1300).is_empty(), "once");
    assert!(tell(&mut rig, sent[1].header.sequence, 1400).is_empty(), "it never becomes longer");
    assert_eq!((size(&rig, id), rig.stack.counters().path_mtu_reduced), (1260, 1));
    rig.acknowledgement = ends(&again[5]);
    rig.send(Flags::ACK, &[]);
    assert_eq!(lengths(&rig.write(id, 3000)), [1260, 1260, 480]);
    assert_eq!(rig.stack.counters().timeouts, 0);
    // What was told is old after ten minutes.
    rig.acknowledgement = rig.acknowledgement.wrapping_add(3000);
    rig.send(Flags::ACK, &[]);
    rig.pass(601 * SECOND);
    assert_eq!(lengths(&rig.write(id, 1460)), [1460]);
}

/// Segments that are cut for a shorter path take no more packets than may be kept.
#[test]
fn what_was_too_long_is_cut_as_far_as_there_is_room() {
    let (mut rig, id) = Rig::open(Options { packets: 128, ..Options::default() });
    let mut sent = rig.write(id, 28 * 1460);
    assert_eq!((rig.stack.kept_packets(), sent.len()), (28, 10), "more would be more than its share");
    sent = tell(&mut rig, sent[0].header.sequence, 576);
    let (mut came, mut most) = (0, 0);
    for _ in 0..600 {
        most = most.max(rig.stack.kept_packets());
        for segment in std::mem::take(&mut sent) {
            if segment.header.sequence == rig.acknowledgement && segment.payload.len() <= 536 {
                came += segment.payload.len();
                rig.acknowledgement = ends(&segment);
                sent.extend(rig.send(Flags::ACK, &[]));
            }
        }
        sent.extend(rig.pass(100 * MS));
    }
    assert_eq!(came, 28 * 1460);
    assert!(most <= 29, "{most} packets");
}

/// RFC 5927: only what is on its way can have been too long, and nobody makes segments tiny.
#[test]
fn strangers_do_not_make_segments_short() {
    let (mut rig, id) = Rig::open(Options::default());
    let sent = rig.write(id, 2 * 1460);
    for wrong in [rig.acknowledgement.wrapping_sub(1), ends(&sent[1]), 7] {
        assert!(tell(&mut rig, wrong, 600).is_empty());
        assert_eq!(size(&rig, id), 1460, "{wrong} is not on its way");
    }
    for (tiny, expected) in [(0, 536), (68, 536)] {
        tell(&mut rig, sent[0].header.sequence, tiny);
        assert_eq!(size(&rig, id), expected);
    }
    rig.acknowledgement = ends(&sent[1]);
    rig.send(Flags::ACK, &[]);
    assert_eq!(rig.stack.info(id).unwrap().queued, 0);
}

/// RFC 4821, section 7.7: a path that drops long packets without an error.
#[test]
fn a_black_hole_for_long_packets_is_found() {
    let (mut rig, id) = Rig::open(Options::default());
    let mut came = 0;
    let mut sent = rig.write(id, 10_000);
    let begin = rig.now;
    while came < 10_000 {
        let arrived: Vec<Sent> = sent.drain(..).filter(|segment| segment.payload.len() <= 1250).collect();
        for segment in &arrived {
            if segment.header.sequence == rig.acknowledgement {
                came += segment.payload.len();
                rig.acknowledgement = ends(segment);
            }
            sent.extend(rig.send(Flags::ACK, &[]));
        }
        if arrived.is_empty() {
            sent.extend(rig.pass(100 * MS));
        }
        assert!(rig.now - begin < 60 * SECOND, "{came} bytes in a minute: {:?}", rig.stack.info(id));
    }
    assert_eq!(size(&rig, id), 1240);
    assert!(rig.stack.counters().timeouts <= 4, "{} timeouts", rig.stack.counters().timeouts);
}

/// A path that drops packets of more than some length without a word, and who receives behind it.
struct Path {
    most: usize,
    /// What came ahead of what stands in front of it.
    ahead: BTreeMap<u32, u32>,
    /// Segments that are dropped, by their numbers among those that the path takes.
    drops: Vec<usize>,
    taken: usize,
}

impl Path {
    fn new(most: usize) -> Path {
        Path { most, ahead: BTreeMap::new(), drops: vec![], taken: 0 }
    }

    /// Carries what is sent and what is sent because of it, until all is acknowledged.
    fn carry(&mut self, rig: &mut Rig, id: Id, mut sent: Vec<Sent>) {
        let begin = rig.now;
        while rig.stack.info(id).unwrap().queued > 0 {
            if sent.is_empty() {
                sent = rig.pass(50 * MS);
            }
            rig.now += MS;
            for segment in std::mem::take(&mut sent) {
                self.taken += usize::from(segment.payload.len() <= self.most);
                if segment.payload.len() <= self.most && !self.drops.contains(&self.taken) {
                    sent.extend(self.take(rig, &segment));
                }
            }
            assert!(rig.now - begin < 60 * SECOND, "{:?}", rig.stack.info(id));
        }
    }

    /// Acknowledges a segment, with what else has come.
    fn take(&mut self, rig: &mut Rig, segment: &Sent) -> Vec<Sent> {
        rig.now += 1000; // nothing happens at the same time
        self.ahead.insert(segment.header.sequence, ends(segment));
        while let Some(end) = self.ahead.remove(&rig.acknowledgement) {
            rig.acknowledgement = end;
        }
        self.ahead.retain(|start, _| start.wrapping_sub(rig.acknowledgement) < 1 << 31);
        let mut blocks: Vec<(u32, u32)> = vec![];
        for (start, end) in &self.ahead {
            match blocks.last_mut() {
                Some(last) if last.1 == *start => last.1 = *end,
                _ => blocks.push((*start, *end)),
            }
        }
        blocks.truncate(3);
        if let Some(clock) = &mut rig.clock {
            *clock += 1;
        }
        let header = rig.segment(Flags::ACK);
        rig.exchange(header, &blocks, &[])
    }
}

/// Probes, longer segments because of them, timeouts and recoveries.
fn counts(rig: &Rig) -> [u64; 4] {
    let all = rig.stack.counters();
    [all.path_mtu_probes, all.path_mtu_raised, all.timeouts, all.recoveries]
}

fn write_all(rig: &mut Rig, id: Id, path: &mut Path, bytes: usize) {
    for _ in 0..bytes / 20_000 {
        let sent = rig.write(id, 20_000);
        path.carry(rig, id, sent);
    }
}

/// RFC 4821, section 7.3: from what arrives on each common length is tried, by one segment.
#[test]
fn behind_a_black_hole_the_longest_segments_are_searched_for() {
    for clock in [None, Some(7)] {
        let options = if clock.is_some() { 12 } else { 0 };
        let (mut rig, id) = Rig::open_as(Options::default(), |syn| {
            syn.timestamps = clock.map(|clock| (clock, 0));
        });
        rig.clock = clock;
        // A tunnel's packets of 1,450 bytes.
        let mut path = Path::new(1410 - options);
        write_all(&mut rig, id, &mut path, 200_000);
        assert_eq!(size(&rig, id) as usize, 1410 - options);
        let [probes, raised, timeouts, recoveries] = counts(&rig);
        assert_eq!((probes, raised, recoveries), (4, 3, 0), "1,480 bytes did not arrive");
        assert_eq!(timeouts, 2, "none because of a probe");
        let reduced = rig.stack.counters().path_mtu_reduced;
        // No more is tried, until the path may be another one.
        write_all(&mut rig, id, &mut path, 200_000);
        assert_eq!(counts(&rig), [probes, raised, timeouts, recoveries]);
        rig.pass(601 * SECOND);
        write_all(&mut rig, id, &mut path, 100_000);
        assert_eq!(counts(&rig), [probes + 1, raised, timeouts, recoveries]);
        rig.pass(601 * SECOND);
        path.most = 1460 - options;
        write_all(&mut rig, id, &mut path, 200_000);
        assert_eq!(size(&rig, id) as usize, 1460 - options);
        assert_eq!(counts(&rig), [probes + 4, raised + 3, timeouts, recoveries]);
        assert_eq!(rig.stack.counters().path_mtu_reduced, reduced);
    }
}

/// A timeout or two of short segments say nothing of the path.
#[test]
fn short_segments_are_no_sign_of_a_black_hole() {
    let (mut rig, id) = Rig::open(Options::default());
    rig.write(id, 100);
    rig.pass(SECOND);
    rig.pass(5 * SECOND);
    rig.pass(20 * SECOND);
    rig.pass(20 * SECOND);
    assert!(rig.stack.counters().timeouts >= 3);
    assert_eq!((size(&rig, id), rig.stack.counters().path_mtu_reduced), (1460, 0));
}

/// Where others are lost too, the path is not to blame: the length is tried again.
#[test]
fn a_length_that_was_lost_with_others_is_tried_again() {
    let (mut rig, id) = Rig::open(Options::default());
    let mut path = Path::new(1410);
    write_all(&mut rig, id, &mut path, 100_000);
    let before = counts(&rig);
    rig.pass(601 * SECOND);
    path.most = 1460;
    // The first of the path's longer ones, and a segment behind it.
    path.drops = vec![path.taken + 1, path.taken + 2];
    write_all(&mut rig, id, &mut path, 200_000);
    let [probes, raised, timeouts, recoveries] = counts(&rig);
    assert_eq!((size(&rig, id), raised), (1460, before[1] + 3));
    assert_eq!((probes, timeouts, recoveries), (before[0] + 4, before[2], before[3] + 1));
}

/// A router may tell of the segment that tries a length: its bytes go again at once.
#[test]
fn what_a_router_tells_of_a_longer_segment_ends_the_search() {
    let (mut rig, id) = Rig::open(Options::default());
    let mut path = Path::new(1240);
    write_all(&mut rig, id, &mut path, 100_000);
    assert_eq!(size(&rig, id), 1240);
    let before = counts(&rig);
    rig.pass(601 * SECOND);
    let sent = rig.write(id, 20_000);
    let window = rig.stack.info(id).unwrap().congestion_window;
    assert_eq!(lengths(&sent)[0], 1360, "1,400 bytes are tried");
    rig.now += 5 * MS;
    let again = tell(&mut rig, sent[0].header.sequence, 1300);
    assert_eq!(again.iter().map(|it| it.payload.len()).sum::<usize>(), 1360);
    assert!(again.iter().all(|it| it.payload.len() <= 1240));
    assert_eq!(rig.stack.info(id).unwrap().congestion_window, window);
    path.carry(&mut rig, id, [&sent[1..], &again[..]].concat());
    write_all(&mut rig, id, &mut path, 100_000);
    assert_eq!(counts(&rig), [before[0] + 1, before[1], before[2], before[3]], "no other is tried");
    rig.check();
}

/// Little data, after which nothing would tell of a loss, are not put at risk.
#[test]
fn nothing_is_tried_with_the_last_segments() {
    let (mut rig, id) = Rig::open(Options::default());
    let mut path = Path::new(1240);
    write_all(&mut rig, id, &mut path, 100_000);
    let before = counts(&rig);
    rig.pass(601 * SECOND);
    for _ in 0..20 {
        let sent = rig.write(id, 1360 + 3 * 1240 - 1);
        path.carry(&mut rig, id, sent);
    }
    assert_eq!(counts(&rig), before);
}

/// A loss in front of the segment that tries a length, which begins recovery before the other is seen:
/// its bytes arrive in shorter ones, and say nothing of the length.
#[test]
fn a_length_whose_bytes_went_again_in_shorter_segments_has_not_arrived() {
    let (mut rig, id) = Rig::open(Options::default());
    let mut path = Path::new(1240);
    write_all(&mut rig, id, &mut path, 100_000);
    let before = counts(&rig);
    rig.pass(601 * SECOND);
    let mut sent = rig.write(id, 4 * 1240);
    assert_eq!(lengths(&sent), [1240; 4]);
    rig.now += MS;
    sent.extend(rig.write(id, 20_000));
    assert!(lengths(&sent).contains(&1360), "1,400 bytes are tried");
    path.drops = vec![path.taken + 1];
    path.carry(&mut rig, id, sent);
    let [probes, raised, timeouts, recoveries] = counts(&rig);
    assert_eq!((size(&rig, id), raised), (1240, before[1]));
    assert_eq!((probes, timeouts, recoveries), (before[0] + 1, before[2], before[3] + 1));
}

/// Each acknowledgement makes room for little in the windows: new data wait for that of a longer one.
#[test]
fn a_steady_stream_finds_the_length_of_its_path() {
    let (mut rig, id) = Rig::open(Options::default());
    rig.window = 8_000;
    rig.send(Flags::ACK, &[]);
    let mut path = Path::new(1410);
    let sent = rig.write(id, 250_000);
    path.carry(&mut rig, id, sent);
    assert_eq!((size(&rig, id), counts(&rig)[..3].to_vec()), (1410, vec![4, 3, 2]));
}

/// A path that was silent for seconds takes what it took before.
#[test]
fn an_outage_makes_segments_short_for_no_longer_than_it_lasts() {
    let (mut rig, id) = Rig::open(Options::default());
    let sent = rig.write(id, 20_000);
    assert!(!sent.is_empty());
    let mut again = vec![];
    for _ in 0..100 {
        again = rig.pass(100 * MS);
    }
    assert!(size(&rig, id) < 1240 && rig.stack.counters().timeouts > 4, "{}", size(&rig, id));
    let mut path = Path::new(1460);
    path.carry(&mut rig, id, again);
    write_all(&mut rig, id, &mut path, 200_000);
    assert_eq!(size(&rig, id), 1452, "1,500 bytes were the first to be lost");
}

/// Without selective acknowledgements, or with little to send, longer segments are sent after ten
/// minutes, or twenty, as if nothing had been lost.
#[test]
fn where_no_length_can_be_tried_long_segments_come_back() {
    for has_sack in [true, false] {
        let (mut rig, id) = Rig::open_as(Options::default(), |syn| syn.sack_permitted = has_sack);
        let mut path = Path::new(1240);
        write_all(&mut rig, id, &mut path, 40_000);
        let before = counts(&rig)[0];
        assert_eq!(size(&rig, id), 1240);
        path.most = 1460;
        for _ in 0..2 {
            rig.pass(601 * SECOND);
            let sent = rig.write(id, 1500);
            path.carry(&mut rig, id, sent);
        }
        assert_eq!((size(&rig, id), counts(&rig)[0]), (1460, before), "sack {has_sack}");
    }
}

/// RFC 5681, section 4.1: the window after silence is that of a new connection for a longer segment too.
#[test]
fn a_length_that_is_tried_after_silence_brings_no_burst() {
    let (mut rig, id) = Rig::open(Options::default());
    let mut path = Path::new(1240);
    write_all(&mut rig, id, &mut path, 400_000);
    assert!(rig.stack.info(id).unwrap().congestion_window > 20_000);
    rig.pass(601 * SECOND);
    let sent = rig.write(id, 40_000);
    assert_eq!(lengths(&sent)[0], 1360);
    assert!(lengths(&sent).iter().sum::<usize>() < 14_600, "{:?}", lengths(&sent));
}
