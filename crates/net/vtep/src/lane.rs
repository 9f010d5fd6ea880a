//! The way of packets through one thread: from ports of virtual networks into tunnels, and
//! out of tunnels to them. A lane has one receive and one transmit queue of every port.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use memory::{Batch, DATA_ROOM, Packet, Pool, TxOffload};
use neighbor::Responder;
use overlay::{Decapsulator, Encapsulator, Layer, Overlay, Reason, Received, Sent};
use port::{Capabilities, RxQueue, TxQueue, software};
use runtime::{Instant, Poller, Queue};
use wire::{MacAddress, ethernet, vlan};

use crate::config::{Inner, UnderlayPort};
use crate::counters::{Counters, Loss, Side};
use crate::gateway::{Entered, Gateway};
use crate::mail::Frame;

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
        let host = Responder { mac, addresses: inner.gateway.clone() };
        let gateway = Gateway { host, layer: inner.layer, peer: inner.peer };
        let chain = can.max_frame.div_ceil(DATA_ROOM).max(1);
        InnerQueues { ends: Ends::new(rx, tx), network: inner.network, gateway, chain }
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
    to_control: SyncSender<Frame>,
    /// Requests of the control's, for one of the lanes.
    requests: Option<Receiver<Frame>>,
    /// Packets of a batch that go on.
    hand: Batch,
}

