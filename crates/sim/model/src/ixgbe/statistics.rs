//! Every counter of the NIC, cleared when read, beside totals that never are.
//!
//! 82599 datasheet rev. 3.4, section 8.2.3.23. Counters stick at their
//! maximum: 32 bits, or 36 for pairs of a low and a high register. Which
//! register holds what is in [`table`]. The data path adds whole bursts.
//!
//! The per-queue counters QPRC, QBRC and QPRDC lie in the page of the receive
//! ring registers: where that page is mapped rather than trapped a read
//! cannot clear them; whoever owns the pages shows [`Statistics::peek`] there.

pub mod table;

use regs::ixgbe::{Id, RQSMR, RXDSTATCTRL, TQSM};
use table::Part;
pub use table::{COUNTERS, Counter};
use wire::MacAddress;

/// Queues of either direction: four in a register of the maps.
const QUEUES: usize = 4 * RQSMR::COUNT;
const _: () = assert!(RQSMR::COUNT == TQSM::COUNT);
const LIMIT_36: u64 = (1 << 36) - 1;

/// One counter: its value, and for a pair the upper bits that a read of the
/// low half has set aside for the read of the high one.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    value: u64,
    high: u32,
}

/// Frames by length: 64, 65 to 127, 128 to 255, 256 to 511, 512 to 1023 and
/// 1024 or more bytes, CRC included.
pub type Sizes = [u32; 6];

/// The bucket of [`Sizes`] for a frame of `len` bytes without its CRC.
#[inline]
pub fn size_bucket(len: usize) -> usize {
    match len + 4 {
        0..=64 => 0,
        65..=127 => 1,
        128..=255 => 2,
        256..=511 => 3,
        512..=1023 => 4,
        _ => 5,
    }
}

/// What one burst of good frames to one receive queue adds.
#[derive(Debug, Clone, Copy, Default)]
pub struct RxBurst {
    /// Queue the frames went to.
    pub queue: u16,
    /// Frames that were delivered.
    pub packets: u32,
    /// Their bytes, without the CRC.
    pub bytes: u64,
    /// Those with the broadcast address.
    pub broadcast: u32,
    /// Those with a multicast address other than broadcast.
    pub multicast: u32,
    /// All of them by length.
    pub sizes: Sizes,
}

impl RxBurst {
    /// Adds one frame; `destination` is its first byte onwards.
    #[inline]
    pub fn add(&mut self, frame: &[u8]) {
        self.packets += 1;
        self.bytes += frame.len() as u64;
        self.sizes[size_bucket(frame.len())] += 1;
        if frame.first().is_some_and(|first| first & 1 != 0) {
            if frame.first_chunk() == Some(&MacAddress::BROADCAST.0) {
                self.broadcast += 1;
            } else {
                self.multicast += 1;
            }
        }
    }
}

/// What one burst from one transmit queue adds.
pub type TxBurst = RxBurst;

/// Frames the device met and did not deliver, by why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RxLoss {
    /// The packet buffer of a traffic class was full.
    Missed {
        /// Traffic class 0 to 7.
        class: u8,
    },
    /// The queue had no descriptor and its drop bit was set.
    NoDescriptor {
        /// The number of the queue.
        queue: u16,
    },
    /// No filter wanted it.
    Filtered,
    /// Of any length with a bad CRC.
    Crc,
    /// Shorter than 64 bytes with a good CRC.
    Undersize,
    /// Shorter than 64 bytes with a bad CRC.
    Fragment,
    /// Longer than allowed with a good CRC.
    Oversize,
    /// Longer than allowed with a bad CRC.
    Jabber,
    /// An illegal byte inside.
    Illegal,
    /// The length field does not match.
    Length,
}

/// The model's own totals: nothing clears them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames delivered to the host.
    pub rx_packets: u64,
    /// Their bytes, without the CRC.
    pub rx_bytes: u64,
    /// Frames lost to a full packet buffer.
    pub rx_missed: u64,
    /// Frames lost for want of a descriptor.
    pub rx_no_descriptor: u64,
    /// Frames no filter wanted.
    pub rx_filtered: u64,
    /// Frames discarded as malformed.
    pub rx_errors: u64,
    /// Frames sent to the wire.
    pub tx_packets: u64,
    /// Their bytes, without the CRC.
    pub tx_bytes: u64,
}

