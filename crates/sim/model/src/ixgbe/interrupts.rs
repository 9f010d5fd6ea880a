//! Interrupts: causes, masks, their mapping to vectors and moderation.
//!
//! 82599 datasheet rev. 3.4, sections 7.3 and 8.2.3.5. Works in both modes:
//! MSI-X (GPIE.Multiple_MSIX, up to 64 vectors) and legacy or MSI (one
//! vector, 0). Low-latency interrupts and the TCP timer are not modelled.
//!
//! A cause is never lost: it stays pending while it is masked or moderated
//! and is delivered by the first [`Interrupts::poll`] that finds it free.

mod check;

use regs::ixgbe::{
    EIAC, EIAM, EIAM_EX, EICR, EICS, EICS_EX, EIMC, EIMC_EX, EIMS, EIMS_EX, EITR, EITRSEL, GPIE, IVAR,
    IVAR_MISC, Id,
};

use super::lint::Rule;

/// Queues of the device, each with an IVAR entry for either direction.
pub const QUEUES: usize = 2 * IVAR::COUNT;
/// Vectors of the physical function.
pub const VECTORS: usize = 64;

/// Bits of EICR and its like: causes of queues, and the others but for the summary.
const QUEUE_BITS: u32 = EICR::RTX_QUEUE;
const OTHER_BITS: u32 = 0x7FFF_0000;
/// GPIE.OCD: a read of EICR clears only these.
const OCD_CLEARS: u32 = 0x3FFF_0000;

/// The counter that an EITR shows and takes, in bits 27:21.
const EITR_COUNTER_SHIFT: u32 = 21;
const EITR_COUNTER: u32 = 0x7F << EITR_COUNTER_SHIFT;
/// Unit of the interval at 10 Gbit/s and 1 Gbit/s.
const UNIT_NS: u64 = 2_000;

const VALID: u8 = IVAR::VALID as u8;
/// A queue mapped to no vector.
const NONE: u8 = 0xFF;

/// The interrupt block of the physical function.
#[derive(Debug, Clone)]
pub struct Interrupts {
    /// Causes of vectors not yet cleared; 15:0 are EICR's.
    cause: u64,
    /// Causes of vectors not yet delivered.
    pending: u64,
    /// Other causes, at their places in EICR.
    other: u32,
    other_pending: u32,
    vector_mask: u64,
    other_mask: u32,
    auto_clear: u32,
    auto_mask: u64,
    auto_mask_other: u32,
    gpie: u32,
    eitrsel: u32,
    ivar: [u32; QUEUES / 2],
    ivar_misc: u32,
    rx_vector: [u8; QUEUES],
    tx_vector: [u8; QUEUES],
    eitr: [u32; EITR::COUNT],
    not_before_ns: [u64; EITR::COUNT],
    delivered: u64,
    /// Vectors to which a valid entry leads.
    mapped: u64,
    /// Causes that were delivered and that nothing has cleared since.
    uncleared: u64,
    violation: Option<Rule>,
}

impl Default for Interrupts {
    fn default() -> Interrupts {
        Interrupts::new()
    }
}

impl Interrupts {
    /// The state after a reset: everything masked, nothing mapped.
    pub fn new() -> Interrupts {
        Interrupts {
            cause: 0,
            pending: 0,
            other: 0,
            other_pending: 0,
            vector_mask: 0,
            other_mask: 0,
            auto_clear: 0,
            auto_mask: 0,
            auto_mask_other: 0,
            gpie: 0,
            eitrsel: 0,
            ivar: [0; QUEUES / 2],
            ivar_misc: 0,
            rx_vector: [NONE; QUEUES],
            tx_vector: [NONE; QUEUES],
            eitr: [0; EITR::COUNT],
            not_before_ns: [0; EITR::COUNT],
            delivered: 0,
            mapped: 0,
            uncleared: 0,
            violation: None,
        }
    }

    /// A device reset. The number of interrupts delivered stays.
    pub fn reset(&mut self) {
        let delivered = self.delivered;
        *self = Interrupts::new();
        self.delivered = delivered;
    }

