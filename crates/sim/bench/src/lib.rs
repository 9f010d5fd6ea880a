//! Measuring: what drivers and routers cost, in cycles per packet, on device
//! models, and the conditions under which that was measured.
//!
//! There are two ways. On one core ([`one_core`]) the model takes its steps between the
//! driver's calls, and only those are timed: caches are warm, nothing is contended, the
//! figure is stable and says how much work the code is. On two cores ([`two_cores`]) the
//! model runs beside the driver, descriptors and packets cross between caches, and the
//! distance of the cores, measured around each window, says which windows can be
//! compared. [`graph`] measures routers, [`growth`] what packets cost when there is more of
//! something, [`latency`] how long packets are under way, [`overlay`] tunnels, [`tcp`] an echo over TCP, [`paper`] the figures of a paper;
//! [`peers`] and [`virtio`] measure beside DPDK. [`calibration`] says whether a core ran as fast
//! after a figure as before it.
//!
//! Nothing is parsed or printed here: `ixora bench` is the command.
#![forbid(unsafe_code)]

pub mod calibration;
pub mod conditions;
pub mod device;
pub mod distance;
mod error;
pub mod figures;
pub mod graph;
pub mod growth;
pub mod latency;
pub mod one_core;
pub mod opened;
pub mod overlay;
pub mod paper;
pub mod peers;
pub mod rig;
mod setting;
pub mod tables;
pub mod tcp;
pub mod two_cores;
pub mod virtio;

pub use error::{Error, Result};
pub use setting::{Choice, CompletionName, DeviceName, Setting, Workload};
