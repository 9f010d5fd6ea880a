//! Virtual networks as packets find them: what they carry, and how the identifier of a packet
//! is read.

use fib::exact::{Extractor, Key};
use port::Reason;

use crate::protocol::Payload;
use crate::tunnel::Tunnel;

/// What packets of a virtual network are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// Ethernet frames, without the frame check sequence.
    Ethernet,
    /// IP packets of both versions.
    Ip,
    /// Packets with a network service header.
    Service,
}

impl Layer {
    /// What packets of the layer are to a tunnel: in front of frames and of IPv4 packets, and
    /// in front of IPv6 packets.
    pub(crate) const fn payloads(self) -> [Payload; 2] {
        match self {
            Layer::Ethernet => [Payload::Ethernet; 2],
            Layer::Ip => [Payload::Ipv4, Payload::Ipv6],
            Layer::Service => [Payload::Nsh; 2],
        }
    }

    /// Whether a tunnel carries such packets.
    pub(crate) fn goes_by(self, tunnel: &Tunnel) -> bool {
        self.payloads().iter().all(|payload| tunnel.protocol.payloads.contains(payload))
    }
}

/// What becomes of a packet whose identifier no entry has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// It is dropped, as [`Reason::OverlayUnknownKey`].
    Drop,
    /// It is given back as it is, to whoever decides.
    Punt,
    /// A copy goes to each tunnel of the network's flood list.
    Flood,
}

/// How a packet's entry is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Match {
    /// It is that of the very identifier that the packet has.
    Exact,
    /// Entries are prefixes of IP addresses: it is the longest that the packet's destination
    /// has ([`Overlay::insert_prefix`](crate::Overlay::insert_prefix)).
    LongestPrefix,
}

/// A virtual network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// What its packets are.
    pub layer: Layer,
    /// Where the identifier of a packet stands: its offset in bytes from the packet's start
    /// and its length in bits (the paper's Table 1). No bits stand for a tunnel with one far
    /// end.
    pub extractor: Extractor,
    /// How entries are found; without [`Match::Exact`] the extractor is not used.
    pub matching: Match,
    /// What becomes of packets with an identifier that no entry has.
    pub unknown: Unknown,
}

impl Network {
    /// A network of Ethernet frames that go by their destination.
    pub fn bridged() -> Network {
        let extractor = Extractor::new(0, 48).expect("48 bits are not too many");
        Network { layer: Layer::Ethernet, extractor, matching: Match::Exact, unknown: Unknown::Drop }
    }

    /// A network whose packets all go to one far end.
    pub fn point_to_point(layer: Layer) -> Network {
        let extractor = Extractor::new(0, 0).expect("no bits are not too many");
        Network { layer, extractor, matching: Match::Exact, unknown: Unknown::Drop }
    }

    /// Packets with a network service header, which go by service path and index.
    pub fn service_path() -> Network {
        let at = wire::tunnel::nsh::SERVICE_PATH as u16;
        let extractor = Extractor::new(at, 32).expect("32 bits are not too many");
        Network { layer: Layer::Service, extractor, matching: Match::Exact, unknown: Unknown::Drop }
    }

    /// A network of IP packets that go by the longest prefix of their destination.
    pub fn routed() -> Network {
        Network { matching: Match::LongestPrefix, ..Network::point_to_point(Layer::Ip) }
    }

    /// The key of a packet in a network of this incarnation.
    #[inline]
    pub(crate) fn key(&self, incarnation: u32, packet: &[u8]) -> Result<Key, Reason> {
        self.extractor.key(incarnation, packet).ok_or(Reason::OverlayNoKey)
    }
}
