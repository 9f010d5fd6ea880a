//! A tail that rests: a driver that fills receive descriptors and does not tell the device,
//! so that frames find none.

/// How long a tail may rest on filled descriptors while frames wait: a driver
/// that fills some tells the device at once, unless the host takes the processor
/// from it in between, or it is stopped for a moment, as a debugger does.
const REST_NS: u64 = 1_000_000_000;
/// The most that one round adds to it. A device that was not let run itself has seen
/// nothing of the time between two rounds, and reads the tail only after the round.
const ROUND_NS: u64 = 50_000_000;

/// The tail of a receive ring, as rounds see it.
#[derive(Debug, Default)]
pub(crate) struct Rest(Option<Seen>);

/// How long a tail has been seen to rest on filled descriptors.
#[derive(Debug)]
struct Seen {
    tail: u32,
    /// The time of the last round.
    seen_ns: u64,
    rested_ns: u64,
}

impl Rest {
    /// The device has descriptors.
    pub fn end(&mut self) {
        self.0 = None;
    }

    /// Whether it is known that the device had no descriptors.
    pub fn has_begun(&self) -> bool {
        self.0.is_some()
    }

    /// A round at which the device has no descriptor, and frames were lost for that since the
    /// last one if it `starved`. Whether the tail has rested for too long on descriptors that
    /// are `filled`: as the device left them, they say that the driver was not there, for it
    /// may be paused, or its pool empty. So the time before they were filled does not count: a
    /// driver that comes late fills a ring in many rounds before it tells.
    pub fn is_too_long(
        &mut self,
        tail: u32,
        starved: bool,
        now_ns: u64,
        filled: impl FnOnce() -> bool,
    ) -> bool {
        match &mut self.0 {
            Some(seen) if seen.tail == tail => {
                let passed = now_ns.saturating_sub(seen.seen_ns).min(ROUND_NS);
                seen.rested_ns = if filled() { seen.rested_ns + passed } else { 0 };
                seen.seen_ns = now_ns;
                let too_long = seen.rested_ns >= REST_NS;
                if too_long {
                    self.0 = None;
                }
                too_long
            }
            seen => {
                *seen = starved.then_some(Seen { tail, seen_ns: now_ns, rested_ns: 0 });
                false
            }
        }
    }
}
