mod spec;

use std::sync::Arc;

use model::{FrameError, MAX_FRAME, Wire};
use proptest::prelude::*;
use wire::ip::Protocol;
use wire::{ipv4, udp};

use super::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn cables(texts: &[&str]) -> Vec<Cable> {
    let plugs: Vec<Plug> = texts.iter().map(|text| Plug { spec: text.parse().unwrap(), mac: MAC }).collect();
    plug(&plugs, &Arc::default()).unwrap()
}

fn cable(text: &str) -> Cable {
    cables(&[text]).pop().unwrap()
}

fn burst(cable: &mut Cable, max: usize) -> Vec<Vec<u8>> {
    let (mut frames, mut scratch) = (Vec::new(), vec![0; MAX_FRAME]);
    let given = cable.receive_burst(&mut scratch, max, &mut |frame, _| frames.push(frame.to_vec()));
    assert_eq!(given, frames.len());
    frames
}

fn balanced(cable: &Cable) -> WireStats {
    let stats = cable.stats();
    assert!(stats.to_host.balances() && stats.from_host.balances(), "{stats:#?}");
    stats
}

/// Carries what `from` gives to `to`, as a forwarder would.
fn forward(from: &mut Cable, to: &mut Cable, count: usize) {
    for frame in burst(from, count) {
        to.transmit(&frame);
    }
}

#[test]
fn generated_frames_pass_the_check_in_all_sizes_and_flows() {
    for text in
        ["gen", "gen:size=65", "gen:size=imix,flows=7", "gen:size=64-1518,flows=100", "gen:size=9018,flows=3"]
    {
        let mut both = cables(&[text, "sink:check"]);
        let [from, to] = &mut both[..] else { unreachable!() };
        forward(from, to, 5_000);
        let check = balanced(to).check.unwrap();
        let clean =
            CheckStats { received: 5_000, generators: check.generators.clone(), ..CheckStats::default() };
        assert_eq!(check, clean, "{text}");
        from.advance(1);
        assert_eq!(to.stats().check.unwrap().generators[0].sent, 5_000);
        balanced(from);
    }
}

/// The sink's own reading of headers and checksums, as the views of `wire` have it.
#[test]
fn the_check_is_a_second_witness_to_the_views() {
    let right = |packet: &[u8]| {
        let Ok(packet) = ipv4::Packet::new_checked(packet) else { return false };
        let like_ours = packet.header_len() == ipv4::HEADER_LEN && packet.protocol() == Protocol::UDP;
        let datagram = udp::Datagram::new_unchecked(packet.payload());
        like_ours
            && packet.verify_checksum()
            && datagram.total_len() == packet.payload().len()
            && datagram.checksum() != 0
            && datagram.verify_checksum(packet.addresses())
    };
    let mut refused = 0;
    for frame in burst(&mut cable("gen:size=64-300,flows=7"), 240) {
        let packet = &frame[wire::ethernet::HEADER_LEN..];
        assert!(right(packet) && super::check::checksums_hold(packet));
        // Lengths are left alone: which of two that disagree holds is another matter.
        let fields = [0, 8, 9, 10, 11, 12, 19, 20, 23, 26, 27, 28, packet.len() - 1];
        for (at, bit) in fields.into_iter().flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut changed = packet.to_vec();
            changed[at] ^= 1 << bit;
            assert_eq!(super::check::checksums_hold(&changed), right(&changed), "byte {at}, bit {bit}");
            refused += usize::from(!right(&changed));
        }
    }
    assert_eq!(refused, 240 * 13 * 8);
}

#[test]
fn sizes_are_those_on_the_wire() {
    let lens = |text: &str, count| burst(&mut cable(text), count).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lens("gen:size=64", 2), [60, 60]);
    assert_eq!(lens("gen:size=imix", 12).iter().filter(|&&len| len == 1514).count(), 1);
    let range = lens("gen:size=64-1518", 64);
    assert_eq!((range[0], range[63]), (60, 1514));
}

#[test]
fn flows_differ_in_address_and_port_and_go_to_the_device() {
    let frames = burst(&mut cable("gen:flows=300"), 300);
    let tuples: std::collections::HashSet<_> = frames.iter().map(|frame| frame[26..38].to_vec()).collect();
    assert_eq!(tuples.len(), 300);
    assert!(frames.iter().all(|frame| frame[..6] == MAC));
    assert_eq!(burst(&mut cable("gen:dst=ff:ff:ff:ff:ff:ff"), 1)[0][..6], [0xFF; 6]);
}

