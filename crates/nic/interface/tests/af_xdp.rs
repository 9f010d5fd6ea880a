//! AF_XDP sockets on a cable of Linux's, in a namespace of their own: in the
//! driver (native) and in the stack (generic), on both ends or beside a packet
//! socket at the other.

mod common;

use std::thread::sleep;
use std::time::Duration;

use common::{
    End, cable, carries_in_order, checksums_are_whole, dma, frame, in_namespace, ip, number, packet, try_ip,
    until,
};
use interface::af_packet::AfPacketPort;
use interface::af_xdp::{AfXdpPort, MAX_FRAME};
use interface::tap::TapPort;
use port::{Batch, Error, Options, Pool, Port};

/// What stands behind an interface's name, and what it gives.
const WAYS: [(&str, &str); 2] = [("", "af_xdp (native, copy)"), (",generic", "af_xdp (generic, copy)")];

fn open(name: &str, options: &Options) -> End {
    let dma = dma();
    let port = AfXdpPort::open(name, &dma, options).expect("it opens");
    End::new(Box::new(port), &dma)
}

fn packet_socket(name: &str, options: &Options) -> End {
    let port = AfPacketPort::open(name, options).expect("it opens");
    End::new(Box::new(port), &dma())
}

/// Runs a test in both ways; one end each is given.
fn both_ways(queues: usize, test: impl Fn(End, End) + Copy + Send + 'static) {
    for (way, driver) in WAYS {
        in_namespace(move || {
            cable("v0", "v1", queues);
            let options = Options { rx_queues: queues, ..Options::default() };
            let ends = ["v0", "v1"].map(|name| open(&format!("{name}{way}"), &options));
            let [a, b] = ends;
            assert_eq!(a.port.capabilities().driver, driver);
            test(a, b);
        });
    }
}

#[test]
fn every_frame_arrives_in_order() {
    both_ways(1, |mut a, mut b| {
        carries_in_order(&mut a, &mut b, 100_000, 1);
        carries_in_order(&mut b, &mut a, 1_000, 1);
        a.end();
        b.end();
    });
}

#[test]
fn flows_keep_their_order_over_several_queues() {
    both_ways(4, |mut a, mut b| {
        carries_in_order(&mut a, &mut b, 100_000, 8);
        a.end();
        b.end();
    });
}

#[test]
fn fewer_queues_than_the_interface_has_miss_nothing() {
    for (way, _) in WAYS {
        in_namespace(move || {
            cable("v0", "v1", 4);
            let mut a = open(&format!("v0{way}"), &Options { rx_queues: 4, ..Options::default() });
            let mut b = open(&format!("v1{way}"), &Options { rx_queues: 3, ..Options::default() });
            assert_eq!((b.rx.len(), b.tx.len(), b.port.capabilities().rx_queues), (3, 3, 3));
            carries_in_order(&mut a, &mut b, 20_000, 8);
            let seen: Vec<_> = b.rx.iter().map(|rx| rx.stats().packets).collect();
            assert!(seen[0] == 2 * seen[1] && seen[1] == seen[2], "the first has two of four: {seen:?}");
            // Any of them wakes a sleeper.
            for queue in 0..4 {
                a.send(queue, &[frame(1, 0, 60)]);
                let readable = (0..3).any(|n| {
                    let fd = b.rx[n].arm().expect("it can wake");
                    let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
                    let time = rustix::event::Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
                    rustix::event::poll(&mut fds, Some(&time)) == Ok(1)
                });
                assert!(readable, "queue {queue}");
                b.expect(1);
            }
            a.end();
            b.end();
        });
    }
}

#[test]
fn a_packet_socket_is_understood() {
    for (way, _) in WAYS {
        in_namespace(move || {
            cable("v0", "v1", 1);
            let mut a = packet_socket("v0", &Options::default());
            let mut b = open(&format!("v1{way}"), &Options::default());
            carries_in_order(&mut a, &mut b, 10_000, 1);
            carries_in_order(&mut b, &mut a, 10_000, 1);
            a.end();
            b.end();
        });
    }
}

