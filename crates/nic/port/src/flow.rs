//! Flows that a NIC's filters can tell apart, and what filters do with their packets.

use wire::ip::Addresses;

/// The packets of one flow as they are received: all of these fields are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// From whom and to whom.
    pub addresses: Addresses,
    /// The transport protocol, and its ports where it has some.
    pub transport: Transport,
}

/// The transport protocol of a [`Flow`]. Fragments belong to no flow with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP between these ports.
    Tcp {
        /// From which port.
        src: u16,
        /// To which port.
        dst: u16,
    },
    /// UDP between these ports.
    Udp {
        /// From which port.
        src: u16,
        /// To which port.
        dst: u16,
    },
    /// SCTP between these ports.
    Sctp {
        /// From which port.
        src: u16,
        /// To which port.
        dst: u16,
    },
    /// Any other protocol, and fragments of all.
    Other,
}

/// What a filter does with the packets of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowTarget {
    /// They come to this receive queue, whatever their hash.
    Queue(usize),
    /// They are dropped, and counted as [`crate::Reason::RxFlowFilter`].
    Drop,
}
