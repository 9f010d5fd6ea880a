//! What the datasheets state, and nothing else: register offsets, fields,
//! descriptor layouts, device ids. No I/O, no policy.
//!
//! Driver and model use the same table, so a wrong offset would agree with
//! itself. `tests/` therefore holds a second table, written independently, and
//! compares the two.
#![forbid(unsafe_code)]

pub mod encap;
pub mod i40e;
pub mod iavf;
pub mod igb;
pub mod igbvf;
pub mod ixgbe;
pub mod ixgbevf;
mod table;
pub mod virtchnl;
pub mod virtio;

pub use table::{Access, Register};
