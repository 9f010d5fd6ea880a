//! A virtual function whose host resets it while it works.

use std::time::{Duration, Instant};

use bus::Pci;
use memory::{Dma, TxOffload};
use port::Options;

use super::{Bench, DRIVER, Device, bytes, for_side, say};

/// Waits until the first is reset by its host, and opens it again.
pub fn reset<D: Device>(names: &[String]) {
    DRIVER.set(D::NAME).unwrap();
    let bench = Bench::<D>::new(names, &Options::default());
    println!("READY");
    let (start, limit) = (Instant::now(), Duration::from_secs(120));
    let told = loop {
        match bench.sides[0].port.health() {
            Err(error) => break Some(error.to_string()),
            Ok(()) if start.elapsed() > limit => break None,
            Ok(()) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let good = told.as_ref().is_some_and(|error| error.contains("has reset this one"));
    say("the reset is told", good, told);
    drop(bench);
    let opens = |name: &String| {
        let pci = Pci::open_address(name.parse().unwrap()).unwrap();
        D::bring_up(pci, &Dma::new(memory::Options::default()), Options::default()).map(drop)
    };
    let mut opened = names.iter().try_for_each(opens);
    let start = Instant::now();
    while opened.is_err() && start.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(10));
        opened = names.iter().try_for_each(opens);
    }
    say("they open again", opened.is_ok(), opened);
    let mut bench = Bench::<D>::new(names, &Options::default());
    for (from, to) in [(0, 1), (1, 0)] {
        let frame = for_side(to, 100);
        bench.send(from, &frame, TxOffload::default());
        let came: Vec<_> = bench.recv(to, 1).iter().map(|(_, packet)| bytes(packet)).collect();
        say("frames come again", came == [frame], came);
    }
}
