//! What is measured of a tunnel protocol: how its packets are known, packets of it, and the
//! overlay's table with its entries. The far ends are [`ENDS`] hosts on one link.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fib::exact::Extractor;
use memory::Packet;
use overlay::{
    Carrier, Encapsulator, Layer, Match, Network, Overlay, Owner, Port, Protocol, Route, Sent, Tunnel,
};
use wire::ethernet::EtherType;
use wire::ip::Protocol as IpProtocol;
use wire::outer::Outer;
use wire::tunnel::nsh;
use wire::{MacAddress, ethernet, ipv4, ipv6, udp};

use crate::{Error, Result};

/// Far ends; a neighbour each.
pub(crate) const ENDS: u32 = 256;
/// The virtual network, and the identifier of its tunnels.
pub(crate) const NETWORK: u32 = 100;
/// The port of the underlay.
pub(crate) const PORT: u16 = 0;
/// Its Ethernet address.
pub(crate) const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const LOCAL_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);

/// The prefix of far ends over IPv6.
const ENDS_V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 0);

/// How a packet's entry is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// There is one entry for all.
    One,
    /// By the frame's destination.
    Mac,
    /// By the service path and index of the network service header.
    Service,
    /// By the IPv4 packet's destination.
    Destination,
    /// By the longest prefix of it.
    Prefixes,
}

/// A protocol that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// Its name, the paper's where it has one.
    pub name: &'static str,
    /// What the overlay calls it.
    pub protocol: &'static str,
    /// How its entries are found.
    pub keys: Keys,
    /// Whether its outer packets are of IPv6.
    pub is_v6: bool,
}

const fn subject(name: &'static str, protocol: &'static str, keys: Keys) -> Subject {
    Subject { name, protocol, keys, is_v6: false }
}

/// How many of [`SUBJECTS`] are the paper's.
pub const OF_PAPER: usize = 5;

/// All protocols, those of the paper first.
pub const SUBJECTS: &[Subject] = &[
    subject("IPIP", "ipip", Keys::One),
    subject("GRE", "gre", Keys::One),
    subject("GRETAP", "gretap", Keys::Mac),
    subject("VXLAN", "vxlan", Keys::Mac),
    subject("NSH", "vxlan-gpe", Keys::Service),
    subject("NVGRE", "nvgre", Keys::Mac),
    subject("Geneve", "geneve", Keys::Mac),
    subject("GTP-U", "gtpu", Keys::Destination),
    subject("MPLS/GRE", "mpls-gre", Keys::Destination),
    subject("MPLS/UDP", "mpls-udp", Keys::Destination),
    subject("LISP", "lisp", Keys::Prefixes),
    Subject { is_v6: true, ..subject("SRv6", "srv6", Keys::Prefixes) },
];

/// A tunnel's headers without Ethernet's.
pub(crate) type Headers = Outer<96>;

/// What a protocol has of its own behind the outer IP header.
#[derive(Debug, Clone)]
pub(crate) struct Shim {
    protocol: IpProtocol,
    /// UDP's destination port.
    udp: Option<u16>,
    /// The tunnel's header.
    pub(crate) bytes: Vec<u8>,
}

