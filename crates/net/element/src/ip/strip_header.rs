//! `StripToNetworkHeader`, `StripIPHeader`, `UnstripIPHeader`: the start of a packet
//! moves to a header that was found.

use graph::class::Headers;
use graph::element::kernel::Kernel;
use graph::{Action, Class, Conf, ConfFault, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;

use crate::kernels::each;
use port::Reason;

const DROPS: &[Reason] = &[Reason::NoIpHeader, Reason::HeaderOutside];
const NEEDS: Headers = Headers { needs_network: true, ..Class::BASE.headers };

/// The class of what strips to the network header.
pub static TO_NETWORK: Class = Class {
    name: "StripToNetworkHeader",
    brief: "strips everything in front of the network header",
    doc: "Packets begin with their network header afterwards; what was stripped of it comes back.",
    drops: DROPS,
    example: "CheckIPHeader(14) -> StripToNetworkHeader",
    see: &["Strip", "MarkIPHeader", "CheckIPHeader"],
    headers: NEEDS,
    kernel: Kernel::Inside(each!(StripIpHeader)),
    make: |_, conf| make(conf, To::Network),
    ..Class::BASE
};

/// The class of what strips the network header too.
pub static TO_TRANSPORT: Class = Class {
    name: "StripIPHeader",
    brief: "strips the IP header and everything in front of it",
    doc: "Packets begin with their transport header afterwards.",
    drops: DROPS,
    example: "CheckIPHeader(14) -> StripIPHeader",
    see: &["UnstripIPHeader", "MarkIPHeader", "Strip"],
    headers: Headers { needs_network: true, needs_transport: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(StripIpHeader)),
    make: |_, conf| make(conf, To::Transport),
    ..Class::BASE
};

/// The class of what brings the network header back.
pub static BACK: Class = Class {
    name: "UnstripIPHeader",
    brief: "brings the IP header back that was stripped",
    doc: "Packets begin with their IP header afterwards; those that have it in front already stay as they are.",
    drops: DROPS,
    example: "CheckIPHeader -> StripIPHeader -> UnstripIPHeader",
    see: &["StripIPHeader", "Unstrip"],
    headers: Headers { needs_network: true, needs_transport: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(StripIpHeader)),
    make: |_, conf| make(conf, To::Back),
    ..Class::BASE
};

fn make(conf: &mut Conf<'_>, to: To) -> Result<Box<dyn graph::Element>, ConfFault> {
    conf.complete()?;
    Ok(Each::boxed(StripHeader(to)))
}

#[derive(Debug, Clone, Copy)]
enum To {
    Network,
    Transport,
    Back,
}

/// An element that moves the start of packets to one of their headers: [`TO_NETWORK`],
/// [`TO_TRANSPORT`] or [`BACK`].
#[derive(Debug, Clone)]
pub struct StripHeader(To);

impl PerPacket for StripHeader {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let network = packet.header_offset(Header::Network);
        let transport = packet.header_offset(Header::Transport);
        let by = match (self.0, network, transport) {
            (To::Network, Some(network), _) => network,
            (To::Transport, _, Some(transport)) => transport,
            (To::Back, Some(network), _) => network.min(0),
            _ => return Action::drop(0),
        };
        if cx.advance(packet, by) { Action::ON } else { Action::drop(1) }
    }

    fn replicate(&self) -> Option<StripHeader> {
        Some(self.clone())
    }
}
