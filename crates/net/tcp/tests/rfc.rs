//! What single sections of the RFCs demand, segment by segment: the other side is the test.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::IpAddr;

use common::rig::{FIRST, OURS, Rig, SYN_ACK, Sent, THEIRS, ends};
use common::{App, Faults, MS, Net, SECOND};
use tcp::{Algorithm, Event, KeepAlive, Options, Reason, Stack, State};
use wire::tcp::{Flags, Repr};

/// RFC 5961, sections 3.2, 4.2 and 5.2: only the very number resets; a reset in the window, a
/// SYN, and an acknowledgement of what was never sent are answered by a challenge.
#[test]
fn strangers_who_guess_are_challenged() {
    let behind = 1_000_000_u32.wrapping_neg();
    for (offset, flags, acks) in [(1, Flags::RST, 0), (0, Flags::SYN, 0), (0, Flags::ACK, behind)] {
        let (mut rig, id) = Rig::open(Options::default());
        let header = rig.segment(flags);
        let wrong = Repr {
            sequence: header.sequence.wrapping_add(offset),
            acknowledgement: header.acknowledgement.wrapping_add(acks),
            ..header
        };
        let answers = rig.exchange(wrong, &[], &[]);
        assert_eq!(answers.len(), 1, "{flags:?}");
        assert_eq!(answers[0].header.flags, Flags::ACK);
        assert_eq!(answers[0].header.acknowledgement, rig.sequence);
        assert!(rig.exchange(wrong, &[], &[]).is_empty(), "not for each of a flood");
        rig.pass(SECOND);
        assert_eq!(rig.exchange(wrong, &[], &[]).len(), 1);
        assert_eq!(rig.state(id), Some(State::Established));
        // Outside of the window a reset says nothing at all.
        let far = Repr { sequence: header.sequence.wrapping_sub(9), flags: Flags::RST, ..header };
        assert!(rig.exchange(far, &[], &[]).is_empty());
        assert!(rig.send(Flags::RST, &[]).is_empty());
        assert_eq!((rig.ended(), rig.stack.len()), (Some(Reason::Reset), 0));
    }
}

/// RFC 9293, section 3.5.2: what belongs to no connection is reset, with the number that the
/// other side expects.
#[test]
fn what_belongs_to_no_connection_is_reset() {
    let mut rig = Rig::new(Options::default());
    rig.acknowledgement = 77;
    let reset = rig.send(Flags::ACK, b"hello").pop().unwrap().header;
    assert_eq!((reset.flags, reset.sequence), (Flags::RST, 77));
    let syn = Repr { dst_port: 81, ..rig.segment(Flags::SYN) };
    let reset = rig.exchange(syn, &[], b"xyz").pop().unwrap().header;
    assert_eq!((reset.flags, reset.acknowledgement), (Flags::RST | Flags::ACK, FIRST.wrapping_add(4)));
    assert!(rig.send(Flags::RST, &[]).is_empty(), "a reset is not answered");
    assert!(rig.stack.is_empty());
}

/// RFC 9293, section 3.5, figure 7: both sides send a SYN at the same time.
#[test]
fn simultaneous_open() {
    let mut rig = Rig::new(Options::default());
    let mut id = None;
    let syn = rig.with(|stack, io| {
        id = stack.connect(IpAddr::V4(OURS), (IpAddr::V4(THEIRS), 9), io).ok();
    });
    let syn = syn[0].header;
    assert_eq!(syn.flags.without(Flags::ECE | Flags::CWR), Flags::SYN);
    rig.port = 9;
    let theirs = Repr { dst_port: syn.src_port, ..rig.segment(Flags::SYN) };
    let answer = rig.exchange(theirs, &[], &[]).pop().unwrap().header;
    assert_eq!((answer.flags, answer.sequence), (SYN_ACK, syn.sequence), "the same SYN, acknowledged");
    assert_eq!(rig.state(id.unwrap()), Some(State::SynReceived));
    (rig.sequence, rig.acknowledgement) = (FIRST.wrapping_add(1), syn.sequence.wrapping_add(1));
    let last = Repr { dst_port: syn.src_port, ..rig.segment(Flags::ACK) };
    rig.exchange(last, &[], &[]);
    assert_eq!(rig.state(id.unwrap()), Some(State::Established));
    assert!(matches!(rig.events[..], [Event::Connected { is_passive: false, .. }]));
}

