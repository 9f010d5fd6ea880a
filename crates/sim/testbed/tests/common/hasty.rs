//! A device that acts at once on each write of a register, as one may: what the
//! driver does after a doorbell comes too late for it.

use std::sync::Arc;

use bus::{Pci, Result};
use testbed::inprocess::Handle;

use super::between::{Between, in_front_of};

#[derive(Debug)]
struct Hasty(Handle);

/// Has a device stepped after each write.
pub fn hasty(inner: Pci, handle: &Handle) -> Pci {
    in_front_of(inner, Arc::new(Hasty(handle.clone())))
}

impl Between for Hasty {
    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        inner.write_bar(index, offset, data)?;
        (0..4).for_each(|_| _ = self.0.step_now());
        Ok(())
    }
}
