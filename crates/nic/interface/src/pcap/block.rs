//! The blocks of pcapng: sections, interfaces, packets.

use std::io::Read;

use super::{Error, Found, Input, Links, Order, bounded};

/// Section header; reads the same in both byte orders.
pub(super) const SECTION: u32 = 0x0A0D_0D0A;
pub(super) const INTERFACE: u32 = 1;
pub(super) const STATISTICS: u32 = 5;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;
pub(super) const ORDER_MAGIC: u32 = 0x1A2B_3C4D;

pub(super) const OPTION_TSRESOL: u16 = 9;
const OPTION_TSOFFSET: u16 = 14;

/// Longest block that is read; longer ones of unknown kind are skipped.
const MAX_BLOCK: u32 = 1 << 20;
const MAX_INTERFACES: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Interface {
    /// As in the file: decimal digits, or bits with the top bit set.
    resolution: u8,
    offset_s: i64,
    snap: u32,
    link: u32,
}

impl Interface {
    fn time_ns(self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks);
        let digits = u32::from(self.resolution & 0x7F);
        let ns = match (self.resolution & 0x80 != 0, digits) {
            (true, bits) => (ticks * 1_000_000_000) >> bits,
            (false, digits @ 0..=9) => ticks * 10_u128.pow(9 - digits),
            (false, digits @ 10..=47) => ticks / 10_u128.pow(digits - 9),
            (false, _) => 0,
        };
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from((ns as i128).saturating_add(offset).max(0)).unwrap_or(u64::MAX)
    }
}

/// Where in a pcapng file we are.
#[derive(Debug)]
pub(super) struct Sections {
    order: Order,
    interfaces: Vec<Interface>,
    /// Interfaces of earlier sections.
    before: u32,
    links: Links,
}

impl Sections {
    /// After the first block type, which said that this is pcapng.
    pub(super) fn open<R: Read>(input: &mut Input<R>, links: Links) -> Result<Sections, Error> {
        let mut sections = Sections { order: Order::Little, interfaces: Vec::new(), before: 0, links };
        sections.section(input, 0)?;
        Ok(sections)
    }

    /// Section 4.1: everything up to the end of the section header, after its
    /// block type.
    fn section<R: Read>(&mut self, input: &mut Input<R>, offset: u64) -> Result<(), Error> {
        let what = "a section header";
        let mut head = [0; 20];
        input.need(&mut head, offset, what)?;
        let magic = Order::Little.u32(&head, 4);
        self.order = match magic {
            ORDER_MAGIC => Order::Little,
            _ if magic.swap_bytes() == ORDER_MAGIC => Order::Big,
            _ => {
                return Err(Error::Malformed {
                    offset,
                    what: "unknown byte-order magic",
                    value: magic.into(),
                });
            }
        };
        let major = self.order.u16(&head, 8);
        if major != 1 {
            return Err(Error::Malformed { offset, what: "unknown pcapng version", value: major.into() });
        }
        let total = self.length(&head, 0, offset, 28)?;
        self.before = self.before.saturating_add(self.interfaces.len() as u32);
        self.interfaces.clear();
        input.skip(u64::from(total) - 28, offset, what)?;
        self.trailer(input, total, offset)
    }

    /// A block's total length (section 3.1).
    fn length(&self, head: &[u8], at: usize, offset: u64, least: u32) -> Result<u32, Error> {
        let total = self.order.u32(head, at);
        if total < least || !total.is_multiple_of(4) {
            return Err(Error::Malformed { offset, what: "impossible block length", value: total.into() });
        }
        Ok(total)
    }

    fn trailer<R: Read>(&self, input: &mut Input<R>, total: u32, offset: u64) -> Result<(), Error> {
        let mut again = [0; 4];
        input.need(&mut again, offset, "a block")?;
        match self.order.u32(&again, 0) {
            again if again == total => Ok(()),
            again => {
                let what = "block lengths before and after differ";
                Err(Error::Malformed { offset, what, value: again.into() })
            }
        }
    }

