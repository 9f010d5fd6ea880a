//! Copies of a peer's frames, for somebody who asks while a host runs on its own thread: what a host
//! receives of a connection and sends on it, as `tcpdump` would see it on an interface.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use port::{Batch, Packet};
use wire::flow::MAX_TAGS;
use wire::ip::{Addresses, Ports, Protocol};
use wire::{Flow, ethernet, ipv4, ipv6, vlan};

/// Whose frames are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The other side's address.
    pub address: IpAddr,
    /// Its port: one connection, or several to ports of this side; all of the address without it.
    pub port: Option<u16>,
}

/// Addresses of a frame, and the ports where it has some.
type Ends = (Addresses, Option<(u16, u16)>);

impl Peer {
    /// Whether a frame is from it or to it.
    fn has(&self, frame: &Packet) -> bool {
        let ends = match frame.next() {
            None => Flow::of(frame).ok().map(|flow| (flow.addresses, flow.ports)),
            Some(_) => ends_of_first(frame),
        };
        let Some((addresses, ports)) = ends else { return false };
        let ports = ports.map_or((None, None), |(from, to)| (Some(from), Some(to)));
        let is_it = |address, port: Option<u16>| {
            address == self.address && (self.port.is_none() || port == self.port)
        };
        is_it(addresses.src(), ports.0) || is_it(addresses.dst(), ports.1)
    }
}

/// From whom a frame of several buffers is, and to whom. Its headers are in the first buffer, and the
/// lengths in them are those of all buffers: [`Flow::of`] takes the first for a frame that was cut off.
fn ends_of_first(first: &[u8]) -> Option<Ends> {
    let (mut ethertype, mut l2_len) = (ethernet::Header::of(first)?.ethertype(), ethernet::HEADER_LEN);
    for _ in 0..MAX_TAGS {
        if !ethertype.is_tag() {
            break;
        }
        ethertype = vlan::Header::of(first.get(l2_len..)?)?.ethertype();
        l2_len += vlan::HEADER_LEN;
    }
    let packet = first.get(l2_len..)?;
    let (addresses, protocol, l3_len, is_fragment) = match ethertype {
        ethernet::EtherType::IPV4 => {
            let ip = ipv4::Header::of(packet)?;
            (ip.addresses(), ip.protocol(), ip.header_len(), ip.is_fragment())
        }
        ethernet::EtherType::IPV6 => {
            let ip = ipv6::Header::of(packet)?;
            let upper = ipv6::upper_layer(ip.next_header(), packet.get(ipv6::HEADER_LEN..)?).ok()?;
            (ip.addresses(), upper.protocol, ipv6::HEADER_LEN + upper.offset, upper.fragment.is_some())
        }
        _ => return None,
    };
    let has_ports = !is_fragment && matches!(protocol, Protocol::TCP | Protocol::UDP);
    let ports = packet.get(l3_len..).filter(|_| has_ports).and_then(Ports::of);
    Some((addresses, ports.map(|ports| (ports.src(), ports.dst()))))
}

/// A copy of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// When it was received or sent, in nanoseconds since 1970: all of a batch at once.
    pub time_ns: u64,
    /// This host sent it. A segment that the port cuts is one frame, whose checksum the port fills in.
    pub is_sent: bool,
    /// All its bytes.
    pub bytes: Vec<u8>,
}

/// Frames that were copied, and how many found no room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// In the order in which they came and went.
    pub frames: Vec<Copied>,
    /// Frames of the peer that were not copied, as too many waited.
    pub lost: u64,
}

/// Room for copies that wait to be taken, which several hosts may share.
#[derive(Debug, Clone, Default)]
pub struct Room {
    most: usize,
    used: Arc<AtomicUsize>,
}

impl Room {
    /// Room for so many bytes, with what is kept beside those of each frame.
    pub fn new(most: usize) -> Room {
        Room { most, used: Arc::default() }
    }

