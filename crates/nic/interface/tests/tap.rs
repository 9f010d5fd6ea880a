//! TAP interfaces, with a packet socket at the kernel's end.

mod common;

use common::{End, carries_in_order, dma, frame, in_namespace, ip, number, try_ip, until};
use std::os::fd::AsRawFd as _;

use interface::af_packet::AfPacketPort;
use interface::tap::TapPort;
use memory::{Batch, Packet, Pool, TxOffload};
use port::{Error, Options, Port, software};

fn open(options: &Options) -> End {
    End::new(Box::new(TapPort::open("t0", options).expect("it opens")), &dma())
}

/// The port, and a packet socket on its interface.
fn ends(options: &Options) -> (End, End) {
    // Made beforehand, so that nothing is sent before the test does.
    let queues = if options.rx_queues > 1 { "multi_queue" } else { "" };
    ip(format!("tuntap add mode tap {queues} name t0").replace("  ", " ").as_str());
    ip("link set t0 addrgenmode none");
    let tap = open(options);
    until("link", || tap.port.link().up);
    let kernel = AfPacketPort::open("t0", &Options { rx_queues: 1, ..options.clone() }).expect("it opens");
    (tap, End::new(Box::new(kernel), &dma()))
}

#[test]
fn every_frame_arrives_in_order() {
    in_namespace(|| {
        let (mut tap, mut kernel) = ends(&Options::default());
        carries_in_order(&mut tap, &mut kernel, 100_000, 1);
        tap.end();
        kernel.end();
    });
    in_namespace(|| {
        let (mut tap, mut kernel) = ends(&Options::default());
        carries_in_order(&mut kernel, &mut tap, 100_000, 1);
        tap.end();
        kernel.end();
    });
}

#[test]
fn flows_spread_over_queues_and_keep_their_order() {
    in_namespace(|| {
        let (mut tap, mut kernel) = ends(&Options { rx_queues: 4, ..Options::default() });
        carries_in_order(&mut kernel, &mut tap, 50_000, 8);
        let used = tap.rx.iter().filter(|rx| rx.stats().packets > 0).count();
        assert!(used > 1, "eight flows on one queue");
        tap.end();
        kernel.end();
    });
    in_namespace(|| {
        let (mut tap, mut kernel) = ends(&Options { rx_queues: 4, ..Options::default() });
        carries_in_order(&mut tap, &mut kernel, 50_000, 8);
        tap.end();
        kernel.end();
    });
}

#[test]
fn an_interface_that_is_not_there_is_made_and_goes_with_the_port() {
    in_namespace(|| {
        let tap = open(&Options { max_frame: 3014, ..Options::default() });
        assert!(tap.port.link().up);
        ip("link show t0");
        let kernel = AfPacketPort::open("t0", &Options { max_frame: 9000, ..Options::default() });
        let kernel = kernel.expect("it opens");
        assert_eq!(kernel.capabilities().max_frame, 3014, "its MTU is as asked for");
        assert_ne!(kernel.mac(), tap.port.mac(), "two ends, two addresses");
        assert_eq!(tap.port.mac()[0] & 3, 2, "one of our own, of one host");
        tap.end();
        assert!(matches!(kernel.health(), Err(Error::Lost { .. })));
        assert!(!try_ip("link show t0"));
    });
}

/// What the last user of an interface asked the kernel to leave out is the interface's as long as
/// it is there.
#[test]
fn one_that_stays_has_no_offloads_of_its_last_user() {
    in_namespace(|| {
        ip("tuntap add mode tap name t0");
        ip("link set t0 addrgenmode none");
        let long = TapPort::open("t0,gso", &Options::default()).expect("it opens");
        End::new(Box::new(long), &dma()).end();
        let mut tap = open(&Options::default());
        ip("addr add 10.9.9.1/24 dev t0");
        ip("neigh add 10.9.9.2 lladdr 02:00:00:00:00:02 dev t0 nud permanent");
        let socket = std::net::UdpSocket::bind("10.9.9.1:0").expect("an address");
        socket.send_to(b"hello", "10.9.9.2:9").expect("a way");
        let mut datagram = None;
        until("datagram", || {
            datagram = tap.receive(0).into_iter().find(|frame| (&frame[12..14], frame[23]) == (&[8, 0], 17));
            datagram.is_some()
        });
        let frame = datagram.expect("it came");
        let (ip, udp) = frame[14..].split_at(20);
        let ends = wire::ipv4::Header::of(ip).expect("a header").addresses();
        let pseudo = ends.pseudo_header(wire::ip::Protocol::UDP, udp.len());
        let sum = wire::checksum::combine(pseudo, wire::checksum::sum(udp));
        assert_eq!(sum, 0xFFFF, "the kernel has filled the checksum in");
        tap.end();
    });
}