    /// Interrupts delivered since the model was made.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether the driver chose MSI-X mode.
    pub fn is_msix(&self) -> bool {
        self.gpie & GPIE::MULTIPLE_MSIX != 0
    }

    /// GPIE as written.
    pub fn gpie(&self) -> u32 {
        self.gpie
    }

    /// Receive queue `queue` has written back a descriptor.
    #[inline]
    pub fn cause_rx(&mut self, queue: usize) {
        self.cause_vector(self.rx_vector[queue % QUEUES]);
    }

    /// Transmit queue `queue` has written back a descriptor or its head.
    #[inline]
    pub fn cause_tx(&mut self, queue: usize) {
        self.cause_vector(self.tx_vector[queue % QUEUES]);
    }

    /// What `vector` stands for has happened.
    #[inline]
    pub fn cause_vector(&mut self, vector: u8) {
        if vector != NONE {
            let bit = 1u64 << (vector & 63);
            self.cause |= bit;
            self.pending |= bit;
        }
    }

    /// Causes that belong to no queue, as bits of EICR ([`EICR::LSC`], …).
    pub fn cause_other(&mut self, bits: u32) {
        self.other |= bits & OTHER_BITS;
        self.other_pending |= bits & OTHER_BITS;
    }

    /// The level of the INTx wire, for a driver without MSI.
    pub fn line(&self) -> bool {
        !self.is_msix()
            && (self.cause & self.vector_mask & u64::from(QUEUE_BITS) != 0
                || self.other & self.other_mask != 0)
    }

    /// Delivers every vector that has something to say and may say it now.
    pub fn poll(&mut self, now_ns: u64, raise: &mut impl FnMut(u16)) {
        let mut ready = self.ready();
        while ready != 0 {
            let vector = ready.trailing_zeros() as usize;
            ready &= ready - 1;
            if now_ns < self.not_before_ns[vector] {
                continue;
            }
            self.not_before_ns[vector] = now_ns.saturating_add(interval_ns(self.eitr[vector]));
            self.finish(vector);
            self.delivered += 1;
            raise(vector as u16);
        }
    }

    /// When [`Interrupts::poll`] will next have something to deliver that
    /// moderation holds back or that is due; `None` when nothing waits.
    pub fn next_deadline(&self) -> Option<u64> {
        let ready = self.ready();
        let waiting = (0..VECTORS).filter(|&vector| ready >> vector & 1 != 0);
        waiting.map(|vector| self.not_before_ns[vector]).min()
    }

    /// Vectors with an undelivered cause that is not masked.
    #[inline]
    fn ready(&self) -> u64 {
        let mut ready = self.pending & self.vector_mask;
        let other = self.other_pending & self.other_mask;
        if !self.is_msix() {
            let any = ready & u64::from(QUEUE_BITS) != 0 || other != 0;
            return u64::from(any);
        }
        if other != 0 {
            ready |= self.other_vectors(other);
        }
        ready
    }

    /// The vectors IVAR_MISC gives to `causes`.
    fn other_vectors(&self, causes: u32) -> u64 {
        let [timer, other, ..] = self.ivar_misc.to_le_bytes();
        let bit = |entry: u8| u64::from(entry & VALID != 0) << (entry & 63);
        let mut vectors = 0;
        if causes & EICR::TCP_TIMER != 0 {
            vectors |= bit(timer);
        }
        if causes & !EICR::TCP_TIMER != 0 {
            vectors |= bit(other);
        }
        vectors
    }

    /// The message of `vector` is out: automatic clear (EIAC) and mask (EIAM).
    fn finish(&mut self, vector: usize) {
        if !self.is_msix() {
            self.pending &= !(self.vector_mask & u64::from(QUEUE_BITS));
            self.other_pending &= !self.other_mask;
            return;
        }
        let bit = 1u64 << vector;
        let others = self.other_pending & self.other_mask;
        for cause in [EICR::TCP_TIMER, OTHER_BITS & !EICR::TCP_TIMER] {
            if others & cause != 0 && self.other_vectors(others & cause) & bit != 0 {
                self.other_pending &= !(others & cause);
            }
        }
        self.pending &= !(bit & self.vector_mask);
        // Vectors above 15 have no place in EICR: they always clear themselves.
        if vector > 15 || self.auto_clear >> vector & 1 != 0 {
            self.cause &= !bit;
        }
        self.uncleared |= bit & self.cause;
        if self.gpie & GPIE::EIAME != 0 {
            self.vector_mask &= !(bit & self.auto_mask);
        }
    }

