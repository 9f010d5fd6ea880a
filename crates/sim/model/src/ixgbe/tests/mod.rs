//! The model against a driver of a few lines, which plays by the datasheet's
//! rules or breaks them.

mod hostile;
mod pools;
mod receive;
mod registers;
mod rules;
mod timestamps;
mod transmit;

use regs::ixgbe::*;

use super::lint::Rule;
use super::{Ixgbe, Options};
use crate::fixture::{Bar, Cable, Memory};

/// Descriptors of a ring here.
const RING: u64 = 64;
const IOVA: u64 = 0x1000_0000;
const BUFFER: u64 = 2048;
/// Each queue has 1 MiB: rings first, then buffers.
const SHARE: u64 = 1 << 20;
/// How long the link takes to come up, and more.
const LINK_NS: u64 = 10_000_000;

/// A device, its cable and memory, and what a driver keeps.
struct Rig {
    device: Ixgbe<Memory, Bar>,
    memory: Memory,
    bar: Bar,
    cable: Cable,
    now: u64,
    rx_next: [u64; 16],
    rx_tail: [u64; 16],
    tx_tail: [u64; 16],
    /// Registers that this driver forgets.
    left_out: Vec<u32>,
}

fn rx_ring(queue: usize) -> u64 {
    IOVA + SHARE * queue as u64
}

fn tx_ring(queue: usize) -> u64 {
    rx_ring(queue) + 0x4000
}

fn rx_buffer(queue: usize, n: u64) -> u64 {
    rx_ring(queue) + 0x1_0000 + BUFFER * (n % RING)
}

fn tx_buffer(queue: usize, n: u64) -> u64 {
    rx_ring(queue) + 0x8_0000 + 4096 * (n % RING)
}

/// What a driver finds in a receive descriptor that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Received {
    data: Vec<u8>,
    low: u64,
    high: u64,
}

impl Rig {
    /// Power on; nothing is configured.
    fn cold() -> Rig {
        Rig::of(&Options::default())
    }

    /// Likewise, of such a device.
    fn of(options: &Options) -> Rig {
        let (memory, bar) = (Memory::new(IOVA, 16 * SHARE as usize), Bar::default());
        let device = Ixgbe::new(memory.clone(), bar.clone(), options);
        let cable = Cable { backpressure: true, ..Cable::default() };
        let mut rig = Rig {
            device,
            memory,
            bar,
            cable,
            now: LINK_NS,
            rx_next: [0; 16],
            rx_tail: [0; 16],
            tx_tail: [0; 16],
            left_out: Vec::new(),
        };
        rig.step();
        rig
    }

    /// A driver's whole initialisation, with `queues` of each direction.
    fn up(queues: usize) -> Rig {
        Rig::up_with(queues, &[])
    }

    /// The same, with registers written before receive is turned on.
    fn up_with(queues: usize, more: &[(u32, u32)]) -> Rig {
        Rig::cold().bring_up(queues, more)
    }

    /// The same, by a driver that does not touch some registers.
    fn up_without(queues: usize, left_out: &[u32], more: &[(u32, u32)]) -> Rig {
        let mut rig = Rig::cold();
        rig.left_out = left_out.to_vec();
        rig.bring_up(queues, more)
    }

    fn bring_up(mut self, queues: usize, more: &[(u32, u32)]) -> Rig {
        self.write(EIMC::AT, 0x7FFF_FFFF);
        for offset in [EEC::AT, RDRXCTL::AT, GPRC::AT] {
            self.read(offset);
        }
        (0..MTA::COUNT).for_each(|n| self.write(MTA::at(n), 0));
        (0..VFTA::COUNT).for_each(|n| self.write(VFTA::at(n), 0));
        self.write(FCTRL::AT, FCTRL::BAM);
        self.write(RDRXCTL::AT, RDRXCTL::CRCSTRIP);
        self.write(RXCSUM::AT, RXCSUM::PCSD);
        self.write(CTRL_EXT::AT, CTRL_EXT::NS_DIS);
        for &(offset, value) in more {
            self.write(offset, value);
        }
        for queue in 0..queues {
            let srrctl = SRRCTL::DESCTYPE_ADV_ONE_BUFFER | 2;
            self.enable_rx(queue, srrctl, 0);
        }
        self.start_receive();
        self.write(DMATXCTL::AT, DMATXCTL::TE | 0x8100 << DMATXCTL::VT_SHIFT);
        for queue in 0..queues {
            self.enable_tx(queue);
        }
        self.step();
        self
    }

