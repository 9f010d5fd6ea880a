//! A device whose registers are watched: what a driver does to them, in order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bus::{Pci, Result};

use super::between::{Between, in_front_of};

/// Where the PCI command register stands (PCI 3.0, 6.2.2).
const COMMAND: u16 = 0x04;

/// What a driver did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// Read a register of BAR 0: its offset and value.
    Read(u32, u32),
    /// Wrote a register of BAR 0: its offset and value.
    Write(u32, u32),
    /// Wrote the PCI command register.
    Command(u16),
}

/// The record, and what counters read as before the device counts by itself.
#[derive(Debug, Default)]
pub struct Recorder {
    did: Mutex<Vec<(Instant, Did)>>,
    /// Added to a register when it is read next: what it counted before.
    pub counted: Mutex<HashMap<u32, u32>>,
}

impl Recorder {
    /// Watches a device.
    pub fn new(inner: Pci) -> (Pci, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        (in_front_of(inner, recorder.clone()), recorder)
    }

    /// All that was done since the last call, with the time it was done.
    pub fn take(&self) -> Record {
        Record(std::mem::take(&mut self.did.lock().unwrap()))
    }

    fn note(&self, did: Did) {
        self.did.lock().unwrap().push((Instant::now(), did));
    }
}

impl Between for Recorder {
    fn write_config(&self, inner: &Pci, offset: u16, data: &[u8]) -> Result<()> {
        if let (COMMAND, [low, high, ..]) = (offset, data) {
            self.note(Did::Command(u16::from_le_bytes([*low, *high])));
        }
        inner.write_config(offset, data)
    }

    fn read_bar(&self, inner: &Pci, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        inner.read_bar(index, offset, data)?;
        if let Ok(bytes) = <[u8; 4]>::try_from(&*data) {
            let before = self.counted.lock().unwrap().remove(&offset).unwrap_or(0);
            let value = u32::from_le_bytes(bytes).wrapping_add(before);
            data.copy_from_slice(&value.to_le_bytes());
            self.note(Did::Read(offset, value));
        }
        Ok(())
    }

    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        if let Ok(bytes) = data.try_into() {
            self.note(Did::Write(offset, u32::from_le_bytes(bytes)));
        }
        inner.write_bar(index, offset, data)
    }
}

/// What was done, in order.
#[derive(Debug)]
pub struct Record(pub Vec<(Instant, Did)>);

impl Record {
    /// Where something was first done at `from` or later.
    #[track_caller]
    pub fn find(&self, from: usize, what: &str, is: impl Fn(Did) -> bool) -> usize {
        let found = self.0.iter().skip(from).position(|&(_, did)| is(did));
        from + found.unwrap_or_else(|| panic!("nobody {what} after access {from} of {}", self.0.len()))
    }

    /// Where a register was first read with a value that is wanted.
    #[track_caller]
    pub fn read(&self, from: usize, what: &str, at: u32, wanted: impl Fn(u32) -> bool) -> usize {
        self.find(from, what, |did| matches!(did, Did::Read(offset, value) if offset == at && wanted(value)))
    }

    /// Where a register was first written with a value that is wanted.
    #[track_caller]
    pub fn wrote(&self, from: usize, what: &str, at: u32, wanted: impl Fn(u32) -> bool) -> usize {
        self.find(from, what, |did| matches!(did, Did::Write(offset, value) if offset == at && wanted(value)))
    }

    /// All places where one of these registers was written.
    pub fn writes(&self, of: impl Fn(u32) -> bool) -> Vec<usize> {
        let is = |did: Did| matches!(did, Did::Write(offset, _) if of(offset));
        (0..self.0.len()).filter(|&n| is(self.0[n].1)).collect()
    }
}
