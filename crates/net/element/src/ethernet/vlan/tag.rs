//! A VLAN tag that elements put into frames or annotations, and the handlers that change it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use graph::annotation::{PacketAnnotations, VLAN_TCI};
use graph::class::{Row, both};
use graph::value::unsigned;
use graph::{Conf, ConfFault, Cx, Refused};
use memory::Packet;
use wire::vlan;

/// The highest VLAN, and the bits that say which it is.
pub(super) const LAST: u32 = vlan::ID as u32;

/// An element with a tag that handlers change.
pub(super) trait Tagging {
    /// The tag that it gives frames.
    fn tag(&self) -> &Tag;

    /// Its configuration has what a handler changed.
    fn tell(&self, cx: &mut Cx<'_>);

    /// Whether the handlers take a value.
    fn check(_: &str) -> Result<(), Refused> {
        Ok(())
    }

    /// Does what a handler is for.
    fn change(
        &self,
        cx: &mut Cx<'_>,
        value: &str,
        set: fn(&Tag, &str) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        Self::check(value)?;
        set(self.tag(), value)?;
        self.tell(cx);
        Ok(())
    }
}

pub(super) const fn tci<T: Tagging>(about: &'static str) -> Row<T> {
    both("vlan_tci", about, |it| it.tag().shown_tci(), |it, cx, value| it.change(cx, value, Tag::set_tci))
}

pub(super) const fn id<T: Tagging>() -> Row<T> {
    both("vlan_id", "the VLAN", |it| it.tag().id(), |it, cx, value| it.change(cx, value, Tag::set_id))
}

pub(super) const fn pcp<T: Tagging>() -> Row<T> {
    both("vlan_pcp", "the priority", |it| it.tag().pcp(), |it, cx, value| it.change(cx, value, Tag::set_pcp))
}

pub(super) const fn native<T: Tagging>() -> Row<T> {
    both(
        "native_vlan",
        "the VLAN whose frames have no tag",
        |it| it.tag().shown_native(),
        |it, cx, value| it.change(cx, value, Tag::set_native),
    )
}

/// Which tag frames get; the same in all threads.
#[derive(Debug, Clone)]
pub(super) struct Tag(Arc<[AtomicU32; 2]>);

impl Tag {
    /// In the place of a tag: what the packet's annotation says.
    pub(super) const ANNOTATED: u32 = 1 << 16;
    /// In the place of the native VLAN: there is none.
    const NONE: u32 = u32::MAX;

    pub(super) fn new(tci: u32, native: u32) -> Tag {
        Tag(Arc::new([AtomicU32::new(tci), AtomicU32::new(native)]))
    }

    pub(super) fn parse_tci(conf: &mut Conf<'_>) -> Result<u32, ConfFault> {
        let word: Option<String> = conf.positional("VLAN_TCI")?;
        let pcp: u32 = conf.positional("VLAN_PCP")?.unwrap_or(0);
        let id: u32 = conf.keyword("VLAN_ID")?.unwrap_or(0);
        let tci = match word.as_deref() {
            Some("ANNO") => return Ok(Tag::ANNOTATED),
            Some(text) => Some(Tag::bounded("VLAN_TCI", text, u16::MAX.into())?),
            None => None,
        };
        if pcp > 7 || id > LAST {
            return Err("VLAN_PCP: expected 0 to 7; VLAN_ID: expected 0 to 4095".into());
        }
        Ok(tci.unwrap_or(id) | pcp << vlan::PRIORITY_SHIFT)
    }

    pub(super) fn parse(conf: &mut Conf<'_>) -> Result<Tag, ConfFault> {
        let tci = Tag::parse_tci(conf)?;
        let native: i32 = conf.keyword("NATIVE_VLAN")?.unwrap_or(0);
        if !(-1..=LAST as i32).contains(&native) {
            return Err("NATIVE_VLAN: expected -1 to 4095".into());
        }
        Ok(Tag::new(tci, u32::try_from(native).unwrap_or(Tag::NONE)))
    }

    pub(super) fn bounded(what: &str, text: &str, most: u32) -> Result<u32, String> {
        let value = unsigned(text).and_then(|value| u32::try_from(value).ok());
        value.filter(|value| *value <= most).ok_or_else(|| format!("{what}: expected 0 to {most}"))
    }

    #[inline(always)]
    pub(super) fn tci(&self) -> u32 {
        self.0[0].load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn native(&self) -> u32 {
        self.0[1].load(Ordering::Relaxed)
    }

    /// The tag of a packet; `None` when it gets none.
    #[inline(always)]
    pub(super) fn of(&self, packet: &Packet) -> Option<u16> {
        let tci = match self.tci() {
            Tag::ANNOTATED => u16::from_be_bytes(packet.bytes_at(VLAN_TCI)),
            tci => tci as u16,
        };
        (u32::from(tci) & LAST != self.native()).then_some(tci)
    }

    /// The tag's 16 bits, whatever they mean.
    pub(super) fn tag_bits(&self) -> u32 {
        self.tci() & u32::from(u16::MAX)
    }

    pub(super) fn shown_tci(&self) -> String {
        match self.tci() {
            Tag::ANNOTATED => "ANNO".into(),
            tci => tci.to_string(),
        }
    }

    pub(super) fn id(&self) -> String {
        (self.tci() & LAST).to_string()
    }

    pub(super) fn pcp(&self) -> String {
        (self.tci() >> vlan::PRIORITY_SHIFT & 7).to_string()
    }

    pub(super) fn shown_native(&self) -> String {
        match self.native() {
            Tag::NONE => "-1".into(),
            native => native.to_string(),
        }
    }

    /// The tag's arguments, as Click shows them.
    pub(super) fn shown(&self) -> String {
        let native = match self.native() {
            0 => String::new(),
            _ => format!(", NATIVE_VLAN {}", self.shown_native()),
        };
        match self.tci() {
            Tag::ANNOTATED => format!("ANNO{native}"),
            // The bit between the two has no argument of its own.
            tci if tci & u32::from(vlan::DROP_ELIGIBLE) != 0 => format!("{tci}{native}"),
            _ => format!("VLAN_ID {}, VLAN_PCP {}{native}", self.id(), self.pcp()),
        }
    }

    pub(super) fn set_tci(&self, value: &str) -> Result<(), Refused> {
        let tci = match value.trim() {
            "ANNO" => Tag::ANNOTATED,
            value => Tag::bounded("VLAN_TCI", value, u16::MAX.into())?,
        };
        self.0[0].store(tci, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn set_id(&self, value: &str) -> Result<(), Refused> {
        let id = Tag::bounded("VLAN_ID", value.trim(), LAST)?;
        self.0[0].store(self.tag_bits() & !LAST | id, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn set_pcp(&self, value: &str) -> Result<(), Refused> {
        let pcp = Tag::bounded("VLAN_PCP", value.trim(), 7)?;
        let others = self.tag_bits() & !(7 << vlan::PRIORITY_SHIFT);
        self.0[0].store(others | pcp << vlan::PRIORITY_SHIFT, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn set_native(&self, value: &str) -> Result<(), Refused> {
        let native = match value.trim() {
            "-1" => Tag::NONE,
            value => Tag::bounded("NATIVE_VLAN", value, LAST)?,
        };
        self.0[1].store(native, Ordering::Relaxed);
        Ok(())
    }
}
