//! Sends UDP packets: pre-filled, so that the loop only writes a sequence number
//! and a source port.

use std::net::Ipv4Addr;

use port::{Batch, Feature, Packet, Pool, TxQueue};
use runtime::{Instant, Poller, Queue};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::ip::port::DISCARD;
use wire::outer::{Outer, PerPacket};
use wire::{MacAddress, ipv4, udp};

use crate::rate::Rate;
use crate::vlan::Tagging;
use crate::{Failure, cli, open, run, signal};

/// Where the UDP header begins, with the source port.
const UDP: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
/// Where the payload begins.
const PAYLOAD: usize = UDP + udp::HEADER_LEN;

/// One transmit queue's generator.
struct Generator {
    tx: Box<dyn TxQueue>,
    /// A frame of each size.
    templates: Vec<Vec<u8>>,
    /// Which of them is sent, over and over.
    cycle: &'static [u8],
    flows: u16,
    sequence: u64,
    /// Packets this generator may still send.
    left: u64,
    pace: Pace,
}

/// Sends so many packets per TSC tick, catching up at most one batch.
struct Pace {
    per_tick: Option<f64>,
    last: Instant,
    credit: f64,
}

impl Pace {
    fn new(rate: Option<f64>) -> Pace {
        let per_tick = rate.map(|rate| rate / bus::tsc::hz() as f64);
        Pace { per_tick, last: Instant::now(), credit: 0.0 }
    }

    /// How many packets of up to `most` are due now.
    fn due(&mut self, now: Instant, most: usize) -> usize {
        let Some(per_tick) = self.per_tick else { return most };
        let ticks = now.ticks().saturating_sub(self.last.ticks());
        self.credit = (self.credit + ticks as f64 * per_tick).min(most as f64);
        self.last = now;
        self.credit as usize
    }

    fn spend(&mut self, packets: usize) {
        self.credit -= packets as f64;
    }
}

impl Poller for Generator {
    fn turn(&mut self, now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize {
        let due = self.pace.due(now, batch.room()).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if due == 0 {
            self.tx.clean(pool);
            return 0;
        }
        if pool.alloc_batch(batch, due) == 0 {
            self.tx.clean(pool);
        }
        for packet in batch.iter_mut() {
            let turn = (self.sequence % self.cycle.len() as u64) as usize;
            let template = &self.templates[usize::from(self.cycle[turn])];
            fill(packet, template, self.sequence, self.flows);
            self.sequence += 1;
        }
        let sent = self.tx.send(pool, batch);
        // Not lost: those the ring had no room for were not sent yet.
        self.sequence -= batch.len() as u64;
        pool.free_batch(batch);
        self.pace.spend(sent);
        self.left -= sent as u64;
        sent
    }

    fn queues<'a>(&'a mut self, visit: &mut dyn FnMut(Queue<'a>)) {
        visit(Queue::Tx(&mut *self.tx));
    }

    fn retries(&self) -> bool {
        true
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

/// Writes the packet: the template, its flow and its number.
fn fill(packet: &mut Packet, template: &[u8], sequence: u64, flows: u16) {
    if packet.copy_from(template).is_err() {
        return; // the size was checked against the buffer's
    }
    let port = 1024_u16.wrapping_add((sequence % u64::from(flows.max(1))) as u16);
    packet[UDP..UDP + 2].copy_from_slice(&port.to_be_bytes());
    if let Some(number) = packet.get_mut(PAYLOAD..PAYLOAD + 8) {
        number.copy_from_slice(&sequence.to_be_bytes());
    }
}

/// An Ethernet frame of `size` bytes, CRC included in the count but not in the
/// frame: IPv4, UDP without checksum (RFC 768 allows that over IPv4).
fn template(from: MacAddress, to: MacAddress, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size - 4];
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let link = ethernet::Repr { dst: to, src: from, ethertype: EtherType::IPV4 };
    let ip = ipv4::Repr::between(src, dst, Protocol::UDP, 0);
    let headers = Outer::<PAYLOAD>::new().ethernet(&link).and_then(|outer| outer.ipv4(&ip));
    let headers = headers.and_then(|outer| outer.udp(0, DISCARD)).expect("they are so long");
    headers.write(&mut bytes, size - 4 - PAYLOAD, PerPacket::default());
    bytes
}

/// `ixora pktgen A`.
pub fn run(arguments: &cli::Pktgen) -> Result<(), Failure> {
    let (sizes, cycle) = arguments.size.cycle();
    // The largest frame without CRC must fit, or the device would not send it.
    let largest = sizes.iter().max().map_or(0, |size| size - 4);
    let mut options = cli::PortOptions { count: None, ..arguments.port.clone() };
    options.open.max_frame = options.open.max_frame.max(largest);
    let options = &options;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a], options, &stop)?;
    let from = MacAddress(ports.mac(0));
    let to = arguments.to.unwrap_or(MacAddress::BROADCAST);
    let inserts = ports.list[0].capabilities().has(Feature::VlanInsert);
    let queues = options.open.tx_queues as u64;
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for n in 0..queues {
        let count = arguments.port.count.map(|count| count / queues + u64::from(n < count % queues));
        let Rate(rate) = arguments.rate;
        let tx = ports.tx(0, n as usize)?;
        pollers.push(Box::new(Generator {
            tx: match arguments.vlan {
                Some(tag) => Box::new(Tagging { tx, tag, by_device: inserts }),
                None => tx,
            },
            templates: sizes.iter().map(|&size| template(from, to, size)).collect(),
            cycle,
            flows: arguments.flows,
            sequence: 0,
            left: count.unwrap_or(u64::MAX),
            pace: Pace::new(rate.map(|rate| rate / queues as f64)),
        }));
    }
    run::run("pktgen", ports, pollers, options, &stop)
}
