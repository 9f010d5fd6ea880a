//! A mailbox, or an admin queue, by hand: what no driver of ours would send; and a device through
//! which its driver's memory is seen, and beside which others work when its driver looks at it.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus::{Addressing, Backend, Bar, BarLayout, DmaRange, Error, Pci, Result};
use memory::{Attachment, Backing, Dma, Region};
use model::Dma as _;
use regs::i40e::admin::{BUFFER, DESCRIPTOR, Descriptor, SMALL_BUFFER, flag};
use regs::i40e::{self, PF_ATQLEN};
use regs::iavf;
use testbed::view::{Access, View};

/// Descriptors of each ring.
const SIZE: u32 = 32;
/// Where the receive ring, the buffer of commands, those of events and what is behind them are.
const RECEIVE: usize = 4096;
const COMMAND: usize = 2 * 4096;
const EVENTS: usize = 3 * 4096;
const REST: usize = EVENTS + SIZE as usize * BUFFER;
/// Bytes behind them, for rings.
const REST_LEN: usize = 64 << 10;

/// What works beside a device, or changes what its driver has of it.
pub trait Beside: Send {
    /// Works before a register is read, and when the doorbell was written.
    fn work(&mut self) {}

    /// A register was read.
    fn has_read(&mut self, _offset: u32, _data: &mut [u8]) {}

    /// A register was written. The driver's memory is what the device reaches.
    fn was_written(&mut self, _offset: u32, _data: &[u8], _memory: &View) {}

    /// An interrupt was joined to an eventfd.
    fn was_joined(&mut self, _event: OwnedFd) {}
}

impl<F: FnMut() + Send> Beside for F {
    fn work(&mut self) {
        self();
    }
}

/// A device as its driver has it.
pub struct Observed {
    inner: Pci,
    view: Mutex<View>,
    beside: Mutex<Option<Box<dyn Beside>>>,
    /// A register whose writes are looked at, too.
    doorbell: u32,
    /// Registers in pages that both sides see are read there.
    is_mapped: bool,
    is_gone: AtomicBool,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Observed {
    /// Over a device. Others work beside it before each of its registers is read, and when the
    /// register `doorbell` was written.
    pub fn over(inner: Pci, doorbell: u32) -> Arc<Observed> {
        Arc::new(Observed {
            inner,
            view: Mutex::default(),
            beside: Mutex::new(None),
            doorbell,
            is_mapped: true,
            is_gone: AtomicBool::new(false),
        })
    }

    /// Over a device of which no page is mapped: others work before any register is read.
    pub fn unmapped(inner: Pci) -> Arc<Observed> {
        let (view, beside, is_gone) = (Mutex::default(), Mutex::new(None), AtomicBool::new(false));
        Arc::new(Observed { inner, view, beside, doorbell: u32::MAX, is_mapped: false, is_gone })
    }

    /// Sets what works beside it.
    pub fn set_beside(&self, beside: Box<dyn Beside>) {
        *self.beside.lock().unwrap_or_else(PoisonError::into_inner) = Some(beside);
    }

    /// The device is pulled out: its registers read all ones.
    pub fn pull_out(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// It is put in again.
    pub fn put_in(&self) {
        self.is_gone.store(false, Ordering::Relaxed);
    }

    /// The memory that the driver shares.
    pub fn memory(&self) -> View {
        self.view().clone()
    }

    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, tell: impl FnOnce(&mut dyn Beside)) {
        if let Some(beside) = self.beside.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            tell(&mut **beside);
        }
    }
}

impl Backend for Observed {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.inner.read_config(offset, data)
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.inner.write_config(offset, data)
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        let layout = self.inner.bar_layout(index)?;
        Ok(if self.is_mapped { layout } else { BarLayout { mapped: Vec::new(), ..layout } })
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        if self.is_gone() {
            data.fill(u8::MAX);
            return Ok(());
        }
        self.tell(|beside| beside.work());
        self.inner.read_bar(index, offset, data)?;
        self.tell(|beside| beside.has_read(offset, data));
        Ok(())
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        if self.is_gone() {
            return Ok(());
        }
        self.inner.write_bar(index, offset, data)?;
        if offset == self.doorbell {
            self.tell(|beside| beside.work());
        }
        let view = self.view();
        self.tell(|beside| beside.was_written(offset, data, &view));
        Ok(())
    }

    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }

    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()> {
        let file =
            range.fd().expect("memory comes with its file").try_clone_to_owned().expect("a descriptor");
        let mapped = self.view().map(range.iova(), range.len() as u64, file, range.fd_offset(), Access::BOTH);
        mapped.expect("no two ranges overlap");
        self.inner.map_dma(range)
    }

    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()> {
        self.view().unmap(iova, len as u64).expect("what is unmapped was mapped");
        self.inner.unmap_dma(iova, len)
    }

    fn interrupt_vectors(&self) -> u16 {
        self.inner.interrupt_vectors()
    }

    fn set_interrupt(&self, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        let copy = event.and_then(|event| event.try_clone_to_owned().ok());
        copy.into_iter().for_each(|event| self.tell(|beside| beside.was_joined(event)));
        self.inner.set_interrupt(vector, event)
    }

    fn reset(&self) -> Result<()> {
        self.inner.reset()
    }

    fn health(&self) -> Result<()> {
        match self.is_gone() {
            true => Err(Error::HungUp { peer: self.name() }),
            false => self.inner.health(),
        }
    }
}

/// Registers of a pair of rings: low and high half of the address, length, head, tail.
struct Registers {
    send: [u32; 5],
    receive: [u32; 5],
}