    fn start_receive(&mut self) {
        self.write(SECRXCTRL::AT, SECRXCTRL::RX_DIS);
        self.read(SECRXSTAT::AT);
        self.write(RXCTRL::AT, RXCTRL::RXEN);
        self.write(SECRXCTRL::AT, 0);
    }

    fn enable_rx(&mut self, n: usize, srrctl: u32, control: u32) {
        self.write(RDBAL::at(n), rx_ring(n) as u32);
        self.write(RDBAH::at(n), (rx_ring(n) >> 32) as u32);
        self.write(RDLEN::at(n), 16 * RING as u32);
        self.write(RDH::at(n), 0);
        self.write(RDT::at(n), 0);
        self.write(SRRCTL::at(n), srrctl);
        self.write(DCA_RXCTRL::at(n), 0);
        self.write(RXDCTL::at(n), RXDCTL::ENABLE | control);
        assert_ne!(self.device.read(RXDCTL::at(n)) & RXDCTL::ENABLE, 0);
        for _ in 0..RING - 1 {
            self.refill(n);
        }
        self.ring_rx(n);
    }

    fn enable_tx(&mut self, n: usize) {
        self.write(TDBAL::at(n), tx_ring(n) as u32);
        self.write(TDBAH::at(n), (tx_ring(n) >> 32) as u32);
        self.write(TDLEN::at(n), 16 * RING as u32);
        self.write(TXDCTL::at(n), TXDCTL::ENABLE);
        assert_ne!(self.device.read(TXDCTL::at(n)) & TXDCTL::ENABLE, 0);
    }

    fn write(&mut self, offset: u32, value: u32) {
        if !self.left_out.contains(&offset) {
            self.device.write(offset, value);
        }
    }

    fn read(&mut self, offset: u32) -> u32 {
        if self.left_out.contains(&offset) { 0 } else { self.device.read(offset) }
    }

    /// Steps until nothing moves; the clock runs on.
    fn step(&mut self) -> usize {
        let mut moved = 0;
        for _ in 0..1000 {
            self.now += 100_000;
            match self.device.step(&mut self.cable, self.now) {
                0 => return moved,
                more => moved += more,
            }
        }
        panic!("never idle");
    }

    /// Gives the device one more buffer.
    fn refill(&mut self, n: usize) {
        let at = self.rx_tail[n] % RING;
        self.memory.store(rx_ring(n) + 16 * at, rx_buffer(n, at));
        self.memory.store(rx_ring(n) + 16 * at + 8, 0);
        self.rx_tail[n] += 1;
    }

    /// The doorbell: a store to a page that both sides see.
    fn ring_rx(&mut self, n: usize) {
        crate::Pages::store(&self.bar, RDT::at(n), (self.rx_tail[n] % RING) as u32);
    }

    /// Takes the next descriptor's data, if it is done, and refills it.
    fn receive(&mut self, n: usize) -> Option<Received> {
        let at = self.rx_next[n] % RING;
        let high = self.memory.load(rx_ring(n) + 16 * at + 8);
        if high & 1 == 0 {
            return None;
        }
        let low = self.memory.load(rx_ring(n) + 16 * at);
        let data = self.memory.bytes(rx_buffer(n, at), (high >> 32 & 0xFFFF) as usize);
        self.rx_next[n] += 1;
        self.refill(n);
        self.ring_rx(n);
        Some(Received { data, low, high })
    }

