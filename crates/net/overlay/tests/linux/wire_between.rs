//! Two hosts: here an inner network behind a TAP interface and our end of the tunnel, there
//! the kernel with its device, whose underlay is a TAP interface as well. Such an interface has
//! no offloads, so that the kernel cuts segments and fills in checksums itself, unless the inner
//! one is opened for long segments.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use interface::tap::TapPort;
use memory::{Batch, Dma, Packet, Pool, TxOffload};
use overlay::{Decapsulator, Drops, Encapsulator, Layer, Network, Overlay, Received, Route, Sent, Tunnel};
use port::{Options, Port, RxQueue, TxQueue};
use wire::MacAddress;
use wire::ethernet::{self, EtherType};

use crate::namespace::Namespace;

const NETWORK: u32 = 7;
const UNDERLAY: u16 = 1;
/// Our address on the underlay, and the one that the inner network's packets come from.
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x11]);
pub const THERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x22]);
const ROUTER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x33]);
pub const INNER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x44]);

/// Both hosts, with addresses on the underlay and nothing else yet.
pub struct Hosts {
    pub here: Namespace,
    pub there: Namespace,
    inner: Box<dyn Port>,
    outer: Box<dyn Port>,
}

impl Hosts {
    /// `None` where there may be no namespaces.
    pub fn new() -> Option<Hosts> {
        Hosts::with_inner("in0")
    }

    /// With an interface of the inner network that is opened by this name.
    pub fn with_inner(name: &'static str) -> Option<Hosts> {
        let (here, there) = (Namespace::new()?, Namespace::new()?);
        let open = |name: &'static str| {
            let port = TapPort::open(name, &Options { max_frame: 1600, ..Options::default() });
            Box::new(port.expect("it opens")) as Box<dyn Port>
        };
        let inner = here.run(move || open(name));
        let outer = there.run(move || open("un0"));
        there.ip(&format!("link set un0 address {THERE} mtu 1500"));
        there.ip("address add 192.0.2.2/24 dev un0");
        there.ip("address add 2001:db8::2/64 dev un0 nodad");
        there.ip(&format!("neighbor replace 192.0.2.1 lladdr {OWN} nud permanent dev un0"));
        there.ip(&format!("neighbor replace 2001:db8::1 lladdr {OWN} nud permanent dev un0"));
        here.ip(&format!("link set in0 address {INNER}"));
        Some(Hosts { here, there, inner, outer })
    }

    /// Gives the inner network's interface here and a device there addresses of one network
    /// for both versions of IP, and this length of packets.
    pub fn address(&self, device: &str, mtu: usize, is_bridged: bool) {
        for (host, name, last) in [(&self.here, "in0", 1), (&self.there, device, 2)] {
            host.ip(&format!("link set {name} mtu {mtu} up"));
            host.ip(&format!("address add 10.7.0.{last}/24 dev {name}"));
            host.ip(&format!("address add fd07::{last}/64 dev {name} nodad"));
        }
        if !is_bridged {
            // The far end answers no question for an Ethernet address.
            for address in ["10.7.0.2", "fd07::2"] {
                self.here.ip(&format!("neighbor replace {address} lladdr {ROUTER} nud permanent dev in0"));
            }
        }
    }

    /// Lets packets go to and fro by these tunnels until the end: sent by the first, received
    /// by the second as if it were ours.
    pub fn join(self, layer: Layer, sent_by: &Tunnel, received_by: &Tunnel) -> Joined {
        let mut table = Overlay::new();
        table.set_port(UNDERLAY, Some(overlay::Port { mac: OWN, mtu: 1500, vlan: None, is_up: true }));
        for (any, gateway) in [("0.0.0.0", "192.0.2.2"), ("::", "2001:db8::2")] {
            let gateway = gateway.parse().unwrap();
            let route = Route { port: UNDERLAY, gateway: Some(gateway) };
            table.set_route((any.parse().unwrap(), 0), Some(route)).unwrap();
            table.set_neighbor(UNDERLAY, gateway, Some(THERE));
        }
        table.add_network(NETWORK, Network::point_to_point(layer)).unwrap();
        table.insert(NETWORK, 0, sent_by.clone()).unwrap();
        table.add_end(NETWORK, received_by, false).unwrap();
        let (sender, receiver) = (table.encapsulator(), table.decapsulator());
        table.publish();
        let Hosts { here, there, mut inner, mut outer } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let mut ways = Ways {
            layer,
            inner: (inner.rx_queue(0).unwrap(), inner.tx_queue(0).unwrap()),
            outer: (outer.rx_queue(0).unwrap(), outer.tx_queue(0).unwrap()),
            sender,
            receiver,
            pool: Pool::new(&Dma::new(memory::Options::default()), 8192).unwrap(),
            cut: 0,
        };
        let is_over = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                if ways.inward() + ways.outward() == 0 {
                    thread::sleep(std::time::Duration::from_micros(50));
                }
            }
            (*ways.sender.drops(), *ways.receiver.drops(), ways.cut)
        });
        Joined { here, there, stop, thread, _ports: [inner, outer] }
    }
}