    /// Takes room for a frame of so many bytes, if there is some. Relaxed: nothing but the number goes
    /// from one thread to another.
    fn claim(&self, len: usize) -> bool {
        let grown = |used: usize| used.checked_add(needed(len)).filter(|used| *used <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    /// Gives back what was claimed for a frame.
    fn release(&self, len: usize) {
        self.used.fetch_sub(needed(len), Ordering::Relaxed);
    }
}

/// The room that a frame of so many bytes takes.
fn needed(len: usize) -> usize {
    len + size_of::<Copied>()
}

/// By which a host is asked for copies. It costs the host a look at a flag in each turn.
#[derive(Debug, Clone, Default)]
pub struct Copies(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_wanted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    peer: Option<Peer>,
    room: Room,
    taken: Taken,
    /// The wanted ones of frames that are about to be sent: their places, and their bytes where there was
    /// room for them. They stay as long as the port has no room for them.
    leaving: VecDeque<(usize, Option<Vec<u8>>)>,
    /// How many of the frames that are about to be sent were looked at.
    looked_at: usize,
}

impl Copies {
    /// Has the frames of a peer copied from now on, as far as there is room; what was copied before is
    /// forgotten.
    pub fn begin(&self, peer: Peer, room: &Room) {
        let (taken, leaving) = (Taken::default(), VecDeque::new());
        self.replace(State { peer: Some(peer), room: room.clone(), taken, leaving, looked_at: 0 });
        self.0.is_wanted.store(true, Ordering::Release);
    }

    /// Ends that, and forgets what was not taken.
    pub fn end(&self) {
        self.0.is_wanted.store(false, Ordering::Release);
        self.replace(State::default());
    }

    /// What was copied since the last time.
    pub fn take(&self) -> Taken {
        let (taken, room) = {
            let mut state = self.state();
            (std::mem::take(&mut state.taken), state.room.clone())
        };
        taken.frames.iter().for_each(|frame| room.release(frame.bytes.len()));
        taken
    }

    /// Whether frames are to be copied.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.0.is_wanted.load(Ordering::Acquire)
    }

    /// Copies those of received frames that are wanted.
    #[cold]
    pub(crate) fn received(&self, frames: &Batch) {
        let mut state = self.state();
        let Some(peer) = state.peer else { return };
        let time_ns = now_ns();
        for frame in frames.iter().filter(|frame| peer.has(frame)) {
            let bytes = state.copy(frame);
            state.put(time_ns, false, bytes);
        }
    }

    /// Copies the wanted ones of frames that are about to be sent. Those in front that stayed the last time
    /// are not copied again.
    #[cold]
    pub(crate) fn leaving(&self, frames: &Batch) {
        let mut state = self.state();
        let Some(peer) = state.peer else { return };
        let looked_at = std::mem::replace(&mut state.looked_at, frames.len());
        for (place, frame) in frames.iter().enumerate().skip(looked_at).filter(|(_, frame)| peer.has(frame)) {
            let bytes = state.copy(frame);
            state.leaving.push_back((place, bytes));
        }
    }

    /// The first so many of these frames were sent.
    #[cold]
    pub(crate) fn sent(&self, count: usize) {
        let (mut state, time_ns) = (self.state(), now_ns());
        while let Some((_, bytes)) = state.leaving.pop_front_if(|(place, _)| *place < count) {
            state.put(time_ns, true, bytes);
        }
        state.leaving.iter_mut().for_each(|(place, _)| *place -= count);
        // Who began meanwhile has not looked at any.
        state.looked_at = state.looked_at.saturating_sub(count);
    }

    /// Drops what was before where the host does not wait for it.
    fn replace(&self, state: State) {
        let before = std::mem::replace(&mut *self.state(), state);
        drop(before);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The bytes of a frame, in however many buffers they are, if there is room for them.
    fn copy(&self, frame: &Packet) -> Option<Vec<u8>> {
        let len = frame.total_len();
        self.room.claim(len).then(|| {
            let mut bytes = Vec::with_capacity(len);
            frame.segments().for_each(|segment| bytes.extend_from_slice(segment));
            bytes
        })
    }

    fn put(&mut self, time_ns: u64, is_sent: bool, bytes: Option<Vec<u8>>) {
        match bytes {
            Some(bytes) => self.taken.frames.push(Copied { time_ns, is_sent, bytes }),
            None => self.taken.lost += 1,
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let leaving = self.leaving.iter().flat_map(|(_, bytes)| bytes);
        let taken = self.taken.frames.iter().map(|frame| &frame.bytes);
        leaving.chain(taken).for_each(|bytes| self.room.release(bytes.len()));
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use memory::{Dma, Pool};
    use wire::tcp::Flags;

    use super::*;
    use crate::emit::{self, Header, OptionBytes};
    use crate::options::Offload;
    use crate::sequence::Sequence;

    /// More than tests of anything else take.
    const MANY: usize = 1 << 20;

    fn begin(copies: &Copies, address: impl Into<IpAddr>, port: Option<u16>) {
        copies.begin(Peer { address: address.into(), port }, &Room::new(MANY));
    }

    /// A packet of so many segments of 1,000 bytes to port 4000, which the port is to cut.
    fn large(pool: &mut Pool, addresses: Addresses, segments: u32) -> Packet {
        let header = Header {
            addresses,
            src_port: 7,
            dst_port: 4000,
            sequence: Sequence(1),
            acknowledgement: Sequence(1),
            flags: Flags::ACK,
            window: 1000,
            options: OptionBytes::new(),
            ecn: 0,
        };
        let offload = Offload { checksum: true, buffers: 8 };
        let mut packet = header.build(pool, &[0; 1000], offload).unwrap();
        for n in 1..segments {
            let mut next = pool.alloc().unwrap();
            next.copy_from(&[n as u8; 1000]).unwrap();
            packet.append(next);
        }
        emit::enlarge(&mut packet, segments * 1000, 1000);
        let ethertype = match addresses {
            Addresses::V4 { .. } => ethernet::EtherType::IPV4,
            Addresses::V6 { .. } => ethernet::EtherType::IPV6,
        };
        let mac = wire::MacAddress([2, 0, 0, 0, 0, 1]);
        let link = ethernet::Header::between(mac, mac, ethertype).into_inner();
        packet.push_front(link.len()).unwrap().copy_from_slice(&link);
        packet
    }

    /// Frames of UDP from these ports of 10.0.0.9 to 10.0.0.2, in a batch.
    fn frames(pool: &mut Pool, ports: &[u16]) -> Batch {
        let mut batch = Batch::default();
        for port in ports {
            let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 9, 0x08, 0x00];
            frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, 2]);
            frame.extend(port.to_be_bytes());
            frame.extend([0, 7, 0, 8, 0, 0]);
            let mut packet = pool.alloc().unwrap();
            packet.copy_from(&frame).unwrap();
            batch.push(packet);
        }
        batch
    }

    fn ports(taken: &Taken) -> Vec<(u8, bool)> {
        taken.frames.iter().map(|frame| (frame.bytes[35], frame.is_sent)).collect()
    }

    #[test]
    fn a_peers_frames_are_copied_both_ways() {
        let (copies, dma) = (Copies::default(), Dma::new(Default::default()));
        let mut pool = Pool::new(&dma, 64).unwrap();
        let mut batch = frames(&mut pool, &[5, 6, 5]);
        assert!(!copies.are_wanted());
        begin(&copies, [10, 0, 0, 9], Some(5));
        assert!(copies.are_wanted());
        copies.received(&batch);
        // Of those that leave the last finds no room in the ring.
        copies.leaving(&batch);
        copies.sent(2);
        let taken = copies.take();
        assert_eq!(ports(&taken), [(5, false), (5, false), (5, true)]);
        assert!(taken.frames.iter().all(|frame| frame.bytes.len() == 42 && frame.time_ns > 0));
        assert_eq!(copies.take(), Taken::default());
        begin(&copies, [10, 0, 0, 2], None);
        copies.received(&batch);
        assert_eq!(copies.take().frames.len(), 3, "all of an address");
        begin(&copies, [10, 0, 0, 3], None);
        copies.received(&batch);
        assert_eq!(copies.take(), Taken::default());
        pool.free_batch(&mut batch);
    }

    /// Its headers, in the first buffer, tell the length of all.
    #[test]
    fn a_packet_that_the_port_cuts_is_one_frame_with_all_its_bytes() {
        let (copies, dma) = (Copies::default(), Dma::new(Default::default()));
        let mut pool = Pool::new(&dma, 64).unwrap();
        let v4 = Addresses::V4 { src: [10, 0, 0, 2].into(), dst: [10, 0, 0, 9].into() };
        let (src, dst) = ([0xFD, 0, 0, 0, 0, 0, 0, 2], [0xFD, 0, 0, 0, 0, 0, 0, 9]);
        let v6 = Addresses::V6 { src: src.into(), dst: dst.into() };
        for (addresses, headers) in [(v4, 14 + 20 + 20), (v6, 14 + 40 + 20)] {
            let mut batch = Batch::default();
            batch.push(large(&mut pool, addresses, 3));
            for (port, count) in [(Some(4000), 1), (None, 1), (Some(4001), 0)] {
                begin(&copies, addresses.dst(), port);
                copies.leaving(&batch);
                copies.sent(1);
                let taken = copies.take();
                assert_eq!((taken.frames.len(), taken.lost), (count, 0), "{addresses:?} {port:?}");
                for frame in &taken.frames {
                    let payload = &frame.bytes[headers..];
                    let expected: Vec<u8> = (0..3).flat_map(|n| [n; 1000]).collect();
                    assert!(frame.is_sent && payload == expected, "{} bytes", payload.len());
                }
            }
            pool.free_batch(&mut batch);
        }
    }

    /// The ring is full for some turns, and the room has a place for each frame once.
    #[test]
    fn what_waits_for_the_ring_is_copied_once() {
        let (copies, dma) = (Copies::default(), Dma::new(Default::default()));
        let mut pool = Pool::new(&dma, 64).unwrap();
        let mut batch = frames(&mut pool, &[1, 2, 3]);
        let room = Room::new(4 * needed(42));
        copies.begin(Peer { address: [10, 0, 0, 9].into(), port: None }, &room);
        for _ in 0..5 {
            copies.leaving(&batch);
            copies.sent(0);
        }
        assert_eq!(copies.take(), Taken::default());
        copies.leaving(&batch);
        copies.sent(1);
        batch.pop_front().into_iter().for_each(|packet| pool.free(packet));
        let mut more = frames(&mut pool, &[4, 5]);
        more.drain().for_each(|packet| assert!(batch.push(packet).is_none()));
        copies.leaving(&batch);
        copies.sent(4);
        let taken = copies.take();
        assert_eq!(ports(&taken), [1, 2, 3, 4].map(|port| (port, true)));
        assert_eq!(taken.lost, 1, "the fifth");
        pool.free_batch(&mut batch);
    }

    #[test]
    fn who_takes_nothing_costs_no_more_than_the_room() {
        let (copies, dma) = (Copies::default(), Dma::new(Default::default()));
        let mut pool = Pool::new(&dma, 64).unwrap();
        let mut batch = frames(&mut pool, &[5; 32]);
        begin(&copies, [10, 0, 0, 9], None);
        let most = MANY / needed(42);
        for _ in 0..2 {
            (0..most / 32 + 1).for_each(|_| copies.received(&batch));
            let taken = copies.take();
            assert_eq!(taken.frames.len(), most);
            assert_eq!(taken.lost as usize, (most / 32 + 1) * 32 - most);
        }
        copies.end();
        copies.received(&batch);
        assert_eq!(copies.take(), Taken::default());
        pool.free_batch(&mut batch);
    }

    /// An answer is not longer where there are more hosts.
    #[test]
    fn hosts_share_their_room() {
        let (hosts, dma) = ([0; 8].map(|_| Copies::default()), Dma::new(Default::default()));
        let mut pool = Pool::new(&dma, 64).unwrap();
        let mut batch = frames(&mut pool, &[5; 32]);
        let room = Room::new(40 * needed(42));
        for _ in 0..2 {
            for host in &hosts {
                host.begin(Peer { address: [10, 0, 0, 9].into(), port: None }, &room);
                host.received(&batch);
            }
            let taken: Vec<usize> = hosts.iter().map(|host| host.take().frames.len()).collect();
            assert_eq!(taken, [32, 8, 0, 0, 0, 0, 0, 0]);
            // What was not taken gives its room back as well.
            hosts[0].received(&batch);
            hosts[0].end();
        }
        pool.free_batch(&mut batch);
    }
}
