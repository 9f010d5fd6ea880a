//! What strangers and slow readers can make a stack keep is bounded, and others go on.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "limits/strangers.rs"]
mod strangers;

use common::rig::{FIRST, OURS, Rig, Sent, THEIRS, ends, packet};
use common::{MS, SECOND, frame};
use memory::Batch;
use port::Reason;
use tcp::{Echo, Event, Id, Io, Options, Service, State};
use wire::Flow;
use wire::tcp::{Flags, Repr};

/// 64 packets to be sent, and 64 received ones.
fn few() -> Options {
    Options { packets: 128, ..Options::default() }
}

/// Another side of a rig, with a connection of its own.
#[derive(Clone, Copy)]
struct Peer {
    id: Id,
    port: u16,
    sequence: u32,
    acknowledgement: u32,
}

impl Peer {
    /// Opens a connection from a port, and lets `change` choose what its SYN offers.
    fn open(rig: &mut Rig, port: u16, change: impl FnOnce(&mut Repr)) -> Peer {
        (rig.port, rig.sequence) = (port, FIRST);
        let mut syn = Repr { max_segment: Some(1460), sack_permitted: true, ..rig.segment(Flags::SYN) };
        change(&mut syn);
        let answer = rig.exchange(syn, &[], &[]).pop().unwrap();
        (rig.sequence, rig.acknowledgement) = (FIRST.wrapping_add(1), answer.header.sequence.wrapping_add(1));
        rig.send(Flags::ACK, &[]);
        let Some(Event::Connected { connection: id, .. }) = rig.events.pop() else { panic!("not open") };
        Peer { id, port, sequence: rig.sequence, acknowledgement: rig.acknowledgement }
    }

    /// Speaks for this one from now on.
    fn speaks(self, rig: &mut Rig) {
        (rig.port, rig.sequence, rig.acknowledgement) = (self.port, self.sequence, self.acknowledgement);
    }
}

/// Frees what the application was given; on how many packets and bytes of a connection.
fn free(rig: &mut Rig, id: Id) -> (usize, usize) {
    let (mut packets, mut bytes, mut rest) = (0, 0, vec![]);
    for event in rig.events.drain(..) {
        match event {
            Event::Received { connection, packet } if connection == id => {
                (packets, bytes) = (packets + 1, bytes + packet.len());
                rig.pool.free(packet);
            }
            event => rest.push(event),
        }
    }
    rig.events = rest;
    (packets, bytes)
}

#[test]
fn bytes_one_by_one_that_nobody_consumes_leave_buffers_for_others() {
    let mut rig = Rig::new(few());
    let hog = Peer::open(&mut rig, 1000, |_| ());
    for n in 0..300 {
        rig.send(Flags::ACK, b"x");
        rig.sequence = FIRST.wrapping_add(1 + (n + 1).min(28)); // what is not taken is sent again
    }
    assert!(rig.stack.counters().lost(Reason::RxTcpBuffers) > 200);
    assert!(rig.pool.capacity() - rig.pool.available() <= 28, "half of 64 without an eighth");
    // Another one is served meanwhile.
    let other = Peer::open(&mut rig, 1001, |_| ());
    for _ in 0..100 {
        rig.send(Flags::ACK, b"hello");
        rig.sequence = rig.sequence.wrapping_add(5);
        assert_eq!(free(&mut rig, other.id), (1, 5));
        rig.with(|stack, io| stack.consume(other.id, 5, io).unwrap());
    }
    // When the first is consumed it goes on.
    let (packets, bytes) = free(&mut rig, hog.id);
    assert_eq!((packets, bytes), (28, 28));
    rig.with(|stack, io| stack.consume(hog.id, bytes, io).unwrap());
    Peer { sequence: FIRST.wrapping_add(29), ..hog }.speaks(&mut rig);
    rig.send(Flags::ACK, b"y");
    assert_eq!(free(&mut rig, hog.id), (1, 1));
}

