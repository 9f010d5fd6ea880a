//! A packet's way into a tunnel in the paper's parts, each timed by itself for a batch: through
//! two passes, by the overlay's table, with that table in the NIC, and without a tunnel.

use std::net::Ipv4Addr;

use memory::{Packet, Pool};
use overlay::{Encapsulator, Sent};
use wire::ethernet;

use crate::figures::Spread;
use crate::overlay::subject::{PORT, Shim, destination, inner_packet, service_header};
use crate::overlay::two_passes::{Pass, TwoPasses, Version};
use crate::overlay::{BATCH, Keys, PACKETS, Subject, filled, send_by_overlay};
use crate::{Error, Result};

/// Parts of a way, in the order of the paper's figure 3; the last is what replaces those before it.
pub(super) const PARTS: [&str; 6] = ["inner", "tunnel", "encapsulation", "routing", "outer", "overlay FIB"];
const INNER: usize = 0;
const TUNNEL: usize = 1;
const ENCAPSULATION: usize = 2;
const ROUTING: usize = 3;
const OUTER: usize = 4;
const OVERLAY: usize = 5;

/// The ways, by their places in [`Row::parts`].
pub(super) const NONE: usize = 0;
pub(super) const NORMAL: usize = 1;
pub(super) const SOFTWARE: usize = 2;
pub(super) const OFFLOAD: usize = 3;
pub(super) const WAYS: usize = 4;

/// Ticks by way and part.
type Ticks = [[u64; PARTS.len()]; WAYS];

/// What a protocol's packets of one size cost: TSC cycles per packet.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// By way and part.
    pub(super) parts: [[Spread; PARTS.len()]; WAYS],
    /// By way, all parts together.
    pub(super) whole: [Spread; WAYS],
    /// Bytes of the frame with all headers, without CRC.
    pub(super) frame: usize,
}

/// Measures a row of packets that are frames of so many bytes without a tunnel, so many packets in
/// each of some windows.
pub(super) fn measure(
    subject: &Subject,
    (entries, size): (usize, usize),
    (packets, windows): (u64, usize),
) -> Result<Row> {
    let mut way = OverlayPath::new(subject, entries, size)?;
    let rounds = (packets as usize / PACKETS).max(1);
    way.window(1, &mut Ticks::default())?; // fills the caches
    let mut parts: [[Vec<f64>; PARTS.len()]; WAYS] = Default::default();
    let mut whole: [Vec<f64>; WAYS] = Default::default();
    for _ in 0..windows.max(1) {
        let mut ticks = Ticks::default();
        way.window(rounds, &mut ticks)?;
        let each = |ticks: u64| ticks as f64 / (rounds * PACKETS) as f64;
        for (n, ticks) in ticks.into_iter().enumerate() {
            parts[n].iter_mut().zip(ticks).for_each(|(figures, ticks)| figures.push(each(ticks)));
            whole[n].push(each(ticks.iter().sum()));
        }
    }
    Ok(Row {
        parts: parts.map(|parts| parts.map(Spread::of)),
        whole: whole.map(Spread::of),
        frame: way.frame,
    })
}

/// The tables of all ways, and packets, which are IP packets before they go.
struct OverlayPath {
    keys: Keys,
    inner: Pass<Ipv4Addr>,
    two: TwoPasses,
    sender: Encapsulator,
    shim: Shim,
    packets: Vec<Packet>,
    _pool: Pool,
    /// Bytes of the last frame that two passes made.
    frame: usize,
}

impl OverlayPath {
    fn new(subject: &Subject, entries: usize, size: usize) -> Result<OverlayPath> {
        let entries = subject.entries(entries);
        let mut table = subject.table(entries)?;
        let mut sender = table.encapsulator();
        table.publish();
        let inside = size.saturating_sub(ethernet::HEADER_LEN);
        // One packet that the overlay sends tells what the protocol has of its own.
        let (mut sample, _sampled) = filled(|_, flow| subject.packet(0, flow, size), 1)?;
        let first = sample.first_mut().ok_or_else(|| Error::new("there are no packets"))?;
        let shim = subject.shim(&mut sender, first)?;
        let two = TwoPasses::new(subject, &subject.network(), &shim, entries)?;
        let hosts = (0..entries as u64).map(|entry| (destination(entry), subject.station(entry)));
        let (packets, pool) = filled(|entry, flow| inner_packet(entry, flow, inside), entries)?;
        let inner = Pass::new(hosts)?;
        Ok(OverlayPath { keys: subject.keys, inner, two, sender, shim, packets, _pool: pool, frame: 0 })
    }

    /// Sends all packets so many times by each way.
    fn window(&mut self, rounds: usize, ticks: &mut Ticks) -> Result<()> {
        for round in 0..rounds {
            for (n, at) in (0..PACKETS).step_by(BATCH).enumerate() {
                // Whoever comes first reads packets that are no longer near: each in turn.
                for way in 0..WAYS {
                    let way = (way + n + round) % WAYS;
                    self.batch(way, at, &mut ticks[way])?;
                }
            }
        }
        Ok(())
    }

