//! The front end as a [`Backend`]: memory that is mapped for it is made known
//! to the back end, when a ring starts or, with rings running, at once. It is
//! no PCI device and says so.

use std::os::fd::BorrowedFd;

use super::{Frontend, Link};
use crate::vhost_user::memory::Region;
use crate::vhost_user::message::{Message, Request, protocol};
use crate::{Addressing, Backend, BarLayout, DmaRange, Error, Result};

impl Frontend {
    /// Where this process sees `iova`: ring addresses are the front end's own.
    pub(super) fn address(&self, iova: u64) -> Result<u64> {
        let address = self.lock()?.memory.address(iova);
        address.ok_or_else(|| {
            let what = format!("a ring lies at {iova:#x}, outside of mapped memory");
            self.setup(what, "allocate rings from a Dma that the port is attached to")
        })
    }

    /// Makes the memory mapped so far known, unless it is.
    pub(super) fn tell_memory(&self) -> Result<()> {
        let mut link = self.lock()?;
        match link.told {
            true => Ok(()),
            false => self.tell_all(&mut link),
        }
    }

    fn tell_all(&self, link: &mut Link) -> Result<()> {
        link.told = false;
        let regions = link.memory.regions();
        if regions.is_empty() {
            return Err(self.setup("no memory is mapped".to_owned(), "attach the port to a Dma first"));
        }
        if self.has(protocol::CONFIGURE_MEM_SLOTS) {
            // Where one is refused, those before it stay told: they are taken back one by one.
            link.memory.untold_mut().try_for_each(|region| self.add(region))?;
        } else {
            let fds: Vec<_> = regions.iter().map(Region::fd).collect();
            let table = |body: Message| {
                let body = body.u32(regions.len() as u32).u32(0);
                regions.iter().fold(body, |body, region| region.describe(body))
            };
            self.order_locked(Request::SetMemTable, table, &fds)?;
        }
        link.told = true;
        Ok(())
    }

    fn add(&self, region: &mut Region) -> Result<()> {
        self.order_locked(Request::AddMemReg, |body| region.describe(body.u64(0)), &[region.fd()])?;
        region.told = true;
        Ok(())
    }

    fn remove(&self, region: &Region) -> Result<()> {
        self.order_locked(Request::RemMemReg, |body| region.describe(body.u64(0)), &[])
    }

    fn no_pci(&self) -> Error {
        Error::Unsupported {
            device: self.peer.clone(),
            what: "be reached as a PCI device",
            fix: "open it with the virtio driver's vhost-user transport",
        }
    }
}

impl Backend for Frontend {
    fn name(&self) -> String {
        self.peer.clone()
    }

    fn read_config(&self, _offset: u16, _data: &mut [u8]) -> Result<()> {
        Err(self.no_pci())
    }

    fn write_config(&self, _offset: u16, _data: &[u8]) -> Result<()> {
        Err(self.no_pci())
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        Err(Error::NoBar { device: self.peer.clone(), index })
    }

    fn read_bar(&self, _index: usize, _offset: u32, _data: &mut [u8]) -> Result<()> {
        Err(self.no_pci())
    }

    fn write_bar(&self, _index: usize, _offset: u32, _data: &[u8]) -> Result<()> {
        Err(self.no_pci())
    }

    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }

    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()> {
        let region = Region::new(range, &self.peer, self.trust)?;
        let mut link = self.lock()?;
        if link.memory.regions().len() >= self.max_regions {
            let what = format!("the back end takes no more than {} memory regions", self.max_regions);
            return Err(self.setup(what, "use fewer and larger pools: each is a region"));
        }
        link.memory.push(region);
        if !link.told {
            return Ok(());
        }
        let slots = self.has(protocol::CONFIGURE_MEM_SLOTS);
        if !slots && link.running.is_empty() {
            link.told = false; // told when the next ring starts
            return Ok(());
        }
        let told = match link.memory.last_mut().filter(|_| slots) {
            Some(region) => self.add(region),
            None => self.tell_all(&mut link),
        };
        if told.is_err() {
            link.memory.pop();
        }
        told
    }

    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()> {
        let mut link = self.lock_always();
        // First: the memory goes whatever became of the connection.
        let gone = link.memory.remove(iova, len as u64);
        self.sound()?;
        if self.has(protocol::CONFIGURE_MEM_SLOTS) {
            let mut outcome = Ok(());
            for region in gone.iter().filter(|region| region.told) {
                outcome = outcome.and(self.remove(region)); // those behind one that is refused, too
            }
            return outcome;
        }
        if !link.told {
            return Ok(());
        }
        // An empty table cannot be told; rings have no use for one either.
        if link.running.is_empty() || link.memory.regions().is_empty() {
            link.told = false;
            return Ok(());
        }
        self.tell_all(&mut link)
    }

    fn interrupt_vectors(&self) -> u16 {
        2 * self.pairs // one for each ring
    }

    fn set_interrupt(&self, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        let named = |error| Error::os(format!("{}: keeping an eventfd", self.peer), error);
        let kept = event.map(|event| event.try_clone_to_owned()).transpose().map_err(named)?;
        let mut link = self.lock()?;
        for &(ring, wakes) in &link.running {
            if wakes == Some(vector) {
                self.set_call(ring, event)?;
            }
        }
        link.events.retain(|(number, _)| *number != vector);
        link.events.extend(kept.map(|kept| (vector, kept)));
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        self.reset_device()
    }

    fn health(&self) -> Result<()> {
        self.check()
    }
}
