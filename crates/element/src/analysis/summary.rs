//! Summaries of packets, a line each: the fields that `FromIPSummaryDump` and
//! `ToIPSummaryDump` know, and how they are written.

pub(super) mod builder;
pub(super) mod from;
pub(super) mod show;
pub(super) mod to;

/// A field of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Timestamp,
    Seconds,
    Microseconds,
    FirstTimestamp,
    Count,
    Link,
    Direction,
    Aggregate,
    WireLen,
    IpSrc,
    IpDst,
    IpTos,
    IpDscp,
    IpEcn,
    IpTtl,
    IpFrag,
    IpFragOff,
    IpId,
    IpSum,
    IpProto,
    IpHl,
    IpLen,
    IpCaptureLen,
    SPort,
    DPort,
    TcpSeq,
    TcpAck,
    TcpOff,
    TcpFlags,
    TcpWindow,
    TcpUrp,
    UdpLen,
    IcmpType,
    IcmpCode,
    PayloadLen,
    Payload,
}

/// The fields by the names they are written with.
const NAMES: &[(&str, Field)] = &[
    ("timestamp", Field::Timestamp),
    ("ts_sec", Field::Seconds),
    ("ts_usec", Field::Microseconds),
    ("first_timestamp", Field::FirstTimestamp),
    ("count", Field::Count),
    ("link", Field::Link),
    ("direction", Field::Direction),
    ("aggregate", Field::Aggregate),
    ("wire_len", Field::WireLen),
    ("ip_src", Field::IpSrc),
    ("ip_dst", Field::IpDst),
    ("ip_tos", Field::IpTos),
    ("ip_dscp", Field::IpDscp),
    ("ip_ecn", Field::IpEcn),
    ("ip_ttl", Field::IpTtl),
    ("ip_frag", Field::IpFrag),
    ("ip_fragoff", Field::IpFragOff),
    ("ip_id", Field::IpId),
    ("ip_sum", Field::IpSum),
    ("ip_proto", Field::IpProto),
    ("ip_hl", Field::IpHl),
    ("ip_len", Field::IpLen),
    ("ip_capture_len", Field::IpCaptureLen),
    ("sport", Field::SPort),
    ("dport", Field::DPort),
    ("tcp_seq", Field::TcpSeq),
    ("tcp_ack", Field::TcpAck),
    ("tcp_off", Field::TcpOff),
    ("tcp_flags", Field::TcpFlags),
    ("tcp_window", Field::TcpWindow),
    ("tcp_urp", Field::TcpUrp),
    ("udp_len", Field::UdpLen),
    ("icmp_type", Field::IcmpType),
    ("icmp_code", Field::IcmpCode),
    ("payload_len", Field::PayloadLen),
    ("payload", Field::Payload),
];

/// Other names of them.
const OTHER_NAMES: &[(&str, Field)] = &[
    ("ntimestamp", Field::Timestamp),
    ("utimestamp", Field::Timestamp),
    ("ts", Field::Timestamp),
    ("sec", Field::Seconds),
    ("usec", Field::Microseconds),
    ("first_ntimestamp", Field::FirstTimestamp),
    ("first_utimestamp", Field::FirstTimestamp),
    ("first_ts", Field::FirstTimestamp),
    ("pkt_count", Field::Count),
    ("packet_count", Field::Count),
    ("paint", Field::Link),
    ("agg", Field::Aggregate),
    ("wire_length", Field::WireLen),
    ("length", Field::IpLen),
    ("ip_p", Field::IpProto),
    ("tcp_seqno", Field::TcpSeq),
    ("tcp_ackno", Field::TcpAck),
    ("tcp_win", Field::TcpWindow),
    ("payload_length", Field::PayloadLen),
];

/// Letters of TCP flags, from the lowest bit.
const FLAGS: &[u8] = b"FSRPAUECN";

impl Field {
    /// The field of a name: `ip_src`, `ip src`, or `src`.
    pub(super) fn find(name: &str) -> Option<Field> {
        let name = name.replace(' ', "_");
        let known =
            |name: &str| NAMES.iter().chain(OTHER_NAMES).find(|(n, _)| *n == name).map(|(_, field)| *field);
        known(&name)
            .or_else(|| ["ip_", "tcp_", "udp_", "icmp_"].iter().find_map(|p| known(&format!("{p}{name}"))))
    }

    /// The name it is written with.
    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, field)| *field == self).map_or("?", |(name, _)| name)
    }
}