#[test]
fn the_check_tells_loss_duplicates_reordering_and_corruption() {
    let mut frames = burst(&mut cable("gen"), 100);
    frames.remove(10);
    frames.swap(20, 22);
    frames.insert(30, frames[25].clone());
    frames[40][59] ^= 1;
    frames[41][30] ^= 1;
    frames.push(vec![0; 60]);
    let mut sink = cable("sink:check");
    frames.iter().for_each(|frame| sink.transmit(frame));
    let check = sink.stats().check.unwrap();
    assert_eq!((check.received, check.missing), (97, 3));
    assert_eq!((check.duplicated, check.reordered, check.corrupt, check.foreign), (1, 2, 2, 1));
}

#[test]
fn a_check_of_tags_does_not_look_at_checksums() {
    let mut frame = burst(&mut cable("gen"), 1).pop().unwrap();
    frame[41] ^= 1;
    let mut sink = cable("sink:check=tag");
    sink.transmit(&frame);
    assert_eq!(sink.stats().check.unwrap().received, 1);
}

#[test]
fn a_tagged_frame_is_still_ours() {
    let mut frame = burst(&mut cable("gen"), 1).pop().unwrap();
    frame.splice(12..12, [0x81, 0, 0, 5]);
    let mut sink = cable("sink:check");
    sink.transmit(&frame);
    assert_eq!(sink.stats().check.unwrap().received, 1);
}

#[test]
fn two_generators_are_told_apart() {
    let mut both = cables(&["gen+sink:check", "gen+sink:check"]);
    let [a, b] = &mut both[..] else { unreachable!() };
    forward(a, b, 30);
    forward(b, a, 20);
    a.advance(1);
    b.advance(1);
    let got = |cable: &Cable| {
        let check = cable.stats().check.unwrap();
        check.generators.iter().map(|it| (it.generator, it.sent, it.received)).collect::<Vec<_>>()
    };
    assert_eq!((got(b), got(a)), (vec![(0, 30, 30)], vec![(1, 20, 20)]));
}

#[test]
fn a_count_ends_the_source_and_so_does_stop() {
    let mut gen_count = cable("gen:count=5");
    assert_eq!(burst(&mut gen_count, 64).len(), 5);
    assert!(gen_count.is_source_done() && burst(&mut gen_count, 64).is_empty());
    let mut stopped = cable("gen");
    stopped.stop_source();
    assert!(burst(&mut stopped, 64).is_empty());
}

#[test]
fn a_rate_is_kept_and_not_patient() {
    let mut paced = cable("gen:rate=1M");
    assert!(!paced.has_backpressure() && cable("gen").has_backpressure());
    paced.advance(0);
    assert!(burst(&mut paced, 64).is_empty());
    paced.advance(10_000);
    assert_eq!(burst(&mut paced, 64).len(), 10);
}

#[test]
fn a_loop_gives_back_and_counts_what_it_has_no_room_for() {
    let mut wire = cable("loop");
    (0..5_000_u32).for_each(|n| wire.transmit(&[n as u8; 60]));
    let stats = balanced(&wire);
    assert_eq!((stats.from_host.lost["loop full"], stats.from_host.waiting), (904, 4096));
    assert_eq!(burst(&mut wire, 5_000).len(), 4096);
    assert_eq!(balanced(&wire).to_host.delivered, 4096);
}

#[test]
fn a_pair_carries_both_ways_and_counts_what_it_loses() {
    let mut both = cables(&["pair", "pair"]);
    let [a, b] = &mut both[..] else { unreachable!() };
    (0..100).for_each(|n| a.transmit(&[n; 64]));
    b.transmit(&[7; 99]);
    a.advance(1);
    b.advance(1);
    assert_eq!(burst(b, 200), (0..100).map(|n| vec![n; 64]).collect::<Vec<_>>());
    assert_eq!(burst(a, 200), [vec![7; 99]]);
    (0..10_000).for_each(|_| a.transmit(&[1; 60]));
    a.advance(2);
    let (sent, received) = (balanced(a).from_host, balanced(b).to_host);
    assert!(sent.lost["peer's queue full"] > 0);
    assert_eq!(sent.delivered, received.offered);
}

#[test]
fn short_frames_are_padded_as_a_mac_does() {
    for other in ["pair", "pair+fault:duplicate=0.0001,seed=1"] {
        let mut both = cables(&["pair", other]);
        both[0].transmit(&[1; 14]);
        both[0].advance(1);
        let frames = burst(&mut both[1], 1);
        assert_eq!((frames[0].len(), frames[0][13], frames[0][14]), (60, 1, 0), "{other}");
    }
}