/// Has the kernel cut what a socket sends into datagrams of this length (udp(7)).
#[allow(unsafe_code)]
fn send_in_pieces(socket: &std::net::UdpSocket, size: libc::c_int) {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes at the pointer, an integer that outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const size).cast(), len)
    };
    assert_eq!(result, 0, "the kernel is younger than 4.18");
}

/// Whether the kernel leaves to a TAP interface what becomes several datagrams.
fn gives_long_datagrams() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(2))
}

/// Of what the kernel gives we make the datagrams that it would have made.
#[test]
fn the_kernel_gives_what_becomes_several_datagrams_and_so_it_does() {
    in_namespace(|| {
        ip("tuntap add mode tap name t0");
        ip("link set t0 addrgenmode none");
        let mut tap =
            End::new(Box::new(TapPort::open("t0,gso", &Options::default()).expect("opens")), &dma());
        ip("addr add 10.9.9.1/24 dev t0");
        ip("addr add fd09::1/64 dev t0 nodad");
        for address in ["10.9.9.2", "fd09::2"] {
            ip(&format!("neigh add {address} lladdr 02:00:00:00:00:02 dev t0 nud permanent"));
        }
        let data: Vec<u8> = (0..9_001_u32).map(|n| (n * 7 + n / 251) as u8).collect();
        // Pieces may be as short as the application likes.
        for (ends, headers) in [(["10.9.9.1:9", "10.9.9.2:9"], 42), (["[fd09::1]:9", "[fd09::2]:9"], 62)] {
            for (len, size) in [(9_001, 1_400), (9_000, 1_000), (64, 1), (640, 10)] {
                let socket = std::net::UdpSocket::bind(ends[0]).expect("an address");
                send_in_pieces(&socket, size as libc::c_int);
                socket.send_to(&data[..len], ends[1]).expect("a way");
                let (mut came, mut long, mut batch) = (vec![], 0, Batch::with_limit(64));
                until("datagrams", || {
                    tap.rx[0].recv(&mut tap.pool, &mut batch);
                    for packet in batch.drain() {
                        let (is_long, pieces) = pieces(&mut tap.pool, packet);
                        let ours = |frame: &Vec<u8>| frame.len() > headers && is_udp(frame, headers);
                        came.extend(pieces.into_iter().filter(ours));
                        long += usize::from(is_long);
                    }
                    came.len() >= len.div_ceil(size)
                });
                for (frame, piece) in came.iter().zip(data[..len].chunks(size)) {
                    assert_eq!(frame[headers..], *piece, "{len} by {size}");
                    assert!(is_whole(frame, headers), "{len} by {size}: {frame:x?}");
                }
                assert_eq!(came.len(), len.div_ceil(size));
                assert_eq!(long, usize::from(gives_long_datagrams()), "{len} by {size}");
            }
        }
        assert_eq!(tap.rx[0].stats().bad_descriptor, 0);
        tap.end();
    });
}

/// What becomes of a packet on the wire, and whether that is several.
fn pieces(pool: &mut Pool, mut packet: Packet) -> (bool, Vec<Vec<u8>>) {
    let bytes = |packet: &Packet| packet.segments().flat_map(|s| s.iter().copied()).collect::<Vec<u8>>();
    let (is_long, mut all) = (packet.tx_offload().has(TxOffload::SEGMENT), vec![]);
    match is_long {
        true => {
            let cut = software::cut(&packet, pool, |pool, piece| {
                all.push(bytes(&piece));
                pool.free(piece);
            });
            assert!(cut.is_whole);
        }
        false => {
            assert!(software::fill_checksums(&mut packet));
            all.push(bytes(&packet));
        }
    }
    pool.free(packet);
    (is_long, all)
}

