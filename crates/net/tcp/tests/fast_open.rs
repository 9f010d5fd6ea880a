//! Fast open (RFC 7413) between two stacks.
#![allow(clippy::unwrap_used)]

mod common;

use common::{App, Faults, MS, Net, PORT, SECOND, byte};
use port::Reason;
use tcp::{FastOpenListener, Id, Listener, Options};

/// The clients' stream of which servers know each byte.
const STREAM: u64 = 7;

/// A port that takes data from SYNs with cookies of a key.
fn with_key(byte: u8) -> Listener {
    let chosen = FastOpenListener { most: 8, key: [byte; 16], is_cookie_needed: true };
    Listener { fast_open: Some(chosen), ..Listener::default() }
}

/// A client and a server that takes data from SYNs.
fn net(options: Options) -> Net {
    let faults = Faults { delay_ns: 10 * MS, ..Faults::default() };
    let mut net = Net::new([options, Options::default()], faults, 1);
    net.hosts[1].stack.listen_as(PORT, with_key(3));
    net.hosts[1].serves = App { streams: (0, STREAM), to_receive: 500, ..App::default() };
    net
}

/// Opens a connection with 500 bytes: how many went with the SYN.
fn connect(net: &mut Net) -> (Id, usize) {
    let bytes: Vec<u8> = (0..500).map(|n| byte(STREAM, n)).collect();
    let remote = (net.hosts[1].address[0], PORT);
    net.with(0, |host, out, now_ns| {
        let mut io = tcp::Io { now_ns, pool: &mut host.pool, out };
        let (id, taken) = host.stack.connect_fast(host.address[0], remote, &bytes, &mut io).expect("room");
        host.apps.insert(id, App { streams: (STREAM, 0), ..App::default() });
        host.stack.output(&mut io);
        (id, taken)
    })
}

/// What the server's application has received of the latest connection.
fn received(net: &Net) -> u64 {
    net.hosts[1].apps.values().map(|app| app.received).max().unwrap_or(0)
}

#[test]
fn the_second_syn_carries_data_that_are_there_after_half_a_round_trip() {
    let mut net = net(Options::default());
    assert_eq!(connect(&mut net).1, 0, "the first asks for a cookie");
    net.run(100 * MS);
    assert_eq!(net.hosts[1].stack.counters().fast_opened, 0);
    let (id, taken) = connect(&mut net);
    assert_eq!(taken, 500);
    net.run(12 * MS);
    assert_eq!((received(&net), net.hosts[1].stack.counters().fast_opened), (500, 1));
    net.run(10 * MS);
    let detail = net.hosts[0].stack.detail(id).expect("open");
    assert!(detail.has_syn_data && detail.info.bytes_acknowledged == 500);
    assert_eq!(net.hosts[0].stack.counters().segments_resent, 0);
}

#[test]
fn another_key_makes_a_cookie_worthless_but_the_connection_opens() {
    let mut net = net(Options::default());
    connect(&mut net);
    net.run(100 * MS);
    net.hosts[1].stack.listen_as(PORT, with_key(4));
    assert_eq!(connect(&mut net).1, 500);
    net.run(12 * MS);
    assert_eq!(received(&net), 0, "not before the handshake has ended");
    net.run(100 * MS);
    let counters = net.hosts[1].stack.counters();
    assert_eq!((received(&net), counters.fast_opened, counters.fast_open_wrong), (500, 0, 1));
    assert_eq!(counters.lost(Reason::RxTcpSynData), 1);
    assert_eq!(connect(&mut net).1, 500, "the answer had the right one");
    net.run(12 * MS);
    assert_eq!(net.hosts[1].stack.counters().fast_opened, 1);
}

