//! Why packets are lost: one registry of reasons. A loss is counted where it
//! happens, under one of these names; statistics, `--json`, the progress line and
//! the documentation take name and sentence from here.
//!
//! For any program: received = delivered + held + the sum over the reasons.

use std::fmt;

/// Who counts a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountedBy {
    /// The device, in a register.
    Nic,
    /// The driver, in a queue.
    Driver,
    /// A port on an interface of the kernel's, or the kernel for it.
    Interface,
    /// The application, between its ports.
    Application,
    /// A TCP stack, of the segments that come to it.
    Tcp,
    /// An overlay: its table, or the endpoint or the elements around it.
    Overlay,
}

impl fmt::Display for CountedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CountedBy::Nic => "NIC",
            CountedBy::Driver => "driver",
            CountedBy::Interface => "interface",
            CountedBy::Application => "application",
            CountedBy::Tcp => "TCP",
            CountedBy::Overlay => "overlay",
        })
    }
}

macro_rules! reasons {
    ($($reason:ident $name:literal $($by:ident),+ $what:literal;)*) => {
        /// A reason for which packets are lost.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $(#[doc = $what] $reason),* }

        impl Reason {
            /// All reasons: of ports and hosts those of reception first, then those of overlays.
            pub const ALL: &[Reason] = &[$(Reason::$reason),*];

            /// The stable name, as in `--json` and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$reason => $name),* }
            }

            /// The reason of this name.
            pub fn named(name: &str) -> Option<Reason> {
                Reason::ALL.iter().copied().find(|reason| reason.name() == name)
            }

            /// What happened, in a sentence's words.
            pub const fn what(self) -> &'static str {
                match self { $(Reason::$reason => $what),* }
            }

            /// Who counts it.
            pub const fn counted_by(self) -> &'static [CountedBy] {
                match self { $(Reason::$reason => &[$(CountedBy::$by),+]),* }
            }
        }
    };
}