/// All counters of the device.
#[derive(Debug, Clone)]
pub struct Statistics {
    cells: Box<[Cell; COUNTERS]>,
    rqsmr: [u32; QUEUES / 4],
    tqsm: [u32; QUEUES / 4],
    rx_map: [u8; QUEUES],
    tx_map: [u8; QUEUES],
    rxdstatctrl: u32,
    totals: Totals,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

impl Statistics {
    /// All counters at zero and all queues mapped to counter 0.
    pub fn new() -> Statistics {
        Statistics {
            cells: Box::new([Cell::default(); COUNTERS]),
            rqsmr: [0; QUEUES / 4],
            tqsm: [0; QUEUES / 4],
            rx_map: [0; QUEUES],
            tx_map: [0; QUEUES],
            rxdstatctrl: 0,
            totals: Totals::default(),
        }
    }

    /// A device reset clears the counters and the maps, not the totals.
    pub fn reset(&mut self) {
        let totals = self.totals;
        *self = Statistics::new();
        self.totals = totals;
    }

    /// The totals that nothing clears.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Adds to one counter, which sticks at its maximum.
    pub fn add(&mut self, counter: Counter, amount: u64) {
        let limit = counter.limit();
        let cell = &mut self.cells[counter.index()];
        cell.value = cell.value.saturating_add(amount).min(limit);
    }

    /// A counter's value without clearing it.
    pub fn peek(&self, counter: Counter) -> u64 {
        let cell = &self.cells[counter.index()];
        cell.value.saturating_add(u64::from(cell.high) << 32)
    }

    /// Good frames written to a receive queue.
    pub fn add_rx_burst(&mut self, burst: &RxBurst) {
        if burst.packets == 0 {
            return;
        }
        let packets = u64::from(burst.packets);
        self.totals.rx_packets += packets;
        self.totals.rx_bytes += burst.bytes;
        // Octets on the wire include the CRC, 8.2.3.23.
        let octets = burst.bytes + 4 * packets;
        for counter in [Counter::GPRC, Counter::TPR, Counter::RXNFGPC, Counter::RXDGPC] {
            self.add(counter, packets);
        }
        for counter in [Counter::GORC, Counter::TOR, Counter::RXDGBC] {
            self.add(counter, octets);
        }
        self.add(Counter::BPRC, u64::from(burst.broadcast));
        self.add(Counter::MPRC, u64::from(burst.multicast));
        for (bucket, count) in burst.sizes.iter().enumerate() {
            self.add(Counter::prc(bucket), u64::from(*count));
        }
        let slot = usize::from(self.rx_map[usize::from(burst.queue) % QUEUES]);
        self.add(Counter::qprc(slot), packets);
        self.add(Counter::qbrc(slot), octets);
    }

    /// Frames sent from a transmit queue.
    pub fn add_tx_burst(&mut self, burst: &TxBurst) {
        if burst.packets == 0 {
            return;
        }
        let packets = u64::from(burst.packets);
        self.totals.tx_packets += packets;
        self.totals.tx_bytes += burst.bytes;
        let octets = burst.bytes + 4 * packets;
        for counter in [Counter::GPTC, Counter::TPT, Counter::TXDGPC] {
            self.add(counter, packets);
        }
        self.add(Counter::GOTC, octets);
        self.add(Counter::TXDGBC, octets);
        self.add(Counter::BPTC, u64::from(burst.broadcast));
        self.add(Counter::MPTC, u64::from(burst.multicast));
        for (bucket, count) in burst.sizes.iter().enumerate() {
            self.add(Counter::ptc(bucket), u64::from(*count));
        }
        let slot = usize::from(self.tx_map[usize::from(burst.queue) % QUEUES]);
        self.add(Counter::qptc(slot), packets);
        self.add(Counter::qbtc(slot), octets);
    }

