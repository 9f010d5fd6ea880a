//! virtio 1.3 (OASIS) as far as a network device needs it, with the legacy
//! interface (0.9.5, described in the same document beside each section).
//!
//! Offsets are bytes, masks stand in the field that the section names. Fields
//! of the modern interface are little endian; legacy ones have the guest's
//! order, which is the same on all machines this is built for.

pub mod control;
pub mod device;
pub mod feature;
mod field;
pub mod net;
pub mod packed;
pub mod pci;
pub mod split;

pub use field::Field;