/// RFC 9293, section 3.8.6.3, and RFC 5681, section 4.2.
#[test]
fn acknowledgements_wait_for_a_second_segment_or_a_moment_but_not_for_gaps() {
    let (mut rig, id) = Rig::open(Options::default());
    assert_eq!(rig.send(Flags::ACK, &[0; 10]).len(), 1, "at once, while the other side begins");
    rig.sequence = rig.sequence.wrapping_add(10);
    assert_eq!(rig.write(id, 10).len(), 1, "from now on data carry acknowledgements");
    rig.acknowledgement = rig.acknowledgement.wrapping_add(10);
    assert!(rig.send(Flags::ACK, &[1; 1460]).is_empty());
    rig.sequence = rig.sequence.wrapping_add(1460);
    assert_eq!(rig.send(Flags::ACK, &[2; 1460]).len(), 1, "the second segment");
    rig.sequence = rig.sequence.wrapping_add(1460);
    assert!(rig.send(Flags::ACK, &[3; 10]).is_empty());
    assert!(rig.pass(30 * MS).is_empty());
    let late = rig.pass(20 * MS);
    assert_eq!(late[0].header.acknowledgement, rig.sequence.wrapping_add(10));
    rig.sequence = rig.sequence.wrapping_add(10);
    // Segments of 1,000 bytes may be all that the other side's link takes.
    assert!(rig.send(Flags::ACK, &[4; 1000]).is_empty());
    rig.sequence = rig.sequence.wrapping_add(1000);
    assert_eq!(rig.send(Flags::ACK, &[4; 1000]).len(), 1, "the second segment");
    rig.sequence = rig.sequence.wrapping_add(990);
    rig.sequence = rig.sequence.wrapping_add(110);
    assert_eq!(rig.send(Flags::ACK, &[5; 10]).len(), 1, "a gap");
    rig.sequence = rig.sequence.wrapping_sub(100);
    let filled = rig.send(Flags::ACK, &[4; 100]);
    assert_eq!((filled.len(), filled[0].header.acknowledgement), (1, rig.sequence.wrapping_add(110)));
}

/// RFC 9293, section 3.7.4, as Minshall has it: a small segment waits for one that is on its
/// way, unless the application wants none to wait, or has finished.
#[test]
fn small_segments_wait_for_each_other_unless_nobody_wants_them_to() {
    let (mut rig, id) = Rig::open(Options::default());
    assert_eq!(rig.write(id, 100).len(), 1, "nothing is on its way");
    assert!(rig.write(id, 100).is_empty() && rig.write(id, 1300).is_empty());
    assert_eq!(rig.write(id, 100)[0].payload.len(), 1460, "there is more than a segment");
    rig.acknowledgement = rig.acknowledgement.wrapping_add(1560);
    assert_eq!(rig.send(Flags::ACK, &[])[0].payload.len(), 40);
    rig.acknowledgement = rig.acknowledgement.wrapping_add(40);
    rig.send(Flags::ACK, &[]);
    assert_eq!(rig.write(id, 1560).len(), 2, "full segments are no reason to wait");
    assert!(rig.write(id, 100).is_empty());
    let last = rig.with(|stack, io| stack.finish(id, io).unwrap());
    assert_eq!((last.len(), last[0].payload.len()), (1, 100), "nothing follows but the FIN with it");
    assert!(last[0].header.flags.contains(Flags::FIN));
    let (mut rig, id) = Rig::open(Options::default());
    rig.write(id, 100);
    assert!(rig.write(id, 100).is_empty());
    let sent = rig.with(|stack, io| stack.set_nagle(id, false, io).unwrap());
    assert_eq!((sent.len(), rig.write(id, 100).len()), (1, 1));
    let (mut rig, id) = Rig::open(Options { nagle: false, ..Options::default() });
    assert_eq!((rig.write(id, 100).len(), rig.write(id, 100).len()), (1, 1));
}

