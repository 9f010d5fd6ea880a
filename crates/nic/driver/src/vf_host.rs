//! What hosts of virtual functions have in common, whatever the chip: what one may, what is counted
//! of it, and how a host is kept going.

use crate::Result;

/// A port as host of its virtual functions. They are reset when it is dropped.
pub trait Hosting {
    /// Answers what virtual functions ask, brings up those that were reset, and tells all when the
    /// link changes; how much was done. What a virtual function does wrong is no error here.
    ///
    /// # Errors
    /// When the device itself fails.
    fn poll(&mut self) -> Result<usize>;
    /// Resets a virtual function, whose driver is told.
    ///
    /// # Errors
    /// [`crate::Error::FewVfs`] when there is none of that number.
    fn reset(&mut self, vf: usize) -> Result<()>;
    /// The address of a virtual function; `None` when there is none of that number.
    fn mac(&self, vf: usize) -> Option<[u8; 6]>;
    /// What was counted of a virtual function.
    fn counters(&self, vf: usize) -> VfCounters;
    /// Messages that came while too many of the same virtual function waited, and those of none that is
    /// hosted here.
    fn lost(&self) -> u64;
}

/// What a virtual function may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Its address; one that is made of the port's if it is `None`, and then its driver may have others.
    pub mac: Option<[u8; 6]>,
    /// The VLAN, 1 to 4094, whose tag all its frames have outside, and that it sees nothing of.
    pub vlan: Option<u16>,
    /// It may receive all frames, and have as many addresses and VLANs as there is room for.
    pub trust: bool,
    /// What it sends from an address that is not its own is dropped by the device.
    pub spoof_check: bool,
    /// What it may send at most, in Mbit/s; without a limit if it is `None`. A device that has
    /// coarser units takes the next of them below, or its lowest; one that limits queues gives each
    /// its share.
    pub rate_mbps: Option<u32>,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { mac: None, vlan: None, trust: false, spoof_check: true, rate_mbps: None }
    }
}

/// What a host counted of a virtual function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VfCounters {
    /// Messages that were answered.
    pub messages: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Answers and events that the firmware did not take, for the virtual function takes none.
    pub unsent: u64,
    /// Messages that nobody answers, for a reset came behind them, or before its end.
    pub discarded: u64,
    /// Messages that came while too many of its own waited.
    pub messages_lost: u64,
    /// Promiscuous modes that one without trust asked for and does not have.
    pub not_trusted: u64,
    /// Its resets, whoever asked for them.
    pub resets: u64,
    /// Those after which it could not be brought up at once.
    pub not_brought_up: u64,
}

/// The address of a virtual function that was given none: a local one, made of the port's.
pub(crate) fn own_address(port: [u8; 6], n: usize) -> [u8; 6] {
    let mut own = port;
    own[0] = own[0] & !1 | 2;
    // The ports of a card have neighbouring addresses: the number goes where those do not differ.
    own[1] ^= 0x40;
    own[2] ^= n as u8;
    own
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn addresses_that_are_made_are_local_and_all_different() {
        let ports = [4, 5, 6, 0x44].map(|last| [0, 0x1B, 0x21, 1, 2, last]);
        let of = |port: [u8; 6]| (0..128).map(move |n| own_address(port, n)).chain([port]);
        let made: BTreeSet<[u8; 6]> = ports.into_iter().flat_map(of).collect();
        assert_eq!(made.len(), 4 * 129, "those of a card's other ports, too");
        assert!(made.iter().all(|mac| ports.contains(mac) || mac[0] & 3 == 2));
    }
}
