//! The way of packets through one thread: from ports of virtual networks into tunnels, and
//! out of tunnels to them. A lane has one receive and one transmit queue of every port.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use memory::{Batch, DATA_ROOM, Packet, Pool, TxOffload};
use neighbor::{Address, Responder};
use overlay::{Decapsulator, Encapsulator, Layer, Observation, Overlay, Received, Sent};
use port::{Capabilities, Reason, RxQueue, TxQueue};
use runtime::{Instant, Poller, Queue};
use wire::ethernet::{self, EtherType};
use wire::{MacAddress, vlan};

use crate::channels::{self, Frame, ToControl};
use crate::config::{Inner, UnderlayPort};
use crate::counters::Counters;
use crate::gateway::{Entered, Gateway};
use crate::offload::NicPlaces;
use offload::leave_to_nic;
use send::Sending;

mod offload;
mod send;

/// How often the control is told which stations were heard of: what is sent to a new one until then
/// goes by the flood list.
const TELL: Duration = Duration::from_millis(100);
/// Packets that are taken at once of a port that gives segments longer than a frame, and pieces of them
/// behind which no more are taken in a turn: what they are cut into, fewer than 512 of 1,448 bytes, leaves
/// within one turn, and the least rings have as many places.
const FEW: usize = 8;
const MOST_PIECES: usize = 128;
/// Bytes of a frame, at most; what is longer is a segment to be cut.
const LONGEST_FRAME: usize = 16 << 10;
/// Room for as many of them as a receiver notes between two looks.
const MOST_OBSERVED: usize = 1024;

/// A port's queues, and the frames that are to leave by it.
struct Ends {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    out: Batch,
}

/// Queues of a network's port.
pub struct InnerQueues {
    ends: Ends,
    network: u32,
    gateway: Gateway,
    /// Buffers of the longest frame that it gives.
    chain: usize,
    /// Where these are segments longer than a frame: the few that are taken at once.
    few: Option<Batch>,
}

/// Queues of a port of the underlay.
pub struct UnderlayQueues {
    ends: Ends,
    host: Responder,
    vlan: Option<u16>,
    can: Capabilities,
}

impl Ends {
    fn new(rx: Box<dyn RxQueue>, tx: Box<dyn TxQueue>) -> Ends {
        Ends { rx, tx, out: Batch::with_limit(Batch::MAX) }
    }

    /// Lets a packet leave. What a full ring refuses is dropped; the queue counts it.
    #[inline]
    fn push(&mut self, packet: Packet, pool: &mut Pool) {
        if let Some(packet) = self.out.push(packet) {
            self.flush(pool);
            let _ = self.out.push(packet); // it is empty now
        }
    }

    fn flush(&mut self, pool: &mut Pool) {
        match self.out.is_empty() {
            true => {
                self.tx.clean(pool);
            }
            false => {
                self.tx.send(pool, &mut self.out);
                pool.free_batch(&mut self.out);
            }
        }
    }
}

impl InnerQueues {
    /// The queues of a network's port, which has this Ethernet address and can do this.
    pub fn new(
        inner: &Inner,
        (mac, can): (MacAddress, &Capabilities),
        rx: Box<dyn RxQueue>,
        tx: Box<dyn TxQueue>,
    ) -> InnerQueues {
        let gateway = Gateway::new(inner, mac);
        let chain = can.max_frame.div_ceil(DATA_ROOM).max(1);
        let is_long = can.max_frame > LONGEST_FRAME;
        let few = is_long.then(|| Batch::with_limit(FEW));
        InnerQueues { ends: Ends::new(rx, tx), network: inner.network, gateway, chain, few }
    }
}

impl UnderlayQueues {
    /// The queues of a port of the underlay, which has this Ethernet address and can do this.
    pub fn new(
        port: &UnderlayPort,
        (mac, can): (MacAddress, Capabilities),
        rx: Box<dyn RxQueue>,
        tx: Box<dyn TxQueue>,
    ) -> UnderlayQueues {
        let addresses = port.addresses.iter().map(|(address, _)| *address).collect();
        UnderlayQueues { ends: Ends::new(rx, tx), host: Responder { mac, addresses }, vlan: port.vlan, can }
    }
}