#[test]
fn a_syn_that_is_lost_goes_again_without_data() {
    let mut net = net(Options::default());
    connect(&mut net);
    net.run(100 * MS);
    net.lose.push((0, net.sent[0]));
    net.log = Some(vec![]);
    connect(&mut net);
    net.run(3 * SECOND);
    assert_eq!((received(&net), net.hosts[1].stack.counters().fast_opened), (500, 0));
    let sent = net.log.expect("it was set");
    let lengths: Vec<usize> = sent.iter().filter(|(from, ..)| *from == 0).map(|(.., ip)| ip.len()).collect();
    assert!(lengths[0] > 500 && lengths[1] < 100, "{lengths:?}");
    assert_eq!(net.hosts[0].stack.counters().fast_open_refused, 1);
}

#[test]
fn servers_take_no_more_than_so_many_half_open() {
    let mut net = net(Options { fast_open_needs_cookie: false, ..Options::default() });
    let chosen = FastOpenListener { most: 1, key: [3; 16], is_cookie_needed: false };
    let listener = Listener { fast_open: Some(chosen), ..Listener::default() };
    net.hosts[1].stack.listen_as(PORT, listener);
    connect(&mut net);
    connect(&mut net);
    net.run(12 * MS);
    let counters = net.hosts[1].stack.counters();
    assert_eq!((counters.fast_opened, counters.fast_open_full), (1, 1));
    assert_eq!(counters.lost(Reason::RxTcpSynData), 1, "it goes again behind the answer");
    net.run(SECOND);
    assert!(net.hosts[1].apps.values().all(|app| app.received == 500), "the other one as usual");
}

/// The lengths of the packets that the client sends for a connection whose first is lost.
fn connect_with_loss(net: &mut Net) -> Vec<usize> {
    net.lose.push((0, net.sent[0]));
    net.log = Some(vec![]);
    connect(net);
    net.run(3 * SECOND);
    let sent = net.log.take().expect("it was set");
    sent.iter().filter(|(from, ..)| *from == 0).map(|(.., ip)| ip.len()).collect()
}

/// RFC 7413, section 4.1.3.1: where SYNs with data are dropped on the way, later connections do
/// not all wait for a timer; and it is tried again.
#[test]
fn a_path_that_swallows_syns_with_data_is_remembered() {
    let mut net = net(Options::default());
    connect(&mut net);
    net.run(100 * MS);
    for _ in 0..2 {
        assert!(connect_with_loss(&mut net)[0] > 500);
    }
    let server = net.hosts[1].address[0];
    assert!(!net.hosts[0].stack.may_connect_fast(server, net.now));
    assert_eq!(connect(&mut net).1, 0, "as usual");
    assert_eq!(net.hosts[0].stack.counters().fast_open_refused, 2);
    net.now += 240 * SECOND;
    assert!(net.hosts[0].stack.may_connect_fast(server, net.now));
    let (id, taken) = connect(&mut net);
    assert_eq!(taken, 500);
    net.run(22 * MS);
    assert!(net.hosts[0].stack.detail(id).expect("open").has_syn_data);
    // It worked: one loss is none of several in a row.
    assert!(connect_with_loss(&mut net)[0] > 500);
    assert_eq!(connect(&mut net).1, 500);
}

/// A server that nobody reaches for a time says nothing against fast open.
#[test]
fn a_server_that_was_away_is_opened_fast_as_before() {
    let mut net = net(Options::default());
    connect(&mut net);
    net.run(100 * MS);
    for _ in 0..4 {
        let next = net.sent[0];
        net.lose.extend((next..next + 100).map(|n| (0, n)));
        connect(&mut net);
        net.run(3 * SECOND);
    }
    assert_eq!(net.hosts[0].stack.counters().fast_open_refused, 0);
    assert_eq!(connect(&mut net).1, 500);
}

/// A server that gives no cookie and acknowledges the SYN alone does not want its data.
#[test]
fn a_server_that_leaves_the_data_is_asked_seldom() {
    let mut net = net(Options::default());
    connect(&mut net);
    net.run(100 * MS);
    net.hosts[1].stack.listen_as(PORT, Listener::default());
    for _ in 0..2 {
        assert_eq!(connect(&mut net).1, 500);
        net.run(100 * MS);
    }
    assert_eq!(connect(&mut net).1, 0);
    assert_eq!(net.hosts[1].stack.counters().lost(Reason::RxTcpSynData), 2);
}
