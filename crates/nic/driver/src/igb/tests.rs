//! The driver against registers without a chip behind them: what it writes, and
//! what it says when one does not do what the datasheet promises. The chip itself
//! is QEMU's, in the lab.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use bus::{Addressing, Backend, BarKind, BarLayout, DmaRange, Pci};
use memory::Dma;
use regs::igb::*;

use port::{OptionError, Options, Port as _, RxQueue as _};

use super::Igb;
use crate::Error;

/// A way in which the device is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StubFault {
    None,
    StaysInReset,
    NoAddress,
    DeadPhy,
    FirmwareKeepsPhy,
    QueueDoesNotStart(u32),
    OtherDevice,
}

/// Registers that keep what is written, but for those that do something.
#[derive(Debug)]
pub(crate) struct Registers {
    values: Mutex<BTreeMap<u32, u32>>,
    /// Vectors that an eventfd was given for.
    wired: Mutex<Vec<u16>>,
    fault: StubFault,
}

impl Registers {
    pub(crate) fn new(fault: StubFault) -> Arc<Registers> {
        let address = if fault == StubFault::NoAddress { 0 } else { 0x3412_0002 };
        let values = Mutex::new(BTreeMap::from([
            (RAL::at(0), address),
            (RAH::at(0), 0x7856 & if address == 0 { 0 } else { u32::MAX }),
            (EEC::AT, EEC::AUTO_RD),
            (RXDCTL::at(0), RXDCTL::ENABLE),
        ]));
        Arc::new(Registers { values, wired: Mutex::default(), fault })
    }

    pub(crate) fn wired(&self) -> Vec<u16> {
        self.wired.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn get(&self, at: u32) -> u32 {
        *self.values.lock().unwrap_or_else(PoisonError::into_inner).get(&at).unwrap_or(&0)
    }

    fn put(&self, at: u32, value: u32) {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(at, value);
    }
}

impl Backend for Registers {
    fn name(&self) -> String {
        "fixture".to_owned()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> bus::Result<()> {
        let id: u16 = if self.fault == StubFault::OtherDevice { 0x1521 } else { 0x10C9 };
        let header = [&0x8086u16.to_le_bytes()[..], &id.to_le_bytes(), &[0; 60]].concat();
        data.copy_from_slice(&header[usize::from(offset)..][..data.len()]);
        Ok(())
    }

    fn write_config(&self, _offset: u16, _data: &[u8]) -> bus::Result<()> {
        Ok(())
    }

    fn bar_layout(&self, _index: usize) -> bus::Result<BarLayout> {
        Ok(BarLayout { size: BAR0_LEN.into(), kind: BarKind::Memory, mapped: Vec::new() })
    }

    fn read_bar(&self, _index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        data.copy_from_slice(&self.get(offset).to_le_bytes());
        if offset == SWSM::AT {
            self.put(offset, self.get(offset) | SWSM::SMBI);
        }
        Ok(())
    }

    fn write_bar(&self, _index: usize, offset: u32, data: &[u8]) -> bus::Result<()> {
        let value = data.try_into().map_or(0, u32::from_le_bytes);
        let value = match offset {
            CTRL::AT if self.fault != StubFault::StaysInReset => value & !CTRL::RST,
            MDIC::AT if self.fault != StubFault::DeadPhy => value | MDIC::R,
            SW_FW_SYNC::AT if self.fault == StubFault::FirmwareKeepsPhy => return Ok(()),
            _ if self.fault == StubFault::QueueDoesNotStart(offset) => value & !RXDCTL::ENABLE,
            _ => value,
        };
        self.put(offset, value);
        if self.fault == StubFault::FirmwareKeepsPhy {
            self.put(SW_FW_SYNC::AT, SW_FW_SYNC::SW_PHY0 << SW_FW_SYNC::FW_SHIFT);
        }
        Ok(())
    }

    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }

    fn map_dma(&self, _range: &DmaRange<'_>) -> bus::Result<()> {
        Ok(())
    }

    fn unmap_dma(&self, _iova: u64, _len: usize) -> bus::Result<()> {
        Ok(())
    }

    fn interrupt_vectors(&self) -> u16 {
        10
    }

    fn set_interrupt(&self, vector: u16, event: Option<BorrowedFd<'_>>) -> bus::Result<()> {
        let mut wired = self.wired.lock().unwrap_or_else(PoisonError::into_inner);
        wired.retain(|other| *other != vector);
        wired.extend(event.map(|_| vector));
        Ok(())
    }

