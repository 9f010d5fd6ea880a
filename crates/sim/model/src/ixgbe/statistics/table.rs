//! Which register shows which counter.
//!
//! 82599 datasheet rev. 3.4, section 8.2.3.23. A row is a register or array of the
//! register table, or two of them that show a counter in halves. QPTC is shown at an
//! older place, too, one in each transmit ring's block.

use regs::ixgbe::*;

use super::LIMIT_36;

/// Which part of a counter a register shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All 32 bits.
    Whole,
    /// The low 32 of 36 bits.
    Low,
    /// The upper four of 36 bits.
    High,
}

/// The registers of one counter, or of an array of them.
struct Row {
    low: Id,
    high: Option<Id>,
}

const fn whole(register: Id) -> Row {
    Row { low: register, high: None }
}

const fn pair(low: Id, high: Id) -> Row {
    Row { low, high: Some(high) }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    whole(CRCERRS::ID), whole(ILLERRC::ID), whole(ERRBC::ID), whole(MSPDC::ID), whole(RXMPC::ID),
    whole(MLFC::ID), whole(MRFC::ID), whole(RLEC::ID), whole(SSVPC::ID),
    whole(LXONTXC::ID), whole(LXOFFTXC::ID), whole(LXONRXCNT::ID), whole(LXOFFRXCNT::ID),
    whole(PXONTXC::ID), whole(PXONRXCNT::ID), whole(PXOFFTXC::ID), whole(PXOFFRXCNT::ID),
    whole(PXON2OFFCNT::ID),
    // Frames by length: the six of a direction stay together.
    whole(PRC64::ID), whole(PRC127::ID), whole(PRC255::ID), whole(PRC511::ID), whole(PRC1023::ID),
    whole(PRC1522::ID),
    whole(PTC64::ID), whole(PTC127::ID), whole(PTC255::ID), whole(PTC511::ID), whole(PTC1023::ID),
    whole(PTC1522::ID),
    whole(GPRC::ID), whole(BPRC::ID), whole(MPRC::ID), whole(GPTC::ID), whole(BPTC::ID), whole(MPTC::ID),
    pair(GORCL::ID, GORCH::ID), pair(GOTCL::ID, GOTCH::ID),
    whole(RUC::ID), whole(RFC::ID), whole(ROC::ID), whole(RJC::ID), whole(RNBC::ID), whole(XEC::ID),
    whole(MNGPRC::ID), whole(MNGPDC::ID), whole(MNGPTC::ID),
    pair(TORL::ID, TORH::ID), whole(TPR::ID), whole(TPT::ID), whole(RXNFGPC::ID),
    whole(RXDGPC::ID), pair(RXDGBCL::ID, RXDGBCH::ID),
    whole(RXDDPC::ID), pair(RXDDBCL::ID, RXDDBCH::ID),
    whole(RXLPBKPC::ID), pair(RXLPBKBCL::ID, RXLPBKBCH::ID),
    whole(RXDLPBKPC::ID), pair(RXDLPBKBCL::ID, RXDLPBKBCH::ID),
    whole(TXDGPC::ID), pair(TXDGBCL::ID, TXDGBCH::ID),
    whole(FCCRC::ID), whole(FCOERPDC::ID), whole(FCLAST::ID), whole(FCOEPRC::ID), whole(FCOEDWRC::ID),
    whole(FCOEPTC::ID), whole(FCOEDWTC::ID),
    whole(O2BGPTC::ID), whole(O2BSPC::ID), whole(B2OSPC::ID), whole(B2OGPRC::ID),
    whole(QPRC::ID), pair(QBRC_L::ID, QBRC_H::ID), whole(QPRDC::ID),
    whole(QPTC::ID), pair(QBTC_L::ID, QBTC_H::ID),
];

/// The same register at another place.
const ALIASES: &[(Id, Id)] = &[(QPTC_ALIAS::ID, QPTC::ID)];

/// How many counters there are.
pub const COUNTERS: usize = {
    let (mut sum, mut row) = (0, 0);
    while row < ROWS.len() {
        sum += ROWS[row].low.register().len();
        row += 1;
    }
    sum
};

