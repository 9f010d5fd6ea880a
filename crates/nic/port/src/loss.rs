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
}

impl fmt::Display for CountedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CountedBy::Nic => "NIC",
            CountedBy::Driver => "driver",
            CountedBy::Interface => "interface",
            CountedBy::Application => "application",
        })
    }
}

macro_rules! reasons {
    ($($reason:ident $name:literal $($by:ident),+ $what:literal;)*) => {
        /// A reason for which packets are lost.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $(#[doc = $what] $reason),* }

        impl Reason {
            /// All reasons, those of reception first.
            pub const ALL: &[Reason] = &[$(Reason::$reason),*];

            /// The stable name, as in `--json` and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$reason => $name),* }
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
    RxUdpMalformed "rx_udp_malformed" Application "UDP datagrams whose length made no sense";
    RxUdpChecksum "rx_udp_checksum" Application "UDP datagrams with a wrong checksum";
    RxUdpNoPort "rx_udp_no_port" Application "UDP datagrams to a port that nobody has";
    RxTcpMalformed "rx_tcp_malformed" Application "TCP segments whose header or options made no sense";
    RxTcpChecksum "rx_tcp_checksum" Application "TCP segments with a wrong checksum";
    RxTcpNoConnection "rx_tcp_no_connection" Application "TCP segments to a port without a connection or a listener";
    RxTcpSequence "rx_tcp_sequence" Application "TCP segments outside of the window";
    RxTcpTimestamp "rx_tcp_timestamp" Application "TCP segments with an old timestamp, or without one";
    RxTcpAcknowledgement "rx_tcp_acknowledgement" Application "TCP segments that acknowledge nothing, or what was never sent";
    RxTcpDuplicate "rx_tcp_duplicate" Application "TCP segments whose data had come before";
    RxTcpNoRoom "rx_tcp_no_room" Application "TCP segments ahead of others for which there was no room";
    RxTcpGap "rx_tcp_gap" Application "TCP segments ahead of others that did not come for long";
    RxTcpBuffers "rx_tcp_buffers" Application "TCP segments with data while connections keep as many packets as they may";
    RxTcpClosed "rx_tcp_closed" Application "TCP segments with data for a connection that the application had closed";
    RxTcpControl "rx_tcp_control" Application "TCP segments with a SYN or a reset that does not fit the connection";
    RxTcpLimit "rx_tcp_limit" Application "TCP connections for which there was no room, answered with a cookie";
    RxTcpSynData "rx_tcp_syn_data" Application "data of TCP SYNs that were not taken with them, and have to be sent again";
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
    TxTcpReply "tx_tcp_reply" Application "TCP resets and cookies for which there was no room";
    TxRingFull "tx_ring_full" Application "packets an application gave up because a transmit ring was full";
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
    fn names_are_different_and_tell_the_direction() {
        for (n, reason) in Reason::ALL.iter().enumerate() {
            let name = reason.name();
            assert!(name.starts_with("rx_") || name.starts_with("tx_"), "{name}");
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