    /// Queues one descriptor.
    fn put(&mut self, n: usize, words: [u64; 2]) -> u64 {
        let at = tx_ring(n) + 16 * (self.tx_tail[n] % RING);
        self.memory.store(at, words[0]);
        self.memory.store(at + 8, words[1]);
        self.tx_tail[n] += 1;
        at
    }

    /// Queues `data` as one data descriptor with `command` bits beside those
    /// that every last one has.
    fn put_data(&mut self, n: usize, data: &[u8], command: u64) -> u64 {
        use descriptor::tx;
        let buffer = tx_buffer(n, self.tx_tail[n]);
        assert!(crate::Dma::write(&self.memory, buffer, data));
        let len = data.len() as u64;
        let paylen = if command >> tx::PAYLEN_SHIFT == 0 { len << tx::PAYLEN_SHIFT } else { 0 };
        let command = command | tx::DTYP_DATA | tx::DEXT | tx::IFCS | tx::EOP | paylen;
        self.put(n, [buffer, command | len])
    }

    fn ring_tx(&mut self, n: usize) {
        crate::Pages::store(&self.bar, TDT::at(n), (self.tx_tail[n] % RING) as u32);
    }

    /// What the host has sent since the last time.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        self.step();
        std::mem::take(&mut self.cable.from_host)
    }

    /// All frames are accounted for: offered = delivered + lost by name + waiting.
    fn balance(&mut self) {
        let totals = self.device.totals();
        let drops = *self.device.drops();
        let (rx, tx) = self.device.offered();
        assert_eq!(rx, totals.rx_packets + drops.rx() + self.device.waiting() as u64, "{drops:?}");
        assert_eq!(tx, totals.tx_packets + drops.tx(), "{drops:?}");
    }

    fn linted(&self, rule: Rule) -> bool {
        self.device.lint().count(rule) > 0
    }
}

const MAC: [u8; 6] = [0x02, 0x49, 0x58, 0x00, 0x00, 0x01];

fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    // As RFC 1071 says it, in network order and one word at a time.
    let bytes: Vec<u8> = parts.concat();
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from);
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// An IPv4 packet of `protocol` whose transport part is `l4`, its checksums
/// right; `field` is where the transport's is.
fn ipv4(protocol: u8, source: [u8; 4], l4: &[u8], field: usize) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0];
    ip.extend(source);
    ip.extend([10, 0, 0, 9]);
    ip[2..4].copy_from_slice(&(20 + l4.len() as u16).to_be_bytes());
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum);
    let mut l4 = l4.to_vec();
    let pseudo = [&ip[12..20], &[0, protocol], &(l4.len() as u16).to_be_bytes()].concat();
    let sum = checksum(&[&pseudo, &l4]);
    l4[field..field + 2].copy_from_slice(&sum);
    let mut frame = [&MAC[..], &[2, 0, 0, 0, 0, 2, 8, 0], &ip, &l4].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn udp(source: [u8; 4], ports: [u16; 2], payload: usize) -> Vec<u8> {
    let mut l4 =
        [ports[0].to_be_bytes(), ports[1].to_be_bytes(), (8 + payload as u16).to_be_bytes(), [0; 2]].concat();
    l4.extend((0..payload).map(|n| n as u8));
    ipv4(17, source, &l4, 6)
}

fn tcp(payload: usize) -> Vec<u8> {
    let mut l4 = vec![0x30, 0x39, 0, 80, 0, 0, 0x10, 0, 0, 0, 0, 1, 0x50, 0x19, 0x20, 0, 0, 0, 0, 0];
    l4.extend((0..payload).map(|n| (n * 7) as u8));
    ipv4(6, [10, 0, 0, 1], &l4, 16)
}

/// Puts a tag into a frame.
fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &tag.to_be_bytes(), &frame[12..]].concat()
}
