//! Packet sockets on both ends of a cable of Linux's, in a namespace of their own.

mod common;

use std::time::Duration;

use common::{
    End, cable, carries_in_order, checksums_are_whole, dma, frame, in_namespace, ip, number, try_ip, until,
};
use interface::af_packet::AfPacketPort;
use port::{Error, Options, Port, Reason};

fn open(name: &str, options: &Options) -> End {
    let port = AfPacketPort::open(name, options).expect("it opens");
    End::new(Box::new(port), &dma())
}

fn ends(options: &Options) -> (End, End) {
    cable("v0", "v1", options.rx_queues);
    (open("v0", options), open("v1", options))
}

#[test]
fn every_frame_arrives_in_order() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options::default());
        carries_in_order(&mut a, &mut b, 100_000, 1);
        assert_eq!(a.receive(0).len(), 0, "what a port sends does not come back to it");
        a.end();
        b.end();
    });
}

#[test]
fn flows_spread_over_queues_and_keep_their_order() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options { rx_queues: 4, ..Options::default() });
        carries_in_order(&mut a, &mut b, 100_000, 8);
        let used = b.rx.iter().filter(|rx| rx.stats().packets > 0).count();
        assert!(used > 1, "eight flows on one queue");
        a.end();
        b.end();
    });
}

#[test]
fn frames_that_do_not_fit_are_refused_by_name() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options::default());
        let tagged = |len: usize| {
            let mut frame = frame(7, 0, len);
            frame[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
            frame
        };
        a.send(
            0,
            &[frame(1, 0, 1514), frame(2, 0, 1515), tagged(1518), tagged(1519), vec![0; 13], frame(3, 0, 60)],
        );
        let came = b.expect(3);
        assert_eq!(came, [frame(1, 0, 1514), tagged(1518), frame(3, 0, 60)]);
        assert_eq!((a.counter("tx_oversize"), a.counter("tx_runt")), (2, 1));
        assert_eq!(a.tx[0].stats().unsendable, 3);
        // The other way: a port that was opened for less than comes.
        drop(b);
        let mut b = open("v1", &Options { max_frame: 1000, ..Options::default() });
        a.send(0, &[frame(1, 0, 1001), frame(2, 0, 1000)]);
        assert_eq!(b.expect(1), [frame(2, 0, 1000)]);
        assert_eq!((b.counter("rx_oversize"), b.rx[0].stats().bad_descriptor), (1, 1));
        a.end();
        b.end();
    });
}

#[test]
fn long_frames_span_buffers() {
    in_namespace(|| {
        cable("v0", "v1", 1);
        for end in ["v0", "v1"] {
            ip(&format!("link set {end} mtu 9000"));
        }
        let options = Options { max_frame: 9014, ..Options::default() };
        let (mut a, mut b) = (open("v0", &options), open("v1", &options));
        let long: Vec<u8> = frame(1, 0, 9014).iter().zip(0..).map(|(b, n)| b ^ n as u8).collect();
        a.send(0, &[long.clone(), frame(2, 0, 2049)]);
        assert_eq!(b.expect(2), [long, frame(2, 0, 2049)]);
        // The interface shrinks while the port is open: health looks, and tells.
        ip("link set v0 mtu 1500");
        a.port.health().expect("still there");
        a.send(0, &[frame(3, 0, 1515), frame(4, 0, 1514)]);
        assert_eq!(b.expect(1), [frame(4, 0, 1514)]);
        assert_eq!(a.counter("tx_oversize"), 1);
        a.end();
        b.end();
    });
}

#[test]
fn tags_that_the_kernel_takes_out_are_put_back() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options::default());
        // Linux takes a frame's outer tag out before packet sockets see it.
        let tagged = |tags: &[[u8; 4]], len: usize| {
            let plain = frame(5, 0, len);
            [&plain[..12], &tags.concat(), &plain[12..]].concat()
        };
        let frames = [
            tagged(&[[0x81, 0, 0x20, 77]], 60),
            tagged(&[[0x88, 0xA8, 0xFF, 0xFF]], 60),
            tagged(&[[0x88, 0xA8, 0, 5], [0x81, 0, 0, 6]], 60),
            tagged(&[[0x81, 0, 0, 0]], 1514), // priority alone, and the longest
        ];
        a.send(0, &frames);
        assert_eq!(b.expect(4), frames);
        a.end();
        b.end();
    });
}

