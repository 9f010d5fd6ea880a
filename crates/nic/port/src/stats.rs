//! What a whole port counted, in the same words for every kind of port.

use driver::Counter;

/// Everything a port counted since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Good packets the device received for the host.
    pub rx_packets: u64,
    /// Their bytes, with CRC where the device counts it.
    pub rx_bytes: u64,
    /// Packets the device sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// All counters, in the device's order.
    pub counters: Vec<Counter>,
}

impl PortStats {
    /// The counters that stand for lost packets and are not zero.
    pub fn losses(&self) -> impl Iterator<Item = &Counter> {
        self.counters.iter().filter(|c| c.loss && c.value > 0)
    }

    /// The value of the counter called `name`; zero when there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|c| c.name == name).map_or(0, |c| c.value)
    }
}
