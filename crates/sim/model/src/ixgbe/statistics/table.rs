//! Where each statistics register lies and which counter it shows.
//!
//! 82599 datasheet rev. 3.4, section 8.2.3.23. One row a register or array;
//! a pair is given by its low half. QPTC's older place (0x6030, one in each
//! transmit ring's block) is known as well.

use super::LIMIT_36;

/// Which part of a counter a register shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// All 32 bits.
    Whole,
    /// The low 32 of 36 bits.
    Low,
    /// The upper four of 36 bits.
    High,
}

/// One row: `count` counters from `first` on.
struct Row {
    name: &'static str,
    offset: u32,
    count: u8,
    stride: u32,
    wide: bool,
    first: u8,
}

/// One of the device's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter(u8);

/// How many counters there are.
pub const COUNTERS: usize = 201;

const fn row(name: &'static str, offset: u32, count: u8, stride: u32, wide: bool, first: u8) -> Row {
    Row { name, offset, count, stride, wide, first }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("CRCERRS", 0x4000, 1, 0, false, 0),
    row("ILLERRC", 0x4004, 1, 0, false, 1),
    row("ERRBC", 0x4008, 1, 0, false, 2),
    row("MSPDC", 0x4010, 1, 0, false, 3),
    row("MLFC", 0x4034, 1, 0, false, 4),
    row("MRFC", 0x4038, 1, 0, false, 5),
    row("RLEC", 0x4040, 1, 0, false, 6),
    row("SSVPC", 0x8780, 1, 0, false, 7),
    row("LXONTXC", 0x3f60, 1, 0, false, 8),
    row("LXONRXCNT", 0x41a4, 1, 0, false, 9),
    row("LXOFFTXC", 0x3f68, 1, 0, false, 10),
    row("LXOFFRXCNT", 0x41a8, 1, 0, false, 11),
    row("GPRC", 0x4074, 1, 0, false, 12),
    row("BPRC", 0x4078, 1, 0, false, 13),
    row("MPRC", 0x407c, 1, 0, false, 14),
    row("GPTC", 0x4080, 1, 0, false, 15),
    row("GORC", 0x4088, 1, 0, true, 16),
    row("GOTC", 0x4090, 1, 0, true, 17),
    row("RUC", 0x40a4, 1, 0, false, 18),
    row("RFC", 0x40a8, 1, 0, false, 19),
    row("ROC", 0x40ac, 1, 0, false, 20),
    row("RJC", 0x40b0, 1, 0, false, 21),
    row("MNGPRC", 0x40b4, 1, 0, false, 22),
    row("MNGPDC", 0x40b8, 1, 0, false, 23),
    row("MNGPTC", 0xcf90, 1, 0, false, 24),
    row("TOR", 0x40c0, 1, 0, true, 25),
    row("TPR", 0x40d0, 1, 0, false, 26),
    row("TPT", 0x40d4, 1, 0, false, 27),
    row("MPTC", 0x40f0, 1, 0, false, 28),
    row("BPTC", 0x40f4, 1, 0, false, 29),
    row("XEC", 0x4120, 1, 0, false, 30),
    row("RXNFGPC", 0x41b0, 1, 0, false, 31),
    row("RXDGPC", 0x2f50, 1, 0, false, 32),
    row("RXDGBC", 0x2f54, 1, 0, true, 33),
    row("RXDDPC", 0x2f5c, 1, 0, false, 34),
    row("RXDDBC", 0x2f60, 1, 0, true, 35),
    row("RXLPBKPC", 0x2f68, 1, 0, false, 36),
    row("RXLPBKBC", 0x2f6c, 1, 0, true, 37),
    row("RXDLPBKPC", 0x2f74, 1, 0, false, 38),
    row("RXDLPBKBC", 0x2f78, 1, 0, true, 39),
    row("TXDGPC", 0x87a0, 1, 0, false, 40),
    row("TXDGBC", 0x87a4, 1, 0, true, 41),
    row("FCCRC", 0x5118, 1, 0, false, 42),
    row("FCOERPDC", 0x241c, 1, 0, false, 43),
    row("FCLAST", 0x2424, 1, 0, false, 44),
    row("FCOEPRC", 0x2428, 1, 0, false, 45),
    row("FCOEDWRC", 0x242c, 1, 0, false, 46),
    row("FCOEPTC", 0x8784, 1, 0, false, 47),
    row("FCOEDWTC", 0x8788, 1, 0, false, 48),
    row("O2BGPTC", 0x41c4, 1, 0, false, 49),
    row("O2BSPC", 0x87b0, 1, 0, false, 50),
    row("B2OSPC", 0x41c0, 1, 0, false, 51),
    row("B2OGPRC", 0x2f90, 1, 0, false, 52),
    row("PRC", 0x405c, 6, 0x4, false, 53),
    row("PTC", 0x40d8, 6, 0x4, false, 59),
    row("MPC", 0x3fa0, 8, 0x4, false, 65),
    row("RNBC", 0x3fc0, 8, 0x4, false, 73),
    row("PXONTXC", 0x3f00, 8, 0x4, false, 81),
    row("PXONRXCNT", 0x4140, 8, 0x4, false, 89),
    row("PXOFFTXC", 0x3f20, 8, 0x4, false, 97),
    row("PXOFFRXCNT", 0x4160, 8, 0x4, false, 105),
    row("PXON2OFFCNT", 0x3240, 8, 0x4, false, 113),
    row("QPRC", 0x1030, 16, 0x40, false, 121),
    row("QBRC", 0x1034, 16, 0x40, true, 137),
    row("QPRDC", 0x1430, 16, 0x40, false, 153),
    row("QPTC", 0x8680, 16, 0x4, false, 169),
    row("QBTC", 0x8700, 16, 0x8, true, 185),
];

