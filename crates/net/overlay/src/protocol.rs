//! Tunnel protocols as data: a row says what carries the protocol, which payloads it takes
//! and how wide its identifier is, and has two functions, one that adds the protocol's own
//! header to a template and one that reads it. A protocol is added by a row, its functions
//! and a test; nothing else knows one.

use std::fmt;
use std::hash::{Hash, Hasher};

use port::Reason;
use wire::ethernet::EtherType;
use wire::ip::Protocol as IpProtocol;
use wire::outer::Outer;
use wire::tunnel::{geneve, gre, gtpu, lisp, mpls, nsh, srv6, vxlan};

use crate::tunnel::Tunnel;
use own::{
    add_gre, add_gre_header, add_label, recognize_geneve, recognize_gpe, recognize_gre, recognize_label,
};

mod dispatch;
mod own;

pub(crate) use dispatch::candidates;
pub(crate) use own::{add_service, recognize_segments};

/// Bytes of all headers that a tunnel puts in front of a packet, at most: the outer Ethernet
/// header, a VLAN tag, IPv6 and what the tunnel has of its own.
pub const MAX_HEADERS: usize = 128;

/// Headers of a tunnel as they are put together.
pub type Headers = Outer<MAX_HEADERS>;

/// What a tunnel carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Payload {
    /// An Ethernet frame.
    Ethernet,
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
    /// A packet with a network service header.
    Nsh,
}

impl Payload {
    /// The payload as GRE and Geneve name it.
    pub const fn ethertype(self) -> EtherType {
        match self {
            Payload::Ethernet => EtherType::TRANSPARENT_BRIDGING,
            Payload::Ipv4 => EtherType::IPV4,
            Payload::Ipv6 => EtherType::IPV6,
            Payload::Nsh => EtherType::NSH,
        }
    }

    const fn of_ethertype(ethertype: EtherType) -> Option<Payload> {
        match ethertype {
            EtherType::TRANSPARENT_BRIDGING => Some(Payload::Ethernet),
            EtherType::IPV4 => Some(Payload::Ipv4),
            EtherType::IPV6 => Some(Payload::Ipv6),
            EtherType::NSH => Some(Payload::Nsh),
            _ => None,
        }
    }

    /// The payload as an IP header names it.
    pub const fn ip_protocol(self) -> Option<IpProtocol> {
        match self {
            Payload::Ethernet => Some(IpProtocol::ETHERNET),
            Payload::Ipv4 => Some(IpProtocol::IPV4),
            Payload::Ipv6 => Some(IpProtocol::IPV6),
            Payload::Nsh => None,
        }
    }

    const fn of_ip_protocol(protocol: IpProtocol) -> Option<Payload> {
        match protocol {
            IpProtocol::ETHERNET => Some(Payload::Ethernet),
            IpProtocol::IPV4 => Some(Payload::Ipv4),
            IpProtocol::IPV6 => Some(Payload::Ipv6),
            _ => None,
        }
    }

    /// The payload as VXLAN's generic protocol extension and NSH name it: the numbers of
    /// both are the same for what is carried here.
    const fn next_protocol(self) -> u8 {
        match self {
            Payload::Ipv4 => vxlan::next_protocol::IPV4,
            Payload::Ipv6 => vxlan::next_protocol::IPV6,
            Payload::Ethernet => vxlan::next_protocol::ETHERNET,
            Payload::Nsh => vxlan::next_protocol::NSH,
        }
    }

    const fn of_next_protocol(protocol: u8) -> Option<Payload> {
        match protocol {
            vxlan::next_protocol::IPV4 => Some(Payload::Ipv4),
            vxlan::next_protocol::IPV6 => Some(Payload::Ipv6),
            vxlan::next_protocol::ETHERNET => Some(Payload::Ethernet),
            vxlan::next_protocol::NSH => Some(Payload::Nsh),
            _ => None,
        }
    }

    /// Whether a packet that begins with these bytes can be what it was said to be: long
    /// enough for its header, and of its version of IP.
    pub(crate) fn is_whole(self, bytes: &[u8]) -> bool {
        let version = bytes.first().map(|first| wire::ipv4::version(*first));
        match self {
            Payload::Ethernet => bytes.len() >= wire::ethernet::HEADER_LEN,
            Payload::Ipv4 => version == Some(4) && bytes.len() >= wire::ipv4::HEADER_LEN,
            Payload::Ipv6 => version == Some(6) && bytes.len() >= wire::ipv6::HEADER_LEN,
            Payload::Nsh => bytes.len() >= nsh::HEADER_LEN,
        }
    }