    /// Reads a register, `n` of an array; `None` when the component does not own it.
    pub fn read(&mut self, id: Id, n: usize, now_ns: u64) -> Option<u32> {
        let half = |value: u64| (value >> (32 * (n & 1))) as u32;
        Some(match id {
            EICR::ID => self.read_eicr(),
            // Write only in the table; drivers read it to see causes uncleared.
            EICS::ID => self.eicr(),
            EIAC::ID => self.auto_clear,
            EIMS::ID | EIMC::ID => self.other_mask | self.vector_mask as u32 & QUEUE_BITS,
            EIAM::ID => self.auto_mask_other | self.auto_mask as u32 & QUEUE_BITS,
            EITRSEL::ID => self.eitrsel,
            GPIE::ID => self.gpie,
            IVAR::ID => self.ivar[n],
            IVAR_MISC::ID => self.ivar_misc,
            EICS_EX::ID => half(self.cause),
            EIMS_EX::ID | EIMC_EX::ID => half(self.vector_mask),
            EIAM_EX::ID => half(self.auto_mask),
            EITR::ID => {
                let left = self.not_before_ns[n].saturating_sub(now_ns) / UNIT_NS;
                // The nine-bit counter shows its upper seven bits.
                self.eitr[n] | ((left / 4).min(0x7F) as u32) << EITR_COUNTER_SHIFT
            }
            _ => return None,
        })
    }

    /// Writes a register, `n` of an array; `false` when the component does not own it.
    pub fn write(&mut self, id: Id, n: usize, value: u32, now_ns: u64) -> bool {
        match id {
            EICR::ID => self.write_eicr(value),
            EICS::ID => {
                self.set(u64::from(value & QUEUE_BITS), now_ns);
                self.cause_other(value);
            }
            EIAC::ID => self.auto_clear = value & QUEUE_BITS,
            EIMS::ID => self.write_eims(value),
            EIMC::ID => {
                self.vector_mask &= !u64::from(value & QUEUE_BITS);
                self.other_mask &= !value;
            }
            EIAM::ID => {
                self.auto_mask = self.auto_mask & !u64::from(QUEUE_BITS) | u64::from(value & QUEUE_BITS);
                self.auto_mask_other = value & OTHER_BITS;
            }
            EITRSEL::ID => self.eitrsel = value,
            GPIE::ID => self.write_gpie(value),
            IVAR::ID => {
                self.check_entries(value);
                self.write_ivar(n, value);
                self.find_mapped();
            }
            IVAR_MISC::ID => {
                self.check_entries(value & 0xFFFF);
                self.ivar_misc = value & 0xBFBF;
                self.find_mapped();
            }
            EITR::ID => self.write_eitr(n, value, now_ns),
            _ => return self.write_extended(id, n, value, now_ns),
        }
        true
    }

    /// The registers of 64 vectors in two halves.
    fn write_extended(&mut self, id: Id, n: usize, value: u32, now_ns: u64) -> bool {
        let wide = |value: u32| u64::from(value) << (32 * (n & 1));
        let vectors = wide(value);
        match id {
            EICS_EX::ID => self.set(vectors, now_ns),
            EIMS_EX::ID => {
                self.check_vectors(vectors);
                self.unmask(vectors);
            }
            EIMC_EX::ID => self.vector_mask &= !vectors,
            EIAM_EX::ID => self.auto_mask = self.auto_mask & !wide(u32::MAX) | vectors,
            _ => return false,
        }
        true
    }

    fn write_eims(&mut self, value: u32) {
        self.check_unmasked(value & QUEUE_BITS, value & OTHER_BITS);
        self.unmask(u64::from(value & QUEUE_BITS));
        // What came and was not cleared while masked is due now.
        self.other_pending |= self.other & value & !self.other_mask;
        self.other_mask |= value & OTHER_BITS;
    }

