//! A test lab without hardware: Linux in QEMU, both from Debian's packages.
//!
//! [`packages`] fetches what is needed beside the system, into a cache, and
//! installs nothing. The rest boots a small guest from it and reads from its
//! console what passed. All runs under QEMU's own translator, so that neither
//! KVM nor root is needed; only [`frr`] wants root, for tests between network namespaces,
//! where it and [`openvswitch`] run without a machine. This crate knows no other room: device models and
//! drivers are programs to it.
#![forbid(unsafe_code)]

mod error;
pub mod frr;
pub mod guest;
pub mod initramfs;
pub mod kernel;
pub mod limited;
pub mod openvswitch;
pub mod packages;
pub mod rig;
pub mod scenario;
pub mod traffic;
pub mod vm;

pub use error::{Error, Result};
