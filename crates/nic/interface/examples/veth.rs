//! How fast packets of 64 bytes (60 without CRC) pass through each kind of port on
//! a virtual cable of Linux's, sender and receiver on a core each:
//!
//! ```console
//! # cargo run --release -p ixora-interface --example veth
//! ```
//!
//! In a network namespace that goes with the program. A sender never waits: what
//! the receiver does not keep up with is lost, as on a wire. The cost is the
//! kernel's more than ours: it makes a packet of its own for every frame, and
//! brings it through the cable on the sender's time. That time, `ns`, is what the
//! sender's processor spent, and says more than the rate where others use it too.

use std::error::Error;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use interface::Medium;
use memory::{Backing, Dma};
use port::{Batch, Options, Pool, Port};
use rustix::time::{ClockId, Timespec, clock_gettime};
use wire::ethernet::EtherType;
use wire::ip::Protocol;
use wire::{MacAddress, ethernet, ipv4};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TIME: Duration = Duration::from_secs(2);

/// Port that sends, port that receives.
const PAIRS: [(&str, &str); 7] = [
    ("af_packet:v0", "af_packet:v1"),
    ("af_packet:v0", "af_xdp:v1"),
    ("af_packet:v0", "af_xdp:v1,generic"),
    ("af_xdp:v0", "af_packet:v1"),
    ("af_xdp:v0", "af_xdp:v1"),
    ("tap:t0", "af_packet:t0"),
    ("af_packet:t0", "tap:t0"),
];

fn ip(arguments: &str) -> Result<()> {
    let done = Command::new("ip").args(arguments.split(' ')).status()?;
    done.success().then_some(()).ok_or_else(|| format!("ip {arguments}: {done}").into())
}

fn open(name: &str, dma: &Dma) -> Result<Box<dyn Port>> {
    let (prefix, interface) = name.split_once(':').ok_or("no interface")?;
    let medium = Medium::ALL.into_iter().find(|medium| medium.prefix() == prefix);
    let kind = medium.ok_or("no interface")?;
    Ok(kind.open(interface, dma, &Options { rx_ring: 4096, tx_ring: 1024, ..Options::default() })?)
}

fn frame() -> Vec<u8> {
    let mut link = ethernet::Header::zeroed();
    link.set_dst(MacAddress([2, 0, 0, 0, 0, 9]));
    link.set_src(MacAddress([2, 0, 0, 0, 0, 8]));
    link.set_ethertype(EtherType::IPV4);
    let mut ip = ipv4::Header::zeroed();
    ip.set_header_len(ipv4::HEADER_LEN);
    ip.set_total_len(46);
    ip.set_ttl(64);
    ip.set_protocol(Protocol::UDP);
    let mut frame = [&link.into_inner()[..], &ip.into_inner()[..]].concat();
    frame.resize(60, 0);
    frame
}

/// Sends as fast as it can until the time is over; how long a processor took.
fn send(port: &mut dyn Port, dma: &Dma, over: &AtomicBool) -> Result<Timespec> {
    let mut tx = port.tx_queue(0).ok_or("no queue")?;
    let mut pool = Pool::new(dma, 4096)?;
    let (mut batch, frame) = (Batch::with_limit(64), frame());
    while !over.load(Relaxed) {
        pool.alloc_batch(&mut batch, 64);
        for packet in batch.iter_mut() {
            packet.copy_from(&frame)?;
        }
        tx.send(&mut pool, &mut batch);
        pool.free_batch(&mut batch);
    }
    Ok(clock_gettime(ClockId::ThreadCPUTime))
}

fn measure(from: &str, to: &str) -> Result<()> {
    let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
    // A TAP's interface is there once its port is.
    let (mut a, mut b);
    if to.starts_with("tap") {
        b = open(to, &dma)?;
        a = open(from, &dma)?;
    } else {
        a = open(from, &dma)?;
        b = open(to, &dma)?;
    }
    let drivers = [&a, &b].map(|port| port.capabilities().driver);
    let (over, mut rx) = (AtomicBool::new(false), b.rx_queue(0).ok_or("no queue")?);
    let (mut pool, mut batch) = (Pool::new(&dma, 4096)?, Batch::with_limit(64));
    let start = Instant::now();
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| send(&mut *a, &dma, &over).map_err(|error| error.to_string()));
        while start.elapsed() < TIME {
            rx.recv(&mut pool, &mut batch);
            pool.free_batch(&mut batch);
        }
        over.store(true, Relaxed);
        sender.join().map_err(|_| "the sender panicked".to_owned())?
    });
    let spent = sent?;
    let (sent, came) = (a.stats().tx_packets, rx.stats().packets);
    let rate = |packets: u64| packets as f64 / TIME.as_secs_f64() / 1e6;
    let spent = spent.tv_sec as f64 * 1e9 + spent.tv_nsec as f64;
    let (sent_rate, came_rate) = (rate(sent), rate(came));
    println!(
        "{:<24} {:<24} {sent_rate:>7.3} {came_rate:>9.3} {:>6.0}",
        drivers[0],
        drivers[1],
        spent / sent.max(1) as f64
    );
    Ok(())
}

fn main() -> Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
        .map_err(|errno| format!("a network namespace needs CAP_SYS_ADMIN: run as root ({errno})"))?;
    ip("link add v0 type veth peer name v1")?;
    for name in ["v0", "v1"] {
        ip(&format!("link set {name} addrgenmode none"))?;
        ip(&format!("link set {name} up"))?;
    }
    println!("{:<24} {:<24} {:>7} {:>9} {:>6}", "from", "to", "Mpps", "received", "ns");
    PAIRS.iter().try_for_each(|(from, to)| measure(from, to))
}
