//! Interrupts: causes, masks, their mapping to vectors and moderation.
//!
//! 82599 datasheet rev. 3.4, sections 7.3 and 8.2.3.5. Works in both modes:
//! MSI-X (GPIE.Multiple_MSIX, up to 64 vectors) and legacy or MSI (one
//! vector, 0). Low-latency interrupts and the TCP timer are not modelled.
//!
//! A cause is never lost: it stays pending while it is masked or moderated
//! and is delivered by the first [`Interrupts::poll`] that finds it free.

mod check;

use super::lint::Rule;

const EICR: u32 = 0x0800;
const EICS: u32 = 0x0808;
const EIAC: u32 = 0x0810;
const EITR0: u32 = 0x0820;
const EIMS: u32 = 0x0880;
const EIMC: u32 = 0x0888;
const EIAM: u32 = 0x0890;
const EITRSEL: u32 = 0x0894;
const GPIE: u32 = 0x0898;
const IVAR0: u32 = 0x0900;
const IVAR_MISC: u32 = 0x0A00;
const EICR_EX: u32 = 0x0A80;
const EICS_EX: u32 = 0x0A90;
const EIMS_EX: u32 = 0x0AA0;
const EIMC_EX: u32 = 0x0AB0;
const EIAM_EX: u32 = 0x0AD0;
const EITR24: u32 = 0x1_2300;

/// Queues of the device, each with an IVAR entry for either direction.
pub const QUEUES: usize = 128;
/// Vectors of the physical function.
pub const VECTORS: usize = 64;
const EITRS: usize = 129;

/// EICR bit: packet buffer overrun.
pub const RX_MISS: u32 = 1 << 17;
/// EICR bit: link status change.
pub const LSC: u32 = 1 << 20;
/// EICR bit: unrecoverable error in a descriptor or the host's memory.
pub const ECC: u32 = 1 << 28;
/// EICR bit: the SFP+ module was put in or taken out (SDP2).
pub const GPI_SDP2: u32 = 1 << 26;
/// EICR bit: the TCP timer.
pub const TCP_TIMER: u32 = 1 << 30;

const QUEUE_BITS: u32 = 0xFFFF;
const OTHER_BITS: u32 = 0x7FFF_0000;
const OTHER: u32 = 1 << 31;
/// GPIE.OCD: a read of EICR clears only these.
const OCD_CLEARS: u32 = 0x3FFF_0000;

const GPIE_MSIX: u32 = 1 << 4;
const GPIE_OCD: u32 = 1 << 5;
const GPIE_EIMEN: u32 = 1 << 6;
const GPIE_EIAME: u32 = 1 << 30;

const EITR_INTERVAL: u32 = 0x0FF8;
const EITR_COUNTER_SHIFT: u32 = 21;
const EITR_COUNTER: u32 = 0x7F << EITR_COUNTER_SHIFT;
const EITR_CNT_WDIS: u32 = 1 << 31;
/// Unit of the interval at 10 Gbit/s and 1 Gbit/s.
const UNIT_NS: u64 = 2_000;

