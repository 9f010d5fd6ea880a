//! Which receive queue has which vector (datasheet 7.3.4, 8.2.3.5).

use bus::Bar;
use regs::ixgbe::{EIAC, EIAM_EX, EITR, GPIE, IVAR};

use super::RxQueue;
use super::device::Chip;
use crate::Result;
use crate::intel::RingRegisters;

/// At most one interrupt per vector in this time: 2.048 µs units on a 10 Gbit/s
/// link, in bits 11:3 (8.2.3.5.12). 16 µs keeps latency low and a storm away.
const INTERVAL: u32 = 8 << 3;

/// Gives each receive queue its vector.
pub(super) fn init(chip: &Chip, queues: &mut [RxQueue]) -> Result<()> {
    let bar = &chip.bar;
    enable(bar);
    for (n, queue) in queues.iter_mut().enumerate() {
        let signal = chip.signal(n)?;
        // IVAR holds four causes: receive and transmit of two queues (8.2.3.5.14).
        let shift = 16 * (n as u32 & 1);
        let entry = (signal.vector as u32 | IVAR::VALID) << shift;
        bar.write32(IVAR::at(n / 2), bar.read32(IVAR::at(n / 2)) & !(0xFF << shift) | entry);
        bar.write32(EITR::at(signal.vector), INTERVAL);
        queue.signal = Some(signal);
    }
    Ok(())
}

/// Puts the device into MSI-X mode, every vector masking itself when it fires.
fn enable(bar: &Bar) {
    bar.write32(GPIE::AT, GPIE::MULTIPLE_MSIX | GPIE::PBA_SUPPORT | GPIE::EIAME | GPIE::OCD);
    bar.write32(EIAC::AT, 0xFFFF);
    (0..EIAM_EX::COUNT).for_each(|n| bar.write32(EIAM_EX::at(n), u32::MAX));
}
