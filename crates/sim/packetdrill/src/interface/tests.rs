//! In packetdrill's place: the table is filled in, and a connection goes through its functions.

use std::ffi::{c_int, c_long};
use std::io::Error;
use std::mem::{MaybeUninit, offset_of};
use std::net::Ipv4Addr;
use std::ptr::{null, null_mut};

use libc::{in_addr, rlimit, sockaddr_in, socklen_t, timeval};
use wire::ip::{Addresses, Protocol};
use wire::ipv4;
use wire::tcp::{Flags, Repr, Segment};

use super::{Interface, packetdrill_interface_init};

const OURS: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OUR_PORT: u16 = 8080;
const THEIR_PORT: u16 = 40_000;

/// The table, called as packetdrill calls it.
struct Drill(Interface);

impl Drill {
    fn new() -> Drill {
        let mut table = MaybeUninit::uninit();
        // SAFETY: there is room for a table, all of which is written.
        Drill(unsafe {
            packetdrill_interface_init(null(), table.as_mut_ptr());
            table.assume_init()
        })
    }

    /// A socket that listens, and whose calls do not wait.
    fn listen(&self) -> c_int {
        let fd = (self.0.socket)(null_mut(), libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP);
        assert!(fd >= 0);
        let address = sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: OUR_PORT.to_be(),
            sin_addr: in_addr { s_addr: 0 },
            sin_zero: [0; 8],
        };
        let len = size_of::<sockaddr_in>() as socklen_t;
        // SAFETY: the address has so many bytes.
        assert_eq!(unsafe { (self.0.bind)(null_mut(), fd, (&raw const address).cast(), len) }, 0);
        assert_eq!((self.0.listen)(null_mut(), fd, 4), 0);
        assert_eq!((self.0.fcntl)(null_mut(), fd, libc::F_SETFL, c_long::from(libc::O_NONBLOCK)), 0);
        assert_eq!((self.0.fcntl)(null_mut(), fd, libc::F_GETFL, 0), libc::O_RDWR | libc::O_NONBLOCK);
        fd
    }

    /// `setsockopt` of a number: the error's number, zero for none.
    fn set(&self, fd: c_int, level: c_int, name: c_int) -> c_int {
        let value: c_int = 1;
        let len = size_of_val(&value) as socklen_t;
        // SAFETY: the value has so many bytes.
        error_of(unsafe { (self.0.setsockopt)(null_mut(), fd, level, name, (&raw const value).cast(), len) })
    }

    /// `getsockopt` with so many bytes of room, as it says: the error's number, what stands in
    /// eight bytes then, and the length that was told.
    fn get(&self, fd: c_int, level: c_int, name: c_int, room: c_int) -> (c_int, [u8; 8], c_int) {
        let (mut bytes, mut len) = ([0x55; 8], room.cast_unsigned());
        let at = bytes.as_mut_ptr().cast();
        // SAFETY: there is room for eight bytes, which is no less than a sound length says.
        let told = unsafe { (self.0.getsockopt)(null_mut(), fd, level, name, at, &raw mut len) };
        (error_of(told), bytes, len.cast_signed())
    }

    /// A packet comes.
    fn arrive(&self, header: &Repr, payload: &[u8]) {
        let bytes = packet(header, payload);
        // SAFETY: the packet has so many bytes.
        assert_eq!(unsafe { (self.0.netdev_send)(null_mut(), bytes.as_ptr().cast(), bytes.len()) }, 0);
    }

    /// The next packet that was sent.
    fn sent(&self) -> (Repr, Vec<u8>) {
        let mut bytes = vec![0; 2048];
        let (mut len, mut time_us) = (bytes.len(), 0);
        let at = bytes.as_mut_ptr().cast();
        // SAFETY: there is room for so many bytes, and for both numbers.
        let told = unsafe { (self.0.netdev_receive)(null_mut(), at, &raw mut len, &raw mut time_us) };
        assert!(told == 0 && len > 0 && time_us > 0, "no packet");
        let ip = ipv4::Packet::new_checked(&bytes[..len]).expect("a whole packet");
        let segment = Segment::new_checked(ip.payload()).expect("a whole segment");
        (Repr::parse(&segment).expect("sound options"), segment.payload().to_vec())
    }

    /// `accept`: a descriptor, or the error's number, and the other side's address.
    fn accept(&self, fd: c_int) -> (Result<c_int, c_int>, Ipv4Addr, u16) {
        let mut address = MaybeUninit::<sockaddr_in>::zeroed();
        let mut len = size_of::<sockaddr_in>() as socklen_t;
        // SAFETY: there is room for the address; any bytes are one.
        let (got, address) = unsafe {
            let got = (self.0.accept)(null_mut(), fd, address.as_mut_ptr().cast(), &raw mut len);
            (got, address.assume_init())
        };
        let got = if got < 0 { Err(error_of(got)) } else { Ok(got) };
        (got, u32::from_be(address.sin_addr.s_addr).into(), u16::from_be(address.sin_port))
    }

    fn read(&self, fd: c_int) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        // SAFETY: there is room for so many bytes.
        let len = unsafe { (self.0.read)(null_mut(), fd, bytes.as_mut_ptr().cast(), bytes.len()) };
        bytes.truncate(usize::try_from(len).expect("something came"));
        bytes
    }

    fn write(&self, fd: c_int, bytes: &[u8]) {
        // SAFETY: there are so many bytes.
        let len = unsafe { (self.0.write)(null_mut(), fd, bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(usize::try_from(len), Ok(bytes.len()));
    }

    fn time_us(&self) -> i64 {
        let mut time = timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: there is a place for the time.
        assert_eq!(unsafe { (self.0.gettimeofday)(null_mut(), &raw mut time, null_mut()) }, 0);
        time.tv_sec * 1_000_000 + time.tv_usec
    }
}

/// The number of the error that a call told; zero for none.
fn error_of(told: c_int) -> c_int {
    if told < 0 { Error::last_os_error().raw_os_error().expect("a number") } else { 0 }
}

fn header(flags: Flags, sequence: u32, acknowledgement: u32) -> Repr {
    Repr {
        src_port: THEIR_PORT,
        dst_port: OUR_PORT,
        sequence,
        acknowledgement,
        flags,
        window: 10_000,
        ..Repr::default()
    }
}

fn packet(header: &Repr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header.header_len() + payload.len()];
    bytes[header.header_len()..].copy_from_slice(payload);
    let mut segment = Segment::new_unchecked(&mut bytes[..]);
    header.emit(&mut segment);
    segment.fill_checksum(Addresses::V4 { src: THEIRS, dst: OURS });
    let mut whole = vec![0; ipv4::HEADER_LEN];
    ipv4::Repr::between(THEIRS, OURS, Protocol::TCP, bytes.len())
        .emit(&mut ipv4::Packet::new_unchecked(&mut whole[..]));
    whole.extend(bytes);
    whole
}

