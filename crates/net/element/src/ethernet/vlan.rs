//! `VLANEncap`, `VLANDecap`, `EtherVLANEncap`, `StripEtherVLANHeader`, `SetVLANAnno`:
//! VLAN tags (IEEE 802.1Q), in frames and annotations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use graph::class::{Argument, Handler, both, keyword, mandatory, positional};
use graph::value::{Ethernet, unsigned};
use graph::{Class, Conf, Cx, Each, Fate, Fault, PerPacket, Refused};
use memory::Packet;
use memory::annotation::Header;
use wire::ethernet::EtherType;

use super::encap::{LEN, SharedHeader, prepend};
use crate::annotation::{Notes, VLAN_TCI};

const TCI: Argument = positional("VLAN_TCI", "the tag's 16 bits, or ANNO for what the annotation says");
const PCP: Argument = positional("VLAN_PCP", "the priority, 0 to 7; 0");
const ID: Argument = keyword("VLAN_ID", "the VLAN, 0 to 4095; 0");
const NATIVE: Argument = keyword("NATIVE_VLAN", "the VLAN whose frames have no tag, -1 for none; 0");
const TAG_HANDLERS: &[Handler] = &[
    both("vlan_tci", "the tag's 16 bits, or ANNO"),
    both("vlan_id", "the VLAN"),
    both("vlan_pcp", "the priority"),
    both("native_vlan", "the VLAN whose frames have no tag"),
];

