//! `IPInputCombo`, `IPOutputCombo`: what a router does with every packet on its way in,
//! and out, as one element.

use std::net::Ipv4Addr;

use graph::class::{Handlers, Headers, keyword, mandatory, positional, read};
use graph::element::kernel::Kernel;
use graph::fused::Single;
use graph::{Action, Class, Cx, Each, Element, Next, PerPacket, PerThreadCounter};
use memory::annotation::Reach;
use memory::{Batch, Packet};

use super::check_header::CheckIpHeader;
use super::fix_src::FixIpSrc;
use super::gw_options::IpGwOptions;
use crate::kernels::{each, single};
use graph::annotation::{PAINT, PacketAnnotations};
use graph::ip_header;
use port::Reason;

/// `IPInputCombo`, for packets that come in.
pub static INPUT: Class = Class {
    name: "IPInputCombo",
    brief: "paints, strips and checks IPv4 packets on their way into a router",
    doc: "Does what `Paint(COLOR) -> Strip(14) -> CheckIPHeader(…) -> GetIPAddress(16)` does. Bad packets are \
          dropped.",
    arguments: &[
        mandatory("COLOR", "the colour, 0 to 255: which interface it came in by"),
        positional("BADSRC", "source addresses that are wrong"),
        keyword("INTERFACES", "the router's own addresses and prefixes"),
        keyword("GOODDST", "destinations that packets from bad sources may go to"),
        keyword("OFFSET", "as of CheckIPHeader"),
        keyword("CHECKSUM", "as of CheckIPHeader"),
        keyword("VERBOSE", "as of CheckIPHeader"),
        keyword("DETAILS", "as of CheckIPHeader"),
    ],
    handlers: &Handlers::<IpInputCombo>(&[read("drops", "bad packets", |combo| combo.check.drops())]),
    drops: super::check_header::CLASS.drops,
    example: "FromDevice(a) -> IPInputCombo(1, INTERFACES 10.0.0.1/24) -> rt :: StaticIPLookup(0.0.0.0/0 0) -> Discard",
    see: &["IPOutputCombo", "CheckIPHeader", "Paint", "Strip"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(IpInputCombo)),
    make: |_, conf| {
        let color = conf.mandatory("COLOR")?;
        let check = CheckIpHeader::parse(conf, true)?;
        conf.complete()?;
        Ok(Each::boxed(IpInputCombo { color, check }))
    },
    ..Class::BASE
};

/// `IPOutputCombo`, for packets that go out.
pub static OUTPUT: Class = Class {
    name: "IPOutputCombo",
    brief: "does what a router does with IPv4 packets on their way out",
    doc: "Does what DropBroadcasts, PaintTee(COLOR), IPGWOptions(IPADDR), FixIPSrc(IPADDR), DecIPTTL and \
          CheckLength(MTU) do behind one another. Output 0 is for packets that can go; a copy of those of \
          COLOR goes to output 1, those with bad options go to output 2, those without a hop left to output 3 \
          and those longer than MTU to output 4, where an IPFragmenter is expected.",
    ports: "1/5",
    processing: "h/h",
    arguments: &[
        mandatory("COLOR", "the colour of packets that came in by the same interface"),
        mandatory("IPADDR", "the address of the interface"),
        mandatory("MTU", "the longest packet, in bytes"),
    ],
    handlers: &Handlers::<IpOutputCombo>(&[read(
        "drops",
        "packets dropped as link-level broadcasts",
        |combo| combo.drops.sum().to_string(),
    )]),
    drops: &[Reason::Broadcast, Reason::NoIpHeader, Reason::NoBuffers],
    example: "o :: IPOutputCombo(1, 10.0.0.1, 1500)",
    see: &[
        "IPInputCombo",
        "DropBroadcasts",
        "PaintTee",
        "IPGWOptions",
        "FixIPSrc",
        "DecIPTTL",
        "CheckLength",
    ],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(single!(IpOutputCombo).emitting(|output, _| output != 1)),
    make: |_, conf| {
        let color = conf.mandatory("COLOR")?;
        let address: Ipv4Addr = conf.mandatory("IPADDR")?;
        let mtu = conf.mandatory("MTU")?;
        conf.complete()?;
        let (options, fix) = (IpGwOptions::of(address), FixIpSrc::of(address));
        Ok(Box::new(IpOutputCombo { color, mtu, options, fix, drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

/// Bytes of an Ethernet header.
const ETHER: usize = wire::ethernet::HEADER_LEN;

/// An `IPInputCombo` element; [`INPUT`] says what it does.
#[derive(Debug)]
pub struct IpInputCombo {
    color: u8,
    check: CheckIpHeader,
}

impl PerPacket for IpInputCombo {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action {
        packet.set_u8_at(PAINT, self.color);
        if !cx.advance(packet, ETHER as isize) {
            return Action::drop(0);
        }
        let action = self.check.packet(cx, input, packet);
        if action == Action::ON { action } else { Action::drop(action.reason()) }
    }

    fn replicate(&self) -> Option<IpInputCombo> {
        Some(IpInputCombo { color: self.color, check: self.check.replicate()? })
    }
}

/// An `IPOutputCombo` element; [`OUTPUT`] says what it does.
#[derive(Debug)]
pub struct IpOutputCombo {
    color: u8,
    mtu: usize,
    options: IpGwOptions,
    fix: FixIpSrc,
    drops: PerThreadCounter,
}

/// What becomes of a packet.
enum ComboAction {
    To(usize),
    Drop(usize),
}

impl IpOutputCombo {
    fn way(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> ComboAction {
        if matches!(packet.annotations().reach, Reach::Broadcast | Reach::Multicast) {
            self.drops.add(1);
            return ComboAction::Drop(0);
        }
        if packet.u8_at(PAINT) == self.color {
            match cx.copy(packet) {
                Some(copy) => cx.emit(1, copy),
                None => cx.count_drops(2, 1),
            }
        }
        match self.options.packet(cx, 0, packet) {
            Action::ON => {}
            action if action.reason() == 0 => return ComboAction::To(2),
            _ => return ComboAction::Drop(1),
        }
        let fixed = self.fix.packet(cx, 0, packet);
        debug_assert_eq!(fixed, Action::ON);
        let Some(mut ip) = ip_header::fixed_mut(packet) else { return ComboAction::Drop(1) };
        if !ip.decrement_ttl() {
            return ComboAction::To(3);
        }
        ComboAction::To(if packet.total_len() > self.mtu { 4 } else { 0 })
    }
}

impl Single for IpOutputCombo {
    #[inline]
    fn single(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match self.way(cx, packet) {
            ComboAction::To(output) => Action::out(output),
            ComboAction::Drop(reason) => Action::drop(reason),
        }
    }
}

impl Element for IpOutputCombo {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let sort = |combo: &mut (&mut IpOutputCombo, &mut Cx<'_>), _: usize, packet: &mut Packet| match combo
            .0
            .way(combo.1, packet)
        {
            ComboAction::To(0) => None,
            way => Some(way),
        };
        batch.split(&mut (self, cx), sort, |(_, cx), way, packet| match way {
            ComboAction::To(output) => cx.emit(output, packet),
            ComboAction::Drop(reason) => cx.drop(reason, packet),
        });
        Next::Push(0)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(IpOutputCombo {
            color: self.color,
            mtu: self.mtu,
            options: self.options.replicate()?,
            fix: self.fix.clone(),
            drops: self.drops.for_another(),
        }))
    }
}
