//! What a vhost-user session needs of a device core, and what it remembers of
//! each ring.

use std::fs::File;

use bus::vhost_user::Ring;

/// A virtio device whose rings are set up from outside. Addresses are guest
/// physical; rings are numbered as in the specification, without a control
/// queue, which stays with the front end.
pub trait Rings {
    /// The virtio features it has.
    fn features(&self) -> u64;
    /// The features in use from now on, some of [`features`](Rings::features);
    /// no ring runs.
    fn set_features(&mut self, features: u64);
    /// Queue pairs it has.
    fn pairs(&self) -> u16;
    /// Starts a ring; `false` if it cannot lie there.
    fn start(&mut self, index: u16, ring: &Ring) -> bool;
    /// A ring that is not enabled takes and gives nothing.
    fn enable(&mut self, index: u16, on: bool);
    /// Stops a ring; its base, to go on from there.
    fn stop(&mut self, index: u16) -> u32;
    /// Whether the driver broke the ring's rules, so that it no longer runs.
    fn is_broken(&self, index: u16) -> bool;
}

/// A ring as the front end describes it, message by message.
#[derive(Debug, Default)]
pub(super) struct State {
    pub size: u16,
    pub base: u32,
    /// In the front end: descriptors, driver's area, device's area.
    pub addresses: Option<[u64; 3]>,
    /// The same as guest physical addresses, while it runs.
    pub running: Option<[u64; 3]>,
    /// A kick eventfd came, or word that there is none.
    pub kicked: bool,
    pub enabled: bool,
    /// Where to tell that it broke; taken when that was told.
    pub error: Option<File>,
}
