//! Register accesses told one by one, at the level `trace`.
//!
//! A window that is traced looks as if none of it were mapped: each access goes the slow
//! way, which tells it and makes it through the window behind. So windows that are not
//! traced pay nothing for it, doorbells ([`Register`](crate::Register)) neither.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::bar::Window;
use crate::{Bar, BarLayout, Result};

/// The name of the register at an offset, where it has one.
pub type RegisterName = fn(u32) -> Option<String>;

/// Tells of accesses, and makes them.
#[derive(Debug)]
pub(crate) struct Tracer {
    pub(crate) inner: Bar,
    device: String,
    name: RegisterName,
}

impl Bar {
    /// The same window; its accesses are told if the level `trace` is on now, in the words
    /// for the device and its registers.
    pub fn traced(self, device: &str, name: RegisterName) -> Bar {
        match tracing::enabled!(tracing::Level::TRACE) {
            true => self.told_by(device, name),
            false => self,
        }
    }

    fn told_by(self, device: &str, name: RegisterName) -> Bar {
        let (backend, index) = (self.0.backend.clone(), self.0.index);
        let layout = BarLayout { mapped: Vec::new(), ..self.0.layout.clone() };
        let tracer = Some(Tracer { inner: self, device: device.to_owned(), name });
        Bar(Arc::new(Window { layout, backend, index, faults: AtomicU64::new(0), tracer }))
    }
}

impl Window {
    /// Reads by the backend, or tells of it.
    pub(crate) fn read(&self, offset: u32, data: &mut [u8]) -> Result<()> {
        match &self.tracer {
            None => self.backend.read_bar(self.index, offset, data),
            Some(tracer) => {
                tracer.read(offset, data);
                Ok(())
            }
        }
    }

    /// Writes by the backend, or tells of it.
    pub(crate) fn write(&self, offset: u32, data: &[u8]) -> Result<()> {
        match &self.tracer {
            None => self.backend.write_bar(self.index, offset, data),
            Some(tracer) => {
                tracer.write(offset, data);
                Ok(())
            }
        }
    }
}

impl Tracer {
    fn tell(&self, way: &str, offset: u32, value: u64) {
        let register = (self.name)(offset).unwrap_or_else(|| "register".to_owned());
        tracing::trace!(port = self.device, "{way} {register} ({offset:#x}): {value:#x}");
    }

    fn read(&self, offset: u32, data: &mut [u8]) {
        let value = match data.len() {
            1 => self.inner.read8(offset).into(),
            2 => self.inner.read16(offset).into(),
            4 => self.inner.read32(offset).into(),
            _ => self.inner.read64(offset),
        };
        data.iter_mut().zip(value.to_le_bytes()).for_each(|(to, from)| *to = from);
        self.tell("read", offset, value);
    }

    fn write(&self, offset: u32, data: &[u8]) {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
        let value = u64::from_le_bytes(bytes);
        self.tell("write", offset, value);
        match data.len() {
            1 => self.inner.write8(offset, value as u8),
            2 => self.inner.write16(offset, value as u16),
            4 => self.inner.write32(offset, value as u32),
            _ => self.inner.write64(offset, value),
        }
    }
}