#[test]
fn what_came_goes_back_without_a_copy() {
    both_ways(1, |mut a, mut b| {
        let mut batch = Batch::with_limit(64);
        for round in 0..200 {
            let frames: Vec<_> = (0..32).map(|n| frame(round * 32 + n, 0, 60)).collect();
            a.send(0, &frames);
            let (mut back, mut places) = (0, Vec::new());
            until("32 frames back", || {
                b.rx[0].recv(&mut b.pool, &mut batch);
                places.extend(batch.iter().map(|packet| packet.as_ptr()));
                back += b.tx[0].send(&mut b.pool, &mut batch);
                b.tx[0].clean(&mut b.pool);
                back == 32
            });
            let pool = b.pool.available();
            assert_eq!(pool, b.pool.capacity(), "none of the application's buffers was needed");
            assert_eq!(a.expect(32), frames);
        }
        a.end();
        b.end();
    });
}

#[test]
fn an_application_may_hold_packets_as_long_as_it_likes() {
    both_ways(1, |mut a, mut b| {
        // More than the queue pair's own memory has.
        let mut pool = Pool::new(&dma(), 4096).expect("memory");
        let mut kept = Vec::new();
        let mut batch = Batch::with_limit(64);
        for n in 0..4096 / 32 {
            a.send(0, &(0..32).map(|k| frame(n * 32 + k, 0, 60)).collect::<Vec<_>>());
            until("32 frames", || {
                b.rx[0].recv(&mut pool, &mut batch);
                kept.extend(batch.drain());
                kept.len() as u64 == (n + 1) * 32
            });
        }
        assert!(kept.iter().zip(0..).all(|(packet, n)| packet[..] == frame(n, 0, 60)));
        assert!(pool.available() < pool.capacity(), "some were copied");
        assert_eq!(b.port.stats().losses().count(), 0);
        // With its memory back the queue lends again; with neither, it waits.
        let mut none = Pool::new(&dma(), 1).expect("memory");
        let last = none.alloc();
        a.send(0, &[frame(9, 0, 60)]);
        until("a packet for which there is no buffer", || {
            b.rx[0].recv(&mut none, &mut batch);
            b.rx[0].stats().no_buffer > 0
        });
        assert!(batch.is_empty());
        kept.clear();
        assert_eq!(b.expect(1), [frame(9, 0, 60)]);
        drop(last);
        assert_eq!(pool.available(), pool.capacity());
        a.end();
        b.end();
    });
}

