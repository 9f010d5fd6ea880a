//! Times at which messages of PTP came to our XL710 driver: they are the model's, in the system's time.
//! The device keeps four of them until they are read, and may tell nonsense.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::between::{Between, in_front_of};
use crate::common::frames::{self, Sums, payload, tagged};
use crate::common::i40e::{Bench, devices, on};
use crate::common::{contents, run_until_idle};
use memory::{DATA_ROOM, Packet, TxOffload};
use port::{Feature, Options, Port as _, Support};
use regs::i40e::*;
use testbed::i40e::DEVICE_X722;
use wire::ptp;

/// By how much a stamp may be off: by half of what reading a register takes a busy machine.
const OFF_NS: i64 = 50_000_000;
const BEFORE_POLL: Duration = Duration::from_millis(200);

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

fn asked() -> Options {
    Options { timestamps: true, ..Options::default() }
}

fn stamp(packet: &Packet) -> i64 {
    packet.annotations().timestamp_ns
}

/// A message of PTP in a frame of its own.
fn message(kind: u8) -> Vec<u8> {
    frames::ethernet(frames::TO, 0x88F7, &[&[kind, ptp::VERSION][..], &payload(42)].concat())
}

/// Likewise over UDP, without a checksum.
fn datagram(kind: u8) -> Vec<u8> {
    let mut frame = frames::udp4(&[&[kind, ptp::VERSION][..], &payload(42)].concat(), Sums::Full);
    frame[36..38].copy_from_slice(&ptp::EVENT_PORT.to_be_bytes());
    frame[40..42].fill(0);
    frame
}

/// Sends frames at once, and receives them; with the times before and after they came.
fn cross(bench: &mut Bench, frames: &[Vec<u8>]) -> (Vec<Packet>, i64, i64) {
    let before = now_ns();
    frames.iter().for_each(|frame| bench.send(0, frame, TxOffload::default()));
    run_until_idle(&bench.handles);
    let after = now_ns();
    let packets = bench.recv(1);
    assert!(packets.iter().map(contents).eq(frames.iter().cloned()));
    (packets, before - OFF_NS, after + OFF_NS)
}

#[test]
pub fn a_message_has_the_time_at_which_it_came_and_other_frames_none() {
    let mut bench = Bench::pair(&Options { max_frame: 9000, ..asked() });
    let can = bench.sides[1].device.capabilities();
    assert_eq!(can.support(Feature::PtpTimestamps), Support::On);
    assert_eq!(can.support(Feature::Timestamps), Support::No, "not of each frame");
    let frames = [
        message(ptp::SYNC),
        frames::udp4(&payload(100), Sums::Full),
        tagged(&message(ptp::DELAY_REQ), 7),
        message(ptp::FOLLOW_UP),
        datagram(ptp::SYNC),
        frames::udp4(&payload(DATA_ROOM + 100), Sums::Full),
    ];
    for _ in 0..3 {
        let (first, second) = (now_ns(), &frames);
        second.iter().for_each(|frame| bench.send(0, frame, TxOffload::default()));
        run_until_idle(&bench.handles);
        let came = now_ns();
        std::thread::sleep(BEFORE_POLL); // the clock is read anew, too
        let packets = bench.recv(1);
        assert!(packets.iter().map(contents).eq(frames.iter().cloned()));
        let stamped = [true, false, true, false, true, false];
        for (n, (packet, stamped)) in packets.iter().zip(stamped).enumerate() {
            let stamp = stamp(packet);
            let is_right = (first - OFF_NS..=came + OFF_NS).contains(&stamp);
            assert!(if stamped { is_right } else { stamp == 0 }, "frame {n}: {stamp} {first}");
        }
    }
    bench.finish();
}

#[test]
fn an_x722_stamps_likewise() {
    on(DEVICE_X722, a_message_has_the_time_at_which_it_came_and_other_frames_none);
}

#[test]
fn times_are_as_far_apart_as_the_devices() {
    let mut bench = Bench::pair(&asked());
    let mut now = 3_600_000_000_000;
    for apart in [0, 32, 1_000_000, 90_000_000] {
        now += apart;
        bench.send(0, &message(ptp::SYNC), TxOffload::default());
        // A frame is on the cable with the step that sends it, and off it with the next one.
        for _ in 0..2 {
            bench.handles.iter().for_each(|handle| _ = handle.step(now));
        }
    }
    let packets = bench.recv(1);
    let apart: Vec<i64> = packets.windows(2).map(|two| stamp(&two[1]) - stamp(&two[0])).collect();
    // A tick adds less than 1.6 ns, by less than a billionth.
    assert!(
        apart.iter().zip([32, 1_000_000, 90_000_000]).all(|(is, of)| (of - 1..=of).contains(is)),
        "{apart:?}"
    );
    drop(packets);
    bench.finish();
}

