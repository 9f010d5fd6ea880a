//! A network namespace of its own for each test, with a cable of Linux's (a veth
//! pair) in it. The machine's own interfaces are never touched.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memory::{Backing, Batch, Dma, Pool};
use nix::sched::{CloneFlags, unshare};
use port::{Port, RxQueue, TxQueue};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// Runs `test` in a network namespace that goes away with it. Where there may be
/// none it is passed over, unless everything must run (`CI`).
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    // One at a time: all namespaces share the processors' queues of packets that
    // were received and not looked at yet, and these drop what is too much.
    static ALONE: Mutex<()> = Mutex::new(());
    let run = move || {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
            let must = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
            assert!(!must, "CI is set, but a network namespace needs CAP_SYS_ADMIN: {errno}");
            println!("passed over: a network namespace needs CAP_SYS_ADMIN ({errno})");
            return;
        }
        test();
    };
    // A thread of its own: the namespace is the thread's, and its children's.
    if let Err(panic) = thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` in this thread's namespace.
pub fn ip(arguments: &str) {
    assert!(try_ip(arguments), "ip {arguments}");
}

/// Whether `ip` succeeded.
pub fn try_ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).status().expect("iproute2 is installed").success()
}

/// A cable from `a` to `b` with so many queues at each end, and nothing else on it.
pub fn cable(a: &str, b: &str, queues: usize) {
    let ends = format!("numrxqueues {queues} numtxqueues {queues}");
    ip(&format!("link add {a} {ends} type veth peer name {b} {ends}"));
    for end in [a, b] {
        // No neighbour discovery: only what the test sends is on the cable.
        ip(&format!("link set {end} addrgenmode none"));
        ip(&format!("link set {end} up"));
    }
}

/// DMA memory of ordinary pages.
pub fn dma() -> Dma {
    Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None })
}

/// One queue pair of an opened port, and a pool.
pub struct End {
    pub port: Box<dyn Port>,
    pub rx: Vec<Box<dyn RxQueue>>,
    pub tx: Vec<Box<dyn TxQueue>>,
    pub pool: Pool,
}

impl End {
    /// Takes all queues of a port.
    pub fn new(mut port: Box<dyn Port>, dma: &Dma) -> End {
        let can = port.capabilities();
        let rx = (0..can.rx_queues).map(|n| port.rx_queue(n).expect("nobody took it")).collect();
        let tx = (0..can.tx_queues).map(|n| port.tx_queue(n).expect("nobody took it")).collect();
        assert!(port.rx_queue(0).is_none() && port.tx_queue(0).is_none(), "each queue once");
        assert!(port.rx_queue(can.rx_queues).is_none() && port.tx_queue(can.tx_queues).is_none());
        End { port, rx, tx, pool: Pool::new(dma, 4096).expect("memory") }
    }

    /// Sends frames on a queue; all are taken, sooner or later.
    pub fn send(&mut self, queue: usize, frames: &[Vec<u8>]) {
        let mut batch = Batch::with_limit(Batch::MAX);
        for frame in frames {
            assert!(batch.push(packet(&mut self.pool, frame)).is_none(), "at most {}", Batch::MAX);
        }
        until("room to send", || {
            self.tx[queue].send(&mut self.pool, &mut batch);
            self.tx[queue].clean(&mut self.pool);
            batch.is_empty()
        });
    }

    /// What has come to a queue.
    pub fn receive(&mut self, queue: usize) -> Vec<Vec<u8>> {
        let mut batch = Batch::with_limit(64);
        let came = self.rx[queue].recv(&mut self.pool, &mut batch);
        assert_eq!(came, batch.len());
        let bytes = |packet: &memory::Packet| packet.segments().flat_map(|s| s.iter().copied()).collect();
        let frames = batch.iter().map(bytes).collect();
        self.pool.free_batch(&mut batch);
        frames
    }

    /// Waits for so many frames on any queue; no more may come.
    pub fn expect(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        until(&format!("{count} frames"), || {
            (0..self.rx.len()).for_each(|queue| all.extend(self.receive(queue)));
            all.len() >= count
        });
        thread::sleep(Duration::from_millis(5));
        (0..self.rx.len()).for_each(|queue| all.extend(self.receive(queue)));
        assert_eq!(all.len(), count);
        all
    }

    /// A counter of the port's.
    pub fn counter(&mut self, name: &str) -> u64 {
        let stats = self.port.stats();
        assert!(stats.counters.iter().any(|counter| counter.name == name), "no counter {name}");
        stats.counter(name)
    }

    /// All buffers are back once queues and port are gone.
    pub fn end(self) {
        let End { port, rx, tx, mut pool } = self;
        drop((rx, tx, port));
        assert_eq!(pool.available(), pool.capacity(), "buffers that did not come back");
    }
}

/// A packet with these bytes, in as many buffers as it takes.
pub fn packet(pool: &mut Pool, frame: &[u8]) -> memory::Packet {
    let mut whole: Option<memory::Packet> = None;
    for part in frame.chunks(memory::DATA_ROOM) {
        let mut segment = pool.alloc().expect("a buffer");
        segment.copy_from(part).expect("it fits");
        match &mut whole {
            Some(whole) => whole.append(segment),
            None => whole = Some(segment),
        }
    }
    whole.unwrap_or_else(|| pool.alloc().expect("a buffer"))
}

/// A UDP frame of `len` bytes that carries a number; flows differ by their port.
pub fn frame(number: u64, flow: u16, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 8]);
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..36].copy_from_slice(&(1024 + flow).to_be_bytes());
    frame[36..38].copy_from_slice(&9_u16.to_be_bytes());
    frame[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    frame[42..50].copy_from_slice(&number.to_be_bytes());
    frame
}

/// The number a frame carries.
pub fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[42..50].try_into().expect("eight bytes"))
}

/// Waits until a condition holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "no {what} after 20 s");
        thread::yield_now();
    }
}

/// What a queue of veth holds, which drops more when the kernel's thread that empties it
/// has to wait for a processor.
const VETH_RING: u64 = 256;

/// Sends about `count` frames of 60 bytes from one port to the other, never more
/// than the rings hold at a time: all arrive whole, each flow in order, and both
/// sides count the same. However long they take on a busy machine, they keep coming.
pub fn carries_in_order(from: &mut End, to: &mut End, count: u64, flows: u64) {
    let (mut sent, mut seen) = (0, 0);
    let mut next: Vec<u64> = (0..flows).collect();
    let mut last = (Instant::now(), 0);
    loop {
        if last.1 != seen {
            last = (Instant::now(), seen);
        }
        assert!(last.0.elapsed() < Duration::from_secs(20), "{seen} of {sent} frames, and no more for 20 s");
        if sent < count && sent + 16 * flows - seen <= VETH_RING {
            for flow in 0..flows {
                let numbers = (0..16).map(|n| sent + flow + n * flows);
                let frames: Vec<_> = numbers.map(|n| frame(n, flow as u16, 60)).collect();
                // A flow stays on a queue, or nobody could keep it in order.
                from.send(flow as usize % from.tx.len(), &frames);
            }
            sent += 16 * flows;
        }
        from.tx.iter_mut().for_each(|tx| _ = tx.clean(&mut from.pool));
        for queue in 0..to.rx.len() {
            for got in to.receive(queue) {
                let flow = (number(&got) % flows) as usize;
                assert_eq!(number(&got), next[flow], "in order, none missing");
                assert_eq!(got, frame(next[flow], flow as u16, 60), "whole");
                next[flow] += flows;
                seen += 1;
            }
        }
        if seen >= count && seen == sent {
            break;
        }
        thread::yield_now();
    }
    let counted = (from.port.stats(), to.port.stats());
    assert_eq!((counted.0.tx_packets, counted.1.rx_packets), (sent, sent));
    assert_eq!((counted.0.tx_bytes, counted.1.rx_bytes), (sent * 60, sent * 60));
    let losses = |stats: &port::PortStats| stats.losses().map(|(reason, _)| reason).collect::<Vec<_>>();
    assert_eq!((losses(&counted.0), losses(&counted.1)), (vec![], vec![]));
}

impl End {
    /// Sends on an interface that is gone: nothing blocks and nothing is lost but
    /// what the ring took.
    pub fn send_into_nothing(&mut self) {
        let mut batch = Batch::with_limit(32);
        for n in 0..32 {
            assert!(batch.push(packet(&mut self.pool, &frame(n, 0, 60))).is_none());
        }
        for _ in 0..100 {
            self.tx[0].send(&mut self.pool, &mut batch);
            self.tx[0].clean(&mut self.pool);
        }
        self.pool.free_batch(&mut batch);
    }
}

/// This thread has no capabilities any more, though it is root's.
pub fn drop_capabilities() {
    keep_capabilities(CapabilitySet::empty());
}

/// This thread has these capabilities alone.
pub fn keep_capabilities(kept: CapabilitySet) {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).expect("giving up is allowed");
}

/// Has the kernel's stack send UDP datagrams out of `v0`, of 1 to 1,400 bytes:
/// they come to `to` with whole checksums, which the stack left to its device.
pub fn checksums_are_whole(to: &mut End) {
    ip("addr add 10.1.0.1/24 dev v0");
    ip("neigh add 10.1.0.2 lladdr 02:00:00:00:00:09 dev v0 nud permanent");
    let socket = std::net::UdpSocket::bind("10.1.0.1:7000").expect("an address of ours");
    for len in [1, 2, 33, 1400] {
        socket.send_to(&vec![0xA5; len], "10.1.0.2:9").expect("taken");
        let mut came = Vec::new();
        until("the datagram", || {
            came.extend(to.receive(0));
            came.retain(|frame| frame[12..14] == [8, 0] && frame[23] == 17);
            !came.is_empty()
        });
        let datagram = &came[0][34..42 + len];
        let [src, dst] = [1, 2].map(|host| std::net::Ipv4Addr::new(10, 1, 0, host));
        let pseudo = wire::checksum::pseudo_header_v4(src, dst, 17, datagram.len() as u32);
        assert_ne!(datagram[6..8], [0, 0], "{len} bytes: a checksum");
        assert_eq!(wire::checksum::combine(pseudo, wire::checksum::sum(datagram)), 0xFFFF, "{len} bytes");
    }
}