    fn eicr(&self) -> u32 {
        let mut value = self.other | self.cause as u32 & QUEUE_BITS;
        if self.other != 0 {
            value |= EICR::OTHER;
        }
        value
    }

    /// A read clears: everything, or with GPIE.OCD the other causes alone.
    fn read_eicr(&mut self) -> u32 {
        let value = self.eicr();
        let clears = if self.gpie & GPIE::OCD != 0 { OCD_CLEARS } else { u32::MAX };
        self.write_eicr(clears);
        value
    }

    /// Write 1 to clear. Without EIAME this is also what masks (EIAM).
    fn write_eicr(&mut self, value: u32) {
        let queues = u64::from(value & QUEUE_BITS);
        self.cause &= !queues;
        self.uncleared &= !queues;
        self.pending &= !queues;
        self.other &= !value;
        self.other_pending &= !value;
        if self.gpie & GPIE::EIAME == 0 {
            self.vector_mask &= !self.auto_mask;
            self.other_mask &= !self.auto_mask_other;
        }
    }

    /// Causes set by software; with GPIE.EIMEN moderation is passed by.
    fn set(&mut self, vectors: u64, now_ns: u64) {
        self.cause |= vectors;
        self.pending |= vectors;
        if self.gpie & GPIE::EIMEN != 0 {
            let asked = (0..VECTORS).filter(|&vector| vectors >> vector & 1 != 0);
            for vector in asked {
                self.not_before_ns[vector] = self.not_before_ns[vector].min(now_ns);
            }
        }
    }

    fn unmask(&mut self, vectors: u64) {
        self.pending |= self.cause & vectors & !self.vector_mask;
        self.vector_mask |= vectors;
    }

    fn write_gpie(&mut self, value: u32) {
        self.check_mode(value);
        self.gpie = value;
        // The mode decides how many bits of an IVAR entry count.
        for register in 0..self.ivar.len() {
            self.write_ivar(register, self.ivar[register]);
        }
        self.find_mapped();
    }

    fn write_ivar(&mut self, register: usize, value: u32) {
        self.ivar[register] = value & 0xBFBF_BFBF;
        let bits = if self.is_msix() { 0x3F } else { 0x0F };
        let vector = |entry: u8| {
            if entry & VALID != 0 { entry & bits } else { NONE }
        };
        let [rx0, tx0, rx1, tx1] = self.ivar[register].to_le_bytes().map(vector);
        self.rx_vector[2 * register] = rx0;
        self.tx_vector[2 * register] = tx0;
        self.rx_vector[2 * register + 1] = rx1;
        self.tx_vector[2 * register + 1] = tx1;
    }

    fn write_eitr(&mut self, vector: usize, value: u32, now_ns: u64) {
        self.check_interval(value);
        self.eitr[vector] = value & !(EITR_COUNTER | EITR::CNT_WDIS);
        if value & EITR::CNT_WDIS == 0 {
            let counter = u64::from((value & EITR_COUNTER) >> EITR_COUNTER_SHIFT) * 4;
            self.not_before_ns[vector] = now_ns.saturating_add(counter * UNIT_NS);
        }
    }
}