/// What one thread polls.
pub struct Lane {
    inner: Vec<InnerQueues>,
    underlay: Vec<UnderlayQueues>,
    /// Places in `inner` by network, in the order of networks.
    places: Vec<(u32, usize)>,
    sender: Encapsulator,
    receiver: Decapsulator,
    counters: Arc<Counters>,
    to_control: ToControl,
    /// Requests of the control's, for one of the lanes.
    requests: Option<Receiver<Frame>>,
    /// Packets of a batch that go on.
    hand: Batch,
    /// Stations that were heard of, on their way to the control.
    observed: Vec<Observation>,
    /// When the control is told of them next.
    tell: Duration,
    /// The time of this turn, since any moment.
    now: Duration,
    /// Networks that the NIC of an underlay's port has.
    nic: Option<Arc<NicPlaces>>,
}

impl Lane {
    /// A lane over queues of all ports, and the counters that others may read.
    pub fn new(
        table: &mut Overlay,
        inner: Vec<InnerQueues>,
        underlay: Vec<UnderlayQueues>,
        to_control: ToControl,
        requests: Option<Receiver<Frame>>,
    ) -> (Lane, Arc<Counters>) {
        let counters = Arc::new(Counters::new(inner.len(), underlay.len()));
        let mut places: Vec<(u32, usize)> =
            inner.iter().enumerate().map(|(place, inner)| (inner.network, place)).collect();
        places.sort_unstable();
        let mut sender = table.encapsulator();
        for (number, port) in underlay.iter().enumerate() {
            sender.set_port(number as u16, &port.can);
        }
        let lane = Lane {
            inner,
            underlay,
            places,
            sender,
            receiver: table.decapsulator(),
            counters: counters.clone(),
            to_control,
            requests,
            hand: Batch::with_limit(Batch::MAX),
            observed: Vec::with_capacity(MOST_OBSERVED),
            tell: Duration::ZERO,
            now: Duration::ZERO,
            nic: None,
        };
        (lane, counters)
    }

    /// Leaves packets of networks to the NIC of an underlay's port that has these.
    pub fn set_nic(&mut self, places: Arc<NicPlaces>) {
        self.nic = Some(places);
    }

    /// Sends what the control asks for.
    fn ask(&mut self, pool: &mut Pool) {
        let Some(requests) = &self.requests else { return };
        while let Ok(frame) = requests.try_recv() {
            let place = usize::from(frame.port);
            // The control asks by ports of the configuration.
            let Some(port) = self.underlay.get_mut(place) else { continue };
            let counters = &self.counters.underlay[place];
            let Some(mut packet) = pool.alloc() else {
                counters.lose(Reason::OverlayNotAsked);
                continue;
            };
            if packet.copy_from(frame.bytes()).is_err() || !tag(&mut packet, port.vlan) {
                counters.lose(Reason::OverlayNotAsked);
                pool.free(packet);
                continue;
            }
            self.counters.request();
            port.ends.push(packet, pool);
        }
    }

    /// Tells the control which stations were heard of, a few times a second.
    #[inline]
    fn tell(&mut self) {
        if self.now < self.tell {
            return;
        }
        self.tell = self.now + TELL;
        self.receiver.observed(&mut self.observed);
        for observed in self.observed.drain(..) {
            // Those for whom there is no room are heard of when they send again.
            let _ = self.to_control.observed.try_send(observed);
        }
    }

    /// From the port of a network into tunnels; how many frames came.
    fn enter(&mut self, place: usize, pool: &mut Pool, batch: &mut Batch) -> usize {
        let (inner, counters) = (&mut self.inner[place], &self.counters.inner[place]);
        let received = match &mut inner.few {
            None => inner.ends.rx.recv(pool, batch),
            Some(few) => take_few(&mut *inner.ends.rx, few, pool, batch),
        };
        if received == 0 {
            return 0;
        }
        counters.receive(received, batch.iter().map(Packet::total_len).sum());
        let is_plain = inner.gateway.layer == Layer::Ethernet && inner.gateway.host.addresses.is_empty();
        if !is_plain {
            for mut packet in batch.drain() {
                match inner.gateway.enter(&mut packet) {
                    Entered::Packet => drop(self.hand.push(packet)),
                    Entered::Answer => {
                        counters.answer();
                        inner.ends.push(packet, pool);
                    }
                    Entered::Lost(loss) => {
                        counters.lose(loss);
                        pool.free(packet);
                    }
                }
            }
            let kept = self.hand.len();
            batch.take_from(&mut self.hand, kept);
        }
        if let Some(nic) = &self.nic {
            let (layer, kept) = (inner.gateway.layer, &mut self.hand);
            leave_to_nic((nic, place), layer, &mut self.underlay, counters, batch, (kept, pool));
        }
        let mut sent = [Sent::Punt; Batch::MAX];
        self.sender.encapsulate(inner.network, batch, &mut sent);
        let (sender, underlay) = (&mut self.sender, &mut self.underlay[..]);
        let mut sending = Sending { sender, inner, underlay, counters, now: self.now };
        batch.drain().zip(sent).for_each(|(packet, sent)| sending.end(packet, sent, pool));
        received
    }

