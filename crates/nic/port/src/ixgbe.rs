//! The 82599 family as a [`Port`](crate::Port).

use driver::ixgbe::Ixgbe;

use crate::intel::IntelPort;

/// An opened 82599.
pub type IxgbePort = IntelPort<Ixgbe>;
