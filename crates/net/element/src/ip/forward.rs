//! What the elements that look up routes do with packets, IPv4 and IPv6 alike: each thread
//! has a [`Forwarder`], which reads the table as last published and takes no lock.
//!
//! A batch's addresses are looked up together, so that the processor waits for
//! several places of a large table at once.

use std::net::Ipv4Addr;

use fib::Reader;
use fib::lpm::Address;
use graph::{Cx, Next};
use memory::{Batch, Packet};

use graph::annotation::{DST_IP6, PacketAnnotations};

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hop<A> {
    /// The output.
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

impl<A: Family> Hop<A> {
    /// Notes the next hop's address on a packet, if it is not the destination itself.
    #[inline(always)]
    pub(crate) fn direct(self, packet: &mut Packet) {
        if self.gateway != A::default() {
            self.gateway.set_destination(packet);
        }
    }
}

/// Addresses to look up and the indices of their next hops; kept, because clearing as
/// much for each batch would cost more than the lookup.
#[derive(Debug)]
struct Scratch<A> {
    addresses: [A; Batch::MAX],
    indices: [u32; Batch::MAX],
}

/// Sends packets where a table says.
#[derive(Debug)]
pub(crate) struct Forwarder<A: Family> {
    reader: Reader<A, Hop<A>>,
    scratch: Box<Scratch<A>>,
}

impl<A: Family> Clone for Forwarder<A> {
    /// One for another thread.
    fn clone(&self) -> Self {
        Forwarder::new(self.reader.clone())
    }
}

impl<A: Family> Forwarder<A> {
    pub(crate) fn new(reader: Reader<A, Hop<A>>) -> Self {
        let scratch = Scratch { addresses: [A::default(); Batch::MAX], indices: [0; Batch::MAX] };
        Forwarder { reader, scratch: Box::new(scratch) }
    }

    /// Takes up what was published and lets go of what it had before, so that the writer
    /// need not wait until the next packet comes.
    pub(crate) fn refresh(&mut self) {
        self.reader.fib();
    }

    /// Where an address goes.
    #[inline]
    pub(crate) fn hop(&mut self, address: A) -> Option<Hop<A>> {
        self.reader.fib().lookup(address).copied()
    }

    /// Sends a batch on; packets without a route are given to `miss`.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        mut miss: impl FnMut(&mut Cx<'_>, Packet),
    ) -> Next {
        let count = batch.len();
        if count == 0 {
            return Next::Done;
        }
        let fib = self.reader.fib();
        let addresses = &mut self.scratch.addresses[..count];
        for (address, packet) in addresses.iter_mut().zip(batch.iter()) {
            *address = A::destination(packet);
        }
        let indices = &mut self.scratch.indices[..count];
        fib.lookup_batch(addresses, indices);
        let stays = fib.hop(indices[0]).map(|hop| hop.port);
        let mut same = stays.is_some();
        for (index, packet) in indices.iter().zip(batch.iter_mut()) {
            match fib.hop(*index) {
                Some(hop) => {
                    hop.direct(packet);
                    same &= Some(hop.port) == stays;
                }
                None => same = false,
            }
        }
        let stays = stays.unwrap_or(0);
        if same {
            return Next::Push(stays.into());
        }
        let sort = |_: &mut &mut Cx<'_>, place: usize, _: &mut Packet| {
            let port = indices.get(place).and_then(|index| fib.hop(*index)).map(|hop| hop.port);
            (port != Some(stays)).then_some(port)
        };
        batch.split(&mut &mut *cx, sort, |cx, port, packet| match port {
            Some(port) => cx.emit(port.into(), packet),
            None => miss(cx, packet),
        });
        Next::Push(stays.into())
    }
}
