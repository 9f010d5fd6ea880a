//! `VLANEncap`, `VLANDecap`, `EtherVLANEncap`, `StripEtherVLANHeader`, `SetVLANAnno`:
//! VLAN tags (IEEE 802.1Q), in frames and annotations.

mod tag;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use graph::class::{Argument, Handlers, both, keyword, positional};
use graph::element::kernel::Kernel;
use graph::value::{Ethernet, parse_alone};
use graph::{Action, Class, Cx, Each, PerPacket, Refused};
use memory::Packet;
use memory::annotation::Header;
use wire::ethernet::{self, ADDRESSES_LEN, EtherType};
use wire::vlan;

use tag::{LAST, Tag, Tagging, id, native, pcp, tci};

use super::encap::{self, LEN, SharedHeader, prepend};
use crate::kernels::each;
use graph::annotation::{PacketAnnotations, VLAN_TCI};
use port::Reason;

const TCI: Argument = positional("VLAN_TCI", "the tag's 16 bits, or ANNO for what the annotation says");
const PCP: Argument = positional("VLAN_PCP", "the priority, 0 to 7; 0");
const ID: Argument = keyword("VLAN_ID", "the VLAN, 0 to 4095; 0");
const NATIVE: Argument = keyword("NATIVE_VLAN", "the VLAN whose frames have no tag, -1 for none; 0");

/// The class of what tags frames.
pub static ENCAP: Class = Class {
    name: "VLANEncap",
    brief: "puts a VLAN tag into Ethernet frames",
    doc: "Packets begin with their Ethernet header; four bytes are inserted behind its addresses. Frames of \
          the native VLAN get no tag.",
    arguments: &[TCI, PCP, ID, NATIVE, keyword("ETHERTYPE", "the tag's type; 0x8100")],
    handlers: &Handlers::<VlanEncap>(&[
        tci("the tag's 16 bits, or ANNO"),
        id(),
        pcp(),
        native(),
        both(
            "ethertype",
            "the tag's type",
            |encap: &VlanEncap| encap.ethertype().0.to_string(),
            |encap: &mut VlanEncap, cx, value| {
                encap.ethertype.store(parse_alone(value)?, Ordering::Relaxed);
                encap.tell(cx);
                Ok(())
            },
        ),
    ]),
    drops: &[Reason::NoHeadroom, Reason::TooShort],
    live: true,
    example: "VLANEncap(VLAN_ID 10)",
    see: &["VLANDecap", "EtherVLANEncap", "SetVLANAnno"],
    kernel: Kernel::Inside(each!(VlanEncap)),
    make: |_, conf| {
        let tag = Tag::parse(conf)?;
        let ethertype = conf.keyword("ETHERTYPE")?.unwrap_or(EtherType::VLAN.0);
        conf.complete()?;
        Ok(Each::boxed(VlanEncap { tag, ethertype: Arc::new(AtomicU16::new(ethertype)) }))
    },
    ..Class::BASE
};

/// The class of what takes tags away.
pub static DECAP: Class = Class {
    name: "VLANDecap",
    brief: "takes the VLAN tag out of Ethernet frames",
    doc: "Frames without a tag pass as they are. The annotation says which tag there was, or zero.",
    arguments: &[
        positional("ANNO", "whether the VLAN annotation is set; true"),
        keyword("ETHERTYPE", "the tag's type; 0x8100"),
    ],
    example: "VLANDecap",
    see: &["VLANEncap", "StripEtherVLANHeader"],
    kernel: Kernel::Inside(each!(VlanDecap)),
    make: |_, conf| {
        let annotate = conf.positional("ANNO")?.unwrap_or(true);
        let ethertype = conf.keyword("ETHERTYPE")?.map_or(EtherType::VLAN, EtherType);
        conf.complete()?;
        Ok(Each::boxed(VlanDecap { annotate, ethertype }))
    },
    ..Class::BASE
};

