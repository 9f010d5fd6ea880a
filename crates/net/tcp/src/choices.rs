//! What an application may choose for one connection, for what one call sends, and for a port
//! on which it listens.

use crate::calls::Refusal;
use crate::connection::{Deadline, Io, NEVER, Next, QUICK, State};
use crate::event::Id;
use crate::options::{Algorithm, KeepAlive, Options};
use crate::stack::Stack;

/// The smallest segment that an application may choose, as in Linux (`TCP_MIN_MSS`): there is
/// room for data behind all options.
pub const LEAST_SEGMENT: u16 = 88;

/// What an application chooses for one connection. The default is none of the stack's options: who
/// changes one thing begins with what is in force ([`Stack::choices`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choices {
    /// Small segments wait for each other (Nagle's algorithm).
    pub has_nagle: bool,
    /// Segments wait until they are full ones, for a retransmission timeout at most.
    pub is_corked: bool,
    /// How long what was sent may stay without an acknowledgement, or a window closed, in
    /// nanoseconds (RFC 5482, section 3); zero for the number of attempts that the stack's
    /// options say.
    pub user_timeout_ns: i64,
    /// How often the SYN is sent again; `None` for what the stack's options say.
    pub syn_retries: Option<u8>,
    /// The largest segment to send and to tell the other side of, without options; counts
    /// before the SYN has gone out. Less than 88 counts as that.
    pub max_segment: Option<u16>,
    /// When the other side is asked whether it is still there; `None` for never.
    pub keep_alive: Option<KeepAlive>,
    /// How fast it sends.
    pub algorithm: Algorithm,
}

/// What is said of the bytes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// More bytes follow soon: less than a full segment waits for them.
    pub is_more_to_come: bool,
    /// They end a record: what follows does not share a segment with them.
    pub is_record_end: bool,
}

/// How connections to a port are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listener {
    /// The largest segment to send and to tell the other side of, without options. Less than
    /// 88 counts as that.
    pub max_segment: Option<u16>,
    /// How data are taken from SYNs (RFC 7413); `None` where none are.
    pub fast_open: Option<FastOpenListener>,
}

/// How a port takes data from SYNs (RFC 7413). It has no default, for who knows the key can make
/// the port work for strangers:
///
/// ```
/// let chosen = tcp::FastOpenListener { most: 8, key: [7; 16], is_cookie_needed: true };
/// let listener = tcp::Listener { fast_open: Some(chosen), ..tcp::Listener::default() };
/// ```
///
/// ```compile_fail
/// let chosen = tcp::FastOpenListener { most: 8, ..Default::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenListener {
    /// How many connections of the stack may be open whose SYN carried data and whose end of
    /// opening has not been seen, or was a reset of the last 60 seconds (RFC 7413, section 5.1);
    /// no more than [`Options::half_open`].
    pub most: u32,
    /// The secret of the cookies.
    pub key: [u8; 16],
    /// Whether a SYN needs a cookie, so that its data are taken.
    pub is_cookie_needed: bool,
}

impl Stack {
    /// What is in force for a connection; `None` when it is gone.
    pub fn choices(&self, id: Id) -> Option<Choices> {
        let connection = self.connections.get(id.index).filter(|it| it.generation == id.generation)?;
        Some(Choices {
            has_nagle: connection.is.has_nagle,
            is_corked: connection.is.is_corked,
            user_timeout_ns: connection.user_timeout_ns,
            syn_retries: connection.syn_retries,
            // It is told once, with the SYN: what has been told is not told again.
            max_segment: None,
            keep_alive: connection.keep_alive,
            algorithm: connection.congestion.algorithm,
        })
    }

