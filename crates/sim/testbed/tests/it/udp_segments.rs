//! Packets that are cut into UDP datagrams, by each driver on its model and in software: each datagram
//! has lengths, an IPv4 identification and a checksum of its own (Linux's UDP_SEGMENT, udp(7)); and what
//! devices make of a packet, TCP's segments too, is byte for byte what software makes of it.

use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crate::common::frames::{self, Sums, is_right, payload, tagged};
use crate::common::limit::Limit;
use crate::common::probe::Ports;
use crate::common::promises::Rig;
use crate::common::stub_82576::Served82576;
use crate::common::stub_82576_vf::honest;
use crate::common::virtio::{self, RINGS, model, offer, small_rings};
use crate::common::{self, contents, i40e, i40e_vf, ixgbe_vf};
use bus::Pci;
use bus::vfio_user::client::Client;
use memory::{Backing, Batch, Dma, Packet, Pool, TxOffload};
use port::{Feature, Offload, Options, Port as _, Support, TxQueue as _, software};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use regs::virtio::feature::net;
use testbed::i40e::DEVICE_X722;

const IP: u8 = TxOffload::IP_CHECKSUM;
const UDP: u8 = TxOffload::UDP_CHECKSUM;
const TCP: u8 = TxOffload::TCP_CHECKSUM;
const V6: u8 = TxOffload::IPV6;
const CUT: u8 = TxOffload::SEGMENT;
/// The tag of frames that have one.
const VLAN: u16 = 0x4009;

/// Two ports, of which the first sends to the second, which lets [`VLAN`] in.
trait Ends: Sized {
    fn pool(&mut self) -> &mut Pool;
    fn cross(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<Packet>;
    /// Packets that the first port dropped.
    fn unsendable(&mut self) -> u64;
    fn finish(self);
}

impl<B: Ports> Ends for Rig<B> {
    fn pool(&mut self) -> &mut Pool {
        self.ports.parts().2
    }

    fn cross(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<Packet> {
        Rig::cross(self, bytes, offload)
    }

    fn unsendable(&mut self) -> u64 {
        self.ports.parts().1[0].stats().unsendable
    }

    fn finish(self) {
        Rig::finish(self);
    }
}

impl Ends for virtio::Bench {
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn cross(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<Packet> {
        virtio::Bench::cross(self, bytes, offload)
    }

    fn unsendable(&mut self) -> u64 {
        self.sides[0].tx[0].stats().unsendable
    }

    fn finish(self) {
        virtio::Bench::finish(self);
    }
}

fn intel<B: Ports>() -> Rig<B> {
    let mut rig = Rig::<B>::open(&Options::default());
    rig.let_in(VLAN & 0xFFF);
    rig
}

fn over_virtio(ring: u64, without: u64) -> virtio::Bench {
    virtio::Bench::pair(&model(offer(ring, without)), &Options { tx_checksum: Offload::On, ..small_rings() })
}

/// A packet to be cut, and what it asks for.
#[derive(Debug, Clone)]
struct Long {
    is_v6: bool,
    is_tcp: bool,
    is_tagged: bool,
    len: usize,
    size: u16,
}

impl Long {
    fn headers(&self) -> usize {
        14 + if self.is_v6 { 40 } else { 20 } + if self.is_tcp { 20 } else { 8 }
    }

    fn frame(&self) -> Vec<u8> {
        let build = match (self.is_tcp, self.is_v6) {
            (false, false) => frames::udp4,
            (false, true) => frames::udp6,
            (true, false) => frames::tcp4,
            (true, true) => frames::tcp6,
        };
        let mut frame = build(&payload(self.len), Sums::PseudoNoLength);
        frame.truncate(self.headers() + self.len); // padding is no payload
        frame
    }

