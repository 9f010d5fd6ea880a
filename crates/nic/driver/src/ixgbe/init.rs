//! From power-on to the first packet, in the datasheet's order (4.6.3).

use std::thread::sleep;
use std::time::Duration;

use port::Options;
use regs::ixgbe::*;

use super::{RxQueue, TxQueue, device::Chip, fixed::descriptor_type, interrupt};
use crate::Result;
use crate::intel::{Init, RingRegisters, ring_registers::address::address_words};

impl Init for Chip {
    /// Interrupts off, reset, interrupts off, and the units that start by
    /// themselves (4.6.3 to 4.6.3.2).
    fn reset(&self) -> Result<()> {
        self.mask_interrupts();
        self.quiesce();
        // Link reset and software reset together are a global reset (4.2.1.6).
        self.bar.set32(CTRL::AT, CTRL::RST | CTRL::LRST);
        // The bits clear themselves; 10 ms until the EEPROM is read (4.6.3.2).
        sleep(Duration::from_millis(10));
        let meaning = "the device did not come out of reset; a power cycle may help";
        self.wait(1000, "CTRL", CTRL::AT, CTRL::RST | CTRL::LRST, 0, meaning)?;
        self.mask_interrupts();
        let meaning = "the EEPROM was not loaded: it is missing or damaged";
        self.wait(1000, "EEC", EEC::AT, EEC::AUTO_RD, EEC::AUTO_RD, meaning)?;
        let meaning = "the receive DMA unit did not initialise";
        self.wait(1000, "RDRXCTL", RDRXCTL::AT, RDRXCTL::DMAIDONE, RDRXCTL::DMAIDONE, meaning)?;
        self.clear_counters();
        Ok(())
    }

    /// The receive side, apart from its queues (4.6.7). Receive is off after the
    /// reset, as it must be while all this changes.
    fn init_rx(&self, mac: [u8; 6], options: &Options) -> Result<()> {
        let bar = &self.bar;
        let [low, high] = address_words(mac);
        bar.write32(RAL::at(0), low);
        bar.write32(RAH::at(0), high | RAH::AV);
        (0..MTA::COUNT).for_each(|n| bar.write32(MTA::at(n), 0));
        (0..VFTA::COUNT).for_each(|n| bar.write32(VFTA::at(n), 0));
        let all = if options.promiscuous { FCTRL::UPE | FCTRL::MPE } else { 0 };
        bar.write32(FCTRL::AT, FCTRL::BAM | all);
        // One packet buffer of 512 KiB (4.6.11.3.4).
        bar.write32(RXPBSIZE::at(0), 512 << RXPBSIZE::SIZE_SHIFT);
        (1..RXPBSIZE::COUNT).for_each(|n| bar.write32(RXPBSIZE::at(n), 0));
        // Both units strip the CRC, or none does (8.2.3.22.8).
        bar.set32(HLREG0::AT, HLREG0::RXCRCSTRP | HLREG0::TXCRCEN | HLREG0::TXPADEN);
        bar.set32(RDRXCTL::AT, RDRXCTL::CRCSTRIP);
        bar.clear32(RDRXCTL::AT, RDRXCTL::RSCFRSTSIZE_MASK); // 4.6.7.2
        self.enable_features(options);
        bar.set32(CTRL_EXT::AT, CTRL_EXT::NS_DIS); // 4.6.7: no snoop disabled
        Ok(())
    }

    /// Hands a receive ring to the device (4.6.7.1). It owns no buffer yet.
    fn enable_rx(&self, queue: &RxQueue, options: &Options) -> Result<()> {
        let (bar, n, ring) = (&self.bar, queue.index, &queue.ring);
        bar.write32(RDBAL::at(n), ring.iova() as u32);
        bar.write32(RDBAH::at(n), (ring.iova() >> 32) as u32);
        bar.write32(RDLEN::at(n), ring.bytes());
        bar.write32(RDH::at(n), 0);
        bar.write32(RDT::at(n), 0);
        // With several queues, a full one drops instead of holding up the rest.
        let drop = if options.rx_queues > 1 { SRRCTL::DROP_EN } else { 0 };
        let size = (memory::DATA_ROOM as u32 >> 10) << SRRCTL::BSIZEPACKET_SHIFT;
        bar.write32(SRRCTL::at(n), descriptor_type(options) | size | drop);
        // Bit 12 must be cleared though it resets to one (4.6.7.1).
        bar.clear32(DCA_RXCTRL::at(n), DCA_RXCTRL::MUST_CLEAR);
        let vlan = if options.vlan_strip { RXDCTL::VME } else { 0 };
        bar.write32(RXDCTL::at(n), bar.read32(RXDCTL::at(n)) | RXDCTL::ENABLE | vlan);
        let meaning = "the receive queue does not start";
        self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, RXDCTL::ENABLE, meaning)?;
        Ok(())
    }

    /// The transmit side, apart from its queues (4.6.8).
    fn init_tx(&self) -> Result<()> {
        let bar = &self.bar;
        // The scheduler rests while its mode changes (8.2.3.7.16): no DCB.
        bar.set32(RTTDCS::AT, RTTDCS::ARBDIS);
        bar.write32(MTQC::AT, 0);
        bar.write32(TXPBSIZE::at(0), 160 << TXPBSIZE::SIZE_SHIFT);
        (1..TXPBSIZE::COUNT).for_each(|n| bar.write32(TXPBSIZE::at(n), 0));
        bar.write32(TXPBTHRESH::at(0), 160);
        bar.write32(DTXMXSZRQ::AT, 0xFFF); // its maximum, without DCB (4.6.11.3)
        bar.clear32(RTTDCS::AT, RTTDCS::ARBDIS);
        bar.set32(DMATXCTL::AT, DMATXCTL::TE);
        Ok(())
    }

    /// Hands a transmit ring to the device (4.6.8.1).
    fn enable_tx(&self, queue: &TxQueue) -> Result<()> {
        let (bar, n, ring) = (&self.bar, queue.index, &queue.ring);
        bar.write32(TDBAL::at(n), ring.iova() as u32);
        bar.write32(TDBAH::at(n), (ring.iova() >> 32) as u32);
        bar.write32(TDLEN::at(n), ring.bytes());
        bar.write32(TDH::at(n), 0);
        bar.write32(TDT::at(n), 0);
        let head = queue.head.as_ref().map_or(0, |head| head.iova() | u64::from(TDWBAL::HEAD_WB_EN));
        bar.write32(TDWBAL::at(n), head as u32);
        bar.write32(TDWBAH::at(n), (head >> 32) as u32);
        // Fetch 36 descriptors ahead when 8 are there; report each as asked
        // (WTHRESH = 0, required where not every descriptor has RS: 7.2.3.5.1).
        let thresholds = 36 << TXDCTL::PTHRESH_SHIFT | 8 << TXDCTL::HTHRESH_SHIFT;
        bar.write32(TXDCTL::at(n), thresholds | TXDCTL::ENABLE);
        let meaning = "the transmit queue does not start";
        self.wait(100, "TXDCTL", TXDCTL::at(n), TXDCTL::ENABLE, TXDCTL::ENABLE, meaning)?;
        Ok(())
    }

    fn init_interrupts(&self, queues: &mut [RxQueue]) -> Result<()> {
        interrupt::init(self, queues)
    }

    /// As the EEPROM configured it (4.6.4.2).
    fn start_link(&self) -> Result<()> {
        self.bar.set32(AUTOC::AT, AUTOC::RESTART_AN);
        Ok(())
    }
}
