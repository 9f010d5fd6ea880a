//! What a stack is told when it is made: sizes, limits and times.

use port::{Capabilities, Feature};

/// A second in nanoseconds.
pub(crate) const SECOND_NS: i64 = 1_000_000_000;
/// A millisecond in nanoseconds.
pub(crate) const MILLISECOND_NS: i64 = 1_000_000;

/// How fast a connection sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// Slow start and congestion avoidance as RFC 5681 has them.
    Reno,
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
}

/// When a connection on which nothing comes is asked whether it is still there (RFC 9293,
/// section 3.8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// After so much silence, in nanoseconds.
    pub idle_ns: i64,
    /// And again after so much, in nanoseconds.
    pub interval_ns: i64,
    /// So many times, before the connection counts as dead.
    pub probes: u8,
}

impl Default for KeepAlive {
    /// What a server asks that is to forget clients which have vanished within four minutes.
    fn default() -> KeepAlive {
        KeepAlive { idle_ns: 120 * SECOND_NS, interval_ns: 30 * SECOND_NS, probes: 4 }
    }
}

/// What the port does with packets that are sent, so that the stack need not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// The port fills in checksums of packets that ask for it.
    pub checksum: bool,
    /// The port cuts packets of up to so many buffers into segments, and fills in their
    /// checksums; zero where it does not.
    pub buffers: usize,
}

impl From<&Capabilities> for Offload {
    /// What an open port can do and does.
    fn from(can: &Capabilities) -> Offload {
        let buffers = can.limits.tx_segments;
        // A packet of one buffer is one segment.
        let is_cut = can.has(Feature::Segmentation) && buffers > 1;
        Offload { checksum: can.has(Feature::TxChecksum), buffers: if is_cut { buffers } else { 0 } }
    }
}

