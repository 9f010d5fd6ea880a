//! The linter: what a driver does that the datasheet forbids or leaves
//! undefined, reported once for each rule and register.
//!
//! The rules and their words are in [`rules`]; findings are kept as in all
//! models ([`crate::lint`]). Section numbers are those of the 82599 datasheet,
//! rev. 3.4. Nothing here changes what the device does.

pub mod rules;

use std::fmt;

use crate::lint::Findings;
pub use rules::Rule;

/// After CTRL.RST no register at all may be accessed for this long (8.2.3.1.1).
pub const RESET_SILENCE_NS: u64 = 1_000_000;
/// Nor, for this long, any but those a driver waits with (4.6.3.2).
pub const RESET_WINDOW_NS: u64 = 10_000_000;

/// A register as a finding names it: `SRRCTL[3]`, or an offset alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Register {
    /// The datasheet's name; empty when the offset is in no table.
    pub name: &'static str,
    /// Which one of an array.
    pub index: Option<u16>,
    /// Byte offset in BAR0.
    pub offset: u32,
}

impl Register {
    /// A register that is not one of many.
    pub const fn single(name: &'static str, offset: u32) -> Register {
        Register { name, index: None, offset }
    }

    /// Number `index` of an array of registers.
    pub const fn indexed(name: &'static str, index: u16, offset: u32) -> Register {
        Register { name, index: Some(index), offset }
    }

    /// An offset no table knows.
    pub const fn unknown(offset: u32) -> Register {
        Register::single("", offset)
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.index) {
            ("", _) => write!(f, "{:#07x}", self.offset),
            (name, None) => write!(f, "{name} ({:#07x})", self.offset),
            (name, Some(index)) => write!(f, "{name}[{index}] ({:#07x})", self.offset),
        }
    }
}

/// How software may use a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Reading only; also counters that a read clears.
    ReadOnly,
    /// Reading and writing; also bits that a written 1 clears.
    ReadWrite,
    /// Writing only.
    WriteOnly,
}

/// What the register table says about one offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// The register's name and index.
    pub register: Register,
    /// How it may be used.
    pub mode: Mode,
    /// Bits that must keep their default; 0 when the table does not say.
    pub reserved: u32,
    /// Value after reset, of which the reserved bits count.
    pub default: u32,
}

/// One access of the driver to BAR0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Byte offset.
    pub offset: u32,
    /// Bytes: 1, 2, 4 or 8.
    pub size: usize,
    /// The value written; `None` for a read.
    pub written: Option<u32>,
}

/// One thing a driver did wrong, however often.
pub type Finding = crate::lint::Finding<Rule, Register>;

