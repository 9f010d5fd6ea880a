//! An 82599 as its driver sees it, and nothing behind: registers that keep what
//! is written, and host memory to write anything to.
//!
//! Just enough of the datasheet's revision 3.4 for a driver to come up (4.6.3);
//! it moves no packets by itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use bus::config_space::{BarType, ConfigSpace};
use bus::{Addressing, Backend, BarKind, BarLayout, DmaRange, Error, Ids, Result};
use regs::ixgbe::{BAR0_LEN, CTRL, EEC, LINKS, RAH, RAL, RDRXCTL, SECRXSTAT, STATUS, TDH, TDT};
use testbed::view::{Access, View};

/// A device without a chip.
#[derive(Debug)]
pub struct Mutator {
    registers: Box<[AtomicU32]>,
    config: Mutex<ConfigSpace>,
    view: Mutex<View>,
}

impl Default for Mutator {
    fn default() -> Mutator {
        let ids = Ids {
            vendor: 0x8086,
            device: 0x10FB,
            revision: 1,
            class: 0x02_0000,
            subsystem_vendor: 0x8086,
            subsystem: 3,
        };
        let config = ConfigSpace::new(ids).with_bar(0, BarType::Memory64, BAR0_LEN.into());
        let mutator = Mutator {
            registers: (0..BAR0_LEN / 4).map(|_| AtomicU32::new(0)).collect(),
            config: Mutex::new(config),
            view: Mutex::default(),
        };
        mutator.store(RAL::at(0), 0x0058_4902);
        mutator.store(RAH::at(0), 0x0100 | RAH::AV);
        mutator
    }
}

impl Mutator {
    /// What a register holds.
    pub fn load(&self, offset: u32) -> u32 {
        self.registers[offset as usize / 4].load(Ordering::Relaxed)
    }

    fn store(&self, offset: u32, value: u32) {
        self.registers[offset as usize / 4].store(value, Ordering::Relaxed);
    }

    /// The memory that the driver shares.
    pub fn view(&self) -> View {
        self.shared().clone()
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn config(&self) -> std::sync::MutexGuard<'_, ConfigSpace> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Mutator {
    fn name(&self) -> String {
        "mutator".to_owned()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.config().read(offset, data);
        Ok(())
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.config().write(offset, data);
        Ok(())
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        match index {
            0 => Ok(BarLayout { size: BAR0_LEN.into(), kind: BarKind::Memory, mapped: Vec::new() }),
            _ => Err(Error::NoBar { device: self.name(), index }),
        }
    }

    fn read_bar(&self, _: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        // What a driver waits for while it comes up or goes.
        let ready = match offset {
            EEC::AT => EEC::AUTO_RD,
            RDRXCTL::AT => RDRXCTL::DMAIDONE,
            SECRXSTAT::AT => SECRXSTAT::SECRX_RDY,
            LINKS::AT => LINKS::LINK_UP | LINKS::LINK_SPEED_10G,
            _ => 0,
        };
        let busy = if offset == STATUS::AT { STATUS::PCIE_MASTER_ENABLE } else { 0 };
        // A head is where the tail is, or a queue that goes would be waited for.
        let queue = (0..TDH::COUNT).find(|&n| TDH::at(n) == offset);
        let offset = queue.map_or(offset, TDT::at);
        let word = (self.load(offset) | ready) & !busy;
        data.copy_from_slice(&word.to_le_bytes()[..data.len()]);
        Ok(())
    }

    fn write_bar(&self, _: usize, offset: u32, data: &[u8]) -> Result<()> {
        let mut word = [0; 4];
        word[..data.len()].copy_from_slice(data);
        let done = if offset == CTRL::AT { CTRL::RST | CTRL::LRST } else { 0 };
        self.store(offset, u32::from_le_bytes(word) & !done);
        Ok(())
    }

    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }

    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()> {
        let file =
            range.fd().expect("memory comes with its file").try_clone_to_owned().expect("a descriptor");
        let mapped =
            self.shared().map(range.iova(), range.len() as u64, file, range.fd_offset(), Access::BOTH);
        mapped.expect("no two ranges overlap");
        Ok(())
    }

    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()> {
        self.shared().unmap(iova, len as u64).expect("what is unmapped was mapped");
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        Ok(())
    }
}
