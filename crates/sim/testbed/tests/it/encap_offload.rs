//! The table of tunnels in the device (decision 30), on every model: what leaves is what software would
//! send, whatever changes meanwhile, and what the device does not hold comes back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bus::Pci;
use fib::exact::Extractor;
use memory::{Batch, Dma, Packet, Pool};
use overlay::{
    Encapsulator, Layer, Mark, Network, NicCounts, NicTable, Overlay, Protocol, Route, Sent, Tunnel, Unknown,
    given_back,
};
use port::{Feature, Options, Port, Reason, RxQueue, Support, TxQueue};
use regs::encap as reg;
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::models::Setup;
use testbed::wire::{Plug, plug};
use testbed::{MODELS, Model};
use wire::ip::Protocol as IpProtocol;
use wire::tunnel::nsh;
use wire::{MacAddress, encap_tag, ipv4, udp};

use crate::common::{contents, run_until_idle};

pub const NETWORK: u32 = 5;
/// The number of the underlay's port.
pub const PORT: u16 = 3;
const NEXT_HOP: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xEE]);
const OTHER_HOP: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xDD]);

/// A port of a model with a table of tunnels, and one of another at the other end of its cable.
pub struct Rig {
    pub pcis: Vec<Pci>,
    handles: Vec<Handle>,
    pub ports: Vec<Box<dyn Port>>,
    /// Queues of each port.
    rx: Vec<Vec<Box<dyn RxQueue>>>,
    tx: Vec<Vec<Box<dyn TxQueue>>>,
    /// The queue by which packets are sent.
    pub queue: usize,
    dma: Dma,
    pool: Pool,
    pub nic: NicTable,
    pub overlay: Overlay,
    pub software: Encapsulator,
}

impl Rig {
    /// A device with room for so many entries, and a table.
    pub fn new(model: &'static Model, entries: u32, overlay: Overlay) -> Rig {
        Rig::with_queues(model, entries, overlay, 1)
    }

    /// The same with so many queues of the device.
    pub fn with_queues(model: &'static Model, entries: u32, mut overlay: Overlay, queues: usize) -> Rig {
        let macs = [1, 2].map(testbed::ixgbe::mac);
        let plugs = macs.map(|mac| Plug { spec: "pair".parse().unwrap(), mac });
        let cables = plug(&plugs, &Default::default()).unwrap();
        let device = |(n, cable)| {
            let encap = (n == 0).then_some(entries);
            InProcess::new(model.open(&Setup { mac: macs[n], encap, ..Setup::default() }, cable).unwrap())
        };
        let (pcis, handles): (Vec<Pci>, Vec<Handle>) = cables.into_iter().enumerate().map(device).unzip();
        let dma = Dma::new(memory::Options::default());
        let mut pool = Pool::new(&dma, 4096).unwrap();
        let open = |(n, pci): (usize, &Pci)| {
            let queues = if n == 0 { queues } else { 1 };
            let (rx_queues, tx_queues) = (queues, queues);
            let options = Options { promiscuous: n == 1, rx_queues, tx_queues, ..Options::default() };
            ports::open(pci.clone(), &dma, options).unwrap()
        };
        let mut ports: Vec<Box<dyn Port>> =
            while_stepping(&handles, || pcis.iter().enumerate().map(open).collect()).unwrap();
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for (port, count) in ports.iter_mut().zip([queues, 1]) {
            rx.push((0..count).map(|queue| opened(&mut **port, queue, &mut pool)).collect());
            tx.push((0..count).map(|queue| port.tx_queue(queue).unwrap()).collect());
        }
        let supports = [0, 1].map(|n: usize| ports[n].capabilities().support(Feature::EncapOffload));
        assert_eq!(supports, [Support::On, Support::No]);
        let nic = ports[0].encap_offload().unwrap();
        assert_eq!(nic.limits().entries, entries as usize);
        assert!(ports[0].encap_offload().is_none(), "it is given once");
        let nic = NicTable::new(nic, PORT).unwrap();
        let software = overlay.trial_encapsulator();
        let mut rig = Rig { pcis, handles, ports, rx, tx, queue: 0, dma, pool, nic, overlay, software };
        rig.sync();
        rig
    }