impl Subject {
    /// The row of the overlay.
    pub(crate) fn row(&self) -> Result<&'static Protocol> {
        Protocol::named(self.protocol).ok_or_else(|| Error::new("no such protocol"))
    }

    /// Its virtual network.
    pub(crate) fn network(&self) -> Network {
        match self.keys {
            Keys::One => Network::point_to_point(Layer::Ip),
            Keys::Mac => Network::bridged(),
            Keys::Service => Network::service_path(),
            Keys::Destination => {
                let at = ipv4::offset::DST as u16;
                let extractor = Extractor::new(at, 32).expect("32 bits are not too many");
                Network { extractor, ..Network::point_to_point(Layer::Ip) }
            }
            Keys::Prefixes => Network::routed(),
        }
    }

    /// Entries of its table, of so many that are asked for.
    pub(crate) fn entries(&self, wanted: usize) -> usize {
        if self.keys == Keys::One { 1 } else { wanted.max(1) }
    }

    /// The identifier of an entry, as packets have it.
    pub(crate) fn identifier(&self, entry: u64) -> u128 {
        match self.keys {
            Keys::One => 0,
            Keys::Mac => 0x0200_0000_0000 | u128::from(entry),
            Keys::Service => entry.into(),
            Keys::Destination | Keys::Prefixes => destination(entry).to_bits().into(),
        }
    }

    /// The station that an entry's frames are for.
    pub(crate) fn station(&self, entry: u64) -> MacAddress {
        let bytes = (0x0200_0000_0000 | u128::from(entry)).to_be_bytes();
        MacAddress(*bytes.last_chunk().expect("sixteen bytes"))
    }

    /// A packet with an entry's identifier, of so many bytes.
    pub(crate) fn packet(&self, entry: u64, flow: u16, size: usize) -> Vec<u8> {
        let front = match self.keys {
            Keys::Mac => {
                let dst = self.station(entry);
                let header = ethernet::Repr { dst, src: OWN, ethertype: EtherType::IPV4 }.header();
                header.into_inner().to_vec()
            }
            Keys::Service => service_header(entry).to_vec(),
            Keys::One | Keys::Destination | Keys::Prefixes => Vec::new(),
        };
        [&front[..], &inner_packet(entry, flow, size.saturating_sub(front.len()))].concat()
    }

    /// The address of tunnels at this end.
    fn local(&self) -> IpAddr {
        if self.is_v6 { LOCAL_V6.into() } else { LOCAL.into() }
    }

    /// The far end of an entry.
    pub(crate) fn end(&self, entry: u64) -> IpAddr {
        if self.is_v6 { end_v6(entry).into() } else { end(entry).into() }
    }

    fn tunnel(&self, local: IpAddr, remote: IpAddr) -> Result<Tunnel> {
        let protocol = self.row()?;
        let tunnel = Tunnel::new(protocol, local, remote);
        Ok(if protocol.identifier_bits == 0 { tunnel } else { tunnel.with_identifier(NETWORK) })
    }

    /// The overlay's table with so many entries, to be published.
    pub(crate) fn table(&self, entries: usize) -> Result<Overlay> {
        let failed = |error: overlay::Error| Error::new(error.to_string());
        let network = self.network();
        let mut table = Overlay::new();
        table.set_port(PORT, Some(Port { mac: OWN, mtu: 9000, vlan: None, is_up: true }));
        for prefix in [(IpAddr::from([10, 0, 0, 0]), 8), (ENDS_V6.into(), 64)] {
            table.set_route(prefix, Some(Route { port: PORT, gateway: None })).map_err(failed)?;
        }
        for n in 0..u64::from(ENDS) {
            table.set_neighbor(PORT, self.end(n), Some(neighbor(n)));
        }
        table.add_network(NETWORK, network).map_err(failed)?;
        for entry in 0..entries as u64 {
            let tunnel = self.tunnel(self.local(), self.end(entry))?;
            let done = match network.matching {
                Match::Exact => table.insert(NETWORK, self.identifier(entry), tunnel),
                Match::LongestPrefix => {
                    let prefix = (destination(entry).into(), 32);
                    table.insert_prefix(Owner::Static, NETWORK, prefix, tunnel)
                }
            };
            done.map_err(failed)?;
        }
        // Packets come back as they were sent: each far end is an end of ours.
        for n in 0..u64::from(ENDS).min(entries as u64) {
            let back = self.tunnel(self.end(n), self.local())?;
            table.add_end(NETWORK, &back, false).map_err(failed)?;
        }
        Ok(table)
    }

    /// What the protocol has of its own, as the overlay sends it with a packet.
    ///
    /// # Errors
    /// When the packet is not sent.
    pub(crate) fn shim(&self, sender: &mut Encapsulator, packet: &mut Packet) -> Result<Shim> {
        let (before, mut sent) = (packet.len(), [Sent::Punt]);
        sender.encapsulate(NETWORK, std::slice::from_mut(packet), &mut sent);
        let wrong = || Error::new(format!("a packet was not sent: {sent:?}"));
        let all = packet.get(ethernet::HEADER_LEN..packet.len() - before).ok_or_else(wrong)?;
        let (protocol, rest) = match self.is_v6 {
            true => ipv6::Header::of(all).map(|ip| ip.next_header()).zip(all.get(ipv6::HEADER_LEN..)),
            false => ipv4::Header::of(all).map(|ip| ip.protocol()).zip(all.get(ipv4::HEADER_LEN..)),
        }
        .ok_or_else(wrong)?;
        let is_udp = matches!(self.row()?.carrier, Carrier::Udp(_));
        let udp = if is_udp { udp::Header::of(rest).map(|udp| udp.dst_port()) } else { None };
        let bytes = rest.get(if is_udp { udp::HEADER_LEN } else { 0 }..).ok_or_else(wrong)?.to_vec();
        packet.pull_front(packet.len() - before).map_err(|e| Error::new(e.to_string()))?;
        restore(std::slice::from_mut(packet), self.keys);
        Ok(Shim { protocol, udp, bytes })
    }

    /// The headers of the tunnel to an entry's far end, up to IP.
    pub(crate) fn headers(&self, shim: &Shim, entry: u64) -> Option<Headers> {
        let plain = Headers::new();
        let ip = match (self.local(), self.end(entry)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let repr = ipv4::Repr::between(src, dst, shim.protocol, 0);
                plain.ipv4(&ipv4::Repr { dont_fragment: true, ..repr })?
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => plain.ipv6(&ipv6::Repr {
                src,
                dst,
                next_header: shim.protocol,
                hop_limit: overlay::DEFAULT_TTL,
                traffic_class: 0,
                flow_label: 0,
                payload_len: 0,
            })?,
            _ => return None,
        };
        let carrier = if let Some(port) = shim.udp { ip.udp(0, port)? } else { ip };
        carrier.bytes(&shim.bytes)
    }
}