impl Lane {
    /// A lane over queues of all ports, and the counters that others may read.
    pub fn new(
        table: &mut Overlay,
        inner: Vec<InnerQueues>,
        underlay: Vec<UnderlayQueues>,
        to_control: SyncSender<Frame>,
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
        };
        (lane, counters)
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
                counters.lose(Loss::NotAsked);
                continue;
            };
            if packet.copy_from(frame.bytes()).is_err() || !tag(&mut packet, port.vlan) {
                counters.lose(Loss::NotAsked);
                pool.free(packet);
                continue;
            }
            self.counters.request();
            port.ends.push(packet, pool);
        }
    }

    /// From the port of a network into tunnels; how many frames came.
    fn enter(&mut self, place: usize, pool: &mut Pool, batch: &mut Batch) -> usize {
        let (inner, counters) = (&mut self.inner[place], &self.counters.inner[place]);
        let received = inner.ends.rx.recv(pool, batch);
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
        let mut sent = [Sent::Punt; Batch::MAX];
        let network = inner.network;
        self.sender.encapsulate(network, batch, &mut sent);
        for (packet, sent) in batch.drain().zip(sent) {
            match sent {
                Sent::Port(port) => leave(counters, &mut self.underlay, port, packet, pool),
                Sent::Drop(Reason::Offload) if packet.tx_offload().has(TxOffload::SEGMENT) => {
                    send_pieces(&mut self.sender, (network, counters), &mut self.underlay, packet, pool);
                }
                Sent::Drop(reason) => {
                    counters.drop(reason);
                    pool.free(packet);
                }
                Sent::Punt => {
                    counters.lose(Loss::Punted);
                    pool.free(packet);
                }
                Sent::Flood => flood(&mut self.sender, (network, counters), &mut self.underlay, packet, pool),
            }
        }
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
        self.receiver.decapsulate(batch, &mut became);
        for (mut packet, became) in batch.drain().zip(became) {
            let lost = match became {
                Received::Drop(reason) => {
                    counters.drop(reason);
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
                                false => Loss::NotRouted,
                            }
                        }
                        Err(_) => Loss::NoInner,
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

/// Lets a packet with its outer headers leave by a port of the underlay.
#[inline]
fn leave(counters: &Side, underlay: &mut [UnderlayQueues], port: u16, packet: Packet, pool: &mut Pool) {
    match underlay.get_mut(usize::from(port)) {
        Some(port) => match packet.tx_offload().has(TxOffload::SEGMENT) {
            false => {
                counters.forward();
                port.ends.push(packet, pool);
            }
            true => leave_cut(counters, port, packet, pool),
        },
        None => {
            counters.lose(Loss::NoPort);
            pool.free(packet);
        }
    }
}

/// Lets a long segment leave in pieces.
#[cold]
fn leave_cut(counters: &Side, port: &mut UnderlayQueues, packet: Packet, pool: &mut Pool) {
    cut(counters, packet, pool, |pool, piece| {
        counters.forward();
        port.ends.push(piece, pool);
    });
}

/// Cuts a long segment; what is more than one piece is counted as copies are.
fn cut(counters: &Side, packet: Packet, pool: &mut Pool, give: impl FnMut(&mut Pool, Packet)) {
    let cut = software::cut(&packet, pool, give);
    (1..cut.pieces + usize::from(!cut.is_whole)).for_each(|_| counters.copy());
    if !cut.is_whole {
        counters.lose(Loss::NotCut);
    }
    pool.free(packet);
}

/// Sends a long segment in pieces into a tunnel whose headers are for one packet each.
#[cold]
fn send_pieces(
    sender: &mut Encapsulator,
    (network, counters): (u32, &Side),
    underlay: &mut [UnderlayQueues],
    packet: Packet,
    pool: &mut Pool,
) {
    cut(counters, packet, pool, |pool, mut piece| {
        let mut sent = [Sent::Punt];
        sender.encapsulate(network, std::slice::from_mut(&mut piece), &mut sent);
        match sent[0] {
            Sent::Port(port) => leave(counters, underlay, port, piece, pool),
            Sent::Drop(reason) => {
                counters.drop(reason);
                pool.free(piece);
            }
            // The entry was removed a moment ago.
            Sent::Punt | Sent::Flood => {
                counters.lose(Loss::Punted);
                pool.free(piece);
            }
        }
    });
}

/// Sends copies of a packet to all of a flood list; the packet itself is the last of them.
#[cold]
fn flood(
    sender: &mut Encapsulator,
    (network, counters): (u32, &Side),
    underlay: &mut [UnderlayQueues],
    packet: Packet,
    pool: &mut Pool,
) {
    let places = sender.flood_len(network);
    let mut left = Some(packet);
    for place in 0..places {
        if place > 0 {
            counters.copy();
        }
        let copy = match place + 1 == places {
            true => left.take(),
            false => left.as_ref().and_then(|packet| packet.copy_with(0, || pool.alloc())),
        };
        let Some(mut copy) = copy else {
            counters.lose(Loss::NoCopy);
            continue;
        };
        match sender.flood(network, place, &mut copy) {
            Sent::Port(port) => {
                leave(counters, underlay, port, copy, pool);
                continue;
            }
            Sent::Drop(reason) => counters.drop(reason),
            Sent::Punt | Sent::Flood => counters.lose(Loss::NoCopy), // which a place never gives
        }
        pool.free(copy);
    }
    if let Some(packet) = left {
        counters.lose(Loss::NoCopy); // an empty list
        pool.free(packet);
    }
}

/// What a frame that is no tunnel's is to a port of the underlay.
enum Own {
    /// It is the answer to what it asked.
    Answer,
    /// The control has it.
    Taken,
    Lost(Loss),
}

/// Looks at a frame that is no tunnel's.
#[cold]
fn own(port: &mut UnderlayQueues, packet: &mut Packet, number: u16, control: &SyncSender<Frame>) -> Own {
    if !untag(packet, port.vlan) {
        return Own::Lost(Loss::NotForUs);
    }
    let is_answer = neighbor::arp::parse(packet)
        .is_some_and(|arp| arp.operation == wire::arp::Operation::REPLY)
        || neighbor::nd::advertisement(packet).is_some();
    if is_answer {
        let frame = Frame::new(number, &packet[..packet.len().min(neighbor::nd::FRAME_LEN)]);
        let Some(frame) = frame else { return Own::Lost(Loss::NotForUs) };
        return match control.try_send(frame) {
            Ok(()) => Own::Taken,
            Err(_) => Own::Lost(Loss::ControlFull),
        };
    }
    match port.host.answer(packet) && tag(packet, port.vlan) {
        true => Own::Answer,
        false => Own::Lost(Loss::NotForUs),
    }
}

/// Takes the tag of the underlay's VLAN off; false when the frame is of another VLAN.
fn untag(packet: &mut Packet, expected: Option<u16>) -> bool {
    let Some(id) = expected else { return true };
    let tagged = vlan::Tagged::of(&packet[..]);
    let is_ours = tagged.is_some_and(|tag| tag.tag_type().is_tag() && tag.control() & vlan::ID == id);
    if !is_ours {
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
        self.sender.set_time(Duration::from_nanos(now.as_ns().unsigned_abs()));
        self.ask(pool);
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
