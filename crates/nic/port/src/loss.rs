//! Why packets are lost: one registry of reasons. A loss is counted where it
//! happens, under one of these names; statistics, `--json`, metrics, the progress line
//! and the documentation take name and sentence from here. The names of elements' reasons
//! are words with spaces, as Click says such things; all others are one word.
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
    /// The cable of a device model.
    Wire,
    /// A TCP stack, of the segments that come to it.
    Tcp,
    /// An overlay: its table, or the endpoint or the elements around it.
    Overlay,
    /// An element of a router.
    Element,
}

impl fmt::Display for CountedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CountedBy::Nic => "NIC",
            CountedBy::Driver => "driver",
            CountedBy::Interface => "interface",
            CountedBy::Application => "application",
            CountedBy::Wire => "wire",
            CountedBy::Tcp => "TCP",
            CountedBy::Overlay => "overlay",
            CountedBy::Element => "element",
        })
    }
}

macro_rules! reasons {
    ($($reason:ident $name:literal $($by:ident),+ $what:literal;)*) => {
        /// A reason for which packets are lost.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $(#[doc = $what] $reason),* }

        impl Reason {
            /// All reasons: of ports and hosts those of reception first, then
            /// those of overlays, then those of elements.
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
    EncapNotGivenBack "tx_encap_not_given_back" Nic "packets that a NIC's table of tunnels had no room to give back";
    EncapMalformed "tx_encap_malformed" Nic "frames for a NIC's table of tunnels that end before their packet does";
    EncapForeign "rx_encap_foreign" Nic "received frames with the tag of a NIC's table of tunnels, which are the driver's alone";
    TxLinkDown "tx_link_down" Nic "packets that the NIC gave up because its link was down";
    TxUnsent "tx_unsent" Driver "packets the device still had when their queue was closed";
    RxOversize "rx_oversize" Nic, Interface "received frames longer than the port was opened for";
    RxMalformed "rx_malformed" Interface "received frames or ring entries that made no sense";
    RxKernelRing "rx_kernel_ring" Interface "frames for which the kernel found no room in the socket's ring";
    RxInterface "rx_interface" Interface "frames the kernel's interface could not receive or dropped";
    RxIpMalformed "rx_ip_malformed" Application "IP packets whose header made no sense, to a host";
    RxNotForHost "rx_not_for_host" Application "packets to addresses that a host does not have";
    RxIpSource "rx_ip_source" Application "packets from addresses that no other host has: a host's own, of loopback, of a group or of all";
    RxIpFragment "rx_ip_fragment" Application "fragments of IP packets that disagree about the length or make no packet";
    RxIpFragmentShort "rx_ip_fragment_short" Application "fragments of IP packets that are empty, end within eight bytes or lack the header above IP";
    RxIpFragmentLong "rx_ip_fragment_long" Application "fragments of IP packets that are longer than 65,535 bytes, or than a TCP segment may be";
    RxIpFragmentOverlap "rx_ip_fragment_overlap" Application "fragments of IP packets of which some overlap";
    RxIpFragmentLate "rx_ip_fragment_late" Application "fragments of IP packets of which others did not come in time";
    RxIpFragmentRoom "rx_ip_fragment_room" Application "fragments of IP packets given up to make room for others";
    RxIpFragmentBuffers "rx_ip_fragment_buffers" Application "IP packets that came in fragments and for which there were no buffers";
    RxIpFragmentCore "rx_ip_fragment_core" Application "TCP segments that came in fragments to a core without their connection, which may be another core's";
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
    RxTcpMailbox "rx_tcp_mailbox" Tcp "TCP segments for another core, to which too many were on their way";
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
    TxWireFull "tx_wire_full" Wire "frames for which a model's wire had no room, for its other end was too slow";
    TxWireDown "tx_wire_down" Wire "frames at the other end of whose wire, a model's, nobody was";
    TxWireError "tx_wire_error" Wire "frames that the socket or interface at the end of a model's wire refused";
    TxWireFault "tx_wire_fault" Wire "frames that an injected fault lost on a model's wire";
    TxNoRoute "tx_no_route" Application "packets of a host to addresses without a route";
    TxNoNeighbor "tx_no_neighbor" Application "packets of a host whose next hop did not answer";
    TxIcmpLimit "tx_icmp_limit" Application "ICMP errors that a host did not send because there were too many";
    TxUdpUnsent "tx_udp_unsent" Application "UDP datagrams for which there was no room, or that an application would not send";
    TxTcpReply "tx_tcp_reply" Tcp "TCP resets and cookies for which there was no room";
    TxRingFull "tx_ring_full" Application "packets an application gave up because a transmit ring was full";
    OverlayUnknownNetwork "overlay_unknown_network" Overlay "packets to send of a virtual network that does not exist";
    OverlayNoKey "overlay_no_key" Overlay "packets to send that end before the identifier of their network";
    OverlayUnknownKey "overlay_unknown_key" Overlay, Nic "packets to send whose identifier no entry of their network has";
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
    OverlaySplitHorizon "overlay_split_horizon" Overlay "received frames for all, from another endpoint of the Ethernet segment to which they would go";
    OverlayNotDesignated "overlay_not_designated" Overlay "received frames for all, to an Ethernet segment for which this endpoint is not the designated forwarder";
    OverlayNoPort "overlay_no_port" Overlay "packets for a port of the underlay that is not there";
    Dropped "dropped" Element "packets that an element was told to drop, or that leave it where nothing is connected";
    NotConnected "not connected" Element "packets that leave an element where nothing is connected, or go to a socket without a peer";
    NotTakenOver "not taken over by the new configuration" Element "packets that waited in an element which the new configuration does not have";
    NoBuffers "no buffers" Element "packets, copies or pieces that were not made because there was no packet buffer, and packets of a source that would have waited in a queue while there were few";
    NoBuffersLeft "no packet buffers left" Element "packets that would have waited in a queue while no packet buffers were left";
    NoHeadroom "no headroom" Element "packets whose buffers have no room in front for the headers to add";
    NoRoom "no room" Element "packets in which there is no place for what an element adds, or which its table has no place for";
    TooShort "too short" Element "packets that end before what an element reads or removes";
    TooLong "too long" Element "packets that are longer than they may be, or would become so";
    TooLongToKeep "too long to be kept" Element "packets that are too long to be kept and played again";
    LongerThanPossible "longer than a packet can be" Element "packets that would be longer than an IP packet can be";
    LongerThanMtu "longer than MTU" Element "packets that are longer than the host's interface takes";
    NoIpHeader "no IP header" Element "packets in which no IP header was found, or not one that the element understands";
    HeaderOutside "header outside packet" Element "packets whose IP header no longer lies within them";
    BadInput "bad input packet" Element "packets whose IPv4 header is incomplete";
    Tiny "tiny packet" Element "packets that end within the header to check";
    BadIpVersion "bad IP version" Element "packets whose header is of another version of IP";
    BadIpHeaderLength "bad IP header length" Element "packets whose IPv4 header says a length that it cannot have";
    BadIpLength "bad IP length" Element "packets that are shorter than their IP header says";
    BadIpChecksum "bad IP checksum" Element "packets whose IPv4 header has a wrong checksum";
    BadSource "bad source address" Element "packets from an address that cannot be a source";
    BadLength "bad packet length" Element "packets whose transport header contradicts their length";
    BadLengths "bad lengths" Element "packets whose IP and transport headers contradict their length";
    NotIcmp "not ICMP" Element "packets that are not ICMP";
    NotTcp "not TCP" Element "packets that are not TCP";
    NotUdp "not UDP" Element "packets that are not UDP";
    NotIp "not IP" Element "packets that are not IP";
    NotIpv4 "not IPv4" Element "packets that are not IPv4";
    AnotherProtocol "another protocol" Element "packets of a protocol that the element does not change";
    BadIcmpChecksum "bad ICMP checksum" Element "packets with a wrong ICMP checksum";
    BadTcpChecksum "bad TCP checksum" Element "packets with a wrong TCP checksum";
    BadUdpChecksum "bad UDP checksum" Element "packets with a wrong UDP checksum";
    BadCrc "bad CRC" Element "packets that do not end with their CRC";
    FragmentOrShort "fragment or short packet" Element "fragments, and packets that are too short for their transport header";
    TooSmallForAddresses "too small for addresses" Element "ARP messages that end before their last address";
    BadHardware "bad hardware type/length" Element "ARP messages whose hardware addresses are not Ethernet's";
    BadProtocol "bad protocol type/length" Element "ARP messages whose protocol addresses are as long as those of no version of IP";
    BadOption "bad option" Element "packets with an IPv4 option that is wrong";
    TimeExceeded "time exceeded" Element "IPv4 packets that may take no further hop";
    HopLimitExceeded "hop limit exceeded" Element "IPv6 packets that may take no further hop";
    MustNotFragment "must not be fragmented" Element "packets that are too long for the next link and must not be fragmented";
    TooBig "too big" Element "IPv6 packets that are too long for the next link";
    FragmentsContradict "fragments contradict each other" Element "fragments that overlap or disagree about their packet's length";
    FragmentWithoutFirst "fragment without a first one" Element "fragments of a packet whose first fragment did not come";
    NotComplete "not complete in time" Element "packets whose fragments did not all come in time";
    TooManyKept "too many kept" Element "packets whose fragments were given up to make room for others";
    NoRoute "no route" Element "packets to addresses without a route";
    NoSuchOutput "no such output" Element "packets for an output that the element does not have";
    Broadcast "broadcast" Element "packets that came by link-layer broadcast or multicast, which may not be forwarded";
    ToAnotherHost "to another host" Element "frames to another host's Ethernet address";
    FromThisHost "from this host" Element "frames that this host sent itself";
    NoTag "no tag" Element "frames without a VLAN tag";
    NoDestination "no destination" Element "packets that do not say to which next hop they go";
    NoOwnAddress "no address of its own" Element "packets that wait for an address while the element has none to ask from";
    WaitedInVain "waited in vain" Element "packets that waited for the Ethernet address of a next hop that did not answer, or too many of them";
    NoArpRequest "no request for an address here" Element "packets that are no ARP request for an address here";
    NoSolicitation "no solicitation for an address here" Element "packets that are no neighbour solicitation for an address here";
    NoAnswerDue "no answer is due" Element "packets about which no ICMP error may be sent";
    NoEchoRequest "no echo request" Element "packets that are no ICMP echo request";
    NoEchoReply "no echo reply to a request of these" Element "packets that are no reply to a ping of this element";
    NotEcnCapable "not ECN capable" Element "packets whose sender does not take marks of congestion";
    SameNetwork "in the network it came from" Element "frames to a host in the network that they came from";
    NoOtherNetwork "no other network" Element "frames to all networks where there is only the one they came from";
    NoOtherPort "no other port" Element "frames to all ports where there is only the one they came from";
    NoPattern "no pattern holds" Element "packets that no pattern of a Classifier matches";
    NoExpression "no expression holds" Element "packets that no expression of an IPClassifier matches";
    Denied "denied" Element "packets that a rule of an IPFilter denies, or that none allows";
    Filtered "filtered" Element "packets of an aggregate that is filtered";
    AnotherColour "another colour" Element "packets that are painted in another colour";
    NoColourOutput "no output for this colour" Element "packets whose colour is the number of no output";
    NotSwitchedTo "not the input switched to" Element "packets that come to an input which is not switched to";
    SwitchedOff "switched off" Element "packets to a switch that is off";
    Suppressed "suppressed" Element "packets of a port that is suppressed";
    PushedIntoIdle "pushed into Idle" Element "packets that came to an Idle, which takes none";
    NoTickets "no output has tickets" Element "packets for which no output has tickets";
    NoScriptOutput "script returned no output" Element "packets for which a script returned no output";
    QueueFull "queue full" Element "packets that found a queue full";
    RingFull "ring full" Element "packets that found a transmit ring or a ring between threads full";
    Reset "reset" Element "packets that waited in an element which was told to forget them";
    NobodySends "nobody sends any more" Element "packets for a port whose sending thread has ended";
    RateExceeded "rate exceeded" Element "packets that come faster than they may";
    DroppedEarly "dropped early" Element "packets that random early detection drops, before a queue is full";
    NotInSample "not in the sample" Element "packets that a random sample leaves out";
    CameTwice "came twice" Element "frames of Wi-Fi that came twice";
    NotInRange "not in the range" Element "packets outside of the times that are let through";
    NotSampled "not sampled" Element "packets of a file that a random sample leaves out";
    NotWritten "not written" Element "packets that the file of a ToDump did not take";
    NotSent "not sent" Element "packets that the kernel did not take from a socket of an element";
    NotAllowed "not allowed" Element "datagrams from addresses from which a socket takes none";
    NotTakenByHost "not taken by the host" Element "packets that the host's kernel did not take from its interface";
    NoKnownFlow "about no known flow" Element "ICMP errors about a packet of no known flow";
    NoFlowWanted "no flow and none wanted" Element "packets of no known flow, for which none is made";
    NothingToRewrite "no packet to rewrite" Element "packets that a rewriter cannot rewrite: no TCP or UDP, or a fragment";
    NoFreeAddress "no free address or port" Element "packets whose flow has no free address or port";
    TableFull "table full" Element "packets whose flow has no place in the table";
    TooManyOfHost "too many flows of one host" Element "packets whose host has as many flows as it may";
    NoFlow "no flow" Element "packets that belong to no flow";
    TooManyFlows "too many flows" Element "packets of a new flow while there are as many as there may be";
    TooManyPairs "too many pairs" Element "packets of a new pair of addresses while there are as many as there may be";
    NotFirst "not the first" Element "packets that are not the first of their aggregate";
    NotLast "not the last" Element "packets that are not the last of their aggregate";
    NotCounted "not counted" Element "packets of an aggregate that is not counted";
    NoSuchField "no such field" Element "packets without the field that makes the aggregate";
    NoSuchNumber "no such number" Element "packets without a number, or with one that is too large";
    NotRecorded "not recorded" Element "packets whose number a RecordTimestamp did not record";
    NotUnderstood "not understood" Element "lines of a summary that make no packet";
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
    fn names_are_different_and_tell_who_counts() {
        for (n, reason) in Reason::ALL.iter().enumerate() {
            let name = reason.name();
            match reason.counted_by() {
                [CountedBy::Overlay, ..] => assert!(name.starts_with("overlay_"), "{name}"),
                // They stand in metrics' labels and in lists with tabs and `=` as they are.
                [CountedBy::Element] => {
                    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == ' ' || c == '/';
                    assert!(name.chars().all(is_plain), "{name}");
                }
                _ => assert!(name.starts_with("rx_") || name.starts_with("tx_"), "{name}"),
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