/// RFC 2018, section 4: the block in which something came last stands first; RFC 2883: what
/// came twice stands in front of all.
#[test]
fn blocks_tell_the_latest_first_and_what_came_twice() {
    let (mut rig, _) = Rig::open(Options::default());
    let next = rig.sequence;
    let mut told = vec![];
    for start in [100, 300, 500, 400, 350] {
        rig.sequence = next.wrapping_add(start);
        told = rig.send(Flags::ACK, &[0; 50]).pop().unwrap().blocks;
    }
    let at = |from: u32, to: u32| (next.wrapping_add(from), next.wrapping_add(to));
    assert_eq!(told, [at(300, 450), at(500, 550), at(100, 150)]);
    rig.sequence = next.wrapping_add(310);
    let told = rig.send(Flags::ACK, &[0; 20]).pop().unwrap().blocks;
    assert_eq!(told[0], at(310, 330), "it came twice");
    assert!(told[1..].contains(&at(300, 450)));
    rig.sequence = next;
    let all = rig.send(Flags::ACK, &[0; 100]).pop().unwrap();
    assert_eq!(all.header.acknowledgement, next.wrapping_add(150));
    assert_eq!(all.blocks.len(), 2);
}

/// RFC 7323, section 5.3: a segment with an older clock is dropped and acknowledged.
#[test]
fn segments_with_an_old_clock_are_dropped() {
    let mut rig = Rig::new(Options::default());
    rig.clock = Some(1000);
    let syn = rig.segment(Flags::SYN);
    let answer = rig.exchange(syn, &[], &[]).pop().unwrap().header;
    assert_eq!(answer.timestamps.unwrap().1, 1000);
    rig.sequence = FIRST.wrapping_add(1);
    rig.acknowledgement = answer.sequence.wrapping_add(1);
    rig.clock = Some(1001);
    rig.send(Flags::ACK, &[]);
    rig.clock = Some(999);
    let answer = rig.send(Flags::ACK, b"old").pop().unwrap().header;
    assert_eq!((answer.acknowledgement, answer.timestamps.unwrap().1), (rig.sequence, 1001));
    assert_eq!(rig.stack.counters().lost(port::Reason::RxTcpTimestamp), 1);
    assert_eq!(rig.stack.counters().bytes_received, 0);
    // Section 3.2 would drop it; Linux takes it, for options get lost on the way.
    rig.clock = None;
    rig.send(Flags::ACK, b"none");
    assert_eq!(rig.stack.counters().bytes_received, 4);
}

/// What was never sent cannot have been acknowledged: the segment is dropped whole and, as by
/// Linux, without a word. Its clock does not count either.
#[test]
fn acknowledgements_of_what_was_never_sent_are_dropped() {
    let (mut rig, _) = Rig::open(Options::default());
    let header = rig.segment(Flags::ACK);
    let wrong = Repr { acknowledgement: header.acknowledgement.wrapping_add(1_000_000), ..header };
    assert!(rig.exchange(wrong, &[], b"data").is_empty());
    assert_eq!(rig.stack.counters().lost(port::Reason::RxTcpAcknowledgement), 1);
    assert_eq!(rig.stack.counters().bytes_received, 0);
}

