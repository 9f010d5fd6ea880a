//! What `SO_TIMESTAMPING` tells on the error queue: when the last byte of a call was given to the
//! cable, and when it was acknowledged (Linux, Documentation/networking/timestamping.rst).

use std::collections::VecDeque;

/// Bits of the option: moments that are told of, and how.
const ON_SENDING: u32 = 1 << 1;
const ON_SCHEDULING: u32 = 1 << 8;
const ON_ACKNOWLEDGEMENT: u32 = 1 << 9;
const BY_SOFTWARE: u32 = 1 << 4;
const HAS_NUMBER: u32 = 1 << 7;
const HAS_NO_PACKET: u32 = 1 << 11;
/// Where a message of the error queue comes from: `SO_EE_ORIGIN_TIMESTAMPING`.
pub const ORIGIN: u8 = 4;

/// What happened to a byte, as Linux numbers it (`SCM_TSTAMP_SND` and the others).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Moment {
    /// It was given to the cable.
    Sent = 0,
    /// It was given to the queue in front of the cable, which keeps nothing here.
    Scheduled = 1,
    /// The other side has it.
    Acknowledged = 2,
}

/// A moment that is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The moment that the stamp tells of.
    pub moment: Moment,
    /// When, in nanoseconds.
    pub at_ns: i64,
    /// The number of the byte since the application asked; zero where it wants none.
    pub byte: u32,
    /// Whether the packet that had the byte is told too.
    pub has_packet: bool,
}

/// Bytes of a socket whose moments are wanted.
#[derive(Debug, Default)]
pub struct Stamps {
    /// What the application asked for.
    flags: u32,
    /// The number of the byte from which it counts.
    base: u64,
    /// Bytes that were written.
    written: u64,
    /// Numbers behind last bytes of calls that were not sent.
    unsent: VecDeque<u64>,
    /// The same of those that were sent and are not acknowledged.
    unacknowledged: VecDeque<u64>,
    /// What is to be told.
    ready: VecDeque<Stamp>,
}

impl Stamps {
    /// The application asks for moments, or for none; `acknowledged` bytes have arrived.
    pub fn ask(&mut self, flags: u32, acknowledged: u64) {
        if flags & HAS_NUMBER != 0 && self.flags & HAS_NUMBER == 0 {
            self.base = acknowledged;
        }
        self.flags = flags;
    }

    /// What was asked for.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// So many bytes were written.
    pub fn count(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// A call has written the last of its bytes.
    pub fn finish_call(&mut self) {
        if self.flags & (ON_SENDING | ON_SCHEDULING | ON_ACKNOWLEDGEMENT) != 0 {
            self.unsent.push_back(self.written);
        }
    }

    fn tell(&mut self, bit: u32, moment: Moment, end: u64, at_ns: i64) -> bool {
        let is_wanted = self.flags & bit != 0 && self.flags & BY_SOFTWARE != 0;
        if is_wanted {
            let has_number = self.flags & HAS_NUMBER != 0;
            let byte = if has_number { end.saturating_sub(1 + self.base) as u32 } else { 0 };
            let has_packet = self.flags & HAS_NO_PACKET == 0;
            self.ready.push_back(Stamp { moment, at_ns, byte, has_packet });
        }
        is_wanted
    }

    /// So many bytes have gone out in all; whether there is something new to tell.
    pub fn send(&mut self, bytes: u64, at_ns: i64) -> bool {
        let mut is_any = false;
        while let Some(end) = self.unsent.pop_front_if(|end| *end <= bytes) {
            is_any |= self.tell(ON_SCHEDULING, Moment::Scheduled, end, at_ns);
            is_any |= self.tell(ON_SENDING, Moment::Sent, end, at_ns);
            self.unacknowledged.push_back(end);
        }
        is_any
    }

    /// So many bytes were acknowledged in all; whether there is something new to tell.
    pub fn acknowledge(&mut self, bytes: u64, at_ns: i64) -> bool {
        let mut is_any = false;
        while let Some(end) = self.unacknowledged.pop_front_if(|end| *end <= bytes) {
            is_any |= self.tell(ON_ACKNOWLEDGEMENT, Moment::Acknowledged, end, at_ns);
        }
        is_any
    }

    /// Whether there is something to tell.
    pub fn has_stamp(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes what is to be told first.
    pub fn take(&mut self) -> Option<Stamp> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_of_each_call_is_told_when_it_goes_and_when_it_has_come() {
        let mut stamps = Stamps::default();
        stamps.count(100);
        stamps.finish_call();
        stamps.ask(BY_SOFTWARE | HAS_NUMBER | ON_SENDING | ON_ACKNOWLEDGEMENT, 40);
        for bytes in [50, 10] {
            stamps.count(bytes);
            stamps.finish_call();
        }
        assert!(!stamps.send(149, 1), "the last byte of the call has not gone");
        assert!(stamps.send(150, 2) && !stamps.acknowledge(149, 3) && stamps.acknowledge(150, 4));
        let told = [Moment::Sent, Moment::Acknowledged].map(|moment| (moment, 109));
        let stamp = |stamp: Stamp| (stamp.moment, stamp.byte);
        assert_eq!([(); 2].map(|()| stamp(stamps.take().expect("it was told"))), told);
        assert!(!stamps.has_stamp());
    }
}
