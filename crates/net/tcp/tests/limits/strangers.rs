//! What strangers may use up: half-open connections, the table, answers, and the time of a core.

use super::*;

/// Connections that are no longer half open leave their places, however they go on.
#[test]
fn half_open_connections_are_counted_down_again() {
    let mut rig = Rig::new(Options { half_open: 2, syn_retries: 1, ..Options::default() });
    let syn = |rig: &mut Rig, port| {
        (rig.port, rig.sequence, rig.acknowledgement) = (port, FIRST, 0);
        let answer = rig.send(Flags::SYN, &[]).pop().unwrap();
        (rig.sequence, rig.acknowledgement) = (FIRST.wrapping_add(1), answer.header.sequence.wrapping_add(1));
        rig.check();
    };
    for n in 0..4 {
        syn(&mut rig, 1000 + n);
        rig.send(Flags::ACK, &[]); // it is open
        syn(&mut rig, 2000 + n);
        rig.send(Flags::RST, &[]); // its client does not want it any more
        syn(&mut rig, 3000 + n);
        (0..20).for_each(|_| _ = rig.pass(SECOND)); // nobody answers
        assert_eq!(rig.stack.counters().timed_out, u64::from(n) + 1);
        rig.check();
    }
    assert_eq!((rig.stack.len(), rig.stack.counters().cookies_sent), (4, 0));
    rig.with(|stack, io| stack.clear(io));
    rig.check();
    // Two at a time are as many as there may be.
    (0..2).for_each(|n| syn(&mut rig, 4000 + n));
    assert_eq!(rig.stack.counters().cookies_sent, 0);
    syn(&mut rig, 4002);
    assert_eq!(rig.stack.counters().cookies_sent, 1);
}

/// A table that is full of connections in TIME-WAIT has room for others.
#[test]
fn time_wait_makes_room_when_the_table_is_full() {
    let mut rig = Rig::new(Options { connections: 4, ..Options::default() });
    for port in 0..6 {
        let peer = Peer::open(&mut rig, 4000 + port, |_| ());
        rig.with(|stack, io| stack.finish(peer.id, io).unwrap());
        rig.acknowledgement = rig.acknowledgement.wrapping_add(1);
        rig.send(Flags::FIN | Flags::ACK, &[]);
        assert_eq!(rig.stack.info(peer.id).unwrap().state, State::TimeWait);
        rig.now += MS;
    }
    let counters = rig.stack.counters();
    assert_eq!((counters.cookies_sent, counters.time_wait_ended), (0, 2));
    rig.with(|stack, io| _ = stack.connect(OURS.into(), (THEIRS.into(), 9), io).unwrap());
    assert_eq!((rig.stack.len(), rig.stack.counters().time_wait_ended), (4, 3));
}

/// Answers to a flood leave room for what connections send in the same turn.
#[test]
fn answers_to_strangers_leave_room_for_connections() {
    for flags in [Flags::ACK, Flags::SYN] {
        let (mut rig, id) = Rig::open(Options { half_open: 0, ..Options::default() });
        let flood: Vec<Vec<u8>> = (0..200)
            .map(|n| packet(&Repr { src_port: 10_000 + n, ..rig.segment(flags) }, &[], &[]))
            .collect();
        let mut out = Batch::with_limit(64);
        let mut io = Io { now_ns: rig.now, pool: &mut rig.pool, out: &mut out };
        assert_eq!(rig.stack.write(id, &[1; 10 * 1460], &mut io), Ok(10 * 1460));
        for bytes in &flood {
            let packet = frame(io.pool, bytes).unwrap();
            let flow = Flow::of(&packet).unwrap();
            rig.stack.receive(packet, &flow, 0, &mut io);
        }
        assert_eq!((io.out.len(), rig.stack.counters().lost(Reason::TxTcpReply)), (32, 168));
        rig.stack.output(&mut io);
        assert_eq!(io.out.len(), 32 + 10);
        rig.pool.free_batch(&mut out);
    }
}

/// Frames that a flood of SYNs and a connection's segments come in, at 64 for each turn of the
/// host: how many bytes the connection gets through in so many turns.
fn goodput(flood: bool) -> (usize, Rig) {
    let mut rig = Rig::new(Options { half_open: 64, connections: 1024, ..few() });
    let peer = Peer::open(&mut rig, 900, |_| ());
    let mut stranger = 0;
    for _ in 0..100 {
        rig.now += MS;
        for n in 0..64 {
            if n % 8 == 0 {
                // An eighth of the wire is the connection's.
                let next = peer.sequence.wrapping_add(rig.stack.counters().bytes_received as u32);
                Peer { sequence: next, ..peer }.speaks(&mut rig);
                let answers = rig.send(Flags::ACK, &[1; 1000]);
                assert!(answers.len() <= 1);
                let (_, bytes) = free(&mut rig, peer.id);
                rig.with(|stack, io| stack.consume(peer.id, bytes, io).unwrap());
            } else if flood {
                (rig.port, rig.sequence, stranger) = (1000 + stranger, 0, (stranger + 1) % 60_000);
                assert_eq!(rig.send(Flags::SYN, &[]).len(), 1, "a SYN and an acknowledgement");
            }
        }
        rig.pass(0);
    }
    (rig.stack.counters().bytes_received as usize, rig)
}

/// A flood of SYNs at seven eighths of the wire takes nothing from who is connected.
#[test]
fn a_flood_of_syns_takes_nothing_from_connections() {
    let ((alone, _), (beside, mut rig)) = (goodput(false), goodput(true));
    assert_eq!((alone, beside), (800_000, 800_000));
    let counters = rig.stack.counters();
    assert_eq!((counters.cookies_sent, counters.timed_out), (5600 - 64, 0));
    assert_eq!(counters.lost(Reason::RxTcpLimit), counters.cookies_sent);
    assert_eq!(rig.stack.len(), 65, "what the flood can make the stack keep");
    assert_eq!(rig.stack.kept_packets(), 0);
    assert_eq!(rig.pool.available(), rig.pool.capacity());
    // And when it is over nothing is left of it.
    (0..200).for_each(|_| _ = rig.pass(SECOND));
    assert_eq!(rig.stack.len(), 1);
}