    /// Closes the port with the table and opens it again; meanwhile does this with the device.
    pub fn reopen(&mut self, meanwhile: impl FnOnce(&Pci)) {
        let (rx, tx, port) = (self.rx.remove(0), self.tx.remove(0), self.ports.remove(0));
        while_stepping(&self.handles, || drop((rx, tx, port))).unwrap();
        meanwhile(&self.pcis[0]);
        let open = || ports::open(self.pcis[0].clone(), &self.dma, Options::default()).unwrap();
        let mut port = while_stepping(&self.handles, open).unwrap();
        self.rx.insert(0, vec![opened(&mut *port, 0, &mut self.pool)]);
        self.tx.insert(0, vec![port.tx_queue(0).unwrap()]);
        self.ports.insert(0, port);
    }

    /// Publishes the table and tells the device.
    pub fn sync(&mut self) {
        self.overlay.publish();
        self.nic.sync(&self.overlay).unwrap();
    }

    fn layer(&self) -> Layer {
        self.overlay.network(NETWORK).unwrap().layer
    }

    fn packet(&mut self, bytes: &[u8]) -> Packet {
        let mut packet = self.pool.alloc().unwrap();
        packet.copy_at(memory::HEADROOM, bytes).unwrap();
        packet
    }

    fn send(&mut self, from: usize, packet: Packet) {
        let mut batch = Batch::default();
        assert!(batch.push(packet).is_none());
        let queue = if from == 0 { self.queue } else { 0 };
        assert_eq!(self.tx[from][queue].send(&mut self.pool, &mut batch), 1, "the ring has room");
        run_until_idle(&self.handles);
    }

    /// What came to a port since.
    fn came(&mut self, at: usize) -> Vec<Packet> {
        let (mut batch, mut all) = (Batch::default(), Vec::new());
        for rx in &mut self.rx[at] {
            while rx.recv(&mut self.pool, &mut batch) > 0 {
                all.extend(batch.drain());
            }
        }
        all
    }

    /// Leaves a packet of the network to the device: what arrives at the cable's end.
    fn leave(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.leave_at(self.nic.place(NETWORK).unwrap(), bytes)
    }

    /// Likewise, as a packet of the network in a place.
    pub fn leave_at(&mut self, place: u16, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mark = Mark::new(MacAddress(self.ports[0].mac()), place, self.layer());
        let mut packet = self.packet(bytes);
        mark.put(&mut packet).unwrap();
        self.send(0, packet);
        self.came(1).iter().map(contents).collect()
    }

    /// The frame that software sends of a packet.
    pub fn by_software(&mut self, bytes: &[u8]) -> Vec<u8> {
        let (mut packet, mut sent) = (self.packet(bytes), [Sent::Punt]);
        self.software.encapsulate(NETWORK, std::slice::from_mut(&mut packet), &mut sent);
        assert_eq!(sent, [Sent::Port(PORT)]);
        let mut frame = contents(&packet);
        frame.resize(frame.len().max(60), 0);
        frame
    }

    /// The device sends a packet as software does.
    #[track_caller]
    pub fn is_sent(&mut self, bytes: &[u8]) {
        let expected = self.by_software(bytes);
        assert_eq!(self.leave(bytes), [expected]);
        assert!(self.came(0).is_empty());
    }

    /// The device gives a packet back as it was, for this reason.
    #[track_caller]
    pub fn comes_back(&mut self, bytes: &[u8], reason: u8) {
        self.comes_back_of(self.nic.place(NETWORK).unwrap(), bytes, reason);
    }

    /// Likewise, as a packet of the network in a place.
    #[track_caller]
    pub fn comes_back_of(&mut self, place: u16, bytes: &[u8], reason: u8) {
        assert_eq!(self.leave_at(place, bytes), Vec::<Vec<u8>>::new());
        let mut back = self.came(0);
        let [packet] = &mut back[..] else { panic!("{} came back", back.len()) };
        assert_eq!(encap_tag::split(packet).unwrap().0.reason(), reason);
        let layer = self.layer();
        assert_eq!(given_back(packet, |_| Some(layer)), Some(place));
        assert_eq!(contents(packet), bytes);
    }

    /// Closes the ports: the linters have found nothing.
    pub fn finish(self) {
        let Rig { pcis, handles, ports, rx, tx, .. } = self;
        while_stepping(&handles, || drop((rx, tx, ports))).unwrap();
        handles.iter().for_each(|handle| assert_eq!(handle.report().findings, []));
        drop(pcis);
    }
}