/// The class of what puts a whole header with a tag in front.
pub static ETHER_ENCAP: Class = Class {
    name: "EtherVLANEncap",
    brief: "puts an Ethernet header with a VLAN tag in front of packets",
    doc: "As EtherEncap and VLANEncap together.",
    arguments: &[encap::ETHERTYPE, encap::SRC, encap::DST, TCI, PCP, ID, NATIVE],
    handlers: &Handlers::<EtherVlanEncap>(&[
        both(
            "src",
            "the source address",
            |encap| encap.header.src(),
            |encap, cx, value| {
                encap.header.set_src(value)?;
                encap.tell(cx);
                Ok(())
            },
        ),
        both(
            "dst",
            "the destination address",
            |encap| encap.header.dst(),
            |encap, cx, value| {
                encap.header.set_dst(value)?;
                encap.tell(cx);
                Ok(())
            },
        ),
        both(
            "ethertype",
            "what the packets are",
            |encap| encap.header.ethertype(),
            |encap, cx, value| {
                encap.header.set_ethertype(value)?;
                encap.tell(cx);
                Ok(())
            },
        ),
        tci("the tag's 16 bits, or ANNO"),
        id(),
        pcp(),
        native(),
    ]),
    drops: &[Reason::NoHeadroom],
    live: true,
    example: "EtherVLANEncap(0x0800, 0:0:c0:ae:67:ef, 0:0:c0:4b:ad:d3, VLAN_ID 10)",
    see: &["EtherEncap", "VLANEncap", "StripEtherVLANHeader"],
    kernel: Kernel::Inside(each!(EtherVlanEncap)),
    make: |_, conf| {
        let ethertype: u16 = conf.mandatory("ETHERTYPE")?;
        let src: Ethernet = conf.mandatory("SRC")?;
        let dst: Ethernet = conf.mandatory("DST")?;
        let tag = Tag::parse(conf)?;
        conf.complete()?;
        let bytes = encap::header(dst, src, ethertype);
        Ok(Each::boxed(EtherVlanEncap { header: SharedHeader::new(bytes), tag }))
    },
    ..Class::BASE
};

/// The class of what takes a whole header with its tag away.
pub static STRIP: Class = Class {
    name: "StripEtherVLANHeader",
    brief: "strips the Ethernet header and its VLAN tag",
    doc: "The annotation says which tag there was, or the native VLAN. Where there is no native VLAN frames \
          without a tag go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[positional("NATIVE_VLAN", "the VLAN of frames without a tag, -1 for none; 0")],
    drops: &[Reason::NoTag, Reason::TooShort],
    live: true,
    example: "StripEtherVLANHeader",
    see: &["EtherVLANEncap", "VLANDecap", "Strip"],
    kernel: Kernel::Inside(each!(StripVlanHeader)),
    make: |_, conf| {
        let native = conf.positional::<i32>("NATIVE_VLAN")?.unwrap_or(0);
        conf.complete()?;
        if native > LAST as i32 {
            return Err("bad NATIVE_VLAN".into());
        }
        Ok(Each::boxed(StripHeader { native: u16::try_from(native).ok() }))
    },
    ..Class::BASE
};

/// The class of what sets the annotation.
pub static ANNOTATE: Class = Class {
    name: "SetVLANAnno",
    brief: "sets the VLAN annotation",
    doc: "VLANEncap(ANNO) and EtherVLANEncap(…, ANNO) go by it.",
    arguments: &[TCI, PCP, ID],
    handlers: &Handlers::<SetVlanAnno>(&[tci("the tag's 16 bits"), id(), pcp()]),
    live: true,
    example: "SetVLANAnno(VLAN_ID 10, VLAN_PCP 3)",
    see: &["VLANEncap", "EtherVLANEncap"],
    kernel: Kernel::Inside(each!(SetVlanAnno)),
    make: |_, conf| {
        let tci = Tag::parse_tci(conf)?;
        conf.complete()?;
        if tci == Tag::ANNOTATED {
            return Err("VLAN_TCI: expected integer".into());
        }
        Ok(Each::boxed(SetVlanAnno(Tag::new(tci, 0))))
    },
    ..Class::BASE
};

/// A `VLANEncap` element; [`ENCAP`] says what it does.
#[derive(Debug, Clone)]
pub struct VlanEncap {
    tag: Tag,
    /// The tag's type, which all threads' copies share.
    ethertype: Arc<AtomicU16>,
}

impl VlanEncap {
    #[inline(always)]
    fn ethertype(&self) -> EtherType {
        EtherType(self.ethertype.load(Ordering::Relaxed))
    }
}

impl Tagging for VlanEncap {
    fn tag(&self) -> &Tag {
        &self.tag
    }

    fn tell(&self, cx: &mut Cx<'_>) {
        let ethertype = match self.ethertype() {
            EtherType::VLAN => String::new(),
            EtherType(other) => format!(", ETHERTYPE {other:#06x}"),
        };
        cx.set_config(self.tag.shown() + &ethertype);
    }
}

impl PerPacket for VlanEncap {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(tci) = self.tag.of(packet) else {
            packet.set_header(Header::Link, 0);
            return Action::ON;
        };
        let Some(addresses) = packet.first_chunk::<ADDRESSES_LEN>().copied() else {
            return Action::drop(1);
        };
        if !cx.has_headroom(packet, vlan::HEADER_LEN) {
            return Action::drop(0);
        }
        let Ok(room) = packet.push_front(vlan::HEADER_LEN) else { return Action::drop(0) };
        debug_assert_eq!(room.len(), vlan::HEADER_LEN);
        if let Some(mut start) = vlan::Tagged::of_mut(packet) {
            start.set_addresses(addresses);
            start.set_tag(self.ethertype(), tci);
        }
        packet.set_header(Header::Link, 0);
        Action::ON
    }

    fn replicate(&self) -> Option<VlanEncap> {
        Some(self.clone())
    }
}

