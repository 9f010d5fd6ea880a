//! Linux's own tunnel devices at the far end of ours: frames of ours that the kernel takes,
//! and the kernel's that we take. Each test needs root for its two network namespaces, and a
//! kernel that has the device; where one is missing it is passed over and says so. With `CI`
//! set the namespaces must be there.
#![allow(clippy::unwrap_used)]

mod devices;
mod long_segments;
mod namespace;
mod segments;
mod traffic;
mod wire_between;
