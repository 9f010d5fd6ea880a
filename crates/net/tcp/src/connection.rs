//! A connection: what RFC 9293 calls the transmission control block, and the parts that
//! other files of this crate are about: [`input`](crate::input) takes segments,
//! [`acknowledge`](crate::acknowledge) what they acknowledge, [`data`](crate::data) what they
//! carry, [`output`](crate::output) sends, and [`timer`](crate::timer) does what is due.

use memory::{Batch, Packet, Pool};
use wire::tcp::Flags;

use crate::congestion::{Congestion, RateReduction};
use crate::counters::Counters;
use crate::emit;
use crate::event::{Event, Id, Reason};
use crate::fast_open::Cookie;
use crate::fast_open_client::Servers;
use crate::hystart::Hystart;
use crate::key::Key;
use crate::options::{KeepAlive, Options};
use crate::path::Path;
use crate::progress::Progress;
use crate::queue::{List, NONE, Nodes};
use crate::rack::Rack;
use crate::rtt::RoundTrip;
use crate::segment::Segment;
use crate::sequence::Sequence;
use crate::traits::Traits;
use crate::usage::Usage;

/// The states of RFC 9293, section 3.3.2, without LISTEN, which needs no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// There is no connection.
    #[default]
    Closed,
    /// This side has sent its SYN.
    SynSent,
    /// Both SYNs are on their way.
    SynReceived,
    /// Both sides send.
    Established,
    /// This side has ended.
    FinWait1,
    /// This side has ended, and the other side knows.
    FinWait2,
    /// The other side has ended.
    CloseWait,
    /// Both sides have ended at the same time.
    Closing,
    /// Both sides have ended, the other side first.
    LastAck,
    /// Both sides have ended; segments may still be on their way.
    TimeWait,
}

impl State {
    /// Whether both SYNs have been acknowledged.
    pub fn is_synchronized(self) -> bool {
        !matches!(self, State::Closed | State::SynSent | State::SynReceived)
    }
}

/// What a loss is repaired by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// Nothing is known to be lost.
    #[default]
    Open,
    /// Acknowledgements told of a loss.
    Fast,
    /// A timer expired.
    Timeout,
}

/// What a connection waits for, by the places of its deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Deadline {
    /// Sending again, or asking about a closed window.
    Retransmit,
    /// Asking whether the last segments were lost (RFC 8985, section 7).
    Probe,
    /// Segments that may only be late (RFC 8985, section 6.2).
    Reorder,
    /// A delayed acknowledgement.
    Acknowledge,
    /// Keep-alive, the end of TIME-WAIT and of waiting in FIN-WAIT-2.
    Idle,
    /// Letting go of data in front of which others never came.
    Gap,
    /// The application's own.
    Application,
    /// Looking whether the other side takes what is sent.
    Progress,
}

/// The number of deadlines.
pub const DEADLINES: usize = 8;
/// Acknowledgements at the beginning of a connection that are sent at once, for the other side
/// is in slow start and waits for each: as many as Linux sends.
pub const QUICK: u8 = 16;
/// A deadline that is not set.
pub const NEVER: i64 = i64::MAX;

