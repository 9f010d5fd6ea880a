//! Segments from anyone to a connection in each state, beside an application that does what
//! it likes: no panic, every connection is as it must be after each step (`assert_sound`), no
//! event comes behind the last one, and all buffers come back.
//!
//! The first byte chooses the options and how far the connection has come. Each step takes a
//! byte for what is done and some for how: a segment with numbers near those expected, a call
//! of the application, a router's word that a segment was too long, or time that passes. The port
//! takes data from SYNs (RFC 7413), and the application sends them.
#![no_main]

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use memory::{Batch, Dma, Pool};
use tcp::{Event, FastOpenListener, Id, Io, KeepAlive, Key, Listener, Options, Stack};
use wire::ethernet::{self, EtherType};
use wire::ip::{Addresses, Protocol};
use wire::tcp::{Flags, HEADER_LEN, Segment};
use wire::tcp_option::{TcpOption, set_sack_blocks};
use wire::{Flow, MacAddress, ipv4};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MS: i64 = 1_000_000;

struct Rig<'a> {
    stack: Stack,
    pool: &'a mut Pool,
    now: i64,
    /// The ports of the connection, ours first.
    ports: (u16, u16),
    /// The number that is expected of the other side, and the next one of ours.
    expected: u32,
    ours: u32,
    first: u32,
    clock: u32,
    id: Option<Id>,
    closed: Vec<Id>,
}

/// The input, a few bytes at a time; zeros behind its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// A small distance, or any.
    fn offset(&mut self) -> u32 {
        match self.u8() {
            small @ 0..=63 => small.into(),
            small @ 64..=127 => u32::from(small - 64).wrapping_neg(),
            near @ 128..=223 => u32::from(near - 128) * 536,
            _ => u32::from(self.u16()) << 16 | u32::from(self.u16()),
        }
    }
}

