//! What the elements that look packets up do with them, by longest prefix match of IPv4 and
//! IPv6 or by exact match: each thread has a [`Forwarder`], which reads the table as last
//! published and takes no lock.
//!
//! A batch's keys are looked up together, so that the processor waits for
//! several places of a large table at once.

use std::net::Ipv4Addr;

use fib::lpm::Address;
use fib::{Fib, MISS, Reader, Scheme};
use graph::{Cx, Next};
use memory::{Batch, Packet};

use graph::annotation::{DST_IP6, PacketAnnotations};

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hop<A> {
    /// The number of the element's output that packets leave by.
    pub port: u16,
    /// The next hop's address; zero when the destination is on the link itself.
    pub gateway: A,
}

/// An address family, with the annotation that packets go by.
pub(crate) trait Family: Address + Default {
    /// Where a packet is to go.
    fn destination(packet: &Packet) -> Self;

    /// Sets the next hop's address.
    fn set_destination(self, packet: &mut Packet);
}

impl Family for u32 {
    #[inline(always)]
    fn destination(packet: &Packet) -> u32 {
        packet.dst_ip().to_bits()
    }

    #[inline(always)]
    fn set_destination(self, packet: &mut Packet) {
        packet.set_dst_ip(Ipv4Addr::from_bits(self));
    }
}

impl Family for u128 {
    #[inline(always)]
    fn destination(packet: &Packet) -> u128 {
        u128::from_be_bytes(packet.bytes_at(DST_IP6))
    }

    #[inline(always)]
    fn set_destination(self, packet: &mut Packet) {
        packet.set_bytes_at(DST_IP6, self.to_be_bytes());
    }
}

/// What a table says of a packet.
pub(crate) trait NextHop {
    /// The number of the element's output that the packet leaves by.
    fn port(&self) -> u16;

    /// Prepares a packet for its way there.
    fn direct(&self, packet: &mut Packet);
}

impl<A: Family> NextHop for Hop<A> {
    #[inline(always)]
    fn port(&self) -> u16 {
        self.port
    }

    /// Notes the next hop's address on a packet, if it is not the destination itself.
    #[inline(always)]
    fn direct(&self, packet: &mut Packet) {
        if self.gateway != A::default() {
            self.gateway.set_destination(packet);
        }
    }
}

/// What is looked up of a packet; `None` where it has no such thing.
pub(crate) trait PacketKey<S: Scheme>: Copy {
    /// The key of a packet.
    fn key(self, packet: &Packet) -> Option<S::Key>;
}

/// The address that the destination annotation says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Destination;

impl<A: Family> PacketKey<A> for Destination {
    #[inline(always)]
    fn key(self, packet: &Packet) -> Option<A> {
        Some(A::destination(packet))
    }
}

/// Keys to look up and the indices of their next hops; kept, because clearing as
/// much for each batch would cost more than the lookup.
#[derive(Debug)]
struct Scratch<K> {
    keys: [K; Batch::MAX],
    indices: [u32; Batch::MAX],
}

/// Sends packets where a table says.
#[derive(Debug)]
pub(crate) struct Forwarder<S: Scheme, H = Hop<S>, K = Destination> {
    reader: Reader<S, H>,
    key: K,
    scratch: Box<Scratch<S::Key>>,
}

impl<S: Scheme<Key: Default>, H, K: PacketKey<S>> Clone for Forwarder<S, H, K> {
    /// One for another thread.
    fn clone(&self) -> Self {
        Forwarder::by(self.key, self.reader.clone())
    }
}

impl<A: Family> Forwarder<A> {
    /// By the destination address.
    pub(crate) fn new(reader: Reader<A, Hop<A>>) -> Self {
        Forwarder::by(Destination, reader)
    }
}

impl<S: Scheme<Key: Default>, H, K: PacketKey<S>> Forwarder<S, H, K> {
    /// By what `key` reads from packets.
    pub(crate) fn by(key: K, reader: Reader<S, H>) -> Self {
        let scratch = Scratch { keys: [S::Key::default(); Batch::MAX], indices: [0; Batch::MAX] };
        Forwarder { reader, key, scratch: Box::new(scratch) }
    }

    /// Takes up what was published and lets go of what it had before, so that the writer
    /// need not wait until the next packet comes.
    pub(crate) fn refresh(&mut self) {
        self.reader.fib();
    }

    /// Where packets with a key go.
    #[inline]
    pub(crate) fn hop(&mut self, key: S::Key) -> Option<H>
    where
        H: Copy,
    {
        self.reader.fib().lookup(key).copied()
    }

