//! `GetEtherAddress`, `SetEtherAddress`, `StoreEtherAddress`: Ethernet addresses
//! between packets and annotations. `EnsureEther`: a header where there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use graph::class::{Handlers, both, mandatory, positional, setting};
use graph::element::kernel::Kernel;
use graph::value::{Ethernet, parse_alone};
use graph::{Action, Class, Conf, ConfFault, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use wire::ethernet::{self, EtherType};

use super::encap::{self, LEN, prepend};
use crate::kernels::each;
use graph::annotation::{AnnotationOffset, PacketAnnotations};
use port::Reason;

/// From the packet.
pub static GET: Class = Class {
    name: "GetEtherAddress",
    brief: "copies an Ethernet address from the packet into an annotation",
    doc: "The six bytes at OFFSET become annotation ANNO. Packets that end before go to output 1, or are \
          dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        mandatory("ANNO", "which annotation: the number of its first byte"),
        mandatory("OFFSET", "where in the packet; `src` and `dst` are 6 and 0"),
    ],
    drops: &[Reason::TooShort],
    live: true,
    example: "GetEtherAddress(0, src)",
    see: &["SetEtherAddress", "StoreEtherAddress"],
    kernel: Kernel::Inside(each!(GetEtherAddress)),
    make: |_, conf| {
        let to: AnnotationOffset<6> = conf.mandatory("ANNO")?;
        let from = offset(conf)?;
        conf.complete()?;
        Ok(Each::boxed(GetEtherAddress { from, to }))
    },
    ..Class::BASE
};

pub static SET: Class = Class {
    name: "SetEtherAddress",
    brief: "sets an annotation to an Ethernet address",
    doc: "Annotation ANNO of each packet becomes ADDR.",
    arguments: &[
        mandatory("ADDR", "the address"),
        mandatory("ANNO", "which annotation: the number of its first byte"),
    ],
    handlers: &Handlers::<SetEtherAddress>(&[setting(
        "addr",
        "the address",
        |set| set.address.to_string(),
        (0, "ADDR"),
    )]),
    live: true,
    example: "SetEtherAddress(0:0:c0:ae:67:ef, 0)",
    see: &["GetEtherAddress", "StoreEtherAddress"],
    kernel: Kernel::Inside(each!(SetEtherAddress)),
    make: |_, conf| {
        let (address, to) = (conf.mandatory("ADDR")?, conf.mandatory("ANNO")?);
        conf.complete()?;
        Ok(Each::boxed(SetEtherAddress { address, to }))
    },
    ..Class::BASE
};

/// Into the packet.
pub static STORE: Class = Class {
    name: "StoreEtherAddress",
    brief: "writes an Ethernet address into the packet",
    doc: "The six bytes at OFFSET become ADDR. Packets that end before go to output 1, or are dropped.",
    arguments: &[
        mandatory("ADDR", "the address"),
        mandatory("OFFSET", "where in the packet; `src` and `dst` are 6 and 0"),
    ],
    handlers: &Handlers::<StoreEtherAddress>(&[both(
        "addr",
        "the address",
        |store| Ethernet(unpacked(store.address.load(Ordering::Relaxed))).to_string(),
        |store, _, value| {
            let address = parse_alone::<Ethernet>(value)?;
            store.address.store(packed(address), Ordering::Relaxed);
            Ok(())
        },
    )]),
    example: "StoreEtherAddress(0:0:c0:ae:67:ef, src)",
    see: &["GetEtherAddress", "EtherRewrite", "EtherEncap"],
    kernel: Kernel::Inside(each!(StoreEtherAddress)),
    make: |_, conf| {
        let address: Ethernet = conf.mandatory("ADDR")?;
        let at = offset(conf)?;
        conf.complete()?;
        Ok(Each::boxed(StoreEtherAddress { address: Arc::new(AtomicU64::new(packed(address))), at }))
    },
    ..GET
};