impl Rig<'_> {
    /// Calls the stack, sends what it has to send, and looks at what happened.
    fn with<R>(&mut self, call: impl FnOnce(&mut Stack, &mut Io) -> R) -> R {
        let mut out = Batch::with_limit(64);
        let mut io = Io { now_ns: self.now, pool: self.pool, out: &mut out };
        let result = call(&mut self.stack, &mut io);
        self.stack.assert_sound();
        self.stack.output(&mut io);
        self.stack.assert_sound();
        for packet in out.iter() {
            let ip = ipv4::Packet::new_checked(&packet[..]).expect("a whole packet");
            let segment = Segment::new_checked(ip.payload()).expect("a whole segment");
            assert!(ip.verify_checksum() && segment.verify_checksum(ip.addresses()));
            assert!(packet.len() <= 1500, "longer than the link takes");
            if segment.flags().contains(Flags::SYN) {
                self.first = segment.sequence();
                self.ports.0 = segment.src_port();
            }
            let control = segment.flags().0 & (Flags::SYN.0 | Flags::FIN.0);
            self.ours =
                segment.sequence().wrapping_add((segment.payload().len() as u32) + control.count_ones());
            if segment.flags().contains(Flags::ACK) {
                self.expected = segment.acknowledgement();
            }
        }
        self.pool.free_batch(&mut out);
        let mut events = vec![];
        self.stack.swap_events(&mut events);
        for event in events {
            self.see(event);
        }
        result
    }

    fn see(&mut self, event: Event) {
        let (Event::Connected { connection, .. }
        | Event::Received { connection, .. }
        | Event::Sent { connection, .. }
        | Event::PeerFinished { connection }
        | Event::Closed { connection, .. }
        | Event::Timer { connection }) = event;
        assert!(!self.closed.contains(&connection), "an event behind the last one");
        match event {
            Event::Connected { .. } => self.id = Some(connection),
            Event::Received { packet, .. } => self.pool.free(packet),
            Event::Closed { .. } => self.closed.push(connection),
            _ => {}
        }
    }

    fn segment(&mut self, flags: Flags, numbers: (u32, u32), window: u16, options: &[u8], payload: usize) {
        let header_len = HEADER_LEN + options.len().min(40).next_multiple_of(4);
        let mut bytes = vec![0x5A; header_len + payload];
        bytes[..header_len].fill(0);
        let mut segment = Segment::new_unchecked(&mut bytes[..]);
        segment.set_header_len(header_len);
        segment.set_src_port(self.ports.1);
        segment.set_dst_port(self.ports.0);
        segment.set_sequence(numbers.0);
        segment.set_acknowledgement(numbers.1);
        segment.set_flags(flags);
        segment.set_window(window);
        let len = options.len().min(40);
        segment.options_mut()[..len].copy_from_slice(&options[..len]);
        segment.fill_checksum(Addresses::V4 { src: THEIRS, dst: OURS });
        let ip = ipv4::Repr::between(THEIRS, OURS, Protocol::TCP, bytes.len());
        let mut frame = ethernet::Header::between(MacAddress([2; 6]), MacAddress([2; 6]), EtherType::IPV4)
            .into_inner()
            .to_vec();
        frame.extend(ip.template().into_inner());
        let start = ethernet::HEADER_LEN;
        ip.emit(&mut ipv4::Packet::new_unchecked(&mut frame[start..]));
        frame.extend(bytes);
        self.with(|stack, io| {
            let Some(mut packet) = io.pool.alloc() else { return };
            packet.copy_from(&frame).expect("it fits");
            match Flow::of(&packet) {
                Ok(flow) => stack.receive(packet, &flow, (window & 3) as u8, io),
                Err(_) => io.pool.free(packet),
            }
        });
    }

    /// A segment of the numbers that are expected.
    fn right(&mut self, flags: Flags, payload: usize) {
        self.segment(flags, (self.expected, self.ours), 20_000, &[], payload);
    }

    /// Brings the connection into a state.
    fn advance(&mut self, state: u8, with_options: bool) {
        let ack = Flags::ACK;
        if state == 0 {
            let connect = (IpAddr::V4(THEIRS), self.ports.1);
            self.id = self.with(|stack, io| stack.connect(IpAddr::V4(OURS), connect, io)).ok();
            return;
        }
        let mut options = vec![2, 4, 5, 0xB4, 4, 2, 3, 3, 2];
        options.extend([8, 10, 0, 0, 0, 1, 0, 0, 0, 0]);
        self.segment(Flags::SYN, (self.expected, 0), 20_000, if with_options { &options } else { &[] }, 0);
        if state == 1 {
            return;
        }
        let clock = [8, 10, 0, 0, 0, 2, 0, 0, 0, 0];
        let numbers = (self.expected, self.ours);
        self.segment(ack, numbers, 20_000, if with_options { &clock } else { &[] }, 0);
        let Some(id) = self.id else { return };
        let finish = |rig: &mut Self| _ = rig.with(|stack, io| stack.finish(id, io));
        match state {
            3 => _ = self.with(|stack, io| stack.write(id, &[1; 6000], io)),
            4 => finish(self),
            5 => {
                finish(self);
                self.right(ack, 0);
            }
            6 => self.right(ack | Flags::FIN, 0),
            7 => {
                self.right(ack | Flags::FIN, 0);
                finish(self);
            }
            _ => {}
        }
    }

    fn step(&mut self, bytes: &mut Bytes) {
        let act = bytes.u8();
        let Some(id) = self.id.filter(|_| act >= 160) else { return self.send_any(act, bytes) };
        match act {
            160..=179 => {
                let len = usize::from(bytes.u16() % 9000);
                let _ = self.with(|stack, io| stack.write(id, &vec![3; len], io));
            }
            180..=199 => {
                let len = usize::from(bytes.u16());
                let _ = self.with(|stack, io| stack.consume(id, len, io));
            }
            200..=204 => _ = self.with(|stack, io| stack.finish(id, io)),
            205..=207 => _ = self.with(|stack, io| stack.close(id, io)),
            208 => {
                if self.with(|stack, io| stack.abort(id, io)).is_ok() {
                    self.closed.push(id);
                }
            }
            213..=215 => {
                let len = usize::from(bytes.u16() % 3000);
                let remote = (IpAddr::V4(THEIRS), self.ports.1);
                let opened =
                    self.with(|stack, io| stack.connect_fast(IpAddr::V4(OURS), remote, &vec![4; len], io));
                self.id = opened.ok().map(|(id, _)| id).or(self.id);
            }
            209..=212 => {
                let at = self.now + i64::from(bytes.u8()) * MS;
                let _ = self.with(|stack, io| stack.set_timer(id, Some(at), io));
            }
            216..=223 => {
                let remote = (IpAddr::V4(THEIRS), self.ports.1);
                let (local, local_port) = (IpAddr::V4(OURS), self.ports.0);
                let key = Key { local, remote: remote.0, local_port, remote_port: remote.1 };
                let sequence = self.ours.wrapping_sub(bytes.offset());
                let mtu = u32::from(bytes.u16() % 2000);
                self.with(|stack, io| stack.too_big(&key, sequence, mtu, io));
            }
            _ => {
                self.now += MS << (bytes.u8() % 18);
                self.with(|stack, io| stack.expire(io));
            }
        }
    }

    /// A segment whose parts the input chooses.
    fn send_any(&mut self, act: u8, bytes: &mut Bytes) {
        let flags = match act % 8 {
            0 => Flags(bytes.u8()),
            1 => Flags::ACK | Flags::FIN,
            _ => Flags::ACK,
        };
        let sequence = self.expected.wrapping_add(bytes.offset());
        let acknowledgement = match act / 8 % 4 {
            0 => self.ours.wrapping_add(bytes.offset()),
            1 => self.first.wrapping_add(bytes.offset()),
            _ => self.ours,
        };
        let window = if act & 64 != 0 { bytes.u16() } else { 20_000 };
        let payload = usize::from(bytes.u8() % 180) * 8;
        let mut options = vec![];
        let kind = bytes.u8();
        if kind & 1 != 0 {
            self.clock = self.clock.wrapping_add(bytes.offset());
            let mut space = [0; 10];
            TcpOption::Timestamps { value: self.clock, echo: 0 }.emit(&mut space);
            options.extend(space);
        }
        if kind & 2 != 0 {
            let mut data = [0; 24];
            let blocks = (0..kind >> 6).map(|_| {
                let start = self.first.wrapping_add(bytes.offset());
                (start, start.wrapping_add(bytes.offset()))
            });
            let len = set_sack_blocks(&mut data, blocks);
            let mut space = vec![0; 2 + len];
            TcpOption::Sack(&data[..len]).emit(&mut space);
            options.extend(space);
        }
        if kind & 12 == 12 {
            options.extend((0..kind >> 4).map(|_| bytes.u8()));
        }
        self.segment(flags, (sequence, acknowledgement), window, &options, payload);
    }
}

