//! Lookups per second of our tables and their peers on synthetic BGP tables.
//!
//! `cargo bench -p ixora-fib` prints all; `-- v4`, `-- v6` or `-- updates` a part, and
//! `-- v4 900000` for tables of that many routes only. Timed are batches of 256
//! addresses, in windows of 4,096: on a shared machine, those windows count in which it
//! was not shared, and peers take turns. All peers must give the same answers or the program
//! ends.

mod dir24;
mod stream;
mod updates;

use dir24::Dir24;
use fib::MISS;
use fib::lpm::{Route, Table4, Table6};
use fib::synthetic;
use prefix_trie::PrefixMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Addresses that are handed over at once, as a graph hands over packets.
const BATCH: usize = 256;
/// Addresses of a window, in which a program on a shared machine is mostly alone.
const WINDOW: usize = 4096;
/// How long one figure is measured, in so many turns.
const TIME: Duration = Duration::from_millis(320);
const TURNS: u32 = 8;
/// Next hops of the synthetic tables: as many as codes of one byte have room for, and more.
const HOPS: u32 = 200;
const MANY_HOPS: u32 = 1000;

/// Looks up a batch of addresses.
type Lookup<'a, A> = dyn Fn(&[A], &mut [u32]) + 'a;

/// A table under test: its name, its bytes, and how it looks up a batch.
struct Peer<'a, A> {
    name: &'static str,
    bytes: Option<usize>,
    lookup: Box<Lookup<'a, A>>,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| {
        words.iter().all(|word| word.parse::<usize>().is_ok()) || words.iter().any(|w| w == name)
    };
    let sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let sizes_or = |all: &[usize]| if sizes.is_empty() { all.to_vec() } else { sizes.clone() };
    if wanted("v4") {
        for count in sizes_or(&[1_000, 100_000, 900_000]) {
            measure_v4(count, HOPS);
        }
        measure_v4(sizes_or(&[900_000])[0], MANY_HOPS);
    }
    if wanted("v6") {
        for count in sizes_or(&[1_000, 200_000]) {
            measure_v6(count);
        }
    }
    if wanted("updates") {
        updates::measure();
    }
}

fn measure_v4(count: usize, hops: u32) {
    let routes = synthetic::table4(count, hops, 1);
    let ours = Table4::from_routes(routes.iter().copied()).expect("the routes are sound");
    let (dir16, dir32) = (Dir24::<u16>::new(&routes), Dir24::<u32>::new(&routes));
    let wide = |addr: u32| u128::from(addr) << 96;
    let trie = Table6::from_routes(routes.iter().map(|r| Route {
        prefix: wide(r.prefix),
        len: r.len,
        value: r.value,
    }));
    let trie = trie.expect("the routes are sound");
    let poptrie: poptrie::Poptrie<(u32, u8), u32> =
        routes.iter().map(|r| ((r.prefix, r.len), r.value)).collect();
    let map: PrefixMap<(u32, u8), u32> = routes.iter().map(|r| ((r.prefix, r.len), r.value)).collect();
    let wide_addrs = std::cell::RefCell::new([0; BATCH]);
    let peers = [
        peer("Table4, batches", Some(ours.memory().lookup), |addrs, values| ours.lookup_batch(addrs, values)),
        each("Table4, one by one", Some(ours.memory().lookup), |addr| ours.lookup(addr)),
        peer("DIR-24-8, 2 bytes", Some(dir16.bytes()), |addrs, values| dir16.lookup_batch(addrs, values)),
        peer("DIR-24-8, 4 bytes", Some(dir32.bytes()), |addrs, values| dir32.lookup_batch(addrs, values)),
        peer("Table6's ranges, batches", Some(trie.memory().lookup), |addrs, values| {
            let mut wide_addrs = wide_addrs.borrow_mut();
            for (to, &from) in wide_addrs.iter_mut().zip(addrs) {
                *to = wide(from);
            }
            trie.lookup_batch(&wide_addrs[..addrs.len()], values);
        }),
        each("crate poptrie", None, |addr| poptrie.lookup(addr).copied()),
        each("crate prefix-trie", Some(map.mem_size()), |addr| {
            map.get_lpm(&(addr, 32)).map(|(_, &value)| value)
        }),
    ];
    report(&format!("IPv4, {hops} next hops"), &routes, &peers);
}

fn measure_v6(count: usize) {
    let routes = synthetic::table6(count, HOPS, 1);
    let ours = Table6::from_routes(routes.iter().copied()).expect("the routes are sound");
    let poptrie: poptrie::Poptrie<(u128, u8), u32> =
        routes.iter().map(|r| ((r.prefix, r.len), r.value)).collect();
    let map: PrefixMap<(u128, u8), u32> = routes.iter().map(|r| ((r.prefix, r.len), r.value)).collect();
    let peers = [
        peer("Table6, batches", Some(ours.memory().lookup), |addrs, values| ours.lookup_batch(addrs, values)),
        each("Table6, one by one", Some(ours.memory().lookup), |addr| ours.lookup(addr)),
        each("crate poptrie", None, |addr| poptrie.lookup(addr).copied()),
        each("crate prefix-trie", Some(map.mem_size()), |addr| {
            map.get_lpm(&(addr, 128)).map(|(_, &value)| value)
        }),
    ];
    report(&format!("IPv6, {HOPS} next hops"), &routes, &peers);
}

