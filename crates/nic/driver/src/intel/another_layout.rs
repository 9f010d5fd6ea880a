//! The queues over the descriptors of another family: Intel's XL710 (datasheet
//! 332464, 8.3.2 and 8.4.2), whose length stands from bit 38 on, whose receive
//! descriptors have two or four words, and which overwrites a transmit descriptor's
//! type when it is done. The test is the device, on a chip that has no ring registers.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bus::Pci;
use memory::{Batch, Checksum, Dma, Pool, TxOffload};
use port::{Counter, Link, Options, RxQueue as _, TxQueue as _};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{ipv4, ipv6, vlan};

use super::chip::{Chip, ChipInfo, Device, FilterTables, Queues};
use super::interrupt::{Signal, Write};
use super::layout::RxLayout;
use super::{RxQueue, TxQueue};
use crate::Result;
use crate::i40e::{RxXl710, RxXl710Long, TxXl710};
use crate::igb::tests::{Registers, StubFault};

/// The lengths in the data descriptor of a tunnel's packet, which the XL710's layout does not
/// send yet: those of the packet inside, but MACLEN is the outer Ethernet header's.
fn tunnel_lengths(offload: TxOffload, frame: &[u8]) -> u64 {
    let outer = OuterHeaders::of(frame);
    let l2_len = outer.map_or(u64::from(offload.l2_len), |outer| outer.l2_len as u64);
    (l2_len / 2) << 16 | u64::from(offload.l3_len / 4) << 23
}

/// The context descriptor that stands before it.
fn tunnel_context(offload: TxOffload, frame: &[u8]) -> Option<[u64; 2]> {
    let outer = OuterHeaders::of(frame)?;
    Some([outer.context(usize::from(offload.l2_len)), 1])
}

/// What the context of a tunnel's packet says of the headers outside (8.4.2.2.1), which is
/// read from the headers.
#[derive(Clone, Copy)]
struct OuterHeaders {
    l2_len: usize,
    l3_len: usize,
    /// EIPT: 1 is IPv6, 2 is IPv4 whose checksum is there.
    version: u64,
    /// L4TUNT: 1 is UDP, 2 is GRE, 0 is neither.
    carrier: u64,
}

impl OuterHeaders {
    fn of(frame: &[u8]) -> Option<OuterHeaders> {
        let (mut ethertype, mut l2_len) = (ethernet::Header::of(frame)?.ethertype(), ethernet::HEADER_LEN);
        while ethertype.is_tag() {
            ethertype = vlan::Header::of(frame.get(l2_len..)?)?.ethertype();
            l2_len += vlan::HEADER_LEN;
        }
        let packet = frame.get(l2_len..)?;
        let (l3_len, protocol, version) = match ethertype {
            EtherType::IPV4 => {
                let header = ipv4::Header::of(packet)?;
                (header.header_len(), header.protocol(), 2)
            }
            EtherType::IPV6 => (ipv6::HEADER_LEN, ipv6::Header::of(packet)?.next_header(), 1),
            _ => return None,
        };
        let carrier = match protocol {
            Protocol::UDP => 1,
            Protocol::GRE => 2,
            _ => 0,
        };
        Some(OuterHeaders { l2_len, l3_len, version, carrier })
    }

    /// EIPT, EIPLEN in words of four bytes, L4TUNT, and L4TUNLEN in words of two: from the
    /// outer IP header's end to the inner network header.
    fn context(self, inner: usize) -> u64 {
        let between = inner.saturating_sub(self.l2_len + self.l3_len) as u64 / 2;
        self.version | (self.l3_len as u64 / 4) << 2 | self.carrier << 9 | between << 12
    }
}

/// Three vectors behind the one for all other causes, and no feature.
static INFO: ChipInfo = ChipInfo { vectors: 1..4, features: &[], ..*<crate::igb::Chip as Chip>::INFO };

/// A chip of which only queues are used.
struct Other<R>(Device, std::marker::PhantomData<R>);

impl<R> Deref for Other<R> {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.0
    }
}

impl<R: Send + Sync> Queues for Other<R> {
    fn disable_rx(&self, _queue: usize) -> bool {
        true
    }

    fn disable_tx(&self, _queue: usize) -> bool {
        true
    }

    fn device(&self) -> &Device {
        self
    }
}

/// Its filters are no registers: a firmware has them.
impl<R> FilterTables for Other<R> {
    fn add_unicast(&self, _mac: [u8; 6]) -> Result<()> {
        Ok(())
    }

