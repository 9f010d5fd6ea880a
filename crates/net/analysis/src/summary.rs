//! Summaries of packets, a line each: the fields that `FromIPSummaryDump` and
//! `ToIPSummaryDump` know, by name, and how each stands in a binary record.
//!
//! The format is IPSummaryDump 1.3, as Click's manual has it. [`view`] finds the
//! fields in a packet and [`show`] writes them, [`value`] reads them and [`builder`]
//! makes a packet of them; [`options`] and [`option_text`] are the two ways for the
//! options of IP and TCP.

pub(crate) mod builder;
pub(super) mod from;
mod inject;
mod lines;
mod multi;
pub(super) mod net_flow;
mod option_text;
pub(super) mod options;
mod payload;
pub(super) mod show;
mod source;
pub(super) mod tcpdump;
mod text_file;
pub(super) mod to;
mod value;
mod view;

use wire::ip::Protocol;

/// Major and minor version of the format.
pub(super) const VERSION: (u32, u32) = (1, 3);

/// What a packet has that can stand in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Timestamp,
    NanoTimestamp,
    Seconds,
    Microseconds,
    AllMicroseconds,
    FirstTimestamp,
    FirstNanoTimestamp,
    Count,
    Link,
    Direction,
    Aggregate,
    WireLen,
    EthSrc,
    EthDst,
    EthType,
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
    IpOpt,
    SPort,
    DPort,
    TcpSeq,
    TcpAck,
    TcpOff,
    TcpFlags,
    TcpWindow,
    TcpUrp,
    TcpOpt,
    TcpNtOpt,
    TcpSack,
    UdpLen,
    IcmpType,
    IcmpCode,
    IcmpTypeName,
    IcmpCodeName,
    IcmpFlowId,
    IcmpSeq,
    IcmpNextMtu,
    PayloadLen,
    Payload,
    PayloadMd5,
    PayloadMd5Hex,
}

/// How a field stands in a binary record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    /// So many bytes, the highest first.
    Bytes(usize),
    /// A byte with the length, then that many.
    Counted,
    /// Not at all.
    Never,
}

/// A field by one of its names.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) field: Field,
    pub(super) binary: Binary,
    /// In which order fields become a packet: each needs what comes before.
    pub(super) order: u32,
}

const fn known(name: &'static str, field: Field, bytes: usize, order: u32) -> Known {
    Known { name, field, binary: Binary::Bytes(bytes), order }
}

const NOTE: u32 = 100;
const LINK: u32 = 200;
const NET: u32 = 300;
const TRANSPORT: u32 = 400;
const PAYLOAD: u32 = 500;