fn peer<'a, A>(
    name: &'static str,
    bytes: Option<usize>,
    lookup: impl Fn(&[A], &mut [u32]) + 'a,
) -> Peer<'a, A> {
    Peer { name, bytes, lookup: Box::new(lookup) }
}

/// A table that takes one address at a time. Nothing keeps the processor from
/// beginning the next lookup before the last one's data is there.
fn each<'a, A: Copy>(
    name: &'static str,
    bytes: Option<usize>,
    lookup: impl Fn(A) -> Option<u32> + 'a,
) -> Peer<'a, A> {
    peer(name, bytes, move |addrs, values| {
        for (&addr, value) in addrs.iter().zip(values) {
            *value = lookup(addr).unwrap_or(MISS);
        }
    })
}

fn report<A: stream::Address>(family: &str, routes: &[Route<A>], peers: &[Peer<'_, A>]) {
    println!(
        "\n{family}, {} routes: million lookups per second in the fastest tenth of windows (median)\n",
        routes.len()
    );
    let streams = stream::addresses(routes);
    print!("| table | MiB | bytes a route |");
    stream::NAMES.iter().for_each(|name| print!(" {name} |"));
    println!("\n|---|---|---|{}", "---|".repeat(stream::NAMES.len()));
    let mut rows: Vec<String> = peers.iter().map(|peer| row(peer, routes.len())).collect();
    for addrs in &streams {
        let expected = sum(&peers[0], addrs);
        for (peer, row) in peers.iter().zip(&mut rows) {
            assert_eq!(sum(peer, addrs), expected, "{} gives other answers", peer.name);
            row.push(' ');
        }
        for (row, (median, fast)) in rows.iter_mut().zip(nanoseconds(peers, addrs)) {
            row.push_str(&format!("{:.0} ({:.0}) |", 1e3 / fast, 1e3 / median));
        }
    }
    rows.iter().for_each(|row| println!("{row}"));
}

/// The first columns of a peer's row.
fn row<A>(peer: &Peer<'_, A>, routes: usize) -> String {
    match peer.bytes {
        Some(bytes) => {
            let (mebibytes, each) = (bytes as f64 / f64::from(1 << 20), bytes as f64 / routes as f64);
            format!("| {} | {mebibytes:.1} | {each:.1} |", peer.name)
        }
        None => format!("| {} | ? | ? |", peer.name),
    }
}

/// All values added up: the same for all tables.
fn sum<A>(peer: &Peer<'_, A>, addrs: &[A]) -> u64 {
    let mut values = [0; BATCH];
    let mut sum = 0;
    for addrs in addrs.chunks(BATCH) {
        (peer.lookup)(addrs, &mut values);
        sum += values.iter().map(|&value| u64::from(value)).sum::<u64>();
    }
    sum
}

/// Of one lookup of each peer, which take turns: the median of windows, and of the tenth of them
/// that were fastest the slowest.
fn nanoseconds<A>(peers: &[Peer<'_, A>], addrs: &[A]) -> Vec<(f64, f64)> {
    let mut windows: Vec<Vec<f64>> = peers.iter().map(|_| Vec::new()).collect();
    for turn in 0..TURNS as usize {
        for (peer, windows) in peers.iter().zip(&mut windows) {
            // Each turn goes on elsewhere, so that none finds what the one before left cached.
            let (before, after) = addrs.split_at(addrs.len() / TURNS as usize * turn / WINDOW * WINDOW);
            time_turn(peer, after.chunks(WINDOW).chain(before.chunks(WINDOW)), windows);
        }
    }
    let figures = windows.into_iter().map(|mut windows| {
        windows.sort_by(f64::total_cmp);
        (windows[windows.len() / 2], windows[windows.len() / 10])
    });
    figures.collect()
}

/// Nanoseconds of a lookup in each window of a turn.
fn time_turn<'a, A: 'a>(
    peer: &Peer<'_, A>,
    rows: impl Iterator<Item = &'a [A]> + Clone,
    windows: &mut Vec<f64>,
) {
    let mut values = [0; BATCH];
    let begin = Instant::now();
    for addrs in rows.cycle() {
        let begin_window = Instant::now();
        for addrs in addrs.chunks(BATCH) {
            (peer.lookup)(black_box(addrs), black_box(&mut values));
        }
        windows.push(begin_window.elapsed().as_nanos() as f64 / addrs.len() as f64);
        if begin.elapsed() > TIME / TURNS {
            return;
        }
    }
}
