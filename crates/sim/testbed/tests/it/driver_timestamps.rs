//! Timestamps of an X550: they are the model's, in the system's time, and nothing of them stays in
//! the frame.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::frames::{self, Sums, payload, tagged};
use crate::common::{Bench, contents, devices, devices_of};
use bus::Pci;
use memory::{Checksum, DATA_ROOM, Packet, TxOffload};
use port::{Feature, Options, Port as _, RxQueue as _, Support, TxQueue as _};
use testbed::inprocess::Handle;
use testbed::ixgbe::DEVICE_X550;

/// By how much a stamp may be off: by half of what reading a register takes a busy machine, and not
/// by what lies between a frame and the poll for it.
const OFF_NS: i64 = 50_000_000;
const BEFORE_POLL: Duration = Duration::from_millis(200);

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

fn x550s() -> (Vec<Pci>, Vec<Handle>) {
    devices_of(&["pair"; 2], DEVICE_X550)
}

fn stamped() -> Options {
    Options { timestamps: true, ..Options::default() }
}

fn stamp(packet: &Packet) -> i64 {
    packet.annotations().timestamp_ns
}

#[test]
fn a_frame_has_the_time_at_which_it_came_and_not_that_of_the_poll() {
    let mut bench = Bench::over(x550s(), &stamped(), 1024);
    assert_eq!(bench.sides[1].device.capabilities().support(Feature::Timestamps), Support::On);
    let frame = frames::udp4(&payload(100), Sums::Full);
    for _ in 0..2 {
        let sent = now_ns();
        bench.send(0, &frame, TxOffload::default());
        bench.run_until_idle();
        let came = now_ns();
        std::thread::sleep(BEFORE_POLL); // the clock is read anew, too
        let [packet] = &bench.recv(1)[..] else { panic!("one frame, one packet") };
        assert_eq!(contents(packet), frame);
        assert!((sent - OFF_NS..=came + OFF_NS).contains(&stamp(packet)), "{} {sent}", stamp(packet));
    }
    bench.finish();
}

#[test]
fn times_are_as_far_apart_as_the_devices() {
    let mut bench = Bench::over(x550s(), &stamped(), 1024);
    let mut now = 3_600_000_000_000;
    for apart in [0, 25, 1_000_000, 90_000_000] {
        now += apart;
        bench.send(0, &frames::udp4(&payload(100), Sums::Full), TxOffload::default());
        // A frame is on the cable with the step that sends it, and off it with the next one.
        for _ in 0..2 {
            bench.handles.iter().for_each(|handle| _ = handle.step(now));
        }
    }
    let packets = bench.recv(1);
    let apart: Vec<i64> = packets.windows(2).map(|two| stamp(&two[1]) - stamp(&two[0])).collect();
    assert_eq!(apart, [25, 1_000_000, 90_000_000]);
    drop(packets);
    bench.finish();
}

#[test]
fn timestamps_are_cut_off_wherever_the_buffers_end() {
    let options = Options { max_frame: 9000, ..stamped() };
    let mut bench = Bench::over(x550s(), &options, 4096);
    let ends =
        [DATA_ROOM - 8, DATA_ROOM - 7, DATA_ROOM - 1, DATA_ROOM, DATA_ROOM + 1, 2 * DATA_ROOM - 3, 9000];
    for len in [60, 1514].into_iter().chain(ends) {
        let frame = frames::udp4(&payload(len - 42), Sums::Full);
        let frame = &frame[..len];
        let sent = now_ns();
        let packets = bench.cross(frame, TxOffload::default());
        let [packet] = &packets[..] else { panic!("{len} bytes: {} packets", packets.len()) };
        assert_eq!(contents(packet), frame);
        assert_eq!((packet.total_len(), packet.segments().count()), (len, len.div_ceil(DATA_ROOM)));
        assert_eq!(packet.l4_checksum(), Checksum::Good);
        assert!((sent - OFF_NS..=now_ns() + OFF_NS).contains(&stamp(packet)), "{len}");
    }
    let (rx, tx) = (bench.sides[1].rx[0].stats(), bench.sides[0].tx[0].stats());
    assert_eq!((rx.packets, rx.bytes, rx.bad_descriptor), (tx.packets, tx.bytes, 0));
    bench.finish();
}

#[test]
fn frames_of_each_priority_have_their_times() {
    let mut bench = Bench::over(x550s(), &Options { vlan_strip: true, ..stamped() }, 1024);
    let frame = frames::udp4(&payload(100), Sums::Full);
    for priority in 0..8 {
        let (tag, sent) = (priority << 13 | 77, now_ns());
        let packets = bench.cross(&tagged(&frame, tag), TxOffload::default());
        assert_eq!((contents(&packets[0]), packets[0].vlan()), (frame.clone(), Some(tag)));
        assert!(stamp(&packets[0]) >= sent - OFF_NS, "priority {priority}");
    }
    bench.finish();
}

#[test]
fn a_port_that_was_not_asked_or_is_another_chip_has_none() {
    for (devices, options, support) in
        [(x550s(), Options::default(), Support::Off), (devices(&["pair"; 2]), stamped(), Support::No)]
    {
        let mut bench = Bench::over(devices, &options, 1024);
        assert_eq!(bench.sides[1].device.capabilities().support(Feature::Timestamps), support);
        let frame = frames::udp4(&payload(100), Sums::Full);
        assert_eq!(bench.cross_one(&frame, TxOffload::default()), frame);
        bench.finish();
    }
}
