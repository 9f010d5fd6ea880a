//! Registers that only keep what is written, with their values after reset, and
//! those the 82599 shows at two places.
//!
//! 82599 datasheet rev. 3.4, section 8.2.3. Registers that do something belong to
//! the components; the ring registers lie in the polled pages.

use regs::ixgbe::*;
use wire::ethernet::EtherType;

const WORDS: usize = BAR0_LEN as usize / 4;

/// What registers hold, by offset.
#[derive(Debug)]
pub(super) struct Registers {
    values: Box<[u32]>,
    /// Which of them software has written since the reset, a bit each.
    written: Box<[u32]>,
    /// RTTBCNRC of each transmit queue.
    rates: Box<[u32]>,
}

impl Registers {
    /// As a reset leaves them (the EEPROM loads the MAC address).
    pub fn new(mac: [u8; 6]) -> Registers {
        let zeroes = |len| vec![0; len].into_boxed_slice();
        let mut registers =
            Registers { values: zeroes(WORDS), written: zeroes(WORDS / 32), rates: zeroes(TDT::COUNT) };
        registers.reset(mac);
        registers
    }

    pub fn reset(&mut self, mac: [u8; 6]) {
        self.values.fill(0);
        self.written.fill(0);
        self.rates.fill(0);
        let [a, b, c, d, e, f] = mac;
        for (offset, value) in [
            (HLREG0::AT, HLREG0::TXCRCEN | HLREG0::RXCRCSTRP | HLREG0::TXPADEN),
            (MAXFRS::AT, 1518 << MAXFRS::MFS_SHIFT),
            // RSCFRSTSIZE must be changed to zero (4.6.7).
            (RDRXCTL::AT, RDRXCTL::DMAIDONE | 8 << 17),
            (RXPBSIZE::at(0), 512 << RXPBSIZE::SIZE_SHIFT),
            (TXPBSIZE::at(0), 160 << TXPBSIZE::SIZE_SHIFT),
            (DTXMXSZRQ::AT, 0x10),
            (VLNCTRL::AT, EtherType::VLAN.0.into()),
            (DMATXCTL::AT, u32::from(EtherType::VLAN.0) << DMATXCTL::VT_SHIFT | DMATXCTL::GDV),
            // Which TCP flags the first, middle and last segment may carry.
            (DTXTCPFLGL::AT, 0x0F76_0FF6),
            (DTXTCPFLGH::AT, 0x0F7F),
            (RAL::at(0), u32::from_le_bytes([a, b, c, d])),
            (RAH::at(0), u32::from(u16::from_le_bytes([e, f])) | RAH::AV),
            (MPSAR_LO::at(0), 1),
        ] {
            self.write(offset, value);
        }
    }

    /// What is kept at `offset`; 0 outside BAR 0.
    #[inline]
    pub fn read(&self, offset: u32) -> u32 {
        self.values.get(offset as usize / 4).copied().unwrap_or(0)
    }

    /// Software has written the register at `offset`.
    pub fn note_written(&mut self, offset: u32) {
        if let Some(bits) = self.written.get_mut(offset as usize / 128) {
            *bits |= 1 << (offset / 4 % 32);
        }
    }

    /// Whether software has written the register at `offset` since the reset.
    pub fn is_written(&self, offset: u32) -> bool {
        self.written.get(offset as usize / 128).is_some_and(|bits| bits >> (offset / 4 % 32) & 1 != 0)
    }

    /// Keeps `value` in the register at `offset`.
    pub fn write(&mut self, offset: u32, value: u32) {
        if let Some(place) = self.values.get_mut(offset as usize / 4) {
            *place = value;
        }
    }
}

impl Registers {
    /// RTTBCNRC of a transmit queue.
    pub fn rate(&self, queue: usize) -> u32 {
        self.rates.get(queue).copied().unwrap_or(0)
    }

    /// RTTBCNRC of the transmit queue that RTTDQSEL names.
    pub fn selected_rate(&self) -> u32 {
        self.rate(self.read(RTTDQSEL::AT) as usize)
    }

    /// RTTBCNRC of a transmit queue is written.
    pub fn set_rate(&mut self, queue: usize, value: u32) {
        if let Some(rate) = self.rates.get_mut(queue) {
            *rate = value;
        }
    }
}

/// The register that an 82599 means by one that it also shows where the 82598 had
/// it.
pub(super) fn canonical((id, n): (Id, usize)) -> (Id, usize) {
    match id {
        CTRL_ALIAS::ID => (CTRL::ID, 0),
        MRQC_ALIAS::ID => (MRQC::ID, 0),
        RETA_ALIAS::ID => (RETA::ID, n),
        RSSRK_ALIAS::ID => (RSSRK::ID, n),
        RAL_ALIAS::ID => (RAL::ID, n),
        RAH_ALIAS::ID => (RAH::ID, n),
        PSRTYPE_ALIAS::ID => (PSRTYPE::ID, n),
        SRRCTL_ALIAS::ID => (SRRCTL::ID, n),
        DCA_RXCTRL_ALIAS::ID => (DCA_RXCTRL::ID, n),
        _ => (id, n),
    }
}

/// The pages of BAR 0 that both sides see in memory: offset and bytes. They hold the
/// registers of the receive rings 0 to 63, the transmit rings, and the other receive
/// rings.
pub const POLLED: [(u32, u32); 3] = [(RDBAL::at(0), 0x1000), (TDBAL::at(0), 0x2000), (RDBAL::at(64), 0x1000)];

/// Whether both sides see `offset` in memory.
#[inline]
pub(super) fn is_polled(offset: u32) -> bool {
    POLLED.iter().any(|&(first, len)| offset.wrapping_sub(first) < len)
}