    fn reset(&self) -> bus::Result<()> {
        Ok(())
    }
}

fn quick() -> Options {
    Options { link_wait_ms: 0, ..Options::default() }
}

/// The error of opening a device with a fault.
fn refused(fault: StubFault, options: Options) -> Error {
    let dma = Dma::new(memory::Options::default());
    let opened = Igb::open(Pci::new(Registers::new(fault)), &dma, options);
    opened.err().expect("it does not open")
}

#[test]
fn what_is_programmed() {
    let registers = Registers::new(StubFault::None);
    let dma = Dma::new(memory::Options::default());
    let options = Options { rx_queues: 3, max_frame: 9_000, vlan_strip: true, ..quick() };
    let opened = Igb::open(Pci::new(registers.clone()), &dma, options);
    let (mut port, rx, tx) = opened.expect("it opens").split();
    assert_eq!(port.mac(), [0x02, 0x00, 0x12, 0x34, 0x56, 0x78]);
    let rctl = RCTL::RXEN | RCTL::UPE | RCTL::MPE | RCTL::BAM | RCTL::SECRC | RCTL::LPE;
    assert_eq!(registers.get(RCTL::AT), rctl);
    assert_eq!(registers.get(RLPML::AT), 9_012);
    assert_eq!(registers.get(CTRL::AT) & (CTRL::VME | CTRL::SLU), CTRL::VME | CTRL::SLU);
    assert_eq!(registers.get(SRRCTL::at(2)), SRRCTL::DESCTYPE_ADV_ONE_BUFFER | SRRCTL::DROP_EN | 2);
    assert_eq!(registers.get(RDLEN::at(2)), 512 * 16);
    let base = |low, high| u64::from(registers.get(low)) | u64::from(registers.get(high)) << 32;
    assert_eq!(base(RDBAL::at(2), RDBAH::at(2)), rx[2].ring.iova());
    assert_eq!(base(TDBAL::at(0), TDBAH::at(0)), tx[0].ring.iova());
    assert_eq!(registers.get(RETA::at(0)), 0x0002_0100, "queues in turn: 0, 1, 2, 0");
    let flows = port::Port::flows(&port).expect("it spreads flows");
    for hash in 0..128 {
        let entry = registers.get(RETA::at(hash / 4)).to_le_bytes()[hash % 4];
        assert_eq!(flows.queue(hash as u32), usize::from(entry), "entry {hash}");
    }
    port::Port::set_flow_queues(&mut port, &[(1, 2), (127, 0)]).expect("it can while it runs");
    assert_eq!(registers.get(RETA::at(0)), 0x0002_0200, "one entry");
    assert_eq!(registers.get(RETA::at(31)) >> 24, 0);
    assert_eq!(port::Port::flows(&port).map(|flows| flows.queue(1)), Some(2));
    assert_eq!(registers.get(MRQC::AT) & 7, MRQC::ENABLE_RSS);
    let restart = phy::PCTRL_AUTO_NEGOTIATION | phy::PCTRL_RESTART;
    assert_eq!(registers.get(MDIC::AT) & MDIC::DATA_MASK, u32::from(restart));
    assert_eq!(registers.get(SW_FW_SYNC::AT) | registers.get(SWSM::AT), 0, "let go of");
    // A queue that goes is disabled, its share of the table the others'; the port
    // that goes leaves a device without interrupts that was reset.
    drop(rx);
    assert_eq!(registers.get(RXDCTL::at(2)) & RXDCTL::ENABLE, 0);
    assert_eq!(registers.get(RCTL::AT) & RCTL::RXEN, 0, "nobody receives");
    drop((port, tx));
    assert_eq!(registers.get(TXDCTL::at(0)) & TXDCTL::ENABLE, 0);
    assert_eq!(registers.get(CTRL_EXT::AT) & CTRL_EXT::DRV_LOAD, 0);
}

#[test]
fn every_queue_has_a_vector_of_its_own_or_is_refused() {
    let registers = Registers::new(StubFault::None);
    let dma = Dma::new(memory::Options::default());
    let options = Options { interrupts: true, rx_queues: 10, ..quick() };
    let (_port, mut rx, _tx) =
        Igb::open(Pci::new(registers.clone()), &dma, options.clone()).expect("it opens").split();
    // Queues 1 and 9 share a register: vectors 1 and 9, each marked valid.
    assert_eq!(registers.get(IVAR::at(1)), 0x0089_0081);
    assert_eq!(registers.get(EITR::at(9)), 16 << EITR::INTERVAL_SHIFT);
    assert_eq!(registers.get(GPIE::AT) & GPIE::MULTIPLE_MSIX, GPIE::MULTIPLE_MSIX);
    assert!(rx[9].arm().is_some());
    assert_eq!(registers.get(EIMS::AT), 1 << 9);
    rx[9].disarm();
    assert_eq!(registers.get(EIMC::AT), 1 << 9);
    let more = refused(StubFault::None, Options { rx_queues: 11, ..options });
    assert!(matches!(more, Error::Option(OptionError { value: 11, .. })), "{more}");
}

#[test]
fn a_wait_that_ends_in_vain_names_its_register() {
    let second = RXDCTL::at(1);
    for (fault, name, at) in [
        (StubFault::StaysInReset, "CTRL", CTRL::AT),
        (StubFault::DeadPhy, "MDIC", MDIC::AT),
        (StubFault::FirmwareKeepsPhy, "SW_FW_SYNC", SW_FW_SYNC::AT),
        (StubFault::QueueDoesNotStart(second), "RXDCTL", second),
        (StubFault::QueueDoesNotStart(TXDCTL::at(0)), "TXDCTL", TXDCTL::at(0)),
    ] {
        match refused(fault, Options { rx_queues: 2, ..quick() }) {
            Error::Timeout { register, offset, .. } => assert_eq!((register, offset), (name, at)),
            other => panic!("{fault:?}: {other}"),
        }
    }
}

#[test]
fn what_it_cannot_drive_is_refused() {
    assert!(matches!(refused(StubFault::OtherDevice, quick()), Error::UnknownDevice { id: 0x1521, .. }));
    assert!(matches!(refused(StubFault::NoAddress, quick()), Error::NoMacAddress { .. }));
    for options in [
        Options { rx_queues: 17, ..quick() },
        Options { tx_queues: 17, ..quick() },
        Options { max_frame: 9_717, ..quick() },
        Options { rx_ring: 100, ..quick() },
    ] {
        assert!(matches!(refused(StubFault::None, options), Error::Option(_)));
    }
}
