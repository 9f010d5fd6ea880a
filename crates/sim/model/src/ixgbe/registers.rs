//! Registers that only keep what is written, with their values after reset, and
//! those the 82599 shows at two places.
//!
//! 82599 datasheet rev. 3.4, section 8.2.3. Registers with a mind of their own
//! belong to the components; the ring registers lie in the polled pages.

use regs::ixgbe::*;

const WORDS: usize = BAR0_LEN as usize / 4;

/// What registers hold, by offset.
#[derive(Debug)]
pub(super) struct Registers {
    values: Box<[u32]>,
    /// Which of them software has written since the reset, a bit each.
    written: Box<[u32]>,
}

impl Registers {
    /// As a reset leaves them (the EEPROM loads the MAC address).
    pub fn new(mac: [u8; 6]) -> Registers {
        let zeroes = |len| vec![0; len].into_boxed_slice();
        let mut registers = Registers { values: zeroes(WORDS), written: zeroes(WORDS / 32) };
        registers.reset(mac);
        registers
    }

    pub fn reset(&mut self, mac: [u8; 6]) {
        self.values.fill(0);
        self.written.fill(0);
        let [a, b, c, d, e, f] = mac;
        for (offset, value) in [
            (HLREG0::AT, HLREG0::TXCRCEN | HLREG0::RXCRCSTRP | HLREG0::TXPADEN),
            (MAXFRS::AT, 1518 << MAXFRS::MFS_SHIFT),
            // RSCFRSTSIZE must be changed to zero (4.6.7).
            (RDRXCTL::AT, RDRXCTL::DMAIDONE | 8 << 17),
            (RXPBSIZE::at(0), 512 << RXPBSIZE::SIZE_SHIFT),
            (TXPBSIZE::at(0), 160 << TXPBSIZE::SIZE_SHIFT),
            (DTXMXSZRQ::AT, 0x10),
            (VLNCTRL::AT, 0x8100),
            (DMATXCTL::AT, 0x8100 << DMATXCTL::VT_SHIFT | DMATXCTL::GDV),
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

    /// Keeps `value`.
    pub fn write(&mut self, offset: u32, value: u32) {
        if let Some(place) = self.values.get_mut(offset as usize / 4) {
            *place = value;
        }
    }
}

/// Where a register really lies that the 82599 also shows where the 82598 had it.
pub(super) fn canonical(offset: u32) -> u32 {
    let place = |first: u32, stride: u32| (offset - first) as usize / stride as usize;
    match offset {
        0x5818 => MRQC::AT,
        0x5C00..0x5C80 => RETA::at(place(0x5C00, 4)),
        0x5C80..0x5CA8 => RSSRK::at(place(0x5C80, 4)),
        // Low and high words alternate at both places.
        0x5400..0x5480 => RAL::at(0) + (offset - 0x5400),
        0x5480..0x54C0 => PSRTYPE::at(place(0x5480, 4)),
        0x2100..0x2140 => SRRCTL::at(place(0x2100, 4)),
        0x2200..0x2240 => DCA_RXCTRL::at(place(0x2200, 4)),
        _ => offset,
    }
}

/// Whether both sides see `offset` in memory.
#[inline]
pub(super) fn is_polled(offset: u32) -> bool {
    matches!(offset >> 12, 0x1 | 0x6 | 0x7 | 0xD)
}
