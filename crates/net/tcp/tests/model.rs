//! Two stacks over a wire that loses, doubles, delays and changes packets, in simulated time:
//! no byte is lost, doubled or out of place, nothing waits for ever, both ends close, and
//! nothing is left. What each application must see is a function of the byte's place.
#![allow(clippy::unwrap_used)]

mod common;

use common::{App, Faults, MS, Net, PORT, Random, SECOND};
use tcp::{Algorithm, FastOpenListener, Listener, Options, Reason};

/// Options that a seed decides.
fn options(random: &mut Random) -> Options {
    let sizes = [4 << 10, 20_000, 64 << 10, 256 << 10];
    Options {
        mtu: [576, 1280, 1500, 2048][random.below(4) as usize],
        receive_buffer: sizes[random.below(4) as usize],
        send_buffer: sizes[random.below(4) as usize],
        send_packets: [8, 64, 512][random.below(3) as usize],
        out_of_order: [2, 16, 256][random.below(3) as usize],
        out_of_order_ns: [100 * MS, 20 * SECOND][random.below(2) as usize],
        packets: [128, 16_384][random.below(2) as usize],
        time_wait_ns: 1_200 * SECOND, // longer than a FIN may be sent again
        retries: 30,
        syn_retries: 20,
        algorithm: if random.in_thousand(500) { Algorithm::Reno } else { Algorithm::Cubic },
        sack: !random.in_thousand(250),
        timestamps: !random.in_thousand(250),
        window_scale: !random.in_thousand(250),
        nagle: random.in_thousand(500),
        ecn: !random.in_thousand(500),
        fast_open_needs_cookie: false,
        ..Options::default()
    }
}

fn faults(random: &mut Random) -> Faults {
    let mut some = |most| if random.in_thousand(500) { 0 } else { random.below(most) };
    Faults {
        loss: some(150),
        duplicate: some(100),
        reorder: some(300),
        corrupt: some(100),
        mark: some(200),
        delay_ns: some(100) as i64 * MS + 10_000,
        jitter_ns: some(20) as i64 * MS,
        longest: [0, 0, 0, 1300, 1410, 1440, 1490, 1700][random.below(8) as usize],
        ..Faults::default()
    }
}

/// A stream each way.
fn app(random: &mut Random, streams: (u64, u64), bytes: (u64, u64)) -> App {
    App {
        streams,
        to_send: bytes.0,
        to_receive: bytes.1,
        chunk: [1, 100, 1460, 5000, 100_000][random.below(5) as usize],
        lag_ns: [0, 0, MS, 300 * MS][random.below(4) as usize],
        ..App::default()
    }
}

/// Two hosts of which the first opens a connection, as a seed decides. Segments that are as
/// expected take the fast path if it `predicts`.
fn opening(seed: u64, predicts: bool) -> Net {
    let mut random = Random(seed);
    let mut net = Net::new([options(&mut random), options(&mut random)], faults(&mut random), seed);
    #[cfg(debug_assertions)]
    net.hosts.iter_mut().for_each(|host| host.stack.predict(predicts));
    assert!(predicts || cfg!(debug_assertions));
    let bytes = |random: &mut Random| {
        let most = [1, 1000, 30_000, 200_000][random.below(4) as usize];
        random.below(most)
    };
    let (up, down) = (bytes(&mut random), bytes(&mut random));
    let mut client = app(&mut random, (1, 2), (up, down));
    let mut server = app(&mut random, (2, 1), (down, up));
    client.chunk = client.chunk.max(up / 2000);
    server.chunk = server.chunk.max(down / 2000);
    server.waits = random.in_thousand(300);
    net.hosts[1].serves = server;
    let family = random.below(2) as usize;
    if random.in_thousand(300) {
        let chosen = FastOpenListener { most: 1, key: [7; 16], is_cookie_needed: false };
        net.hosts[1].stack.listen_as(PORT, Listener { fast_open: Some(chosen), ..Listener::default() });
        // A SYN that comes twice opens twice where the first has ended (RFC 7413, section 2.1).
        net.faults.duplicate = 0;
        net.connect_fast(family, client);
    } else {
        net.connect(family, client);
    }
    net
}

/// One schedule: all that happens is decided by its seed.
fn schedule(seed: u64, moves: u64) -> u64 {
    let mut net = opening(seed, true);
    net.moves = moves;
    net.run(7_200 * SECOND);
    let ends: Vec<_> = net.hosts.iter().flat_map(|host| host.seen().cloned()).collect();
    let is_whole = |end: &App| {
        let (sent, received) = (end.to_send, end.to_receive);
        (end.sent, end.acknowledged, end.received) == (sent, sent, received)
            && end.is_peer_finished
            && end.closed == Some(Reason::Finished)
    };
    assert!(ends.len() == 2 && ends.iter().all(is_whole), "seed {seed}: {}", net.describe());
    net.is_over();
    net.moved
}

#[test]
fn no_byte_is_lost_and_both_ends_close_whatever_the_wire_does() {
    let one = std::env::var("TCP_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..400, |seed| seed..seed + 1);
    for seed in seeds {
        println!("seed {seed}");
        schedule(seed, 0);
    }
}

/// Each step of a schedule, with all packets that were sent in it and all that is known of
/// connections behind it, is the same without header prediction.
#[cfg(debug_assertions)]
#[test]
fn the_short_way_of_a_segment_does_what_the_long_way_does() {
    for seed in 0..150 {
        let mut nets = [true, false].map(|predicts| opening(seed, predicts));
        nets.iter_mut().for_each(|net| net.log = Some(vec![]));
        for step in 0..20_000 {
            let [is_any, other] = [0, 1].map(|n| nets[n].step());
            let sent = nets.each_mut().map(|net| std::mem::take(net.log.as_mut().unwrap()));
            assert_eq!(sent[0], sent[1], "packets of seed {seed}, step {step}");
            assert_eq!(is_any, other, "seed {seed}, step {step}");
            if step % 16 == 0 || !is_any {
                let known = nets.each_ref().map(Net::describe);
                assert_eq!(known[0], known[1], "seed {seed}, step {step}");
            }
            if !is_any {
                break;
            }
        }
    }
}

#[test]
fn no_byte_is_lost_while_connections_move_between_stacks() {
    let one = std::env::var("TCP_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..300, |seed| seed..seed + 1);
    let moved: u64 = seeds
        .map(|seed| {
            println!("seed {seed}");
            schedule(seed, [20, 200, 500][seed as usize % 3])
        })
        .sum();
    assert!(moved > 10_000, "{moved} moves");
}

#[test]
fn many_connections_at_a_time_share_a_wire() {
    let faults = Faults { loss: 20, reorder: 50, delay_ns: 5 * MS, jitter_ns: MS, ..Faults::default() };
    let quick = Options { time_wait_ns: SECOND, ..Options::default() };
    let mut net = Net::with_buffers([quick; 2], faults, 7, 8192);
    let app = App { to_send: 20_000, to_receive: 3_000, chunk: 1000, ..App::default() };
    net.hosts[1].serves = App { to_send: 3_000, to_receive: 20_000, streams: (2, 1), ..app.clone() };
    for _ in 0..200 {
        net.connect(0, App { streams: (1, 2), ..app.clone() });
    }
    net.run(600 * SECOND);
    for host in &net.hosts {
        assert_eq!(host.seen().count(), 200);
        assert!(host.seen().all(|app| app.received == app.to_receive && app.closed.is_some()));
    }
    net.is_over();
}