    /// The next packet; its bytes are in `buffer`.
    pub(super) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Found>, Error> {
        loop {
            let offset = input.offset;
            let mut kind = [0; 4];
            if !input.fill(&mut kind, "a block's header")? {
                return Ok(None);
            }
            let kind = self.order.u32(&kind, 0);
            if kind == SECTION {
                self.section(input, offset)?;
                continue;
            }
            let mut total = [0; 4];
            input.need(&mut total, offset, "a block's header")?;
            let total = self.length(&total, 0, offset, 12)?;
            let known = [INTERFACE, OBSOLETE_PACKET, SIMPLE_PACKET, ENHANCED_PACKET].contains(&kind);
            if !known {
                input.skip(u64::from(total) - 12, offset, "a block")?;
                self.trailer(input, total, offset)?;
                continue;
            }
            if total > MAX_BLOCK {
                return Err(Error::Malformed {
                    offset,
                    what: "block longer than 1 MiB",
                    value: total.into(),
                });
            }
            buffer.resize(total as usize - 12, 0);
            input.need(buffer, offset, "a block")?;
            self.trailer(input, total, offset)?;
            let found = match kind {
                INTERFACE => {
                    self.interface(buffer, offset)?;
                    continue;
                }
                SIMPLE_PACKET => self.simple(buffer, offset)?,
                ENHANCED_PACKET => self.enhanced(buffer, offset, false)?,
                _ => self.enhanced(buffer, offset, true)?,
            };
            return Ok(Some(found));
        }
    }

    /// Takes an interface description block (section 4.2).
    fn interface(&mut self, body: &[u8], offset: u64) -> Result<(), Error> {
        least(body, 8, offset)?;
        let link = self.links.check(self.order.u16(body, 0).into(), offset)?;
        if self.interfaces.len() >= MAX_INTERFACES {
            let value = MAX_INTERFACES as u64;
            return Err(Error::Malformed { offset, what: "more interfaces than", value });
        }
        let mut interface = Interface { resolution: 6, offset_s: 0, snap: self.order.u32(body, 4), link };
        let mut options = &body[8..];
        while options.len() >= 4 {
            let (code, len) = (self.order.u16(options, 0), usize::from(self.order.u16(options, 2)));
            let Some(value) = options.get(4..4 + len) else { break };
            match (code, len) {
                (OPTION_TSRESOL, 1) => interface.resolution = value[0],
                (OPTION_TSOFFSET, 8) => {
                    let (first, second) = (self.order.u32(value, 0), self.order.u32(value, 4));
                    let (high, low) =
                        if self.order == Order::Big { (first, second) } else { (second, first) };
                    interface.offset_s = (u64::from(high) << 32 | u64::from(low)).cast_signed();
                }
                _ => {}
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Section 4.3, or the packet block that it replaced (A.1), whose only
    /// difference is that the interface shares its word with a drop count.
    fn enhanced(&self, body: &[u8], offset: u64, obsolete: bool) -> Result<Found, Error> {
        least(body, 20, offset)?;
        let number = if obsolete { self.order.u16(body, 0).into() } else { self.order.u32(body, 0) };
        let interface = self.of(number, offset)?;
        let ticks = u64::from(self.order.u32(body, 4)) << 32 | u64::from(self.order.u32(body, 8));
        let len = bounded(self.order.u32(body, 12), offset)?;
        least(body, 20 + len, offset)?;
        let original_len = self.order.u32(body, 16);
        let (time_ns, link) = (interface.time_ns(ticks), interface.link);
        let interface = self.before.saturating_add(number);
        Ok(Found { time_ns, interface, original_len, link, start: 20, len })
    }

    /// Section 4.4: on the first interface, cut to its snap length, no time.
    fn simple(&self, body: &[u8], offset: u64) -> Result<Found, Error> {
        least(body, 4, offset)?;
        let interface = self.of(0, offset)?;
        let original_len = self.order.u32(body, 0);
        let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
        let len = bounded(original_len.min(snap), offset)?;
        least(body, 4 + len, offset)?;
        Ok(Found { time_ns: 0, interface: self.before, original_len, link: interface.link, start: 4, len })
    }

    fn of(&self, number: u32, offset: u64) -> Result<Interface, Error> {
        let interface = self.interfaces.get(number as usize).copied();
        let what = "packet of an interface that was not described";
        interface.ok_or(Error::Malformed { offset, what, value: number.into() })
    }
}

fn least(body: &[u8], len: usize, offset: u64) -> Result<(), Error> {
    if body.len() < len {
        let value = body.len() as u64;
        return Err(Error::Malformed { offset, what: "block too short for what it says", value });
    }
    Ok(())
}