fn is_udp(frame: &[u8], headers: usize) -> bool {
    match headers {
        42 => (&frame[12..14], frame[23]) == (&[8, 0], 17),
        _ => (&frame[12..14], frame[20]) == (&[0x86, 0xDD], 17),
    }
}

/// Whether lengths and checksums are right.
fn is_whole(frame: &[u8], headers: usize) -> bool {
    let (ip, udp) = frame[14..].split_at(headers - 22);
    let ends = match headers {
        42 => {
            let header = wire::ipv4::Header::of(ip).expect("a header");
            assert_eq!(header.total_len(), frame.len() - 14);
            assert!(wire::checksum::verify(ip));
            header.addresses()
        }
        _ => {
            let header = wire::ipv6::Header::of(ip).expect("a header");
            assert_eq!(header.payload_len(), udp.len());
            header.addresses()
        }
    };
    assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
    let pseudo = ends.pseudo_header(wire::ip::Protocol::UDP, udp.len());
    wire::checksum::combine(pseudo, wire::checksum::sum(udp)) == 0xFFFF
}

#[test]
fn long_frames_span_buffers_and_longer_ones_are_refused_by_name() {
    in_namespace(|| {
        let (mut tap, mut kernel) = ends(&Options { max_frame: 9014, ..Options::default() });
        let long: Vec<u8> = frame(1, 0, 9014).iter().zip(0..).map(|(b, n)| b ^ n as u8).collect();
        kernel.send(0, &[long.clone(), frame(2, 0, 2048), frame(3, 0, 2049), frame(4, 0, 60)]);
        assert_eq!(tap.expect(4), [long.clone(), frame(2, 0, 2048), frame(3, 0, 2049), frame(4, 0, 60)]);
        tap.send(0, &[long.clone(), frame(5, 0, 9015), vec![1; 13], frame(6, 0, 4097)]);
        assert_eq!(kernel.expect(2), [long, frame(6, 0, 4097)]);
        assert_eq!((tap.counter("tx_oversize"), tap.counter("tx_runt")), (1, 1));
        // The interface grows beyond what the port was opened for.
        ip("link set t0 mtu 12000");
        let mut wide = AfPacketPort::open("t0", &Options { max_frame: 12014, ..Options::default() })
            .map(|port| End::new(Box::new(port), &dma()))
            .expect("it opens");
        wide.send(0, &[frame(7, 0, 12_014), frame(8, 0, 9020), frame(9, 0, 60)]);
        assert_eq!(tap.expect(1), [frame(9, 0, 60)]);
        assert_eq!(tap.counter("rx_oversize"), 2, "beyond the buffers, and within them");
        [tap, kernel, wide].into_iter().for_each(End::end);
    });
    in_namespace(|| {
        // Frames that end, or are cut off, where a buffer does.
        let (mut tap, kernel) = ends(&Options { max_frame: 2044, ..Options::default() });
        ip("link set t0 mtu 4000");
        let wide = AfPacketPort::open("t0", &Options { max_frame: 4014, ..Options::default() });
        let mut wide = End::new(Box::new(wide.expect("it opens")), &dma());
        let tagged = |len: usize| {
            let mut frame = frame(1, 0, len);
            frame[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
            frame
        };
        wide.send(0, &[tagged(2048), tagged(2049), frame(2, 0, 2045), frame(3, 0, 2044)]);
        assert_eq!(tap.expect(2), [tagged(2048), frame(3, 0, 2044)]);
        assert_eq!(tap.counter("rx_oversize"), 2);
        [tap, kernel, wide].into_iter().for_each(End::end);
    });
}

#[test]
fn an_interface_that_goes_is_a_named_error() {
    in_namespace(|| {
        let (mut tap, kernel) = ends(&Options::default());
        tap.port.health().expect("all is well");
        ip("link set t0 down");
        let down = tap.port.health().expect_err("it is down").to_string();
        assert_eq!(down, "tap:t0: the interface was taken down");
        tap.send_into_nothing();
        assert_eq!(tap.tx[0].stats().packets, 0);
        assert!(tap.tx[0].stats().ring_full > 0 && tap.receive(0).is_empty());
        ip("link set t0 up");
        tap.port.health().expect("up again");
        ip("link del t0");
        let gone = tap.port.health().expect_err("it is gone").to_string();
        assert_eq!(gone, "tap:t0: the interface is gone");
        assert!(tap.receive(0).is_empty());
        tap.send_into_nothing();
        tap.end();
        kernel.end();
    });
}

#[test]
fn a_stopped_port_receives_no_more_and_still_sends() {
    in_namespace(|| {
        let (mut tap, mut kernel) = ends(&Options::default());
        kernel.send(0, &[frame(1, 0, 60)]);
        until("the frame to be queued", || kernel.tx[0].clean(&mut kernel.pool) == 0);
        tap.port.stop().expect("it stops");
        kernel.send(0, &[frame(2, 0, 60)]);
        assert_eq!(tap.expect(1), [frame(1, 0, 60)], "what had come stays");
        tap.send(0, &[frame(3, 0, 60)]);
        until("a frame", || kernel.receive(0).iter().any(|frame| number(frame) == 3));
        tap.end();
        kernel.end();
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    in_namespace(|| {
        let why = |name: &str, queues: usize| {
            let options = Options { rx_queues: queues, ..Options::default() };
            TapPort::open(name, &options).err().expect("no port").to_string()
        };
        assert!(why("", 1).contains("1 to 15 bytes"));
        assert!(why("a-name-of-16-chr", 1).contains("1 to 15 bytes"));
        ip("link add v0 type veth peer name v1");
        let (veth, lo) = (why("v0", 1), why("lo", 1));
        assert!(veth.contains("v0 is an interface of another kind, veth, no TAP"), "{veth}");
        assert!(lo.contains("lo is another interface, no TAP"), "{lo}");
        ip("tuntap add mode tun name tun0");
        let tun = why("tun0", 1);
        assert!(tun.contains("tun0 is a TUN interface"), "{tun}");
        for said in [veth, lo, tun] {
            assert!(said.contains("choose another name") && !said.contains("link del"), "{said}");
        }
        ip("tuntap add mode tap name one");
        assert!(why("one", 2).contains("made for one queue"), "{}", why("one", 2));
        let _mine = TapPort::open("one", &Options::default()).expect("it opens");
        assert!(why("one", 1).contains("another process has the interface"), "{}", why("one", 1));
    });
}

#[test]
fn without_privileges_the_capability_is_named() {
    in_namespace(|| {
        common::drop_capabilities();
        let error = TapPort::open("t0", &Options::default()).err().expect("no port").to_string();
        assert!(error.contains("needs CAP_NET_ADMIN") && error.contains("as root"), "{error}");
    });
}

#[test]
fn a_device_that_may_not_be_opened_is_no_missing_capability() {
    in_namespace(|| {
        // A /dev/net of this thread's own.
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).expect("root");
        run("mount --make-rprivate /");
        run("mount -t tmpfs -o mode=755 none /dev/net");
        let why = || TapPort::open("t0", &Options::default()).err().expect("no port").to_string();
        assert_eq!(why(), "tap:t0: there is no /dev/net/tun: modprobe tun");
        run("mknod -m 600 /dev/net/tun c 10 200");
        drop(TapPort::open("t0", &Options::default()).expect("root may"));
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_uid(nobody).expect("root may become anybody");
        let error = why();
        assert!(error.contains("may not open /dev/net/tun: its permissions"), "{error}");
        assert!(error.contains("chmod 666 /dev/net/tun") && !error.contains("CAP_"), "{error}");
    });
}

/// Runs a command, which succeeds.
fn run(command: &str) {
    let words: Vec<_> = command.split(' ').collect();
    let status = std::process::Command::new(words[0]).args(&words[1..]).status();
    assert!(status.expect("it is installed").success(), "{command}");
}
