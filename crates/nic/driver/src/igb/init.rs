//! From power-on to the first packet, in the datasheet's order (4.5).

use std::thread::sleep;
use std::time::Duration;

use port::Options;
use regs::igb::*;

use super::{RxQueue, TxQueue, device::Chip, info::REGISTERS, interrupt};
use crate::Result;
use crate::intel::Init;
use crate::intel::ring_registers::{RingRegisters, address::address_words, rss};

impl Init for Chip {
    /// Interrupts off, reset, interrupts off (4.5.4, 4.5.5), and counters from
    /// zero (4.5.8).
    fn reset(&self) -> Result<()> {
        let bar = &self.bar;
        self.mask_interrupts();
        bar.write32(RCTL::AT, 0);
        bar.write32(TCTL::AT, TCTL::PSP);
        self.quiesce();
        bar.set32(CTRL::AT, CTRL::RST);
        // The bit clears itself; the EEPROM is read meanwhile (4.3.1).
        sleep(Duration::from_millis(10));
        let meaning = "the device did not come out of reset; a power cycle may help";
        self.wait(1000, "CTRL", CTRL::AT, CTRL::RST, 0, meaning)?;
        self.mask_interrupts();
        // INCORRECT in QEMU, which never sets the bit; whether there was something
        // to read shows in the address.
        let read = self.wait(20, "EEC", EEC::AT, EEC::AUTO_RD, EEC::AUTO_RD, "no word of the EEPROM");
        if let Err(error) = read {
            tracing::debug!("{error}");
        }
        bar.set32(CTRL_EXT::AT, CTRL_EXT::DRV_LOAD); // tells the firmware
        self.clear_counters();
        Ok(())
    }

    /// The receive side, apart from its queues (4.5.9). Receive is off after the
    /// reset, as it must be while all this changes.
    fn init_rx(&self, mac: [u8; 6], options: &Options) -> Result<()> {
        let bar = &self.bar;
        let [low, high] = address_words(mac);
        bar.write32(RAL::at(0), low);
        bar.write32(RAH::at(0), high | RAH::AV);
        (1..RAL::COUNT).for_each(|n| bar.write32(RAH::at(n), 0));
        (0..MTA::COUNT).for_each(|n| bar.write32(MTA::at(n), 0));
        (0..VFTA::COUNT).for_each(|n| bar.write32(VFTA::at(n), 0));
        // PCSD gives the hash the place of a fragment's checksum.
        let checksums = RXCSUM::IPOFLD | RXCSUM::TUOFLD | RXCSUM::CRCOFL;
        bar.write32(RXCSUM::AT, RXCSUM::PCSD | if options.rx_checksum.where_free() { checksums } else { 0 });
        rss::program(bar, &REGISTERS, &options.rss, options.rx_queues);
        let jumbo = if options.max_frame > 1514 { RCTL::LPE } else { 0 };
        bar.write32(RLPML::AT, options.max_frame as u32 + 12); // CRC and two tags
        let vlans = if options.vlan_filter { RCTL::VFE } else { 0 };
        let all = if options.promiscuous { RCTL::UPE | RCTL::MPE } else { 0 };
        bar.write32(RCTL::AT, RCTL::BAM | RCTL::SECRC | jumbo | vlans | all);
        match options.vlan_strip {
            true => bar.set32(CTRL::AT, CTRL::VME),
            false => bar.clear32(CTRL::AT, CTRL::VME),
        }
        Ok(())
    }

    /// Hands a receive ring to the device (4.5.9.1). It owns no buffer yet.
    fn enable_rx(&self, queue: &RxQueue, options: &Options) -> Result<()> {
        let (bar, n, ring) = (&self.bar, queue.index, &queue.ring);
        bar.clear32(RXDCTL::at(n), RXDCTL::ENABLE); // queue 0 resets to enabled
        bar.write32(RDBAL::at(n), ring.iova() as u32);
        bar.write32(RDBAH::at(n), (ring.iova() >> 32) as u32);
        bar.write32(RDLEN::at(n), ring.bytes());
        bar.write32(RDH::at(n), 0);
        bar.write32(RDT::at(n), 0);
        // With several queues, a full one drops instead of holding up the rest.
        let drop = if options.rx_queues > 1 { SRRCTL::DROP_EN } else { 0 };
        let size = (memory::DATA_ROOM as u32 >> 10) << SRRCTL::BSIZEPACKET_SHIFT;
        bar.write32(SRRCTL::at(n), SRRCTL::DESCTYPE_ADV_ONE_BUFFER | size | drop);
        // Fetch eight ahead when eight are there; write each back at once.
        let thresholds = 8 << RXDCTL::PTHRESH_SHIFT | 8 << RXDCTL::HTHRESH_SHIFT | 1 << RXDCTL::WTHRESH_SHIFT;
        bar.write32(RXDCTL::at(n), thresholds | RXDCTL::ENABLE);
        let meaning = "the receive queue does not start";
        self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, RXDCTL::ENABLE, meaning)
    }

    /// The transmit side, apart from its queues (4.5.10).
    fn init_tx(&self) -> Result<()> {
        // Collisions are of half duplex: the values that the datasheet asks for.
        let collisions = 15 << TCTL::CT_SHIFT | 0x40 << TCTL::BST_SHIFT;
        self.bar.write32(TCTL::AT, TCTL::EN | TCTL::PSP | collisions);
        Ok(())
    }

    /// Hands a transmit ring to the device (4.5.10.1).
    fn enable_tx(&self, queue: &TxQueue) -> Result<()> {
        let (bar, n, ring) = (&self.bar, queue.index, &queue.ring);
        bar.clear32(TXDCTL::at(n), TXDCTL::ENABLE); // queue 0 resets to enabled
        bar.write32(TDBAL::at(n), ring.iova() as u32);
        bar.write32(TDBAH::at(n), (ring.iova() >> 32) as u32);
        bar.write32(TDLEN::at(n), ring.bytes());
        bar.write32(TDH::at(n), 0);
        bar.write32(TDT::at(n), 0);
        let head = queue.head.as_ref().map_or(0, |head| head.iova() | u64::from(TDWBAL::HEAD_WB_EN));
        bar.write32(TDWBAH::at(n), (head >> 32) as u32);
        bar.write32(TDWBAL::at(n), head as u32);
        // Fetch eight ahead when one is there; report each as asked (WTHRESH = 0).
        let thresholds = 8 << TXDCTL::PTHRESH_SHIFT | 1 << TXDCTL::HTHRESH_SHIFT;
        bar.write32(TXDCTL::at(n), thresholds | TXDCTL::ENABLE);
        let meaning = "the transmit queue does not start";
        self.wait(100, "TXDCTL", TXDCTL::at(n), TXDCTL::ENABLE, TXDCTL::ENABLE, meaning)
    }

    fn init_interrupts(&self, queues: &mut [RxQueue]) -> Result<()> {
        interrupt::init(self, queues)
    }

    fn start_link(&self) -> Result<()> {
        self.start_phy()
    }
}