/// A `VLANDecap` element; [`DECAP`] says what it does.
#[derive(Debug, Clone)]
pub struct VlanDecap {
    annotate: bool,
    ethertype: EtherType,
}

impl PerPacket for VlanDecap {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let mut tci = 0;
        if let Some(mut start) = vlan::Tagged::of_mut(packet)
            && start.tag_type() == self.ethertype
        {
            tci = start.control();
            start.move_addresses_over_tag();
            let is_shorter = cx.advance(packet, vlan::HEADER_LEN as isize);
            debug_assert!(is_shorter);
        }
        packet.set_header(Header::Link, 0);
        packet.set_header(Header::Network, LEN);
        if self.annotate {
            packet.set_bytes_at(VLAN_TCI, tci.to_be_bytes());
        }
        Action::ON
    }

    fn replicate(&self) -> Option<VlanDecap> {
        Some(self.clone())
    }
}

/// An `EtherVLANEncap` element; [`ETHER_ENCAP`] says what it does.
#[derive(Debug, Clone)]
pub struct EtherVlanEncap {
    header: SharedHeader,
    tag: Tag,
}

impl Tagging for EtherVlanEncap {
    fn tag(&self) -> &Tag {
        &self.tag
    }

    fn tell(&self, cx: &mut Cx<'_>) {
        let (src, dst, ethertype) = (self.header.src(), self.header.dst(), self.header.ethertype());
        cx.set_config(format!("{ethertype}, {src}, {dst}, {}", self.tag.shown()));
    }
}

impl PerPacket for EtherVlanEncap {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if !cx.has_headroom(packet, LEN + vlan::HEADER_LEN) {
            return Action::drop(0);
        }
        let plain = self.header.bytes();
        let fits = match self.tag.of(packet) {
            None => prepend(packet, &plain),
            Some(tci) => {
                let (addresses, ethertype) = plain.split_at(ADDRESSES_LEN);
                let mut tagged = [0; LEN + vlan::HEADER_LEN];
                tagged[..ADDRESSES_LEN].copy_from_slice(addresses);
                tagged[vlan::TAGGED_LEN..].copy_from_slice(ethertype);
                if let Some(mut start) = vlan::Tagged::of_mut(&mut tagged) {
                    start.set_tag(EtherType::VLAN, tci);
                }
                prepend(packet, &tagged)
            }
        };
        if fits { Action::ON } else { Action::drop(0) }
    }

    fn replicate(&self) -> Option<EtherVlanEncap> {
        Some(self.clone())
    }
}

/// A `StripEtherVLANHeader` element; [`STRIP`] says what it does.
#[derive(Debug, Clone)]
pub struct StripHeader {
    native: Option<u16>,
}

impl PerPacket for StripHeader {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let header = ethernet::Header::of(packet);
        let tagged = header.is_some_and(|header| header.ethertype() == EtherType::VLAN);
        let (tci, length) = match self.native {
            _ if tagged => match vlan::Tagged::of(packet) {
                Some(start) => (start.control(), LEN + vlan::HEADER_LEN),
                None => return Action::drop(1),
            },
            Some(native) => (native, LEN),
            None => return Action::out_or_drop(1, 0),
        };
        packet.set_bytes_at(VLAN_TCI, tci.to_be_bytes());
        if cx.advance(packet, length as isize) { Action::ON } else { Action::drop(1) }
    }

    fn replicate(&self) -> Option<StripHeader> {
        Some(self.clone())
    }
}

/// A `SetVLANAnno` element; [`ANNOTATE`] says what it does.
#[derive(Debug, Clone)]
pub struct SetVlanAnno(Tag);

impl Tagging for SetVlanAnno {
    fn tag(&self) -> &Tag {
        &self.0
    }

    fn tell(&self, cx: &mut Cx<'_>) {
        cx.set_config(self.0.shown());
    }

    /// Refuses the word for what the annotation says already.
    fn check(value: &str) -> Result<(), Refused> {
        if value.trim() == "ANNO" { Err("VLAN_TCI: expected integer".into()) } else { Ok(()) }
    }
}

impl PerPacket for SetVlanAnno {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        packet.set_bytes_at(VLAN_TCI, (self.0.tci() as u16).to_be_bytes());
        Action::ON
    }

    fn replicate(&self) -> Option<SetVlanAnno> {
        Some(self.clone())
    }
}
