//! The times at which frames came, which an X550 puts behind them in their buffers.
//!
//! Section numbers are those of the X550's datasheet, 333369-009. The other chips of the family
//! have one register for the time of one packet, and only PTP's packets are stamped there: nothing
//! for a port that receives all. An X552 could be had as an X550, if its fuses said that its clock
//! counts nanoseconds.

use regs::ixgbe::{SYSTIMH, SYSTIML, TSAUXC, TSYNCRXCTL, device};

use super::device::Chip;
use crate::intel::clock::{Clock, Words};

impl Chip {
    /// The clock, if the device stamps each frame.
    pub(super) fn system_time(&self) -> Option<Clock> {
        let stamps = device(self.id).is_some_and(|device| device.stamps_each_frame());
        let register = |offset| self.bar.register(offset);
        let words = Words::Seconds([SYSTIML::AT, SYSTIMH::AT].map(register));
        stamps.then(|| Clock::new(words, self.systime.clone()))
    }

    /// Has each frame stamped, untagged or of any priority (7.1.6.2). The CRC must be stripped, or
    /// it would stand in between (7.1.1.2).
    ///
    /// CONTRADICTION: table 7-61 has a bit of each queue for this, in SRRCTL. The register has
    /// none there, and Linux's driver sets none.
    pub(super) fn start_timestamps(&self) {
        let bar = &self.bar;
        // The clock stands still after a reset, at zero (8.2.2.21.13).
        bar.clear32(TSAUXC::AT, TSAUXC::DISABLE_SYSTIME);
        let all = TSYNCRXCTL::TSIP_UT_EN | TSYNCRXCTL::TSIP_UP_EN_MASK;
        bar.write32(TSYNCRXCTL::AT, TSYNCRXCTL::ENABLED | TSYNCRXCTL::TYPE_ALL | all);
    }
}