/// The class of what tags frames.
pub static ENCAP: Class = Class {
    name: "VLANEncap",
    brief: "puts a VLAN tag into Ethernet frames",
    doc: "Packets begin with their Ethernet header; four bytes are inserted behind its addresses. Frames of \
          the native VLAN get no tag.",
    arguments: &[TCI, PCP, ID, NATIVE, keyword("ETHERTYPE", "the tag's type; 0x8100")],
    handlers: TAG_HANDLERS,
    drops: &["no headroom", "too short"],
    live: true,
    example: "VLANEncap(VLAN_ID 10)",
    see: &["VLANDecap", "EtherVLANEncap", "SetVLANAnno"],
    make: |_, conf| {
        let tag = Tag::parse(conf)?;
        let ethertype = conf.keyword("ETHERTYPE")?.unwrap_or(EtherType::VLAN.0);
        conf.complete()?;
        Ok(Each::boxed(VlanEncap { tag, ethertype }))
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
    make: |_, conf| {
        let annotate = conf.positional("ANNO")?.unwrap_or(true);
        let ethertype = conf.keyword("ETHERTYPE")?.unwrap_or(EtherType::VLAN.0);
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
    arguments: &[
        mandatory("ETHERTYPE", "what the packets are: 0x0800 for IPv4"),
        mandatory("SRC", "the source address"),
        mandatory("DST", "the destination address"),
        TCI,
        PCP,
        ID,
        NATIVE,
    ],
    handlers: &[
        both("src", "the source address"),
        both("dst", "the destination address"),
        both("ethertype", "what the packets are"),
        both("vlan_tci", "the tag's 16 bits, or ANNO"),
        both("vlan_id", "the VLAN"),
        both("vlan_pcp", "the priority"),
        both("native_vlan", "the VLAN whose frames have no tag"),
    ],
    drops: &["no headroom"],
    live: true,
    example: "EtherVLANEncap(0x0800, 0:0:c0:ae:67:ef, 0:0:c0:4b:ad:d3, VLAN_ID 10)",
    see: &["EtherEncap", "VLANEncap", "StripEtherVLANHeader"],
    make: |_, conf| {
        let ethertype: u16 = conf.mandatory("ETHERTYPE")?;
        let src: Ethernet = conf.mandatory("SRC")?;
        let dst: Ethernet = conf.mandatory("DST")?;
        let tag = Tag::parse(conf)?;
        conf.complete()?;
        let mut bytes = [0; LEN];
        bytes[..6].copy_from_slice(&dst.0);
        bytes[6..12].copy_from_slice(&src.0);
        bytes[12..].copy_from_slice(&ethertype.to_be_bytes());
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
    drops: &["no tag", "too short"],
    live: true,
    example: "StripEtherVLANHeader",
    see: &["EtherVLANEncap", "VLANDecap", "Strip"],
    make: |_, conf| {
        let native = conf.positional::<i32>("NATIVE_VLAN")?.unwrap_or(0);
        conf.complete()?;
        if native > 0xFFF {
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
    handlers: &[
        both("vlan_tci", "the tag's 16 bits"),
        both("vlan_id", "the VLAN"),
        both("vlan_pcp", "the priority"),
    ],
    live: true,
    example: "SetVLANAnno(VLAN_ID 10, VLAN_PCP 3)",
    see: &["VLANEncap", "EtherVLANEncap"],
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

/// Which tag frames get; the same in all threads.
#[derive(Debug, Clone)]
struct Tag(Arc<[AtomicU32; 2]>);

impl Tag {
    /// In the place of a tag: what the packet's annotation says.
    const ANNOTATED: u32 = 1 << 16;
    /// In the place of the native VLAN: there is none.
    const NONE: u32 = u32::MAX;

    fn new(tci: u32, native: u32) -> Tag {
        Tag(Arc::new([AtomicU32::new(tci), AtomicU32::new(native)]))
    }

    fn parse_tci(conf: &mut Conf<'_>) -> Result<u32, Fault> {
        let word: Option<String> = conf.positional("VLAN_TCI")?;
        let pcp: u32 = conf.positional("VLAN_PCP")?.unwrap_or(0);
        let id: u32 = conf.keyword("VLAN_ID")?.unwrap_or(0);
        let tci = match word.as_deref() {
            Some("ANNO") => return Ok(Tag::ANNOTATED),
            Some(text) => Some(Tag::bounded("VLAN_TCI", text, 0xFFFF)?),
            None => None,
        };
        if pcp > 7 || id > 0xFFF {
            return Err("VLAN_PCP: expected 0 to 7; VLAN_ID: expected 0 to 4095".into());
        }
        Ok(tci.unwrap_or(id) | pcp << 13)
    }

    fn parse(conf: &mut Conf<'_>) -> Result<Tag, Fault> {
        let tci = Tag::parse_tci(conf)?;
        let native: i32 = conf.keyword("NATIVE_VLAN")?.unwrap_or(0);
        if !(-1..=0xFFF).contains(&native) {
            return Err("NATIVE_VLAN: expected -1 to 4095".into());
        }
        Ok(Tag::new(tci, u32::try_from(native).unwrap_or(Tag::NONE)))
    }

    fn bounded(what: &str, text: &str, most: u32) -> Result<u32, String> {
        let value = unsigned(text).and_then(|value| u32::try_from(value).ok());
        value.filter(|value| *value <= most).ok_or_else(|| format!("{what}: expected 0 to {most}"))
    }

    #[inline(always)]
    fn tci(&self) -> u32 {
        self.0[0].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn native(&self) -> u32 {
        self.0[1].load(Ordering::Relaxed)
    }

    /// The tag of a packet; `None` when it gets none.
    #[inline(always)]
    fn of(&self, packet: &Packet) -> Option<[u8; 2]> {
        let tci = match self.tci() {
            Tag::ANNOTATED => packet.bytes_at(VLAN_TCI),
            tci => (tci as u16).to_be_bytes(),
        };
        (u32::from(u16::from_be_bytes(tci)) & 0xFFF != self.native()).then_some(tci)
    }

    fn read(&self, handler: &str) -> String {
        let tci = self.tci();
        match handler {
            "native_vlan" if self.native() == Tag::NONE => "-1".into(),
            "native_vlan" => self.native().to_string(),
            "vlan_id" => (tci & 0xFFF).to_string(),
            "vlan_pcp" => (tci >> 13 & 7).to_string(),
            _ if tci == Tag::ANNOTATED => "ANNO".into(),
            _ => tci.to_string(),
        }
    }

    fn write(&self, handler: &str, value: &str) -> Result<(), Refused> {
        let tci = self.tci() & 0xFFFF;
        let value = value.trim();
        let (which, new) = match handler {
            "native_vlan" if value == "-1" => (1, Tag::NONE),
            "native_vlan" => (1, Tag::bounded("NATIVE_VLAN", value, 0xFFF)?),
            "vlan_id" => (0, tci & !0xFFF | Tag::bounded("VLAN_ID", value, 0xFFF)?),
            "vlan_pcp" => (0, tci & 0x1FFF | Tag::bounded("VLAN_PCP", value, 7)? << 13),
            _ if value == "ANNO" => (0, Tag::ANNOTATED),
            _ => (0, Tag::bounded("VLAN_TCI", value, 0xFFFF)?),
        };
        self.0[which].store(new, Ordering::Relaxed);
        Ok(())
    }
}

/// See [`ENCAP`].
#[derive(Debug, Clone)]
pub struct VlanEncap {
    tag: Tag,
    ethertype: u16,
}

impl PerPacket for VlanEncap {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        let Some(tci) = self.tag.of(packet) else {
            packet.set_header(Header::Link, 0);
            return Fate::ON;
        };
        let Some(addresses) = packet.first_chunk::<12>().copied() else { return Fate::drop(1) };
        let Ok(room) = packet.push_front(4) else { return Fate::drop(0) };
        debug_assert_eq!(room.len(), 4);
        packet[..12].copy_from_slice(&addresses);
        packet[12..14].copy_from_slice(&self.ethertype.to_be_bytes());
        packet[14..16].copy_from_slice(&tci);
        packet.set_header(Header::Link, 0);
        Fate::ON
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        Ok(self.tag.read(handler))
    }

    fn write(&mut self, _: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        self.tag.write(handler, value)
    }

    fn replicate(&self) -> Option<VlanEncap> {
        Some(self.clone())
    }
}

/// See [`DECAP`].
#[derive(Debug, Clone)]
pub struct VlanDecap {
    annotate: bool,
    ethertype: u16,
}

impl PerPacket for VlanDecap {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        let mut tci = [0; 2];
        if let Some(header) = packet.first_chunk_mut::<16>()
            && header[12..14] == self.ethertype.to_be_bytes()
        {
            tci = [header[14], header[15]];
            header.copy_within(..12, 4);
            let shorter = packet.pull_front(4);
            debug_assert!(shorter.is_ok());
        }
        packet.set_header(Header::Link, 0);
        packet.set_header(Header::Network, LEN);
        if self.annotate {
            packet.set_bytes_at(VLAN_TCI, tci);
        }
        Fate::ON
    }

    fn replicate(&self) -> Option<VlanDecap> {
        Some(self.clone())
    }
}

/// See [`ETHER_ENCAP`].
#[derive(Debug, Clone)]
pub struct EtherVlanEncap {
    header: SharedHeader,
    tag: Tag,
}

impl PerPacket for EtherVlanEncap {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        let plain = self.header.bytes();
        let fits = match self.tag.of(packet) {
            None => prepend(packet, &plain),
            Some(tci) => {
                let mut tagged = [0; LEN + 4];
                tagged[..12].copy_from_slice(&plain[..12]);
                tagged[12..14].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
                tagged[14..16].copy_from_slice(&tci);
                tagged[16..].copy_from_slice(&plain[12..]);
                prepend(packet, &tagged)
            }
        };
        if fits { Fate::ON } else { Fate::drop(0) }
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        Ok(match handler {
            "src" | "dst" | "ethertype" => self.header.read(handler),
            _ => self.tag.read(handler),
        })
    }

    fn write(&mut self, _: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        match handler {
            "src" | "dst" | "ethertype" => self.header.write(handler, value),
            _ => self.tag.write(handler, value),
        }
    }

    fn replicate(&self) -> Option<EtherVlanEncap> {
        Some(self.clone())
    }
}

/// See [`STRIP`].
#[derive(Debug, Clone)]
pub struct StripHeader {
    native: Option<u16>,
}

impl PerPacket for StripHeader {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        let tagged = packet.get(12..14) == Some(&EtherType::VLAN.0.to_be_bytes()[..]);
        let (tci, length) = match self.native {
            _ if tagged => match packet.get(14..16) {
                Some(tci) => ([tci[0], tci[1]], LEN + 4),
                None => return Fate::drop(1),
            },
            Some(native) => (native.to_be_bytes(), LEN),
            None => return Fate::out_or_drop(1, 0),
        };
        packet.set_bytes_at(VLAN_TCI, tci);
        if packet.pull_front(length).is_ok() { Fate::ON } else { Fate::drop(1) }
    }

    fn replicate(&self) -> Option<StripHeader> {
        Some(self.clone())
    }
}

/// See [`ANNOTATE`].
#[derive(Debug, Clone)]
pub struct SetVlanAnno(Tag);

impl PerPacket for SetVlanAnno {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        packet.set_bytes_at(VLAN_TCI, (self.0.tci() as u16).to_be_bytes());
        Fate::ON
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        Ok(self.0.read(handler))
    }

    fn write(&mut self, _: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        if value.trim() == "ANNO" {
            return Err("VLAN_TCI: expected integer".into());
        }
        self.0.write(handler, value)
    }

    fn replicate(&self) -> Option<SetVlanAnno> {
        Some(self.clone())
    }
}