/// An application that copies what it cannot take yet keeps bytes, and no packets: it may keep
/// a window of them though they came one by one.
#[test]
fn packets_that_were_released_do_not_count() {
    let mut rig = Rig::new(few());
    let hogs: Vec<Peer> = (0..14).map(|n| Peer::open(&mut rig, 1000 + n, |_| ())).collect();
    for mut hog in hogs {
        for _ in 0..100 {
            hog.speaks(&mut rig);
            rig.send(Flags::ACK, b"x");
            hog.sequence = hog.sequence.wrapping_add(1);
            assert_eq!(free(&mut rig, hog.id), (1, 1));
            assert_eq!(rig.stack.release(hog.id, 1), Ok(()));
        }
        assert_eq!(rig.stack.info(hog.id).unwrap().unconsumed, 100, "the window stays closed by them");
        rig.with(|stack, io| stack.consume(hog.id, 40, io).unwrap());
        assert_eq!(rig.stack.info(hog.id).unwrap().unconsumed, 60);
        rig.check();
    }
    assert_eq!(rig.stack.counters().lost(Reason::RxTcpBuffers), 0);
    // More than there are is no more than all.
    let peer = Peer::open(&mut rig, 999, |_| ());
    rig.send(Flags::ACK, b"hello");
    assert_eq!(rig.stack.release(peer.id, usize::MAX), Ok(()));
    rig.check();
    free(&mut rig, peer.id);
}

/// Whoever keeps no packet may keep one, however many came before that consume nothing.
#[test]
fn those_who_consume_nothing_leave_each_other_one_a_packet() {
    let mut rig = Rig::new(few());
    for n in 0..12 {
        let mut hog = Peer::open(&mut rig, 1000 + n, |_| ());
        loop {
            let before = rig.stack.counters().bytes_received;
            hog.speaks(&mut rig);
            rig.send(Flags::ACK, b"x");
            hog.sequence = hog.sequence.wrapping_add(1);
            if rig.stack.counters().bytes_received == before {
                break;
            }
        }
    }
    let other = Peer::open(&mut rig, 999, |_| ());
    for _ in 0..100 {
        rig.send(Flags::ACK, b"hello");
        rig.sequence = rig.sequence.wrapping_add(5);
        assert_eq!(free(&mut rig, other.id), (1, 5));
        rig.with(|stack, io| stack.consume(other.id, 5, io).unwrap());
    }
    rig.check();
}

/// Gaps of some leave room for what others send in order.
#[test]
fn data_behind_gaps_leave_buffers_for_data_in_order() {
    let mut rig = Rig::new(few());
    for n in 0..40 {
        let mut hog = Peer::open(&mut rig, 1000 + n, |_| ());
        for _ in 0..20 {
            hog.sequence = hog.sequence.wrapping_add(10);
            hog.speaks(&mut rig);
            rig.send(Flags::ACK, b"x");
        }
    }
    rig.check();
    assert_eq!(rig.stack.kept_packets(), 32, "half of those that may be received");
    let other = Peer::open(&mut rig, 999, |_| ());
    for _ in 0..10 {
        rig.send(Flags::ACK, b"hello");
        rig.sequence = rig.sequence.wrapping_add(5);
    }
    assert_eq!(free(&mut rig, other.id), (10, 50));
    assert_eq!(rig.stack.counters().lost(Reason::RxTcpBuffers), 0);
}