#[test]
fn what_is_recorded_can_be_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a+b.pcapng");
    let text = format!("gen:count=50+record:{}+sink:check", file.display());
    let mut wire = cable(&text);
    wire.advance(5);
    let frames = burst(&mut wire, 64);
    wire.transmit(&frames[0]);
    wire.flush();
    let mut again = cable(&format!("pcap:{}", file.display()));
    let mut expected = frames.clone();
    expected.push(frames[0].clone());
    assert_eq!(burst(&mut again, 100), expected);
    assert!(again.is_source_done());
    let mut repeated = cable(&format!("pcap:{},loop", file.display()));
    assert_eq!(burst(&mut repeated, 200).len(), 200);
}

#[test]
fn a_capture_with_a_rate_begins_when_its_first_packet_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.pcapng");
    let mut wire = cable(&format!("gen:count=30+record:{}", file.display()));
    let frames = burst(&mut wire, 64);
    wire.flush();
    let mut paced = cable(&format!("pcap:{},rate=1M", file.display()));
    for second in 1..=3 {
        paced.advance(second * 1_000_000_000);
        assert!(paced.has_backpressure() && burst(&mut paced, 0).is_empty(), "nobody has taken one");
    }
    let mut got = burst(&mut paced, 64);
    assert_eq!(got.len(), 1);
    assert!(burst(&mut paced, 64).is_empty() && paced.has_backpressure(), "in the same turn");
    paced.advance(4_000_000_000);
    assert!(paced.has_backpressure(), "it may wait still");
    assert!(burst(&mut paced, 64).is_empty() && !paced.has_backpressure());
    for (at_us, more) in [(0, 0), (10, 10), (19, 9), (1_000, 10)] {
        paced.advance(5_000_000_000 + at_us * 1_000);
        let some = burst(&mut paced, 64);
        assert_eq!(some.len(), more, "{at_us}");
        got.extend(some);
    }
    assert!(got == frames && paced.is_source_done());
}

#[test]
fn a_recorder_stops_at_its_limit_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out.pcapng");
    let mut wire = cable(&format!("record:{},limit=2", file.display()));
    (0..5).for_each(|_| wire.transmit(&[0; 60]));
    wire.flush();
    assert_eq!(wire.stats().not_recorded.over_limit, 3);
    assert_eq!(burst(&mut cable(&format!("pcap:{}", file.display())), 9).len(), 2);
}

#[test]
fn a_capture_that_is_none_is_an_error_with_its_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"no capture at all").unwrap();
    let spec: Spec = format!("pcap:{}", file.path().display()).parse().unwrap();
    let error = Cable::open(&spec).unwrap_err().to_string();
    assert!(error.contains(&*file.path().to_string_lossy()) && error.contains("neither pcap"), "{error}");
}

#[test]
fn datagrams_cross_and_losses_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut a = cable(&format!("unix:{},remote={}", path("a"), path("b")));
    a.transmit(&[1; 60]);
    assert_eq!(balanced(&a).from_host.lost["no peer"], 1);
    let mut b = cable(&format!("unix:{}", path("b")));
    b.transmit(&[1; 60]);
    assert_eq!(balanced(&b).from_host.lost["no peer"], 1, "nobody to answer yet");
    a.transmit(&[2; 99]);
    assert_eq!(burst(&mut b, 9), [vec![2; 99]]);
    b.transmit(&[3; 70]);
    assert_eq!(burst(&mut a, 9), [vec![3; 70]]);
    for _ in 0..100_000 {
        a.transmit(&[4; 60]);
    }
    assert!(balanced(&a).from_host.lost["peer too slow"] > 0);
    drop((a, b));
    assert!(!std::path::Path::new(&path("a")).exists());
}

/// Many more frames at once than the socket keeps: all arrive, in order, when the peer reads.
#[test]
fn what_a_socket_refuses_waits_for_it() {
    const COUNT: u32 = 5_000;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut a = cable(&format!("unix:{},remote={}", path("a"), path("b")));
    let mut b = cable(&format!("unix:{}", path("b")));
    for n in 0..COUNT {
        let mut frame = [0; 60];
        frame[..4].copy_from_slice(&n.to_be_bytes());
        a.transmit(&frame);
    }
    let sent = balanced(&a).from_host;
    assert!(sent.waiting > 4_000 && sent.lost.is_empty() && !a.takes_frames(), "{sent:?}");
    let mut got = Vec::new();
    for now_ns in (0..COUNT).map(|n| u64::from(n) * 100_000) {
        a.advance(now_ns);
        b.advance(now_ns);
        got.extend(burst(&mut b, 64).iter().map(|frame| u32::from_be_bytes(frame[..4].try_into().unwrap())));
    }
    assert!(got.iter().copied().eq(0..COUNT), "{} came: {got:?}", got.len());
    let sent = balanced(&a).from_host;
    assert_eq!((sent.delivered, sent.waiting, sent.bytes), (COUNT.into(), 0, 60 * u64::from(COUNT)));
    assert!(a.takes_frames());
}

