//! Packets that a port's NIC puts into their tunnels: marked with their network they leave at once,
//! and those that the NIC has no entry for come back and go by the table here.

use memory::{Batch, Packet, Pool};
use overlay::{Layer, Mark, Sent, given_back};

use super::send::Sending;
use super::{InnerQueues, Lane, UnderlayQueues};
use crate::counters::Side;
use crate::offload::NicPlaces;

/// Marks packets of a network's port and lets them leave; those that cannot be stay in the batch,
/// for software.
pub(super) fn leave_to_nic(
    (places, place): (&NicPlaces, usize),
    layer: Layer,
    underlay: &mut [UnderlayQueues],
    counters: &Side,
    batch: &mut Batch,
    (kept, pool): (&mut Batch, &mut Pool),
) {
    let (Some(network), Some(port)) = (places.of(place), underlay.get_mut(usize::from(places.port))) else {
        return;
    };
    let mark = Mark::new(port.host.mac, network, layer);
    for mut packet in batch.drain() {
        // What is asked of a NIC, and why a packet cannot go, the table knows better.
        match packet.tx_offload().is_empty() && mark.put(&mut packet).is_ok() {
            true => {
                counters.forward();
                port.ends.push(packet, pool);
            }
            false => drop(kept.push(packet)),
        }
    }
    let left = kept.len();
    batch.take_from(kept, left);
}

/// The place of the network's port of a packet that the NIC gives back, which is then as it came.
fn inner_of(places: &NicPlaces, inner: &[InnerQueues], packet: &mut Packet) -> Option<usize> {
    // It is looked up once: what lanes are told may change meanwhile.
    let mut came = None;
    given_back(packet, |place| {
        came = places.inner(place);
        Some(inner.get(came?)?.gateway.layer)
    })?;
    came
}

impl Lane {
    /// Sends a packet by the table here that the NIC of an underlay's port gave back. Gives back any
    /// other.
    #[cold]
    pub(super) fn take_back(&mut self, place: usize, mut packet: Packet, pool: &mut Pool) -> Option<Packet> {
        let Some(places) = self.nic.as_ref().filter(|nic| usize::from(nic.port) == place) else {
            return Some(packet);
        };
        let Some(came) = inner_of(places, &self.inner, &mut packet) else { return Some(packet) };
        self.counters.underlay[place].give_back();
        let (inner, counters) = (&mut self.inner[came], &self.counters.inner[came]);
        counters.return_one();
        let mut sent = [Sent::Punt];
        self.sender.encapsulate(inner.network, std::slice::from_mut(&mut packet), &mut sent);
        let (sender, underlay) = (&mut self.sender, &mut self.underlay[..]);
        Sending { sender, inner, underlay, counters, now: self.now }.end(packet, sent[0], pool);
        None
    }
}