impl Counter {
    /// Frames with a bad CRC.
    pub const CRCERRS: Counter = Counter(0);
    /// Frames with an illegal byte.
    pub const ILLERRC: Counter = Counter(1);
    /// Error bytes.
    pub const ERRBC: Counter = Counter(2);
    /// Short frames thrown away by the MAC.
    pub const MSPDC: Counter = Counter(3);
    /// Local faults.
    pub const MLFC: Counter = Counter(4);
    /// Remote faults.
    pub const MRFC: Counter = Counter(5);
    /// Frames whose length field is wrong.
    pub const RLEC: Counter = Counter(6);
    /// Frames stopped by anti-spoofing.
    pub const SSVPC: Counter = Counter(7);
    /// XON frames sent.
    pub const LXONTXC: Counter = Counter(8);
    /// XON frames received.
    pub const LXONRXCNT: Counter = Counter(9);
    /// XOFF frames sent.
    pub const LXOFFTXC: Counter = Counter(10);
    /// XOFF frames received.
    pub const LXOFFRXCNT: Counter = Counter(11);
    /// Good frames received.
    pub const GPRC: Counter = Counter(12);
    /// Broadcast frames received.
    pub const BPRC: Counter = Counter(13);
    /// Multicast frames received.
    pub const MPRC: Counter = Counter(14);
    /// Good frames sent.
    pub const GPTC: Counter = Counter(15);
    /// Good octets received.
    pub const GORC: Counter = Counter(16);
    /// Good octets sent.
    pub const GOTC: Counter = Counter(17);
    /// Undersized frames.
    pub const RUC: Counter = Counter(18);
    /// Fragments.
    pub const RFC: Counter = Counter(19);
    /// Oversized frames.
    pub const ROC: Counter = Counter(20);
    /// Jabber.
    pub const RJC: Counter = Counter(21);
    /// Frames to management.
    pub const MNGPRC: Counter = Counter(22);
    /// Frames to management dropped.
    pub const MNGPDC: Counter = Counter(23);
    /// Frames from management.
    pub const MNGPTC: Counter = Counter(24);
    /// Octets received, good or bad.
    pub const TOR: Counter = Counter(25);
    /// Frames received, good or bad.
    pub const TPR: Counter = Counter(26);
    /// Frames sent.
    pub const TPT: Counter = Counter(27);
    /// Multicast frames sent.
    pub const MPTC: Counter = Counter(28);
    /// Broadcast frames sent.
    pub const BPTC: Counter = Counter(29);
    /// Frames whose checksum was wrong.
    pub const XEC: Counter = Counter(30);
    /// Good frames before the filters.
    pub const RXNFGPC: Counter = Counter(31);
    /// Good frames written to the host.
    pub const RXDGPC: Counter = Counter(32);
    /// Good octets written to the host.
    pub const RXDGBC: Counter = Counter(33);
    /// Duplicated frames written to the host.
    pub const RXDDPC: Counter = Counter(34);
    /// Duplicated octets written to the host.
    pub const RXDDBC: Counter = Counter(35);
    /// Looped-back frames written to the host.
    pub const RXLPBKPC: Counter = Counter(36);
    /// Looped-back octets written to the host.
    pub const RXLPBKBC: Counter = Counter(37);
    /// Duplicated looped-back frames.
    pub const RXDLPBKPC: Counter = Counter(38);
    /// Duplicated looped-back octets.
    pub const RXDLPBKBC: Counter = Counter(39);
    /// Good frames read from the host.
    pub const TXDGPC: Counter = Counter(40);
    /// Good octets read from the host.
    pub const TXDGBC: Counter = Counter(41);
    /// FCoE frames with a bad FC CRC.
    pub const FCCRC: Counter = Counter(42);
    /// FCoE frames dropped.
    pub const FCOERPDC: Counter = Counter(43);
    /// FCoE last errors.
    pub const FCLAST: Counter = Counter(44);
    /// FCoE frames received.
    pub const FCOEPRC: Counter = Counter(45);
    /// FCoE double words received.
    pub const FCOEDWRC: Counter = Counter(46);
    /// FCoE frames sent.
    pub const FCOEPTC: Counter = Counter(47);
    /// FCoE double words sent.
    pub const FCOEDWTC: Counter = Counter(48);
    /// Frames from the host to management.
    pub const O2BGPTC: Counter = Counter(49);
    /// Frames from the host to management, dropped.
    pub const O2BSPC: Counter = Counter(50);
    /// Frames from management to the host, dropped.
    pub const B2OSPC: Counter = Counter(51);
    /// Frames from management to the host.
    pub const B2OGPRC: Counter = Counter(52);

