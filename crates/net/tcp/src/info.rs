//! What is known of connections, for listings such as `ss -ti` prints.

use std::ops::Range;

use crate::connection::{Connection, Deadline, NEVER, State};
use crate::event::Id;
use crate::key::Key;
use crate::stack::Stack;

/// What is known of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// Addresses and ports of both ends.
    pub key: Key,
    /// The state, as RFC 9293 names it.
    pub state: State,
    /// The smoothed round trip, in nanoseconds; zero before the first.
    pub rtt_ns: i64,
    /// By how much round trips differ from it, in nanoseconds.
    pub rtt_variation_ns: i64,
    /// The shortest round trip, in nanoseconds; zero before the first.
    pub rtt_least_ns: i64,
    /// The retransmission timeout with its doublings, in nanoseconds.
    pub rto_ns: i64,
    /// The congestion window in bytes.
    pub congestion_window: u32,
    /// Above so many bytes the congestion window grows slowly; `None` before the first loss.
    pub slow_start_threshold: Option<u32>,
    /// Bytes on their way.
    pub in_flight: u32,
    /// Bytes that are taken for lost and wait to be sent again.
    pub lost: u32,
    /// Bytes that arrived behind others that did not.
    pub sacked: u32,
    /// Bytes that wait to be sent or acknowledged.
    pub queued: u32,
    /// Bytes that the other side takes.
    pub send_window: u32,
    /// Bytes that the application has not consumed.
    pub unconsumed: u32,
    /// Packets that came before what stands in front of them.
    pub out_of_order: u32,
    /// Payload bytes of a full segment.
    pub payload_size: u32,
    /// Payload bytes that the other side has acknowledged.
    pub bytes_acknowledged: u64,
    /// Payload bytes that came in order.
    pub bytes_received: u64,
    /// Segments that were sent again.
    pub resent: u32,
    /// How often in a row nobody answered.
    pub attempts: u8,
    /// When something was received last, on the clock that the stack was given.
    pub heard_ns: i64,
    /// The timer that expires next, and when.
    pub timer: Option<(Timer, i64)>,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// Sending again, or asking about a closed window.
    Retransmit,
    /// Asking whether the last segments were lost.
    Probe,
    /// Segments that may only be late.
    Reorder,
    /// A delayed acknowledgement.
    Acknowledge,
    /// Asking a silent peer, or the end of TIME-WAIT or FIN-WAIT-2.
    Idle,
    /// Letting go of data in front of which others never came.
    Gap,
    /// The application's own timer.
    Application,
    /// Looking whether the other side takes what is sent.
    Progress,
}

/// The timers with their deadlines.
const TIMERS: [(Deadline, Timer); 8] = [
    (Deadline::Retransmit, Timer::Retransmit),
    (Deadline::Probe, Timer::Probe),
    (Deadline::Reorder, Timer::Reorder),
    (Deadline::Acknowledge, Timer::Acknowledge),
    (Deadline::Idle, Timer::Idle),
    (Deadline::Gap, Timer::Gap),
    (Deadline::Application, Timer::Application),
    (Deadline::Progress, Timer::Progress),
];

impl Connection {
    pub fn info(&self) -> Info {
        let timers = TIMERS.map(|(deadline, timer)| (timer, self.deadlines[deadline as usize]));
        let next = timers.into_iter().min_by_key(|(_, at_ns)| *at_ns);
        let least_ns = self.rtt.least_ns;
        Info {
            key: self.key,
            state: self.state,
            rtt_ns: self.rtt.smoothed_ns,
            rtt_variation_ns: self.rtt.variation_ns,
            rtt_least_ns: if least_ns == i64::MAX { 0 } else { least_ns },
            rto_ns: self.rtt.timeout_ns(),
            congestion_window: self.congestion.window,
            slow_start_threshold: Some(self.congestion.threshold).filter(|bytes| *bytes != u32::MAX),
            in_flight: self.in_flight,
            lost: self.lost,
            sacked: self.sacked,
            queued: self.end.since(self.una),
            send_window: self.send_window,
            unconsumed: self.unconsumed,
            out_of_order: self.early.len,
            payload_size: self.payload_size(),
            bytes_acknowledged: self.bytes_acknowledged,
            bytes_received: self.bytes_received,
            resent: self.resent,
            attempts: self.attempts,
            heard_ns: self.heard_ns,
            timer: next.filter(|(_, at_ns)| *at_ns != NEVER),
        }
    }
}

impl Stack {
    /// What is known of a connection; `None` when it is no more.
    pub fn info(&self, id: Id) -> Option<Info> {
        let connection = self.connections.get(id.index)?;
        (connection.generation == id.generation).then(|| connection.info())
    }

    /// All connections by their names, those in TIME-WAIT and half-open ones among them.
    pub fn connections(&self) -> impl Iterator<Item = (Id, Info)> {
        self.connections_at(0..self.places())
    }

    /// How many places ([`Id::index`]) there are for connections, empty ones among them.
    pub fn places(&self) -> usize {
        self.connections.end() as usize
    }

    /// Those in these places.
    pub fn connections_at(&self, places: Range<usize>) -> impl Iterator<Item = (Id, Info)> {
        let place = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        (place(places.start)..place(places.end).min(self.connections.end())).filter_map(|index| {
            let connection = self.connections.get(index)?;
            Some((connection.id(index), connection.info()))
        })
    }
}
