//! Sockets: what an application has of connections and of ports that it listens on.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tcp::Id;

use crate::send_buffer::SendBuffer;
use crate::zero_copy::ZeroCopy;

/// The number of a socket, whether or not an application has a descriptor of it.
pub type Number = u32;

/// What a socket is.
#[derive(Debug, Default)]
pub enum Role {
    /// Neither listens nor is connected.
    #[default]
    Fresh,
    /// It listens.
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
            connects_fast: false,
            fast_open: None,
        }
    }
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    /// What it is.
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