const VALID: u8 = 0x80;
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
    eitr: [u32; EITRS],
    not_before_ns: [u64; EITRS],
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
            eitr: [0; EITRS],
            not_before_ns: [0; EITRS],
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
        self.gpie & GPIE_MSIX != 0
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

    #[inline]
    fn cause_vector(&mut self, vector: u8) {
        if vector != NONE {
            let bit = 1u64 << (vector & 63);
            self.cause |= bit;
            self.pending |= bit;
        }
    }

    /// Causes that belong to no queue, as bits of EICR ([`LSC`], ...).
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
        if causes & TCP_TIMER != 0 {
            vectors |= bit(timer);
        }
        if causes & !TCP_TIMER != 0 {
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
        for cause in [TCP_TIMER, OTHER_BITS & !TCP_TIMER] {
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
        if self.gpie & GPIE_EIAME != 0 {
            self.vector_mask &= !(bit & self.auto_mask);
        }
    }

    /// Reads a register of this component; `None` when it owns none there.
    pub fn read(&mut self, offset: u32, now_ns: u64) -> Option<u32> {
        Some(match offset {
            EICR => self.read_eicr(),
            // Write only in the table; drivers read it to see causes uncleared.
            EICS => self.eicr(),
            EIAC => self.auto_clear,
            EIMS | EIMC => self.other_mask | self.vector_mask as u32 & QUEUE_BITS,
            EIAM => self.auto_mask_other | self.auto_mask as u32 & QUEUE_BITS,
            EITRSEL => self.eitrsel,
            GPIE => self.gpie,
            IVAR_MISC => self.ivar_misc,
            _ => return self.read_array(offset, now_ns),
        })
    }

    fn read_array(&self, offset: u32, now_ns: u64) -> Option<u32> {
        let half = |base: u32, value: u64| (value >> (8 * (offset - base))) as u32;
        Some(match offset {
            _ if !offset.is_multiple_of(4) => return None,
            IVAR0..=0x09FC => self.ivar[((offset - IVAR0) / 4) as usize],
            EICR_EX | 0x0A84 => half(EICR_EX, self.cause),
            EICS_EX | 0x0A94 => half(EICS_EX, self.cause),
            EIMS_EX | 0x0AA4 => half(EIMS_EX, self.vector_mask),
            EIMC_EX | 0x0AB4 => half(EIMC_EX, self.vector_mask),
            EIAM_EX | 0x0AD4 => half(EIAM_EX, self.auto_mask),
            _ => {
                let vector = eitr_index(offset)?;
                let left = self.not_before_ns[vector].saturating_sub(now_ns) / UNIT_NS;
                // The nine-bit counter shows its upper seven bits.
                let shown = ((left / 4).min(0x7F) as u32) << EITR_COUNTER_SHIFT;
                self.eitr[vector] | shown
            }
        })
    }

    /// Writes a register; `false` when the component owns none at `offset`.
    pub fn write(&mut self, offset: u32, value: u32, now_ns: u64) -> bool {
        match offset {
            EICR => self.write_eicr(value),
            EICS => {
                self.set(u64::from(value & QUEUE_BITS), now_ns);
                self.cause_other(value);
            }
            EIAC => self.auto_clear = value & QUEUE_BITS,
            EIMS => {
                self.check_unmasked(value & QUEUE_BITS, value & OTHER_BITS);
                self.unmask(u64::from(value & QUEUE_BITS));
                // What came and was not cleared while masked is due now.
                self.other_pending |= self.other & value & !self.other_mask;
                self.other_mask |= value & OTHER_BITS;
            }
            EIMC => {
                self.vector_mask &= !u64::from(value & QUEUE_BITS);
                self.other_mask &= !value;
            }
            EIAM => {
                self.auto_mask = self.auto_mask & !u64::from(QUEUE_BITS) | u64::from(value & QUEUE_BITS);
                self.auto_mask_other = value & OTHER_BITS;
            }
            EITRSEL => self.eitrsel = value,
            GPIE => self.write_gpie(value),
            IVAR_MISC => {
                self.check_entries(value & 0xFFFF);
                self.ivar_misc = value & 0xBFBF;
                self.find_mapped();
            }
            _ => return self.write_array(offset, value, now_ns),
        }
        true
    }

    fn write_array(&mut self, offset: u32, value: u32, now_ns: u64) -> bool {
        let wide = |base: u32| u64::from(value) << (8 * (offset - base));
        match offset {
            _ if !offset.is_multiple_of(4) => return false,
            IVAR0..=0x09FC => {
                self.check_entries(value);
                self.write_ivar(((offset - IVAR0) / 4) as usize, value);
                self.find_mapped();
            }
            EICR_EX | 0x0A84 => {
                self.cause &= !wide(EICR_EX);
                self.uncleared &= !wide(EICR_EX);
                self.pending &= !wide(EICR_EX);
            }
            EICS_EX | 0x0A94 => self.set(wide(EICS_EX), now_ns),
            EIMS_EX | 0x0AA4 => {
                self.check_vectors(wide(EIMS_EX));
                self.unmask(wide(EIMS_EX));
            }
            EIMC_EX | 0x0AB4 => self.vector_mask &= !wide(EIMC_EX),
            EIAM_EX | 0x0AD4 => {
                let half = 0xFFFF_FFFFu64 << (8 * (offset - EIAM_EX));
                self.auto_mask = self.auto_mask & !half | wide(EIAM_EX);
            }
            _ => match eitr_index(offset) {
                Some(vector) => self.write_eitr(vector, value, now_ns),
                None => return false,
            },
        }
        true
    }

    fn eicr(&self) -> u32 {
        let mut value = self.other | self.cause as u32 & QUEUE_BITS;
        if self.other != 0 {
            value |= OTHER;
        }
        value
    }

    /// A read clears: everything, or with GPIE.OCD the other causes alone.
    fn read_eicr(&mut self) -> u32 {
        let value = self.eicr();
        let clears = if self.gpie & GPIE_OCD != 0 { OCD_CLEARS } else { u32::MAX };
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
        if self.gpie & GPIE_EIAME == 0 {
            self.vector_mask &= !self.auto_mask;
            self.other_mask &= !self.auto_mask_other;
        }
    }

    /// Causes set by software; with GPIE.EIMEN moderation is passed by.
    fn set(&mut self, vectors: u64, now_ns: u64) {
        self.cause |= vectors;
        self.pending |= vectors;
        if self.gpie & GPIE_EIMEN != 0 {
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
        self.eitr[vector] = value & !(EITR_COUNTER | EITR_CNT_WDIS);
        if value & EITR_CNT_WDIS == 0 {
            let counter = u64::from((value & EITR_COUNTER) >> EITR_COUNTER_SHIFT) * 4;
            self.not_before_ns[vector] = now_ns.saturating_add(counter * UNIT_NS);
        }
    }
}

/// Which EITR lies at `offset`: 24 in one place, the rest in another.
fn eitr_index(offset: u32) -> Option<usize> {
    let index = match offset {
        EITR0..0x0880 => (offset - EITR0) / 4,
        EITR24..0x1_24A4 => 24 + (offset - EITR24) / 4,
        _ => return None,
    };
    Some(index as usize)
}

/// Time between two interrupts of a vector; 0 turns moderation off.
fn interval_ns(eitr: u32) -> u64 {
    u64::from((eitr & EITR_INTERVAL) >> 3) * UNIT_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(block: &mut Interrupts, now_ns: u64) -> Vec<u16> {
        let mut raised = Vec::new();
        block.poll(now_ns, &mut |vector| raised.push(vector));
        raised
    }

    /// Set up as Linux does: MSI-X, all automatic, queue n to vector n.
    fn msix() -> Interrupts {
        let mut block = Interrupts::new();
        block.write(GPIE, GPIE_MSIX | GPIE_OCD | GPIE_EIAME | 1 << 31, 0);
        block.write(EIAM_EX, u32::MAX, 0);
        block.write(EIAM_EX + 4, u32::MAX, 0);
        block.write(EIAC, QUEUE_BITS, 0);
        for pair in 0..64u32 {
            let (a, b) = ((2 * pair) & 63, (2 * pair + 1) & 63);
            let entry = 0x8080_8080 | a | a << 8 | b << 16 | b << 24;
            block.write(IVAR0 + 4 * pair, entry, 0);
        }
        block.write(IVAR_MISC, 0x8000 | 5 << 8, 0);
        block
    }

    #[test]
    fn a_masked_cause_comes_when_unmasked() {
        for vector in [0usize, 3, 15, 16, 40, 63] {
            let mut block = msix();
            block.cause_rx(vector);
            assert!(poll(&mut block, 0).is_empty());
            let bank = EIMS_EX + 4 * (vector as u32 / 32);
            block.write(bank, 1 << (vector % 32), 0);
            assert_eq!(poll(&mut block, 0), [vector as u16]);
            // Auto-cleared and auto-masked: silent until unmasked, not lost.
            assert!(poll(&mut block, 0).is_empty());
            block.cause_tx(vector);
            assert!(poll(&mut block, 0).is_empty());
            block.write(bank, 1 << (vector % 32), 0);
            assert_eq!(poll(&mut block, 0), [vector as u16]);
            assert_eq!(block.delivered(), 2);
        }
    }

    #[test]
    fn moderation_spaces_interrupts_and_loses_none() {
        let mut block = msix();
        block.write(EIAM_EX, 0, 0);
        block.write(EIMS_EX, u32::MAX, 0);
        // 25 units of 2 µs.
        block.write(EITR0 + 4, 25 << 3 | EITR_CNT_WDIS, 0);
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
        block.write(EIMS_EX, u32::MAX, 0);
        block.write(EITR0, 100 << 3, 0);
        block.cause_rx(0);
        poll(&mut block, 0);
        block.write(EIMS_EX, 1, 0);
        block.cause_rx(0);
        block.write(EITR0, 100 << 3 | EITR_CNT_WDIS, 10);
        assert!(poll(&mut block, 10).is_empty());
        assert_eq!(block.read(EITR0, 0), Some(100 << 3 | (100 / 4) << EITR_COUNTER_SHIFT));
        block.write(EITR0, 100 << 3, 10);
        assert_eq!(poll(&mut block, 10), [0]);
    }

    #[test]
    fn other_causes_go_to_their_vector_and_stay_readable() {
        let mut block = msix();
        block.cause_other(LSC);
        assert!(poll(&mut block, 0).is_empty());
        block.write(EIMS, LSC, 0);
        assert_eq!(poll(&mut block, 0), [5]);
        assert_eq!(block.read(EICS, 0).expect("owned") & LSC, LSC);
        assert_eq!(block.read(EICR, 0).expect("owned") & LSC, LSC);
        assert_eq!(block.read(EICR, 0), Some(0));
        // The handler cleared it; the next change comes again.
        block.cause_other(LSC);
        assert_eq!(poll(&mut block, 0), [5]);
    }

    #[test]
    fn an_other_cause_not_cleared_fires_again_when_unmasked() {
        let mut block = msix();
        block.write(EIMS, LSC, 0);
        block.cause_other(LSC);
        assert_eq!(poll(&mut block, 0), [5]);
        block.write(EIMC, LSC, 0);
        block.write(EIMS, LSC, 0);
        assert_eq!(poll(&mut block, 0), [5]);
    }

    #[test]
    fn reading_eicr_spares_queue_bits_with_ocd() {
        let mut block = msix();
        block.cause_rx(2);
        assert_eq!(block.read(EICR, 0), Some(4));
        assert_eq!(block.read(EICR, 0), Some(4));
        block.write(GPIE, GPIE_MSIX, 0);
        assert_eq!(block.read(EICR, 0), Some(4));
        assert_eq!(block.read(EICR, 0), Some(0));
    }

    #[test]
    fn legacy_mode_has_one_vector_and_a_level() {
        let mut block = Interrupts::new();
        block.write(IVAR0, 0x0000_8180, 0);
        block.write(EIAM, QUEUE_BITS, 0);
        block.write(EIMS, QUEUE_BITS | LSC, 0);
        block.cause_rx(0);
        block.cause_tx(0);
        block.cause_other(LSC);
        assert!(block.line());
        assert_eq!(poll(&mut block, 0), [0]);
        assert!(poll(&mut block, 0).is_empty());
        assert_eq!(block.read(EICR, 0), Some(3 | LSC | OTHER));
        assert!(!block.line());
        // The read masked the queues (EIAM) and not the link.
        assert_eq!(block.read(EIMS, 0), Some(LSC));
        block.cause_rx(0);
        assert!(poll(&mut block, 0).is_empty());
        block.write(EIMS, QUEUE_BITS, 0);
        assert_eq!(poll(&mut block, 0), [0]);
    }

    #[test]
    fn a_cause_not_cleared_fires_again_when_unmasked() {
        let mut block = msix();
        block.write(EIAC, 0, 0);
        block.write(EIMS, 1, 0);
        block.cause_rx(0);
        assert_eq!(poll(&mut block, 0), [0]);
        block.write(EIMS, 1, 0);
        assert_eq!(poll(&mut block, 0), [0]);
        block.write(EICR, 1, 0);
        block.write(EIMS, 1, 0);
        assert!(poll(&mut block, 0).is_empty());
    }

    #[test]
    fn software_can_set_causes_past_moderation() {
        let mut block = msix();
        block.write(EIMS_EX + 4, 1, 0);
        block.write(EITR24 + 4 * 8, EITR_INTERVAL, 0);
        block.write(EICS_EX + 4, 1, 0);
        assert_eq!(poll(&mut block, 0), [32]);
        block.write(EIMS_EX + 4, 1, 0);
        block.write(EICS_EX + 4, 1, 0);
        assert!(poll(&mut block, 0).is_empty());
        block.write(GPIE, block.gpie() | GPIE_EIMEN, 0);
        block.write(EICS_EX + 4, 1, 0);
        assert_eq!(poll(&mut block, 0), [32]);
    }

    #[test]
    fn an_unmapped_queue_raises_nothing_and_hostile_offsets_are_refused() {
        let mut block = Interrupts::new();
        block.write(EIMS, u32::MAX, 0);
        block.cause_rx(7);
        block.cause_tx(9_999);
        assert!(poll(&mut block, 0).is_empty());
        let mut owned = 0;
        for offset in 0..0x2_0000 {
            let read = block.read(offset, 0).is_some();
            assert_eq!(read, block.write(offset, u32::MAX, u64::MAX));
            owned += usize::from(read);
        }
        assert_eq!(owned, 9 + 64 + 10 + EITRS);
    }
}