/// What came before its turn is dropped when what stands in front of it does not come, and
/// makes room for what comes in order.
#[test]
fn data_behind_a_gap_are_not_kept_for_ever() {
    let (mut rig, id) = Rig::open(Options { out_of_order_ns: 10 * SECOND, ..few() });
    let next = rig.sequence;
    for n in 0..100 {
        rig.sequence = next.wrapping_add(100 + 10 * n);
        rig.send(Flags::ACK, b"x"); // no two are neighbours
    }
    assert_eq!(rig.stack.kept_packets(), 14);
    assert_eq!(rig.stack.counters().lost(Reason::RxTcpNoRoom), 86);
    rig.pass(9 * SECOND);
    assert_eq!(rig.stack.kept_packets(), 14);
    rig.pass(2 * SECOND);
    assert_eq!((rig.stack.kept_packets(), rig.stack.counters().lost(Reason::RxTcpGap)), (0, 14));
    // Neighbours share a buffer.
    for n in 0..100 {
        rig.sequence = next.wrapping_add(100 + n);
        rig.send(Flags::ACK, b"x");
    }
    assert_eq!(rig.stack.kept_packets(), 1);
    rig.sequence = next;
    rig.send(Flags::ACK, &[b'y'; 100]);
    assert_eq!(free(&mut rig, id), (2, 200));
    assert_eq!(rig.stack.info(id).unwrap().unconsumed, 200);
}

#[test]
fn what_is_written_byte_by_byte_shares_buffers() {
    let (mut rig, id) = Rig::open(few());
    rig.window = 0;
    rig.send(Flags::ACK, &[]);
    for _ in 0..3000 {
        assert!(rig.write(id, 1).is_empty());
    }
    assert_eq!(rig.stack.kept_packets(), 3, "1,460 bytes in each");
    rig.window = 50_000;
    let sent = rig.send(Flags::ACK, &[]);
    assert_eq!(sent.iter().map(|it| it.payload.len()).sum::<usize>(), 3000);
    assert_eq!(sent.len(), 3);
}

/// A packet that is longer than the send buffer is sent when nothing else is on its way: it
/// would be refused for ever.
#[test]
fn a_packet_longer_than_the_send_buffer_goes_alone() {
    let (mut rig, id) = Rig::open(Options { send_buffer: 1 << 10, ..few() });
    assert_eq!(rig.write(id, 1460).len(), 1);
    rig.with(|stack, io| assert_eq!(stack.write(id, &[1; 1460], io), Ok(0)));
    rig.acknowledgement = rig.acknowledgement.wrapping_add(1460);
    rig.send(Flags::ACK, &[]);
    assert!(matches!(rig.events[..], [Event::Sent { bytes: 1460, .. }]), "{:?}", rig.events);
    assert_eq!(rig.write(id, 1460).len(), 1);
}

/// An echo to a peer that sends bytes one by one and takes none.
#[test]
fn an_echo_keeps_little_for_who_does_not_read() {
    let (mut rig, id) = Rig::open(Options { send_buffer: 1 << 10, ..few() });
    let mut echo = Echo::default();
    rig.window = 0;
    let mut came = 0;
    while came < 4000 {
        let received = rig.stack.counters().bytes_received;
        rig.send(Flags::ACK, b"x");
        let new = rig.stack.counters().bytes_received - received;
        if new == 0 {
            break;
        }
        rig.sequence = rig.sequence.wrapping_add(1);
        came += 1;
        let mut events = std::mem::take(&mut rig.events);
        rig.with(|stack, io| echo.serve(&mut events, stack, io));
    }
    assert!(came >= 1024 + 32, "{came} bytes");
    assert!(rig.pool.capacity() - rig.pool.available() <= 4, "{came} bytes need two or three buffers");
    rig.window = 50_000;
    let (mut back, mut turns) = (0, 0);
    while back < came {
        for sent in rig.send(Flags::ACK, &[]) {
            back += sent.payload.len();
            rig.acknowledgement = common::rig::ends(&sent);
        }
        let mut events = std::mem::take(&mut rig.events);
        for sent in rig.with(|stack, io| echo.serve(&mut events, stack, io)) {
            back += sent.payload.len();
            rig.acknowledgement = common::rig::ends(&sent);
        }
        turns += 1;
        assert!(turns < 100, "{back} of {came} bytes came back");
    }
    assert_eq!(rig.stack.info(id).unwrap().unconsumed, 0);
}

