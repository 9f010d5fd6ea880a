//! An 82576 of which there is no model: registers that keep what is written, a device that
//! fills the buffers of one ring and reports those of another as sent. Just enough of
//! its datasheet (revision 2.87) for the driver to come up and to move packets, that of the
//! physical function and, with a mailbox (`stub_82576_vf.rs`), that of a virtual one.
#![allow(dead_code, clippy::unwrap_used)]

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};

use bus::config_space::{BarType, ConfigSpace};
use bus::vfio_user::server::{DmaAccess, RegionInfo, Served, serve_stream};
use bus::{BarKind, Ids};
use model::Dma as _;
use regs::igb::*;
use regs::ixgbe::descriptor::{rx_high, tx};
use testbed::view::{Access, View};

use super::stub_82576_vf::{Mailbox, Words};

/// The frame that is received, over and over.
pub const FRAME: [u8; 100] = [0x5A; 100];

/// Where a function has its rings: low and high half of the address, length, tail, control.
pub struct Rings {
    pub rx: [u32; 5],
    pub tx: [u32; 5],
}

const PHYSICAL: Rings = Rings {
    rx: [RDBAL::at(0), RDBAH::at(0), RDLEN::at(0), RDT::at(0), RXDCTL::at(0)],
    tx: [TDBAL::at(0), TDBAH::at(0), TDLEN::at(0), TDT::at(0), TXDCTL::at(0)],
};

struct Stub {
    config: ConfigSpace,
    registers: Vec<u32>,
    rings: &'static Rings,
    /// Of a virtual function.
    mailbox: Option<Mailbox>,
    memory: View,
    rx_head: u32,
    tx_head: u32,
    /// More bits of what is told of received frames.
    rx_bits: u64,
    /// What was sent, frame by frame.
    sent: Vec<Vec<u8>>,
    /// The words of the descriptors that told to.
    told: Vec<[u64; 2]>,
}

/// The device, which a test steps and a thread serves.
#[derive(Clone)]
pub struct Served82576(Arc<Mutex<Stub>>);

/// Serves one client until dropped.
pub struct ServingStub {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served82576 {
    pub fn new() -> Served82576 {
        Served82576::of(0x10C9, BAR0_LEN, &PHYSICAL, None)
    }

    /// A virtual function with this device id, whose physical one answers messages so.
    pub fn vf(id: u16, answers: impl FnMut(&Words) -> Option<Vec<u32>> + Send + 'static) -> Served82576 {
        let len = regs::igbvf::BAR0_LEN;
        Served82576::of(id, len, &super::stub_82576_vf::RINGS, Some(Mailbox::new(answers)))
    }

    fn of(device: u16, bar: u32, rings: &'static Rings, mailbox: Option<Mailbox>) -> Served82576 {
        let ids = Ids {
            vendor: 0x8086,
            device,
            revision: 1,
            class: 0x02_0000,
            subsystem_vendor: 0x8086,
            subsystem: 1,
        };
        let config = ConfigSpace::new(ids).with_bar(0, BarType::Memory64, bar.into());
        let registers = vec![0; bar as usize / 4];
        let memory = View::default();
        let (sent, told) = (Vec::new(), Vec::new());
        let (rx_head, tx_head, rx_bits) = (0, 0, 0);
        let stub = Stub { config, registers, rings, mailbox, memory, rx_head, tx_head, rx_bits, sent, told };
        Served82576(Arc::new(Mutex::new(stub)))
    }

    pub fn serve(&self, stream: UnixStream) -> ServingStub {
        let (stop, mut device) = (Arc::new(AtomicBool::new(false)), self.clone());
        let stopped = stop.clone();
        let thread = spawn(move || _ = serve_stream(&stream, &mut device, &stopped));
        ServingStub { stop, thread: Some(thread) }
    }

    fn lock(&self) -> MutexGuard<'_, Stub> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills some buffers and sends some packets.
    pub fn step(&self) {
        self.lock().step();
    }

    /// What was sent since the last time, frame by frame.
    pub fn take_sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lock().sent)
    }

    /// The words of the transmit descriptors since the last time.
    pub fn take_told(&self) -> Vec<[u64; 2]> {
        std::mem::take(&mut self.lock().told)
    }

    /// Received frames are told of with these bits from now on, too.
    pub fn set_received(&self, bits: u64) {
        self.lock().rx_bits = bits;
    }

    /// A register, as it stands.
    pub fn register(&self, at: u32) -> u32 {
        self.lock().get(at)
    }

    /// A register gets a value.
    pub fn set_register(&self, at: u32, value: u32) {
        self.lock().put(at, value);
    }

    /// Something happens to the mailbox of a virtual function.
    pub fn with_mailbox(&self, work: impl FnOnce(&mut Mailbox)) {
        work(self.lock().mailbox.as_mut().unwrap());
    }

    /// The physical function resets this one, with its queues, and tells so.
    pub fn reset_by_host(&self) {
        let mut device = self.lock();
        device.reset();
        device.mailbox.as_mut().unwrap().tell_reset();
    }
}

impl Drop for ServingStub {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Stub {
    fn get(&self, at: u32) -> u32 {
        self.registers.get(at as usize / 4).copied().unwrap_or(0)
    }

    fn put(&mut self, at: u32, value: u32) {
        if let Some(register) = self.registers.get_mut(at as usize / 4) {
            *register = value;
        }
    }