    /// The version of the IP packet that begins with these bytes.
    fn of_ip(bytes: &[u8]) -> Result<Payload, Refusal> {
        match bytes.first().map(|first| wire::ipv4::version(*first)) {
            Some(4) => Ok(Payload::Ipv4),
            Some(6) => Ok(Payload::Ipv6),
            _ => Err(Refusal::Drop(Reason::OverlayWrongPayload)),
        }
    }
}

/// What carries a tunnel's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// UDP to this port.
    Udp(u16),
    /// An IP header that names the tunnel's protocol.
    Ip(IpProtocol),
    /// An IP header that names the payload: there is no header of the tunnel's own.
    Payload,
    /// An IPv6 header whose destination is a segment, with a segment routing header where
    /// more than one is to be visited.
    Segments,
}

/// A tunnel's header that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recognized {
    /// The identifier by which the tunnel's end knows the virtual network. Without one the
    /// sender's address tells tunnels apart.
    pub identifier: Option<u32>,
    /// Bytes in front of the payload.
    pub header_len: usize,
    /// What is carried.
    pub payload: Payload,
    /// Bytes of the header and the payload, where the header says it.
    pub len: Option<usize>,
    /// Whether the header has a checksum over all of both, which is still to be verified.
    pub is_summed: bool,
}

impl Recognized {
    /// A header of this length that says no more.
    const fn plain(identifier: Option<u32>, header_len: usize, payload: Payload) -> Recognized {
        Recognized { identifier, header_len, payload, len: None, is_summed: false }
    }
}

/// Why a row did not read a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is a header of another row with the same carrier, if any.
    NotMine,
    /// The packet is the tunnel's own, for its control: it is left as it is.
    Control,
    /// The packet must be dropped.
    Drop(Reason),
}

impl From<wire::Error> for Refusal {
    fn from(_: wire::Error) -> Refusal {
        Refusal::Drop(Reason::OverlayTunnelMalformed)
    }
}

/// A tunnel protocol.
pub struct Protocol {
    /// The row's number, which is a part of the key by which ends are found.
    pub(crate) number: u8,
    /// The name in configurations and statistics.
    pub name: &'static str,
    /// The document that defines it.
    pub reference: &'static str,
    /// What carries its header.
    pub carrier: Carrier,
    /// Bits of the identifier by which the far end knows the virtual network; 0 for tunnels
    /// that are known by their ends' addresses alone.
    pub identifier_bits: u8,
    /// What it carries.
    pub payloads: &'static [Payload],
    /// Where its header has a 16-bit length of what follows the header's first bytes: the
    /// offset, and how many bytes are not counted.
    pub length: Option<(u8, u8)>,
    /// Whether its header has a place for a QoS flow identifier.
    pub has_qos_flow: bool,
    /// The number of the row whose packets may look like this one's, so that not both can end at
    /// one address.
    pub(crate) mistaken_for: Option<u8>,
    /// Adds the header, without those of its carrier. `None` when it is too long.
    pub(crate) add: fn(&Tunnel, Payload, Headers) -> Option<Headers>,
    /// Reads the header at the start of the bytes.
    pub(crate) recognize: fn(&[u8]) -> Result<Recognized, Refusal>,
}

impl Protocol {
    /// Whether there is a protocol that its packets could be [mistaken for](Self::is_mistaken_for).
    pub fn can_be_mistaken(&self) -> bool {
        self.mistaken_for.is_some()
    }

    /// Whether packets of this protocol could be those of another one that end at the same address,
    /// which therefore cannot be (nvgre and gretap: GRE's key is one number or two).
    pub fn is_mistaken_for(&self, other: &Protocol) -> bool {
        self.mistaken_for == Some(other.number)
    }

    /// The UDP port to which its packets go, if any.
    pub const fn udp_port(&self) -> Option<u16> {
        match self.carrier {
            Carrier::Udp(port) => Some(port),
            _ => None,
        }
    }