/// Where it is missing.
pub static ENSURE: Class = Class {
    name: "EnsureEther",
    brief: "puts an Ethernet header in front of IP packets that have none",
    doc: "Packets whose IP header was found, without an Ethernet header in front of it, get one: the one that \
          was stripped, where the type of one still stands in front of the packet, or else one of ETHERTYPE, \
          SRC and DST in place of what is in front of the IP header. All others stay as they are.",
    arguments: &[
        positional("ETHERTYPE", "what the packets are; 0x0800"),
        positional("SRC", "the source address; 1:1:1:1:1:1"),
        positional("DST", "the destination address; 2:2:2:2:2:2"),
    ],
    drops: &[Reason::NoHeadroom],
    example: "EnsureEther(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)",
    see: &["EtherEncap", "EtherRewrite"],
    kernel: Kernel::Inside(each!(EnsureEther)),
    make: |_, conf| {
        let ethertype: u16 = conf.positional("ETHERTYPE")?.unwrap_or(EtherType::IPV4.0);
        let src = conf.positional("SRC")?.unwrap_or(Ethernet([1; 6]));
        let dst = conf.positional("DST")?.unwrap_or(Ethernet([2; 6]));
        conf.complete()?;
        Ok(Each::boxed(EnsureEther { header: encap::header(dst, src, ethertype) }))
    },
    ..Class::BASE
};

/// Reads OFFSET: `src`, `dst` or a number of bytes into the packet.
fn offset(conf: &mut Conf<'_>) -> Result<usize, ConfFault> {
    let text: String = conf.mandatory("OFFSET")?;
    match text.trim().to_ascii_lowercase().as_str() {
        "src" => Ok(ethernet::offset::SRC),
        "dst" => Ok(ethernet::offset::DST),
        number => {
            let number = graph::value::unsigned(number).and_then(|n| u16::try_from(n).ok());
            number.map(usize::from).ok_or_else(|| ConfFault::new("type mismatch: bad OFFSET"))
        }
    }
}

fn packed(address: Ethernet) -> u64 {
    let [a, b, c, d, e, f] = address.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn unpacked(packed: u64) -> [u8; 6] {
    let [_, _, a, b, c, d, e, f] = packed.to_be_bytes();
    [a, b, c, d, e, f]
}

/// A `GetEtherAddress` element; [`GET`] says what it does.
#[derive(Debug, Clone)]
pub struct GetEtherAddress {
    from: usize,
    to: AnnotationOffset<6>,
}

impl PerPacket for GetEtherAddress {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let found = packet.get(self.from..).and_then(|rest| rest.first_chunk::<6>().copied());
        let Some(address) = found else { return Action::out_or_drop(1, 0) };
        packet.set_bytes_at(self.to.0, address);
        Action::ON
    }

    fn replicate(&self) -> Option<GetEtherAddress> {
        Some(self.clone())
    }
}

/// A `SetEtherAddress` element; [`SET`] says what it does.
#[derive(Debug, Clone)]
pub struct SetEtherAddress {
    address: Ethernet,
    to: AnnotationOffset<6>,
}

impl PerPacket for SetEtherAddress {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        packet.set_bytes_at(self.to.0, self.address.0);
        Action::ON
    }

    fn replicate(&self) -> Option<SetEtherAddress> {
        Some(self.clone())
    }
}

/// A `StoreEtherAddress` element; [`STORE`] says what it does.
#[derive(Debug, Clone)]
pub struct StoreEtherAddress {
    address: Arc<AtomicU64>,
    at: usize,
}

impl PerPacket for StoreEtherAddress {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let place = packet.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut::<6>());
        let Some(place) = place else { return Action::out_or_drop(1, 0) };
        *place = unpacked(self.address.load(Ordering::Relaxed)); // a lone value
        Action::ON
    }

    fn replicate(&self) -> Option<StoreEtherAddress> {
        Some(self.clone())
    }
}

/// An `EnsureEther` element; [`ENSURE`] says what it does.
#[derive(Debug, Clone)]
pub struct EnsureEther {
    header: [u8; LEN],
}

/// Whether there is the type of an IP packet at the end of an Ethernet header.
fn is_ether(header: &[u8]) -> bool {
    let header = ethernet::Header::of(header);
    header.is_some_and(|header| matches!(header.ethertype(), EtherType::IPV4 | EtherType::IPV6))
}

impl PerPacket for EnsureEther {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let network = packet.header_offset(Header::Network).filter(|at| *at >= 0);
        let Some(network) = network else { return Action::ON };
        if network == LEN as isize && is_ether(packet) {
            return Action::ON;
        }
        // What was stripped is still there.
        if network == 0 && packet.push_front(LEN).is_ok() {
            if is_ether(packet) {
                return Action::ON;
            }
            let back = packet.pull_front(LEN);
            debug_assert!(back.is_ok());
        }
        let is_there = cx.advance(packet, network) && cx.has_headroom(packet, LEN);
        if !is_there || !prepend(packet, &self.header) {
            return Action::drop(0);
        }
        Action::ON
    }

    fn replicate(&self) -> Option<EnsureEther> {
        Some(self.clone())
    }
}