/// Time between two interrupts of a vector; 0 turns moderation off.
fn interval_ns(eitr: u32) -> u64 {
    u64::from((eitr & EITR::INTERVAL_MASK) >> EITR::INTERVAL_SHIFT) * UNIT_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use regs::ixgbe::{BAR0_LEN, lookup};

    const LSC: u32 = EICR::LSC;
    const OTHER: u32 = EICR::OTHER;

    fn write(block: &mut Interrupts, offset: u32, value: u32, now_ns: u64) {
        let (id, n) = lookup(offset).expect("a register");
        assert!(block.write(id, n, value, now_ns), "owned");
    }

    fn read(block: &mut Interrupts, offset: u32, now_ns: u64) -> u32 {
        let (id, n) = lookup(offset).expect("a register");
        block.read(id, n, now_ns).expect("owned")
    }

    fn poll(block: &mut Interrupts, now_ns: u64) -> Vec<u16> {
        let mut raised = Vec::new();
        block.poll(now_ns, &mut |vector| raised.push(vector));
        raised
    }

    /// Set up as Linux does: MSI-X, all automatic, queue n to vector n.
    fn msix() -> Interrupts {
        let mut block = Interrupts::new();
        write(&mut block, GPIE::AT, GPIE::MULTIPLE_MSIX | GPIE::OCD | GPIE::EIAME | 1 << 31, 0);
        write(&mut block, EIAM_EX::at(0), u32::MAX, 0);
        write(&mut block, EIAM_EX::at(1), u32::MAX, 0);
        write(&mut block, EIAC::AT, QUEUE_BITS, 0);
        for pair in 0..IVAR::COUNT {
            let (a, b) = ((2 * pair as u32) & 63, (2 * pair as u32 + 1) & 63);
            let entry = 0x8080_8080 | a | a << 8 | b << 16 | b << 24;
            write(&mut block, IVAR::at(pair), entry, 0);
        }
        write(&mut block, IVAR_MISC::AT, 0x8000 | 5 << 8, 0);
        block
    }

    #[test]
    fn a_masked_cause_comes_when_unmasked() {
        for vector in [0usize, 3, 15, 16, 40, 63] {
            let mut block = msix();
            block.cause_rx(vector);
            assert!(poll(&mut block, 0).is_empty());
            let bank = EIMS_EX::at(vector / 32);
            write(&mut block, bank, 1 << (vector % 32), 0);
            assert_eq!(poll(&mut block, 0), [vector as u16]);
            // Auto-cleared and auto-masked: silent until unmasked, not lost.
            assert!(poll(&mut block, 0).is_empty());
            block.cause_tx(vector);
            assert!(poll(&mut block, 0).is_empty());
            write(&mut block, bank, 1 << (vector % 32), 0);
            assert_eq!(poll(&mut block, 0), [vector as u16]);
            assert_eq!(block.delivered(), 2);
        }
    }

    #[test]
    fn moderation_spaces_interrupts_and_loses_none() {
        let mut block = msix();
        write(&mut block, EIAM_EX::at(0), 0, 0);
        write(&mut block, EIMS_EX::at(0), u32::MAX, 0);
        // 25 units of 2 µs.
        write(&mut block, EITR::at(1), 25 << 3 | EITR::CNT_WDIS, 0);
        block.cause_rx(1);
        assert_eq!(poll(&mut block, 1_000), [1]);
        block.cause_rx(1);
        assert!(poll(&mut block, 2_000).is_empty());
        assert_eq!(block.next_deadline(), Some(51_000));
        assert!(poll(&mut block, 50_999).is_empty());
        assert_eq!(poll(&mut block, 51_000), [1]);
        assert_eq!(block.next_deadline(), None);
    }

    #[test]
    fn writing_the_counter_restarts_it_and_disabling_does_not() {
        let mut block = msix();
        write(&mut block, EIMS_EX::at(0), u32::MAX, 0);
        write(&mut block, EITR::at(0), 100 << 3, 0);
        block.cause_rx(0);
        poll(&mut block, 0);
        write(&mut block, EIMS_EX::at(0), 1, 0);
        block.cause_rx(0);
        write(&mut block, EITR::at(0), 100 << 3 | EITR::CNT_WDIS, 10);
        assert!(poll(&mut block, 10).is_empty());
        assert_eq!(read(&mut block, EITR::at(0), 0), 100 << 3 | (100 / 4) << EITR_COUNTER_SHIFT);
        write(&mut block, EITR::at(0), 100 << 3, 10);
        assert_eq!(poll(&mut block, 10), [0]);
    }

    #[test]
    fn other_causes_go_to_their_vector_and_stay_readable() {
        let mut block = msix();
        block.cause_other(LSC);
        assert!(poll(&mut block, 0).is_empty());
        write(&mut block, EIMS::AT, LSC, 0);
        assert_eq!(poll(&mut block, 0), [5]);
        assert_eq!(read(&mut block, EICS::AT, 0) & LSC, LSC);
        assert_eq!(read(&mut block, EICR::AT, 0) & LSC, LSC);
        assert_eq!(read(&mut block, EICR::AT, 0), 0);
        // The handler cleared it; the next change comes again.
        block.cause_other(LSC);
        assert_eq!(poll(&mut block, 0), [5]);
    }

    #[test]
    fn an_other_cause_not_cleared_fires_again_when_unmasked() {
        let mut block = msix();
        write(&mut block, EIMS::AT, LSC, 0);
        block.cause_other(LSC);
        assert_eq!(poll(&mut block, 0), [5]);
        write(&mut block, EIMC::AT, LSC, 0);
        write(&mut block, EIMS::AT, LSC, 0);
        assert_eq!(poll(&mut block, 0), [5]);
    }

    #[test]
    fn reading_eicr_spares_queue_bits_with_ocd() {
        let mut block = msix();
        block.cause_rx(2);
        assert_eq!(read(&mut block, EICR::AT, 0), 4);
        assert_eq!(read(&mut block, EICR::AT, 0), 4);
        write(&mut block, GPIE::AT, GPIE::MULTIPLE_MSIX, 0);
        assert_eq!(read(&mut block, EICR::AT, 0), 4);
        assert_eq!(read(&mut block, EICR::AT, 0), 0);
    }

    #[test]
    fn legacy_mode_has_one_vector_and_a_level() {
        let mut block = Interrupts::new();
        write(&mut block, IVAR::at(0), 0x0000_8180, 0);
        write(&mut block, EIAM::AT, QUEUE_BITS, 0);
        write(&mut block, EIMS::AT, QUEUE_BITS | LSC, 0);
        block.cause_rx(0);
        block.cause_tx(0);
        block.cause_other(LSC);
        assert!(block.line());
        assert_eq!(poll(&mut block, 0), [0]);
        assert!(poll(&mut block, 0).is_empty());
        assert_eq!(read(&mut block, EICR::AT, 0), 3 | LSC | OTHER);
        assert!(!block.line());
        // The read masked the queues (EIAM) and not the link.
        assert_eq!(read(&mut block, EIMS::AT, 0), LSC);
        block.cause_rx(0);
        assert!(poll(&mut block, 0).is_empty());
        write(&mut block, EIMS::AT, QUEUE_BITS, 0);
        assert_eq!(poll(&mut block, 0), [0]);
    }

    #[test]
    fn a_cause_not_cleared_fires_again_when_unmasked() {
        let mut block = msix();
        write(&mut block, EIAC::AT, 0, 0);
        write(&mut block, EIMS::AT, 1, 0);
        block.cause_rx(0);
        assert_eq!(poll(&mut block, 0), [0]);
        write(&mut block, EIMS::AT, 1, 0);
        assert_eq!(poll(&mut block, 0), [0]);
        write(&mut block, EICR::AT, 1, 0);
        write(&mut block, EIMS::AT, 1, 0);
        assert!(poll(&mut block, 0).is_empty());
    }

    #[test]
    fn software_can_set_causes_past_moderation() {
        let mut block = msix();
        write(&mut block, EIMS_EX::at(1), 1, 0);
        write(&mut block, EITR::at(32), EITR::INTERVAL_MASK, 0);
        write(&mut block, EICS_EX::at(1), 1, 0);
        assert_eq!(poll(&mut block, 0), [32]);
        write(&mut block, EIMS_EX::at(1), 1, 0);
        write(&mut block, EICS_EX::at(1), 1, 0);
        assert!(poll(&mut block, 0).is_empty());
        let gpie = block.gpie();
        write(&mut block, GPIE::AT, gpie | GPIE::EIMEN, 0);
        write(&mut block, EICS_EX::at(1), 1, 0);
        assert_eq!(poll(&mut block, 0), [32]);
    }

    #[test]
    fn an_unmapped_queue_raises_nothing_and_what_can_be_read_can_be_written() {
        let mut block = Interrupts::new();
        write(&mut block, EIMS::AT, u32::MAX, 0);
        block.cause_rx(7);
        block.cause_tx(9_999);
        assert!(poll(&mut block, 0).is_empty());
        let mut owned = 0;
        for (id, n) in (0..BAR0_LEN).step_by(4).filter_map(lookup) {
            let read = block.read(id, n, 0).is_some();
            assert_eq!(read, block.write(id, n, u32::MAX, u64::MAX));
            owned += usize::from(read);
        }
        assert_eq!(owned, 9 + 64 + 8 + EITR::COUNT);
    }
}
