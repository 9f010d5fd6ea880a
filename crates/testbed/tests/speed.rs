//! How fast model and generator are, for a person to look at: figures of a
//! machine prove nothing. `cargo test --release -p ixora-testbed --test speed
//! -- --ignored --nocapture`
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use memory::{Batch, Dma, Pool};
use model::Wire;
use port::Port;
use port::ixgbe::IxgbePort;
use testbed::inprocess::{InProcess, while_stepping};
use testbed::ixgbe;
use testbed::wire::Cable;

#[test]
#[ignore = "prints figures"]
fn the_generator_alone_and_checked() {
    for text in ["gen", "gen:flows=256", "gen:size=imix,flows=16"] {
        let mut from = Cable::open(&text.parse().unwrap()).unwrap();
        let mut to = Cable::open(&"sink:check".parse().unwrap()).unwrap();
        let mut scratch = vec![0; model::MAX_FRAME];
        let (rounds, mut frames, mut sum) = (200_000, 0, 0_usize);
        let begin = Instant::now();
        for now in 0..rounds {
            from.advance(now);
            frames += from.receive_burst(&mut scratch, 32, &mut |frame, _| sum += usize::from(frame[59]));
        }
        let alone = begin.elapsed().as_nanos() as f64 / frames as f64;
        frames = 0;
        let begin = Instant::now();
        for now in 0..rounds {
            from.advance(now);
            frames += from.receive_burst(&mut scratch, 32, &mut |frame, _| to.transmit(frame));
        }
        let checked = begin.elapsed().as_nanos() as f64 / frames as f64;
        println!("{text}: {alone:.1} ns a frame, {checked:.1} ns with sink:check ({sum})");
    }
}

#[test]
#[ignore = "prints figures"]
fn model_and_driver_in_turn_on_one_core() {
    for text in ["gen", "gen+sink:check=tag", "gen:flows=16+sink:check"] {
        let cable = Cable::open(&text.parse().unwrap()).unwrap();
        let device = ixgbe::open(&ixgbe::Options::with_mac(ixgbe::mac(0)), cable).unwrap();
        let (pci, handle) = InProcess::new(device);
        let dma = Dma::new(Default::default());
        let mut pool = Pool::new(&dma, 4096).unwrap();
        let handles = [handle];
        let open = || IxgbePort::open(pci, &dma, Default::default()).unwrap();
        let mut port = while_stepping(&handles, open).unwrap();
        let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
        let (mut model_ns, mut driver_ns, mut frames) = (0, 0, 0);
        for _ in 0..100_000 {
            let begin = Instant::now();
            handles[0].step_now();
            model_ns += begin.elapsed().as_nanos();
            let begin = Instant::now();
            for _ in 0..2 {
                let mut batch = Batch::with_limit(32);
                frames += rx.recv(&mut pool, &mut batch);
                tx.send(&mut pool, &mut batch);
            }
            driver_ns += begin.elapsed().as_nanos();
        }
        let per = |ns: u128| ns as f64 / frames as f64;
        println!("{text}: model {:.1} ns, driver {:.1} ns a packet", per(model_ns), per(driver_ns));
    }
}
