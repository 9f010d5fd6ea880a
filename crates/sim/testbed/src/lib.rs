//! Models plugged into drivers: the one room that sees both sides.
//!
//! [`MODELS`] is the list of models; each makes a [`Device`] with a [`wire::Cable`] in its port.
//! [`inprocess`] joins it to a driver of this process, [`serve`] to whoever
//! speaks vfio-user or vhost-user. [`view`] is how a model reaches host memory, and [`fault`]
//! what goes wrong on purpose.
//!
//! Not here: the models themselves (crate `model`) and the vfio-user protocol
//! (crate `bus`). Nothing here is needed with a real NIC.

pub mod device;
pub mod external;
pub mod fault;
mod function;
pub mod i40e;
pub mod inprocess;
pub mod ixgbe;
pub mod minimal;
pub mod models;
pub mod serve;
mod shared;
mod stepper;
pub mod testpmd;
pub mod twin;
pub mod vfio_user;
pub mod vhost_user;
pub mod view;
pub mod virtio;
pub mod wire;

pub use device::{Device, DeviceReport, Finding, FindingPlace};
pub use models::{MODELS, Model, ModelError};
pub use stepper::{Idle, Stepper};