/// What the driver has seen of the device since the reset.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// EEC.AUTO_RD set.
    pub eeprom: bool,
    /// RDRXCTL.DMAIDONE set.
    pub dma_init: bool,
    /// The statistics registers, or one of them.
    pub counters: bool,
    /// STATUS.PCIE_MASTER_ENABLE clear.
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
    /// finding back, so that the caller can say it aloud once.
    pub fn report(&mut self, rule: Rule, register: Register, value: u64) -> Option<&Finding> {
        self.findings.report(rule, register, value)
    }

    /// The generic rules, for any access: width, alignment, whether there is
    /// a register (`fact` is what the table says), and how it may be used.
    pub fn check(&mut self, access: Access, fact: Option<&Fact>) {
        let value = u64::from(access.written.unwrap_or(0));
        let register = fact.map_or(Register::unknown(access.offset), |fact| fact.register);
        if access.size < 4 {
            self.report(Rule::NarrowAccess, register, value);
        }
        if !access.offset.is_multiple_of(4) {
            self.report(Rule::UnalignedAccess, register, value);
            return;
        }
        let Some(fact) = fact else {
            self.report(Rule::UnknownRegister, register, value);
            return;
        };
        match (access.written, fact.mode) {
            (Some(_), Mode::ReadOnly) => {
                self.report(Rule::ReadOnlyWritten, register, value);
            }
            (Some(written), _) if (written ^ fact.default) & fact.reserved != 0 => {
                self.report(Rule::ReservedBitsWritten, register, value);
            }
            (None, Mode::WriteOnly) => {
                self.report(Rule::WriteOnlyRead, register, value);
            }
            _ => {}
        }
    }

    /// [`Lint::report`] about a queue, for rules that belong to a descriptor
    /// ring rather than to a register: `name` is that of its tail.
    pub fn report_queue(&mut self, rule: Rule, name: &'static str, queue: u16, value: u64) {
        let offset = match name {
            "RDT" if queue < 64 => 0x1018 + 0x40 * u32::from(queue),
            "RDT" => 0xD018 + 0x40 * u32::from(queue.saturating_sub(64)),
            _ => 0x6018 + 0x40 * u32::from(queue),
        };
        self.report(rule, Register::indexed(name, queue, offset), value);
    }

    /// The findings.
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

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Lint::default();
    }

    /// The driver wrote CTRL.RST: the quiet time starts, and the interrupts
    /// have to be masked again before anything is unmasked.
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
    pub(super) fn is_settled(&self, now_ns: u64, long: u64) -> bool {
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
        } else if since < RESET_SILENCE_NS || !matches!(register.offset, 0x0 | 0x4 | 0x8 | 0x1_0010) {
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

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::Rule as _;

    const RDT0: Register = Register::indexed("RDT", 0, 0x1018);

    #[test]
    fn each_generic_rule_finds_its_access_and_a_good_one_passes() {
        let fact = |mode| Fact { register: Register::single("X", 0x40), mode, reserved: 0xF0, default: 0x10 };
        let at = |offset, size, written| Access { offset, size, written };
        let read_write = fact(Mode::ReadWrite);
        let cases = [
            (at(0x40, 4, Some(0x1F)), Some(read_write), None),
            (at(0x40, 4, None), Some(read_write), None),
            (at(0x40, 4, Some(0x0F)), Some(read_write), Some(Rule::ReservedBitsWritten)),
            (at(0x40, 4, Some(0x10)), Some(fact(Mode::ReadOnly)), Some(Rule::ReadOnlyWritten)),
            (at(0x40, 4, None), Some(fact(Mode::WriteOnly)), Some(Rule::WriteOnlyRead)),
            (at(0x40, 2, None), Some(read_write), Some(Rule::NarrowAccess)),
            (at(0x41, 4, None), None, Some(Rule::UnalignedAccess)),
            (at(0x44, 4, None), None, Some(Rule::UnknownRegister)),
        ];
        for (access, fact, expected) in cases {
            let mut lint = Lint::new();
            lint.check(access, fact.as_ref());
            assert_eq!(lint.findings().iter().next().map(|finding| finding.rule), expected, "{access:?}");
        }
    }

    #[test]
    fn a_finding_reads_as_a_sentence() {
        let mut lint = Lint::new();
        lint.report_queue(Rule::TailBeforeEnable, "RDT", 3, 511);
        let text = lint.to_string();
        assert!(text.contains("RDT[3] (0x010d8)"), "{text}");
        assert!(text.contains("0x1ff") && text.contains("section "), "{text}");
    }

    #[test]
    fn the_quiet_time_after_a_reset_ends() {
        let status = Register::single("STATUS", 8);
        let mut lint = Lint::new();
        lint.note_access(RDT0, 0, 0);
        lint.note_reset(1_000);
        lint.note_access(status, 0, 1_000 + RESET_SILENCE_NS);
        assert!(lint.is_empty());
        lint.note_access(status, 0, 1_000 + RESET_SILENCE_NS - 1);
        lint.note_access(RDT0, 0, 1_000 + RESET_WINDOW_NS - 1);
        assert_eq!(lint.count(Rule::ResetNotWaited), 2);
        lint.note_access(RDT0, 0, 1_000 + RESET_WINDOW_NS);
        assert_eq!(lint.count(Rule::ResetNotWaited), 2);
    }

    #[test]
    fn interrupts_must_be_masked_after_a_reset() {
        let eims = Register::single("EIMS", 0x880);
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