/// For each register the first of the counters it shows, and which part of them.
static SHOWN: [Option<(u8, Part)>; Id::COUNT] = {
    let mut shown = [None; Id::COUNT];
    let (mut first, mut row) = (0, 0);
    while row < ROWS.len() {
        let Row { low, high } = ROWS[row];
        match high {
            None => shown[low.index()] = Some((first, Part::Whole)),
            Some(high) => {
                assert!(low.register().len() == high.register().len());
                shown[low.index()] = Some((first, Part::Low));
                shown[high.index()] = Some((first, Part::High));
            }
        }
        first += low.register().len() as u8;
        row += 1;
    }
    let mut alias = 0;
    while alias < ALIASES.len() {
        shown[ALIASES[alias].0.index()] = shown[ALIASES[alias].1.index()];
        alias += 1;
    }
    shown
};

/// Width by counter, so that adding to one searches nothing.
static WIDE: [bool; COUNTERS] = {
    let mut wide = [false; COUNTERS];
    let (mut first, mut row) = (0, 0);
    while row < ROWS.len() {
        let mut n = 0;
        while n < ROWS[row].low.register().len() {
            wide[first + n] = ROWS[row].high.is_some();
            n += 1;
        }
        first += n;
        row += 1;
    }
    wide
};

/// One of the device's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter(u8);

impl Counter {
    /// The counter that a register shows; of an array, the first.
    const fn of(id: Id) -> Counter {
        match SHOWN[id.index()] {
            Some((first, _)) => Counter(first),
            None => panic!("a counter's register"),
        }
    }

    /// The next but `n`, of `count` that there are; larger wraps.
    const fn nth(self, n: usize, count: usize) -> Counter {
        Counter(self.0 + (n % count) as u8)
    }

    /// Frames with a bad CRC.
    pub const CRCERRS: Counter = Counter::of(CRCERRS::ID);
    /// Frames with an illegal byte.
    pub const ILLERRC: Counter = Counter::of(ILLERRC::ID);
    /// Frames whose length field is wrong.
    pub const RLEC: Counter = Counter::of(RLEC::ID);
    /// Good frames received.
    pub const GPRC: Counter = Counter::of(GPRC::ID);
    /// Broadcast frames received.
    pub const BPRC: Counter = Counter::of(BPRC::ID);
    /// Multicast frames received.
    pub const MPRC: Counter = Counter::of(MPRC::ID);
    /// Good frames sent.
    pub const GPTC: Counter = Counter::of(GPTC::ID);
    /// Good octets received.
    pub const GORC: Counter = Counter::of(GORCL::ID);
    /// Good octets sent.
    pub const GOTC: Counter = Counter::of(GOTCL::ID);
    /// Frames that are too short, and sound.
    pub const RUC: Counter = Counter::of(RUC::ID);
    /// Frames that are too short and damaged.
    pub const RFC: Counter = Counter::of(RFC::ID);
    /// Frames that are too long, and sound.
    pub const ROC: Counter = Counter::of(ROC::ID);
    /// Frames that are too long and damaged.
    pub const RJC: Counter = Counter::of(RJC::ID);
    /// Octets received, good or bad.
    pub const TOR: Counter = Counter::of(TORL::ID);
    /// Frames received, good or bad.
    pub const TPR: Counter = Counter::of(TPR::ID);
    /// Frames sent, of any kind.
    pub const TPT: Counter = Counter::of(TPT::ID);
    /// Multicast frames sent.
    pub const MPTC: Counter = Counter::of(MPTC::ID);
    /// Broadcast frames sent.
    pub const BPTC: Counter = Counter::of(BPTC::ID);
    /// Frames whose checksum was wrong.
    pub const XEC: Counter = Counter::of(XEC::ID);
    /// Good frames before the filters.
    pub const RXNFGPC: Counter = Counter::of(RXNFGPC::ID);
    /// Good frames written to the host.
    pub const RXDGPC: Counter = Counter::of(RXDGPC::ID);
    /// Good octets written to the host.
    pub const RXDGBC: Counter = Counter::of(RXDGBCL::ID);
    /// Good frames read from the host.
    pub const TXDGPC: Counter = Counter::of(TXDGPC::ID);
    /// Good octets read from the host.
    pub const TXDGBC: Counter = Counter::of(TXDGBCL::ID);

