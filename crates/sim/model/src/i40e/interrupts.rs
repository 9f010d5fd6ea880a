//! Interrupts: vector 0 for the admin queue and errors, the others for queues; each is
//! disabled by being sent, and enabled again by the driver (datasheet 332464, chapter 7).
//!
//! An event is never lost: it waits while its vector is disabled or its time has not come.

use regs::i40e::{PFINT_DYN_CTLN, PFINT_ICR0};

/// Vectors of the function.
pub const VECTORS: usize = 129;

const _: () = assert!(VECTORS <= PFINT_DYN_CTLN::COUNT + 1);

/// The index of an interrupt throttling time that means none.
const NO_ITR: u32 = 3;

/// Unit of an interval.
const UNIT_NS: u64 = 2_000;

/// One vector, and what it waits for.
#[derive(Debug, Clone, Copy, Default)]
struct Vector {
    enabled: bool,
    pending: bool,
    /// When it may interrupt again, in nanoseconds.
    due_ns: u64,
    /// Intervals of the three indices, in units.
    intervals: [u16; 3],
    /// The index that the last event asked for.
    index: u32,
}

/// The interrupts of the function.
#[derive(Debug)]
pub(super) struct Interrupts {
    vectors: Box<[Vector; VECTORS]>,
    /// Some vector is pending.
    any: bool,
    causes: u32,
    wanted: u32,
    pub delivered: u64,
}

impl Default for Interrupts {
    fn default() -> Interrupts {
        let vectors = Box::new([Vector::default(); VECTORS]);
        Interrupts { vectors, any: false, causes: 0, wanted: 0, delivered: 0 }
    }
}

impl Interrupts {
    /// As after a reset of the function.
    pub fn reset(&mut self) {
        *self = Interrupts { delivered: self.delivered, ..Interrupts::default() };
    }

    /// Something happened that `vector` tells, with the time of `index`.
    pub fn event(&mut self, vector: usize, index: u32) {
        if let Some(vector) = self.vectors.get_mut(vector) {
            (vector.pending, vector.index) = (true, index);
            self.any = true;
        }
    }

    /// A cause of vector 0.
    pub fn cause(&mut self, cause: u32) {
        self.causes |= cause;
        if cause & self.wanted != 0 {
            self.event(0, NO_ITR);
        }
    }

    /// The causes of vector 0, which reading clears.
    pub fn take_causes(&mut self) -> u32 {
        let causes = std::mem::take(&mut self.causes);
        if causes == 0 { 0 } else { causes | PFINT_ICR0::INTEVENT }
    }

    /// Which causes raise vector 0.
    pub fn set_wanted(&mut self, causes: u32) {
        self.wanted = causes;
        if self.causes & causes != 0 {
            self.event(0, NO_ITR);
        }
    }

    /// The driver wrote a vector's DYN_CTL.
    pub fn control(&mut self, vector: usize, value: u32) {
        let Some(state) = self.vectors.get_mut(vector) else { return };
        if value & PFINT_DYN_CTLN::INTENA_MSK == 0 {
            state.enabled = value & PFINT_DYN_CTLN::INTENA != 0;
        }
        let index = (value & PFINT_DYN_CTLN::ITR_INDX_NONE) >> PFINT_DYN_CTLN::ITR_INDX_SHIFT;
        if let Some(interval) = state.intervals.get_mut(index as usize) {
            let units = (value & PFINT_DYN_CTLN::INTERVAL_MASK) >> PFINT_DYN_CTLN::INTERVAL_SHIFT;
            *interval = units as u16;
        }
        if value & PFINT_DYN_CTLN::SWINT_TRIG != 0 {
            if vector == 0 {
                self.causes |= PFINT_ICR0::SWINT;
            }
            self.event(vector, NO_ITR);
        }
    }

    /// What DYN_CTL reads.
    pub fn read_control(&self, vector: usize) -> u32 {
        let enabled = self.vectors.get(vector).is_some_and(|vector| vector.enabled);
        if enabled { PFINT_DYN_CTLN::INTENA } else { 0 }
    }

    /// Sets one of a vector's three intervals.
    pub fn set_interval(&mut self, vector: usize, index: usize, units: u16) {
        let vector = self.vectors.get_mut(vector);
        if let Some(interval) = vector.and_then(|vector| vector.intervals.get_mut(index)) {
            *interval = units;
        }
    }

