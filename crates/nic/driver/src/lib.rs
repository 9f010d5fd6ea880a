//! Drivers: what stands between a ring of descriptors and an application.
//!
//! A driver opens a [`bus::Pci`] device and brings it up in the order its datasheet
//! asks for. It implements [`port::Port`] and the queues' traits itself: each queue
//! is one object used by one thread, the port ([`ixgbe::Ixgbe`]) keeps what is
//! shared: link, filters, statistics, shutdown. Every wait has a limit, and an error
//! names the register and the last value read.

mod capability;
mod encap;
mod error;
pub mod igb;
pub mod igbvf;
mod prefetch;
mod vf_fault;
pub mod vf_host;
pub mod virtio;

#[cfg(not(feature = "seeded-bugs"))]
pub mod i40e;
#[cfg(not(feature = "seeded-bugs"))]
pub mod iavf;
#[cfg(not(feature = "seeded-bugs"))]
pub mod intel;
#[cfg(not(feature = "seeded-bugs"))]
pub mod ixgbe;
#[cfg(not(feature = "seeded-bugs"))]
pub mod ixgbevf;
#[cfg(not(feature = "seeded-bugs"))]
mod ring;
#[cfg(not(feature = "seeded-bugs"))]
mod wait;
mod words;

// For `cargo xtask mutants` only: these modules with mistakes to choose from.
#[cfg(feature = "seeded-bugs")]
include!(concat!(env!("OUT_DIR"), "/drivers.rs"));

pub use error::{Error, Result};

#[cfg(test)]
mod tests {
    /// Each place where a device's completion is looked at: the source, and the look.
    const LOOKS: [(&str, &str, &str); 8] = [
        ("intel/rx.rs", include_str!("intel/rx.rs"), "let high = descriptor[1].load("),
        ("intel/fixed.rs", include_str!("intel/fixed.rs"), "let word = slot[1].load("),
        ("intel/tx.rs", include_str!("intel/tx.rs"), "if !L::done(self.ring.at(report)[1].load("),
        ("intel/writeback.rs", include_str!("intel/writeback.rs"), "let head = head.load("),
        ("i40e/admin.rs", include_str!("i40e/admin.rs"), "let head = first[0].load("),
        ("i40e/flow.rs", include_str!("i40e/flow.rs"), "let done = || Ok((last.load("),
        ("virtio/packed.rs", include_str!("virtio/packed.rs"), "let word = self.ring.at(count)[1].load("),
        ("virtio/split.rs", include_str!("virtio/split.rs"), "let index = self.used_index.at(0).load("),
    ];

    /// What the barrier does shows on Arm alone ([`bus::order`]), where no test runs: so the
    /// source is looked at. Behind each look comes the barrier, and no other access to what the
    /// device shares before it. The language's own ordering, which would hide that one is
    /// missing, is not used for loads.
    #[test]
    fn completions_are_read_in_front_of_the_barrier_for_devices() {
        for (file, source, look) in LOOKS {
            let (_, behind) = source.split_once(look).unwrap_or_else(|| panic!("{file}: no {look}"));
            assert!(!behind.contains(look), "{file}: {look} stands there twice");
            let (between, _) = behind.split_once("order::after_ready();").unwrap_or(("", ""));
            let is_next = (1..=600).contains(&between.len());
            assert!(is_next && !between.contains(".load("), "{file}: no barrier behind {look}");
            assert!(!source.contains("Acquire"), "{file}: the language's ordering is for threads");
        }
    }
}
