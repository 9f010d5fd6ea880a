//! The 82599 as a [`Chip`].

use super::Ixgbe;
use super::lint::{Register, Rule};
use crate::lint::Broken;
use crate::{Chip, Dma, Pages, Wire};

impl<D, P, W> Chip<W> for Ixgbe<D, P>
where
    D: Dma<Window: Send> + Send,
    P: Pages + Send,
    W: Wire,
{
    fn name(&self) -> &'static str {
        "82599"
    }

    fn read(&mut self, offset: u32) -> u32 {
        Ixgbe::read(self, offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        Ixgbe::write(self, offset, value);
    }

    fn odd(&mut self, offset: u32, len: usize) {
        let narrow = offset.is_multiple_of(4) && len < 4;
        let rule = if narrow { Rule::NarrowAccess } else { Rule::UnalignedAccess };
        self.report(rule, Register::Unknown(offset), 0);
    }

    fn set_bus_master(&mut self, on: bool) {
        Ixgbe::set_bus_master(self, on);
    }

    #[inline]
    fn step(&mut self, wire: &mut W, now_ns: u64) -> usize {
        Ixgbe::step(self, wire, now_ns)
    }

    fn reset(&mut self) {
        Ixgbe::reset(self);
    }

    fn counters(&mut self) -> Vec<(&'static str, u64)> {
        let totals = self.totals();
        let (rx_offered, tx_offered) = self.offered();
        vec![
            ("rx_offered", rx_offered),
            ("rx_packets", totals.rx_packets),
            ("rx_bytes", totals.rx_bytes),
            ("rx_waiting", self.waiting() as u64),
            ("tx_offered", tx_offered),
            ("tx_packets", totals.tx_packets),
            ("tx_bytes", totals.tx_bytes),
        ]
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        Ixgbe::drops(self).iter().collect()
    }

    fn findings(&self) -> Vec<Broken> {
        self.lint().findings().broken()
    }
}