#[test]
fn an_interface_that_goes_is_a_named_error() {
    in_namespace(|| {
        let (mut a, b) = ends(&Options::default());
        a.port.health().expect("all is well");
        assert!(a.port.link().up);
        ip("link set v1 down");
        until("no carrier", || !a.port.link().up);
        a.port.health().expect("the cable's other end is nobody's fault");
        ip("link set v1 up");
        ip("link set v0 down");
        let down = a.port.health().expect_err("it is down").to_string();
        assert_eq!(down, "af_packet:v0: the interface was taken down");
        a.tx[0].send(&mut a.pool, &mut port::Batch::default());
        assert!(a.receive(0).is_empty());
        ip("link set v0 name v9");
        ip("link set v9 up");
        a.port.health().expect("up again, and by another name");
        ip("link del v9");
        let gone = a.port.health().expect_err("it is gone").to_string();
        assert_eq!(gone, "af_packet:v0: the interface is gone");
        assert!(matches!(b.port.health(), Err(Error::Lost { .. })), "its other end went with it");
        assert!(!a.port.link().up && a.receive(0).is_empty());
        a.send_into_nothing();
        a.end();
        b.end();
    });
}

/// What an interface had counted is not forgotten with it.
#[test]
fn counters_stay_when_the_interface_goes() {
    in_namespace(|| {
        let (mut a, b) = ends(&Options::default());
        ip("link set v1 mtu 500");
        // The other end takes no frame that is longer than its own MTU, and the first drops it.
        let mut batch = port::Batch::default();
        assert!(batch.push(common::packet(&mut a.pool, &frame(0, 0, 1000))).is_none());
        a.tx[0].send(&mut a.pool, &mut batch);
        until("a frame that was dropped", || a.counter("interface_tx_dropped") > 0);
        let dropped = a.counter("interface_tx_dropped");
        ip("link del v0");
        assert_eq!(a.counter("interface_tx_dropped"), dropped);
        a.end();
        b.end();
    });
}

#[test]
fn what_the_ring_has_no_room_for_is_counted() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options { rx_ring: 64, ..Options::default() });
        let frames: Vec<_> = (0..200).map(|n| frame(n, 0, 1514)).collect();
        // Nobody receives meanwhile: four blocks of 64 KiB hold some 160.
        frames.chunks(50).for_each(|frames| {
            a.send(0, frames);
            std::thread::sleep(Duration::from_millis(3));
        });
        let mut came = Vec::new();
        until("what there was room for, and the rest counted", || {
            came.extend(b.receive(0));
            came.len() as u64 + b.counter("tp_drops") == 200
        });
        assert!(came.iter().zip(0..).all(|(frame, n)| number(frame) == n), "the first ones, in order");
        let lost = b.counter("tp_drops");
        assert!((1..200).contains(&lost), "{lost} lost");
        assert_eq!(b.counter("tp_drops"), lost, "a second look does not forget");
        assert!(b.port.stats().lost(Reason::RxKernelRing) > 0);
        a.end();
        b.end();
    });
}

#[test]
fn an_empty_pool_loses_nothing() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options::default());
        let mut all = port::Batch::with_limit(256);
        let mut small = port::Pool::new(&dma(), 4).expect("memory");
        a.send(0, &(0..20).map(|n| frame(n, 0, 60)).collect::<Vec<_>>());
        until("four frames", || {
            b.rx[0].recv(&mut small, &mut all);
            all.len() == 4
        });
        b.rx[0].recv(&mut small, &mut all);
        assert!(all.len() == 4 && b.rx[0].stats().no_buffer > 0);
        small.free_batch(&mut all);
        assert!(b.expect(16).iter().zip(4..).all(|(frame, n)| number(frame) == n));
        a.end();
        b.end();
    });
}