    fn asked(&self) -> TxOffload {
        let tag = if self.is_tagged { TxOffload::VLAN } else { 0 };
        TxOffload {
            flags: CUT | tag | if self.is_tcp { TCP } else { UDP } | if self.is_v6 { V6 } else { IP },
            l2_len: 14,
            l3_len: if self.is_v6 { 40 } else { 20 },
            l4_len: if self.is_tcp { 20 } else { 8 },
            segment_size: self.size,
            vlan: if self.is_tagged { VLAN } else { 0 },
        }
    }
}

/// Checks what arrives of a packet that is cut into datagrams, against the RFCs.
fn cuts(ends: &mut impl Ends, long: &Long) {
    let (bytes, packets) = (payload(long.len), ends.cross(&long.frame(), long.asked()));
    let pieces: Vec<_> = bytes.chunks(long.size.into()).collect();
    assert_eq!(packets.len(), pieces.len(), "{long:?}");
    for (n, (packet, piece)) in packets.iter().zip(pieces).enumerate() {
        let mut frame = contents(packet);
        if long.is_tagged {
            assert_eq!(frame, tagged(&[&frame[..12], &frame[16..]].concat(), VLAN), "{long:?}: {n}");
            frame.drain(12..16);
        }
        assert!(is_right(&frame), "{long:?}: checksums of {n}");
        let (l4, be16) = (long.headers() - 8, |at| u16::from_be_bytes([frame[at], frame[at + 1]]));
        assert_eq!(be16(l4 + 4), 8 + piece.len() as u16, "{long:?}: the length of {n}");
        assert_ne!(be16(l4 + 6), 0, "each has a checksum");
        if !long.is_v6 {
            assert_eq!(be16(16), 28 + piece.len() as u16, "{long:?}");
            assert_eq!(be16(18), 0x7FFE_u16.wrapping_add(n as u16), "{long:?}: its identification");
        }
        assert_eq!(&frame[l4 + 8..][..piece.len()], piece, "{long:?}");
    }
}

/// Sizes that divide the payload and that do not, over both versions of IP, with and without a tag.
fn cuts_into_datagrams(mut ends: impl Ends) {
    for (len, size) in [(5000, 300), (2880, 1440), (2881, 1440), (100, 1400), (8191, 256)] {
        for flags in 0..4 {
            let (is_v6, is_tagged) = (flags & 1 != 0, flags & 2 != 0);
            cuts(&mut ends, &Long { is_v6, is_tcp: false, is_tagged, len, size });
        }
    }
    wrong_ones_are_dropped(&mut ends);
    ends.finish();
}

/// What cannot be cut is counted, and stops nobody.
fn wrong_ones_are_dropped(ends: &mut impl Ends) {
    let long = Long { is_v6: false, is_tcp: false, is_tagged: false, len: 1000, size: 300 };
    let asked = long.asked();
    let wrong = [
        TxOffload { segment_size: 0, ..asked },
        TxOffload { l4_len: 0, ..asked },
        TxOffload { l4_len: 20, ..asked }, // UDP has no options
        TxOffload { l3_len: 16, ..asked },
        TxOffload { l2_len: 254, l3_len: 252, ..asked }, // nothing but headers
        TxOffload { l4_len: 220, l3_len: 252, ..asked },
        TxOffload { flags: asked.flags | TxOffload::TUNNEL, ..asked },
        TxOffload { flags: asked.flags | TCP, ..asked }, // TCP, whose header is longer
    ];
    for offload in wrong {
        let (before, frame) = (ends.unsendable(), &long.frame()[..500]);
        assert!(ends.cross(frame, offload).is_empty(), "{offload:?}");
        assert_eq!(ends.unsendable(), before + 1, "{offload:?}");
        cuts(ends, &long);
    }
}

/// Any packet to be cut into pieces of at least so many bytes.
fn any_long(least: u16) -> impl Strategy<Value = Long> {
    let size = prop_oneof![least..=1440_u16, Just(least), Just(1440_u16)];
    (any::<[bool; 3]>(), 1..9000_usize, size).prop_map(|([is_v6, is_tcp, is_tagged], len, size)| Long {
        is_v6,
        is_tcp,
        is_tagged,
        len,
        size,
    })
}

/// What software makes of a packet.
fn in_software(ends: &mut impl Ends, long: &Long) -> Vec<Vec<u8>> {
    let pool = ends.pool();
    let mut packet = virtio::packet(pool, &long.frame(), long.asked());
    assert!(!long.is_tagged || software::insert_tag(&mut packet));
    let mut made = vec![];
    let cut = software::cut(&packet, pool, |pool, piece| {
        let mut bytes = contents(&piece);
        // A NIC pads what is short, before it puts a tag in.
        bytes.resize(bytes.len().max(if long.is_tagged { 64 } else { 60 }), 0);
        made.push(bytes);
        pool.free(piece);
    });
    pool.free(packet);
    assert!(cut.is_whole, "{long:?}");
    made
}

/// A device makes of any packet what software makes of it.
fn does_as_software(ends: impl Ends, least: u16) {
    let ends = RefCell::new(ends);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(96) });
    let outcome = runner.run(&any_long(least), |long| {
        let wanted = in_software(&mut *ends.borrow_mut(), &long);
        let packets = ends.borrow_mut().cross(&long.frame(), long.asked());
        let mut got: Vec<_> = packets.iter().map(contents).collect();
        let short = if long.is_tagged { 64 } else { 60 };
        // virtio pads nothing.
        got.iter_mut().for_each(|frame| frame.resize(frame.len().max(short), 0));
        prop_assert_eq!(got, wanted);
        Ok(())
    });
    ends.into_inner().finish();
    outcome.unwrap();
}

#[test]
fn the_82599_cuts_into_datagrams() {
    cuts_into_datagrams(intel::<common::Bench>());
}

#[test]
fn the_82599_does_as_software() {
    does_as_software(intel::<common::Bench>(), 64);
}

#[test]
fn a_virtual_function_of_the_82599_cuts_into_datagrams() {
    cuts_into_datagrams(intel::<ixgbe_vf::Pair>());
}

#[test]
fn a_virtual_function_of_the_82599_does_as_software() {
    does_as_software(intel::<ixgbe_vf::Pair>(), 64);
}

#[test]
fn the_xl710_cuts_into_datagrams() {
    cuts_into_datagrams(intel::<i40e::Bench>());
}

#[test]
fn the_xl710_does_as_software() {
    does_as_software(intel::<i40e::Bench>(), 256);
}

#[test]
fn the_x722_cuts_into_datagrams() {
    i40e::on(DEVICE_X722, || cuts_into_datagrams(intel::<i40e::Bench>()));
}

#[test]
fn a_virtual_function_of_the_xl710_cuts_into_datagrams() {
    cuts_into_datagrams(intel::<i40e_vf::Pair>());
}

#[test]
fn a_virtual_function_of_the_x722_cuts_into_datagrams() {
    i40e::on(DEVICE_X722, || cuts_into_datagrams(intel::<i40e_vf::Pair>()));
}

#[test]
fn a_virtual_function_of_the_xl710_does_as_software() {
    does_as_software(intel::<i40e_vf::Pair>(), 256);
}

#[test]
fn virtio_cuts_into_datagrams() {
    for (name, ring) in RINGS {
        println!("{name}");
        let bench = over_virtio(ring, 0);
        assert!(bench.sides[0].device.capabilities().has(Feature::UdpSegmentation));
        cuts_into_datagrams(bench);
    }
}

#[test]
fn virtio_does_as_software() {
    does_as_software(over_virtio(0, 0), 48);
}

/// HOST_USO is of both versions of IP, and none of TCP's features.
#[test]
fn a_virtio_device_that_cuts_no_datagrams_is_not_asked_to() {
    let long = Long { is_v6: false, is_tcp: false, is_tagged: false, len: 1000, size: 300 };
    for (without, datagrams, segments) in [
        (net::HOST_USO, false, true),
        (net::CSUM, false, false),
        (net::HOST_TSO4 | net::HOST_TSO6, true, false),
    ] {
        let mut bench = over_virtio(0, without);
        let can = bench.sides[0].device.capabilities();
        let has = [Feature::UdpSegmentation, Feature::Segmentation].map(|one| can.has(one));
        assert_eq!(has, [datagrams, segments]);
        assert_eq!(can.support(Feature::UdpSegmentation) == Support::No, !datagrams);
        let came = [long.clone(), Long { is_tcp: true, ..long.clone() }]
            .map(|long| !bench.cross(&long.frame(), long.asked()).is_empty());
        assert_eq!(came, [datagrams, segments]);
        let refused = came.iter().filter(|came| !**came).count() as u64;
        assert_eq!(bench.counter(0, "tx_offload"), refused);
        bench.finish();
    }
}

/// What a driver tells an 82576 of a packet that is to be cut, descriptor by descriptor; and what its
/// datasheet (revision 2.87, 7.2.2.2 and 7.2.2.3) wants to be told.
fn tells(stub: &Served82576) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let serving = stub.serve(theirs);
    let client = Client::over(ours, "vfio-user:stub".to_owned(), Duration::from_secs(60)).unwrap();
    let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
    let mut pool = Pool::new(&dma, 300).unwrap();
    let options = Options { rx_ring: 64, tx_ring: 64, link_wait_ms: 0, ..Options::default() };
    let mut port = ports::open(Pci::new(Arc::new(client)), &dma, options).unwrap();
    let mut tx = port.tx_queue(0).unwrap();
    let long = Long { is_v6: false, is_tcp: false, is_tagged: true, len: 1000, size: 300 };
    let mut batch = Batch::default();
    batch.push(virtio::packet(&mut pool, &long.frame(), long.asked()));
    assert_eq!(tx.send(&mut pool, &mut batch), 1);
    let (mut told, mut limit) = (vec![], Limit::rounds(1000, "two descriptors"));
    while told.len() < 2 {
        limit.check();
        stub.step();
        told.extend(stub.take_told());
    }
    // IPLEN, MACLEN, VLAN; IPV4, L4T of UDP is 0, DTYP 2, DEXT, L4LEN, MSS.
    let context = [20 | 14 << 9 | 0x4009 << 16, 1 << 10 | 2 << 20 | 1 << 29 | 8 << 40 | 300 << 48];
    assert_eq!(told[0], context, "{told:x?}");
    // DTALEN, DTYP 3, EOP, IFCS, RS, DEXT, VLE, TSE; IXSM and TXSM, and PAYLEN.
    let command = 1042 | 3 << 20 | 1 << 24 | 1 << 25 | 1 << 27 | 1 << 29 | 1 << 30 | 1 << 31;
    assert_eq!(told[1][1], command | 3 << 40 | 1000 << 46, "{told:x?}");
    tx.clean(&mut pool);
    drop((tx, port));
    drop(serving);
    assert_eq!(pool.available(), pool.capacity(), "every buffer is back");
}

#[test]
fn an_82576_is_told_of_datagrams() {
    tells(&Served82576::new());
}

#[test]
fn a_virtual_function_of_an_82576_is_told_of_datagrams() {
    tells(&Served82576::vf(regs::igbvf::DEVICE, honest));
}