    fn batch(&mut self, way: usize, at: usize, ticks: &mut [u64; PARTS.len()]) -> Result<()> {
        let OverlayPath { keys, inner, two, sender, shim, packets, .. } = self;
        let packets = &mut packets[at..at + BATCH];
        let before = packets[0].len();
        let mut last = bus::tsc::now();
        let mut spend = |part: usize| {
            let now = bus::tsc::now();
            ticks[part] += now - last;
            last = now;
        };
        let routes = inner.route(packets);
        if way == NONE || *keys == Keys::Mac {
            inner.leave(packets, &routes);
        }
        spend(INNER);
        if way != NONE && *keys == Keys::Service {
            packets.iter_mut().for_each(put_service_header);
            spend(TUNNEL);
        }
        match way {
            NORMAL => {
                let mut first = [0; 2];
                two.first_pass_in_parts(packets, &mut first);
                spend(TUNNEL);
                let routes = two.route(packets);
                spend(ROUTING);
                two.leave(packets, &routes);
                spend(OUTER);
                ticks[TUNNEL] -= first[1].min(ticks[TUNNEL]);
                ticks[ENCAPSULATION] += first[1];
                self.frame = packets[0].len();
            }
            SOFTWARE => {
                let mut sent = [Sent::Punt; BATCH];
                send_by_overlay(sender, packets, &mut sent);
                spend(OVERLAY);
                if sent.iter().any(|sent| *sent != Sent::Port(PORT)) {
                    return Err(Error::new(format!("a packet was not sent: {:?}", sender.drops())));
                }
            }
            OFFLOAD if !shim.bytes.is_empty() => {
                put_shim(&shim.bytes, packets);
                spend(ENCAPSULATION);
            }
            _ => {}
        }
        take_away(&mut self.packets[at..at + BATCH], before)
    }
}

/// The header of the service path that leads to a packet's host.
fn put_service_header(packet: &mut Packet) {
    let host = Ipv4Addr::dst(packet).map_or(0, Ipv4Addr::to_bits);
    let header = service_header(u64::from(host.wrapping_sub(destination(0).to_bits())));
    if let Some(room) = packet.push_front(header.len()).ok().and_then(|room| room.first_chunk_mut()) {
        *room = header;
    }
}

/// The tunnel's own header, in front of which the NIC puts the others.
#[inline(never)]
fn put_shim(shim: &[u8], packets: &mut [Packet]) {
    for packet in packets {
        if let Ok(room) = packet.push_front(shim.len()) {
            room.copy_from_slice(shim);
        }
    }
}

/// Takes all away that stands in front of packets of so many bytes.
fn take_away(packets: &mut [Packet], before: usize) -> Result<()> {
    for packet in packets {
        let headers = packet.len() - before;
        packet.pull_front(headers).map_err(|error| Error::new(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::SUBJECTS;

    /// The ways put the same headers in front, and each part is where it belongs.
    #[test]
    fn a_way_is_the_sum_of_its_parts() {
        for subject in SUBJECTS {
            let row = measure(subject, (300, 64), (2048, 1)).expect(subject.name);
            let has = |way: usize| {
                let parts = row.parts[way].iter().enumerate();
                parts.filter(|(_, part)| part.median > 0.0).map(|(n, _)| n).collect::<Vec<_>>()
            };
            assert_eq!(has(NONE), [INNER], "{}", subject.name);
            assert_eq!(has(NORMAL), [INNER, TUNNEL, ENCAPSULATION, ROUTING, OUTER], "{}", subject.name);
            let is_nsh = subject.keys == Keys::Service;
            let software = if is_nsh { &[INNER, TUNNEL, OVERLAY][..] } else { &[INNER, OVERLAY] };
            assert_eq!(has(SOFTWARE), software, "{}", subject.name);
            for (parts, whole) in row.parts.iter().zip(row.whole) {
                let sum: f64 = parts.iter().map(|part| part.median).sum();
                assert!((sum - whole.median).abs() < 1e-6, "{}: {sum}, {whole:?}", subject.name);
            }
        }
    }

    #[test]
    fn frames_are_as_long_as_the_papers() {
        let frame = |name: &str| {
            let subject = SUBJECTS.iter().find(|subject| subject.name == name).expect("it is there");
            measure(subject, (300, 1024), (1024, 1)).expect(name).frame
        };
        // IPv4; and UDP, VXLAN, and Ethernet's header, which the packet inside keeps.
        assert_eq!([frame("IPIP"), frame("VXLAN")], [1024 + 20, 1024 + 14 + 20 + 8 + 8]);
        // The paper's NSH carries Ethernet frames, this one IP packets.
        assert_eq!(frame("NSH"), 1024 + 20 + 8 + 8 + 24);
    }
}