reasons! {
    RxCrc "rx_crc" Nic "received frames with a wrong CRC";
    RxAlignment "rx_alignment" Nic "received frames that end within a byte";
    RxSymbol "rx_symbol" Nic "received frames with a symbol that does not exist";
    RxFifoFull "rx_fifo_full" Nic "frames that found the NIC's packet buffer full";
    RxNoDescriptor "rx_no_descriptor" Nic "frames whose queue had no descriptor left";
    RxLengthField "rx_length_field" Nic "received frames whose length field is wrong";
    RxUndersize "rx_undersize" Nic "received frames that are too short";
    RxFragment "rx_fragment" Nic "received frames that are too short, with a wrong CRC";
    RxJabber "rx_jabber" Nic "received frames that are too long, with a wrong CRC";
    RxFlowFilter "rx_flow_filter" Nic "frames of flows that a filter of the port drops";
    TxCollision "tx_collision" Nic "frames given up after too many or late collisions";
    RxBadDescriptor "rx_bad_descriptor" Driver "received packets with an error, or whose descriptor made no sense";
    TxUnsendable "tx_unsendable" Driver "packets the device cannot send: too short, too long, too many segments";
    TxSpoofed "tx_spoofed" Nic "frames from an address or of a VLAN that a virtual function may not send";
    TxUnsent "tx_unsent" Driver "packets the device still had when their queue was closed";
    RxOversize "rx_oversize" Nic, Interface "received frames longer than the port was opened for";
    RxMalformed "rx_malformed" Interface "received frames or ring entries that made no sense";
    RxKernelRing "rx_kernel_ring" Interface "frames for which the kernel found no room in the socket's ring";
    RxInterface "rx_interface" Interface "frames the kernel's interface could not receive or dropped";
    RxIpMalformed "rx_ip_malformed" Application "IP packets whose header made no sense, to a host";
    RxNotForHost "rx_not_for_host" Application "packets to addresses that a host does not have";
    RxIpFragment "rx_ip_fragment" Application "fragments of IP packets, which a host does not join";
    RxNoProtocol "rx_no_protocol" Application "packets of protocols that a host does not speak";
    RxIcmpError "rx_icmp_error" Application "ICMP errors about nothing that a host has on its way, or with nothing new";
    RxConfiguration "rx_configuration" Application "DHCP messages and router advertisements that made no sense, were too many or not for a host";
    RxUdpMalformed "rx_udp_malformed" Application "UDP datagrams whose length made no sense";
    RxUdpChecksum "rx_udp_checksum" Application "UDP datagrams with a wrong checksum";
    RxUdpNoPort "rx_udp_no_port" Application "UDP datagrams to a port that nobody has";
    RxTcpMalformed "rx_tcp_malformed" Tcp "TCP segments whose header or options made no sense";
    RxTcpChecksum "rx_tcp_checksum" Tcp "TCP segments with a wrong checksum";
    RxTcpNoConnection "rx_tcp_no_connection" Tcp "TCP segments to a port without a connection or a listener";
    RxTcpSequence "rx_tcp_sequence" Tcp "TCP segments outside of the window";
    RxTcpTimestamp "rx_tcp_timestamp" Tcp "TCP segments with an old timestamp, or without one";
    RxTcpAcknowledgement "rx_tcp_acknowledgement" Tcp "TCP segments that acknowledge nothing, or what was never sent";
    RxTcpDuplicate "rx_tcp_duplicate" Tcp "TCP segments whose data had come before";
    RxTcpNoRoom "rx_tcp_no_room" Tcp "TCP segments ahead of others for which there was no room";
    RxTcpGap "rx_tcp_gap" Tcp "TCP segments ahead of others that did not come for long";
    RxTcpBuffers "rx_tcp_buffers" Tcp "TCP segments with data while connections keep as many packets as they may";
    RxTcpClosed "rx_tcp_closed" Tcp "TCP segments with data for a connection that the application had closed";
    RxTcpControl "rx_tcp_control" Tcp "TCP segments with a SYN or a reset that does not fit the connection";
    RxTcpLimit "rx_tcp_limit" Tcp "TCP connections for which there was no room, answered with a cookie";
    RxTcpSynData "rx_tcp_syn_data" Tcp "data of TCP SYNs that were not taken with them, and have to be sent again";
    RxNotWritten "rx_not_written" Application "packets of a capture that its file did not take";
    TxOversize "tx_oversize" Interface "frames longer than the interface sends";
    TxRunt "tx_runt" Interface "frames shorter than an Ethernet header";
    TxOffload "tx_offload" Driver, Interface "packets that ask for an offload this port does not have";
    TxRefused "tx_refused" Interface "frames the kernel refused";
    TxInterface "tx_interface" Interface "frames the kernel's interface could not send or dropped";
    TxNoRoute "tx_no_route" Application "packets of a host to addresses without a route";
    TxNoNeighbor "tx_no_neighbor" Application "packets of a host whose next hop did not answer";
    TxIcmpLimit "tx_icmp_limit" Application "ICMP errors that a host did not send because there were too many";
    TxUdpUnsent "tx_udp_unsent" Application "UDP datagrams for which there was no room, or that an application would not send";
    TxTcpReply "tx_tcp_reply" Tcp "TCP resets and cookies for which there was no room";
    TxRingFull "tx_ring_full" Application "packets an application gave up because a transmit ring was full";
    OverlayUnknownNetwork "overlay_unknown_network" Overlay "packets to send of a virtual network that does not exist";
    OverlayNoKey "overlay_no_key" Overlay "packets to send that end before the identifier of their network";
    OverlayUnknownKey "overlay_unknown_key" Overlay "packets to send whose identifier no entry of their network has";
    OverlayNoIp "overlay_no_ip" Overlay "packets to send that are no IP packets, in a network of IP packets";
    OverlayNoRoute "overlay_no_route" Overlay "packets to a tunnel's end to which there is no route";
    OverlayNoNeighbor "overlay_no_neighbor" Overlay "packets to a tunnel's end whose next hop has no known Ethernet address";
    OverlayLinkDown "overlay_link_down" Overlay "packets to a tunnel's end by a port that is down";
    OverlayBadTunnel "overlay_bad_tunnel" Overlay "packets to a tunnel whose headers cannot be made";
    OverlayTooLong "overlay_too_long" Overlay "packets that are too long for the underlay with the tunnel's headers";
    OverlayNoHeadroom "overlay_no_headroom" Overlay "packets whose buffers have no room for the tunnel's headers";
    OverlayServiceTtl "overlay_service_ttl" Overlay "packets to send that have visited as many service functions as they may";
    OverlayOffload "overlay_offload" Overlay "packets to send that wait for what cannot be done in their tunnel, or whose headers are not where they say";
    OverlayOuterMalformed "overlay_outer_malformed" Overlay "received packets whose outer headers contradict themselves";
    OverlayOuterChecksum "overlay_outer_checksum" Overlay "received packets with a wrong checksum in an outer header";
    OverlayOuterFragment "overlay_outer_fragment" Overlay "received fragments of tunnels' packets";
    OverlayZeroChecksum "overlay_zero_checksum" Overlay "received packets over IPv6 without a UDP checksum, from a tunnel that must have one";
    OverlayTunnelMalformed "overlay_tunnel_malformed" Overlay "received packets whose tunnel's header contradicts itself or must not be ignored";
    OverlayCriticalOption "overlay_critical_option" Overlay "received packets with an option that must be known and is not";
    OverlayUnknownEnd "overlay_unknown_end" Overlay "received packets of a tunnel that does not end here";
    OverlayWrongPayload "overlay_wrong_payload" Overlay "received packets that carry what their network does not have";
    OverlayCongestion "overlay_congestion" Overlay "received packets that met congestion and whose senders cannot be told";
    OverlayPunted "overlay_punted" Overlay "packets to send that no entry has, of a network that gives them back: nobody takes them here";
    OverlayNoCopy "overlay_no_copy" Overlay "packets to send to all of a flood list that is empty, or for whose copies there was no buffer";
    OverlayNoOutput "overlay_no_output" Overlay "packets for a port of the underlay that a router's element has no output for";
    OverlayNotForUs "overlay_not_for_us" Overlay "received frames that are no tunnel's and for nobody here";
    OverlayNoInner "overlay_no_inner" Overlay "received packets of a network that has no port here";
    OverlayNotRouted "overlay_not_routed" Overlay "frames of a network of packets that are not for its gateway, or carry something else";
    OverlayInnerMalformed "overlay_inner_malformed" Overlay "packets to send that are shorter than their IP header says, or whose IPv4 header has a wrong checksum";
    OverlayTtlExpired "overlay_ttl_expired" Overlay "packets to send that may take no further hop";
    OverlayControlFull "overlay_control_full" Overlay "answers of neighbours that came faster than they are looked at";
    OverlayNotAsked "overlay_not_asked" Overlay "requests for neighbours for which there was no buffer";
    OverlayNotCut "overlay_not_cut" Overlay "long segments to send that could not be cut, or not to the end, for there was no buffer";
    OverlayNoPort "overlay_no_port" Overlay "packets for a port of the underlay that is not there";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_tell_the_direction_or_the_overlay() {
        for (n, reason) in Reason::ALL.iter().enumerate() {
            let name = reason.name();
            match reason.counted_by() == [CountedBy::Overlay] {
                true => assert!(name.starts_with("overlay_"), "{name}"),
                false => assert!(name.starts_with("rx_") || name.starts_with("tx_"), "{name}"),
            }
            assert_eq!(Reason::named(name), Some(*reason));
            assert!(Reason::ALL[..n].iter().all(|other| other.name() != name), "{name} stands twice");
        }
    }

    #[test]
    fn the_page_about_losses_has_this_list() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/losses.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let row = |reason: &Reason| {
            let by: Vec<String> = reason.counted_by().iter().map(ToString::to_string).collect();
            format!("| `{reason}` | {} | {} |", reason.what(), by.join(", "))
        };
        assert_eq!(rows, Reason::ALL.iter().map(row).collect::<Vec<_>>());
    }
}