/// Sizes, limits and times of a stack.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// A secret: initial sequence numbers, SYN cookies and places in the table of
    /// connections cannot be predicted without it.
    pub key: [u64; 2],
    /// The longest IP packet in bytes, 576 to 2,048.
    pub mtu: u16,
    /// Bytes that a connection takes before its application consumes them.
    pub receive_buffer: u32,
    /// Bytes that a connection keeps to be sent and acknowledged.
    pub send_buffer: u32,
    /// Packets that a connection keeps to be sent and acknowledged.
    pub send_packets: u32,
    /// Packets that a connection keeps that came before what stands in front of them.
    pub out_of_order: u32,
    /// How long it keeps them while nothing comes in front of them, in nanoseconds.
    pub out_of_order_ns: i64,
    /// Packets that all connections keep together, 128 at least: half of them to be sent and
    /// acknowledged, and half that came before their turn, which is a quarter at most, or were
    /// neither consumed nor released.
    pub packets: u32,
    /// Connections in all, at most 2³¹.
    pub connections: u32,
    /// Connections that have not been acknowledged yet; a SYN beyond them is answered with a
    /// cookie (RFC 4987, section 3.6).
    pub half_open: u32,
    /// Connections in TIME-WAIT; one more ends the oldest.
    pub time_wait: u32,
    /// How long TIME-WAIT lasts, in nanoseconds: twice the longest life of a segment.
    pub time_wait_ns: i64,
    /// How long a closed connection waits for the other side's end, and for the other side to
    /// take what is still to be sent, in nanoseconds.
    pub fin_wait_ns: i64,
    /// The shortest time before something is sent again, in nanoseconds. RFC 6298 wants a
    /// second, and Linux has 200 ms.
    pub min_rto_ns: i64,
    /// How long an acknowledgement may wait for another one, in nanoseconds, below 500 ms
    /// (RFC 9293, section 3.8.6.3).
    pub delayed_ack_ns: i64,
    /// How often a SYN is sent again.
    pub syn_retries: u8,
    /// How often in a row anything else is sent again.
    pub retries: u8,
    /// Whether silent connections are asked; by default they are not.
    pub keep_alive: Option<KeepAlive>,
    /// Whether small segments of new connections wait for each other (Nagle's algorithm, RFC
    /// 9293, section 3.7.4); [`Stack::set_nagle`](crate::Stack::set_nagle) chooses for one.
    pub nagle: bool,
    /// Where the port cuts packets, how many segments one has at least; beyond that it has as
    /// many as the connection sends in a 1,024th of a second, and more where round trips are
    /// short, as in Linux. `None` for as many as may be on their way.
    pub least_burst: Option<u32>,
    /// Whether a SYN carries data only to servers whose cookie is known (RFC 7413).
    pub fast_open_needs_cookie: bool,
    /// By how many bits windows are shifted at least, at most 14.
    pub least_shift: u8,
    /// What is left to the port.
    pub offload: Offload,
    /// How fast connections send.
    pub algorithm: Algorithm,
    /// Whether selective acknowledgements are offered (RFC 2018).
    pub sack: bool,
    /// Whether timestamps are offered (RFC 7323).
    pub timestamps: bool,
    /// Whether windows beyond 64 KiB are offered (RFC 7323).
    pub window_scale: bool,
    /// Whether congestion notification is agreed to (RFC 3168).
    pub ecn: bool,
    /// Whether connections of this side ask for it.
    pub ecn_offer: bool,
    /// Whether the last segments are asked about before the retransmission timer (RFC 8985,
    /// section 7).
    pub tail_probes: bool,
    /// Whether the window is that of a new connection after silence (RFC 5681, section 4.1).
    pub restart_after_idle: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            key: [0; 2],
            mtu: 1500,
            receive_buffer: 256 << 10,
            send_buffer: 256 << 10,
            send_packets: 512,
            out_of_order: 256,
            out_of_order_ns: 20 * SECOND_NS,
            packets: 16_384,
            connections: 65_536,
            half_open: 1024,
            time_wait: 16_384,
            time_wait_ns: 60 * SECOND_NS,
            fin_wait_ns: 60 * SECOND_NS,
            min_rto_ns: 200 * MILLISECOND_NS,
            delayed_ack_ns: 40 * MILLISECOND_NS,
            syn_retries: 5,
            retries: 12,
            keep_alive: None,
            nagle: true,
            least_burst: None,
            fast_open_needs_cookie: true,
            least_shift: 0,
            offload: Offload::default(),
            algorithm: Algorithm::Cubic,
            sack: true,
            timestamps: true,
            window_scale: true,
            ecn: true,
            ecn_offer: true,
            tail_probes: true,
            restart_after_idle: true,
        }
    }
}

impl Options {
    /// The same within the limits that they have.
    pub(crate) fn checked(self) -> Options {
        Options {
            mtu: self.mtu.clamp(576, memory::DATA_ROOM as u16),
            receive_buffer: self.receive_buffer.clamp(1 << 10, 1 << 29),
            send_buffer: self.send_buffer.clamp(1 << 10, 1 << 29),
            send_packets: self.send_packets.max(4),
            offload: Offload {
                // A port that cuts packets fills in their checksums.
                buffers: if self.offload.checksum { self.offload.buffers } else { 0 },
                ..self.offload
            },
            packets: self.packets.max(128),
            connections: self.connections.clamp(1, 1 << 31),
            min_rto_ns: self.min_rto_ns.clamp(MILLISECOND_NS, MAX_RTO_NS),
            ..self
        }
    }

    /// By how many bits windows are shifted, so that the whole buffer can be told.
    pub(crate) fn receive_shift(&self) -> u8 {
        let needed = (0..14).find(|shift| self.receive_buffer >> shift <= 0xFFFF).unwrap_or(14);
        needed.max(self.least_shift).min(14)
    }
}

/// The longest time before something is sent again (RFC 6298, section 2.5).
pub(crate) const MAX_RTO_NS: i64 = 60 * SECOND_NS;
