//! What the fuzz targets put in front of the code under test: a device, a
//! driver, a client and a wire that do whatever the input says.
//!
//! A target is a loop over the acts of its input; the promises it checks stand
//! here, beside the party that could see them broken. Each run begins with
//! everything as new, so that an input alone reproduces what it found.
#![forbid(unsafe_code)]

pub mod bench;
pub mod captive;
pub mod client;
pub mod dma;
pub mod fused;
pub mod headers;
pub mod hosted;
pub mod ixgbe_mailbox;
pub mod leases;
pub mod mailbox;
pub mod mutator;
pub mod packets;
pub mod rig;
pub mod rings;
pub mod served;
pub mod twin;
pub mod vf_of_bad_pf;
pub mod xl710;

use arbitrary::{Arbitrary, Unstructured};

/// One act from every `size` bytes of the input, so that a change of one leaves
/// those behind it as they are. Bytes that are missing are zero.
pub fn acts<'a, A: Arbitrary<'a>>(bytes: &'a [u8], size: usize) -> impl Iterator<Item = A> {
    bytes.chunks(size).filter_map(|chunk| Unstructured::new(chunk).arbitrary().ok())
}