    fn remove_unicast(&self, _mac: [u8; 6]) -> Result<bool> {
        Ok(false)
    }

    fn set_multicast(&self, _addresses: &[[u8; 6]]) -> Result<()> {
        Ok(())
    }

    fn set_vlan(&self, _vlan: u16, _on: bool) -> Result<()> {
        Ok(())
    }

    fn set_vlan_filter(&self, _on: bool) -> Result<()> {
        Ok(())
    }

    fn set_broadcast(&self, _on: bool) -> Result<()> {
        Ok(())
    }
}

impl<R: RxLayout> Chip for Other<R> {
    type Rx = R;
    type Tx = TxXl710;
    const DRIVER: &'static str = "other";
    const INFO: &'static ChipInfo = &INFO;

    fn new(device: Device) -> Self {
        Other(device, std::marker::PhantomData)
    }

    fn set_receiving(&self, _on: bool) -> Result<()> {
        Ok(())
    }

    fn mac(&self) -> Result<[u8; 6]> {
        Ok([2; 6])
    }

    fn counters(&self) -> Vec<Counter> {
        vec![]
    }

    fn counter_names() -> Vec<&'static str> {
        vec![]
    }

    fn link(&self) -> Link {
        Link::DOWN
    }

    fn set_modes(&self, _unicast: bool, _multicast: bool) -> Result<()> {
        Ok(())
    }
}

fn chip<R: RxLayout>(dma: &Dma) -> Arc<Other<R>> {
    let pci = Pci::new(Registers::new(StubFault::None));
    let device = Device::attach(pci, dma, &INFO).expect("registers that keep what is written");
    Arc::new(Other::new(device))
}

