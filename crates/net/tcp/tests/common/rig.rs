//! A stack whose other side is the test, segment by segment.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::net::Ipv4Addr;

use memory::{Batch, Packet, Pool, TxOffload};
use tcp::{Event, Id, Io, Options, Reason, Stack, State};
use wire::ip::{Addresses, Protocol};
use wire::tcp::{Flags, HEADER_LEN, Repr, Segment};
use wire::tcp_option::{TcpOption, kind, sack_blocks, set_sack_blocks};
use wire::{Flow, ipv4};

use super::{MS, SECOND, dma, frame};

pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const SYN_ACK: Flags = Flags(18);
/// The first number of the test's side.
pub const FIRST: u32 = u32::MAX - 50;

/// A segment that the stack sent.
#[derive(Debug, Clone)]
pub struct Sent {
    pub header: Repr,
    pub blocks: Vec<(u32, u32)>,
    pub payload: Vec<u8>,
}

/// A stack, and what the other side has in mind.
pub struct Rig {
    pub stack: Stack,
    pub pool: Pool,
    pub now: i64,
    pub port: u16,
    /// The next number of the test's side, and what it acknowledges.
    pub sequence: u32,
    pub acknowledgement: u32,
    pub clock: Option<u32>,
    pub window: u16,
    pub events: Vec<Event>,
}

impl Rig {
    pub fn new(options: Options) -> Rig {
        let mut stack = Stack::new(Options { key: [3, 4], ..options }, 0);
        stack.listen(80);
        let pool = Pool::new(&dma(), 256).unwrap();
        let now = 100 * SECOND;
        Rig {
            stack,
            pool,
            now,
            port: 5000,
            sequence: FIRST,
            acknowledgement: 0,
            clock: None,
            window: 50_000,
            events: vec![],
        }
    }

    /// An open connection, with a window of 50,000 bytes that is not scaled.
    pub fn open(options: Options) -> (Rig, Id) {
        Rig::open_as(options, |_| {})
    }

    /// Likewise, with a SYN that `change` has changed.
    pub fn open_as(options: Options, change: impl FnOnce(&mut Repr)) -> (Rig, Id) {
        let mut rig = Rig::new(options);
        let mut syn = Repr { max_segment: Some(1460), sack_permitted: true, ..rig.segment(Flags::SYN) };
        change(&mut syn);
        let answer = rig.exchange(syn, &[], &[]).pop().unwrap();
        let flags = answer.header.flags.without(Flags::ECE);
        assert_eq!((flags, answer.header.acknowledgement), (SYN_ACK, FIRST.wrapping_add(1)));
        rig.sequence = FIRST.wrapping_add(1);
        rig.acknowledgement = answer.header.sequence.wrapping_add(1);
        rig.now += 20 * MS; // the round trip
        let none = rig.send(Flags::ACK, &[]);
        assert!(none.is_empty(), "{none:?}");
        let id = match rig.events.drain(..).next() {
            Some(Event::Connected { connection, is_passive: true }) => connection,
            other => panic!("{other:?}"),
        };
        (rig, id)
    }

    pub fn segment(&self, flags: Flags) -> Repr {
        Repr {
            src_port: self.port,
            dst_port: 80,
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            flags,
            window: self.window,
            timestamps: self.clock.map(|clock| (clock, 0)),
            ..Repr::default()
        }
    }

    /// Sends a segment of the expected number; what comes back.
    pub fn send(&mut self, flags: Flags, payload: &[u8]) -> Vec<Sent> {
        let header = self.segment(flags);
        self.exchange(header, &[], payload)
    }

    pub fn exchange(&mut self, header: Repr, blocks: &[(u32, u32)], payload: &[u8]) -> Vec<Sent> {
        let bytes = packet(&header, blocks, payload);
        self.receive(&bytes).iter().map(|packet| parse(packet)).collect()
    }

    /// Lets time pass; what is sent because of it.
    pub fn pass(&mut self, time_ns: i64) -> Vec<Sent> {
        self.now += time_ns;
        self.with(|stack, io| stack.expire(io))
    }

