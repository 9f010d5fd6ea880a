//! A driver and a model in one process, without sockets: for tests, benches and
//! `model:82599`.
//!
//! The driver gets a [`Pci`]; whoever holds the [`Handle`] steps the model, from
//! the same thread between calls of the driver (the same every time) or from a
//! thread of its own.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bus::{Addressing, Backend, BarLayout, BarMapping, DmaRange, Error, Mapping, Pci, Result};
use model::chip::DeviceFault;
use rustix::io::Errno;

use crate::device::{BarContent, Device, DeviceReport, PolledPages};
use crate::shared::SharedDevice;
use crate::stepper::{Idle, Stepper};
use crate::wire::Cable;

/// A model as a way to a device.
#[derive(Debug)]
pub struct InProcess {
    name: String,
    shared: Arc<SharedDevice>,
    polled: Option<PolledPages>,
}

impl InProcess {
    /// Joins a device to a driver of this process.
    #[expect(clippy::new_ret_no_self, reason = "the backend lives behind the Pci")]
    pub fn new(mut device: Device) -> (Pci, Handle) {
        let name = format!("model:{}", device.report().chip);
        let polled = device.polled().cloned();
        let shared = SharedDevice::new(device);
        shared.set_attached(true);
        shared.enter().attach();
        let handle = Handle::over(shared.clone());
        (Pci::new(Arc::new(InProcess { name, shared, polled })), handle)
    }

    fn os(&self, doing: &str, error: &std::io::Error) -> Error {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        Error::Os { doing: format!("{}: {doing}", self.name), errno }
    }

    fn check(&self, index: usize, offset: u32, len: usize) -> Result<()> {
        let no_bar = || Error::NoBar { device: self.name.clone(), index };
        let bar = self.shared.enter().bar(index).ok_or_else(no_bar)?;
        if u64::from(offset) + len as u64 > u64::from(bar.size) {
            let (device, region) = (self.name.clone(), format!("BAR {index}"));
            return Err(Error::OutOfRange { device, region, offset: offset.into(), len });
        }
        Ok(())
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        let mut device = self.shared.enter();
        self.shared.set_attached(false);
        device.detach();
    }
}

impl Backend for InProcess {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.shared.enter().read_config(offset, data);
        Ok(())
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.shared.enter().write_config(offset, data);
        Ok(())
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        self.check(index, 0, 0)?;
        let device = self.shared.enter();
        let bar = device.bar(index).ok_or_else(|| Error::NoBar { device: self.name.clone(), index })?;
        let polled = self.polled.as_ref().filter(|_| bar.content == BarContent::Registers);
        let parts = polled.into_iter().flat_map(|polled| {
            polled.areas.iter().map(|&(offset, len)| {
                let mapping = Mapping::new(polled.pages.file(), offset.into(), len as usize)?;
                Ok(BarMapping::new(mapping, offset))
            })
        });
        let mapped = parts.collect::<Result<_>>()?;
        Ok(BarLayout { size: bar.size.into(), kind: bar.access(), mapped })
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        self.check(index, offset, data.len())?;
        self.shared.access().read_bar(index, offset.into(), data);
        Ok(())
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        self.check(index, offset, data.len())?;
        self.shared.access().write_bar(index, offset.into(), data);
        Ok(())
    }

    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }

    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()> {
        self.shared.enter().map(range).map_err(|error| self.os("mapping memory", &error))
    }

    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()> {
        self.shared.enter().unmap(iova, len as u64).map_err(|error| self.os("unmapping memory", &error))
    }

    fn interrupt_vectors(&self) -> u16 {
        self.shared.enter().shape().vectors
    }

    fn set_interrupt(&self, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        bus::eventfd::prepare()?; // a confined process could not do so at the first one
        let event = event.map(|event| event.try_clone_to_owned()).transpose();
        let event = event.map_err(|error| self.os("copying an eventfd", &error))?;
        self.shared.enter().set_interrupt(vector, event);
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        self.shared.enter().reset();
        Ok(())
    }
}

/// Steps and watches a model that a driver of this process uses.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<SharedDevice>,
}

impl Handle {
    pub(crate) fn over(shared: Arc<SharedDevice>) -> Handle {
        Handle { shared }
    }

    /// One step at a time of the caller's choosing, which must not go back.
    /// Packets moved.
    pub fn step(&self, now_ns: u64) -> usize {
        self.shared.enter().step_by_hand(now_ns)
    }

    /// One step, now by the machine's clock, which began with the device.
    pub fn step_now(&self) -> usize {
        self.shared.step_now()
    }

    /// As [`Handle::step_now`], of one pair of queues alone: of a minimal device, whose queues
    /// threads may step apart. Others step all.
    pub fn step_queue_now(&self, queue: usize) -> usize {
        self.shared.step_queue_now(queue)
    }

    /// Looks at the cable.
    pub fn with_cable<T>(&self, look: impl FnOnce(&mut Cable) -> T) -> T {
        look(self.shared.enter().cable())
    }

    /// Lets the device do what it never should; `false` for one that cannot.
    pub fn inject(&self, fault: DeviceFault) -> bool {
        self.shared.enter().inject(fault)
    }

    /// What the device counted so far.
    pub fn report(&self) -> DeviceReport {
        self.shared.enter().report()
    }
}

/// Steps some models in a thread of their own until the [`Stepper`] is dropped.
pub fn spawn(handles: &[Handle], core: Option<usize>, idle: Idle) -> std::io::Result<Stepper> {
    let devices = handles.iter().map(|handle| handle.shared.clone()).collect();
    Stepper::start(devices, core, idle)
}

/// Does what needs models that run meanwhile, such as opening the driver, which
/// waits for the device; the stepping thread ends with it.
pub fn while_stepping<T>(handles: &[Handle], work: impl FnOnce() -> T) -> std::io::Result<T> {
    let mut stepper = spawn(handles, None, Idle::Yield)?;
    let done = work();
    stepper.stop();
    Ok(done)
}
