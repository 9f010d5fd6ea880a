//! Bounds of a table: what strangers can make it keep, and how many requests they can make
//! it send (RFC 6583, section 7.1, for IPv6; a scan of an IPv4 network does the same).

/// A second in nanoseconds.
pub(crate) const SECOND_NS: i64 = 1_000_000_000;
/// The most addresses of any table: memory is finite, and strangers choose the addresses.
const MOST_ENTRIES: usize = 1 << 20;

/// Bounds of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Packets that may wait.
    pub packets: usize,
    /// Packets that may wait for one address.
    pub packets_each: usize,
    /// When too many packets wait, one in so many of them goes; not zero.
    pub slim: usize,
    /// Addresses that are kept, a million at most. One more takes the place of the oldest
    /// that nobody answered for, else of the oldest.
    pub addresses: usize,
    /// Addresses that are kept although nobody has answered for them. One more takes the
    /// place of the oldest of these, so that a scan forgets no address that is known.
    pub incomplete: usize,
    /// Requests a second for addresses that are not known, zero for any number. Those that
    /// refresh what is known are not counted.
    pub requests: u32,
    /// How long an answer counts; zero for ever.
    pub timeout_ns: i64,
    /// How long packets wait; zero for as long as there is room.
    pub wait_ns: i64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            packets: 2048,
            packets_each: usize::MAX,
            slim: 2,
            addresses: 1 << 16,
            incomplete: 4096,
            requests: 10_000,
            timeout_ns: 300 * SECOND_NS,
            wait_ns: 0,
        }
    }
}

impl Limits {
    /// The same, with a finite number of addresses that is not zero.
    pub(crate) fn checked(self) -> Limits {
        let addresses = self.addresses.clamp(1, MOST_ENTRIES);
        Limits { addresses, incomplete: self.incomplete.clamp(1, addresses), ..self }
    }
}

/// The pace of requests: so many a second, of which a second's worth may come at once.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the requests that were allowed are used up, at an even pace.
    used_up_ns: i64,
    /// Requests that were not allowed.
    pub(crate) suppressed: u64,
}

impl Pace {
    /// Whether one more request may be sent now, which is noted.
    pub(crate) fn allow(&mut self, requests: u32, now_ns: i64) -> bool {
        if requests == 0 {
            return true;
        }
        let used_up_ns = self.used_up_ns.max(now_ns) + SECOND_NS / i64::from(requests);
        let may = used_up_ns <= now_ns.saturating_add(SECOND_NS);
        match may {
            true => self.used_up_ns = used_up_ns,
            false => self.suppressed += 1,
        }
        may
    }
}