/// Two hosts with packets going to and fro.
pub struct Joined {
    pub here: Namespace,
    pub there: Namespace,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Drops, Drops, u64)>,
    _ports: [Box<dyn Port>; 2],
}

impl Joined {
    /// What was dropped in sending and in receiving.
    pub fn end(self) -> (Drops, Drops) {
        let (sending, receiving, _) = self.end_with_cut();
        (sending, receiving)
    }

    /// As [`end`](Self::end), and how many long segments were cut.
    pub fn end_with_cut(self) -> (Drops, Drops, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("packets went to and fro")
    }
}

/// The ways of packets between the interfaces.
struct Ways {
    layer: Layer,
    inner: (Box<dyn RxQueue>, Box<dyn TxQueue>),
    outer: (Box<dyn RxQueue>, Box<dyn TxQueue>),
    sender: Encapsulator,
    receiver: Decapsulator,
    pool: Pool,
    /// Long segments that were cut.
    cut: u64,
}

impl Ways {
    /// From the inner network into the tunnel.
    fn outward(&mut self) -> usize {
        let mut batch = Batch::with_limit(32);
        let came = self.inner.0.recv(&mut self.pool, &mut batch);
        let mut packets: Vec<Packet> = batch.drain().collect();
        if self.layer == Layer::Ip {
            // What is no IP packet is the kernel's own business with its neighbours.
            packets.retain(|packet| {
                let ethertype = ethernet::Header::of(packet).map(|header| header.ethertype());
                matches!(ethertype, Some(EtherType::IPV4 | EtherType::IPV6))
            });
            for packet in &mut packets {
                packet.pull_front(ethernet::HEADER_LEN).unwrap();
                let asked = packet.tx_offload();
                if !asked.is_empty() {
                    packet.set_tx_offload(TxOffload { l2_len: asked.l2_len - 14, ..asked });
                }
            }
        }
        let mut sent = vec![Sent::Punt; packets.len()];
        self.sender.encapsulate(NETWORK, &mut packets, &mut sent);
        let kept = packets.into_iter().zip(sent).filter(|(_, sent)| *sent == Sent::Port(UNDERLAY));
        for (packet, _) in kept {
            if !packet.tx_offload().has(TxOffload::SEGMENT) {
                drop(batch.push(packet));
                continue;
            }
            self.cut += 1;
            let outer = &mut self.outer.1;
            let cut = port::software::cut(&packet, &mut self.pool, |pool, piece| {
                if let Some(piece) = batch.push(piece) {
                    give(outer, pool, &mut batch);
                    drop(batch.push(piece));
                }
            });
            assert!(cut.is_whole, "{cut:?}");
            self.pool.free(packet);
        }
        give(&mut self.outer.1, &mut self.pool, &mut batch);
        came
    }

    /// Out of the tunnel into the inner network.
    fn inward(&mut self) -> usize {
        let mut batch = Batch::with_limit(32);
        let came = self.outer.0.recv(&mut self.pool, &mut batch);
        let mut packets: Vec<Packet> = batch.drain().collect();
        let mut received = vec![Received::Other; packets.len()];
        self.receiver.decapsulate(&mut packets, &mut received);
        for (mut packet, received) in packets.into_iter().zip(received) {
            if received != Received::Network(NETWORK) {
                continue; // the kernel's own talk on the underlay
            }
            if self.layer == Layer::Ip {
                let ethertype = if packet[0] >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
                let header = ethernet::Header::between(INNER, ROUTER, ethertype).into_inner();
                packet.push_front(header.len()).unwrap().copy_from_slice(&header);
            }
            drop(batch.push(packet));
        }
        give(&mut self.inner.1, &mut self.pool, &mut batch);
        came
    }
}

/// Sends all that an interface takes.
fn give(tx: &mut Box<dyn TxQueue>, pool: &mut Pool, batch: &mut Batch) {
    tx.send(pool, batch);
    tx.clean(pool);
    pool.free_batch(batch);
}
