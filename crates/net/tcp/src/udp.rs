//! UDP (RFC 768) of a host: datagrams to bound ports go to a service as they are, a batch at a
//! time, and what it sends goes out in the buffers that it hands over. What came in fragments comes
//! in several buffers, and what is too long for a packet goes in fragments. No groups.

use std::borrow::Cow;
use std::net::IpAddr;

use memory::{Checksum, DATA_ROOM, Packet, Pool, TxOffload};
use port::{Counter, Reason};
use wire::ip::{Addresses, LONGEST, Protocol};
use wire::{Flow, ipv4, ipv6, udp};

use crate::connection::Io;
use crate::cut::{Cutter, Uncut};
use crate::emit;
use crate::fragments::Whole;
use crate::options::{Offload, Options};

/// A datagram that came.
#[derive(Debug)]
pub struct Datagram {
    /// From which address and port.
    pub from: (IpAddr, u16),
    /// To which address and port of this host.
    pub to: (IpAddr, u16),
    /// The payload, where the device put it; the packet holds nothing else. One that came in
    /// fragments may be in several buffers.
    pub packet: Packet,
}

impl Datagram {
    /// The payload in one piece, which is copied where it is in several buffers.
    #[inline]
    pub fn payload(&self) -> Cow<'_, [u8]> {
        match self.packet.next() {
            None => Cow::Borrowed(&self.packet),
            Some(_) => Cow::Owned(self.packet.segments().flat_map(|buffer| buffer.iter().copied()).collect()),
        }
    }
}

/// An application that speaks UDP.
pub trait Datagrams: Send {
    /// Is called once, before all datagrams: an application that asks others does so here.
    fn begin(&mut self, udp: &mut Udp, io: &mut Io) {
        let _ = (udp, io);
    }

    /// Takes all `datagrams` of a turn: what it sends goes out when it has returned. Packets
    /// that it leaves are freed.
    fn serve(&mut self, datagrams: &mut Vec<Datagram>, udp: &mut Udp, io: &mut Io);

    /// When it is to be called even if no datagram has come, in nanoseconds.
    fn deadline_ns(&self) -> Option<i64> {
        None
    }
}

/// Why a datagram was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// There is no room for more packets in this turn.
    #[error("there is no room for more packets in this turn")]
    Full,
    /// The payload does not fit into a packet.
    #[error("the payload does not fit into a packet")]
    TooLong,
    /// The addresses are of different versions of IP.
    #[error("the addresses are of different versions of IP")]
    Addresses,
}

/// Why a packet that came in fragments is no datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreceived {
    /// It makes no sense, which is counted.
    Wrong,
    /// Nobody has its port, which is counted.
    NoPort,
    /// There are no buffers for it.
    NoBuffers,
}

/// Bytes in as many buffers as they need.
fn chain(bytes: &[u8], pool: &mut Pool) -> Option<Packet> {
    let mut first: Option<Packet> = None;
    // From the last on, so that no chain is walked along.
    for part in bytes.rchunks(DATA_ROOM) {
        let Some(mut packet) = pool.alloc() else {
            first.into_iter().for_each(|packet| pool.free(packet));
            return None;
        };
        if packet.copy_from(part).is_err() {
            pool.free(packet);
            first.into_iter().for_each(|packet| pool.free(packet));
            return None;
        }
        first.into_iter().for_each(|rest| packet.append(rest));
        first = Some(packet);
    }
    first.or_else(|| pool.alloc())
}

/// Ports below this are those of services (RFC 6335, section 6).
const FIRST_USER_PORT: u16 = 1024;

/// The UDP of one core.
#[derive(Debug)]
pub struct Udp {
    /// A bit for each port that is bound.
    bound: Box<[u64; 1024]>,
    mtu: usize,
    offload: Offload,
    cutter: Cutter,
    malformed: u64,
    wrong_sums: u64,
    no_port: u64,
    given_up: u64,
    received: u64,
    sent: u64,
}

