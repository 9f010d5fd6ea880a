//! `HostEtherFilter`: to whom a frame came.

use graph::class::{Handlers, keyword, mandatory, positional, setting};
use graph::element::kernel::Kernel;
use graph::value::Ethernet;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Reach;
use port::Reason;
use wire::MacAddress;
use wire::ethernet::Addresses;

use crate::kernels::each;

pub static CLASS: Class = Class {
    name: "HostEtherFilter",
    brief: "lets only Ethernet frames to this host pass",
    doc: "Marks frames as to this host, to everyone, to a group or to another host, as Linux does. Those to \
          other hosts go to output 1, or are dropped, unless DROP_OTHER is false; those from this host as \
          well if DROP_OWN is true.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        mandatory("ETHER", "this host's address"),
        positional("DROP_OWN", "whether frames from this host are dropped; false"),
        positional("DROP_OTHER", "whether frames to other hosts are dropped; true"),
        keyword("OFFSET", "bytes in front of the Ethernet header; 0"),
    ],
    handlers: &Handlers::<HostEtherFilter>(&[setting(
        "ether",
        "this host's address",
        |filter| filter.address.to_string(),
        (0, "ETHER"),
    )]),
    drops: &[Reason::ToAnotherHost, Reason::FromThisHost, Reason::TooShort],
    live: true,
    example: "FromDevice(p) -> HostEtherFilter(0:0:c0:ae:67:ef)",
    see: &["DropBroadcasts", "FromDevice"],
    kernel: Kernel::Inside(each!(HostEtherFilter)),
    make: |_, conf| {
        let address = conf.mandatory("ETHER")?;
        let drop_own = conf.positional("DROP_OWN")?.unwrap_or(false);
        let drop_other = conf.positional("DROP_OTHER")?.unwrap_or(true);
        let offset = conf.keyword("OFFSET")?.unwrap_or(0);
        conf.complete()?;
        Ok(Each::boxed(HostEtherFilter { address, drop_own, drop_other, offset }))
    },
    ..Class::BASE
};

/// A `HostEtherFilter` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct HostEtherFilter {
    address: Ethernet,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

impl PerPacket for HostEtherFilter {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let addresses = packet.get(self.offset..).and_then(Addresses::of);
        let Some(addresses) = addresses else { return Action::drop(2) };
        let (dst, own) = (addresses.dst(), MacAddress(self.address.0));
        if self.drop_own && addresses.src() == own {
            return Action::out_or_drop(1, 1);
        }
        let reach = match dst {
            _ if dst == own => Reach::Host,
            MacAddress::BROADCAST => Reach::Broadcast,
            _ if dst.is_multicast() => Reach::Multicast,
            _ => Reach::OtherHost,
        };
        packet.annotations_mut().reach = reach;
        if reach == Reach::OtherHost && self.drop_other { Action::out_or_drop(1, 0) } else { Action::ON }
    }

    fn replicate(&self) -> Option<HostEtherFilter> {
        Some(self.clone())
    }
}
