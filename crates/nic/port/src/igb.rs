//! The 82576 as a [`Port`](crate::Port).

use driver::igb::Igb;

use crate::intel::IntelPort;

/// An opened 82576.
pub type IgbPort = IntelPort<Igb>;