/// A receive queue that has buffers.
fn opened(port: &mut dyn Port, queue: usize, pool: &mut Pool) -> Box<dyn RxQueue> {
    let mut rx = port.rx_queue(queue).unwrap();
    assert_eq!(rx.recv(pool, &mut Batch::default()), 0);
    rx
}

fn ends(is_v6: bool, far: u8) -> (IpAddr, IpAddr) {
    let v6 = |n| Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, n);
    match is_v6 {
        true => (v6(1).into(), v6(far.into()).into()),
        false => (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(192, 0, 2, far).into()),
    }
}

pub fn tunnel(protocol: &str, is_v6: bool, far: u8) -> Tunnel {
    let (local, remote) = ends(is_v6, far);
    let tunnel = Tunnel::new(Protocol::named(protocol).unwrap(), local, remote);
    if tunnel.protocol.identifier_bits == 0 { tunnel } else { tunnel.with_identifier(100) }
}

/// A table with a network; everybody is behind [`NEXT_HOP`].
pub fn table(network: Network) -> Overlay {
    let mut table = Overlay::new();
    let port = overlay::Port { mac: MacAddress([2, 0, 0, 0, 0, 1]), mtu: 1600, vlan: None, is_up: true };
    table.set_port(PORT, Some(port));
    for is_v6 in [false, true] {
        let gateway = ends(is_v6, 254).1;
        let anywhere = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        table.set_route((anywhere, 0), Some(Route { port: PORT, gateway: Some(gateway) })).unwrap();
        table.set_neighbor(PORT, gateway, Some(NEXT_HOP));
    }
    table.add_network(NETWORK, network).unwrap();
    table
}

/// A UDP packet with this traffic class and source port, of so many bytes.
pub fn v4(class: u8, port: u16, len: usize) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let plain = ipv4::Repr::between(src, dst, IpProtocol::UDP, len - 20);
    let mut packet = ipv4::Packet::new_unchecked(vec![0; len]);
    ipv4::Repr { traffic_class: class, ..plain }.emit(&mut packet);
    let mut bytes = packet.into_inner();
    let header = udp::Repr { src_port: port, dst_port: 9, payload_len: len - 28 }.header();
    bytes[20..28].copy_from_slice(&header.into_inner());
    bytes
}

fn v6(class: u8, port: u16, len: usize) -> Vec<u8> {
    let below = (len - 40) as u16;
    let start = [0x60 | class >> 4, class << 4, 0, 0, (below >> 8) as u8, below as u8, 17, 64];
    let header = udp::Repr { src_port: port, dst_port: 9, payload_len: len - 48 }.header();
    let addresses = [&[0xFD; 16][..], &[0xFE; 16]].concat();
    [&start[..], &addresses, &header.into_inner(), &vec![0; len - 48]].concat()
}

/// A frame to the station with this last byte.
pub fn frame(last: u8, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 1, last, 2, 0, 0, 0, 1, 0xFF][..], &ethertype.to_be_bytes(), packet].concat()
}

pub fn station(last: u8) -> u128 {
    0x0200_0000_0100 | u128::from(last)
}

/// The paper's protocols and what has other patches, each with its network and identifier.
fn subjects() -> Vec<(&'static str, Network, u128)> {
    let by_destination = Extractor::new(ipv4::offset::DST as u16, 32).unwrap();
    let routed = Network { extractor: by_destination, ..Network::point_to_point(Layer::Ip) };
    vec![
        ("ipip", Network::point_to_point(Layer::Ip), 0),
        ("gre", Network::point_to_point(Layer::Ip), 0),
        ("gretap", Network::bridged(), station(7)),
        ("vxlan", Network::bridged(), station(7)),
        ("vxlan-gpe", Network::service_path(), 0x0102_03FF),
        ("gtpu", routed, 0x0A00_0002),
    ]
}

/// Packets of a network, of both versions of IP where it has both.
fn packets(network: &Network, class: u8, port: u16, len: usize) -> Vec<Vec<u8>> {
    let (v4, v6) = (v4(class, port, len), v6(class, port, len));
    match network.layer {
        Layer::Ethernet => vec![frame(7, 0x0800, &v4), frame(7, 0x86DD, &v6), frame(7, 0x0806, &v4)],
        Layer::Ip if network.extractor.bits() > 0 => vec![v4],
        Layer::Ip => vec![v4, v6],
        Layer::Service => {
            let header = nsh::type_1(0x0001_0203, 0xFF, nsh::next_protocol::IPV4);
            vec![[&header[..], &v4].concat()]
        }
    }
}

