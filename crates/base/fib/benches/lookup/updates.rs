//! Changes per second at a full table, and the slowest single change.

use crate::HOPS;
use fib::Rib;
use fib::lpm::{Route, Table4, Table6};
use fib::synthetic::{self, Random};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CHANGES: usize = 200_000;

/// How long single changes took, the shortest first.
struct Times(Vec<Duration>);

fn time(count: usize, mut change: impl FnMut(usize)) -> Times {
    let each = (0..count).map(|n| {
        let begin = Instant::now();
        change(n);
        begin.elapsed()
    });
    let mut times: Vec<Duration> = each.collect();
    times.sort_unstable();
    Times(times)
}

fn print(name: &str, Times(times): &Times) {
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    let (median, most, worst) =
        (times[times.len() / 2], times[times.len() * 99 / 100], times[times.len() - 1]);
    println!(
        "| {name} | {:.0} | {mean:.1?} | {median:.1?} | {most:.1?} | {worst:.1?} |",
        1.0 / mean.as_secs_f64()
    );
}

pub fn measure() {
    println!(
        "\nChanges, one by one\n\n| what | per second | mean | median | 99 of 100 | slowest |\n|---|---|---|---|---|---|"
    );
    let routes = synthetic::table4(900_000, HOPS, 1);
    let begin = Instant::now();
    let mut table = Table4::from_routes(routes.iter().copied()).expect("the routes are sound");
    println!(
        "| IPv4: build from 900,000 at once | {:.0} | | | | {:.0?} |",
        9e5 / begin.elapsed().as_secs_f64(),
        begin.elapsed()
    );
    let mut random = Random::new(5);
    let mut change = |n: usize| {
        let route = routes[random.below(routes.len() as u64) as usize];
        match n % 4 {
            0 => table.remove(route.prefix, route.len),
            _ => table.insert(route.prefix, route.len, n as u32 % HOPS),
        }
        .expect("the route is sound");
    };
    print("IPv4: withdraw or announce any of 900,000", &time(CHANGES, &mut change));
    for len in [0, 1, 8, 16, 18] {
        let mut flap = |n: usize| {
            let old = if n.is_multiple_of(2) { table.insert(0, len, 5) } else { table.remove(0, len) };
            old.expect("the route is sound");
        };
        print(&format!("IPv4: flap 0.0.0.0/{len}"), &time(2_000, &mut flap));
    }
    published(&routes);
    let routes = synthetic::table6(200_000, HOPS, 1);
    let begin = Instant::now();
    let mut table = Table6::from_routes(routes.iter().copied()).expect("the routes are sound");
    println!(
        "| IPv6: build from 200,000 at once | {:.0} | | | | {:.0?} |",
        2e5 / begin.elapsed().as_secs_f64(),
        begin.elapsed()
    );
    let mut change = |n: usize| {
        let route = routes[random.below(routes.len() as u64) as usize];
        match n % 4 {
            0 => table.remove(route.prefix, route.len),
            _ => table.insert(route.prefix, route.len, n as u32 % HOPS),
        }
        .expect("the route is sound");
    };
    print("IPv6: withdraw or announce any of 200,000", &time(CHANGES, &mut change));
    for len in [0, 3, 12] {
        let mut flap = |n: usize| {
            let prefix = if len == 0 { 0 } else { 0x2001 << 112 & u128::MAX << (128 - len) };
            let old =
                if n.is_multiple_of(2) { table.insert(prefix, len, 5) } else { table.remove(prefix, len) };
            old.expect("the route is sound");
        };
        print(&format!("IPv6: flap 2000::/{len}"), &time(2_000, &mut flap));
    }
}

/// Sets of a hundred changes, shown to a reader that looks up all the while.
fn published(routes: &[Route<u32>]) {
    let mut rib = Rib::<u32, _>::new();
    for route in routes {
        rib.insert((route.prefix, route.len), route.value).expect("the route is sound");
    }
    rib.publish();
    let mut reader = rib.reader();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (addrs, mut indices) = ([0x0101_0101; 256], [0; 256]);
            while !stop.load(Ordering::Relaxed) {
                reader.fib().lookup_batch(&addrs, black_box(&mut indices));
            }
        });
        let mut random = Random::new(6);
        let mut change = |n: usize| {
            let route = routes[random.below(routes.len() as u64) as usize];
            match n % 4 {
                0 => rib.remove((route.prefix, route.len)),
                _ => rib.insert((route.prefix, route.len), n as u32 % HOPS),
            }
            .expect("the route is sound");
            if n % 100 == 99 {
                rib.publish();
            }
        };
        print("IPv4: the same, published by the hundred beside a reader", &time(CHANGES / 4, &mut change));
        stop.store(true, Ordering::Relaxed);
    });
}
