//! Which frames a port receives beside those to its own address: the filter tables of
//! a NIC. Promiscuous mode, which every kind of port has, is
//! [`crate::Port::set_promiscuous`].

use crate::Result;

/// The filter tables of a port; [`crate::Port::filters`] gives them. Their sizes are in
/// [`crate::Limits`].
pub trait Filters {
    /// Receives frames to one more address, of a station or of a group. A device that
    /// tells groups apart by a hash lets others of the same hash through.
    ///
    /// # Errors
    /// [`crate::Error::TableFull`] when there is no room for it; what the device says.
    fn add_mac(&mut self, mac: [u8; 6]) -> Result<()>;

    /// Receives no frames any more to an address that was added; whether it was.
    ///
    /// # Errors
    /// What the device says.
    fn remove_mac(&mut self, mac: [u8; 6]) -> Result<bool>;

    /// Lets a VLAN through the filter, or not, where the port was opened with
    /// [`crate::Options::vlan_filter`].
    ///
    /// # Errors
    /// When the device has no such filter; what it says.
    fn set_vlan(&mut self, vlan: u16, on: bool) -> Result<()>;

    /// Receives every multicast frame, or only those to addresses that were added.
    ///
    /// # Errors
    /// What the device says.
    fn set_all_multicast(&mut self, on: bool) -> Result<()>;
}