#[test]
fn a_stopped_port_receives_no_more_and_still_sends() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options::default());
        a.send(0, &[frame(1, 0, 60)]);
        assert_eq!(b.expect(1), [frame(1, 0, 60)]);
        b.port.stop().expect("it stops");
        a.send(0, &[frame(2, 0, 60)]);
        std::thread::sleep(Duration::from_millis(10));
        assert!(b.receive(0).is_empty());
        b.send(0, &[frame(3, 0, 60)]);
        assert_eq!(a.expect(1), [frame(3, 0, 60)]);
        a.end();
        b.end();
    });
}

#[test]
fn a_sleeper_is_woken() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options::default());
        let wait = |b: &mut End, ms: i64| {
            let fd = b.rx[0].arm().expect("it can wake");
            let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
            let time = rustix::event::Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
            rustix::event::poll(&mut fds, Some(&time)).expect("poll")
        };
        assert_eq!(wait(&mut b, 5), 0);
        a.send(0, &[frame(1, 0, 60)]);
        assert_eq!(wait(&mut b, 900), 1);
        b.expect(1);
        assert_eq!(wait(&mut b, 5), 0);
        a.end();
        b.end();
    });
}

/// An interface that was taken down leaves an error on its socket, which would wake whoever sleeps at
/// once, for ever.
#[test]
fn an_interface_that_was_down_keeps_no_sleeper_awake() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options::default());
        let poll = |b: &mut End, ms: i64| {
            let fd = b.rx[0].arm().expect("it can wake");
            let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
            let time = rustix::event::Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
            rustix::event::poll(&mut fds, Some(&time)).expect("poll");
            fds[0].revents()
        };
        ip("link set v1 down");
        assert!(poll(&mut b, 900).contains(rustix::event::PollFlags::ERR));
        ip("link set v1 up");
        assert!(poll(&mut b, 0).contains(rustix::event::PollFlags::ERR), "it stays");
        until("an empty ring", || b.receive(0).is_empty());
        b.rx[0].disarm();
        assert_eq!(poll(&mut b, 0), rustix::event::PollFlags::empty());
        until("the carrier", || a.port.link().up && b.port.link().up);
        a.send(0, &[frame(1, 0, 60)]);
        assert_eq!(b.expect(1), [frame(1, 0, 60)]);
        a.end();
        b.end();
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    in_namespace(|| {
        let why =
            |name: &str| AfPacketPort::open(name, &Options::default()).err().expect("no port").to_string();
        assert!(why("nothere").contains("there is no interface nothere in this network namespace"));
        assert!(why("").contains("1 to 15 bytes"));
        assert!(why("a-name-of-16-chr").contains("1 to 15 bytes"));
        assert!(try_ip("link add v0 type veth peer name v1"));
        assert_eq!(why("v0"), "af_packet:v0: the interface is down: ip link set v0 up");
    });
}

#[test]
fn without_privileges_the_capability_is_named() {
    in_namespace(|| {
        cable("v0", "v1", 1);
        common::drop_capabilities();
        let error = AfPacketPort::open("v0", &Options::default()).err().expect("no port").to_string();
        assert!(error.contains("needs CAP_NET_RAW") && error.contains("as root"), "{error}");
    });
}

#[test]
fn what_the_stack_sends_has_whole_checksums_and_does_not_come_back() {
    in_namespace(|| {
        let (mut a, mut b) = ends(&Options::default());
        checksums_are_whole(&mut b);
        std::thread::sleep(Duration::from_millis(5));
        assert!(a.receive(0).is_empty(), "it was sent there, not received");
        a.end();
        b.end();
    });
}

#[test]
fn what_nobody_receives_is_not_lost() {
    in_namespace(|| {
        cable("v0", "v1", 1);
        let mut a = open("v0", &Options::default());
        let mut b =
            AfPacketPort::open("v1", &Options { rx_ring: 64, ..Options::default() }).expect("it opens");
        let frames: Vec<_> = (0..256).map(|n| frame(n, 0, 1514)).collect();
        a.send(0, &frames);
        until("all to be sent", || a.tx[0].clean(&mut a.pool) == 0);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(b.stats().losses().count(), 0);
        let mut b = End::new(Box::new(b), &dma());
        a.send(0, &[frame(7, 0, 60)]);
        assert_eq!(b.expect(1), [frame(7, 0, 60)]);
        a.end();
        b.end();
    });
}