/// RFC 6298, section 5: the timeout is a second at first and doubles; then it is over.
#[test]
fn a_syn_is_sent_again_with_doubled_timeouts_and_given_up() {
    let mut rig = Rig::new(Options { syn_retries: 3, ..Options::default() });
    rig.with(|stack, io| _ = stack.connect(IpAddr::V4(OURS), (IpAddr::V4(THEIRS), 9), io).unwrap());
    for seconds in [1, 2, 4] {
        assert!(rig.pass(seconds * SECOND - 10 * MS).is_empty(), "not before {seconds} s");
        assert_eq!(rig.pass(12 * MS).len(), 1, "after {seconds} s");
    }
    assert!(rig.pass(9 * SECOND).is_empty());
    assert_eq!((rig.ended(), rig.stack.len()), (Some(Reason::TimedOut), 0));
}

/// RFC 5681, section 3.2, by RFC 8985 with blocks and by duplicates without: a lost segment is
/// sent again long before the timer expires, and once.
#[test]
fn a_loss_is_repaired_by_three_segments_behind_it() {
    for has_sack in [true, false] {
        let options = Options { sack: has_sack, min_rto_ns: SECOND, ..Options::default() };
        let (mut rig, id) = Rig::open(options);
        let sent = rig.write(id, 5 * 1460);
        assert_eq!(sent.len(), 5);
        rig.now += 20 * MS;
        let (first, mut again) = (rig.acknowledgement, vec![]);
        for arrived in &sent[1..] {
            let header = rig.segment(Flags::ACK);
            let blocks = [(first.wrapping_add(1460), ends(arrived))];
            again.push(rig.exchange(header, if has_sack { &blocks } else { &[] }, &[]));
        }
        assert!(again[0].is_empty() && again[1].is_empty(), "one or two may be out of order");
        assert_eq!((again[2].len(), again[2][0].header.sequence), (1, first), "sack {has_sack}");
        assert!(again[3].is_empty(), "once");
        rig.acknowledgement = ends(&sent[4]);
        rig.send(Flags::ACK, &[]);
        assert_eq!(rig.stack.info(id).map(|info| (info.queued, info.in_flight)), Some((0, 0)));
        let counters = rig.stack.counters();
        assert_eq!((counters.timeouts, counters.recoveries), (0, 1));
    }
}

/// RFC 6298, sections 3 and 5.7, and RFC 7323, section 4.1: the clock that comes back tells which SYN
/// was answered, so that the round trip is known though one was lost; otherwise it is not.
#[test]
fn the_answer_to_a_syn_that_was_sent_again_tells_the_round_trip_by_its_clock() {
    for (echoed, timeout_ns) in [(Some(1), 220 * MS), (Some(0), 3 * SECOND), (None, 3 * SECOND)] {
        let mut rig = Rig::new(Options::default());
        let mut id = None;
        let mut syns = rig.with(|stack, io| {
            id = stack.connect(IpAddr::V4(OURS), (IpAddr::V4(THEIRS), 9), io).ok();
        });
        syns.extend(rig.pass(1100 * MS));
        assert_eq!(syns.len(), 2);
        rig.now += 20 * MS;
        rig.port = 9;
        rig.acknowledgement = syns[0].header.sequence.wrapping_add(1);
        let clock = echoed.map(|n: usize| (1, syns[n].header.timestamps.unwrap().0));
        let answer = Repr { dst_port: syns[0].header.src_port, timestamps: clock, ..rig.segment(SYN_ACK) };
        assert_eq!(rig.exchange(answer, &[], &[])[0].header.flags, Flags::ACK);
        let info = rig.stack.info(id.unwrap()).unwrap();
        assert_eq!((info.state, info.rto_ns), (State::Established, timeout_ns), "{echoed:?}");
    }
}