    /// Chooses how a connection sends.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn choose(&mut self, id: Id, choices: Choices, io: &mut Io) -> Result<(), Refusal> {
        let (connection, _) = self.known(id)?;
        connection.is.has_nagle = choices.has_nagle;
        connection.is.is_corked = choices.is_corked;
        connection.user_timeout_ns = choices.user_timeout_ns;
        connection.bound_by_user_timeout();
        connection.syn_retries = choices.syn_retries;
        connection.congestion.algorithm = choices.algorithm;
        if connection.keep_alive != choices.keep_alive {
            connection.ask_when_silent(choices.keep_alive);
        }
        if let Some(size) = choices.max_segment.filter(|_| !connection.state.is_synchronized()) {
            connection.limit_segment(size);
        }
        self.follow_up(id.index, Next::Keep, io);
        Ok(())
    }

    /// Has the next acknowledgements go out at once, one that waits among them, or has them wait
    /// for data to ride on: until the connection takes another course, as `TCP_QUICKACK` does.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn set_quick(&mut self, id: Id, is_quick: bool, io: &mut Io) -> Result<(), Refusal> {
        let (connection, _) = self.known(id)?;
        connection.quick = if is_quick { QUICK } else { 0 };
        connection.is.is_interactive = !is_quick;
        connection.is.owes_ack |= is_quick && connection.deadlines[Deadline::Acknowledge as usize] != NEVER;
        self.follow_up(id.index, Next::Keep, io);
        Ok(())
    }

    /// Sends what waits to become a full segment.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn push(&mut self, id: Id, io: &mut Io) -> Result<(), Refusal> {
        let (connection, _) = self.known(id)?;
        connection.is.waits_for_more = false;
        connection.is.is_pushing = connection.unsent != crate::queue::NONE;
        self.follow_up(id.index, Next::Keep, io);
        Ok(())
    }

    /// Takes connections to a port from now on, in a way of its own.
    pub fn listen_as(&mut self, port: u16, listener: Listener) {
        self.listen(port);
        match listener == Listener::default() {
            true => drop(self.listeners.remove(&port)),
            false => drop(self.listeners.insert(port, listener)),
        }
    }

    /// Changes the options for connections that are opened from now on. How many connections
    /// and packets there may be stays as it was.
    pub fn set_options(&mut self, options: Options) {
        let Options { key, packets, connections, receive_buffer, .. } = self.shared.options;
        let options = Options { key, packets, connections, receive_buffer, ..options };
        self.shared.options = options.checked();
    }
}

impl crate::connection::Connection {
    /// Takes no larger segments than an application wants, and tells the other side so.
    pub fn limit_segment(&mut self, size: u16) {
        let size = size.max(LEAST_SEGMENT);
        self.advertised = self.advertised.min(size);
        self.segment = self.segment.min(size);
        self.path = crate::path::Path::new(self.segment);
        self.is.search = crate::search::Search::Rests;
    }

    /// From now on the other side is asked when it is silent, or not any more.
    fn ask_when_silent(&mut self, keep_alive: Option<KeepAlive>) {
        self.keep_alive = keep_alive;
        // The same timer ends a state in which nobody waits for the other side any more.
        let is_ending = self.state == State::FinWait2 && self.is.is_released;
        if self.state.is_synchronized() && !is_ending {
            let at_ns = keep_alive.map_or(NEVER, |it| self.heard_ns.saturating_add(it.idle_ns));
            self.set(Deadline::Idle, at_ns);
        }
    }

    /// Since when nobody takes what was sent, or opens a window; and whether that is too long
    /// for the application (RFC 5482).
    pub fn is_over_user_timeout(&self, now_ns: i64) -> bool {
        self.user_timeout_ns > 0
            && self.waits_since_ns != NEVER
            && now_ns - self.waits_since_ns >= self.user_timeout_ns
    }

    /// The retransmission timer goes no later than the application's user timeout.
    pub fn bound_by_user_timeout(&mut self) {
        if self.user_timeout_ns > 0 && self.waits_since_ns != NEVER {
            let end_ns = self.waits_since_ns.saturating_add(self.user_timeout_ns);
            let at_ns = self.deadlines[Deadline::Retransmit as usize];
            if at_ns != NEVER {
                self.set(Deadline::Retransmit, at_ns.min(end_ns));
            }
        }
    }
}
