//! The packet loops of the applications, each a [`runtime::Poller`]: what the command line
//! opens ports for and runs on threads. They stand apart from the command line because that is
//! compiled without optimization (docs/decisions).

#![forbid(unsafe_code)]

pub mod capture;
pub mod echo;
pub mod fixed;
pub mod forward;
pub mod generate;
pub mod services;
pub mod vlan;

pub use capture::Capture;
pub use echo::Echo;
pub use fixed::FixedForward;
pub use forward::Forward;
pub use generate::Generator;