/// RFC 8985, section 6.2, step 5: a segment that may only be late is taken for lost when its time is
/// over, whatever comes meanwhile that tells nothing new: data, as from a peer that sends as well.
#[test]
fn what_tells_nothing_new_does_not_put_a_loss_off() {
    let (mut rig, id) = Rig::open(Options { min_rto_ns: SECOND, ..Options::default() });
    let sent = rig.write(id, 2 * 1460);
    rig.now += 20 * MS;
    let blocks = [(sent[1].header.sequence, ends(&sent[1]))];
    let header = rig.segment(Flags::ACK);
    assert!(rig.exchange(header, &blocks, &[]).is_empty(), "it may be late");
    rig.now += MS;
    let header = rig.segment(Flags::ACK | Flags::PSH);
    rig.exchange(header, &blocks, &[7; 100]);
    let again = rig.pass(10 * MS);
    assert!(again.iter().any(|segment| segment.header.sequence == sent[0].header.sequence), "{again:?}");
    assert_eq!(rig.stack.counters().timeouts, 0);
}

/// Blocks stand in the order in which something came last, which says nothing of the order in
/// which segments came when acknowledgements were lost: nothing was late, and the loss is
/// repaired at once (RFC 8985, section 6.2). Blocks that tell the same twice count once.
#[test]
fn blocks_of_any_order_are_taken_together() {
    let (mut rig, id) = Rig::open(Options::default());
    let sent = rig.write(id, 8 * 1460);
    rig.now += 20 * MS;
    let at = |from: usize, to: usize| (sent[from].header.sequence, ends(&sent[to]));
    let header = rig.segment(Flags::ACK);
    let part = (sent[1].header.sequence, sent[1].header.sequence.wrapping_add(9));
    let blocks = [at(6, 7), at(4, 4), at(1, 2), part];
    let again = rig.exchange(header, &blocks, &[]);
    let info = rig.stack.info(id).unwrap();
    assert_eq!((info.sacked, info.in_flight + info.lost), (5 * 1460, 3 * 1460));
    assert_eq!(again[0].header.sequence, sent[0].header.sequence, "nothing was late");
    rig.check();
}

/// RFC 6937: in recovery new data count as sent too, so that no more goes out than the
/// threshold's share of what arrives.
#[test]
fn recovery_counts_new_data_among_what_it_sends() {
    let (mut rig, id) = Rig::open(Options { algorithm: Algorithm::Reno, ..Options::default() });
    rig.window = 65_535;
    let mut sent = rig.write(id, 100 * 1460);
    for _ in 0..10 {
        rig.now += MS;
        rig.acknowledgement = ends(&sent.remove(0));
        sent.extend(rig.send(Flags::ACK, &[]));
    }
    let flight = sent.len();
    assert!(flight >= 18, "{flight} segments are on their way");
    let (lost, mut again) = (ends(&sent[0]), 0);
    for arrived in &sent[1..] {
        rig.now += MS / 10;
        let header = rig.segment(Flags::ACK);
        again += rig.exchange(header, &[(lost, ends(arrived))], &[]).len();
    }
    assert!(again <= flight / 2 + 2, "{again} segments for {flight}, of which half may be replaced");
    assert!(again >= flight / 2 - 4, "{again} segments for {flight}");
}

/// RFC 8985, section 7: when the last segment is lost, a probe finds out before the timer.
#[test]
fn the_last_segment_is_probed_for() {
    let (mut rig, id) = Rig::open(Options { min_rto_ns: 2 * SECOND, ..Options::default() });
    let sent = rig.write(id, 2 * 1460);
    rig.now += 20 * MS;
    rig.acknowledgement = ends(&sent[0]);
    assert!(rig.send(Flags::ACK, &[]).is_empty());
    assert!(rig.pass(30 * MS).is_empty());
    let probe = rig.pass(250 * MS).pop().expect("two round trips and a delayed acknowledgement later");
    assert_eq!((probe.header.sequence, probe.payload.len()), (sent[1].header.sequence, 1460));
    assert_eq!((rig.stack.counters().probes, rig.stack.counters().timeouts), (1, 0));
}

