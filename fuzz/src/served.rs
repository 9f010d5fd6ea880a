//! A small device to serve: the model of the 82599 behind configuration space
//! and one BAR. It holds the server to what [`Served`] promises to a device.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use bus::config_space::{BarType, ConfigSpace};
use bus::vfio_user::server::{DmaAccess, RegionInfo, Served, SharedPages};
use bus::{BarKind, Ids};
use model::fixture::Cable;
use model::ixgbe::{Ixgbe, Options};
use regs::ixgbe::BAR0_LEN;
use testbed::view::{BarPages, View};

const PAGE: u64 = 4096;
const VECTORS: u16 = 64;

/// An 82599 for one client.
pub struct Device {
    config: ConfigSpace,
    chip: Ixgbe<View, BarPages>,
    pages: BarPages,
    view: View,
    cable: Cable,
    now_ns: u64,
    /// Length of each range that is mapped, by its start.
    ranges: BTreeMap<u64, u64>,
    gone: bool,
}

impl Default for Device {
    fn default() -> Device {
        let ids = Ids {
            vendor: 0x8086,
            device: 0x10FB,
            revision: 1,
            class: 0x02_0000,
            subsystem_vendor: 0x8086,
            subsystem: 3,
        };
        let config = ConfigSpace::new(ids)
            .with_bar(0, BarType::Memory64, BAR0_LEN.into())
            .with_msix(0x70, VECTORS, (0, 0x8000), (0, 0x9000))
            .with_pcie(0xA0, 8);
        let (view, pages) = (View::default(), BarPages::new(BAR0_LEN).expect("memory"));
        let chip = Ixgbe::new(view.clone(), pages.clone(), &Options::default());
        let (cable, ranges) = (Cable::default(), BTreeMap::new());
        Device { config, chip, pages, view, cable, now_ns: 0, ranges, gone: false }
    }
}

impl Device {
    /// After the client: it was said so, and everything was taken back.
    pub fn check(&self) {
        assert!(self.gone, "the device was not told that its client is gone");
        assert_eq!(self.view.mapped(), (0, 0));
    }

    fn step(&mut self) {
        self.now_ns += 10_000;
        self.chip.step(&mut self.cable, self.now_ns);
    }
}

fn check_bar(bar: usize, offset: u64, len: usize) {
    assert!(bar == 0 && len as u64 <= BAR0_LEN.into() && offset <= u64::from(BAR0_LEN) - len as u64);
}

impl Served for Device {
    fn read_config(&mut self, offset: u16, data: &mut [u8]) {
        assert!(usize::from(offset) + data.len() <= 4096);
        self.config.read(offset, data);
    }

    fn write_config(&mut self, offset: u16, data: &[u8]) {
        assert!(usize::from(offset) + data.len() <= 4096);
        self.config.write(offset, data);
        if self.config.take_reset() {
            self.config.reset();
            self.chip.reset();
        }
        self.view.set_enabled(self.config.bus_master());
    }

    fn regions(&self) -> Vec<RegionInfo> {
        let fd = self.pages.file().try_clone_to_owned().expect("a descriptor");
        let areas = vec![(0x1000, 0x1000), (0x6000, 0x2000), (0xD000, 0x1000)];
        let shared = Some(SharedPages { fd, fd_offset: 0, areas });
        vec![RegionInfo { bar: 0, size: BAR0_LEN.into(), kind: BarKind::Memory, shared }]
    }

    fn read_bar(&mut self, bar: usize, offset: u64, data: &mut [u8]) {
        check_bar(bar, offset, data.len());
        for (place, word) in (offset as u32 & !3..).step_by(4).zip(data.chunks_mut(4)) {
            let value = self.chip.read(place % BAR0_LEN).to_le_bytes();
            word.copy_from_slice(&value[..word.len()]);
        }
        self.step();
    }

    fn write_bar(&mut self, bar: usize, offset: u64, data: &[u8]) {
        check_bar(bar, offset, data.len());
        for (place, word) in (offset as u32 & !3..).step_by(4).zip(data.as_chunks::<4>().0) {
            self.chip.write(place, u32::from_le_bytes(*word));
        }
        self.step();
    }

    fn map_dma(
        &mut self,
        iova: u64,
        len: u64,
        fd: Option<OwnedFd>,
        offset: u64,
        _: DmaAccess,
    ) -> io::Result<()> {
        assert!(len > 0 && (iova | len | offset).is_multiple_of(PAGE) && fd.is_none());
        let end = iova.checked_add(len).expect("checked by the server");
        assert!(self.ranges.iter().all(|(&start, &len)| end <= start || start + len <= iova));
        self.view.map_unreachable(iova, len)?;
        self.ranges.insert(iova, len);
        Ok(())
    }

    fn unmap_dma(&mut self, iova: u64, len: u64) -> io::Result<()> {
        assert_eq!(self.ranges.remove(&iova), Some(len), "what is unmapped was mapped");
        self.view.unmap(iova, len)
    }

    fn interrupt_vectors(&self) -> u16 {
        VECTORS
    }

    fn set_interrupt(&mut self, vector: u16, _: Option<OwnedFd>) {
        assert!(vector < VECTORS);
    }

    fn reset(&mut self) {
        self.chip.reset();
    }

    fn disconnected(&mut self) {
        assert!(!self.gone, "once is enough");
        self.gone = true;
        self.view.clear();
        self.ranges.clear();
    }
}
