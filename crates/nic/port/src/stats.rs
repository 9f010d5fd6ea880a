//! What queues and ports counted, in the same words for every kind of port. Every
//! counter has a name and says whether it counts a loss, so that a reader can
//! account for every packet without knowing the device.

use crate::Reason;

/// What a receive queue counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxStats {
    /// Packets handed to the application.
    pub packets: u64,
    /// Their bytes, as delivered.
    pub bytes: u64,
    /// Calls that found at least one packet.
    pub bursts: u64,
    /// Calls that found none.
    pub empty_polls: u64,
    /// Refills that found the pool empty: the ring ran short.
    pub no_buffer: u64,
    /// Packets the driver dropped because the device reported an error or a
    /// descriptor made no sense. The port's counters have them too.
    pub bad_descriptor: u64,
}

/// What a transmit queue counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TxStats {
    /// Packets handed to the device.
    pub packets: u64,
    /// Their bytes, as handed over.
    pub bytes: u64,
    /// Calls that handed over at least one packet.
    pub bursts: u64,
    /// Packets refused because the ring was full (they stay with the caller).
    pub ring_full: u64,
    /// Packets dropped because the device cannot send them (empty, too long,
    /// too many segments). The port's counters have them too.
    pub unsendable: u64,
}

/// One named counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its name: the register's where the device counts, else the driver's.
    pub name: &'static str,
    /// Its value since the port was opened.
    pub value: u64,
    /// Why the packets it counts were lost; `None` if they were not.
    pub loss: Option<Reason>,
    /// What it counts, in a few words.
    pub what: &'static str,
}

impl Counter {
    /// A counter of losses that is called as its reason is.
    pub fn of_loss(reason: Reason, value: u64) -> Counter {
        Counter { name: reason.name(), value, loss: Some(reason), what: reason.what() }
    }

    /// A counter of something that is not lost.
    pub fn of(name: &'static str, value: u64, what: &'static str) -> Counter {
        Counter { name, value, loss: None, what }
    }
}

/// Everything a port counted since it was opened: the device, the driver with all
/// its queues, and whoever stands between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Good packets the device received for the host.
    pub rx_packets: u64,
    /// Their bytes, with CRC where the device counts it.
    pub rx_bytes: u64,
    /// Packets the device sent.
    pub tx_packets: u64,
    /// Bytes of these packets, with CRC where the device counts it.
    pub tx_bytes: u64,
    /// All counters, in the device's order.
    pub counters: Vec<Counter>,
}

impl PortStats {
    /// Takes the sums from the counters of these names: packets and bytes received,
    /// packets and bytes sent.
    pub fn from_counters(counters: Vec<Counter>, sums: [&str; 4]) -> PortStats {
        let mut stats = PortStats { counters, ..PortStats::default() };
        let [rx_packets, rx_bytes, tx_packets, tx_bytes] = sums.map(|name| stats.counter(name));
        (stats.rx_packets, stats.rx_bytes) = (rx_packets, rx_bytes);
        (stats.tx_packets, stats.tx_bytes) = (tx_packets, tx_bytes);
        stats
    }

    /// The losses that are not zero: why, and how many packets.
    pub fn losses(&self) -> impl Iterator<Item = (Reason, u64)> {
        self.counters.iter().filter(|c| c.value > 0).filter_map(|c| Some((c.loss?, c.value)))
    }

    /// How many packets were lost for a reason.
    pub fn lost(&self, reason: Reason) -> u64 {
        self.losses().filter(|(why, _)| *why == reason).map(|(_, count)| count).sum()
    }

    /// The value of the counter called `name`; zero when there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|c| c.name == name).map_or(0, |c| c.value)
    }
}