/// A peer that reads nothing pauses a device for a second, and no longer; each frame is accounted for.
#[test]
fn a_peer_that_never_reads_costs_named_frames() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut a = cable(&format!("unix:{},remote={}", path("a"), path("b")));
    let mut b = cable(&format!("unix:{}", path("b")));
    (0..500).for_each(|_| a.transmit(&[1; 60]));
    a.advance(999_999_999);
    assert!(!a.takes_frames() && balanced(&a).from_host.lost.is_empty());
    a.advance(1_000_000_000);
    assert!(a.takes_frames(), "it waits no longer");
    (0..500).for_each(|_| a.transmit(&[2; 60]));
    let sent = balanced(&a).from_host;
    assert_eq!((sent.offered, sent.waiting), (1000, 0));
    assert_eq!(sent.lost["peer too slow"], 1000 - sent.delivered);
    assert_eq!(a.stats().losses().collect::<Vec<_>>(), [(port::Reason::TxWireFull, 1000 - sent.delivered)]);
    assert_eq!(burst(&mut b, 1000).len() as u64, sent.delivered, "sent = received + lost");
    (0..50).for_each(|_| a.transmit(&[3; 60]));
    let sent = balanced(&a).from_host;
    assert!(sent.waiting > 0 && sent.lost["peer too slow"] == 1000 - (sent.delivered + sent.waiting - 50));
    drop(b);
    a.advance(1_000_000_001);
    assert!(a.takes_frames() && balanced(&a).from_host.lost["no peer"] > 0);
}

#[test]
fn a_socket_left_behind_is_replaced_and_a_used_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    drop(std::os::unix::net::UnixDatagram::bind(&path).unwrap());
    let spec: Spec = format!("unix:{}", path.display()).parse().unwrap();
    let first = Cable::open(&spec).unwrap();
    assert!(Cable::open(&spec).unwrap_err().to_string().contains("another process has it"));
    drop(first);
}

#[test]
fn a_path_that_no_socket_can_have_is_refused_by_its_length() {
    let long = format!("/tmp/{}", "x".repeat(116));
    for spec in [format!("unix:{long}"), format!("unix:/tmp/ixora-short,remote={long}")] {
        let said = Cable::open(&spec.parse().unwrap()).unwrap_err().to_string();
        assert!(said.contains("at most 107 bytes, this one has 121: choose a shorter one"), "{said}");
    }
}

/// Set inside of a network of our own, where the interface is nobody else's.
const INSIDE: &str = "IXORA_TEST_NETWORK";

/// Runs once more, as root in a network of its own. Without root it is passed
/// over; where everything must run (`CI=true`) that is a failure.
#[test]
fn a_tap_carries_frames_while_it_is_up() {
    if std::env::var_os(INSIDE).is_some() {
        return carry_frames_over_a_tap();
    }
    let must = std::env::var("CI").is_ok_and(|ci| ci == "true");
    if !rustix::process::geteuid().is_root() {
        assert!(!must, "CI=true, but a TAP interface needs root");
        println!("passed over: a TAP interface needs root");
        return;
    }
    let mut again = std::process::Command::new("unshare");
    again.arg("-n").arg(std::env::current_exe().unwrap()).env(INSIDE, "1");
    let name = "wire::tests::a_tap_carries_frames_while_it_is_up";
    let done = again.args(["--exact", name, "--nocapture"]).output().expect("unshare runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}{done:#?}");
}

fn carry_frames_over_a_tap() {
    let mut wire = cable("tap:ixora0");
    let run = |program: &str, arguments: &[&str]| {
        assert!(std::process::Command::new(program).args(arguments).status().unwrap().success());
    };
    wire.transmit(&[0xFF; 60]);
    assert_eq!(balanced(&wire).from_host.delivered, 1, "the wire turns it on");
    run("ip", &["link", "set", "ixora0", "down"]);
    wire.transmit(&[0xFF; 60]);
    assert_eq!(balanced(&wire).from_host.lost["interface down"], 1);
    run("ip", &["link", "set", "ixora0", "up"]);
    run("ip", &["address", "add", "10.9.9.1/24", "dev", "ixora0"]);
    wire.transmit(&[0xFF; 60]);
    assert_eq!(balanced(&wire).from_host.delivered, 2);
    // The kernel asks who 10.9.9.2 is.
    std::net::UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", "10.9.9.2:9").unwrap();
    let got = (0..100).any(|round| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        wire.advance(round * 1_000_000);
        burst(&mut wire, 1).iter().any(|frame| frame[12..14] == [0x08, 0x06])
    });
    assert!(got, "the kernel sent nothing");
}
