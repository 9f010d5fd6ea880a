//! Which frames a port receives beside those to its own address: the filter tables of
//! a NIC. Promiscuous mode, which every kind of port has, is
//! [`crate::Port::set_promiscuous`].

use crate::{Flow, FlowTarget, Result};

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

    /// Leads the packets of a flow to a receive queue, or drops them; of a flow that was added
    /// before, from now on to this one. What the filters above do not let through does not come
    /// to any queue; when a queue has gone, so have the filters that lead to it.
    /// [`crate::Feature::FlowFilter`] says whether a port can, and
    /// [`crate::Limits::flow_filters`] how many.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] by a port that cannot, [`crate::Error::Option`] for a queue
    /// that was not opened, [`crate::Error::TableFull`] when there is no room; what the device
    /// says.
    fn add_flow(&mut self, flow: &Flow, target: FlowTarget) -> Result<()>;

    /// Treats the packets of a flow that was added as those of any other; whether it was added.
    ///
    /// # Errors
    /// What the device says.
    fn remove_flow(&mut self, flow: &Flow) -> Result<bool>;

    /// Receives every multicast frame, or only those to addresses that were added.
    ///
    /// # Errors
    /// What the device says.
    fn set_all_multicast(&mut self, on: bool) -> Result<()>;
}
