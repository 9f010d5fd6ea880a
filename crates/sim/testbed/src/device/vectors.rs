//! Interrupts as messages: who raises a vector writes to its eventfd.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// MSI-X messages: an eventfd for each vector. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Vectors(Arc<Mutex<VectorState>>);

#[derive(Debug, Default)]
pub(super) struct VectorState {
    events: Vec<Option<OwnedFd>>,
    pub raised: u64,
    pub unwired: u64,
}

impl Vectors {
    pub(super) fn state(&self) -> MutexGuard<'_, VectorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, vector: u16, event: Option<OwnedFd>) {
        let mut state = self.state();
        let at = usize::from(vector);
        if state.events.len() <= at {
            state.events.resize_with(at + 1, || None);
        }
        state.events[at] = event;
    }

    pub(super) fn clear(&self) {
        self.state().events.clear();
    }
}

impl model::Interrupts for Vectors {
    fn raise(&mut self, vector: u16) {
        let mut state = self.state();
        let Some(Some(event)) = state.events.get(usize::from(vector)) else {
            state.unwired += 1;
            return;
        };
        // Not a write, which a client could let wait, and all devices with it.
        match bus::eventfd::signal(event) {
            Ok(()) => state.raised += 1,
            Err(_) => state.unwired += 1,
        }
    }
}