    /// From a port of the underlay out of tunnels; how many frames came.
    fn come(&mut self, place: usize, pool: &mut Pool, batch: &mut Batch) -> usize {
        let counters = &self.counters.underlay[place];
        let received = self.underlay[place].ends.rx.recv(pool, batch);
        if received == 0 {
            return 0;
        }
        counters.receive(received, batch.iter().map(Packet::total_len).sum());
        let mut became = [Received::Other; Batch::MAX];
        self.receiver.decapsulate_from(place as u16, batch, &mut became);
        for (mut packet, became) in batch.drain().zip(became) {
            if became == Received::Other && self.nic.is_some() {
                match self.take_back(place, packet, pool) {
                    Some(other) => packet = other,
                    None => continue,
                }
            }
            let counters = &self.counters.underlay[place];
            let lost = match became {
                Received::Drop(reason) => {
                    counters.lose(reason);
                    pool.free(packet);
                    continue;
                }
                Received::Network(network) => {
                    match self.places.binary_search_by_key(&network, |(network, _)| *network) {
                        Ok(at) => {
                            let inner = &mut self.inner[self.places[at].1];
                            match inner.gateway.leave(&mut packet) {
                                true => {
                                    counters.forward();
                                    inner.ends.push(packet, pool);
                                    continue;
                                }
                                false => Reason::OverlayNotRouted,
                            }
                        }
                        Err(_) => Reason::OverlayNoInner,
                    }
                }
                Received::Other => {
                    match own(&mut self.underlay[place], &mut packet, place as u16, &self.to_control) {
                        Own::Answer => {
                            counters.answer();
                            self.underlay[place].ends.push(packet, pool);
                            continue;
                        }
                        Own::Taken => {
                            counters.take();
                            pool.free(packet);
                            continue;
                        }
                        Own::Lost(loss) => loss,
                    }
                }
            };
            counters.lose(lost);
            pool.free(packet);
        }
        received
    }
}

/// Receives a few packets at a time, as long as what they are cut into is little and there is room for
/// as many more: most of what such a port gives may be frames like others; how many.
fn take_few(rx: &mut dyn RxQueue, few: &mut Batch, pool: &mut Pool, batch: &mut Batch) -> usize {
    let (mut all, mut pieces) = (0, 0);
    while pieces < MOST_PIECES && (all == 0 || batch.room() >= FEW) {
        // A batch that is smaller than a few takes the rest of them the next time.
        if few.is_empty() {
            rx.recv(pool, few);
        }
        let found = few.len();
        pieces += few.iter().map(pieces_of).sum::<usize>();
        all += batch.take_from(few, found);
        if found < FEW {
            break;
        }
    }
    all
}

/// How many packets of the wire a packet becomes.
fn pieces_of(packet: &Packet) -> usize {
    let offload = packet.tx_offload();
    match offload.has(TxOffload::SEGMENT) {
        true => packet.total_len().div_ceil(usize::from(offload.segment_size.max(1))),
        false => 1,
    }
}

/// What a frame that is no tunnel's is to a port of the underlay.
enum Own {
    /// It is the answer to what it asked.
    Answer,
    /// The control has it.
    Taken,
    Lost(Reason),
}

/// Looks at a frame that is no tunnel's.
#[cold]
fn own(port: &mut UnderlayQueues, packet: &mut Packet, number: u16, control: &ToControl) -> Own {
    if !untag(packet, port.vlan) {
        return Own::Lost(Reason::OverlayNotForUs);
    }
    let is_answer = Ipv4Addr::answer(packet).is_some() || Ipv6Addr::answer(packet).is_some();
    let frame = || Frame::new(number, &packet[..packet.len().min(channels::ROOM)]);
    if is_answer {
        return match frame().is_some_and(|frame| control.frames.try_send(frame).is_ok()) {
            true => Own::Taken,
            false => Own::Lost(Reason::OverlayControlFull),
        };
    }
    let mac = port.host.mac;
    if Ipv4Addr::asker(packet, mac).is_some() || Ipv6Addr::asker(packet, mac).is_some() {
        // It says where it is itself, whomever it asks for. Where there is no room it asks again.
        let _ = frame().is_some_and(|frame| control.asking.try_send(frame).is_ok());
    }
    match port.host.answer(packet) && tag(packet, port.vlan) {
        true => Own::Answer,
        false => Own::Lost(Reason::OverlayNotForUs),
    }
}