fn options(byte: u8) -> Options {
    let keep_alive = KeepAlive { idle_ns: 1000 * MS, interval_ns: 100 * MS, probes: 2 };
    Options {
        connections: 16,
        half_open: u32::from(byte & 16 != 0) * 4,
        time_wait: 2,
        receive_buffer: 8 << 10,
        send_buffer: 16 << 10,
        send_packets: 32,
        out_of_order: 8,
        packets: 128,
        sack: byte & 32 != 0,
        timestamps: byte & 64 != 0,
        fast_open_needs_cookie: byte & 32 != 0,
        keep_alive: (byte & 128 != 0).then_some(keep_alive),
        ..Options::default()
    }
}

/// A port that takes data from SYNs, with a cookie or without.
fn listener(byte: u8) -> Listener {
    let is_cookie_needed = byte & 32 != 0;
    let chosen = FastOpenListener { most: 2, key: [5; 16], is_cookie_needed };
    Listener { fast_open: Some(chosen), ..Listener::default() }
}

thread_local! {
    static POOL: RefCell<Pool> = {
        let dma = Dma::new(memory::Options { backing: memory::Backing::Memfd, numa_node: None });
        RefCell::new(Pool::new(&dma, 512).expect("memory"))
    };
}

fuzz_target!(|input: &[u8]| {
    POOL.with_borrow_mut(|pool| {
        let mut bytes = Bytes(input);
        let first = bytes.u8();
        let mut stack = Stack::new(options(first), 0);
        stack.listen_as(80, listener(first));
        let mut rig = Rig {
            stack,
            pool,
            now: 1_000_000 * MS,
            ports: (80, 5000),
            expected: u32::MAX - 3000,
            ours: 0,
            first: 0,
            clock: 2,
            id: None,
            closed: vec![],
        };
        rig.advance(first & 7, first & 8 != 0);
        while !bytes.0.is_empty() {
            rig.step(&mut bytes);
        }
        assert!(rig.stack.len() <= 16, "more connections than there may be");
        rig.with(|stack, io| stack.clear(io));
        drop(rig.stack);
        assert_eq!(pool.available(), pool.capacity(), "buffers that did not come back");
    });
});