/// RFC 9293, section 3.8.6.1: a closed window is asked about for as long as somebody answers.
#[test]
fn a_closed_window_is_asked_about_until_it_opens() {
    let (mut rig, id) = Rig::open(Options { retries: 3, ..Options::default() });
    let closed = Repr { window: 0, ..rig.segment(Flags::ACK) };
    rig.exchange(closed, &[], &[]);
    assert!(rig.write(id, 1000).is_empty());
    let mut probes = 0;
    for _ in 0..60 {
        for probe in rig.pass(10 * SECOND) {
            probes += 1;
            assert_eq!(probe.header.sequence, rig.acknowledgement.wrapping_sub(1));
            rig.exchange(closed, &[], &[]);
        }
    }
    assert!(probes > 8, "{probes} probes in ten minutes");
    assert_eq!(rig.send(Flags::ACK, &[])[0].payload.len(), 1000, "it opens");
    assert_eq!(rig.ended(), None);
}

/// RFC 9293, section 3.8.4.
#[test]
fn a_silent_peer_is_asked_and_given_up() {
    let keep_alive = KeepAlive { idle_ns: 60 * SECOND, interval_ns: 10 * SECOND, probes: 3 };
    let (mut rig, _) = Rig::open(Options { keep_alive: Some(keep_alive), ..Options::default() });
    assert!(rig.pass(59 * SECOND).is_empty());
    assert_eq!(rig.pass(2 * SECOND).len(), 1);
    rig.send(Flags::ACK, &[]);
    assert!(rig.pass(59 * SECOND).is_empty(), "it answered");
    let asked: usize = (0..40).map(|_| rig.pass(SECOND).len()).sum();
    assert_eq!(
        (asked, rig.ended()),
        (4, Some(Reason::TimedOut)),
        "three times, and a reset as Linux sends it"
    );
}

/// RFC 9293, section 3.6: each side ends by itself; TIME-WAIT is with the side that ends first,
/// acknowledges a FIN that comes again, and a later SYN opens anew (section 3.6.1).
#[test]
fn both_sides_end_and_a_later_syn_opens_anew() {
    let (mut rig, id) = Rig::open(Options::default());
    let fin = rig.with(|stack, io| stack.finish(id, io).unwrap());
    assert_eq!(fin[0].header.flags, Flags::FIN | Flags::ACK);
    rig.acknowledgement = rig.acknowledgement.wrapping_add(1);
    rig.send(Flags::ACK, b"still open");
    assert_eq!(rig.state(id), Some(State::FinWait2));
    rig.sequence = rig.sequence.wrapping_add(10);
    let last = rig.send(Flags::FIN | Flags::ACK, &[]).pop().unwrap().header;
    assert_eq!(last.acknowledgement, rig.sequence.wrapping_add(1));
    assert_eq!((rig.state(id), rig.ended()), (Some(State::TimeWait), Some(Reason::Finished)));
    assert_eq!(rig.send(Flags::FIN | Flags::ACK, &[]).len(), 1, "the acknowledgement was lost");
    assert!(rig.send(Flags::RST, &[]).is_empty());
    assert_eq!(rig.state(id), Some(State::TimeWait), "RFC 1337");
    rig.sequence = rig.sequence.wrapping_add(5000);
    assert_eq!(rig.send(Flags::SYN, &[])[0].header.flags.without(Flags::ECE), SYN_ACK);
    assert_eq!(rig.stack.len(), 1);
    for event in rig.events.drain(..) {
        if let Event::Received { packet, .. } = event {
            rig.pool.free(packet);
        }
    }
}

/// RFC 9293, section 3.6.1: data that come when nobody takes them reset the connection.
#[test]
fn data_after_close_reset_the_connection() {
    let (mut rig, id) = Rig::open(Options::default());
    rig.with(|stack, io| stack.close(id, io).unwrap());
    let reset = rig.send(Flags::ACK, b"nobody takes it").pop().unwrap().header;
    assert!(reset.flags.contains(Flags::RST));
    assert_eq!((rig.ended(), rig.stack.len()), (Some(Reason::DataAfterClose), 0));
}

