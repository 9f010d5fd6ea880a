//! The linter: what a driver does that the datasheet forbids or leaves
//! undefined, reported once for each rule and register.
//!
//! The rules and their words are in [`rules`]; findings are kept as in all
//! models ([`crate::lint`]). Section numbers are those of the 82599 datasheet,
//! rev. 3.4. Nothing here changes what the device does. What the register table
//! forbids is checked where accesses arrive, in `dispatch`.

pub mod rules;

use std::fmt;

use regs::ixgbe::{CTRL, EEC, Id, STATUS, lookup};

use crate::lint::Findings;
pub use rules::Rule;

/// After CTRL.RST no register at all may be accessed for this long (8.2.3.1.1).
pub const RESET_SILENCE_NS: u64 = 1_000_000;
/// Nor, for this long, any but those a driver waits with (4.6.3.2).
pub const RESET_WINDOW_NS: u64 = 10_000_000;

/// Offset of the command register in PCI's configuration space (9.3.3.3).
const PCI_COMMAND: u16 = 0x4;

/// A register as a finding names it: `SRRCTL[3]`, or an offset alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Register {
    /// A register of the table, and which one of an array.
    Known(Id, u16),
    /// An offset in BAR0 that is in no table.
    Unknown(u32),
    /// The command register of PCI's configuration space.
    PciCommand,
}

impl Register {
    /// Number `n` of the registers in a row of the table.
    pub fn of(id: Id, n: usize) -> Register {
        Register::Known(id, n as u16)
    }

    /// What the table has at a byte offset in BAR0.
    pub fn at(offset: u32) -> Register {
        lookup(offset).map_or(Register::Unknown(offset), |(id, n)| Register::of(id, n))
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Register::Unknown(offset) => write!(f, "{offset:#07x}"),
            Register::PciCommand => write!(f, "PCI command ({PCI_COMMAND:#07x})"),
            Register::Known(id, _) if id.len() == 1 => write!(f, "{} ({:#07x})", id.name, id.offset),
            Register::Known(id, n) => write!(f, "{}[{n}] ({:#07x})", id.name, id.at(n.into())),
        }
    }
}

/// One thing a driver did wrong, however often.
pub type Finding = crate::lint::Finding<Rule, Register>;

/// What the driver has seen of the device since the reset.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// EEC.AUTO_RD was read as set.
    pub eeprom: bool,
    /// RDRXCTL.DMAIDONE was read as set.
    pub dma_init: bool,
    /// The statistics registers, or one of them.
    pub counters: bool,
    /// STATUS.PCIE_MASTER_ENABLE was read as clear.
    pub master_off: bool,
    /// SECRXSTAT.SECRX_RDY set, while SECRXCTRL.RX_DIS is.
    pub rx_halted: bool,
}

/// All findings about one driver.
#[derive(Debug, Clone, Default)]
pub struct Lint {
    findings: Findings<Rule, Register>,
    reset_at_ns: Option<u64>,
    unmasked_since_reset: Option<bool>,
    seen: Seen,
    /// When receive was turned on, until what should follow has been checked.
    receiving_since_ns: Option<u64>,
}

impl Lint {
    /// No findings yet.
    pub fn new() -> Lint {
        Lint::default()
    }

    /// Records that `rule` was broken at `register`. A new kind gives its
    /// finding back, so that the caller can log it once.
    pub fn report(&mut self, rule: Rule, register: Register, value: u64) -> Option<&Finding> {
        self.findings.report(rule, register, value)
    }

    /// What was found so far.
    pub fn findings(&self) -> &Findings<Rule, Register> {
        &self.findings
    }

    /// Whether the driver did nothing wrong.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// How often a rule was broken, at all registers together.
    pub fn count(&self, rule: Rule) -> u64 {
        self.findings.count(rule)
    }

    /// Forgets all that was found and seen.
    pub fn clear(&mut self) {
        *self = Lint::default();
    }

