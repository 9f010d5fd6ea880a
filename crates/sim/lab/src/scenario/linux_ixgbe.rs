//! Linux's ixgbe driver, unmodified, on two 82599 models joined by a cable.

use super::Bench;
use super::linux_pair::Pair;
use crate::Result;
use crate::vm::Outcome;

const SCRIPT: &str = include_str!("linux_ixgbe.sh");

/// Rules of the linter that Linux 6.1 breaks at a register, each with the
/// reason why it works all the same.
const EXPLAINED: &[(&str, &str)] = &[
    // Section 8.2.3.1.1 wants 1 ms without any access after CTRL.RST. The driver
    // reads STATUS at once, only to push the posted write out, and then waits.
    ("ResetNotWaited", "STATUS"),
    // The service task looks whether the port is down before it reads the statistics, some 70
    // registers that take long where each is trapped: a reset by another thread may fall into it. What it
    // reads then is zero and counts for nothing.
    ("ResetNotWaited", "CRCERRS"),
    ("ResetNotWaited", "ILLERRC"),
    ("ResetNotWaited", "ERRBC"),
    ("ResetNotWaited", "MSPDC"),
    ("ResetNotWaited", "RXMPC"),
    ("ResetNotWaited", "MLFC"),
    ("ResetNotWaited", "MRFC"),
    ("ResetNotWaited", "RLEC"),
    ("ResetNotWaited", "SSVPC"),
    ("ResetNotWaited", "LXO"),
    ("ResetNotWaited", "PXO"),
    ("ResetNotWaited", "PRC"),
    ("ResetNotWaited", "GPRC"),
    ("ResetNotWaited", "BPRC"),
    ("ResetNotWaited", "MPRC"),
    ("ResetNotWaited", "GPTC"),
    ("ResetNotWaited", "GORC"),
    ("ResetNotWaited", "GOTC"),
    ("ResetNotWaited", "RUC"),
    ("ResetNotWaited", "RFC"),
    ("ResetNotWaited", "ROC"),
    ("ResetNotWaited", "RJC"),
    ("ResetNotWaited", "MNGP"),
    ("ResetNotWaited", "TOR"),
    ("ResetNotWaited", "TPR"),
    ("ResetNotWaited", "TPT"),
    ("ResetNotWaited", "PTC"),
    ("ResetNotWaited", "MPTC"),
    ("ResetNotWaited", "BPTC"),
    ("ResetNotWaited", "XEC"),
    ("ResetNotWaited", "RNBC"),
    ("ResetNotWaited", "QPRC"),
    ("ResetNotWaited", "QBRC"),
    ("ResetNotWaited", "QPTC"),
    ("ResetNotWaited", "QBTC"),
    ("ResetNotWaited", "RXDDPC"),
    ("ResetNotWaited", "FCCRC"),
    ("ResetNotWaited", "FCLAST"),
    ("ResetNotWaited", "FCOE"),
    ("ResetNotWaited", "B2O"),
    ("ResetNotWaited", "O2B"),
    // 8.2.3.7.1 wants RXEN off while FCTRL changes. The driver switches
    // promiscuous mode under traffic; a frame or two may be filtered by the old rule.
    ("FilterChangedWhileReceiving", "FCTRL"),
    // Bits 12 and 13, pause frames on the 82598: the driver shares the code.
    ("ReservedBitsWritten", "FCTRL"),
    // The threshold of packet buffers that are not used is their size, nothing, less 24 KiB: all high
    // bits. These buffers send no pause frames.
    ("ReservedBitsWritten", "FCRTH"),
    // Bit 31, the 82598's name for all causes but the queues'.
    ("ReservedBitsWritten", "EIMS"),
    // 4.6.3.1 has interrupts masked once more after a reset. The driver does so
    // only before; the reset itself leaves none enabled.
    ("InterruptsBeforeReset", "RXCTRL"),
    // 4.6.3.2 has the driver wait for EEC.AUTO_RD. This one waits for 50 ms after
    // the reset and does not look.
    ("EepromNotAwaited", "EEC"),
    // 4.6.7.1 wants bit 12 cleared. The driver clears the bits of relaxed ordering
    // (13 and 15) and leaves this one as the reset does.
    ("DcaRxctrlBitSet", "DCA_RXCTRL"),
    // 7.1.6.1 has the done bit written as zero. Since 4.13 the driver clears the
    // length alone, and waits for that instead of the bit.
    ("DoneBitInRxDescriptor", "RDT"),
    // The vector of all causes but the queues' gets 1950, in the 82598's units, whose
    // low three bits are reserved in the 82599 (8.2.3.5.12).
    ("EitrOutOfRange", "EITR"),
    // All 64 vectors are unmasked at once, those too that no IVAR entry names.
    ("InterruptWithoutVector", "EIMS_EX"),
    // DCA_CTRL (8.2.3.11), which the register table does not have.
    ("UnknownRegister", "0x11074"),
];

/// As fibre: the driver reads the module over I2C.
pub fn sfp(bench: &Bench, name: &str) -> Result<Outcome> {
    pair(&["82599", "--device-id", "10fb"], "10fb").run(bench, name)
}

/// As a backplane: no module, the link trains by itself.
pub fn kx4(bench: &Bench, name: &str) -> Result<Outcome> {
    pair(&["82599", "--device-id", "10f7"], "10f7").run(bench, name)
}

fn pair(model: &'static [&'static str], id: &str) -> Pair {
    let environment = format!("ID={id}\n");
    Pair { model, environment, script: SCRIPT, explained: EXPLAINED, hosted: None, resets: 0 }
}