    /// The descriptor at `n`, if the ring is enabled and has it: where, and its words.
    fn descriptor(&self, [low, high, len, tail, control]: [u32; 5], n: u32) -> Option<(u64, [u64; 2])> {
        let at = u64::from(self.get(low)) | u64::from(self.get(high)) << 32;
        let at = at + u64::from(n) * 16;
        let mut bytes = [[0; 8]; 2];
        let [first, second] = &mut bytes;
        let is_lent =
            self.get(control) & RXDCTL::ENABLE != 0 && n < self.get(len) / 16 && n != self.get(tail);
        let read = is_lent && self.memory.read(at, first) && self.memory.read(at + 8, second);
        read.then(|| (at, bytes.map(u64::from_le_bytes)))
    }

    fn step(&mut self) {
        let (rx, tx_ring) = (self.rings.rx, self.rings.tx);
        let receives = self.mailbox.is_some() || self.get(RCTL::AT) & RCTL::RXEN != 0;
        for _ in 0..if receives { 8 } else { 0 } {
            let Some((at, [buffer, _])) = self.descriptor(rx, self.rx_head) else { break };
            self.memory.write(buffer, &FRAME);
            let done =
                rx_high::DD | rx_high::EOP | (FRAME.len() as u64) << rx_high::LENGTH_SHIFT | self.rx_bits;
            self.memory.write(at, &[0; 8]);
            self.memory.write(at + 8, &done.to_le_bytes());
            self.rx_head = (self.rx_head + 1) % (self.get(rx[2]) / 16).max(1);
            if let Some(mailbox) = &mut self.mailbox {
                mailbox.interrupt(&mut self.registers);
            }
        }
        for _ in 0..8 {
            let Some((at, [buffer, high])) = self.descriptor(tx_ring, self.tx_head) else { break };
            if self.told.len() < 1024 {
                self.told.push([buffer, high]);
            }
            if high & tx::DTYP_DATA == tx::DTYP_DATA && self.sent.len() < 1024 {
                let mut frame = vec![0; high as usize & 0xFFFF];
                self.memory.read(buffer, &mut frame);
                self.sent.push(frame);
            }
            self.memory.write(at + 8, &(high | tx::DD).to_le_bytes());
            self.tx_head = (self.tx_head + 1) % (self.get(tx_ring[2]) / 16).max(1);
        }
    }

    fn reset(&mut self) {
        self.registers.fill(0);
        (self.rx_head, self.tx_head) = (0, 0);
    }
}

impl Served for Served82576 {
    fn read_config(&mut self, offset: u16, data: &mut [u8]) {
        self.lock().config.read(offset, data);
    }

    fn write_config(&mut self, offset: u16, data: &[u8]) {
        self.lock().config.write(offset, data);
    }

    fn regions(&self) -> Vec<RegionInfo> {
        let size = self.lock().registers.len() as u64 * 4;
        vec![RegionInfo { bar: 0, size, kind: BarKind::Memory, shared: None }]
    }

    fn read_bar(&mut self, _: usize, offset: u64, data: &mut [u8]) {
        let (mut device, at) = (self.lock(), offset as u32 & !3);
        let told = device.mailbox.as_mut().and_then(|mailbox| mailbox.read(at));
        let word = match at {
            _ if told.is_some() => told.unwrap(),
            _ if device.mailbox.is_some() => device.get(at),
            EEC::AT => EEC::AUTO_RD,
            STATUS::AT => STATUS::LU,
            _ if at == RAL::at(0) => 0x3412_0002,
            _ if at == RAH::at(0) => 0x7856,
            _ if at == TDH::at(0) => device.tx_head,
            _ => device.get(at),
        };
        data.fill(0);
        let len = data.len().min(4);
        data[..len].copy_from_slice(&word.to_le_bytes()[..len]);
    }

    fn write_bar(&mut self, _: usize, offset: u64, data: &[u8]) {
        let (mut device, at) = (self.lock(), offset as u32 & !3);
        let mut word = [0; 4];
        let len = data.len().min(4);
        word[..len].copy_from_slice(&data[..len]);
        let value = u32::from_le_bytes(word);
        let Stub { mailbox, registers, .. } = &mut *device;
        if mailbox.as_mut().is_some_and(|mailbox| mailbox.write(registers, at, value)) {
            return;
        }
        match at {
            CTRL::AT if value & CTRL::RST != 0 => device.reset(),
            MDIC::AT => device.put(at, value | MDIC::R),
            _ => device.put(at, value),
        }
    }

    fn map_dma(
        &mut self,
        iova: u64,
        len: u64,
        fd: Option<OwnedFd>,
        offset: u64,
        access: DmaAccess,
    ) -> io::Result<()> {
        let access = Access { read: access.read, write: access.write };
        match fd {
            Some(file) => self.lock().memory.map(iova, len, file, offset, access),
            None => self.lock().memory.map_unreachable(iova, len),
        }
    }

    fn unmap_dma(&mut self, iova: u64, len: u64) -> io::Result<()> {
        self.lock().memory.unmap(iova, len)
    }

    fn interrupt_vectors(&self) -> u16 {
        10
    }

    fn set_interrupt(&mut self, vector: u16, event: Option<OwnedFd>) {
        if let Some(mailbox) = &mut self.lock().mailbox {
            mailbox.wire(vector, event);
        }
    }

    fn reset(&mut self) {
        self.lock().reset();
    }

    fn disconnected(&mut self) {
        let mut device = self.lock();
        device.memory.clear();
        device.reset();
    }
}