    /// Whether some vector has something to tell.
    pub fn waits(&self) -> bool {
        self.any
    }

    /// Sends what may be sent now.
    #[inline]
    pub fn poll(&mut self, now_ns: u64, raise: &mut impl FnMut(u16)) {
        if self.any {
            self.send(now_ns, raise);
        }
    }

    #[cold]
    fn send(&mut self, now_ns: u64, raise: &mut impl FnMut(u16)) {
        self.any = false;
        for (n, vector) in self.vectors.iter_mut().enumerate().filter(|(_, vector)| vector.pending) {
            if !vector.enabled || now_ns < vector.due_ns {
                self.any = true;
                continue;
            }
            (vector.pending, vector.enabled) = (false, false);
            let units = vector.intervals.get(vector.index as usize).copied().unwrap_or(0);
            vector.due_ns = now_ns.saturating_add(u64::from(units) * UNIT_NS);
            self.delivered += 1;
            raise(n as u16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enables a vector and leaves its intervals.
    const ON: u32 = PFINT_DYN_CTLN::INTENA | PFINT_DYN_CTLN::ITR_INDX_NONE;

    fn sent(interrupts: &mut Interrupts, now_ns: u64) -> Vec<u16> {
        let mut sent = Vec::new();
        interrupts.poll(now_ns, &mut |vector| sent.push(vector));
        sent
    }

    #[test]
    fn an_event_waits_for_its_vector_and_for_its_time() {
        let mut interrupts = Interrupts::default();
        interrupts.set_interval(2, 0, 10);
        interrupts.event(2, 0);
        assert_eq!(sent(&mut interrupts, 0), [], "disabled");
        interrupts.control(2, ON);
        assert_eq!(sent(&mut interrupts, 0), [2]);
        assert_eq!(interrupts.read_control(2), 0, "sending disables it");
        interrupts.event(2, 0);
        interrupts.control(2, ON);
        assert_eq!(sent(&mut interrupts, 19_999), [], "20 us between two");
        assert_eq!(sent(&mut interrupts, 20_000), [2]);
        interrupts.event(VECTORS, 0);
        assert_eq!(sent(&mut interrupts, 20_000), [], "there is no such vector");
    }

    #[test]
    fn what_enables_a_vector_may_set_an_interval_too() {
        let mut interrupts = Interrupts::default();
        let units = 7 << PFINT_DYN_CTLN::INTERVAL_SHIFT;
        let rewrite = |index: u32| index << PFINT_DYN_CTLN::ITR_INDX_SHIFT | PFINT_DYN_CTLN::INTENA;
        interrupts.control(1, rewrite(1) | units);
        interrupts.control(1, rewrite(NO_ITR) | PFINT_DYN_CTLN::INTERVAL_MASK);
        interrupts.event(1, 1);
        assert_eq!(sent(&mut interrupts, 0), [1]);
        interrupts.event(1, 1);
        interrupts.control(1, rewrite(NO_ITR));
        assert_eq!((sent(&mut interrupts, 13_999), sent(&mut interrupts, 14_000)), (vec![], vec![1]));
    }

    #[test]
    fn causes_of_vector_0_are_told_when_wanted_and_cleared_by_reading() {
        let mut interrupts = Interrupts::default();
        interrupts.control(0, PFINT_DYN_CTLN::INTENA);
        interrupts.cause(PFINT_ICR0::ADMINQ);
        assert_eq!(sent(&mut interrupts, 0), []);
        interrupts.set_wanted(PFINT_ICR0::ADMINQ);
        assert_eq!(sent(&mut interrupts, 0), [0]);
        assert_eq!(interrupts.take_causes(), PFINT_ICR0::ADMINQ | PFINT_ICR0::INTEVENT);
        assert_eq!(interrupts.take_causes(), 0);
        interrupts.control(0, ON | PFINT_DYN_CTLN::SWINT_TRIG);
        assert_eq!(sent(&mut interrupts, 0), [0]);
        assert_eq!(interrupts.take_causes(), PFINT_ICR0::SWINT | PFINT_ICR0::INTEVENT);
    }
}