const FIELDS: &[Known] = &[
    known("timestamp", Field::Timestamp, 8, NOTE),
    known("ntimestamp", Field::NanoTimestamp, 8, NOTE),
    known("ts_sec", Field::Seconds, 4, NOTE),
    known("ts_usec", Field::Microseconds, 4, NOTE),
    known("ts_usec1", Field::AllMicroseconds, 8, NOTE),
    known("first_timestamp", Field::FirstTimestamp, 8, NOTE),
    known("first_ntimestamp", Field::FirstNanoTimestamp, 8, NOTE),
    known("count", Field::Count, 4, NOTE),
    known("link", Field::Link, 1, NOTE),
    known("paint", Field::Link, 1, NOTE),
    known("direction", Field::Direction, 1, NOTE),
    known("aggregate", Field::Aggregate, 4, NOTE),
    known("wire_len", Field::WireLen, 4, NOTE),
    known("eth_src", Field::EthSrc, 6, LINK),
    known("eth_dst", Field::EthDst, 6, LINK),
    known("eth_type", Field::EthType, 2, LINK),
    known("ip_src", Field::IpSrc, 4, NET),
    known("ip_dst", Field::IpDst, 4, NET),
    known("ip_tos", Field::IpTos, 1, NET),
    known("ip_dscp", Field::IpDscp, 1, NET),
    known("ip_ecn", Field::IpEcn, 1, NET),
    known("ip_ttl", Field::IpTtl, 1, NET),
    known("ip_frag", Field::IpFrag, 1, NET - 2),
    known("ip_fragoff", Field::IpFragOff, 2, NET - 1),
    known("ip_id", Field::IpId, 2, NET),
    known("ip_sum", Field::IpSum, 2, NET + 2),
    known("ip_proto", Field::IpProto, 1, NET),
    known("ip_hl", Field::IpHl, 1, NET - 1),
    known("ip_len", Field::IpLen, 4, NET + 1),
    known("ip_capture_len", Field::IpCaptureLen, 4, PAYLOAD + 2),
    Known { name: "ip_opt", field: Field::IpOpt, binary: Binary::Counted, order: NET },
    known("sport", Field::SPort, 2, TRANSPORT),
    known("dport", Field::DPort, 2, TRANSPORT),
    known("tcp_seq", Field::TcpSeq, 4, TRANSPORT),
    known("tcp_ack", Field::TcpAck, 4, TRANSPORT),
    known("tcp_off", Field::TcpOff, 1, TRANSPORT - 1),
    known("tcp_flags", Field::TcpFlags, 1, TRANSPORT),
    known("tcp_window", Field::TcpWindow, 2, TRANSPORT),
    known("tcp_urp", Field::TcpUrp, 2, TRANSPORT),
    Known { name: "tcp_opt", field: Field::TcpOpt, binary: Binary::Counted, order: TRANSPORT + 3 },
    Known { name: "tcp_ntopt", field: Field::TcpNtOpt, binary: Binary::Counted, order: TRANSPORT + 2 },
    Known { name: "tcp_sack", field: Field::TcpSack, binary: Binary::Counted, order: TRANSPORT + 1 },
    known("udp_len", Field::UdpLen, 4, TRANSPORT),
    known("icmp_type", Field::IcmpType, 1, TRANSPORT),
    known("icmp_code", Field::IcmpCode, 1, TRANSPORT + 1),
    known("icmp_type_name", Field::IcmpTypeName, 1, TRANSPORT),
    known("icmp_code_name", Field::IcmpCodeName, 1, TRANSPORT + 1),
    known("icmp_flowid", Field::IcmpFlowId, 2, TRANSPORT + 2),
    known("icmp_seq", Field::IcmpSeq, 2, TRANSPORT + 2),
    known("icmp_nextmtu", Field::IcmpNextMtu, 2, TRANSPORT + 2),
    known("payload_len", Field::PayloadLen, 4, PAYLOAD + 1),
    Known { name: "payload", field: Field::Payload, binary: Binary::Never, order: PAYLOAD },
    known("payload_md5", Field::PayloadMd5, 16, PAYLOAD),
    known("payload_md5_hex", Field::PayloadMd5Hex, 16, PAYLOAD),
];

/// Other names of them.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("utimestamp", "timestamp"),
    ("ts", "timestamp"),
    ("sec", "ts_sec"),
    ("usec", "ts_usec"),
    ("usec1", "ts_usec1"),
    ("first_utimestamp", "first_timestamp"),
    ("first_ts", "first_timestamp"),
    ("pkt_count", "count"),
    ("packet_count", "count"),
    ("agg", "aggregate"),
    ("wire_length", "wire_len"),
    ("ether_src", "eth_src"),
    ("ether_dst", "eth_dst"),
    ("ether_type", "eth_type"),
    ("length", "ip_len"),
    ("ip_p", "ip_proto"),
    ("tcp_seqno", "tcp_seq"),
    ("tcp_ackno", "tcp_ack"),
    ("tcp_win", "tcp_window"),
    ("payload_length", "payload_len"),
];

/// Letters of TCP flags, from the lowest bit.
pub(super) const FLAGS: &[u8] = b"FSRPAUECN";

/// Protocols that have ports where UDP has them: TCP, UDP, DCCP, UDP-Lite.
const WITH_PORTS: &[u8] = &[Protocol::TCP.0, Protocol::UDP.0, Protocol::DCCP.0, Protocol::UDP_LITE.0];

impl Known {
    /// The field of a name: `ip_src`, `ip src`, or `src`.
    pub(super) fn find(name: &str) -> Option<&'static Known> {
        let name = OTHER_NAMES.iter().find(|(other, _)| *other == name).map_or(name, |(_, name)| name);
        if let Some(known) = FIELDS.iter().find(|known| known.name == name) {
            return Some(known);
        }
        if name.contains(' ') {
            return Known::find(&name.replacen(' ', "_", 1));
        }
        (!name.contains('_')).then(|| Known::find(&format!("ip_{name}"))).flatten()
    }

    /// Whether it is a field of IP or of what comes behind.
    pub(super) fn is_behind_link(&self) -> bool {
        self.order > LINK
    }

    /// Whether a line's field can become part of a packet.
    pub(super) fn can_be_read(&self) -> bool {
        !matches!(self.field, Field::PayloadMd5 | Field::PayloadMd5Hex)
    }
}
