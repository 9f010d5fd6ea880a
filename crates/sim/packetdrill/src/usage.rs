//! What `TCP_INFO` tells of a connection's whole life: how many segments and bytes went and came,
//! and for how long it had something to send, with what kept it from sending.

use tcp::Id;
use wire::tcp::Flags;

use crate::host::Host;
use crate::socket::Socket;

/// What keeps a connection from sending, as Linux tells times of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// Nothing waits to be sent or acknowledged.
    #[default]
    Idle,
    /// Something waits to be sent or acknowledged, and nothing below limits it.
    Busy,
    /// The other side's window.
    Window,
    /// The send buffer: the application would have more.
    Buffer,
}

/// What was counted of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Segments that went out, those of a packet that is cut one by one.
    pub segments_out: u32,
    /// Segments that came.
    pub segments_in: u32,
    /// Those of them with data that went out.
    pub data_segments_out: u32,
    /// Those with data that came.
    pub data_segments_in: u32,
    /// Bytes that went out, sent again or not.
    pub bytes_sent: u64,
    /// Bytes that went out again.
    pub bytes_resent: u64,
    /// The number behind the last byte that went out.
    next: Option<u32>,
    /// Bytes that went out, each once.
    pub bytes_new: u64,
    /// What keeps it from sending now, and since when.
    limit: Limit,
    since_ns: i64,
    /// For how long it was busy in all, and limited by window and buffer, in nanoseconds.
    busy_ns: i64,
    window_ns: i64,
    buffer_ns: i64,
}

impl Usage {
    /// That of a connection that the other side opened: its SYN and its acknowledgement came, and
    /// an answer went out between them.
    pub fn of_accepted() -> Usage {
        Usage { segments_in: 2, segments_out: 1, ..Usage::default() }
    }

    /// A packet went out, which will be cut into segments of `size` payload bytes.
    pub fn send(&mut self, sequence: u32, payload: usize, flags: Flags, size: usize) {
        let segments = payload.div_ceil(size.max(1)).max(1) as u32;
        self.segments_out += segments;
        if flags.contains(Flags::SYN) {
            self.next = Some(sequence.wrapping_add(1));
        }
        if payload == 0 {
            return;
        }
        let start = if flags.contains(Flags::SYN) { sequence.wrapping_add(1) } else { sequence };
        let end = start.wrapping_add(payload as u32);
        let news = end.wrapping_sub(self.next.unwrap_or(start)).cast_signed().clamp(0, payload as i32) as u64;
        if news > 0 {
            self.next = Some(end);
        }
        self.data_segments_out += segments;
        self.bytes_sent += payload as u64;
        self.bytes_resent += payload as u64 - news;
        self.bytes_new += news;
    }

    /// A segment came.
    pub fn receive(&mut self, payload: usize) {
        self.segments_in += 1;
        self.data_segments_in += u32::from(payload > 0);
    }

    /// From now on this keeps it from sending.
    fn limit(&mut self, limit: Limit, now_ns: i64) {
        let (busy_ns, window_ns, buffer_ns) = self.times_ns(now_ns);
        (self.busy_ns, self.window_ns, self.buffer_ns) = (busy_ns, window_ns, buffer_ns);
        (self.limit, self.since_ns) = (limit, now_ns);
    }

    /// For how long it was busy, and limited by the window and by the buffer, in nanoseconds.
    pub fn times_ns(&self, now_ns: i64) -> (i64, i64, i64) {
        let passed = |is_it: bool| if is_it { now_ns - self.since_ns } else { 0 };
        (
            self.busy_ns + passed(self.limit != Limit::Idle),
            self.window_ns + passed(self.limit == Limit::Window),
            self.buffer_ns + passed(self.limit == Limit::Buffer),
        )
    }
}

impl Host {
    /// Looks at what keeps each connection from sending.
    pub fn note_limits(&mut self) {
        let now_ns = self.now_ns;
        let limits = self
            .sockets
            .iter()
            .filter_map(|(number, socket)| Some((*number, self.limit_of(socket, socket.connection()?))));
        let limits: Vec<_> = limits.collect();
        for (number, limit) in limits {
            if let Some(socket) = self.sockets.get_mut(&number)
                && socket.usage.limit != limit
            {
                socket.usage.limit(limit, now_ns);
            }
        }
    }

    fn limit_of(&self, socket: &Socket, id: Id) -> Limit {
        let Some(detail) = self.stack().and_then(|stack| stack.detail(id)) else { return Limit::Idle };
        let info = &detail.info;
        let (queued, unsent) = (info.queued, detail.unsent);
        if queued == 0 || !socket.was_open {
            return Limit::Idle;
        }
        let segment = info.payload_size.max(1);
        let fits = |window: u32| queued - unsent + unsent.min(segment) <= window;
        let is_congested = info.in_flight + unsent.min(segment) > info.congestion_window;
        match unsent {
            0 if socket.is_full && info.in_flight + segment <= info.congestion_window => Limit::Buffer,
            // A limit by the buffer lasts until there is room.
            0 if socket.is_full && socket.usage.limit == Limit::Buffer => Limit::Buffer,
            1.. if !is_congested && !fits(info.send_window) => Limit::Window,
            _ => Limit::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_out_again_is_told_apart() {
        let mut usage = Usage::default();
        usage.send(u32::MAX, 0, Flags::SYN, 1000);
        usage.send(0, 2500, Flags::ACK, 1000);
        usage.send(1000, 1000, Flags::ACK, 1000);
        usage.send(2000, 1000, Flags::ACK, 1000);
        assert_eq!((usage.segments_out, usage.data_segments_out), (6, 5));
        assert_eq!((usage.bytes_sent, usage.bytes_resent, usage.bytes_new), (4500, 1500, 3000));
    }

    #[test]
    fn times_of_limits_are_times_of_being_busy() {
        let mut usage = Usage::default();
        usage.limit(Limit::Window, 10);
        usage.limit(Limit::Busy, 30);
        usage.limit(Limit::Buffer, 35);
        assert_eq!(usage.times_ns(40), (30, 20, 5));
        usage.limit(Limit::Idle, 40);
        assert_eq!(usage.times_ns(99), (30, 20, 5));
    }
}
