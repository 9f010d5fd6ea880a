//! Which receive queue has which vector (datasheet 7.3, 8.8).

use regs::igb::{EIAC, EIAM, EITR, GPIE, IVAR};

use super::RxQueue;
use super::device::Chip;
use crate::Result;
use crate::intel::RingRegisters;

/// At most one interrupt per vector in this time, in microseconds: keeps latency
/// low and a storm away.
const INTERVAL_US: u32 = 16;

/// Every vector of the device.
const ALL: u32 = (1 << EITR::COUNT) - 1;

/// Gives each receive queue its vector.
pub(super) fn init(chip: &Chip, queues: &mut [RxQueue]) -> Result<()> {
    let bar = &chip.bar;
    // MSI-X, every vector clearing and masking itself when it fires. The mode
    // comes first: the other two registers obey it.
    bar.write32(GPIE::AT, GPIE::MULTIPLE_MSIX | GPIE::PBA_SUPPORT | GPIE::EIAME | GPIE::NSICR);
    bar.write32(EIAC::AT, ALL);
    bar.write32(EIAM::AT, ALL);
    for (n, queue) in queues.iter_mut().enumerate() {
        let signal = chip.signal(n)?;
        // IVAR n holds receive and transmit of queue n, then of n + 8.
        let (register, shift) = (IVAR::at(n % IVAR::COUNT), 16 * (n / IVAR::COUNT) as u32);
        let entry = (signal.vector as u32 | IVAR::VALID) << shift;
        bar.write32(register, bar.read32(register) & !(0xFF << shift) | entry);
        bar.write32(EITR::at(signal.vector), INTERVAL_US << EITR::INTERVAL_SHIFT);
        queue.signal = Some(signal);
    }
    Ok(())
}