/// Frames of one and of two buffers, and one with an error, on rings of either size.
fn received<R: RxLayout>() {
    let dma = Dma::new(memory::Options::default());
    let mut pool = Pool::new(&dma, 256).expect("memory");
    let options = Options { rx_ring: 64, max_frame: 9000, ..Options::default() };
    let mut queue: RxQueue<R> = RxQueue::new(&chip::<R>(&dma), 0, &options).expect("memory");
    assert_eq!(queue.ring.bytes() as usize, 64 * size_of::<R::Descriptor>());
    let mut batch = Batch::default();
    assert_eq!(queue.recv(&mut pool, &mut batch), 0, "nothing is done");
    assert_ne!(queue.ring.at(0)[0].load(Relaxed), 0, "and the ring is filled");
    let write = |n: u32, hash: u64, status: u64, len: u64| {
        queue.ring.at(n)[0].store(hash << 32, Relaxed);
        queue.ring.at(n)[1].store(status | len << 38, Relaxed);
    };
    // IPv4 and UDP, looked at and hashed.
    let udp = 0b1011 | 3 << 12 | 24 << 30;
    write(0, 0x1234_5678, udp, 60);
    write(1, 7, 0b0001, 2048);
    write(2, 9, udp | 1 << 22, 100);
    write(3, 1, 0b0011 | 1 << 19, 64);
    assert_eq!(queue.recv(&mut pool, &mut batch), 2);
    let [whole, chain] = [0, 1].map(|_| batch.pop_front().expect("received"));
    assert_eq!((whole.len(), whole.hash()), (60, Some(0x1234_5678)));
    assert_eq!((whole.ip_checksum(), whole.l4_checksum()), (Checksum::Good, Checksum::Good));
    assert_eq!((chain.total_len(), chain.hash(), chain.ip_checksum()), (2148, Some(9), Checksum::Bad));
    assert_eq!((queue.stats().packets, queue.stats().bad_descriptor), (2, 1), "the error is counted");
    pool.free(whole);
    pool.free(chain);
    drop(queue);
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn frames_come_from_descriptors_of_two_and_of_four_words() {
    received::<RxXl710>();
    received::<RxXl710Long>();
}

#[test]
fn queues_have_the_vectors_that_the_chip_has_for_them() {
    let registers = Registers::new(StubFault::None);
    let dma = Dma::new(memory::Options::default());
    let device = Device::attach(Pci::new(registers.clone()), &dma, &INFO).expect("registers");
    let write = |value| Write { register: device.bar.register(0x1C00), value };
    let signal = |queue| Signal::new(&device, queue, |vector| [write(vector as u32), write(0)]);
    let signals: Vec<Signal> = (0..3).map(|queue| signal(queue).expect("it has a vector")).collect();
    assert_eq!(signals.iter().map(|signal| signal.vector).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(registers.wired(), [1, 2, 3], "vector 0 is nobody's");
    assert!(signal(3).is_err(), "there is no other");
}

#[test]
fn packets_are_done_when_the_descriptor_has_another_type() {
    let dma = Dma::new(memory::Options::default());
    let mut pool = Pool::new(&dma, 256).expect("memory");
    let options = Options { tx_ring: 64, ..Options::default() };
    let chip = chip::<RxXl710>(&dma);
    let mut queue: TxQueue<TxXl710> = TxQueue::new(&chip, 0, &options).expect("memory");
    let mut batch = Batch::default();
    for offload in [
        TxOffload::default(),
        TxOffload { flags: TxOffload::UDP_CHECKSUM, l2_len: 14, l3_len: 20, ..TxOffload::default() },
    ] {
        let mut packet = pool.alloc().expect("a buffer");
        packet.copy_from(&[0; 60]).expect("it fits");
        packet.set_tx_offload(offload);
        batch.push(packet);
    }
    assert_eq!(queue.send(&mut pool, &mut batch), 2);
    let command = |n: u32| queue.ring.at(n)[1].load(Relaxed);
    let whole = 60 << 34 | 1 << 4 | 1 << 6;
    assert_eq!(command(0), whole);
    let checksum = 2 << 9 | 3 << 12 | 7 << 16 | 5 << 23 | 2 << 30;
    assert_eq!(command(1), whole | 1 << 5 | checksum, "the last one reports");
    assert_eq!(queue.clean(&mut pool), 2);
    queue.ring.at(1)[1].store(0xF, Relaxed);
    assert_eq!(queue.clean(&mut pool), 0);
    drop(queue);
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn each_packet_to_be_segmented_has_a_context_of_its_own() {
    let dma = Dma::new(memory::Options::default());
    let mut pool = Pool::new(&dma, 256).expect("memory");
    let options = Options { tx_ring: 64, ..Options::default() };
    let chip = chip::<RxXl710>(&dma);
    let mut queue: TxQueue<TxXl710> = TxQueue::new(&chip, 0, &options).expect("memory");
    let mut batch = Batch::default();
    for len in [1000, 1000, 600] {
        let mut packet = pool.alloc().expect("a buffer");
        packet.copy_from(&vec![0; len]).expect("it fits");
        packet.set_tx_offload(TxOffload {
            flags: TxOffload::SEGMENT,
            l2_len: 14,
            l3_len: 20,
            l4_len: 20,
            segment_size: 300,
            ..TxOffload::default()
        });
        batch.push(packet);
    }
    assert_eq!(queue.send(&mut pool, &mut batch), 3);
    let contexts = [0, 2, 4].map(|n| queue.ring.at(n)[1].load(Relaxed));
    assert_eq!(contexts, [946, 946, 546].map(|payload| 1 | 1 << 4 | payload << 30 | 300 << 50));
    drop(queue);
    assert_eq!(pool.available(), pool.capacity());
}

/// A checksum inside VXLAN over IPv4 and inside GRE over IPv6, behind a tag: the context has
/// what the headers say, and the data descriptor the lengths inside.
#[test]
fn a_tunnels_outer_headers_are_in_the_context() {
    let v4 = |protocol: u8, rest: usize| {
        let mut header = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol][..], &[0; 10]].concat();
        header.resize(20 + rest, 0);
        header
    };
    let mut v6 = vec![0x60, 0, 0, 0, 0, 0, 47, 64];
    v6.resize(40 + 4 + 40, 0);
    let vxlan = [&[2; 12][..], &[8, 0], &v4(17, 8 + 8 + 14 + 40)].concat();
    let gre = [&[2; 12][..], &[0x81, 0, 0, 7, 0x86, 0xDD], &v6].concat();
    let flags = TxOffload::UDP_CHECKSUM | TxOffload::TUNNEL;
    let asked = TxOffload { flags, l3_len: 20, ..TxOffload::default() };
    let cases = [
        (vxlan, 14 + 20 + 30, 2 | 5 << 2 | 1 << 9 | 15 << 12, 7 << 16 | 5 << 23),
        (gre, 18 + 40 + 4, 1 | 10 << 2 | 2 << 9 | 2 << 12, 9 << 16 | 5 << 23),
    ];
    for (frame, l2_len, low, command) in cases {
        let asked = TxOffload { l2_len, ..asked };
        assert_eq!(tunnel_context(asked, &frame), Some([low, 1]));
        assert_eq!(tunnel_lengths(asked, &frame), command);
    }
}