    /// Frames received by length (PRC64 to PRC1522); `n` below 6, larger wraps.
    pub const fn prc(n: usize) -> Counter {
        Counter(53 + (n % 6) as u8)
    }

    /// Frames sent by length (PTC64 to PTC1522); `n` below 6, larger wraps.
    pub const fn ptc(n: usize) -> Counter {
        Counter(59 + (n % 6) as u8)
    }

    /// Frames missed, by traffic class; `n` below 8, larger wraps.
    pub const fn mpc(n: usize) -> Counter {
        Counter(65 + (n % 8) as u8)
    }

    /// Frames without a buffer, by traffic class; `n` below 8, larger wraps.
    pub const fn rnbc(n: usize) -> Counter {
        Counter(73 + (n % 8) as u8)
    }

    /// Priority XON sent; `n` below 8, larger wraps.
    pub const fn pxontxc(n: usize) -> Counter {
        Counter(81 + (n % 8) as u8)
    }

    /// Priority XON received; `n` below 8, larger wraps.
    pub const fn pxonrxcnt(n: usize) -> Counter {
        Counter(89 + (n % 8) as u8)
    }

    /// Priority XOFF sent; `n` below 8, larger wraps.
    pub const fn pxofftxc(n: usize) -> Counter {
        Counter(97 + (n % 8) as u8)
    }

    /// Priority XOFF received; `n` below 8, larger wraps.
    pub const fn pxoffrxcnt(n: usize) -> Counter {
        Counter(105 + (n % 8) as u8)
    }

    /// Priority XON to XOFF transitions; `n` below 8, larger wraps.
    pub const fn pxon2offcnt(n: usize) -> Counter {
        Counter(113 + (n % 8) as u8)
    }

    /// Frames received by queue counter; `n` below 16, larger wraps.
    pub const fn qprc(n: usize) -> Counter {
        Counter(121 + (n % 16) as u8)
    }

