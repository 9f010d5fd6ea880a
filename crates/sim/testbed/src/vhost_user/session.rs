//! One front end's session: what its messages do to the device.
//!
//! QEMU 10.0, "Vhost-user Protocol". Messages reach this through crate `vhost`,
//! which has checked their shape; what they say is checked here. An error ends
//! the session.

mod handler;

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bus::vhost_user::message::F_PROTOCOL_FEATURES;
use model::chip::{RingSetup, Rings};
use rustix::io::Errno;
use vhost::vhost_user::{Error, Result, VhostUserBackendReqHandlerMut};

use super::gate::{Enable, SessionEnd};
use super::memory::Memory;
use crate::device::Device;
use crate::shared::SharedDevice;

/// A ring as the front end describes it, message by message.
#[derive(Debug, Default)]
struct RingState {
    size: u16,
    base: u32,
    /// In the front end: descriptors, driver's area, device's area.
    addresses: Option<[u64; 3]>,
    /// The same as guest physical addresses, while it runs.
    running: Option<[u64; 3]>,
    /// A kick eventfd came, or word that there is none.
    kicked: bool,
    enabled: bool,
    /// Where to tell that it broke; taken when that was told.
    error: Option<File>,
}

/// The session's state. Dropping it leaves the device as new.
pub(super) struct Session {
    shared: Arc<SharedDevice>,
    memory: Memory,
    rings: Vec<RingState>,
    features: u64,
    offered: u64,
}

impl Session {
    /// Attaches to the device, which has to have [`Rings`].
    pub fn new(shared: Arc<SharedDevice>) -> io::Result<Session> {
        let (pairs, offered) = {
            let mut device = shared.enter();
            device.attach();
            device.let_reach_memory();
            let rings = device.rings().ok_or(Errno::OPNOTSUPP)?;
            (rings.pairs(), rings.features() | F_PROTOCOL_FEATURES)
        };
        shared.set_attached(true);
        let rings = (0..2 * pairs).map(|_| RingState::default()).collect();
        Ok(Session { shared, memory: Memory::default(), rings, features: 0, offered })
    }

    /// Maps `len` bytes of `file` at 0, both as the front end and as the device
    /// see them.
    pub fn map(&mut self, file: File, len: u64) -> io::Result<()> {
        let shared = self.shared.clone();
        let region = super::memory::Region { guest: 0, len, user: 0, offset: 0 };
        self.memory.add(shared.enter().view(), region, file)
    }

    /// Takes a message that enables a ring before features are set, as QEMU's
    /// do; whether it was one.
    pub fn enable_early(&mut self, stream: &UnixStream) -> std::result::Result<bool, String> {
        if self.speaks_protocol_features() {
            return Ok(false);
        }
        let said = |fault: SessionEnd| fault.to_string();
        let Some(enable) = Enable::take(stream).map_err(said)? else { return Ok(false) };
        self.set_vring_enable(enable.index, enable.on != 0)
            .map_err(|error| format!("was refused: {error}"))?;
        enable.answer(stream).map_err(said)?;
        Ok(true)
    }

    /// Tells the front end of rings that it broke, once each.
    pub fn report_broken(&mut self) {
        let shared = self.shared.clone();
        let mut device = shared.enter();
        let Some(rings) = device.rings() else { return };
        for (index, state) in self.rings.iter_mut().enumerate() {
            if state.error.is_some() && rings.is_broken(index as u16) {
                let event = state.error.take();
                let _ = event.map(bus::eventfd::signal); // it was seen to be one
            }
        }
    }

    /// Changes the device, in one go as far as it can see: no step is under way meanwhile.
    fn change<T>(&mut self, change: impl FnOnce(&mut Session, &mut Device) -> Result<T>) -> Result<T> {
        let shared = self.shared.clone();
        let mut device = shared.enter();
        change(self, &mut device)
    }

    fn ring(&mut self, index: u32) -> Result<&mut RingState> {
        self.rings.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    /// Starts a ring that can run and does not yet.
    fn start_if_ready(&mut self, device: &mut Device, index: u32) -> Result<()> {
        let state = self.rings.get(index as usize).ok_or(Error::InvalidParam)?;
        let (Some(addresses), true, None) = (state.addresses, state.kicked, state.running) else {
            return Ok(());
        };
        let guest = self.translate(addresses).ok_or(refuse("a ring lies outside of memory"))?;
        let [descriptors, driver, device_area] = guest;
        let ring = RingSetup { size: state.size, descriptors, driver, device: device_area, base: state.base };
        let rings = rings(device)?;
        if !rings.start(index as u16, &ring) {
            return Err(refuse("a ring has a size or an address that no ring has"));
        }
        rings.enable(index as u16, state.enabled);
        self.ring(index)?.running = Some(guest);
        Ok(())
    }

    fn halt(&mut self, device: &mut Device, index: u32) -> Result<u32> {
        let state = self.ring(index)?;
        if state.running.take().is_some() {
            state.base = rings(device)?.stop(index as u16);
        }
        Ok(state.base)
    }

    /// Memory moved: rings move along, or stop where they are gone.
    fn follow_memory(&mut self, device: &mut Device) -> Result<()> {
        for index in 0..self.rings.len() as u32 {
            let state = self.ring(index)?;
            let (Some(was), Some(addresses)) = (state.running, state.addresses) else { continue };
            let now = self.translate(addresses);
            if now != Some(was) {
                self.halt(device, index)?;
                if now.is_some() {
                    self.start_if_ready(device, index)?;
                }
            }
        }
        Ok(())
    }

    fn translate(&self, addresses: [u64; 3]) -> Option<[u64; 3]> {
        let [descriptors, driver, device] = addresses.map(|user| self.memory.guest(user));
        Some([descriptors?, driver?, device?])
    }

    fn speaks_protocol_features(&self) -> bool {
        self.features & F_PROTOCOL_FEATURES != 0
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Both under the lock: a report sees neither without the other.
        let mut device = self.shared.enter();
        self.shared.set_attached(false);
        device.detach();
    }
}

fn rings(device: &mut Device) -> Result<&mut dyn Rings> {
    device.rings().ok_or(Error::BackendInternalError)
}

fn refuse(what: &'static str) -> Error {
    Error::ReqHandlerError(io::Error::other(what))
}