impl Udp {
    /// No port is bound.
    pub fn new(options: &Options) -> Udp {
        Udp {
            bound: Box::new([0; 1024]),
            mtu: options.mtu.into(),
            offload: options.offload,
            cutter: Cutter::default(),
            malformed: 0,
            wrong_sums: 0,
            no_port: 0,
            given_up: 0,
            received: 0,
            sent: 0,
        }
    }

    /// Sets the longest IP packet.
    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.into();
    }

    /// Takes datagrams to a port from now on.
    pub fn bind(&mut self, port: u16) {
        self.bound[usize::from(port / 64)] |= 1 << (port % 64);
    }

    /// Takes no more datagrams to a port.
    pub fn unbind(&mut self, port: u16) {
        self.bound[usize::from(port / 64)] &= !(1 << (port % 64));
    }

    /// Whether datagrams to a port are taken.
    pub(crate) fn is_bound(&self, port: u16) -> bool {
        self.bound[usize::from(port / 64)] & 1 << (port % 64) != 0
    }

    /// Whether a service may be at a port: it is below 1024 (RFC 6335, section 6), or bound here.
    /// Another service would answer an answer, and so on for ever.
    pub fn is_service(&self, port: u16) -> bool {
        port < FIRST_USER_PORT || self.is_bound(port)
    }

    /// Makes a datagram of a packet for this host whose layers are `flow`.
    ///
    /// # Errors
    /// The packet, and whether nobody has its port, of which its sender may be told.
    pub(crate) fn receive(&mut self, mut packet: Packet, flow: &Flow) -> Result<Datagram, (Packet, bool)> {
        let Some((ports, payload)) = self.check(&packet, flow) else { return Err((packet, false)) };
        if !self.is_bound(ports.1) {
            self.no_port += 1;
            return Err((packet, true));
        }
        let start = flow.l4_offset() + udp::HEADER_LEN;
        packet.forget_rx_words();
        if packet.pull_front(start).is_err() || packet.set_len(payload).is_err() {
            self.malformed += 1;
            return Err((packet, false));
        }
        self.received += 1;
        let (from, to) = ((flow.addresses.src(), ports.0), (flow.addresses.dst(), ports.1));
        Ok(Datagram { from, to, packet })
    }

    /// The ports and the length of the payload of a sound datagram.
    fn check(&mut self, packet: &Packet, flow: &Flow) -> Option<((u16, u16), usize)> {
        let bytes = packet.get(flow.l4_offset()..flow.end).filter(|_| packet.next().is_none());
        let Some(datagram) = bytes.and_then(|bytes| udp::Datagram::new_checked(bytes).ok()) else {
            self.malformed += 1;
            return None;
        };
        let is_right = match packet.l4_checksum() {
            Checksum::Good => true,
            Checksum::Bad => false,
            Checksum::Unknown => datagram.verify_checksum(flow.addresses),
        };
        if !is_right {
            self.wrong_sums += 1;
            return None;
        }
        Some(((datagram.src_port(), datagram.dst_port()), datagram.payload().len()))
    }

    /// Makes a datagram of a packet that came in fragments.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn receive_whole(&mut self, whole: &Whole, pool: &mut Pool) -> Result<Datagram, Unreceived> {
        let Ok(datagram) = udp::Datagram::new_checked(&whole.payload[..]) else {
            self.malformed += 1;
            return Err(Unreceived::Wrong);
        };
        if !datagram.verify_checksum(whole.addresses) {
            self.wrong_sums += 1;
            return Err(Unreceived::Wrong);
        }
        let (from, to) = (datagram.src_port(), datagram.dst_port());
        if !self.is_bound(to) {
            self.no_port += 1;
            return Err(Unreceived::NoPort);
        }
        let Some(packet) = chain(datagram.payload(), pool) else { return Err(Unreceived::NoBuffers) };
        self.received += 1;
        let (src, dst) = (whole.addresses.src(), whole.addresses.dst());
        Ok(Datagram { from: (src, from), to: (dst, to), packet })
    }

    /// Sends a packet's bytes as a datagram, from an address of this host: in fragments where it is
    /// longer than packets may be.
    ///
    /// # Errors
    /// The packet again, and why.
    pub fn send(
        &mut self,
        from: (IpAddr, u16),
        to: (IpAddr, u16),
        mut packet: Packet,
        io: &mut Io,
    ) -> Result<(), (Packet, Unsent)> {
        let Some(addresses) = emit::addresses(from.0, to.0) else { return Err((packet, Unsent::Addresses)) };
        if io.out.room() == 0 {
            return Err((packet, Unsent::Full));
        }
        let headers = udp::HEADER_LEN
            + match addresses {
                Addresses::V4 { .. } => ipv4::HEADER_LEN,
                Addresses::V6 { .. } => ipv6::HEADER_LEN,
            };
        let fits = packet.next().is_none() && packet.len() + headers <= self.mtu;
        if !fits {
            return self.send_cut(packet, addresses, (from.1, to.1), io);
        }
        if !self.wrap(&mut packet, addresses, (from.1, to.1)) {
            return Err((packet, Unsent::TooLong));
        }
        self.sent += 1;
        match io.out.push(packet) {
            Some(packet) => Err((packet, Unsent::Full)),
            None => Ok(()),
        }
    }

    /// Sends a datagram of several packets.
    #[cold]
    fn send_cut(
        &mut self,
        packet: Packet,
        addresses: Addresses,
        (src_port, dst_port): (u16, u16),
        io: &mut Io,
    ) -> Result<(), (Packet, Unsent)> {
        let payload_len = packet.total_len();
        if payload_len > LONGEST - udp::HEADER_LEN {
            return Err((packet, Unsent::TooLong));
        }
        let mut bytes = udp::Repr { src_port, dst_port, payload_len }.header().into_inner().to_vec();
        packet.segments().for_each(|buffer| bytes.extend_from_slice(buffer));
        udp::Datagram::new_unchecked(&mut bytes[..]).fill_checksum(addresses);
        let sent = self.cutter.send((addresses, Protocol::UDP), &bytes, (&[], self.mtu), io.pool, io.out);
        match sent {
            Ok(()) => {
                self.sent += 1;
                io.pool.free(packet);
                Ok(())
            }
            Err(Uncut::Full) => Err((packet, Unsent::Full)),
            Err(Uncut::TooLong) => Err((packet, Unsent::TooLong)),
        }
    }

    /// Puts the headers in front of a payload, for which there must be headroom.
    fn wrap(&self, packet: &mut Packet, addresses: Addresses, ports: (u16, u16)) -> bool {
        let repr = udp::Repr { src_port: ports.0, dst_port: ports.1, payload_len: packet.len() };
        let Ok(front) = packet.push_front(udp::HEADER_LEN) else { return false };
        front.copy_from_slice(&repr.header().into_inner());
        let mut datagram = udp::Datagram::new_unchecked(&mut packet[..]);
        if self.offload.checksum {
            datagram.fill_pseudo_checksum(addresses);
            packet.set_tx_offload(emit::asked(addresses, TxOffload::UDP_CHECKSUM, udp::HEADER_LEN));
        } else {
            datagram.fill_checksum(addresses);
        }
        emit::push_ip(packet, addresses, Protocol::UDP, 0).is_ok()
    }

    /// Frees a packet that could not be sent, and counts it.
    pub fn give_up(&mut self, packet: Packet, io: &mut Io) {
        self.given_up += 1;
        io.pool.free(packet);
    }

    /// Counts datagrams that there are no packets of, and that were not sent.
    pub fn count_unsent(&mut self, count: usize) {
        self.given_up += count as u64;
    }

    /// What was counted, losses first.
    pub fn counters(&self) -> impl Iterator<Item = Counter> {
        let losses = [
            (Reason::RxUdpMalformed, self.malformed),
            (Reason::RxUdpChecksum, self.wrong_sums),
            (Reason::RxUdpNoPort, self.no_port),
            (Reason::TxUdpUnsent, self.given_up),
        ];
        let others = [
            Counter::of("udp_received", self.received, "datagrams were given to applications"),
            Counter::of("udp_sent", self.sent, "datagrams were sent"),
        ];
        losses.into_iter().map(|(reason, count)| Counter::of_loss(reason, count)).chain(others)
    }
}