/// The network service header of an entry's path.
pub(crate) fn service_header(entry: u64) -> [u8; nsh::TYPE_1_LEN] {
    nsh::type_1(entry as u32 >> 8, entry as u8, nsh::next_protocol::IPV4)
}

/// The host inside that an entry's packets are for.
pub(crate) fn destination(entry: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0A40_0000 + entry as u32)
}

/// A UDP packet for that host, of so many bytes.
pub(crate) fn inner_packet(entry: u64, flow: u16, size: usize) -> Vec<u8> {
    let headers = ipv4::HEADER_LEN + udp::HEADER_LEN;
    let len = size.max(headers);
    let mut packet = ipv4::Packet::new_unchecked(vec![0; len]);
    let (src, dst) = (Ipv4Addr::new(10, 9, 0, 1), destination(entry));
    ipv4::Repr::between(src, dst, IpProtocol::UDP, len - ipv4::HEADER_LEN).emit(&mut packet);
    let mut bytes = packet.into_inner();
    let udp = udp::Repr { src_port: flow, dst_port: 9, payload_len: len - headers }.header();
    bytes[ipv4::HEADER_LEN..headers].copy_from_slice(&udp.into_inner());
    bytes
}

/// Gives packets back the hop of their service path that sending took.
pub(crate) fn restore(packets: &mut [Packet], keys: Keys) {
    let services = packets.iter_mut().filter(|_| keys == Keys::Service);
    for mut header in services.filter_map(|packet| nsh::Header::of_mut(packet)) {
        header.set_ttl(nsh::DEFAULT_TTL);
    }
}

/// The far end of an entry over IPv4.
pub(crate) fn end(entry: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0A00_0001 + entry as u32 % ENDS)
}

/// The same over IPv6.
pub(crate) fn end_v6(entry: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(ENDS_V6.to_bits() + 1 + u128::from(entry as u32 % ENDS))
}

/// The Ethernet address of a far end.
pub(crate) fn neighbor(end: u64) -> MacAddress {
    MacAddress([2, 0, 0, 1, 0, end as u8])
}