#[test]
fn frames_that_do_not_fit_are_refused_by_name() {
    both_ways(1, |mut a, mut b| {
        let tagged = |len: usize| {
            let mut frame = frame(7, 0, len);
            frame[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
            frame
        };
        let all =
            [frame(1, 0, 1514), frame(2, 0, 1515), tagged(1518), tagged(1519), vec![0; 13], frame(3, 0, 60)];
        a.send(0, &all);
        assert_eq!(b.expect(3), [frame(1, 0, 1514), tagged(1518), frame(3, 0, 60)]);
        assert_eq!((a.counter("tx_oversize"), a.counter("tx_runt")), (2, 1));
        a.end();
        b.end();
    });
    for (way, _) in WAYS {
        in_namespace(move || {
            cable("v0", "v1", 1);
            ip("link set v0 mtu 3000");
            ip("link set v1 mtu 3000");
            let wide = Options { max_frame: 3014, ..Options::default() };
            let mut a = packet_socket("v0", &wide);
            let mut b = open(&format!("v1{way}"), &wide);
            assert_eq!(b.port.capabilities().max_frame, MAX_FRAME);
            a.send(
                0,
                &[frame(1, 0, MAX_FRAME), frame(2, 0, MAX_FRAME + 1), frame(3, 0, 3014), frame(4, 0, 60)],
            );
            assert_eq!(b.expect(2), [frame(1, 0, MAX_FRAME), frame(4, 0, 60)]);
            // One fits a buffer, and the other not even that.
            assert_eq!((b.counter("rx_oversize"), b.counter("xdp_rx_dropped")), (1, 1));
            a.end();
            b.end();
        });
    }
}

#[test]
fn a_packet_in_several_buffers_is_sent_as_one() {
    both_ways(1, |mut a, mut b| {
        let whole = frame(1, 0, 1514);
        let mut first = packet(&mut a.pool, &whole[..100]);
        first.append(packet(&mut a.pool, &whole[100..1000]));
        first.append(packet(&mut a.pool, &whole[1000..]));
        let mut batch = Batch::default();
        assert!(batch.push(first).is_none());
        assert_eq!(a.tx[0].send(&mut a.pool, &mut batch), 1);
        assert_eq!(b.expect(1), [whole]);
        a.end();
        b.end();
    });
}

#[test]
fn an_interface_that_goes_is_a_named_error() {
    both_ways(1, |mut a, mut b| {
        a.port.health().expect("all is well");
        ip("link set v0 down");
        let down = a.port.health().expect_err("it is down").to_string();
        assert!(down.starts_with("af_xdp:v0") && down.ends_with(": the interface was taken down"), "{down}");
        a.send_into_nothing();
        ip("link set v0 up");
        until("link", || a.port.link().up && b.port.link().up);
        a.port.health().expect("up again");
        // What the ring took while it was down goes out after all.
        until("the frames of before", || {
            a.tx[0].clean(&mut a.pool);
            b.receive(0).iter().any(|frame| number(frame) == 31)
        });
        a.send(0, &[frame(99, 0, 60)]);
        until("a frame", || {
            a.tx[0].clean(&mut a.pool);
            b.receive(0).iter().any(|frame| number(frame) == 99)
        });
        ip("link del v0");
        let gone = a.port.health().expect_err("it is gone").to_string();
        assert!(gone.ends_with(": the interface is gone"), "{gone}");
        assert!(matches!(b.port.health(), Err(Error::Lost { .. })));
        assert!(!a.port.link().up && a.receive(0).is_empty());
        a.send_into_nothing();
        a.end();
        b.end();
    });
}

/// Sends more than a ring of 64 at the other end has room for: each loss is told once, though some
/// interfaces count what a socket had no room for as well.
fn each_loss_is_told_once(mut a: End, mut b: End) {
    a.send(0, &(0..100).map(|n| frame(n, 0, 60)).collect::<Vec<_>>());
    let mut came = Vec::new();
    until("what there was room for, and the rest counted", || {
        sleep(Duration::from_millis(1));
        a.tx[0].clean(&mut a.pool);
        let lost = b.counter("xdp_rx_dropped") + b.counter("xdp_rx_ring_full");
        lost > 0 && {
            came.extend(b.receive(0));
            let lost = b.counter("xdp_rx_dropped") + b.counter("xdp_rx_ring_full");
            came.len() as u64 + lost == 100
        }
    });
    let mut told = || b.port.stats().losses().map(|(_, count)| count).sum::<u64>();
    assert_eq!((came.len() as u64, told()), (came.len() as u64, 100 - came.len() as u64));
    assert!(came.len() >= 64 && came[..64].iter().zip(0..).all(|(frame, n)| number(frame) == n));
    a.end();
    b.end();
}

#[test]
fn what_the_ring_has_no_room_for_is_counted() {
    let small = Options { rx_ring: 64, ..Options::default() };
    for (way, _) in WAYS {
        let options = small.clone();
        in_namespace(move || {
            cable("v0", "v1", 1);
            let a = packet_socket("v0", &Options::default());
            each_loss_is_told_once(a, open(&format!("v1{way}"), &options));
        });
        let options = small.clone();
        in_namespace(move || {
            ip("tuntap add mode tap name t0");
            ip("link set t0 addrgenmode none");
            let tap = TapPort::open("t0", &Options::default()).expect("it opens");
            let tap = End::new(Box::new(tap), &dma());
            until("link", || tap.port.link().up);
            each_loss_is_told_once(tap, open(&format!("t0{way}"), &options));
        });
    }
}

#[test]
fn a_stopped_port_leaves_packets_to_the_kernel() {
    for (way, _) in WAYS {
        in_namespace(move || {
            cable("v0", "v1", 1);
            let mut a = packet_socket("v0", &Options::default());
            let mut b = open(&format!("v1{way}"), &Options::default());
            let mut kernel = packet_socket("v1", &Options::default());
            a.send(0, &[frame(1, 0, 60)]);
            assert_eq!(b.expect(1), [frame(1, 0, 60)]);
            // Generic XDP runs before packet sockets look, as native XDP does.
            assert!(kernel.receive(0).is_empty(), "it went past the stack");
            b.port.stop().expect("it stops");
            a.send(0, &[frame(2, 0, 60)]);
            assert_eq!(kernel.expect(1), [frame(2, 0, 60)]);
            assert!(b.receive(0).is_empty());
            b.send(0, &[frame(3, 0, 60)]);
            assert_eq!(a.expect(1), [frame(3, 0, 60)], "it still sends");
            // Once it is gone, so is all of it: another can take its place.
            b.end();
            let mut b = open(&format!("v1{way}"), &Options::default());
            a.send(0, &[frame(4, 0, 60)]);
            assert_eq!(b.expect(1), [frame(4, 0, 60)]);
            [a, b, kernel].into_iter().for_each(End::end);
        });
    }
}

#[test]
fn what_cannot_be_opened_says_why() {
    in_namespace(|| {
        let why = |name: &str, queues: usize| {
            let options = Options { rx_queues: queues, ..Options::default() };
            AfXdpPort::open(name, &dma(), &options).err().expect("no port").to_string()
        };
        assert!(why("nothere", 1).contains("there is no interface nothere in this network namespace"));
        assert!(try_ip("link add v0 type veth peer name v1"));
        assert_eq!(why("v0", 1), "af_xdp:v0: the interface is down: ip link set v0 up");
        ip("link set v0 up");
        ip("link set v1 up");
        assert!(why("v0,slow", 1).contains("write generic, copy, or nothing"));
        let many = why("v0", 64);
        assert!(many.contains("queues, not 64") && many.contains("--queues"), "{many}");
        let _taken = open("v0", &Options::default());
        let second = why("v0", 1);
        assert!(second.contains("another XDP program") && second.contains("xdp off"), "{second}");
        let mixed = why("v0,generic", 1);
        assert!(mixed.contains("another XDP program"), "{mixed}");
    });
}

#[test]
fn a_sleeper_is_woken() {
    both_ways(1, |mut a, mut b| {
        let wait = |b: &mut End, ms: i64| {
            let fd = b.rx[0].arm().expect("it can wake");
            let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
            let time = rustix::event::Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
            rustix::event::poll(&mut fds, Some(&time)).expect("poll")
        };
        assert_eq!(wait(&mut b, 5), 0);
        a.send(0, &[frame(1, 0, 60)]);
        assert_eq!(wait(&mut b, 900), 1);
        assert_eq!(b.expect(1), [frame(1, 0, 60)]);
        assert_eq!(wait(&mut b, 5), 0);
        a.end();
        b.end();
    });
}

#[test]
fn without_privileges_the_capability_is_named() {
    in_namespace(|| {
        cable("v0", "v1", 1);
        common::drop_capabilities();
        let error = AfXdpPort::open("v0", &dma(), &Options::default()).err().expect("no port").to_string();
        assert!(error.contains("needs CAP_NET_ADMIN and CAP_BPF") && error.contains("as root"), "{error}");
        assert!(error.contains(EVERYTHING), "{error}");
    });
}

/// What every message names, whatever step it is about: `setcap` takes what it is not told.
const EVERYTHING: &str = "setcap cap_net_admin,cap_net_raw,cap_ipc_lock,cap_bpf+ep ";

#[test]
fn a_program_may_be_loaded_and_a_socket_not() {
    in_namespace(|| {
        use rustix::thread::CapabilitySet as Set;
        cable("v0", "v1", 1);
        common::keep_capabilities(Set::BPF | Set::NET_ADMIN);
        let error = AfXdpPort::open("v0", &dma(), &Options::default()).err().expect("no port").to_string();
        assert!(error.contains("needs CAP_NET_RAW"), "{error}");
        assert!(error.contains(EVERYTHING), "{error}");
        // A message about another kind of port leaves him what he has.
        let error = AfPacketPort::open("v0", &Options::default()).err().expect("no port").to_string();
        assert!(error.contains("needs CAP_NET_RAW"), "{error}");
        assert!(error.contains("setcap cap_net_admin,cap_net_raw,cap_bpf+ep "), "{error}");
    });
}

#[test]
fn a_limit_on_locked_memory_is_named_with_its_capability() {
    in_namespace(|| {
        use rustix::process::{Resource, getrlimit};
        use rustix::thread::CapabilitySet as Set;
        cable("v0", "v1", 1);
        common::keep_capabilities(Set::BPF | Set::NET_ADMIN | Set::NET_RAW);
        // Rings whose memory is beyond the usual limit; the limit is the whole process's.
        let limit = getrlimit(Resource::Memlock).current;
        let options = Options { rx_ring: 16_384, tx_ring: 16_384, ..Options::default() };
        match AfXdpPort::open("v0", &dma(), &options) {
            Ok(_) => assert!(limit.is_none_or(|limit| limit > 64 << 20), "beyond {limit:?}"),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("needs CAP_IPC_LOCK") && error.contains(EVERYTHING), "{error}");
                assert!(error.contains("ulimit -l"), "{error}");
            }
        }
    });
}

