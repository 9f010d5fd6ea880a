//! Sockets: what an application has of connections and of ports that it listens on.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tcp::Id;

use crate::packets::ChosenHeader;
use crate::remembered::Remembered;
use crate::send_buffer::SendBuffer;
use crate::stamps::Stamps;
use crate::urgent::Urgent;
use crate::usage::Usage;
use crate::zero_copy::ZeroCopy;

/// The number of a socket, whether or not an application has a descriptor of it.
pub type Number = u32;

/// What a socket is.
#[derive(Debug, Default)]
pub enum Role {
    /// Neither listens nor is connected.
    #[default]
    Fresh,
    /// It listens on its port.
    Listening {
        /// Connections that may wait to be accepted.
        backlog: usize,
        /// Sockets of connections that wait to be accepted.
        waiting: VecDeque<Number>,
    },
    /// It is one end of a connection.
    Open(Id),
    /// Its connection has ended.
    Ended,
}

/// What an application set, and asks for again.
#[derive(Debug, Clone, Copy)]
pub struct Choices {
    /// Calls return at once.
    pub is_nonblocking: bool,
    /// Bytes that may wait to be sent or acknowledged.
    pub send_buffer: usize,
    /// The application chose the size of the send buffer, which does not grow then.
    pub is_buffer_chosen: bool,
    /// Small segments go out at once.
    pub has_no_delay: bool,
    /// Small segments wait until they are full ones.
    pub is_corked: bool,
    /// The socket counts as writable below so many bytes that were not sent.
    pub not_sent_low: Option<u32>,
    /// Reading tells how many bytes are left.
    pub tells_unread: bool,
    /// The largest segment that the application wants.
    pub max_segment: Option<u16>,
    /// How long the other side may be silent in milliseconds.
    pub user_timeout_ms: u32,
    /// How often a SYN is sent again.
    pub syn_retries: Option<u8>,
    /// Whether the other side is asked when it is silent.
    pub keeps_alive: bool,
    /// When it is asked: seconds of silence, seconds between, and how often.
    pub keep_alive: (Option<u32>, Option<u32>, Option<u8>),
    /// Closing ends the connection with a reset, or waits for so many seconds, where it is
    /// chosen.
    pub linger_s: Option<u32>,
    /// Reading waits for so many bytes.
    pub least_read: usize,
    /// How long reading and writing wait at most, in microseconds; zero for ever.
    pub read_limit_us: i64,
    pub write_limit_us: i64,
    /// Seconds for which a connection waits for data before it can be accepted.
    pub defers_accept_s: u32,
    /// Bytes that may wait to be read, as `SO_RCVBUF` tells them.
    pub receive_buffer: Option<i32>,
    /// How fast it sends.
    pub algorithm: tcp::Algorithm,
    /// `connect` waits for the data that go with the SYN.
    pub connects_fast: bool,
    /// How many connections with data in the SYN may wait to be accepted.
    pub fast_open: Option<u32>,
}

impl Choices {
    /// What a new socket has, with a send buffer of so many bytes.
    pub fn new(send_buffer: usize) -> Choices {
        Choices {
            is_nonblocking: false,
            send_buffer,
            is_buffer_chosen: false,
            has_no_delay: false,
            is_corked: false,
            not_sent_low: None,
            tells_unread: false,
            max_segment: None,
            user_timeout_ms: 0,
            syn_retries: None,
            keeps_alive: false,
            keep_alive: (None, None, None),
            linger_s: None,
            least_read: 1,
            read_limit_us: 0,
            write_limit_us: 0,
            defers_accept_s: 0,
            receive_buffer: None,
            algorithm: tcp::Algorithm::Cubic,
            connects_fast: false,
            fast_open: None,
        }
    }
}