    /// What decides about the packets of a batch: the index of a next hop for each. A packet
    /// without a key has none.
    #[inline(always)]
    fn look_up(&mut self, batch: &Batch) -> (&Fib<S, H>, &mut [u32]) {
        let (key, count) = (self.key, batch.len());
        let keys = &mut self.scratch.keys[..count];
        let mut absent = false;
        for (slot, packet) in keys.iter_mut().zip(batch.iter()) {
            let found = key.key(packet);
            absent |= found.is_none();
            *slot = found.unwrap_or_default();
        }
        let fib = self.reader.fib();
        let indices = &mut self.scratch.indices[..count];
        fib.lookup_batch(keys, indices);
        if absent {
            let packets = indices.iter_mut().zip(batch.iter());
            packets.filter(|(_, packet)| key.key(packet).is_none()).for_each(|(index, _)| *index = MISS);
        }
        (fib, indices)
    }

    /// Sends a batch on; packets without a route are given to `miss`.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        miss: impl FnMut(&mut Cx<'_>, Packet),
    ) -> Next
    where
        H: NextHop,
    {
        if batch.is_empty() {
            return Next::Done;
        }
        let (fib, indices) = self.look_up(batch);
        let stays = fib.hop(indices[0]).map_or(MISS, |hop| hop.port().into());
        let mut same = stays != MISS;
        for (index, packet) in indices.iter_mut().zip(batch.iter_mut()) {
            // What is needed of a next hop later is its port.
            *index = match fib.hop(*index) {
                Some(hop) => {
                    hop.direct(packet);
                    hop.port().into()
                }
                None => MISS,
            };
            same &= *index == stays;
        }
        let most = if stays == MISS { 0 } else { stays as usize };
        if same {
            return Next::Push(most);
        }
        let port = |place: usize| indices.get(place).filter(|port| **port != MISS);
        cx.emit_parts(batch, most, |place| port(place).map(|port| *port as usize), miss);
        Next::Push(most)
    }
}

#[cfg(test)]
mod tests {
    use fib::Rib;
    use fib::exact::{Exact, Extractor, Key};
    use memory::{Dma, Options, Pool};

    use super::*;

    /// Some bits of the packet, in one virtual network.
    impl PacketKey<Exact> for Extractor {
        fn key(self, packet: &Packet) -> Option<Key> {
            Extractor::key(self, 7, packet)
        }
    }

    fn batch(pool: &mut Pool, packets: &[&[u8]]) -> Batch {
        let mut batch = Batch::default();
        for bytes in packets {
            let mut packet = pool.alloc().expect("a buffer");
            packet.copy_from(bytes).expect("it fits");
            batch.push(packet);
        }
        batch
    }

    #[test]
    fn exact_match_has_next_hops_of_its_own_and_packets_without_a_key_have_none() {
        let mut rib = Rib::<Exact, &str>::new();
        rib.insert(Key::new(7, 0), "the key of all zeros").expect("room");
        rib.insert(Key::new(7, 0x0102), "a tunnel").expect("room");
        rib.insert(Key::new(8, 0x0203), "another network").expect("room");
        rib.insert(Key::default(), "what a packet without a key must not find").expect("room");
        rib.publish();
        let dma = Dma::new(Options::default());
        let mut pool = Pool::new(&dma, 16).expect("memory");
        let extractor = Extractor::new(2, 16).expect("few bits");
        let mut forwarder = Forwarder::by(extractor, rib.reader());
        let mut packets = batch(&mut pool, &[b"..\x01\x02", b"..\x02\x03", b"..\x01", b"..\0\0", b".."]);
        let (fib, indices) = forwarder.look_up(&packets);
        let hops: Vec<_> = indices.iter().map(|index| fib.hop(*index).copied()).collect();
        assert_eq!(hops, [Some("a tunnel"), None, None, Some("the key of all zeros"), None]);
        assert_eq!(forwarder.clone().hop(Key::new(8, 0x0203)), Some("another network"));
        pool.free_batch(&mut packets);
    }

    #[test]
    fn addresses_go_by_the_annotation() {
        let mut rib = Rib::<u32, _>::new();
        rib.insert((0x0A00_0000, 8), Hop { port: 3, gateway: 0 }).expect("room");
        rib.publish();
        let dma = Dma::new(Options::default());
        let mut pool = Pool::new(&dma, 16).expect("memory");
        let mut forwarder = Forwarder::new(rib.reader());
        let mut packets = batch(&mut pool, &[b"one", b"two"]);
        for (packet, address) in packets.iter_mut().zip([0x0A01_0203, 0x0B01_0203]) {
            packet.set_dst_ip(Ipv4Addr::from_bits(address));
        }
        let (fib, indices) = forwarder.look_up(&packets);
        assert_eq!(fib.hop(indices[0]).map(NextHop::port), Some(3));
        assert_eq!(indices[1], MISS);
        pool.free_batch(&mut packets);
    }
}