    /// Takes a packet of whoever; the packets that come back.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.with_bytes(|rig, io| {
            let packet = frame(io.pool, bytes).unwrap();
            let flow = Flow::of(&packet).unwrap();
            rig.receive(packet, &flow, 0, io);
        })
    }

    pub fn with(&mut self, call: impl FnOnce(&mut Stack, &mut Io)) -> Vec<Sent> {
        self.with_bytes(call).iter().map(|packet| parse(packet)).collect()
    }

    /// Calls the stack; the packets that it sends.
    pub fn with_bytes(&mut self, call: impl FnOnce(&mut Stack, &mut Io)) -> Vec<Vec<u8>> {
        let mut out = Batch::with_limit(256);
        let mut io = Io { now_ns: self.now, pool: &mut self.pool, out: &mut out };
        call(&mut self.stack, &mut io);
        self.stack.output(&mut io);
        let mut events = vec![];
        self.stack.swap_events(&mut events);
        self.events.append(&mut events);
        let sent = out.iter().map(filled_in).collect();
        self.pool.free_batch(&mut out);
        sent
    }

    pub fn write(&mut self, id: Id, len: usize) -> Vec<Sent> {
        let data = vec![7; len];
        self.with(|stack, io| assert_eq!(stack.write(id, &data, io), Ok(len)))
    }

    /// Looks whether all that the stack keeps is as it must be.
    pub fn check(&self) {
        #[cfg(debug_assertions)]
        self.stack.assert_sound();
    }

    pub fn state(&self, id: Id) -> Option<State> {
        self.stack.info(id).map(|info| info.state)
    }

    pub fn ended(&self) -> Option<Reason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed { reason, .. } => Some(*reason),
            _ => None,
        })
    }
}

/// The bytes of a packet in all of its buffers, with the checksums that it asks the port for. One
/// that the port cuts stays whole.
fn filled_in(packet: &Packet) -> Vec<u8> {
    let asked = packet.tx_offload();
    let mut bytes: Vec<u8> = packet.segments().flat_map(|buffer| buffer.to_vec()).collect();
    if asked.has(TxOffload::IP_CHECKSUM) {
        ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
    }
    if asked.has(TxOffload::TCP_CHECKSUM) {
        let addresses = ipv4::Header::of(&bytes).unwrap().addresses();
        Segment::new_unchecked(&mut bytes[asked.l3_len.into()..]).fill_checksum(addresses);
    }
    bytes
}

pub fn parse(packet: &[u8]) -> Sent {
    let ip = ipv4::Packet::new_checked(packet).unwrap();
    assert!(ip.verify_checksum());
    let segment = Segment::new_checked(ip.payload()).unwrap();
    assert!(segment.verify_checksum(ip.addresses()));
    let mut blocks = vec![];
    for option in segment.options() {
        if let TcpOption::Sack(data) = option.unwrap() {
            blocks.extend(sack_blocks(data));
        }
    }
    Sent { header: Repr::parse(&segment).unwrap(), blocks, payload: segment.payload().to_vec() }
}

pub fn packet(header: &Repr, blocks: &[(u32, u32)], payload: &[u8]) -> Vec<u8> {
    let mut data = [0; 32];
    let len = set_sack_blocks(&mut data, blocks.iter().copied());
    let sack = if len > 0 { len + 4 } else { 0 };
    let header_len = header.header_len() + sack;
    let mut bytes = vec![0; header_len + payload.len()];
    bytes[header_len..].copy_from_slice(payload);
    let mut segment = Segment::new_unchecked(&mut bytes[..]);
    segment.set_header_len(header.header_len());
    header.emit(&mut segment);
    segment.set_header_len(header_len);
    if sack > 0 {
        let at = header.header_len() - HEADER_LEN;
        if header.timestamps.is_some() && at == 12 {
            segment.options_mut()[10..at].fill(kind::NO_OPERATION); // where the list would end
        }
        TcpOption::Sack(&data[..len]).emit(&mut segment.options_mut()[at..]);
    }
    let (src, dst) = (THEIRS, OURS);
    segment.fill_checksum(Addresses::V4 { src, dst });
    let repr = ipv4::Repr::between(src, dst, Protocol::TCP, bytes.len());
    let mut whole = vec![0; ipv4::HEADER_LEN];
    repr.emit(&mut ipv4::Packet::new_unchecked(&mut whole[..]));
    whole.extend(bytes);
    whole
}

pub fn ends(sent: &Sent) -> u32 {
    sent.header.sequence.wrapping_add(sent.payload.len() as u32)
}