const VF: Registers = {
    use iavf::*;
    Registers {
        send: [VF_ATQBAL1::AT, VF_ATQBAH1::AT, VF_ATQLEN1::AT, VF_ATQH1::AT, VF_ATQT1::AT],
        receive: [VF_ARQBAL1::AT, VF_ARQBAH1::AT, VF_ARQLEN1::AT, VF_ARQH1::AT, VF_ARQT1::AT],
    }
};
const PF: Registers = {
    use i40e::*;
    Registers {
        send: [PF_ATQBAL::AT, PF_ATQBAH::AT, PF_ATQLEN::AT, PF_ATQH::AT, PF_ATQT::AT],
        receive: [PF_ARQBAL::AT, PF_ARQBAH::AT, PF_ARQLEN::AT, PF_ARQH::AT, PF_ARQT::AT],
    }
};

/// The queues by hand.
pub struct Raw {
    /// The device's registers.
    pub bar: Bar,
    /// The device's configuration space and BARs.
    pub pci: Pci,
    observed: Arc<Observed>,
    registers: Registers,
    region: Region,
    next: u32,
    next_event: u32,
    _attachment: Attachment,
}

impl Raw {
    /// Those of a physical function, or of a virtual one.
    pub fn over(device: Pci, physical: bool) -> Raw {
        let observed = Observed::over(device, u32::MAX);
        let pci = Pci::new(observed.clone());
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let open = || {
            pci.set_bus_master(true)?;
            pci.bar(0)
        };
        let bar = open().unwrap_or_else(|error| panic!("{error}"));
        let attachment = dma.attach(&pci).unwrap_or_else(|error| panic!("{error}"));
        let region = dma.alloc(REST + REST_LEN).unwrap_or_else(|error| panic!("{error}"));
        let registers = if physical { PF } else { VF };
        Raw { bar, pci, observed, registers, region, next: 0, next_event: 0, _attachment: attachment }
    }

    /// Enables both queues anew, with all buffers lent but one.
    pub fn start(&mut self) {
        (self.next, self.next_event) = (0, 0);
        // A reset may have taken it away.
        self.pci.set_bus_master(true).unwrap_or_else(|error| panic!("{error}"));
        self.write(0, &[0; RECEIVE + SIZE as usize * DESCRIPTOR]);
        (0..SIZE).for_each(|n| self.lend(n));
        for (registers, at) in [(&self.registers.send, 0), (&self.registers.receive, RECEIVE)] {
            let ([low, high, len, head, tail], iova) = (*registers, self.region.iova(at));
            let values = [(head, 0), (tail, 0), (low, iova as u32), (high, (iova >> 32) as u32)];
            values.into_iter().for_each(|(register, value)| self.bar.write32(register, value));
            self.bar.write32(len, SIZE | PF_ATQLEN::ENABLE);
        }
        self.bar.write32(self.registers.receive[4], SIZE - 1);
    }

    /// An address in its memory that no queue of these has.
    pub fn place(&self, at: usize) -> u64 {
        self.region.iova(REST + at % REST_LEN)
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.observed.view().write(self.region.iova(at), bytes);
    }

    fn read(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.observed.view().read(self.region.iova(at), &mut bytes);
        bytes
    }

    fn lend(&self, n: u32) {
        let mut lent =
            Descriptor { flags: flag::BUF | flag::LB, datalen: BUFFER as u16, ..Descriptor::default() };
        lent.set_address(self.region.iova(EVENTS + n as usize * BUFFER));
        self.put(RECEIVE, n, &lent);
    }

    fn put(&self, ring: usize, n: u32, descriptor: &Descriptor) {
        let bytes: Vec<u8> = descriptor.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(ring + n as usize * DESCRIPTOR, &bytes);
    }

    /// A descriptor that the device is done with.
    fn done(&self, ring: usize, n: u32) -> Option<Descriptor> {
        let bytes = self.read(ring + n as usize * DESCRIPTOR, DESCRIPTOR);
        let mut words = [0; DESCRIPTOR / 8];
        for (word, eight) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*eight);
        }
        let descriptor = Descriptor::from_words(words);
        (descriptor.flags & flag::DD != 0).then_some(descriptor)
    }

    /// Sends a command; the firmware's answer, if there is one.
    pub fn send(&mut self, mut command: Descriptor, bytes: &[u8]) -> Option<u16> {
        let bytes = &bytes[..bytes.len().min(BUFFER)];
        (command.datalen, command.flags) = (bytes.len() as u16, flag::SI);
        if !bytes.is_empty() {
            let large = if bytes.len() > SMALL_BUFFER { flag::LB } else { 0 };
            command.flags |= flag::BUF | flag::RD | large;
            command.set_address(self.region.iova(COMMAND));
            self.write(COMMAND, bytes);
        }
        let n = self.next;
        self.put(0, n, &command);
        self.next = (n + 1) % SIZE;
        self.bar.write32(self.registers.send[4], self.next);
        self.done(0, n).map(|answer| answer.retval)
    }

    /// The next event, and its bytes.
    pub fn event(&mut self) -> Option<(Descriptor, Vec<u8>)> {
        let n = self.next_event;
        let event = self.done(RECEIVE, n)?;
        let bytes = self.read(EVENTS + n as usize * BUFFER, usize::from(event.datalen).min(BUFFER));
        self.lend(n);
        self.bar.write32(self.registers.receive[4], n);
        self.next_event = (n + 1) % SIZE;
        Some((event, bytes))
    }
}