#[test]
fn four_messages_have_their_times_and_a_fifth_that_comes_with_them_none() {
    let mut bench = Bench::pair(&asked());
    for round in 0..3 {
        let (packets, from, to) = cross(&mut bench, &vec![message(ptp::SYNC); 6]);
        let stamped: Vec<bool> = packets.iter().map(|packet| (from..=to).contains(&stamp(packet))).collect();
        assert_eq!(stamped, [true, true, true, true, false, false], "{round}");
        assert!(packets[4..].iter().all(|packet| stamp(packet) == 0));
    }
    bench.finish();
}

#[test]
fn places_of_messages_that_were_not_received_are_given_free() {
    let mut bench = Bench::pair(&Options { promiscuous: false, ..asked() });
    let mut lost = message(ptp::SYNC);
    lost[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    for _ in 0..4 {
        bench.send(0, &lost, TxOffload::default());
    }
    run_until_idle(&bench.handles);
    assert!(bench.recv(1).is_empty(), "its filters do not want them");
    assert_eq!(stamp(&cross(&mut bench, &[message(ptp::SYNC)]).0[0]), 0, "all places are taken");
    let mut tries = 0;
    while stamp(&cross(&mut bench, &[message(ptp::SYNC)]).0[0]) == 0 {
        std::thread::sleep(Duration::from_millis(100));
        tries += 1;
        assert!(tries < 600, "they stay taken");
    }
    bench.finish();
}

#[test]
fn a_port_that_was_not_asked_stamps_nothing_and_reads_no_clock() {
    let mut bench = Bench::pair(&Options::default());
    assert_eq!(bench.sides[1].device.capabilities().support(Feature::PtpTimestamps), Support::Off);
    let (packets, ..) = cross(&mut bench, &vec![message(ptp::SYNC); 6]);
    assert!(packets.iter().all(|packet| stamp(packet) == 0));
    drop(packets);
    bench.finish();
}

/// What a device says of its clock and of what it keeps, instead of what is there.
#[derive(Debug, Default)]
struct Liar {
    /// What PRTTSYN_STAT_1 says, where it says something else.
    taken: Option<u32>,
    /// The upper halves of times that are kept, from each reading to the next.
    kept: Option<[u32; 4]>,
    /// The upper halves of the clock.
    clock: Option<[u32; 4]>,
    /// What PRTTSYN_CTL0 reads as.
    control: Option<u32>,
    reads: AtomicU32,
}

impl Between for Liar {
    fn read_bar(&self, inner: &bus::Pci, index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        inner.read_bar(index, offset, data)?;
        let next = |words: [u32; 4]| words[self.reads.fetch_add(1, Relaxed) as usize % words.len()];
        let kept = (0..RX_TIMES).any(|n| offset == PRTTSYN_RXTIME_H::at(n));
        let told = match (index, offset) {
            (0, PRTTSYN_STAT_1::AT) => self.taken,
            (0, PRTTSYN_CTL0::AT) => self.control,
            (0, PRTTSYN_TIME_H::AT) => self.clock.map(next),
            (0, _) if kept => self.kept.map(next),
            _ => None,
        };
        told.into_iter().for_each(|told| data.copy_from_slice(&told.to_le_bytes()));
        Ok(())
    }
}

/// Stamps of messages that came while a device lied so.
fn stamps(liar: Liar) -> (Support, Vec<i64>) {
    let (pcis, handles) = devices(&["pair"; 2]);
    let liar = Arc::new(liar);
    let pcis = vec![pcis[0].clone(), in_front_of(pcis[1].clone(), liar)];
    let mut bench = Bench::over((pcis, handles), &asked());
    let support = bench.sides[1].device.capabilities().support(Feature::PtpTimestamps);
    let mut stamps = Vec::new();
    for _ in 0..8 {
        let (packets, ..) = cross(&mut bench, &[message(ptp::SYNC)]);
        stamps.extend(packets.iter().map(stamp));
    }
    bench.finish();
    (support, stamps)
}

#[test]
fn a_descriptor_that_names_a_place_without_a_time_gives_none() {
    assert_eq!(stamps(Liar { taken: Some(0), ..Liar::default() }), (Support::On, vec![0; 8]));
}

#[test]
fn times_and_clocks_that_go_back_or_are_none_lose_no_frame() {
    for words in [[0; 4], [u32::MAX; 4], [9, 0, u32::MAX >> 1, 3], [1 << 29, 1, 1 << 28, 0]] {
        for liar in [
            Liar { kept: Some(words), ..Liar::default() },
            Liar { clock: Some(words), ..Liar::default() },
            Liar { kept: Some(words), clock: Some(words), ..Liar::default() },
        ] {
            let (_, stamps) = stamps(liar);
            assert!(stamps.iter().all(|stamp| *stamp >= 0), "{words:x?}: {stamps:?}");
        }
    }
    let none = stamps(Liar { clock: Some([u32::MAX; 4]), ..Liar::default() });
    assert_eq!(none, (Support::On, vec![0; 8]), "no time at all");
}

#[test]
fn a_function_that_the_clock_is_not_given_to_stamps_nothing() {
    let control = PRTTSYN_CTL0::PF_ID_MASK;
    let told = stamps(Liar { control: Some(control), ..Liar::default() });
    assert_eq!(told, (Support::No, vec![0; 8]));
}
