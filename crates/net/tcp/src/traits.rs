//! What is so of a connection, or is not: what its ends agreed on, what the application chose,
//! and what is owed.

use crate::search::Search;

/// What the two ends agreed on, and what is so of this one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traits {
    /// In the list of connections that have something to send.
    pub is_ready: bool,
    /// Opened by the other side.
    pub is_passive: bool,
    /// The application knows the connection.
    pub is_known: bool,
    /// The application wants no more data.
    pub is_released: bool,
    /// A FIN stands in the queue, or was sent.
    pub is_finished: bool,
    /// The other side's FIN has come in order.
    pub is_peer_finished: bool,
    /// Selective acknowledgements are sent, and looked at.
    pub has_sack: bool,
    /// Timestamps are sent, and expected.
    pub has_timestamps: bool,
    /// Windows are shifted (RFC 7323), in both directions.
    pub has_scale: bool,
    /// Explicit congestion notification (RFC 3168) was agreed on.
    pub has_ecn: bool,
    /// Acknowledgements carry ECE until CWR comes.
    pub is_echoing: bool,
    /// The window shrinks by proportional rate reduction because congestion was met.
    pub is_reducing: bool,
    /// The next new data carry CWR.
    pub owes_cwr: bool,
    /// An acknowledgement must go out.
    pub owes_ack: bool,
    /// The SYN was sent more than once.
    pub is_syn_resent: bool,
    /// The probe for the last segments was data sent again.
    pub is_probe_resent: bool,
    /// A full segment may be cut because it has waited for the window for long.
    pub may_cut: bool,
    /// The last segments are asked about before the retransmission timer.
    pub has_tail_probes: bool,
    /// Small segments wait for each other.
    pub has_nagle: bool,
    /// In the list of connections that wait until others keep fewer packets.
    pub is_starved: bool,
    /// Segments wait until they are full ones.
    pub is_corked: bool,
    /// The last call said that more bytes follow.
    pub waits_for_more: bool,
    /// Data went out soon after data had come: acknowledgements have something to ride on.
    pub is_interactive: bool,
    /// What waits goes out at once.
    pub is_pushing: bool,
    /// Its SYN asked for a cookie or carried data.
    pub is_fast_client: bool,
    /// Data went or came with the SYN, and were acknowledged.
    pub has_syn_data: bool,
    /// Whether longer segments are tried.
    pub search: Search,
    /// A deadline was set that is earlier than what the wheel of timers is set to.
    pub to_arm: bool,
}
