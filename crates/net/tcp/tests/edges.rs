//! The edges of windows, choices and answers: what a small window does to the end of data, what
//! an application may choose, and answers of peers that tell less than others.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::IpAddr;

use common::rig::{OURS, Rig, SYN_ACK, Sent, THEIRS};
use common::{MS, SECOND};
use memory::Batch;
use tcp::{Choices, Event, FastOpenListener, Io, Listener, Options, Reason};
use wire::tcp::{Flags, Repr};

/// The lengths of segments, and whether each is the end.
fn shapes(sent: &[Sent]) -> Vec<(usize, bool)> {
    sent.iter().map(|sent| (sent.payload.len(), sent.header.flags.contains(Flags::FIN))).collect()
}

/// The last data are cut where the window is smaller, though the end is behind them.
#[test]
fn the_end_of_data_goes_through_a_window_smaller_than_it() {
    let (mut rig, id) = Rig::open(Options::default());
    rig.window = 1000;
    rig.send(Flags::ACK, &[]);
    let sent = rig.with(|stack, io| {
        assert_eq!(stack.write(id, &[7; 1400], io), Ok(1400));
        stack.finish(id, io).unwrap();
    });
    let mut seen = shapes(&sent);
    for _ in 0..20 {
        seen.extend(shapes(&rig.pass(100 * MS)));
    }
    assert_eq!(seen.first(), Some(&(1000, false)));
    rig.acknowledgement = rig.acknowledgement.wrapping_add(1000);
    assert_eq!(shapes(&rig.send(Flags::ACK, &[])), [(400, true)]);
}

/// RFC 9293, section 3.8.6: a FIN takes a number of the window as well.
#[test]
fn an_end_behind_a_whole_window_waits_for_the_next() {
    let (mut rig, id) = Rig::open(Options::default());
    rig.window = 1400;
    rig.send(Flags::ACK, &[]);
    let sent = rig.with(|stack, io| {
        assert_eq!(stack.write(id, &[7; 1400], io), Ok(1400));
        stack.finish(id, io).unwrap();
    });
    assert_eq!(shapes(&sent), [(1400, false)]);
    rig.acknowledgement = rig.acknowledgement.wrapping_add(1400);
    assert_eq!(shapes(&rig.send(Flags::ACK, &[])), [(0, true)]);
}

/// However small a segment an application wants, there is one.
#[test]
fn no_segment_is_smaller_than_its_options() {
    for size in [0, 11, 12] {
        let mut rig = Rig::new(Options::default());
        rig.stack.listen_as(80, Listener { max_segment: Some(size), ..Listener::default() });
        rig.clock = Some(1);
        let syn = rig.segment(Flags::SYN);
        let answer = rig.exchange(syn, &[], &[]).pop().unwrap();
        assert_eq!(answer.header.max_segment, Some(88), "the least that Linux takes");
        rig.sequence = rig.sequence.wrapping_add(1);
        rig.acknowledgement = answer.header.sequence.wrapping_add(1);
        rig.send(Flags::ACK, &[]);
        let id = rig.events.drain(..).find_map(|event| match event {
            tcp::Event::Connected { connection, .. } => Some(connection),
            _ => None,
        });
        assert_eq!(rig.write(id.unwrap(), 200).first().map(|sent| sent.payload.len()), Some(76));
    }
}

/// Some peers echo no clock in their answer to a SYN, as Linux tolerates.
#[test]
fn an_answer_to_a_syn_that_echoes_nothing_is_taken() {
    let mut rig = Rig::new(Options::default());
    let syn = rig.with(|stack, io| {
        stack.connect(IpAddr::V4(OURS), (IpAddr::V4(THEIRS), 9), io).unwrap();
    });
    rig.port = 9;
    rig.acknowledgement = syn[0].header.sequence.wrapping_add(1);
    let answer = Repr { dst_port: syn[0].header.src_port, timestamps: Some((1, 0)), ..rig.segment(SYN_ACK) };
    assert_eq!(rig.exchange(answer, &[], &[])[0].header.flags, Flags::ACK);
}

/// A port that takes data from SYNs without cookies.
fn taking_data(most: u32) -> Listener {
    let chosen = FastOpenListener { most, key: [9; 16], is_cookie_needed: false };
    Listener { fast_open: Some(chosen), ..Listener::default() }
}

/// Connections that open as usual take no places of fast open (RFC 7413, section 5.1).
#[test]
fn usual_connections_do_not_stop_fast_ones() {
    let mut rig = Rig::new(Options::default());
    rig.stack.listen_as(80, taking_data(1));
    for port in 5000..5004 {
        rig.port = port;
        let syn = rig.segment(Flags::SYN);
        rig.exchange(syn, &[], &[]);
    }
    for port in 6000..6002 {
        rig.port = port;
        let syn = rig.segment(Flags::SYN);
        rig.exchange(syn, &[], &[1; 10]);
    }
    assert_eq!(rig.stack.counters().fast_opened, 1, "one of the two");
}