    /// `packets` frames of `bytes` bytes in all (without CRC) that the host
    /// does not get.
    pub fn add_rx_loss(&mut self, loss: RxLoss, packets: u32, bytes: u64) {
        let count = u64::from(packets);
        self.add(Counter::TPR, count);
        self.add(Counter::TOR, bytes + 4 * count);
        let (counter, total) = match loss {
            RxLoss::Missed { class } => (Counter::rxmpc(usize::from(class)), &mut self.totals.rx_missed),
            RxLoss::NoDescriptor { queue } => {
                let slot = usize::from(self.rx_map[usize::from(queue) % QUEUES]);
                (Counter::qprdc(slot), &mut self.totals.rx_no_descriptor)
            }
            // A good frame nobody wanted counts as good before the filters.
            RxLoss::Filtered => (Counter::RXNFGPC, &mut self.totals.rx_filtered),
            RxLoss::Crc => (Counter::CRCERRS, &mut self.totals.rx_errors),
            RxLoss::Undersize => (Counter::RUC, &mut self.totals.rx_errors),
            RxLoss::Fragment => (Counter::RFC, &mut self.totals.rx_errors),
            RxLoss::Oversize => (Counter::ROC, &mut self.totals.rx_errors),
            RxLoss::Jabber => (Counter::RJC, &mut self.totals.rx_errors),
            RxLoss::Illegal => (Counter::ILLERRC, &mut self.totals.rx_errors),
            RxLoss::Length => (Counter::RLEC, &mut self.totals.rx_errors),
        };
        *total += count;
        self.add(counter, count);
    }

    /// Reads a register, `n` of an array, clearing it; `None` when the component does
    /// not own it.
    ///
    /// Of a pair, a read of the low half sets the upper bits aside for the
    /// read of the high half, so nothing counted in between is lost.
    pub fn read(&mut self, id: Id, n: usize) -> Option<u32> {
        match id {
            RQSMR::ID => return Some(self.rqsmr[n]),
            TQSM::ID => return Some(self.tqsm[n]),
            RXDSTATCTRL::ID => return Some(self.rxdstatctrl),
            _ => {}
        }
        let (counter, part) = table::find(id, n)?;
        let cell = &mut self.cells[counter.index()];
        Some(match part {
            Part::Whole => std::mem::take(&mut cell.value) as u32,
            Part::Low => {
                let value = std::mem::take(&mut cell.value);
                cell.high = cell.high.saturating_add((value >> 32) as u32).min(0xF);
                value as u32
            }
            Part::High => {
                let above = (cell.value >> 32) as u32;
                cell.value &= 0xFFFF_FFFF;
                std::mem::take(&mut cell.high).saturating_add(above).min(0xF)
            }
        })
    }