    /// Octets received by queue counter; `n` below 16, larger wraps.
    pub const fn qbrc(n: usize) -> Counter {
        Counter(137 + (n % 16) as u8)
    }

    /// Frames dropped by queue counter; `n` below 16, larger wraps.
    pub const fn qprdc(n: usize) -> Counter {
        Counter(153 + (n % 16) as u8)
    }

    /// Frames sent by queue counter; `n` below 16, larger wraps.
    pub const fn qptc(n: usize) -> Counter {
        Counter(169 + (n % 16) as u8)
    }

    /// Octets sent by queue counter; `n` below 16, larger wraps.
    pub const fn qbtc(n: usize) -> Counter {
        Counter(185 + (n % 16) as u8)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    fn row(self) -> &'static Row {
        let holds = |row: &&Row| self.0 >= row.first && self.0 - row.first < row.count;
        ROWS.iter().find(holds).expect("every counter has a row")
    }

    /// The register's name (a pair's without its L or H).
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Which one of an array of counters; 0 for a single one.
    pub fn number(self) -> usize {
        usize::from(self.0 - self.row().first)
    }

    /// Byte offset of the register, of a pair its low half.
    pub fn offset(self) -> u32 {
        let row = self.row();
        row.offset + u32::from(self.0 - row.first) * row.stride
    }

    /// Whether the counter has 36 bits in two registers.
    pub const fn is_wide(self) -> bool {
        WIDE[self.0 as usize]
    }

    /// Where the counter sticks.
    pub(super) const fn limit(self) -> u64 {
        if self.is_wide() { LIMIT_36 } else { u32::MAX as u64 }
    }

    /// Every counter.
    pub fn all() -> impl Iterator<Item = Counter> {
        (0..COUNTERS as u8).map(Counter)
    }
}

/// Width by counter, so that adding to one searches nothing.
const WIDE: [bool; COUNTERS] = {
    let mut wide = [false; COUNTERS];
    let mut row = 0;
    while row < ROWS.len() {
        let mut n = 0;
        while n < ROWS[row].count {
            wide[(ROWS[row].first + n) as usize] = ROWS[row].wide;
            n += 1;
        }
        row += 1;
    }
    wide
};

/// The counter at a byte offset. Two rows may interleave (QPRC and QBRC).
pub(super) fn find(offset: u32) -> Option<(Counter, Place)> {
    // The older place of QPTC.
    if (0x6030..0x6430).contains(&offset) && (offset - 0x6030).is_multiple_of(0x40) {
        return Some((Counter::qptc(((offset - 0x6030) / 0x40) as usize), Place::Whole));
    }
    ROWS.iter().find_map(|row| {
        let distance = offset.checked_sub(row.offset)?;
        let (n, rest) = match row.stride {
            0 => (0, distance),
            stride => (distance / stride, distance % stride),
        };
        if n >= u32::from(row.count) {
            return None;
        }
        let place = match (rest, row.wide) {
            (0, false) => Place::Whole,
            (0, true) => Place::Low,
            (4, true) => Place::High,
            _ => return None,
        };
        Some((Counter(row.first + n as u8), place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_number_the_counters_without_gap_or_overlap() {
        let mut next = 0;
        for row in ROWS {
            assert_eq!(usize::from(row.first), next, "{}", row.name);
            next += usize::from(row.count);
        }
        assert_eq!(next, COUNTERS);
    }

    #[test]
    fn every_counter_is_found_at_its_offset_and_nowhere_else() {
        let mut found = 0;
        for offset in (0..0x2_0000).step_by(4) {
            if let Some((counter, place)) = find(offset) {
                found += 1;
                let low = offset - if place == Place::High { 4 } else { 0 };
                assert!(counter.offset() == low || counter.name() == "QPTC", "{offset:#x}");
                assert_eq!(counter.is_wide(), place != Place::Whole);
            }
        }
        let wide = Counter::all().filter(|counter| counter.is_wide()).count();
        assert_eq!(found, COUNTERS + wide + 16);
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(Counter::qbrc(7).name(), "QBRC");
        assert_eq!(Counter::qbrc(7).number(), 7);
        assert_eq!(Counter::GORC.offset(), 0x4088);
    }
}
