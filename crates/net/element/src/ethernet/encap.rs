//! `EtherEncap`: an Ethernet header in front.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use graph::class::{Argument, Handlers, mandatory, setting};
use graph::element::kernel::Kernel;
use graph::value::{Ethernet, Value, parse_alone};
use graph::{Action, Class, Cx, Each, PerPacket, Refused};
use memory::Packet;
use memory::annotation::Header;
use port::Reason;
use wire::MacAddress;
use wire::ethernet::{self, EtherType};

use crate::kernels::each;

/// Bytes of an Ethernet header.
pub(super) const LEN: usize = ethernet::HEADER_LEN;

/// The arguments of a header that elements put in front of packets.
pub(super) const ETHERTYPE: Argument = mandatory("ETHERTYPE", "what the packets are: 0x0800 for IPv4");
pub(super) const SRC: Argument = mandatory("SRC", "the source address");
pub(super) const DST: Argument = mandatory("DST", "the destination address");

pub static CLASS: Class = Class {
    name: "EtherEncap",
    brief: "puts an Ethernet header in front of packets",
    doc: "All packets get the same addresses and type. ARPQuerier finds the destination for each instead.",
    arguments: &[ETHERTYPE, SRC, DST],
    handlers: &Handlers::<EtherEncap>(&[
        setting("src", "the source address", |encap| encap.header.src(), (1, "SRC")),
        setting("dst", "the destination address", |encap| encap.header.dst(), (2, "DST")),
        setting("ethertype", "what the packets are", |encap| encap.header.ethertype(), (0, "ETHERTYPE")),
        setting(
            "etht",
            "what the packets are; the old name",
            |encap: &EtherEncap| encap.header.ethertype(),
            (0, "ETHERTYPE"),
        )
        .marked("D"),
    ]),
    drops: &[Reason::NoHeadroom],
    live: true,
    example: "EtherEncap(0x0800, 0:0:c0:ae:67:ef, 0:0:c0:4b:ad:d3)",
    see: &["ARPQuerier", "EtherVLANEncap", "Strip", "EtherRewrite"],
    kernel: Kernel::Inside(each!(EtherEncap)),
    make: |_, conf| {
        let ethertype: u16 = conf.mandatory("ETHERTYPE")?;
        let src: Ethernet = conf.mandatory("SRC")?;
        let dst: Ethernet = conf.mandatory("DST")?;
        conf.complete()?;
        Ok(Each::boxed(EtherEncap { header: SharedHeader::new(header(dst, src, ethertype)) }))
    },
    ..Class::BASE
};

/// The header of a frame.
pub(super) fn header(dst: Ethernet, src: Ethernet, ethertype: u16) -> [u8; LEN] {
    let (dst, src) = (MacAddress(dst.0), MacAddress(src.0));
    ethernet::Header::between(dst, src, EtherType(ethertype)).into_inner()
}

/// A header that all threads' copies put in front, and that handlers may change. A
/// packet that goes by meanwhile may have half of the old one.
#[derive(Debug, Clone)]
pub(super) struct SharedHeader(Arc<[AtomicU64; 2]>);

impl SharedHeader {
    pub(super) fn new(bytes: [u8; LEN]) -> SharedHeader {
        let header = SharedHeader(Arc::default());
        header.set(bytes);
        header
    }

    #[inline(always)]
    pub(super) fn bytes(&self) -> [u8; LEN] {
        let [low, high] = [0, 1].map(|half: usize| self.0[half].load(Ordering::Relaxed));
        let whole = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        *whole.first_chunk().expect("a header is shorter")
    }

    /// Puts it in front of a packet.
    #[inline(always)]
    fn prepend(&self, packet: &mut Packet) -> bool {
        // Half by half as they are loaded: put together first, the header would be
        // read back across stores that are not in the cache yet.
        let low = self.0[0].load(Ordering::Relaxed);
        let high = self.0[1].load(Ordering::Relaxed);
        let Ok(room) = packet.push_front(LEN) else { return false };
        // Arrays are assigned, not copied by a call: the library's generic functions are only
        // inlined where the compiler puts them into the caller's unit.
        let Some((first, rest)) = room.split_first_chunk_mut() else { return false };
        let Some((middle, rest)) = rest.split_first_chunk_mut() else { return false };
        let Some(last) = rest.first_chunk_mut() else { return false };
        *first = low.to_le_bytes();
        *middle = (high as u32).to_le_bytes();
        *last = ((high >> 32) as u16).to_le_bytes();
        packet.set_header(Header::Link, 0);
        true
    }

    pub(super) fn set(&self, bytes: [u8; LEN]) {
        let mut padded = [0; 16];
        padded[..LEN].copy_from_slice(&bytes);
        let halves = padded.chunks_exact(8).zip(self.0.iter());
        for (bytes, half) in halves {
            half.store(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), Ordering::Relaxed);
        }
    }

    pub(super) fn src(&self) -> String {
        Ethernet(self.header().src().0).to_string()
    }

    pub(super) fn dst(&self) -> String {
        Ethernet(self.header().dst().0).to_string()
    }

    pub(super) fn ethertype(&self) -> String {
        self.header().ethertype().0.to_string()
    }

    pub(super) fn set_src(&self, value: &str) -> Result<(), Refused> {
        let src: Ethernet = parsed(value)?;
        self.change(|header| header.set_src(MacAddress(src.0)));
        Ok(())
    }

    pub(super) fn set_dst(&self, value: &str) -> Result<(), Refused> {
        let dst: Ethernet = parsed(value)?;
        self.change(|header| header.set_dst(MacAddress(dst.0)));
        Ok(())
    }

    pub(super) fn set_ethertype(&self, value: &str) -> Result<(), Refused> {
        let ethertype: u16 = parsed(value)?;
        self.change(|header| header.set_ethertype(EtherType(ethertype)));
        Ok(())
    }

    fn header(&self) -> ethernet::Header<[u8; LEN]> {
        ethernet::Header::new(self.bytes())
    }

    fn change(&self, change: impl FnOnce(&mut ethernet::Header<[u8; LEN]>)) {
        let mut header = self.header();
        change(&mut header);
        self.set(header.into_inner());
    }
}

/// What is written to a handler.
fn parsed<T: Value>(value: &str) -> Result<T, Refused> {
    parse_alone(value).map_err(Refused::from)
}

/// Puts a link header in front of a packet, and says that it is there.
#[inline(always)]
pub(super) fn prepend(packet: &mut Packet, header: &[u8]) -> bool {
    match packet.push_front(header.len()) {
        Ok(room) => {
            room.copy_from_slice(header);
            packet.set_header(Header::Link, 0);
            true
        }
        Err(_) => false,
    }
}

/// An `EtherEncap` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct EtherEncap {
    header: SharedHeader,
}

impl PerPacket for EtherEncap {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let done =
            self.header.prepend(packet) || cx.make_headroom(packet, LEN) && self.header.prepend(packet);
        if done { Action::ON } else { Action::drop(0) }
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        self.header.prepend(packet)
    }

    fn replicate(&self) -> Option<EtherEncap> {
        Some(self.clone())
    }
}
