//! Figures of *Porting a driver for the Intel XL710 40GbE NIC to the IX Dataplane Operating
//! System* (EPFL, 2017), as far as the NIC and its driver alone make them: threads, each with a
//! pair of queues of its own (8), and the size of messages (10); and what queues cost in which
//! nothing is, which the paper does not show. Its figures 9, 11 and 12 are a TCP server's and
//! memcached's.
//!
//! The devices are minimal ones, whose steps are not counted. Each thread has the steps of its
//! own queues alone done on its core.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use memory::{Batch, Dma, Pool};
use port::{Options, RxQueue, TxQueue};
use testbed::inprocess::Handle;

use super::{Figure, Series, Windows};
use crate::figures::Spread;
use crate::opened::{Given, Opened, close, open};
use crate::{CompletionName, DeviceName, Error, Result, Setting, Workload, one_core};
use runtime::cores::pin;

/// What can be made: figures of the paper by their numbers, and another.
pub const NAMES: [&str; 3] = ["8", "10", "queues"];

/// Descriptors in each ring: of threads' queues, and of many.
const RING: usize = 512;
const SMALL_RING: usize = 64;
/// Packets at a time.
const BATCH: usize = 32;
/// Packets that a device gives to a queue in one step.
const STEP: usize = 64;
/// Bytes of a frame, without CRC.
const LENGTH: usize = 60;
/// Doorbells of an XL710 that share a cache line. On a card they are registers, of which cores
/// have no copies: threads here have queues whose doorbells lie apart, as far as there are any.
const DOORBELLS: usize = 16;
/// Bytes of Ethernet's, IPv4's and TCP's headers in front of a message, of the most that one
/// frame has of a message, and of what a frame takes on the wire besides: preamble, gap, CRC.
const HEADERS: usize = wire::ethernet::HEADER_LEN + wire::ipv4::HEADER_LEN + wire::tcp::HEADER_LEN;
const MOST_OF_MESSAGE: usize = 1460;
const GAP_AND_CRC: usize = 24;
/// Messages of figure 10, in bytes.
const MESSAGES: [usize; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// What the XL710's port carries, in Gbit/s.
const LINK: f64 = 40.0;
/// Polls of all queues in a window that measures empty ones.
const ROUNDS: usize = 2_000;

/// Measures a figure; `progress` is told how many windows are done, and of how many.
///
/// # Errors
/// When there is no such figure, or a port cannot be opened.
pub fn figure(name: &str, windows: &Windows, progress: &dyn Fn(usize, usize)) -> Result<Figure> {
    match name {
        "8" => figure_8(windows, progress),
        "10" => figure_10(windows, progress),
        "queues" => queues(windows, progress),
        _ => Err(super::unknown(name, &NAMES)),
    }
}

/// A curve of figure 8.
#[derive(Clone, Copy)]
struct Curve {
    name: &'static str,
    device: DeviceName,
    /// Each thread has a port of its own.
    apart: bool,
}

const CURVES: [Curve; 3] = [
    Curve { name: "i40e, one port", device: DeviceName::MinimalXl710, apart: false },
    Curve { name: "i40e, a port each", device: DeviceName::MinimalXl710, apart: true },
    Curve { name: "ixgbe, one port", device: DeviceName::Minimal, apart: false },
];

fn figure_8(windows: &Windows, progress: &dyn Fn(usize, usize)) -> Result<Figure> {
    let (most, count) = (windows.cores.len().max(1), windows.count.max(1));
    let mut series = CURVES.map(|curve| Series { name: curve.name.to_owned(), points: vec![] });
    for threads in 1..=most {
        let mut rates = [const { Vec::new() }; CURVES.len()];
        for window in 0..count {
            progress((threads - 1) * count + window, most * count);
            for (rates, curve) in rates.iter_mut().zip(&CURVES) {
                rates.push(mpps_each(curve, threads, windows)?);
            }
        }
        for (series, rates) in series.iter_mut().zip(rates) {
            series.points.push((threads as f64, Spread::of(rates)));
        }
    }
    Ok(Figure {
        number: Some(8),
        title: "threads, each with its own pair of queues, 64-byte frames",
        here: "forwarded from a queue to the one of its pair; the devices' steps are left out",
        paper: Some(
            "message rate of a TCP server: ixgbe fills its 10 Gbit/s with 4 cores, i40e scales to 8 cores at least",
        ),
        x: "threads",
        y: "Mpps of each thread",
        notes: series.iter().filter_map(scaling).collect(),
        series: series.into(),
        bars: None,
    })
}

/// What each of the most threads does of what one does alone.
fn scaling(series: &Series) -> Option<String> {
    let ((_, one), (threads, most)) = (series.points.first()?, series.points.last()?);
    let share = most.median / one.median;
    (*threads > 1.0).then(|| format!("{}: each of {threads} threads has {share:.2} of one's", series.name))
}

/// Queues of a thread, and how they are stepped.
struct Share {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    handle: Handle,
    queue: usize,
    pool: Pool,
}

/// One window: millions of packets per second of each thread, on average.
fn mpps_each(curve: &Curve, threads: usize, windows: &Windows) -> Result<f64> {
    let dma = Dma::new(memory::Options::default());
    let stride = match curve.device {
        DeviceName::MinimalXl710 if !curve.apart => {
            let last = driver::i40e::MOST_QUEUES - 1;
            (last / (threads - 1).max(1)).clamp(1, DOORBELLS)
        }
        _ => 1,
    };
    let (ports, queues) = if curve.apart { (threads, 1) } else { (1, stride * (threads - 1) + 1) };
    let mut opened =
        (0..ports).map(|_| port(curve.device, queues, RING, &dma)).collect::<Result<Vec<_>>>()?;
    let mut shares = vec![];
    for thread in 0..threads {
        let (port, queue) = if curve.apart { (thread, 0) } else { (0, thread * stride) };
        let (rx, tx) = pair(&mut opened[port], queue)?;
        let (handle, pool) = (opened[port].handles[0].clone(), Pool::new(&dma, 3 * RING)?);
        shares.push(Share { rx, tx, handle, queue, pool });
    }
    let (start, over) = (Barrier::new(threads), AtomicBool::new(false));
    let run = |(share, core): (Share, Option<usize>)| {
        core.into_iter().for_each(|core| _ = pin(core));
        run_thread(share, windows.packets, &start, &over)
    };
    let cores = windows.cores.iter().copied().map(Some).chain(std::iter::repeat(None));
    let done: Vec<(Share, Option<f64>)> = thread::scope(|scope| {
        let all: Vec<_> = shares.into_iter().zip(cores).map(|one| scope.spawn(|| run(one))).collect();
        all.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let (shares, cycles): (Vec<Share>, Vec<Option<f64>>) = done.into_iter().unzip();
    close(opened, shares);
    let rate = |cycles: f64| windows.tsc_hz as f64 / cycles / 1e6;
    let rates: Vec<f64> = cycles.into_iter().flatten().map(rate).collect();
    match rates.len() {
        all if all == threads => Ok(rates.iter().sum::<f64>() / threads as f64),
        _ => Err(Error::new("the devices move no packets: nothing can be measured")),
    }
}

/// A thread's part: so many packets, or until another thread had as many; TSC cycles for each,
/// unless the device moves none.
fn run_thread(mut share: Share, packets: u64, start: &Barrier, over: &AtomicBool) -> (Share, Option<f64>) {
    let mut batch = Batch::with_limit(BATCH);
    forward(&mut share, &mut batch, packets / 8, &AtomicBool::new(false));
    // All measure at the same time.
    start.wait();
    let cycles = forward(&mut share, &mut batch, packets, over);
    over.store(true, Ordering::Relaxed);
    (share, cycles)
}

fn forward(share: &mut Share, batch: &mut Batch, packets: u64, over: &AtomicBool) -> Option<f64> {
    let Share { rx, tx, handle, queue, pool } = share;
    let (mut ticks, mut done, mut idle) = (0, 0, 0);
    // One that comes late measures something, too.
    while done == 0 || done < packets && !over.load(Ordering::Relaxed) {
        handle.step_queue_now(*queue);
        let mut moved = 0;
        let begin = bus::tsc::now();
        for _ in 0..STEP / BATCH {
            moved += turn(&mut **rx, &mut **tx, pool, batch);
        }
        ticks += bus::tsc::now() - begin;
        done += moved;
        idle = if moved == 0 { idle + 1 } else { 0 };
        if idle > 1_000_000 {
            return None;
        }
    }
    Some(ticks as f64 / done as f64)
}

/// One call of a pair of queues; packets that were forwarded.
fn turn(rx: &mut dyn RxQueue, tx: &mut dyn TxQueue, pool: &mut Pool, batch: &mut Batch) -> u64 {
    let received = rx.recv(pool, batch);
    if received > 0 {
        tx.send(pool, batch);
        pool.free_batch(batch);
    }
    received as u64
}

fn port(device: DeviceName, queues: usize, ring: usize, dma: &Dma) -> Result<Opened> {
    let (rx_ring, tx_ring, rx_queues, tx_queues) = (ring, ring, queues, queues);
    let options = Options { rx_ring, tx_ring, rx_queues, tx_queues, link_wait_ms: 0, ..Options::default() };
    let frames = vec![testbed::minimal::outline(LENGTH)];
    open(device, Given { wire: "sink".to_owned(), frames }, dma, options)
}

fn pair(opened: &mut Opened, queue: usize) -> Result<(Box<dyn RxQueue>, Box<dyn TxQueue>)> {
    let queues = opened.port.rx_queue(queue).zip(opened.port.tx_queue(queue));
    queues.ok_or_else(|| Error::new("a port without queues"))
}

/// Frames of a message, and their bytes on the wire.
fn frames(message: usize) -> (usize, usize) {
    let frames = message.div_ceil(MOST_OF_MESSAGE).max(1);
    (frames, message + frames * (HEADERS + GAP_AND_CRC))
}

fn figure_10(windows: &Windows, progress: &dyn Fn(usize, usize)) -> Result<Figure> {
    let names = ["i40e, one thread", "ixgbe, one thread", "a link of 40 Gbit/s", "paper, i40e at 8 KB"];
    let mut series = names.map(|name| Series { name: name.to_owned(), points: vec![] });
    let one = |value: f64| Spread { min: value, median: value, max: value };
    for (done, message) in MESSAGES.into_iter().enumerate() {
        progress(done, MESSAGES.len());
        let (frames, on_wire) = frames(message);
        let bits = (message * 8) as f64;
        for (series, device) in series.iter_mut().zip([DeviceName::MinimalXl710, DeviceName::Minimal]) {
            let setting = Setting {
                device,
                workload: Workload::Tx,
                batch: BATCH,
                ring: RING,
                queues: 1,
                size: (message.min(MOST_OF_MESSAGE) + HEADERS + 4).max(64),
                completion: CompletionName::Report,
            };
            let cycles = one_core::measure(&setting, windows.cores.first().copied())?.cycles_per_packet;
            let goodput = |cycles: f64| bits / (frames as f64 * cycles) * windows.tsc_hz as f64 / 1e9;
            let (min, max) = (goodput(cycles.max), goodput(cycles.min));
            series.points.push((message as f64, Spread { min, median: goodput(cycles.median), max }));
        }
        series[2].points.push((message as f64, one(LINK * bits / (on_wire * 8) as f64)));
    }
    series[3].points.push((8192.0, one(35.0)));
    Ok(Figure {
        number: Some(10),
        title: "size of messages, goodput",
        here: "sent alone, in frames of 1,460 bytes of a message at most, as many as the driver can; no TCP, no clients",
        paper: Some("a TCP server's goodput: 8 KB messages saturate the link, with close to 35 Gbit/s"),
        x: "message (bytes)",
        y: "Gbit/s of messages",
        notes: vec![],
        series: series.into(),
        bars: None,
    })
}

fn queues(windows: &Windows, progress: &dyn Fn(usize, usize)) -> Result<Figure> {
    let names = ["a packet, all in one queue", "a queue that is empty"];
    let mut series = names.map(|name| Series { name: name.to_owned(), points: vec![] });
    let xs: Vec<usize> = (0..=8).map(|power| 1 << power).collect();
    for (done, &count) in xs.iter().enumerate() {
        progress(done, xs.len());
        let [busy, empty] = many_queues(count, windows)?;
        for (series, figures) in series.iter_mut().zip([busy, empty]) {
            series.points.push((count as f64, Spread::of(figures)));
        }
    }
    Ok(Figure {
        number: None,
        title: "many queues on one thread, i40e, 64-byte frames",
        here: "rings of 64, ports of 64 queues at most, each queue polled with batches of 32; two turns for 64 packets",
        paper: None,
        x: "queues",
        y: "TSC cycles",
        notes: vec![],
        series: series.into(),
        bars: None,
    })
}

/// Cycles for each packet while the first of so many queues has all packets, and for each queue
/// while none has any; a figure for each window.
fn many_queues(count: usize, windows: &Windows) -> Result<[Vec<f64>; 2]> {
    windows.cores.first().into_iter().for_each(|core| _ = pin(*core));
    let dma = Dma::new(memory::Options::default());
    let (mut opened, mut pairs, most) = (vec![], vec![], driver::i40e::MOST_QUEUES);
    for first in (0..count).step_by(most) {
        let of_port = (count - first).min(most);
        let mut port = port(DeviceName::MinimalXl710, of_port, SMALL_RING, &dma)?;
        for queue in 0..of_port {
            pairs.push(pair(&mut port, queue)?);
        }
        opened.push(port);
    }
    let mut pool = Pool::new(&dma, 2 * SMALL_RING * count + 2 * Batch::MAX)?;
    let mut batch = Batch::with_limit(BATCH);
    let handle = opened[0].handles[0].clone();
    let mut turns = |rounds: usize| -> (u64, u64) {
        let begin = bus::tsc::now();
        let mut moved = 0;
        for _ in 0..rounds {
            moved += pairs
                .iter_mut()
                .map(|(rx, tx)| turn(&mut **rx, &mut **tx, &mut pool, &mut batch))
                .sum::<u64>();
        }
        (bus::tsc::now() - begin, moved)
    };
    let (mut busy, mut empty, packets) = (vec![], vec![], windows.packets / 8);
    for window in 0..=windows.count.max(1) {
        let (mut ticks, mut done, mut idle) = (0, 0, 0);
        while done < packets.max(1) {
            handle.step_queue_now(0);
            let (took, moved) = turns(STEP / BATCH);
            (ticks, done) = (ticks + took, done + moved);
            idle = if moved == 0 { idle + 1 } else { 0 };
            if idle > 1_000_000 {
                return Err(Error::new("the device moves no packets: nothing can be measured"));
            }
        }
        let (nothing, _) = turns(ROUNDS);
        // The first window fills rings and caches.
        if window > 0 {
            busy.push(ticks as f64 / done as f64);
            empty.push(nothing as f64 / (ROUNDS * count) as f64);
        }
    }
    close(opened, pairs);
    Ok([busy, empty])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(cores: Vec<usize>) -> Windows {
        Windows { packets: 2_000, count: 1, cores, tsc_hz: 1_000_000_000 }
    }

    #[test]
    fn threads_have_a_point_each_and_what_they_have_of_one() {
        let figure = figure("8", &windows(vec![0, 0]), &|_, _| ()).expect("a figure");
        for series in &figure.series {
            let xs: Vec<f64> = series.points.iter().map(|point| point.0).collect();
            assert_eq!(xs, [1.0, 2.0], "{}", series.name);
            assert!(series.points.iter().all(|(_, spread)| spread.min > 0.0), "{series:?}");
        }
        assert_eq!(figure.notes.len(), CURVES.len());
    }

    #[test]
    fn empty_queues_cost_something_and_other_figures_are_refused() {
        let [busy, empty] = many_queues(65, &windows(vec![0])).expect("two ports");
        assert!(busy[0] > 0.0 && empty[0] > 0.0);
        assert!(figure("9", &windows(vec![0]), &|_, _| ()).is_err());
    }

    #[test]
    fn a_message_of_8_kib_is_six_frames() {
        assert_eq!(frames(8192), (6, 8192 + 6 * 78));
        assert_eq!(frames(64), (1, 64 + 78));
    }
}