/// Who could not send anything because others keep all packets is told when there is room.
#[test]
fn who_waits_for_others_buffers_is_told() {
    let mut rig = Rig::new(few());
    rig.window = 0;
    let mut peers = vec![];
    for port in 0..15 {
        let peer = Peer::open(&mut rig, 2000 + port, |_| ());
        // Half of 56 for the first, and so on; one of eight others for those behind them.
        let mut taken = 0;
        rig.with(|stack, io| {
            while stack.write(peer.id, &[1; 1460], io).unwrap() > 0 {
                taken += 1;
            }
        });
        assert_eq!(taken, [28, 14, 7, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0][usize::from(port)]);
        peers.push(peer);
    }
    assert!(rig.stack.counters().buffers_full >= 15);
    assert!(rig.events.is_empty());
    assert!(!rig.stack.is_ready());
    peers[0].speaks(&mut rig);
    rig.send(Flags::RST, &[]);
    rig.pass(MS);
    let last = peers[14].id;
    assert!(
        rig.events
            .iter()
            .any(|event| matches!(event, Event::Sent { connection, bytes: 0 } if *connection == last)),
        "{:?}",
        rig.events
    );
    assert!(!rig.stack.is_ready(), "it was told once");
}

/// Closed is the last event of a connection, also of one that waited for others.
#[test]
fn who_has_ended_is_not_told_of_room() {
    let mut rig = Rig::new(few());
    rig.window = 0;
    let hogs: Vec<Peer> = (0..14).map(|n| Peer::open(&mut rig, 2000 + n, |_| ())).collect();
    for hog in &hogs {
        rig.with(|stack, io| while stack.write(hog.id, &[1; 1460], io).unwrap() > 0 {});
    }
    rig.window = 50_000;
    let other = Peer::open(&mut rig, 999, |_| ());
    rig.with(|stack, io| {
        assert_eq!(stack.write(other.id, &[2; 1460], io), Ok(0));
        stack.finish(other.id, io).unwrap();
    });
    rig.acknowledgement = rig.acknowledgement.wrapping_add(1);
    rig.send(Flags::FIN | Flags::ACK, &[]);
    assert_eq!(rig.state(other.id), Some(State::TimeWait));
    hogs[0].speaks(&mut rig);
    rig.send(Flags::RST, &[]);
    rig.pass(MS);
    let of_other =
        |event: &&Event| matches!(event, Event::Sent { connection, .. } if *connection == other.id);
    assert_eq!(rig.events.iter().filter(of_other).count(), 0, "{:?}", rig.events);
}

/// Answers what the stack sends to peers that take nothing, or a byte at a time.
fn answer(rig: &mut Rig, peers: &mut [Peer], sent: &[Sent], window: u16) {
    for segment in sent.iter().filter(|segment| !segment.header.flags.contains(Flags::RST)) {
        let port = segment.header.dst_port;
        let Some(peer) = peers.iter_mut().find(|peer| peer.port == port) else { continue };
        if segment.header.sequence == peer.acknowledgement {
            peer.acknowledgement = ends(segment);
        }
        peer.speaks(rig);
        rig.window = window;
        rig.send(Flags::ACK, &[]);
    }
}

/// Those who take nothing of what is kept for them, or next to nothing, are reset when others
/// need the room.
#[test]
fn who_takes_nothing_is_reset_when_packets_are_scarce() {
    for window in [0, 1] {
        let mut rig = Rig::new(few());
        rig.window = 0;
        let mut hogs: Vec<Peer> = (0..15).map(|n| Peer::open(&mut rig, 2000 + n, |_| ())).collect();
        for hog in &hogs {
            rig.with(|stack, io| while stack.write(hog.id, &[1; 1460], io).unwrap() > 0 {});
        }
        rig.window = 50_000;
        let other = Peer::open(&mut rig, 999, |_| ());
        rig.with(|stack, io| assert_eq!(stack.write(other.id, &[2; 1460], io), Ok(0)));
        for _ in 0..90 {
            for _ in 0..4 {
                let sent = rig.pass(SECOND / 4);
                answer(&mut rig, &mut hogs, &sent, window);
            }
        }
        let is_told =
            |event: &Event| matches!(event, Event::Sent { connection, bytes: 0 } if *connection == other.id);
        assert!(rig.events.iter().any(is_told), "there is room for who had none");
        let (stalled, left) = (rig.stack.counters().stalled, rig.stack.kept_packets());
        assert!(stalled > 0 && left <= 48, "{stalled} reset, {left} packets are kept");
        assert_eq!(rig.stack.len() as u64, 16 - stalled, "nobody else ended");
        (rig.port, rig.sequence, rig.acknowledgement) = (other.port, other.sequence, other.acknowledgement);
        let sent = rig.write(other.id, 3 * 1460);
        assert_eq!(sent.iter().map(|segment| segment.payload.len()).sum::<usize>(), 3 * 1460);
        rig.check();
    }
}