    /// Frames received by length (PRC64 to PRC1522).
    pub const fn prc(n: usize) -> Counter {
        const FIRST: Counter = Counter::of(PRC64::ID);
        FIRST.nth(n, 6)
    }

    /// Frames sent by length (PTC64 to PTC1522).
    pub const fn ptc(n: usize) -> Counter {
        const FIRST: Counter = Counter::of(PTC64::ID);
        FIRST.nth(n, 6)
    }

    /// Frames missed, by traffic class.
    pub const fn rxmpc(n: usize) -> Counter {
        const FIRST: Counter = Counter::of(RXMPC::ID);
        FIRST.nth(n, RXMPC::COUNT)
    }

    /// Frames received by queue counter.
    pub const fn qprc(n: usize) -> Counter {
        const FIRST: Counter = Counter::of(QPRC::ID);
        FIRST.nth(n, QPRC::COUNT)
    }

    /// Octets received by queue counter.
    pub const fn qbrc(n: usize) -> Counter {
        const FIRST: Counter = Counter::of(QBRC_L::ID);
        FIRST.nth(n, QBRC_L::COUNT)
    }

    /// Frames dropped by queue counter.
    pub const fn qprdc(n: usize) -> Counter {
        const FIRST: Counter = Counter::of(QPRDC::ID);
        FIRST.nth(n, QPRDC::COUNT)
    }

    /// Frames sent by queue counter.
    pub const fn qptc(n: usize) -> Counter {
        const FIRST: Counter = Counter::of(QPTC::ID);
        FIRST.nth(n, QPTC::COUNT)
    }

    /// Octets sent by queue counter.
    pub const fn qbtc(n: usize) -> Counter {
        const FIRST: Counter = Counter::of(QBTC_L::ID);
        FIRST.nth(n, QBTC_L::COUNT)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Where the counter sticks: at 36 bits in two registers, or at 32.
    pub(super) const fn limit(self) -> u64 {
        if WIDE[self.0 as usize] { LIMIT_36 } else { u32::MAX as u64 }
    }
}

/// The counter that register `n` of an array shows, and which part of it.
pub(super) fn find(id: Id, n: usize) -> Option<(Counter, Part)> {
    let (first, part) = SHOWN[id.index()]?;
    Some((Counter(first + n as u8), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_shown_once_or_in_two_halves() {
        let mut parts = vec![Vec::new(); COUNTERS];
        for (id, n) in (0..BAR0_LEN).step_by(4).filter_map(lookup) {
            if let Some((counter, part)) = find(id, n).filter(|_| id != QPTC_ALIAS::ID) {
                parts[counter.index()].push(part);
            }
        }
        for (n, mut parts) in parts.into_iter().enumerate() {
            parts.sort_unstable_by_key(|part| *part as u8);
            let wanted: &[Part] = if WIDE[n] { &[Part::Low, Part::High] } else { &[Part::Whole] };
            assert_eq!(parts, wanted, "counter {n}");
        }
        assert_eq!(COUNTERS, 201);
    }

    #[test]
    fn frames_by_length_follow_each_other() {
        for (n, (received, sent)) in [
            (PRC64::ID, PTC64::ID),
            (PRC127::ID, PTC127::ID),
            (PRC255::ID, PTC255::ID),
            (PRC511::ID, PTC511::ID),
            (PRC1023::ID, PTC1023::ID),
            (PRC1522::ID, PTC1522::ID),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!((Counter::prc(n), Counter::ptc(n)), (Counter::of(received), Counter::of(sent)));
        }
        assert_eq!(find(QPTC_ALIAS::ID, 15), find(QPTC::ID, 15));
    }
}
