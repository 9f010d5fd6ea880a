//! Why a cable loses frames: each cause with its name in reports and the registered reason
//! under which programs count it that have the device in their own process.

use port::Reason;

/// Why frames are lost on a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    NoPeer,
    PeerTooSlow,
    SocketError,
    PeersQueueFull,
    LoopFull,
    InterfaceFull,
    InterfaceDown,
    InterfaceError,
    FaultDropped,
    FaultLinkDown,
    FaultCrc,
}

impl Cause {
    pub(crate) const ALL: [Cause; 11] = [
        Cause::NoPeer,
        Cause::PeerTooSlow,
        Cause::SocketError,
        Cause::PeersQueueFull,
        Cause::LoopFull,
        Cause::InterfaceFull,
        Cause::InterfaceDown,
        Cause::InterfaceError,
        Cause::FaultDropped,
        Cause::FaultLinkDown,
        Cause::FaultCrc,
    ];

    /// As reports have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Cause::NoPeer => "no peer",
            Cause::PeerTooSlow => "peer too slow",
            Cause::SocketError => "socket error",
            Cause::PeersQueueFull => "peer's queue full",
            Cause::LoopFull => "loop full",
            Cause::InterfaceFull => "interface full",
            Cause::InterfaceDown => "interface down",
            Cause::InterfaceError => "interface error",
            Cause::FaultDropped => "fault: dropped",
            Cause::FaultLinkDown => "fault: link down",
            Cause::FaultCrc => "fault: wrong CRC",
        }
    }

    /// Of frames from the host.
    pub(crate) const fn reason(self) -> Reason {
        match self {
            Cause::PeerTooSlow | Cause::PeersQueueFull | Cause::LoopFull | Cause::InterfaceFull => {
                Reason::TxWireFull
            }
            Cause::NoPeer | Cause::InterfaceDown => Reason::TxWireDown,
            Cause::SocketError | Cause::InterfaceError => Reason::TxWireError,
            Cause::FaultDropped | Cause::FaultLinkDown | Cause::FaultCrc => Reason::TxWireFault,
        }
    }
}