#[test]
fn frames_are_those_that_software_makes() {
    for model in MODELS {
        for (protocol, network, key) in subjects() {
            for is_v6 in [false, true] {
                let mut overlay = table(network);
                let dscp = if is_v6 { overlay::Dscp::Inherit } else { overlay::Dscp::Fixed(46) };
                overlay.insert(NETWORK, key, Tunnel { dscp, ..tunnel(protocol, is_v6, 2) }).unwrap();
                let mut rig = Rig::new(model, 16, overlay);
                for (class, port, len) in [(0, 1000, 60), (0xBA, 1001, 61), (3, 1002, 1400)] {
                    for packet in packets(&network, class, port, len) {
                        rig.is_sent(&packet);
                    }
                }
                assert_eq!(rig.nic.counts(), NicCounts { entries: 1, ..NicCounts::default() });
                rig.finish();
            }
        }
    }
}

/// Entries are all queues', a change holds for the next packet of each, and what comes back is found.
#[test]
fn each_transmit_queue_has_the_table() {
    const QUEUES: usize = 4;
    for model in MODELS {
        let mut overlay = table(Network { unknown: Unknown::Flood, ..Network::bridged() });
        overlay.insert(NETWORK, station(7), tunnel("vxlan", false, 2)).unwrap();
        let mut rig = Rig::with_queues(model, 16, overlay, QUEUES);
        for far in 3..6 {
            for queue in 0..QUEUES {
                rig.queue = queue;
                rig.is_sent(&frame(7, 0x0800, &v4(0, 1000 + queue as u16, 100)));
                rig.comes_back(&frame(8, 0x0800, &v4(0, 1000, 100)), encap_tag::reason::KEY);
            }
            // The entry moves between packets of the last queue and of the first.
            rig.overlay.insert(NETWORK, station(7), tunnel("vxlan", false, far)).unwrap();
            rig.sync();
        }
        for (queue, tx) in rig.tx[0].iter().enumerate() {
            assert_eq!(tx.stats().packets, 6, "{}, queue {queue}", model.name);
        }
        assert_eq!(rig.ports[0].stats().counter("encap_sent"), 3 * QUEUES as u64);
        rig.finish();
    }
}

/// Each change holds for the next packet, and none goes where it went before.
#[test]
fn changes_while_packets_go() {
    let mut overlay = table(Network { unknown: Unknown::Flood, ..Network::bridged() });
    overlay.insert(NETWORK, station(7), tunnel("vxlan", false, 2)).unwrap();
    let mut rig = Rig::new(&MODELS[0], 16, overlay);
    let packet = frame(7, 0x0800, &v4(0, 1000, 100));
    rig.is_sent(&packet);
    // Another next hop: the headers of all that go there.
    rig.overlay.set_neighbor(PORT, ends(false, 254).1, Some(OTHER_HOP));
    rig.sync();
    rig.is_sent(&packet);
    assert_eq!(rig.by_software(&packet)[..6], OTHER_HOP.0);
    rig.leave(&packet);
    // The station moves, and a second one is there.
    rig.overlay.insert(NETWORK, station(7), tunnel("vxlan", false, 3)).unwrap();
    rig.overlay.insert(NETWORK, station(8), tunnel("vxlan", true, 2)).unwrap();
    rig.sync();
    rig.is_sent(&packet);
    rig.is_sent(&frame(8, 0x0800, &v4(0, 1000, 100)));
    // A shorter way: what is too long is software's to answer.
    let port = *rig.overlay.port(PORT).unwrap();
    rig.overlay.set_port(PORT, Some(overlay::Port { mtu: 140, ..port }));
    rig.sync();
    rig.comes_back(&packet, encap_tag::reason::LONG);
    // No way, and no entry.
    rig.overlay.set_port(PORT, Some(overlay::Port { is_up: false, ..port }));
    rig.sync();
    rig.comes_back(&packet, encap_tag::reason::KEY);
    rig.overlay.set_port(PORT, Some(port));
    rig.overlay.remove(NETWORK, station(7)).unwrap();
    rig.sync();
    rig.comes_back(&packet, encap_tag::reason::KEY);
    rig.comes_back(&packet[..5], encap_tag::reason::SHORT);
    assert_eq!(rig.nic.counts().entries, 1);
    // What goes by no single tunnel's finished headers is software's.
    rig.overlay.set_group(1, &[tunnel("vxlan", false, 2), tunnel("vxlan", false, 3)]).unwrap();
    rig.overlay.insert_as(overlay::Owner::Static, NETWORK, station(9), overlay::Target::Group(1)).unwrap();
    rig.sync();
    rig.comes_back(&frame(9, 0x0800, &v4(0, 1, 100)), encap_tag::reason::KEY);
    let stats = rig.ports[0].stats();
    assert_eq!((stats.counter("encap_given_back"), stats.losses().count()), (5, 0));
    rig.finish();
}

