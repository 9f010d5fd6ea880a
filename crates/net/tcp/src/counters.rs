//! What a stack counted: losses by the names of `port::Reason`, and what else happened.

use port::{Counter, Reason};

/// The reasons for which a stack drops segments.
const LOSSES: [Reason; 15] = [
    Reason::RxTcpMalformed,
    Reason::RxTcpChecksum,
    Reason::RxTcpNoConnection,
    Reason::RxTcpSequence,
    Reason::RxTcpTimestamp,
    Reason::RxTcpAcknowledgement,
    Reason::RxTcpDuplicate,
    Reason::RxTcpNoRoom,
    Reason::RxTcpGap,
    Reason::RxTcpBuffers,
    Reason::RxTcpClosed,
    Reason::RxTcpControl,
    Reason::RxTcpLimit,
    Reason::RxTcpSynData,
    Reason::TxTcpReply,
];

macro_rules! counters {
    ($($field:ident $what:literal;)*) => {
        /// What a stack counted since it was made.
        #[derive(Debug, Clone, Default)]
        pub struct Counters {
            losses: [u64; LOSSES.len()],
            $(#[doc = concat!("How many ", $what, ".")] pub $field: u64,)*
        }

        impl Counters {
            /// All counters, the losses first.
            pub fn all(&self) -> impl Iterator<Item = Counter> {
                let losses = LOSSES.iter().zip(self.losses).map(|(reason, n)| Counter::of_loss(*reason, n));
                losses.chain([$(Counter::of(concat!("tcp_", stringify!($field)), self.$field, $what)),*])
            }
        }
    };
}

counters! {
    segments_received "segments came";
    segments_sent "segments were sent";
    bytes_received "bytes were given to applications";
    bytes_acknowledged "bytes were acknowledged by their receivers";
    segments_resent "segments were sent again";
    timeouts "retransmission timers expired";
    probes "segments were sent to find out about a loss at the end (RFC 8985)";
    window_probes "closed windows were asked about";
    recoveries "losses were repaired without a timer's expiry";
    accepted "connections were opened by the other side";
    connected "connections were opened by this side";
    fast_open_refused "SYNs of this side with data, a cookie or a request for one were answered as usual ones (RFC 7413)";
    fast_opened "connections were opened by a SYN whose cookie was right, or needed none (RFC 7413)";
    fast_open_wrong "SYNs had a wrong cookie, and were given another one (RFC 7413)";
    fast_open_full "SYNs asked for fast open while as many connections were half open as may be (RFC 7413)";
    resets_sent "connections were reset by this side";
    resets_received "connections were reset by the other side";
    timed_out "connections were given up because nobody answered";
    stalled "connections were reset because the other side took too little of what was sent";
    challenges "challenge acknowledgements were sent (RFC 5961)";
    cookies_sent "SYN cookies were sent (RFC 4987)";
    cookies_accepted "connections were opened by a SYN cookie";
    time_wait_ended "connections left TIME-WAIT early, because others needed their place";
    moved_here "connections came from another core";
    moved_away "connections went to another core";
    path_mtu_reduced "times segments became shorter because the path takes no longer ones";
    path_mtu_raised "times segments became longer because the path took a longer one";
    path_mtu_probes "longer segments were sent to find out whether the path takes them (RFC 4821)";
    buffers_full "packets of applications were refused because connections keep as many as they may";
    no_buffer "segments could not be sent yet because the pool was empty";
}

impl Counters {
    /// Counts a segment that is dropped.
    #[inline]
    pub(crate) fn lose(&mut self, reason: Reason) {
        if let Some(place) = LOSSES.iter().position(|loss| *loss == reason) {
            self.losses[place] += 1;
        }
    }

    /// How many segments were dropped for a reason.
    pub fn lost(&self, reason: Reason) -> u64 {
        LOSSES.iter().zip(self.losses).filter(|(loss, _)| **loss == reason).map(|(_, count)| count).sum()
    }
}