/// Calls something while no file can be opened; what is open stays.
fn without_descriptors<T>(call: impl FnOnce() -> T) -> T {
    let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: there is a place for the limits.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    let none = rlimit { rlim_cur: 0, ..limit };
    // SAFETY: the limits are read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
    let result = call();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    result
}

/// What replaces functions of the C library does so in packetdrill's process only.
fn the_c_library_has_its_functions() {
    // SAFETY: the text ends with a zero.
    assert_eq!(unsafe { libc::system(c"true".as_ptr()) }, 0);
}

/// The program has one host, whose time passes on one thread: one test calls it.
#[test]
fn a_connection_goes_through_the_table() {
    let drill = Drill::new();
    the_c_library_has_its_functions();
    let listener = drill.listen();
    options_are_told_and_refused(&drill, listener);
    assert_eq!(drill.accept(listener).0, Err(libc::EAGAIN));
    let syn = Repr { max_segment: Some(1000), ..header(Flags::SYN, 100, 0) };
    drill.arrive(&syn, &[]);
    let (answer, _) = drill.sent();
    assert_eq!((answer.flags, answer.acknowledgement), (Flags::SYN | Flags::ACK, 101));
    let next = answer.sequence.wrapping_add(1);
    drill.arrive(&header(Flags::ACK, 101, next), &[]);
    // Who gets no descriptor finds the connection again.
    assert_eq!(without_descriptors(|| drill.accept(listener).0), Err(libc::EMFILE));
    let (fd, address, port) = drill.accept(listener);
    assert_eq!((address, port), (THEIRS, THEIR_PORT));
    let fd = fd.expect("a connection waits");
    assert_eq!(drill.accept(listener).0, Err(libc::EAGAIN));
    drill.arrive(&header(Flags::ACK | Flags::PSH, 101, next), b"ping");
    assert_eq!(drill.sent().0.acknowledgement, 105);
    assert_eq!(drill.read(fd), b"ping");
    drill.write(fd, b"pong");
    let (data, payload) = drill.sent();
    assert_eq!((data.sequence, &payload[..]), (next, &b"pong"[..]));
    drill.arrive(&header(Flags::ACK, 105, next.wrapping_add(4)), &[]);
    urgent_bytes_are_marks(&drill, fd, next.wrapping_add(4));
    let before_us = drill.time_us();
    assert_eq!((drill.0.usleep)(null_mut(), 1000), 0);
    assert!(drill.time_us() - before_us >= 1000);
    assert_eq!((drill.0.close)(null_mut(), fd), 0);
    assert_eq!(drill.sent().0.flags, Flags::ACK | Flags::FIN);
    assert_eq!((drill.0.close)(null_mut(), listener), 0);
    assert_eq!(drill.accept(listener).0, Err(libc::EBADF));
}

