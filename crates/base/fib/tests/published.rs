//! Readers beside a writer: each sees whole sets of changes, in order.
#![allow(clippy::unwrap_used)]

use fib::lpm::{MISS, Route, Table4};
use fib::published::{Change, Publisher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn insert(prefix: u32, len: u8, value: u32) -> Change<u32> {
    Change::Insert(Route { prefix, len, value })
}

#[test]
fn what_is_not_published_is_not_seen() {
    let mut publisher = Publisher::new(Table4::new());
    let mut reader = publisher.reader();
    publisher.change(insert(0, 0, 1)).unwrap();
    assert_eq!((reader.table().lookup(9), publisher.pending().lookup(9)), (None, Some(1)));
    publisher.publish();
    assert_eq!(reader.table().lookup(9), Some(1));
    assert!(publisher.change(insert(1, 0, 1)).is_err());
    assert_eq!(publisher.change(Change::Remove(0, 0)), Ok(Some(1)));
    assert_eq!(publisher.reader().table().lookup(9), Some(1));
    publisher.publish();
    assert_eq!((reader.table().lookup(9), publisher.reader().table().len()), (None, 0));
}

#[test]
fn both_copies_take_every_change() {
    let mut publisher = Publisher::new(Table4::new());
    publisher.set_patience(Duration::ZERO);
    let (mut reader, mut sleeper) = (publisher.reader(), Some(publisher.reader()));
    for n in 0..200u32 {
        publisher.change(insert(n << 24, 8, n)).unwrap();
        publisher.change(insert(n << 24, 27, n + 1)).unwrap();
        if n > 20 {
            publisher.change(Change::Remove((n - 20) << 24, 27)).unwrap();
        }
        publisher.publish();
        // One reader keeps the first table, then a later one, and then none.
        match n {
            70 => sleeper = Some(publisher.reader()),
            140 => sleeper = None,
            _ => {}
        }
        let table = reader.table();
        for m in 0..=n {
            let long = m == 0 || m + 20 > n;
            assert_eq!(table.lookup(m << 24), Some(if long { m + 1 } else { m }), "{m} after {n}");
            assert_eq!(table.lookup(m << 24 | 99), Some(m));
        }
    }
    assert!(sleeper.is_none());
}

#[test]
fn a_reader_sees_all_of_a_set_of_changes_or_none() {
    const ROUTES: u32 = 64;
    let stop = AtomicBool::new(false);
    let mut publisher = Publisher::new(Table4::new());
    // Each set gives all routes one value, shorter and longer ones alternating.
    let mut set = |value: u32| {
        for n in 0..ROUTES {
            publisher.change(insert(n << 20, 12, value)).unwrap();
            let longer = if value.is_multiple_of(2) {
                insert(n << 20, 30, value)
            } else {
                Change::Remove(n << 20, 30)
            };
            publisher.change(longer).unwrap();
        }
        publisher.publish();
        publisher.reader()
    };
    let reader = set(0);
    std::thread::scope(|scope| {
        let stop = Stop(&stop);
        for mut reader in [reader, set(1)] {
            let stop = stop.0;
            scope.spawn(move || {
                let addrs: Vec<u32> = (0..ROUTES * 2).map(|n| ((n / 2) << 20) | (n % 2)).collect();
                let (mut values, mut last) = (vec![MISS; addrs.len()], 0);
                while !stop.load(Ordering::Relaxed) {
                    reader.table().lookup_batch(&addrs, &mut values);
                    assert!(values.iter().all(|&value| value == values[0]), "{values:?}");
                    assert!(values[0] >= last, "{} after {last}", values[0]);
                    last = values[0];
                }
            });
        }
        for value in 2..2_000 {
            set(value);
        }
        drop(stop);
    });
}

/// Ends the readers, also when the writer panics: the scope waits for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
