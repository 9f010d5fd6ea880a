//! Counters of queues and devices: every one has a name and says whether it
//! counts a loss, so that a reader can balance the books without knowing the
//! device.

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
    /// descriptor made no sense.
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
    /// too many segments).
    pub unsendable: u64,
}

/// One named counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its name: the register's where the device counts, else the driver's.
    pub name: &'static str,
    /// Its value since the port was opened.
    pub value: u64,
    /// Whether each unit is a lost packet.
    pub loss: bool,
    /// What it counts, in a few words.
    pub what: &'static str,
}