/// A connection. What each request of a peer touches stands in front, line by line, for of many
/// connections hardly one is in the cache when something comes for it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Connection {
    /// Addresses and ports of both ends.
    pub key: Key,
    /// Counted up when the place is given to another connection.
    pub generation: u32,
    /// The first number that is not acknowledged.
    pub una: Sequence,
    /// The next number to be sent.
    pub nxt: Sequence,
    /// The number behind all that is to be sent.
    pub end: Sequence,
    /// The next number expected.
    pub receive_next: Sequence,
    /// The number behind the window that was told.
    pub receive_edge: Sequence,
    /// What is waited for.
    pub deadlines: [i64; DEADLINES],
    /// What the wheel of timers is set to.
    pub armed_ns: i64,
    /// When something was received or sent last.
    pub heard_ns: i64,
    /// When data were sent last.
    pub sent_ns: i64,
    /// When data came last.
    pub received_ns: i64,
    /// Since when the other side has not taken anything; never while it has all.
    pub waits_since_ns: i64,
    /// When it was seen.
    pub peer_clock_ns: i64,
    /// The other side's clock, to be echoed.
    pub peer_clock: u32,
    /// The last acknowledgement that was sent.
    pub acknowledged: Sequence,
    /// What is added to the clock (RFC 7323, section 5.4).
    pub clock_offset: u32,
    /// Bytes that are on their way.
    pub in_flight: u32,
    /// What is so of it.
    pub is: Traits,
    /// The state, as RFC 9293 names it.
    pub state: State,
    /// How a loss is repaired at present.
    pub recovery: Recovery,
    /// By how many bits the other side's windows are shifted.
    pub send_shift: u8,
    /// By how many bits the windows of this side are shifted.
    pub receive_shift: u8,
    /// How often in a row nobody answered.
    pub attempts: u8,
    /// Acknowledgements in a row that say the same.
    pub duplicates: u8,
    /// Segments with data that came in order since the last acknowledgement.
    pub unacknowledged: u8,
    /// Acknowledgements that are still sent at once, at the beginning.
    pub quick: u8,
    /// Bytes of the largest segment, options included.
    pub segment: u16,
    /// The largest segment that came.
    pub receive_segment: u16,
    /// What is sent, and not acknowledged.
    pub queue: List,
    /// The first node of it that was not sent.
    pub unsent: u32,
    /// Bytes that are taken for lost and were not sent again.
    pub lost: u32,
    /// Bytes that have arrived behind others that have not.
    pub sacked: u32,
    /// Bytes that the other side takes, behind `una`.
    pub send_window: u32,
    /// The most that they have been.
    pub max_send_window: u32,
    /// Number and acknowledgement of the segment that told of the window.
    pub window_update: (Sequence, Sequence),
    /// The number behind the last segment that was sent and was not a full one.
    pub small_end: Sequence,
    /// Recovery ends there.
    pub recover: Sequence,
    /// The window is not reduced for congestion again until there.
    pub ecn_recover: Sequence,
    /// What came before what stands in front of it.
    pub early: List,
    /// Bytes that the application has and has not consumed.
    pub unconsumed: u32,
    /// The packets that they came in, as far as is known.
    pub unconsumed_packets: u32,
    /// The node that was sent last of those that were new.
    pub last_new: u32,
    /// Segments that have arrived at the other side.
    pub delivered: u32,
    /// Where the other side's data end, once its FIN has come.
    pub peer_end: Option<Sequence>,
    /// What was measured of round trips, and the retransmission timeout that follows.
    pub rtt: RoundTrip,
    /// Payload bytes that the other side has acknowledged.
    pub bytes_acknowledged: u64,
    /// Payload bytes that came in order.
    pub bytes_received: u64,
    /// Where the probe for the last segments ends.
    pub probe_end: Option<Sequence>,
    /// What RACK knows.
    pub rack: Rack,
    /// What is known of the path.
    pub path: Path,
    /// The congestion window.
    pub congestion: Congestion,
    /// How much of it is used.
    pub usage: Usage,
    /// Data that came twice, to be told (RFC 2883).
    pub duplicate: Option<(Sequence, Sequence)>,
    /// When slow start is to end.
    pub hystart: Hystart,
    /// How long the other side may be silent in nanoseconds, where the application chose it.
    pub user_timeout_ns: i64,
    /// Since when the other side takes too little.
    pub progress: Progress,
    // What follows is not looked at for data in order of which nothing is lost.
    /// How recovery is paced.
    pub reduction: RateReduction,
    /// First numbers of blocks in which something came, the latest first.
    pub recent: [Sequence; 3],
    /// The first number of this side.
    pub initial: Sequence,
    /// Segments that were sent again.
    pub resent: u32,
    /// When a challenge may be sent again.
    pub challenge_ns: i64,
    /// Whether it is asked when it is silent, and when.
    pub keep_alive: Option<KeepAlive>,
    /// How often it was asked, and `heard_ns` as it was then: whatever came since answers.
    pub asked: (u32, i64),
    /// The cookie that the SYN or its answer carries, or the request for one.
    pub cookie: Option<Box<Cookie>>,
    /// The largest segment that the other side is told of.
    pub advertised: u16,
    /// Bytes of data that go with the SYN.
    pub syn_data: u16,
    /// How often a SYN is sent again, where the application chose it.
    pub syn_retries: Option<u8>,
}