    /// The driver wrote CTRL.RST: the time starts in which registers must not be
    /// accessed, and the interrupts have to be masked again before anything is unmasked.
    pub fn note_reset(&mut self, now_ns: u64) {
        self.reset_at_ns = Some(now_ns);
        self.unmasked_since_reset = Some(false);
        self.seen = Seen::default();
        self.receiving_since_ns = None;
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(super) fn seen_mut(&mut self) -> &mut Seen {
        &mut self.seen
    }

    /// Receive was turned on.
    pub(super) fn note_receiving(&mut self, now_ns: u64) {
        self.receiving_since_ns.get_or_insert(now_ns);
    }

    /// Whether receive was turned on `long` ago and nobody has asked since.
    pub(super) fn has_received_for(&self, now_ns: u64, long: u64) -> bool {
        self.receiving_since_ns.is_some_and(|since| now_ns.saturating_sub(since) >= long)
    }

    /// Whether receive was turned on; asking takes it.
    pub(super) fn take_receiving(&mut self) -> bool {
        self.receiving_since_ns.take().is_some()
    }

    /// The reset came by PCI and not by CTRL: whoever asked for it waited until the
    /// device was ready again, before a driver was let near.
    pub fn note_ready(&mut self) {
        self.reset_at_ns = None;
    }

    /// Any access to BAR0: too early after a reset? After the silence, reads
    /// of CTRL and STATUS are how a driver waits, and EEC how it sees the
    /// load finish.
    #[inline]
    pub fn note_access(&mut self, register: Register, value: u64, now_ns: u64) {
        let Some(since) = self.reset_at_ns.map(|at| now_ns.saturating_sub(at)) else {
            return;
        };
        if since >= RESET_WINDOW_NS {
            self.reset_at_ns = None;
        } else if since < RESET_SILENCE_NS || !is_for_waiting(register) {
            self.report(Rule::ResetNotWaited, register, value);
        }
    }

    /// A write of EIMC: the interrupts are off, as 4.6.3.1 wants after reset.
    pub fn note_masked(&mut self) {
        self.unmasked_since_reset = None;
    }

    /// A write of EIMS, or of a receive or transmit enable, before the mask.
    pub fn note_enabled(&mut self, register: Register, value: u64) {
        if self.unmasked_since_reset == Some(false) {
            self.unmasked_since_reset = Some(true);
            self.report(Rule::InterruptsBeforeReset, register, value);
        }
    }
}

/// Whether a driver reads the register to see that a reset is over.
fn is_for_waiting(register: Register) -> bool {
    matches!(register, Register::Known(CTRL::ID | STATUS::ID | EEC::ID, _))
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::Rule as _;
    use regs::ixgbe::{BAR0_LEN, EIMS, RDT, RXCTRL};

    #[test]
    fn a_finding_reads_as_a_sentence() {
        let mut lint = Lint::new();
        lint.report(Rule::TailBeforeEnable, Register::of(RDT::ID, 3), 511);
        let text = lint.to_string();
        assert!(text.contains("RDT[3] (0x010d8)"), "{text}");
        assert!(text.contains("0x1ff") && text.contains("section "), "{text}");
    }

    #[test]
    fn a_place_is_named_as_the_table_names_it() {
        for (register, text) in [
            (Register::at(RXCTRL::AT), "RXCTRL (0x03000)"),
            (Register::at(RDT::at(64)), "RDT[64] (0x0d018)"),
            (Register::at(BAR0_LEN - 4), "0x1fffc"),
            (Register::PciCommand, "PCI command (0x00004)"),
        ] {
            assert_eq!(register.to_string(), text);
        }
    }

    #[test]
    fn the_time_without_accesses_after_a_reset_ends() {
        let (status, rdt) = (Register::of(STATUS::ID, 0), Register::of(RDT::ID, 0));
        let mut lint = Lint::new();
        lint.note_access(rdt, 0, 0);
        lint.note_reset(1_000);
        lint.note_access(status, 0, 1_000 + RESET_SILENCE_NS);
        assert!(lint.is_empty());
        lint.note_access(status, 0, 1_000 + RESET_SILENCE_NS - 1);
        lint.note_access(rdt, 0, 1_000 + RESET_WINDOW_NS - 1);
        assert_eq!(lint.count(Rule::ResetNotWaited), 2);
        lint.note_access(rdt, 0, 1_000 + RESET_WINDOW_NS);
        assert_eq!(lint.count(Rule::ResetNotWaited), 2);
    }

    #[test]
    fn interrupts_must_be_masked_after_a_reset() {
        let eims = Register::of(EIMS::ID, 0);
        let mut lint = Lint::new();
        lint.note_reset(0);
        lint.note_masked();
        lint.note_enabled(eims, 1);
        assert!(lint.is_empty());
        lint.note_reset(0);
        lint.note_enabled(eims, 1);
        lint.note_enabled(eims, 1);
        assert_eq!(lint.count(Rule::InterruptsBeforeReset), 1);
    }

    #[test]
    fn every_rule_has_its_words() {
        for rule in Rule::ALL {
            let words = rule.words();
            assert!(!words.section.is_empty());
            for text in [words.sentence, words.consequence] {
                assert!(text.ends_with('.') && text.len() > 20, "{rule:?}: {text}");
            }
        }
    }
}