/// RFC 7413, section 5.1: SYNs with the addresses of others, whose resets come at once, find no
/// more places than those of silent ones.
#[test]
fn a_reset_frees_no_place_of_fast_open_for_a_minute() {
    let mut rig = Rig::new(Options::default());
    rig.stack.listen_as(80, taking_data(2));
    let first = rig.sequence;
    let open_and_reset = |rig: &mut Rig, port: u16| {
        (rig.port, rig.sequence) = (port, first);
        let syn = rig.segment(Flags::SYN);
        rig.exchange(syn, &[], &[1; 10]);
        rig.sequence = first.wrapping_add(11);
        rig.send(Flags::RST, &[]);
        rig.check();
    };
    (6000..6005).for_each(|port| open_and_reset(&mut rig, port));
    let counters = rig.stack.counters();
    assert_eq!((counters.fast_opened, counters.fast_open_full), (2, 3));
    rig.pass(59 * SECOND);
    open_and_reset(&mut rig, 6005);
    assert_eq!(rig.stack.counters().fast_opened, 2);
    rig.pass(SECOND);
    (6006..6009).for_each(|port| open_and_reset(&mut rig, port));
    assert_eq!(rig.stack.counters().fast_opened, 4, "both places were free again");
}

fn with_timeout(user_timeout_ns: i64) -> Choices {
    Choices { has_nagle: true, user_timeout_ns, ..Choices::default() }
}

/// RFC 5482: the time counts in place of the stack's attempts, and from when it is chosen.
#[test]
fn an_application_may_wait_for_longer_than_the_stack() {
    let (mut rig, id) = Rig::open(Options { retries: 2, ..Options::default() });
    rig.with(|stack, io| stack.choose(id, with_timeout(10 * SECOND), io).unwrap());
    rig.write(id, 100);
    for _ in 0..95 {
        rig.pass(100 * MS);
    }
    assert_eq!(rig.ended(), None);
    rig.with(|stack, io| stack.choose(id, with_timeout(5 * SECOND), io).unwrap());
    rig.pass(100 * MS);
    assert_eq!(rig.ended(), Some(Reason::TimedOut));
}

/// A window that stays closed counts as silence does, whatever answers come.
#[test]
fn a_window_may_stay_closed_for_as_long_as_an_application_wants() {
    let (mut rig, id) = Rig::open(Options::default());
    rig.with(|stack, io| stack.choose(id, with_timeout(3 * SECOND), io).unwrap());
    rig.window = 0;
    rig.send(Flags::ACK, &[]);
    rig.write(id, 100);
    for _ in 0..28 {
        if !rig.pass(100 * MS).is_empty() {
            rig.send(Flags::ACK, &[]);
        }
    }
    assert_eq!(rig.ended(), None);
    for _ in 0..4 {
        rig.pass(100 * MS);
    }
    assert_eq!(rig.ended(), Some(Reason::TimedOut));
}

/// What an application holds back goes after a while; that says nothing of the other side.
#[test]
fn a_corked_end_waits_for_nobody() {
    let (mut rig, id) = Rig::open(Options::default());
    // Shorter than the timer: nobody was asked who could have answered.
    let choices = Choices { is_corked: true, ..with_timeout(100 * MS) };
    rig.with(|stack, io| stack.choose(id, choices, io).unwrap());
    assert!(rig.write(id, 100).is_empty());
    let sent = (0..20).find_map(|_| rig.pass(20 * MS).pop());
    assert_eq!(sent.map(|sent| sent.payload.len()), Some(100));
    let detail = rig.stack.detail(id).unwrap();
    assert_eq!((detail.doublings, detail.window_probes, detail.info.attempts), (0, 0, 0));
}

/// A link that is down, or a port that takes nothing: timers go on, and those of connections that
/// wait for their turn to send among them.
#[test]
fn a_stack_that_cannot_send_keeps_time() {
    let (mut rig, id) = Rig::open(Options::default());
    let mut out = Batch::with_limit(8);
    while out.room() > 0 {
        out.push(rig.pool.alloc().unwrap());
    }
    let mut io = Io { now_ns: rig.now, pool: &mut rig.pool, out: &mut out };
    assert_eq!(rig.stack.write(id, b"waits", &mut io), Ok(5));
    rig.stack.set_timer(id, Some(rig.now + SECOND), &mut io).unwrap();
    rig.stack.output(&mut io);
    let mut fired = |io: &mut Io| {
        io.now_ns += SECOND;
        rig.stack.expire(io);
        rig.stack.output(io);
        let mut events = vec![];
        rig.stack.swap_events(&mut events);
        assert_eq!(rig.stack.set_timer(id, Some(io.now_ns + SECOND), io), Ok(()));
        events.iter().filter(|event| matches!(event, Event::Timer { .. })).count()
    };
    assert_eq!([fired(&mut io), fired(&mut io)], [1, 1]);
    io.pool.free_batch(io.out);
    assert_eq!(rig.with(|stack, io| stack.output(io)).len(), 1, "what waited goes");
}
