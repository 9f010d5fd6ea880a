//! What sending into tunnels costs, by the overlay's table and by two passes through a
//! stack, and what receiving costs: cycles per packet of one core, as in Figures 3 and 7 of
//! Nakamura et al., *Protocol-Independent FIB Architecture for Network Overlays* (2016).
//!
//! Two passes are the parts of this project that a router is made of: the tunnel is looked
//! up by the packet's identifier and its headers up to IP are copied in front (the first
//! pass), then the outer destination is looked up among the routes, the next hop among the
//! neighbours, and Ethernet's header is put in front (the second). Neither has a router's
//! elements, checks or counters, so that the second way is not made slow by what the first
//! does without. Beside both is what is left of sending where the NIC has the table: a mark in front
//! of the packet (decision 30).

use std::time::Instant;

use fib::synthetic::Random;
use memory::{Dma, Packet, Pool};
use overlay::{Decapsulator, Encapsulator, Mark, Received, Sent};
use serde::Serialize;
use wire::encap_tag;

use crate::figures::Spread;
use crate::{Error, Result};
use subject::{NETWORK, OWN, PORT, restore};
use two_passes::{TwoPasses, strip};

pub(crate) mod subject;
pub(crate) mod two_passes;

pub use subject::{Keys, OF_PAPER, SUBJECTS, Subject};

/// Packets in a call.
pub(crate) const BATCH: usize = 32;
/// Packets that are sent again and again: some hundred KiB.
pub(crate) const PACKETS: usize = 1024;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The protocol of the tunnels.
    pub subject: Subject,
    /// Entries of the table; one for protocols with one far end.
    pub entries: usize,
    /// Bytes of the packet inside, with Ethernet's header where it has one.
    pub size: usize,
    /// Windows of each figure.
    pub windows: usize,
}

/// A line of the table: TSC cycles per packet.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The protocol, as the overlay names it.
    pub protocol: &'static str,
    /// Entries of the table.
    pub entries: usize,
    /// Bytes of the packet inside.
    pub size: usize,
    /// The first pass: which tunnel, and its headers up to IP.
    pub first_pass: Spread,
    /// The second: route, neighbour, Ethernet's header.
    pub second_pass: Spread,
    /// Both passes, one after the other.
    pub two_passes: Spread,
    /// The overlay's table.
    pub overlay: Spread,
    /// Marking a packet for a NIC that has the table.
    pub offload: Spread,
    /// Receiving: checks, the tunnel's end, and the headers taken away.
    pub receive: Spread,
    /// Seconds until all entries were there and published.
    pub load_s: f64,
    /// Instructions of the overlay for each packet that is sent, by callgrind.
    pub send_instructions: Option<f64>,
    /// Instructions of the overlay for each packet that is received, by callgrind.
    pub receive_instructions: Option<f64>,
}

/// Measures one row.
///
/// # Errors
/// When there is no memory, or a packet does not take its way.
pub fn measure(setup: &Setup) -> Result<Row> {
    let mut rig = Rig::new(setup)?;
    let mut figures: [Vec<f64>; 6] = Default::default();
    rig.window(&mut [0; 5])?; // fills the caches
    for _ in 0..setup.windows.max(1) {
        let mut ticks = [0; 5];
        let packets = rig.window(&mut ticks)? as f64;
        let each = ticks.map(|ticks| ticks as f64 / packets);
        let [first, second, overlay, offload, receive] = each;
        let all = [first, second, first + second, overlay, offload, receive];
        figures.iter_mut().zip(all).for_each(|(figures, figure)| figures.push(figure));
    }
    let [first_pass, second_pass, two_passes, overlay, offload, receive] = figures.map(Spread::of);
    Ok(Row {
        protocol: setup.subject.protocol,
        entries: rig.entries,
        size: setup.size,
        first_pass,
        second_pass,
        two_passes,
        overlay,
        offload,
        receive,
        load_s: rig.load_s,
        send_instructions: None,
        receive_instructions: None,
    })
}

/// Sends so many packets untimed and receives them, in whole batches: for callgrind.
///
/// # Errors
/// As [`measure`].
pub fn pass(setup: &Setup, packets: u64) -> Result<()> {
    let mut rig = Rig::new(setup)?;
    (0..packets as usize / BATCH).try_for_each(|n| rig.batch(n * BATCH % PACKETS, &mut [0; 5]))
}

/// Tables of both ways, and packets.
struct Rig {
    subject: Subject,
    entries: usize,
    load_s: f64,
    sender: Encapsulator,
    receiver: Decapsulator,
    two: TwoPasses,
    mark: Mark,
    packets: Vec<Packet>,
    _pool: Pool,
}