#[test]
fn a_full_table_leaves_the_rest_to_software_and_has_room_again() {
    let mut overlay = table(Network::bridged());
    for last in [7, 8, 9] {
        overlay.insert(NETWORK, station(last), tunnel("vxlan", false, last)).unwrap();
    }
    let mut rig = Rig::new(&MODELS[0], 2, overlay);
    let packet = |last: u8| frame(last, 0x0800, &v4(0, 1000, 100));
    assert_eq!(rig.nic.counts(), NicCounts { entries: 2, without_room: 1, restored: 0 });
    [7, 8].into_iter().for_each(|last| rig.is_sent(&packet(last)));
    rig.comes_back(&packet(9), encap_tag::reason::KEY);
    rig.overlay.remove(NETWORK, station(7)).unwrap();
    rig.sync();
    rig.nic.sync(&rig.overlay).unwrap(); // the place of the headers is free now
    assert_eq!(rig.nic.counts(), NicCounts { entries: 2, without_room: 0, restored: 0 });
    [8, 9].into_iter().for_each(|last| rig.is_sent(&packet(last)));
    // All that the table has is in the device, which drops the rest by the table's name for it.
    assert_eq!(rig.leave(&packet(7)), Vec::<Vec<u8>>::new());
    assert!(rig.came(0).is_empty());
    assert_eq!(rig.ports[0].stats().lost(Reason::OverlayUnknownKey), 1);
    rig.finish();
}

/// What the device forgot is told again, and is software's until then.
#[test]
fn a_device_that_was_reset_is_told_all_again() {
    let mut overlay = table(Network { unknown: Unknown::Flood, ..Network::bridged() });
    overlay.insert(NETWORK, station(7), tunnel("vxlan", false, 2)).unwrap();
    let mut rig = Rig::new(&MODELS[0], 16, overlay);
    let packet = frame(7, 0x0800, &v4(0, 1000, 100));
    rig.is_sent(&packet);
    let bar = (0..6).filter_map(|index| rig.pcis[0].bar(index).ok()).find(|bar| bar.len() == reg::LEN);
    bar.unwrap().write32(reg::COMMAND, reg::command::RESET);
    rig.comes_back(&packet, encap_tag::reason::NETWORK);
    assert!(rig.nic.sync(&rig.overlay).unwrap() && rig.nic.counts().restored == 1);
    rig.software = rig.overlay.trial_encapsulator(); // which counts from one, too
    rig.is_sent(&packet);
    assert!(!rig.nic.sync(&rig.overlay).unwrap(), "nothing is different");
    rig.finish();
}

/// Nobody at the cable can have the host send a packet, or write the device's answers.
#[test]
fn tags_from_the_cable_are_dropped() {
    for model in MODELS {
        let mut rig = Rig::new(model, 16, table(Network::bridged()));
        let mut header = encap_tag::header(MacAddress(rig.ports[0].mac()), 0);
        encap_tag::set_packet_len(&mut header, 60);
        let packet = rig.packet(&[&header[..], &[7; 60]].concat());
        rig.send(1, packet);
        assert!(rig.came(0).is_empty(), "{}", model.name);
        assert_eq!(rig.ports[0].stats().lost(Reason::EncapForeign), 1);
        let plain = frame(7, 0x0800, &v4(0, 1, 100));
        let to_host = [&rig.ports[0].mac()[..], &plain[6..]].concat();
        let packet = rig.packet(&to_host);
        rig.send(1, packet);
        assert_eq!(rig.came(0).iter().map(contents).collect::<Vec<_>>(), [to_host]);
        rig.finish();
    }
}