    /// The protocol of this name.
    pub fn named(name: &str) -> Option<&'static Protocol> {
        PROTOCOLS.iter().find(|protocol| protocol.name == name)
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Protocol {
    fn eq(&self, other: &Protocol) -> bool {
        self.number == other.number
    }
}

impl Eq for Protocol {}

impl Hash for Protocol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

const IP: &[Payload] = &[Payload::Ipv4, Payload::Ipv6];
const FRAMES: &[Payload] = &[Payload::Ethernet];
const FRAMES_AND_IP: &[Payload] = &[Payload::Ethernet, Payload::Ipv4, Payload::Ipv6];
const ANY: &[Payload] = &[Payload::Ethernet, Payload::Ipv4, Payload::Ipv6, Payload::Nsh];

/// How many protocols there are.
pub(crate) const COUNT: usize = 12;

/// All protocols. Where several have the same carrier, received packets are tried against
/// them in this order.
pub static PROTOCOLS: &[Protocol; COUNT] = &[
    Protocol {
        number: 0,
        name: "ipip",
        reference: "RFC 2003, RFC 2473, RFC 4213",
        carrier: Carrier::Payload,
        identifier_bits: 0,
        payloads: IP,
        length: None,
        has_qos_flow: false,
        mistaken_for: None,
        add: |_, _, headers| Some(headers),
        recognize: |bytes| Ok(Recognized::plain(None, 0, Payload::of_ip(bytes)?)),
    },
    Protocol {
        number: 1,
        name: "gre",
        reference: "RFC 2784, RFC 2890",
        carrier: Carrier::Ip(IpProtocol::GRE),
        identifier_bits: 32,
        payloads: &[Payload::Ipv4, Payload::Ipv6, Payload::Nsh],
        length: None,
        has_qos_flow: false,
        mistaken_for: None,
        add: add_gre,
        recognize: |bytes| recognize_gre(bytes, |payload| payload != Payload::Ethernet),
    },
    Protocol {
        number: 2,
        name: "nvgre",
        reference: "RFC 7637",
        carrier: Carrier::Ip(IpProtocol::GRE),
        identifier_bits: 24,
        payloads: FRAMES,
        length: None,
        has_qos_flow: false,
        mistaken_for: Some(3),
        add: |tunnel, payload, headers| {
            let key = gre::nvgre_key(tunnel.identifier.unwrap_or(0), 0);
            add_gre(&Tunnel { identifier: Some(key), ..tunnel.clone() }, payload, headers)
        },
        recognize: |bytes| {
            let packet = gre::Packet::new_checked(bytes)?;
            // RFC 7637, section 3.2: a key, and neither a checksum nor a sequence number.
            match (packet.key(), packet.header_len(), packet.protocol()) {
                (Some(key), 8, EtherType::TRANSPARENT_BRIDGING) => {
                    let network = gre::nvgre_network(key);
                    Ok(Recognized::plain(Some(network), 8, Payload::Ethernet))
                }
                _ => Err(Refusal::NotMine),
            }
        },
    },
    Protocol {
        number: 3,
        name: "gretap",
        reference: "RFC 2784, RFC 2890, RFC 1701's EtherType for frames",
        carrier: Carrier::Ip(IpProtocol::GRE),
        identifier_bits: 32,
        payloads: FRAMES,
        length: None,
        has_qos_flow: false,
        mistaken_for: Some(2),
        add: add_gre,
        recognize: |bytes| recognize_gre(bytes, |payload| payload == Payload::Ethernet),
    },
    Protocol {
        number: 4,
        name: "mpls-gre",
        reference: "RFC 4023",
        carrier: Carrier::Ip(IpProtocol::GRE),
        identifier_bits: 20,
        payloads: IP,
        length: None,
        has_qos_flow: false,
        mistaken_for: None,
        add: |tunnel, _, headers| {
            let repr = gre::Repr { protocol: EtherType::MPLS, checksum: false, key: None, sequence: None };
            let headers = add_gre_header(&repr, headers)?;
            add_label(tunnel, headers)
        },
        recognize: |bytes| {
            let packet = gre::Packet::new_checked(bytes)?;
            match packet.protocol() {
                EtherType::MPLS | EtherType::MPLS_UPSTREAM => {
                    let label = recognize_label(packet.payload())?;
                    let header_len = packet.header_len() + label.header_len;
                    Ok(Recognized { header_len, is_summed: packet.checksum().is_some(), ..label })
                }
                _ => Err(Refusal::NotMine),
            }
        },
    },
    Protocol {
        number: 5,
        name: "vxlan",
        reference: "RFC 7348",
        carrier: Carrier::Udp(vxlan::PORT),
        identifier_bits: 24,
        payloads: FRAMES,
        length: None,
        has_qos_flow: false,
        mistaken_for: None,
        add: |tunnel, _, headers| headers.bytes(&vxlan::header(tunnel.identifier.unwrap_or(0)).into_inner()),
        recognize: |bytes| {
            let header = vxlan::Header::of(bytes).ok_or(wire::Error::Truncated)?;
            // RFC 7348, section 5: the flag I must be set, the other bits are ignored.
            if header.flags() & vxlan::flag::VNI == 0 {
                return Err(Refusal::Drop(Reason::OverlayTunnelMalformed));
            }
            Ok(Recognized::plain(Some(header.vni()), vxlan::HEADER_LEN, Payload::Ethernet))
        },
    },
    Protocol {
        number: 6,
        name: "vxlan-gpe",
        reference: "draft-ietf-nvo3-vxlan-gpe-13",
        carrier: Carrier::Udp(vxlan::GPE_PORT),
        identifier_bits: 24,
        payloads: ANY,
        length: None,
        has_qos_flow: false,
        mistaken_for: None,
        add: |tunnel, payload, headers| {
            let protocol = if tunnel.service.is_some() { Payload::Nsh } else { payload }.next_protocol();
            headers.bytes(&vxlan::gpe_header(tunnel.identifier.unwrap_or(0), protocol).into_inner())
        },
        recognize: recognize_gpe,
    },
    Protocol {
        number: 7,
        name: "geneve",
        reference: "RFC 8926",
        carrier: Carrier::Udp(geneve::PORT),
        identifier_bits: 24,
        payloads: ANY,
        length: None,
        has_qos_flow: false,
        mistaken_for: None,
        add: |tunnel, payload, headers| {
            let payload = if tunnel.service.is_some() { Payload::Nsh } else { payload };
            let header = geneve::header(tunnel.identifier.unwrap_or(0), payload.ethertype());
            headers.bytes(&header.into_inner())
        },
        recognize: recognize_geneve,
    },
    Protocol {
        number: 8,
        name: "gtpu",
        reference: "3GPP TS 29.281",
        carrier: Carrier::Udp(gtpu::PORT),
        identifier_bits: 32,
        payloads: IP,
        length: Some((gtpu::offset::LEN as u8, gtpu::HEADER_LEN as u8)),
        has_qos_flow: true,
        mistaken_for: None,
        add: |tunnel, _, headers| {
            let teid = tunnel.identifier.unwrap_or(0);
            match tunnel.qos_flow {
                // From the user's side (uplink), as a base station sends.
                Some(flow) => headers.bytes(&gtpu::with_qos_flow(teid, 1, flow)),
                None => headers.bytes(&gtpu::header(teid).into_inner()),
            }
        },
        recognize: |bytes| {
            let header = gtpu::Header::of(bytes).ok_or(wire::Error::Truncated)?;
            let header_len = gtpu::header_len(bytes)?;
            if header.message() != gtpu::message::G_PDU {
                return Err(Refusal::Control);
            }
            let payload = Payload::of_ip(&bytes[header_len..])?;
            let len = Some(gtpu::HEADER_LEN + header.payload_len());
            Ok(Recognized { len, ..Recognized::plain(Some(header.teid()), header_len, payload) })
        },
    },
    Protocol {
        number: 9,
        name: "mpls-udp",
        reference: "RFC 7510",
        carrier: Carrier::Udp(mpls::PORT),
        identifier_bits: 20,
        payloads: IP,
        length: None,
        has_qos_flow: false,
        mistaken_for: None,
        add: |tunnel, _, headers| add_label(tunnel, headers),
        recognize: recognize_label,
    },
    Protocol {
        number: 10,
        name: "lisp",
        reference: "RFC 9300",
        carrier: Carrier::Udp(lisp::PORT),
        identifier_bits: 24,
        payloads: IP,
        length: None,
        has_qos_flow: false,
        mistaken_for: None,
        add: |tunnel, _, headers| headers.bytes(&lisp::header(tunnel.identifier.unwrap_or(0)).into_inner()),
        recognize: |bytes| {
            let header = lisp::Header::of(bytes).ok_or(wire::Error::Truncated)?;
            if header.flags() & lisp::flag::KEY != 0 {
                return Err(Refusal::Drop(Reason::OverlayTunnelMalformed)); // encrypted (RFC 8061)
            }
            let payload = Payload::of_ip(&bytes[lisp::HEADER_LEN..])?;
            let identifier = Some(header.instance().unwrap_or(0));
            Ok(Recognized::plain(identifier, lisp::HEADER_LEN, payload))
        },
    },
    Protocol {
        number: 11,
        name: "srv6",
        reference: "RFC 8986",
        carrier: Carrier::Segments,
        identifier_bits: 0,
        payloads: FRAMES_AND_IP,
        length: None,
        has_qos_flow: false,
        mistaken_for: None,
        add: |tunnel, payload, headers| match tunnel.segments.len() {
            0 => Some(headers),
            // Reduced (RFC 8986, section 5.2): the first segment is the destination alone.
            left @ 1..=2 => {
                let mut bytes = [0; srv6::len(2)];
                let is_written = srv6::emit(&mut bytes, payload.ip_protocol()?, &tunnel.segments, left as u8);
                headers.bytes(bytes.get(..srv6::len(left)).filter(|_| is_written)?)
            }
            _ => None,
        },
        recognize: |_| Err(Refusal::NotMine), // its header is found by the IPv6 header's chain
    },
];
