//! Longest prefix match by itself, without a router: batches of addresses.

use fib::lpm::Route;
use fib::{Rib, Scheme};

use super::keys::{Within, addresses, routes4, routes6};
use super::{Point, Seen, Setup};
use crate::{Error, Result};

/// Addresses that are looked up, one after the other.
const ADDRESSES: usize = 1 << 20;

/// A table of as many prefixes as the point has.
pub(super) fn measure(point: &Point, setup: &Setup) -> Result<Seen> {
    match point.curve {
        "ipv4" => of(&routes4(point.x), setup),
        _ => of(&routes6(point.x), setup),
    }
}

fn of<A: Within>(routes: &[Route<A>], setup: &Setup) -> Result<Seen> {
    let mut rib = Rib::<A, u32>::new();
    for route in routes {
        let full = |error: fib::Error| Error::new(error.to_string());
        rib.insert((route.prefix, route.len), route.value).map_err(full)?;
    }
    rib.publish();
    let table_bytes = Some(rib.memory().lookup as u64);
    let keys = addresses(routes, ADDRESSES);
    let mut reader = rib.reader();
    let fib = reader.fib();
    window(fib, &keys, setup.packets / 4, setup.batch);
    let cycles = (0..setup.windows).map(|_| window(fib, &keys, setup.packets, setup.batch)).collect();
    Ok(Seen { cycles, table_bytes, windows: setup.windows, ..Seen::default() })
}

/// TSC cycles of each address.
fn window<S: Scheme>(fib: &fib::Fib<S, u32>, keys: &[S::Key], packets: u64, batch: usize) -> f64 {
    let mut found = vec![0; batch];
    let (mut done, start) = (0, bus::tsc::now());
    while done < packets {
        for keys in keys.chunks_exact(batch) {
            fib.lookup_batch(keys, &mut found);
            std::hint::black_box(&found);
            done += batch as u64;
            if done >= packets {
                break;
            }
        }
    }
    (bus::tsc::now() - start) as f64 / done.max(1) as f64
}
