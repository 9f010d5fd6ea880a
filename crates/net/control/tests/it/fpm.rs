//! FRR's stream, over TCP.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use control::fpm::{Fpm, FrameError, Frames};
use control::{Mirror, Options, Origin};
use proptest::prelude::*;

use crate::messages::{Device, Fdb};

const HOLD_NS: i64 = 60_000_000_000;
const HOST: [u8; 6] = [2, 0, 0, 0, 1, 1];

fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() + 4) as u16;
    [&[1, 1][..], &length.to_be_bytes(), message].concat()
}

fn entry(host: u8, last: u8) -> Vec<u8> {
    let mac = [HOST[0], 0, 0, 0, 1, host];
    framed(&Fdb::to(7, mac, IpAddr::from([192, 0, 2, last])).added())
}

proptest! {
    #[test]
    fn frames_are_whole_however_the_stream_is_cut(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..9),
        cuts in prop::collection::vec(1usize..70, 1..99),
    ) {
        let stream: Vec<u8> = payloads.iter().flat_map(|payload| framed(payload)).collect();
        let (mut frames, mut got, mut rest) = (Frames::default(), vec![], &stream[..]);
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            frames.push(now, |payload| got.push(payload.to_vec())).unwrap();
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(got, payloads);
    }
}

#[test]
fn a_wrong_frame_ends_the_stream_and_says_why() {
    let push = |bytes: &[u8]| Frames::default().push(bytes, |_| {});
    assert_eq!(push(&[2, 1, 0, 4]), Err(FrameError::Version(2)));
    assert_eq!(push(&[1, 2, 0, 4]), Err(FrameError::LinkKind(2)));
    assert_eq!(push(&[1, 1, 0, 3]), Err(FrameError::Length(3)));
    assert_eq!(push(&[1, 1, 0]), Ok(()));
}

struct Rig {
    fpm: Fpm,
    mirror: Mirror,
}

impl Rig {
    fn new() -> Rig {
        let mut mirror = Mirror::new(Options { entries: Origin::Fpm, ..Options::default() });
        let kernel = mirror.begin(Origin::Kernel);
        let local = Some(IpAddr::from([192, 0, 2, 1]));
        let device = Device { index: 7, name: "vx", up: true, vxlan: Some((10, local, false)), mtu: 1450 };
        mirror.apply_bytes(kernel, &device.added());
        Rig { fpm: Fpm::listen(SocketAddr::from(([127, 0, 0, 1], 0)), HOLD_NS).unwrap(), mirror }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.fpm.address()).unwrap()
    }

    /// Turns until something is so.
    fn until(&mut self, now_ns: i64, what: &str, is_so: impl Fn(&Rig) -> bool) {
        let limit = Instant::now() + Duration::from_secs(20);
        while !is_so(self) {
            assert!(Instant::now() < limit, "waited in vain until {what}: {:?}", self.fpm.counters());
            self.fpm.turn(&mut self.mirror, now_ns, &mut |_, _| true);
        }
    }
}

#[test]
fn a_restarted_frr_tells_again_and_what_it_does_not_tell_is_swept_in_time() {
    let mut rig = Rig::new();
    let mut first = rig.connect();
    first.write_all(&[entry(1, 2), entry(2, 2)].concat()).unwrap();
    rig.until(0, "both entries came", |rig| rig.mirror.len() == 3);
    drop(first);
    rig.until(1, "the connection ended", |rig| rig.fpm.counters().ended == 1);
    assert_eq!((rig.mirror.len(), rig.fpm.deadline_ns()), (3, Some(HOLD_NS + 1)));
    let mut second = rig.connect();
    second.write_all(&entry(2, 3)).unwrap();
    let before = rig.mirror.counters().messages;
    rig.until(2, "the entry came again", |rig| rig.mirror.counters().messages > before);
    assert_eq!(rig.mirror.len(), 3, "the other one is used until the time is over");
    rig.until(HOLD_NS + 1, "it was swept", |rig| rig.fpm.counters().sweeps == 1);
    assert_eq!(rig.mirror.len(), 2);
    assert_eq!(rig.mirror.counters().swept, 1);
}

#[test]
fn a_client_that_reconnects_again_and_again_keeps_nothing_stale() {
    const STEPS: i64 = 10;
    let mut rig = Rig::new();
    let mut first = rig.connect();
    first.write_all(&[entry(1, 2), entry(2, 2)].concat()).unwrap();
    rig.until(0, "both entries came", |rig| rig.mirror.len() == 3);
    drop(first);
    rig.until(0, "the connection ended", |rig| rig.fpm.counters().ended == 1);
    for step in 1..=STEPS {
        assert_eq!(rig.mirror.len(), 3, "its time is not over yet");
        let now_ns = HOLD_NS / STEPS * step;
        let mut again = rig.connect();
        again.write_all(&entry(2, 3)).unwrap();
        drop(again);
        rig.until(now_ns, "one more ended", |rig| rig.fpm.counters().ended == 1 + step as u64);
    }
    assert_eq!((rig.mirror.len(), rig.fpm.counters().sweeps), (2, 1));
    // One that tells of nothing prolongs and sweeps nothing.
    drop(rig.connect());
    rig.until(HOLD_NS, "it ended", |rig| rig.fpm.counters().ended == 2 + STEPS as u64);
    assert_eq!(rig.fpm.deadline_ns(), Some(HOLD_NS / STEPS + HOLD_NS));
    rig.until(2 * HOLD_NS, "the rest was swept", |rig| rig.fpm.deadline_ns().is_none());
    assert_eq!(rig.mirror.len(), 1);
}

