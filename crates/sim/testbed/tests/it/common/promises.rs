//! A case for each feature that a driver says its port has: what is asked for on one side is what
//! arrives on the other. A feature that has neither a case here nor a named test elsewhere fails.

use memory::{Batch, Checksum, DATA_ROOM, Packet, TxOffload};
use port::{Completion, Feature, Limits, Options, Support};
use testbed::inprocess::{Handle, while_stepping};

use super::frames::{self, Sums, is_right, payload, tagged};
use super::probe::Ports;
use super::{contents, run_until_idle};

const IP: u8 = TxOffload::IP_CHECKSUM;
const UDP: u8 = TxOffload::UDP_CHECKSUM;
const TCP: u8 = TxOffload::TCP_CHECKSUM;
const V6: u8 = TxOffload::IPV6;

/// What stands in front of the inner IP header: Ethernet, IPv4, UDP, VXLAN, Ethernet.
const OUTER: u8 = 14 + 20 + 8 + 8 + 14;

/// Goes through all features of a driver, of which this test shows each that has a case here.
pub fn all<B: Ports>(driver: &str, test: &str) {
    let driver = ports::DRIVERS.iter().find(|one| one.name == driver).expect("there is such a driver");
    let mut rig = Rig::<B>::open(&Options::default());
    let capabilities = rig.ports.device(0).capabilities();
    let stats = rig.ports.device(0).stats();
    rig.finish();
    let offers = (driver.offers)();
    let counted: Vec<&str> = stats.counters.iter().map(|counter| counter.name).collect();
    assert_eq!(counted, offers.counters);
    // What depends on the device, too.
    let Limits { flow_filters, vectors, .. } = capabilities.limits;
    assert_eq!(capabilities.limits, Limits { flow_filters, vectors, ..offers.limits });
    assert!(vectors <= offers.limits.vectors);
    let can = |one: &Feature| capabilities.support(*one) != Support::No;
    let promised: Vec<Feature> = Feature::ALL.into_iter().filter(can).collect();
    // A clock or a table of tunnels is no more than some of a driver's devices have; of these tests
    // of their own tell.
    let some_have = [Feature::Timestamps, Feature::EncapOffload];
    let offered = |one: &Feature| offers.features.contains(one) && !some_have.contains(one);
    assert_eq!(promised, Feature::ALL.into_iter().filter(offered).collect::<Vec<_>>());
    for feature in promised {
        match (case::<B>(feature), driver.shown_elsewhere(feature)) {
            (Some(case), None) => {
                assert_eq!(driver.shown_by(feature), Some(test));
                case();
            }
            // Whether that is there, a test of its own looks.
            (None, Some(_)) => {}
            (Some(_), Some(_)) => panic!("{}: has a case of its own", feature.name()),
            (None, None) => panic!("{}: nothing shows it", feature.name()),
        }
    }
}

fn case<B: Ports>(feature: Feature) -> Option<fn()> {
    Some(match feature {
        Feature::RxChecksum => rx_checksum::<B>,
        Feature::TxChecksum => tx_checksum::<B>,
        Feature::TunnelChecksum => tunnel_checksum::<B>,
        Feature::Segmentation => segmentation::<B>,
        Feature::UdpSegmentation => udp_segmentation::<B>,
        Feature::VlanStrip => vlan_strip::<B>,
        Feature::VlanInsert => vlan_insert::<B>,
        Feature::Rss | Feature::RssHash => rss::<B>,
        Feature::RssTable => rss_table::<B>,
        Feature::Scatter => scatter::<B>,
        Feature::HeadWriteback => head_writeback::<B>,
        Feature::VlanFilter | Feature::Interrupts | Feature::FlowFilter => return None,
        Feature::Timestamps | Feature::PtpTimestamps | Feature::KernelTimestamps => return None,
        Feature::FixedBuffers | Feature::EncapOffload => return None,
    })
}

/// Two ports, of which the first sends to the second.
pub struct Rig<B> {
    pub ports: B,
    /// Held to the end: a device that nobody has forgets what was mapped.
    _pcis: Vec<bus::Pci>,
    handles: Vec<Handle>,
    rx_queues: usize,
}

impl<B: Ports> Rig<B> {
    pub fn open(options: &Options) -> Rig<B> {
        let (pcis, handles) = B::devices(&["pair"; 2]);
        let ports = B::over((pcis.clone(), handles.clone()), options);
        Rig { ports, _pcis: pcis, handles, rx_queues: options.rx_queues }
    }