/// Cache lines of a connection that each request touches.
pub const HOT_LINES: usize = 9;

const _: () = assert!(std::mem::offset_of!(Connection, reduction) == HOT_LINES * 64);

/// What all connections of a stack share.
#[derive(Debug)]
pub struct StackShared {
    /// The stack's options.
    pub options: Options,
    /// The nodes of what is sent.
    pub nodes: Nodes,
    /// Servers that were connected to by fast open.
    pub servers: Servers,
    /// The nodes of what came before its turn.
    pub early: Nodes,
    /// Packets that applications have and have not consumed.
    pub unconsumed: u32,
    /// What happened since the application was called.
    pub events: Vec<Event>,
    /// What was counted.
    pub counters: Counters,
}

/// What a call brings along.
pub struct Io<'a> {
    /// The present time, in nanoseconds of the caller's clock.
    pub now_ns: i64,
    /// Where buffers come from and go to.
    pub pool: &'a mut Pool,
    /// Where IP packets go that are to be sent.
    pub out: &'a mut Batch,
}

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It goes on.
    Keep,
    /// It ends without a word to the application.
    Forget,
    /// It ends, and the application is told why.
    End(Reason),
    /// It stays, and the segment is answered with a reset.
    Refuse,
}

impl Connection {
    /// A connection in state CLOSED. What is not set here is zero, empty or false.
    pub fn new(key: Key, generation: u32, initial: Sequence, options: &Options) -> Connection {
        let segment = key.addresses().map_or(536, |addresses| emit::max_segment(&addresses, options.mtu));
        Connection {
            key,
            generation,
            is: Traits {
                has_nagle: options.nagle,
                has_tail_probes: options.tail_probes,
                ..Traits::default()
            },
            quick: QUICK,
            segment,
            advertised: segment,
            keep_alive: options.keep_alive,
            waits_since_ns: NEVER,
            last_new: NONE,
            path: Path::new(segment),
            unsent: NONE,
            initial,
            una: initial,
            nxt: initial,
            end: initial,
            small_end: initial,
            recover: initial,
            ecn_recover: initial,
            rack: Rack { multiplier: 1, forward: initial, end: initial, ..Rack::default() },
            congestion: Congestion::new(options.algorithm, segment.into()),
            hystart: Hystart::new(initial),
            clock_offset: key.seen_hash(options.key, 1),
            challenge_ns: i64::MIN,
            deadlines: [NEVER; DEADLINES],
            armed_ns: NEVER,
            ..Connection::default()
        }
    }

    /// Its name to the application.
    pub fn id(&self, index: u32) -> Id {
        Id { index, generation: self.generation }
    }

    /// Sets what is waited for.
    #[inline]
    pub fn set(&mut self, deadline: Deadline, at_ns: i64) {
        self.is.to_arm |= at_ns < self.armed_ns;
        self.deadlines[deadline as usize] = at_ns;
    }

    /// What is waited for next.
    #[inline]
    pub fn next_deadline_ns(&self) -> i64 {
        self.deadlines.iter().copied().min().unwrap_or(NEVER)
    }

    /// Payload bytes of a full segment.
    #[inline]
    pub fn payload_size(&self) -> u32 {
        let options = if self.is.has_timestamps { emit::TIMESTAMPS_LEN } else { 0 };
        u32::from(self.segment - options)
    }

    /// The clock of this side (RFC 7323, section 4.1): milliseconds.
    #[inline]
    pub fn clock(&self, now_ns: i64) -> u32 {
        ((now_ns / crate::options::MILLISECOND_NS) as u32).wrapping_add(self.clock_offset)
    }

