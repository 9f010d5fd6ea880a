//! What a packet costs the model alone, on one core with memory of its own:
//! receive only, and receive with transmit. Prints nanoseconds a packet; the
//! time a trivial driver takes is measured and taken off.

use std::time::Instant;

use model::fixture::{Bar, Memory, Source};
use model::ixgbe::{Ixgbe, Options};
use model::{Dma, Pages};
use regs::ixgbe::*;

const RING: u32 = 512;
const IOVA: u64 = 0x100_0000;
const RX_RING: u64 = IOVA;
const TX_RING: u64 = IOVA + 0x4000;
const BUFFERS: u64 = IOVA + 0x1_0000;
const BATCH: u32 = 32;
const PACKETS: u64 = 40_000_000;

/// A UDP packet of 64 bytes on the wire.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..14].copy_from_slice(&[2, 0x49, 0x58, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    frame[14..34]
        .copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0x66, 0xbd, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..42].copy_from_slice(&[0, 1, 0, 2, 0, 26, 0xeb, 0xb4]);
    frame
}

struct Bench {
    device: Ixgbe<Memory, Bar>,
    memory: Memory,
    bar: Bar,
    wire: Source,
    next: u32,
    tx: u32,
    now: u64,
}

fn bring_up(rss: bool) -> Bench {
    let (memory, bar) = (Memory::new(IOVA, 4 << 20), Bar::default());
    let mut device = Ixgbe::new(memory.clone(), bar.clone(), &Options::default());
    for (offset, value) in [
        (FCTRL::AT, FCTRL::UPE | FCTRL::MPE | FCTRL::BAM),
        (HLREG0::AT, HLREG0::TXCRCEN | HLREG0::RXCRCSTRP | HLREG0::TXPADEN),
        (RDRXCTL::AT, RDRXCTL::CRCSTRIP | RDRXCTL::DMAIDONE),
        (RXCSUM::AT, RXCSUM::PCSD),
        (MRQC::AT, if rss { MRQC::MRQE_RSS | MRQC::RSS_FIELD_IPV4 | MRQC::RSS_FIELD_IPV4_UDP } else { 0 }),
        (RSSRK::at(0), 0x1234_5678),
        (RDBAL::at(0), RX_RING as u32),
        (RDLEN::at(0), RING * 16),
        (SRRCTL::at(0), SRRCTL::DESCTYPE_ADV_ONE_BUFFER | 2),
        (RXDCTL::at(0), RXDCTL::ENABLE),
        (RXCTRL::AT, RXCTRL::RXEN),
        (DMATXCTL::AT, DMATXCTL::TE),
        (TDBAL::at(0), TX_RING as u32),
        (TDLEN::at(0), RING * 16),
        (TXDCTL::at(0), TXDCTL::ENABLE),
    ] {
        device.write(offset, value);
    }
    for n in 0..u64::from(RING) {
        memory.store(RX_RING + 16 * n, BUFFERS + 2048 * n);
    }
    bar.store(RDT::at(0), RING - 1);
    let wire = Source { frame: frame(60), left: u64::MAX, sunk: 0 };
    Bench { device, memory, bar, wire, next: 0, tx: 0, now: 0 }
}

impl Bench {
    /// The driver: takes up to a batch, and sends it on if asked.
    fn forward_batch(&mut self, forward: bool) -> u32 {
        let mut count = 0;
        while count < BATCH {
            let at = RX_RING + 16 * u64::from(self.next);
            if self.memory.load(at + 8) & 1 == 0 {
                break;
            }
            let buffer = BUFFERS + 2048 * u64::from(self.next);
            if forward {
                let to = TX_RING + 16 * u64::from(self.tx);
                self.memory.store(to, buffer);
                let report = if count + 1 == BATCH { 1 << 27 } else { 0 };
                self.memory.store(to + 8, 60 | 3 << 20 | 1 << 24 | 1 << 25 | 1 << 29 | 60 << 46 | report);
                self.tx = (self.tx + 1) % RING;
            }
            self.memory.store(at, buffer);
            self.memory.store(at + 8, 0);
            self.next = (self.next + 1) % RING;
            count += 1;
        }
        if count > 0 {
            self.bar.store(RDT::at(0), (self.next + RING - 1) % RING);
            if forward {
                self.bar.store(TDT::at(0), self.tx);
            }
        }
        count
    }

    /// Nanoseconds of the model alone for each packet received.
    fn run(&mut self, forward: bool) -> f64 {
        let (mut packets, mut spent) = (0u64, 0u128);
        // The link comes up 2 ms after power-on.
        self.now += 10_000_000;
        while packets < PACKETS {
            let mut burst = 0;
            let start = Instant::now();
            for _ in 0..4 {
                self.now += 500;
                burst += self.device.step(&mut self.wire, self.now);
            }
            spent += start.elapsed().as_nanos();
            assert!(burst > 0 || packets == 0, "stalled");
            loop {
                let count = self.forward_batch(forward);
                packets += u64::from(count);
                if count == 0 {
                    break;
                }
            }
        }
        spent as f64 / packets as f64
    }
}

fn main() {
    let only = std::env::args().nth(1);
    for (name, forward, rss) in
        [("receive", false, false), ("receive, RSS", false, true), ("receive and transmit", true, false)]
    {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let mut bench = bring_up(rss);
        bench.run(forward);
        let ns = bench.run(forward);
        let drops: Vec<_> = bench.device.drops().iter().filter(|drop| drop.1 > 0).collect();
        println!(
            "{name}: {ns:.1} ns a packet, {:.1} Mpps, sent {}, lost {drops:?}",
            1000.0 / ns,
            bench.wire.sunk
        );
        for group in bench.device.lint().findings().groups() {
            println!("  {group}");
        }
        assert!(bench.memory.generation() == 1);
    }
}