    /// What arrives of a frame, each packet with its queue.
    fn cross_queues(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<(usize, Packet)> {
        let mut batch = Batch::default();
        assert!(batch.push(self.ports.packet(bytes, offload)).is_none());
        let (_, mut tx, pool) = self.ports.parts();
        assert_eq!(tx[0].send(pool, &mut batch), 1, "the ring has room");
        run_until_idle(&self.handles);
        let (rx, _, pool) = self.ports.parts();
        let mut packets = vec![];
        for (n, queue) in rx.into_iter().skip(self.rx_queues).enumerate() {
            while queue.recv(pool, &mut batch) > 0 {
                packets.extend(batch.drain().map(|packet| (n, packet)));
            }
        }
        packets
    }

    /// What arrives of a frame.
    pub fn cross(&mut self, bytes: &[u8], offload: TxOffload) -> Vec<Packet> {
        self.cross_queues(bytes, offload).into_iter().map(|(_, packet)| packet).collect()
    }

    /// Likewise, when it is one packet.
    fn cross_one(&mut self, bytes: &[u8], offload: TxOffload) -> Packet {
        let mut packets = self.cross(bytes, offload);
        assert_eq!(packets.len(), 1, "one frame, one packet");
        packets.remove(0)
    }

    /// Has the second port take a VLAN: virtual functions get no others.
    pub fn let_in(&mut self, vlan: u16) {
        let handles = self.handles.clone();
        while_stepping(&handles, || self.ports.let_in(1, vlan)).unwrap().unwrap();
    }

    /// Closes both; the linters found nothing.
    pub fn finish(mut self) {
        let handles = self.handles.clone();
        while_stepping(&handles, || {
            self.ports.close();
            drop(self);
        })
        .unwrap();
        handles.iter().for_each(|handle| assert_eq!(handle.report().findings, []));
    }
}

fn ask(flags: u8) -> TxOffload {
    let (l3_len, l4_len) = (if flags & V6 == 0 { 20 } else { 40 }, if flags & UDP == 0 { 20 } else { 8 });
    TxOffload { flags, l2_len: 14, l3_len, l4_len, ..TxOffload::default() }
}

/// Each kind of packet: the flags, with the pseudo header's sum, and as it shall be.
fn kinds() -> [(u8, Vec<u8>, Vec<u8>); 4] {
    let bytes = payload(333); // odd: the last byte counts, too
    [
        (IP | UDP, frames::udp4(&bytes, Sums::Pseudo), frames::udp4(&bytes, Sums::Full)),
        (IP | TCP, frames::tcp4(&bytes, Sums::Pseudo), frames::tcp4(&bytes, Sums::Full)),
        (UDP | V6, frames::udp6(&bytes, Sums::Pseudo), frames::udp6(&bytes, Sums::Full)),
        (TCP | V6, frames::tcp6(&bytes, Sums::Pseudo), frames::tcp6(&bytes, Sums::Full)),
    ]
}

fn rx_checksum<B: Ports>() {
    let mut rig = Rig::<B>::open(&Options::default());
    for (flags, _, frame) in kinds() {
        let ip = if flags & V6 == 0 { Checksum::Good } else { Checksum::Unknown };
        let right = rig.cross_one(&frame, TxOffload::default());
        assert_eq!((right.ip_checksum(), right.l4_checksum()), (ip, Checksum::Good), "{flags:#x}");
        let mut broken = frame.clone();
        *broken.last_mut().unwrap() ^= 0x10;
        let wrong = rig.cross_one(&broken, TxOffload::default());
        assert_eq!((wrong.ip_checksum(), wrong.l4_checksum()), (ip, Checksum::Bad), "{flags:#x}");
        drop((right, wrong));
    }
    rig.finish();
}

fn tx_checksum<B: Ports>() {
    let mut rig = Rig::<B>::open(&Options::default());
    for (flags, asked, wanted) in kinds() {
        assert_eq!(contents(&rig.cross_one(&asked, ask(flags))), wanted, "{flags:#x}");
        assert_eq!(contents(&rig.cross_one(&asked, TxOffload::default())), asked, "nothing asked");
    }
    rig.finish();
}

fn tunnel_checksum<B: Ports>() {
    let mut rig = Rig::<B>::open(&Options::default());
    for (flags, asked, wanted) in kinds() {
        let inside = TxOffload { l2_len: OUTER, ..ask(flags | TxOffload::TUNNEL) };
        let got = contents(&rig.cross_one(&frames::in_vxlan(&asked), inside));
        assert_eq!(got, frames::in_vxlan(&wanted), "{flags:#x}");
    }
    rig.finish();
}

fn segmentation<B: Ports>() {
    let bytes = payload(1000);
    cut::<B>(
        &bytes,
        [
            (IP | TCP, 14 + 20 + 20, frames::tcp4(&bytes, Sums::PseudoNoLength)),
            (V6 | TCP, 14 + 40 + 20, frames::tcp6(&bytes, Sums::PseudoNoLength)),
        ],
    );
}

fn udp_segmentation<B: Ports>() {
    let bytes = payload(1000);
    cut::<B>(
        &bytes,
        [
            (IP | UDP, 14 + 20 + 8, frames::udp4(&bytes, Sums::PseudoNoLength)),
            (V6 | UDP, 14 + 40 + 8, frames::udp6(&bytes, Sums::PseudoNoLength)),
        ],
    );
}

/// Packets with this payload, behind so many bytes of headers, arrive in pieces of 300 bytes.
fn cut<B: Ports>(bytes: &[u8], kinds: [(u8, usize, Vec<u8>); 2]) {
    let mut rig = Rig::<B>::open(&Options::default());
    for (flags, headers, frame) in kinds {
        let offload = TxOffload { segment_size: 300, ..ask(flags | TxOffload::SEGMENT) };
        let packets = rig.cross(&frame, offload);
        assert_eq!(packets.len(), 4, "{flags:#x}");
        for (packet, piece) in packets.iter().zip(bytes.chunks(300)) {
            let frame = contents(packet);
            assert!(is_right(&frame), "checksums and lengths");
            assert_eq!(&frame[headers..headers + piece.len()], piece);
        }
    }
    rig.finish();
}

fn vlan_strip<B: Ports>() {
    let plain = frames::udp4(&payload(100), Sums::Full);
    for strip in [true, false] {
        let mut rig = Rig::<B>::open(&Options { vlan_strip: strip, ..Options::default() });
        rig.let_in(7);
        let packet = rig.cross_one(&tagged(&plain, 0x2007), TxOffload::default());
        let wanted = if strip { (Some(0x2007), plain.clone()) } else { (None, tagged(&plain, 0x2007)) };
        assert_eq!((packet.vlan(), contents(&packet)), wanted);
        drop(packet);
        rig.finish();
    }
}

fn vlan_insert<B: Ports>() {
    let mut rig = Rig::<B>::open(&Options::default());
    rig.let_in(9);
    for (flags, asked, wanted) in kinds() {
        let offload = TxOffload { vlan: 0x4009, ..ask(flags | TxOffload::VLAN) };
        assert_eq!(contents(&rig.cross_one(&asked, offload)), tagged(&wanted, 0x4009), "{flags:#x}");
    }
    rig.finish();
}

fn rss<B: Ports>() {
    let mut rig = Rig::<B>::open(&Options { rx_queues: 2, ..Options::default() });
    let flows = rig.ports.device(1).flows().expect("it spreads flows");
    let mut used = [0; 2];
    for n in 0..64u8 {
        let mut frame = frames::udp4(&payload(64), Sums::Full);
        (frame[29], frame[35]) = (n, n ^ 0x55); // address and port
        let ports = Some([[frame[34], frame[35]], [frame[36], frame[37]]]);
        let hash = flows.hash(&frame[26..30], &frame[30..34], ports);
        for (queue, packet) in rig.cross_queues(&frame, TxOffload::default()) {
            assert_eq!((packet.hash(), queue), (Some(hash), flows.queue(hash)), "{n}");
            used[queue] += 1;
        }
    }
    assert!(used.iter().sum::<i32>() == 64 && used.iter().all(|count| *count > 5), "{used:?}");
    rig.finish();
}

/// Flows come to another queue while the port runs, those of other entries to the same one.
fn rss_table<B: Ports>() {
    let mut rig = Rig::<B>::open(&Options { rx_queues: 2, ..Options::default() });
    let entries = rig.ports.device(1).flows().expect("it spreads flows").queues().len();
    for (queue, step) in [(1, 1), (0, 3)] {
        let changes: Vec<_> = (0..entries).step_by(step).map(|entry| (entry, queue)).collect();
        let handles = rig.handles.clone();
        let (port, wrong) = (rig.ports.device(1), [(0, 0), (entries, 1)]);
        while_stepping(&handles, || {
            port.set_flow_queues(&changes).expect("it is set while the port runs");
            port.set_flow_queues(&wrong).expect_err("there is no such entry");
        })
        .unwrap();
        let flows = rig.ports.device(1).flows().expect("it spreads flows");
        let mut used = [0; 2];
        for n in 0..64u8 {
            let mut frame = frames::udp4(&payload(64), Sums::Full);
            (frame[29], frame[35]) = (n, n ^ 0x55); // address and port
            for (came, packet) in rig.cross_queues(&frame, TxOffload::default()) {
                let entry = flows.entry(packet.hash().expect("a hash"));
                assert_eq!(
                    (came, flows.queues()[entry]),
                    (if entry.is_multiple_of(step) { queue } else { 1 }, came as u16)
                );
                used[came] += 1;
            }
        }
        assert_eq!(used.iter().sum::<i32>(), 64);
        assert_eq!(used[0] > 5, step == 3, "{used:?}");
    }
    rig.finish();
}

fn scatter<B: Ports>() {
    let mut rig = Rig::<B>::open(&Options { max_frame: 9000, ..Options::default() });
    for len in [DATA_ROOM, DATA_ROOM + 1, 9000] {
        let frame = frames::udp4(&payload(len - 42), Sums::Full);
        let packet = rig.cross_one(&frame, TxOffload::default());
        assert_eq!((packet.segments().count(), contents(&packet)), (len.div_ceil(DATA_ROOM), frame), "{len}");
    }
    rig.finish();
}

fn head_writeback<B: Ports>() {
    let completion = Completion::Head;
    let options = Options { rx_ring: 64, tx_ring: 64, completion, ..Options::default() };
    let mut rig = Rig::<B>::open(&options);
    for n in 0..300u16 {
        let frame = frames::udp4(&n.to_le_bytes().repeat(100), Sums::Full);
        assert_eq!(contents(&rig.cross_one(&frame, TxOffload::default())), frame, "{n}");
    }
    rig.finish();
}