#[test]
fn ended_connections_are_bounded() {
    let mut rig = Rig::new();
    for count in 1..=70 {
        let mut client = rig.connect();
        client.write_all(&entry(1 + count, 2)).unwrap();
        drop(client);
        rig.until(0, "it ended", |rig| rig.fpm.counters().ended == u64::from(count));
    }
    assert_eq!((rig.mirror.len(), rig.fpm.counters().sweeps), (1 + 64, 6), "the oldest were swept");
}

#[test]
fn two_connections_tell_each_of_its_own() {
    let mut rig = Rig::new();
    let (mut one, mut other) = (rig.connect(), rig.connect());
    one.write_all(&entry(1, 2)).unwrap();
    other.write_all(&entry(2, 2)).unwrap();
    rig.until(0, "both entries came", |rig| rig.mirror.len() == 3);
    drop(one);
    rig.until(0, "one ended", |rig| rig.fpm.counters().ended == 1);
    rig.until(HOLD_NS, "its entry was swept", |rig| rig.fpm.counters().sweeps == 1);
    assert_eq!((rig.mirror.len(), rig.fpm.connections()), (2, 1));
}

#[test]
fn strangers_nonsense_and_crowds_are_refused() {
    let mut rig = Rig::new();
    let _stranger = rig.connect();
    let limit = Instant::now() + Duration::from_secs(20);
    while rig.fpm.counters().refused == 0 {
        assert!(Instant::now() < limit, "waited in vain for the stranger");
        rig.fpm.turn(&mut rig.mirror, 0, &mut |_, _| false);
    }
    let mut nonsense = rig.connect();
    nonsense.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    rig.until(0, "nonsense was closed", |rig| rig.fpm.counters().wrong_frames == 1);
    assert_eq!(rig.fpm.last_wrong(), Some(FrameError::Version(b'G')));
    // Those that send nothing give way to others, and those that do to none.
    let crowd: Vec<TcpStream> = (0..6).map(|_| rig.connect()).collect();
    rig.until(0, "two were replaced", |rig| rig.fpm.counters().replaced == 2);
    assert_eq!((rig.fpm.connections(), rig.fpm.counters().refused), (crowd.len() - 2, 1));
    let mut connections: Vec<TcpStream> = (1..=4).map(|_| rig.connect()).collect();
    for (host, connection) in (1..).zip(&mut connections) {
        connection.write_all(&entry(host, 2)).unwrap();
    }
    rig.until(0, "four told of an entry", |rig| rig.mirror.len() == 5);
    let _one_more = rig.connect();
    rig.until(0, "it was refused", |rig| rig.fpm.counters().refused == 2);
    assert_eq!((rig.fpm.connections(), rig.mirror.len()), (4, 5));
}

/// A frame of which the rest never comes, or one with nothing in it, keeps no place from FRR.
#[test]
fn who_sends_half_a_frame_or_empty_ones_gives_way() {
    let mut rig = Rig::new();
    let half = entry(1, 2);
    let parts = [&half[..1], &half[..3], &half[..half.len() - 1], &framed(&[])];
    let mut crowd: Vec<TcpStream> = parts.iter().map(|_| rig.connect()).collect();
    for (client, part) in crowd.iter_mut().zip(parts) {
        client.write_all(part).unwrap();
    }
    rig.until(0, "all are there", |rig| rig.fpm.connections() == parts.len());
    // While a part waits to be read nobody gives way: FRR comes again, as it does.
    let (mut zebra, mut refused) = (None, 0);
    let limit = Instant::now() + Duration::from_secs(20);
    while rig.mirror.len() < 2 {
        assert!(Instant::now() < limit, "waited in vain for a place: {:?}", rig.fpm.counters());
        let counted = rig.fpm.counters().refused;
        if zebra.is_none() || counted > refused {
            let mut again = rig.connect();
            again.write_all(&entry(2, 2)).unwrap();
            (zebra, refused) = (Some(again), counted);
        }
        rig.fpm.turn(&mut rig.mirror, 0, &mut |_, _| true);
    }
    assert_eq!((rig.fpm.connections(), rig.fpm.counters().replaced), (parts.len(), 1));
}

/// Of a message whose bytes are wrong, in a frame that is right, FRR's side tells.
#[test]
fn messages_that_cannot_be_read_are_counted_where_they_came() {
    let mut rig = Rig::new();
    let mut zebra = rig.connect();
    let mut wrong = entry(1, 2)[4..].to_vec();
    wrong.truncate(20);
    wrong[..4].copy_from_slice(&20u32.to_ne_bytes());
    zebra.write_all(&[entry(1, 2), framed(&wrong)].concat()).unwrap();
    rig.until(0, "both came", |rig| rig.fpm.counters().malformed == 1);
    let (told, all) = (rig.fpm.counters(), rig.mirror.counters());
    assert_eq!((told.messages, all.messages - told.messages, all.malformed), (1, 1, 1));
}
