//! What a register window is, for those who want to know before they use it.

use std::sync::atomic::Ordering;

use crate::{Bar, BarKind, BarMapping};

impl Bar {
    /// Whether the BAR has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory or I/O ports.
    pub fn kind(&self) -> BarKind {
        self.0.layout.kind
    }

    /// The parts that need no system call.
    pub fn mapped(&self) -> &[BarMapping] {
        self.0.tracer.as_ref().map_or(&self.0.layout.mapped, |tracer| tracer.inner.mapped())
    }

    /// Accesses that failed: out of range, refused, or the device is gone.
    pub fn faults(&self) -> u64 {
        let behind = self.0.tracer.as_ref().map_or(0, |tracer| tracer.inner.faults());
        self.0.faults.load(Ordering::Relaxed) + behind
    }
}