/// Takes the tag of the underlay's VLAN off, or one with a priority alone where there is none; false when
/// the frame is of another VLAN.
fn untag(packet: &mut Packet, expected: Option<u16>) -> bool {
    let tag = vlan::Tagged::of(&packet[..]).filter(|tag| tag.tag_type().is_tag());
    let Some(tag) = tag else { return expected.is_none() };
    if tag.tag_type() != EtherType::VLAN || tag.control() & vlan::ID != expected.unwrap_or(0) {
        return false;
    }
    if let Some(mut tagged) = vlan::Tagged::of_mut(&mut packet[..]) {
        tagged.move_addresses_over_tag();
    }
    packet.pull_front(vlan::HEADER_LEN).is_ok()
}

/// Puts the tag of the underlay's VLAN on; false when there is no room.
fn tag(packet: &mut Packet, id: Option<u16>) -> bool {
    let Some(id) = id else { return true };
    packet.push_front(vlan::HEADER_LEN).is_ok() && vlan::insert(packet, id)
}

impl Poller for Lane {
    fn turn(&mut self, now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.now = Duration::from_nanos(now.as_ns().unsigned_abs());
        self.sender.set_time(self.now);
        self.ask(pool);
        self.tell();
        let mut moved = 0;
        for place in 0..self.inner.len() {
            moved += self.enter(place, pool, batch);
        }
        for place in 0..self.underlay.len() {
            moved += self.come(place, pool, batch);
        }
        self.inner.iter_mut().for_each(|port| port.ends.flush(pool));
        self.underlay.iter_mut().for_each(|port| port.ends.flush(pool));
        moved
    }

    fn queues<'a>(&'a mut self, visit: &mut dyn FnMut(Queue<'a>)) {
        let inner = self.inner.iter_mut().map(|port| &mut port.ends);
        for ends in inner.chain(self.underlay.iter_mut().map(|port| &mut port.ends)) {
            visit(Queue::Rx(&mut *ends.rx));
            visit(Queue::Tx(&mut *ends.tx));
        }
    }

    fn buffers(&self) -> usize {
        // What is to leave, copies for a flood list among it.
        let leaving = (self.inner.len() + self.underlay.len()) * Batch::MAX;
        // A batch of long segments comes from one port at a time.
        leaving + self.inner.iter().map(|inner| (inner.chain - 1) * Batch::MAX).max().unwrap_or(0)
    }
}

const _: () = assert!(ethernet::HEADER_LEN + vlan::HEADER_LEN <= memory::HEADROOM);

#[cfg(test)]
mod tests {
    use memory::{Dma, Options};
    use port::RxStats;

    use super::*;

    /// Gives so many short frames.
    struct Frames(usize);

    impl RxQueue for Frames {
        fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
            let count = pool.alloc_batch(batch, batch.room().min(self.0));
            self.0 -= count;
            count
        }

        fn stats(&self) -> RxStats {
            RxStats::default()
        }
    }

    /// What is counted as received is in the batch, whatever room it has, and nothing stays behind.
    #[test]
    fn short_frames_are_taken_as_far_as_there_is_room() {
        let mut pool = Pool::new(&Dma::new(Options::default()), 512).expect("memory");
        for limit in [4, 8, 30, 32, 100, Batch::MAX] {
            let (mut rx, mut few) = (Frames(300), Batch::with_limit(FEW));
            let mut batch = Batch::with_limit(limit);
            let mut all = 0;
            for _ in 0..300 {
                let taken = take_few(&mut rx, &mut few, &mut pool, &mut batch);
                assert_eq!(taken, batch.len(), "{limit}");
                assert!(few.is_empty() || limit < FEW, "{limit}");
                all += taken;
                pool.free_batch(&mut batch);
            }
            assert_eq!((all, rx.0), (300, 0), "{limit}");
        }
    }
}