/// Who takes a little all the time is a slow reader, and goes on though packets are scarce.
#[test]
fn slow_readers_go_on_when_packets_are_scarce() {
    assert_eq!(read_slowly(1460), (0, 8));
}

/// Who wants small segments is no slow reader by taking two of those.
#[test]
fn small_segments_now_and_then_are_no_progress() {
    let (stalled, left) = read_slowly(64);
    assert!(stalled > 0 && left as u64 == 8 - stalled, "{stalled} reset, {left} left");
}

/// Eight readers take three segments of this size in ten seconds; how many were reset, and how
/// many are left.
fn read_slowly(segment: u16) -> (u64, usize) {
    let mut rig = Rig::new(few());
    rig.window = segment;
    let open = |n: u16| Peer::open(&mut rig, 2000 + n, |syn| syn.max_segment = Some(segment));
    let mut readers: Vec<Peer> = (0..8).map(open).collect();
    let limit = few().packets as usize / 2;
    let (mut most, mut sent) = (0, vec![]);
    for second in 0..120 {
        for reader in &readers {
            sent.extend(
                rig.with(|stack, io| while stack.write(reader.id, &[1; 1460], io).unwrap_or(0) > 0 {}),
            );
        }
        sent.extend(rig.pass(SECOND));
        most = most.max(rig.stack.kept_packets());
        // Each takes a segment, and has room for the next one, three times in ten seconds.
        let taken = if second % 10 < 3 { std::mem::take(&mut sent) } else { vec![] };
        for segment in taken {
            let reader = readers.iter_mut().find(|peer| peer.port == segment.header.dst_port).unwrap();
            if segment.header.sequence == reader.acknowledgement {
                reader.acknowledgement = ends(&segment);
                reader.speaks(&mut rig);
                sent.extend(rig.send(Flags::ACK, &[]));
            }
        }
    }
    assert!(most > limit / 4 * 3, "{most} of {limit} packets are not scarce");
    let counters = rig.stack.counters();
    rig.check();
    (counters.stalled, rig.stack.len())
}

/// A largest segment of 64 bytes makes thirty packets of one that the application sends.
#[test]
fn small_segments_take_no_more_packets_than_may_be() {
    let mut rig = Rig::new(Options { send_packets: 16, ..Options::default() });
    let peer = Peer::open(&mut rig, 3000, |syn| syn.max_segment = Some(64));
    peer.speaks(&mut rig);
    for _ in 0..20 {
        rig.now += MS;
        let mut sent = rig.send(Flags::ACK, &[]);
        for _ in 0..16 {
            sent.extend(rig.with(|stack, io| {
                let mut packet = io.pool.alloc().unwrap();
                packet.copy_from(&[1; 1460]).unwrap();
                if let Err((packet, _)) = stack.send(peer.id, packet, io) {
                    io.pool.free(packet);
                }
            }));
        }
        let kept = rig.stack.kept_packets();
        assert!(kept <= 33, "{kept} packets, of which 16 wait and 16 are on their way");
        if let Some(last) = sent.last() {
            rig.acknowledgement = common::rig::ends(last);
        }
    }
    assert!(rig.stack.counters().bytes_acknowledged > 10_000);
}