/// Of seven bytes the fourth is urgent: it is told of by itself, and the stream ends in front of it
/// once, as it moves into a pipe and as it is read.
fn urgent_bytes_are_marks(drill: &Drill, fd: c_int, next: u32) {
    let mut ends = [0; 2];
    // SAFETY: there are two places.
    assert_eq!(unsafe { (drill.0.pipe)(null_mut(), ends.as_mut_ptr()) }, 0);
    let urgent = Repr { urgent: 4, ..header(Flags::ACK | Flags::URG, 105, next) };
    drill.arrive(&urgent, b"abcdefg");
    assert_eq!(drill.sent().0.acknowledgement, 112);
    let splice = |len| (drill.0.splice)(null_mut(), fd, null_mut(), ends[1], null_mut(), len, 0);
    assert_eq!((splice(2), splice(9), splice(9)), (2, 1, 0));
    let mut byte = 0_u8;
    let oob = libc::MSG_OOB;
    // SAFETY: there is room for one byte.
    let mut read_urgent = || unsafe { (drill.0.recv)(null_mut(), fd, (&raw mut byte).cast(), 1, oob) };
    assert_eq!((read_urgent(), error_of(read_urgent() as c_int)), (1, libc::EINVAL), "once only");
    assert_eq!(byte, b'd');
    assert_eq!((drill.read(fd), drill.read(ends[0])), (b"efg".to_vec(), b"abc".to_vec()));
    ends.iter().for_each(|end| assert_eq!((drill.0.close)(null_mut(), *end), 0));
}

fn options_are_told_and_refused(drill: &Drill, fd: c_int) {
    assert_eq!(drill.set(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR), 0);
    for (level, name) in [
        (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
        (libc::SOL_SOCKET, libc::SO_PASSCRED),
        (libc::IPPROTO_IP, libc::IP_OPTIONS),
        (libc::IPPROTO_TCP, libc::TCP_REPAIR),
        (libc::IPPROTO_TCP, libc::TCP_MD5SIG),
    ] {
        assert_eq!(drill.set(fd, level, name), libc::ENOPROTOOPT, "{level} {name}");
    }
    assert_eq!(drill.set(fd, libc::SOL_SOCKET, libc::SO_LINGER), libc::EINVAL, "it has two numbers");
    for (level, name, usual) in [
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 7200),
        (libc::SOL_SOCKET, libc::SO_PRIORITY, 0),
        (libc::IPPROTO_IP, libc::IP_TTL, 64),
    ] {
        let value = || drill.get(fd, level, name, 4).1.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
        assert_eq!(value(), Some(usual), "{level} {name}");
        assert_eq!((drill.set(fd, level, name), value()), (0, Some(1)), "{level} {name}");
    }
    assert_eq!(drill.set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), 0);
    let mut told = [0x55; 8];
    // A negative length, which as a number of bytes would be 4 GiB.
    let refused = drill.get(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, -1);
    assert_eq!(refused, (libc::EINVAL, told, -1));
    told[..4].copy_from_slice(&1_i32.to_ne_bytes());
    assert_eq!(drill.get(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 8), (0, told, 4));
}

/// The order of `struct packetdrill_interface` in packetdrill's header, of which the names below
/// are a second copy.
#[test]
fn the_table_has_packetdrills_order() {
    macro_rules! offsets {
        ($($name:ident)*) => { [$(offset_of!(Interface, $name)),*] };
    }
    let offsets = offsets![
        userdata free socket bind listen accept connect
        read readv recv recvfrom recvmsg write writev send sendto sendmsg
        fcntl ioctl close shutdown getsockopt setsockopt poll
        netdev_send netdev_receive usleep gettimeofday
        epoll_create epoll_ctl epoll_wait pipe splice
    ];
    let places: Vec<usize> = (0..offsets.len()).map(|n| n * size_of::<usize>()).collect();
    assert_eq!((&offsets[..], size_of::<Interface>()), (&places[..], size_of_val(&offsets)));
}