impl Rig {
    fn new(setup: &Setup) -> Result<Rig> {
        let subject = setup.subject;
        let entries = subject.entries(setup.entries);
        let begin = Instant::now();
        let mut table = subject.table(entries)?;
        let (mut sender, receiver) = (table.encapsulator(), table.decapsulator());
        table.publish();
        let load_s = begin.elapsed().as_secs_f64();
        let (mut packets, pool) = filled(|entry, flow| subject.packet(entry, flow, setup.size), entries)?;
        let first = packets.first_mut().ok_or_else(|| Error::new("there are no packets"))?;
        let shim = subject.shim(&mut sender, first)?;
        let two = TwoPasses::new(&subject, &subject.network(), &shim, entries)?;
        let mark = Mark::new(OWN, 0, subject.network().layer);
        Ok(Rig { subject, entries, load_s, sender, receiver, two, mark, packets, _pool: pool })
    }

    /// Sends all packets some times in both ways and receives them: how many, and the ticks
    /// of the first and the second pass, the overlay, marking for a NIC, and receiving.
    fn window(&mut self, ticks: &mut [u64; 5]) -> Result<usize> {
        const ROUNDS: usize = 40;
        for _ in 0..ROUNDS {
            (0..PACKETS).step_by(BATCH).try_for_each(|at| self.batch(at, ticks))?;
        }
        Ok(ROUNDS * PACKETS)
    }

    /// As [`window`](Self::window), of one batch.
    fn batch(&mut self, at: usize, ticks: &mut [u64; 5]) -> Result<()> {
        let packets = &mut self.packets[at..at + BATCH];
        let mut before = [0; BATCH];
        for (before, packet) in before.iter_mut().zip(packets.iter()) {
            *before = packet.len();
        }
        let start = bus::tsc::now();
        self.two.first_pass(packets);
        let middle = bus::tsc::now();
        self.two.second_pass(packets);
        let end = bus::tsc::now();
        strip(packets, &before)?;
        let offload = bus::tsc::now();
        let marked = leave_to_nic(&self.mark, packets);
        let offload_end = bus::tsc::now();
        if marked != BATCH {
            return Err(Error::new("a packet has no room for a mark"));
        }
        for packet in &mut *packets {
            packet.pull_front(encap_tag::HEADER_LEN).map_err(|error| Error::new(error.to_string()))?;
        }
        restore(packets, self.subject.keys);
        let mut sent = [Sent::Punt; BATCH];
        let overlay = bus::tsc::now();
        send_by_overlay(&mut self.sender, packets, &mut sent);
        let overlay_end = bus::tsc::now();
        if sent.iter().any(|sent| *sent != Sent::Port(PORT)) {
            return Err(Error::new(format!("a packet was not sent: {:?}", self.sender.drops())));
        }
        let mut received = [Received::Other; BATCH];
        let receive = bus::tsc::now();
        receive_by_overlay(&mut self.receiver, packets, &mut received);
        let receive_end = bus::tsc::now();
        if received.iter().any(|received| *received != Received::Network(NETWORK)) {
            return Err(Error::new(format!("a packet was not received: {:?}", self.receiver.drops())));
        }
        restore(packets, self.subject.keys);
        let spent = [
            middle - start,
            end - middle,
            overlay_end - overlay,
            offload_end - offload,
            receive_end - receive,
        ];
        ticks.iter_mut().zip(spent).for_each(|(sum, spent)| *sum += spent);
        Ok(())
    }
}

/// Packets, each with the identifier of some entry, and the pool that they are of.
pub(crate) fn filled(packet: impl Fn(u64, u16) -> Vec<u8>, entries: usize) -> Result<(Vec<Packet>, Pool)> {
    let mut pool = Pool::new(&Dma::new(memory::Options::default()), PACKETS)?;
    let mut random = Random::new(1);
    let mut packets: Vec<Packet> = pool.fresh(PACKETS).collect();
    for (n, place) in packets.iter_mut().enumerate() {
        let bytes = packet(random.below(entries as u64), n as u16);
        place.copy_at(memory::HEADROOM, &bytes).map_err(|error| Error::new(error.to_string()))?;
    }
    Ok((packets, pool))
}

/// Not inlined, so that callgrind can tell it by name.
#[inline(never)]
pub(crate) fn send_by_overlay(sender: &mut Encapsulator, packets: &mut [Packet], sent: &mut [Sent]) {
    sender.encapsulate(NETWORK, packets, sent);
}

/// Marks packets for a NIC: how many. Not inlined, as above.
#[inline(never)]
fn leave_to_nic(mark: &Mark, packets: &mut [Packet]) -> usize {
    packets.iter_mut().map(|packet| usize::from(mark.put(packet).is_ok())).sum()
}

/// Not inlined, as above.
#[inline(never)]
fn receive_by_overlay(receiver: &mut Decapsulator, packets: &mut [Packet], received: &mut [Received]) {
    receiver.decapsulate(packets, received);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_goes_both_ways() {
        for subject in SUBJECTS {
            for size in [64, 1500] {
                let setup = Setup { subject: *subject, entries: 300, size, windows: 1 };
                let row = measure(&setup).unwrap_or_else(|error| panic!("{}: {error}", subject.name));
                assert!(row.overlay.median > 0.0 && row.offload.median > 0.0);
                assert!(row.two_passes.median > row.first_pass.median);
                assert_eq!(row.entries, if subject.keys == Keys::One { 1 } else { 300 });
            }
        }
    }
}
