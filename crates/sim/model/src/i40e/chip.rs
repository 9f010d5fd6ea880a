//! The XL710 as a [`Chip`].

use super::I40e;
use super::lint::{Location, Rule};
use super::statistics::{RX, TX};
use crate::lint::Broken;
use crate::{Chip, Dma, Pages, Wire};

impl<D, P, W> Chip<W> for I40e<D, P>
where
    D: Dma<Window: Send> + Send,
    P: Pages + Send,
    W: Wire,
{
    fn name(&self) -> &'static str {
        "xl710"
    }

    fn read(&mut self, offset: u32) -> u32 {
        I40e::read(self, offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        I40e::write(self, offset, value);
    }

    fn odd(&mut self, offset: u32, _len: usize) {
        self.host.counters.report(Rule::OddAccess, Location::Offset(offset), 0);
    }

    fn set_bus_master(&mut self, on: bool) {
        I40e::set_bus_master(self, on);
    }

    #[inline]
    fn step(&mut self, wire: &mut W, now_ns: u64) -> usize {
        I40e::step(self, wire, now_ns)
    }

    fn reset(&mut self) {
        I40e::reset(self);
    }

    fn counters(&mut self) -> Vec<(&'static str, u64)> {
        let counters = &self.host.counters;
        let statistics = &counters.statistics;
        vec![
            ("rx_offered", counters.rx_offered),
            ("rx_packets", statistics.packets[RX]),
            ("rx_bytes", statistics.bytes[RX]),
            ("rx_waiting", 0),
            ("tx_offered", counters.tx_offered),
            ("tx_packets", statistics.packets[TX]),
            ("tx_bytes", statistics.bytes[TX]),
            ("rx_for_vfs", counters.rx_for_vfs),
            ("tx_from_vfs", counters.from_vfs),
            ("commands", counters.commands),
            ("flow_failures_untold", self.director.untold),
        ]
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.host.counters.drops.iter().collect()
    }

    fn findings(&self) -> Vec<Broken> {
        self.host.counters.lint.broken()
    }
}