    /// Writes a register, `n` of an array; `false` when the component does not own it.
    /// Counters are read only: a write to one is taken and does nothing.
    pub fn write(&mut self, id: Id, n: usize, value: u32) -> bool {
        match id {
            RQSMR::ID => {
                self.rqsmr[n] = value & 0x0F0F_0F0F;
                map(&mut self.rx_map, n, value);
            }
            TQSM::ID => {
                self.tqsm[n] = value & 0x0F0F_0F0F;
                map(&mut self.tx_map, n, value);
            }
            RXDSTATCTRL::ID => self.rxdstatctrl = value,
            _ => return table::find(id, n).is_some(),
        }
        true
    }
}

/// Four queues a register, one byte each, the counter in its low four bits.
fn map(queues: &mut [u8; QUEUES], register: usize, value: u32) {
    let bytes = value.to_le_bytes().map(|byte| byte & 0x0F);
    queues[4 * register..4 * register + 4].copy_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use regs::ixgbe::*;

    fn read(statistics: &mut Statistics, offset: u32) -> u32 {
        let (id, n) = lookup(offset).expect("a register");
        statistics.read(id, n).expect("owned")
    }

    fn burst(queue: u16, lengths: &[usize]) -> RxBurst {
        let mut burst = RxBurst { queue, ..RxBurst::default() };
        for &len in lengths {
            burst.add(&vec![0; len]);
        }
        burst
    }

    #[test]
    fn counters_clear_when_read_and_totals_do_not() {
        let mut statistics = Statistics::new();
        statistics.add_rx_burst(&burst(0, &[60, 60, 1514]));
        for (offset, expected) in [(GPRC::AT, 3), (PRC64::AT, 2), (PRC1522::AT, 1), (TPR::AT, 3)] {
            assert_eq!(read(&mut statistics, offset), expected, "{offset:#x}");
            assert_eq!(read(&mut statistics, offset), 0, "{offset:#x}");
        }
        assert_eq!(read(&mut statistics, GORCL::AT), 60 + 60 + 1514 + 12);
        assert_eq!(statistics.totals().rx_packets, 3);
        statistics.reset();
        assert_eq!(statistics.totals().rx_bytes, 60 + 60 + 1514);
    }

    #[test]
    fn a_36_bit_pair_survives_reading_in_either_order() {
        for high_first in [false, true] {
            let mut statistics = Statistics::new();
            statistics.add(Counter::GORC, 0x5_1234_5678);
            let (first, second) = if high_first { (GORCH::AT, GORCL::AT) } else { (GORCL::AT, GORCH::AT) };
            let one = read(&mut statistics, first);
            statistics.add(Counter::GORC, 7);
            let two = read(&mut statistics, second);
            let (low, high) = if high_first { (two, one) } else { (one, two) };
            assert_eq!(high, 5);
            let counted = u64::from(low) + statistics.peek(Counter::GORC);
            assert_eq!(counted, 0x1234_5678 + 7);
        }
    }

    #[test]
    fn counters_stick_at_their_maximum() {
        let mut statistics = Statistics::new();
        statistics.add(Counter::GPRC, u64::MAX);
        statistics.add(Counter::GPRC, 1);
        assert_eq!(read(&mut statistics, GPRC::AT), u32::MAX);
        statistics.add(Counter::qbrc(15), u64::MAX);
        assert_eq!(read(&mut statistics, QBRC_L::at(15)), u32::MAX);
        assert_eq!(read(&mut statistics, QBRC_H::at(15)), 0xF);
        assert_eq!(read(&mut statistics, QBRC_H::at(15)), 0);
    }

    #[test]
    fn queues_count_where_the_maps_say() {
        let mut statistics = Statistics::new();
        // Queue 5 (register 1, byte 1) to counter 9, both directions.
        assert!(statistics.write(RQSMR::ID, 1, 0x0000_0900));
        assert!(statistics.write(TQSM::ID, 1, 0x0000_0900));
        statistics.add_rx_burst(&burst(5, &[60]));
        statistics.add_tx_burst(&burst(5, &[60, 60]));
        statistics.add_rx_loss(RxLoss::NoDescriptor { queue: 5 }, 4, 240);
        assert_eq!(read(&mut statistics, QPRC::at(9)), 1);
        assert_eq!(read(&mut statistics, QPTC::at(9)), 2);
        assert_eq!(read(&mut statistics, QBTC_L::at(9)), 128);
        assert_eq!(read(&mut statistics, QPRDC::at(9)), 4);
        assert_eq!(statistics.totals().rx_no_descriptor, 4);
    }

    #[test]
    fn kinds_of_address_are_told_apart() {
        let mut burst = RxBurst::default();
        burst.add(&[0xFF; 60]);
        burst.add(&[1; 60]);
        burst.add(&[2; 60]);
        let mut statistics = Statistics::new();
        statistics.add_rx_burst(&burst);
        assert_eq!((read(&mut statistics, BPRC::AT), read(&mut statistics, MPRC::AT)), (1, 1));
    }

    #[test]
    fn each_loss_has_a_register_and_a_total() {
        let losses = [
            (RxLoss::Missed { class: 2 }, RXMPC::at(2)),
            (RxLoss::Filtered, RXNFGPC::AT),
            (RxLoss::Crc, CRCERRS::AT),
            (RxLoss::Undersize, RUC::AT),
            (RxLoss::Fragment, RFC::AT),
            (RxLoss::Oversize, ROC::AT),
            (RxLoss::Jabber, RJC::AT),
            (RxLoss::Illegal, ILLERRC::AT),
            (RxLoss::Length, RLEC::AT),
        ];
        let mut statistics = Statistics::new();
        for (loss, offset) in losses {
            statistics.add_rx_loss(loss, 3, 180);
            assert_eq!(read(&mut statistics, offset), 3, "{loss:?}");
        }
        let totals = statistics.totals();
        assert_eq!((totals.rx_missed, totals.rx_filtered, totals.rx_errors), (3, 3, 21));
    }
}
