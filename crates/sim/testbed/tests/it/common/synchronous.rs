//! A device that acts at once on each write of a register, as one may: what the
//! driver does after a doorbell comes too late for it.

use std::sync::Arc;

use bus::{Pci, Result};
use testbed::inprocess::Handle;

use super::between::{Between, in_front_of};

#[derive(Debug)]
struct Synchronous(Handle);

/// Has a device stepped after each write.
pub fn synchronous(inner: Pci, handle: &Handle) -> Pci {
    in_front_of(inner, Arc::new(Synchronous(handle.clone())))
}

impl Between for Synchronous {
    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        inner.write_bar(index, offset, data)?;
        (0..4).for_each(|_| _ = self.0.step_now());
        Ok(())
    }
}