#[test]
fn what_is_down_is_turned_on_by_its_name_alone() {
    in_namespace(|| {
        ip("link add v0 type veth peer name v1");
        for name in ["v0", "v0,generic", "v0,generic,copy"] {
            let error =
                AfXdpPort::open(name, &dma(), &Options::default()).err().expect("no port").to_string();
            assert_eq!(error, format!("af_xdp:{name}: the interface is down: ip link set v0 up"));
        }
    });
}

#[test]
fn what_the_stack_sends_has_whole_checksums() {
    for (way, _) in WAYS {
        in_namespace(move || {
            cable("v0", "v1", 1);
            let mut b = open(&format!("v1{way}"), &Options::default());
            checksums_are_whole(&mut b);
            b.end();
        });
    }
}

#[test]
fn what_nobody_receives_goes_to_the_kernel() {
    for (way, _) in WAYS {
        in_namespace(move || {
            cable("v0", "v1", 1);
            let (dma, options) = (dma(), Options::default());
            let mut a = packet_socket("v0", &options);
            let mut kernel = packet_socket("v1", &options);
            let mut b = AfXdpPort::open(&format!("v1{way}"), &dma, &options).expect("it opens");
            a.send(0, &[frame(1, 0, 60)]);
            assert_eq!(kernel.expect(1), [frame(1, 0, 60)]);
            assert_eq!(b.stats().losses().count(), 0);
            let mut b = End::new(Box::new(b), &dma);
            a.send(0, &[frame(2, 0, 60)]);
            assert_eq!(b.expect(1), [frame(2, 0, 60)]);
            assert!(kernel.receive(0).is_empty());
            [a, b, kernel].into_iter().for_each(End::end);
        });
    }
}