    /// Whether it has something to send, as far as is known without trying.
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        self.is.owes_ack || self.lost > 0 || self.unsent != NONE
    }

    /// What a SYN says of the other side.
    pub fn learn(&mut self, segment: &Segment, options: &Options, now_ns: i64) {
        self.receive_next = segment.sequence.plus(1);
        self.receive_edge = self.receive_next;
        self.recent = [self.receive_next; 3];
        // Without the option it is 536 bytes (RFC 9293, section 3.7.1).
        let theirs = segment.max_segment.unwrap_or(536).max(64);
        self.segment = self.segment.min(theirs);
        self.path = Path::new(self.segment);
        self.is.has_sack = options.sack && segment.sack_permitted;
        self.is.has_timestamps = options.timestamps && segment.timestamps.is_some();
        self.is.has_scale = options.window_scale && segment.window_scale.is_some();
        if let (true, Some(shift)) = (self.is.has_scale, segment.window_scale) {
            (self.send_shift, self.receive_shift) = (shift, options.receive_shift());
        }
        if let Some((clock, _)) = segment.timestamps {
            (self.peer_clock, self.peer_clock_ns) = (clock, now_ns);
        }
        // RFC 3168, section 6.1.1: a SYN has both bits, its answer one.
        let both = Flags::ECE | Flags::CWR;
        let ecn = Flags(segment.flags.0 & both.0);
        let is_offer = if segment.has(Flags::ACK) { ecn == Flags::ECE } else { ecn == both };
        self.is.has_ecn = options.ecn && is_offer;
        self.congestion = Congestion::new(self.congestion.algorithm, self.payload_size());
    }

    /// Takes the window of a segment (RFC 9293, section 3.10.7.4).
    pub fn set_window(&mut self, segment: &Segment) {
        let shift = if segment.has(Flags::SYN) { 0 } else { self.send_shift };
        self.send_window = u32::from(segment.window) << shift;
        self.max_send_window = self.max_send_window.max(self.send_window);
        self.window_update = (segment.sequence, segment.acknowledgement);
    }

    /// Both SYNs have been acknowledged.
    pub fn establish(&mut self, index: u32, shared: &mut StackShared, io: &Io) {
        self.state = State::Established;
        if self.is.is_finished {
            self.end_side();
        }
        self.attempts = 0;
        if self.is.is_syn_resent {
            // Until the answer's clock has told the round trip (RFC 7323, section 4.1; as in Linux).
            self.rtt.distrust();
            // RFC 5681, section 3.1: the SYN was lost, and the window begins with one segment.
            self.congestion.window = self.payload_size();
        }
        let was_known = std::mem::replace(&mut self.is.is_known, true);
        self.cookie = None;
        if self.unsent != NONE {
            self.watch_progress(io.now_ns); // of what was queued in front of the SYN's answer
        }
        if let Some(keep_alive) = self.keep_alive {
            self.set(Deadline::Idle, io.now_ns + keep_alive.idle_ns);
        }
        match self.is.is_passive {
            true => shared.counters.accepted += 1,
            false => shared.counters.connected += 1,
        }
        // The application knows a connection that was opened fast, as it does one of its own.
        if !was_known || !self.is.is_passive {
            let is_passive = self.is.is_passive;
            shared.events.push(Event::Connected { connection: self.id(index), is_passive });
        }
    }

    /// The state after the end of this side (RFC 9293, section 3.10.4); before the connection
    /// is open it stays what it is.
    pub fn end_side(&mut self) {
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
    }

    /// Lets go of all packets.
    pub fn clear(&mut self, shared: &mut StackShared, pool: &mut Pool) {
        shared.nodes.clear(&mut self.queue, pool);
        shared.early.clear(&mut self.early, pool);
        shared.unconsumed -= std::mem::take(&mut self.unconsumed_packets);
        (self.unsent, self.in_flight, self.lost, self.sacked) = (NONE, 0, 0, 0);
    }
}

/// A packet that a function may take.
pub type MaybePacket = Option<Packet>;