/// A socket of the script, whatever became of it.
#[derive(Debug)]
pub struct Socket {
    /// What the socket does: it listens, is connected, or does neither yet.
    pub role: Role,
    /// The secret of its cookies of fast open.
    pub fast_open_key: Option<[u8; 16]>,
    /// Whether it is one of IPv6.
    pub is_v6: bool,
    /// Its own address, once it has one.
    pub local: Option<SocketAddr>,
    /// The other side's address, once it has one.
    pub remote: Option<SocketAddr>,
    /// Where it is to be connected to with its first data.
    pub put_off: Option<SocketAddr>,
    /// What the application set.
    pub choices: Choices,
    /// Bytes that came.
    pub received: VecDeque<u8>,
    /// Calls whose bytes an application must not change yet.
    pub zero_copy: ZeroCopy,
    /// Bytes whose moments an application wants to know.
    pub stamps: Stamps,
    /// Options that change nothing here.
    pub remembered: Remembered,
    /// What was counted of the connection.
    pub usage: Usage,
    /// The urgent byte, until what is behind it was read.
    pub urgent: Option<Urgent>,
    /// It stays in the stream.
    pub is_urgent_inline: bool,
    /// Bytes of the stream that were read or passed over.
    pub read_bytes: u64,
    /// The listening socket that it is to be accepted from once data have come.
    pub deferred: Option<Number>,
    /// What waits to be sent or acknowledged, as Linux counts it.
    pub send_buffer: SendBuffer,
    /// The other side has sent all that it had to send.
    pub is_peer_finished: bool,
    /// The application reads no more.
    pub is_read_shut: bool,
    /// The application sends no more.
    pub is_write_shut: bool,
    /// The connection is open, or was.
    pub was_open: bool,
    /// Why the connection failed, for the next call; zero for nothing.
    pub error: i32,
    /// Bytes came, and when, in nanoseconds.
    pub received_ns: i64,
    /// What `TCP_INFO` tells of a connection that has ended.
    pub last_info: Option<tcp::Detail>,
    /// Counted up whenever it may have become readable.
    pub in_events: u64,
    /// Counted up whenever it may have become writable.
    pub out_events: u64,
    /// Since it was found to be full, it is writable only when a third is free again.
    pub is_full: bool,
}

impl Socket {
    /// A socket that is neither connected nor listens.
    pub fn new(is_v6: bool, choices: Choices) -> Socket {
        Socket {
            role: Role::Fresh,
            fast_open_key: None,
            is_v6,
            local: None,
            remote: None,
            put_off: None,
            choices,
            received: VecDeque::new(),
            zero_copy: ZeroCopy::default(),
            stamps: Stamps::default(),
            remembered: Remembered::default(),
            usage: Usage::default(),
            urgent: None,
            is_urgent_inline: false,
            read_bytes: 0,
            deferred: None,
            send_buffer: SendBuffer::default(),
            is_peer_finished: false,
            is_read_shut: false,
            is_write_shut: false,
            was_open: false,
            error: 0,
            received_ns: 0,
            last_info: None,
            in_events: 0,
            out_events: 0,
            is_full: false,
        }
    }

    /// Its connection, while there is one.
    pub fn connection(&self) -> Option<Id> {
        match self.role {
            Role::Open(id) => Some(id),
            _ => None,
        }
    }

    /// What its packets' IP headers say.
    pub fn chosen_header(&self) -> ChosenHeader {
        let (level, class, hops) = match self.is_v6 {
            true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_UNICAST_HOPS),
            false => (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL),
        };
        let value = |name: i32| self.remembered.value(level, name).and_then(|value| u8::try_from(value).ok());
        ChosenHeader { class: value(class).unwrap_or(0), hops: value(hops).unwrap_or(64) }
    }

    /// Takes the error that is kept for the next call.
    ///
    /// # Errors
    /// The number of the error.
    pub fn check(&mut self) -> Result<(), i32> {
        match std::mem::take(&mut self.error) {
            0 => Ok(()),
            error => Err(error),
        }
    }
}