/// RFC 4987: a flood of SYNs takes no more than it may, and who answers is let in.
#[test]
fn a_flood_is_bounded_and_cookies_let_others_in() {
    let (mut rig, id) = Rig::open(Options { half_open: 16, ..Options::default() });
    let (sequence, acknowledgement) = (rig.sequence, rig.acknowledgement);
    rig.sequence = 7;
    for port in 6000..7000 {
        rig.port = port;
        let answers = rig.send(Flags::SYN, &[]);
        assert_eq!(answers.len(), 1);
        (rig.acknowledgement, rig.port) = (answers[0].header.sequence, port);
    }
    assert_eq!(rig.stack.len(), 17);
    // A wrong number is a stranger's.
    rig.sequence = 8;
    assert_eq!(rig.send(Flags::ACK, &[])[0].header.flags, Flags::RST);
    rig.acknowledgement = rig.acknowledgement.wrapping_add(1);
    rig.send(Flags::ACK, b"hello");
    assert_eq!(rig.stack.counters().cookies_accepted, 1);
    assert!(matches!(rig.events[..], [Event::Connected { .. }, Event::Received { .. }]));
    // The one that was open before goes on.
    (rig.sequence, rig.acknowledgement, rig.port) = (sequence, acknowledgement, 5000);
    assert_eq!(rig.write(id, 100).len(), 1);
    (0..100).for_each(|_| _ = rig.pass(SECOND));
    rig.events.clear();
    assert!(rig.stack.len() <= 2, "what was half open is over");
}

/// RFC 6528: the numbers of one pair of ends grow with time, those of others say nothing.
#[test]
fn initial_numbers_follow_a_clock_and_a_secret() {
    let numbers = |key: u64| {
        let mut rig = Rig::new(Options::default());
        rig.stack = Stack::new(Options { key: [key, 0], half_open: 9, ..Options::default() }, 0);
        rig.stack.listen(80);
        let mut first = |port: u16, now: i64| {
            (rig.port, rig.now) = (port, now);
            rig.send(Flags::SYN, &[])[0].header.sequence
        };
        [first(1, SECOND), first(2, SECOND), first(3, SECOND)]
    };
    let (a, b) = (numbers(1), numbers(2));
    assert!(a[0] != a[1] && a[1] != a[2] && a != b);
    assert_ne!(a[1].wrapping_sub(a[0]), a[2].wrapping_sub(a[1]));
}

/// RFC 3168: congestion that the wire marks makes the sender slow down without a loss.
#[test]
fn marked_packets_slow_the_sender_down() {
    let windows = [0, 50].map(|mark| {
        let faults = Faults { mark, delay_ns: 10 * MS, ..Faults::default() };
        let mut net = Net::new([Options::default(); 2], faults, 5);
        net.hosts[1].serves = App { to_receive: 3_000_000, streams: (2, 1), ..App::default() };
        let app = App { to_send: 3_000_000, chunk: 50_000, streams: (1, 2), ..App::default() };
        let id = net.connect(0, app);
        net.run(150 * MS);
        let counters = net.hosts[0].stack.counters();
        assert_eq!((counters.segments_resent, counters.timeouts), (0, 0));
        net.hosts[0].stack.info(id).unwrap().congestion_window
    });
    assert!(2 * windows[1] < windows[0], "{windows:?}");
}

/// RFC 9293, section 3.7.4: a segment that has become full waits for no other one.
#[test]
fn a_small_segment_that_becomes_full_is_sent() {
    let (mut rig, id) = Rig::open(Options::default());
    let lens = |sent: Vec<Sent>| sent.iter().map(|sent| sent.payload.len()).collect::<Vec<_>>();
    assert_eq!(lens(rig.write(id, 100)), [100]);
    assert!(lens(rig.write(id, 1000)).is_empty(), "it waits for the other small one");
    assert_eq!(lens(rig.write(id, 460)), [1460]);
}
