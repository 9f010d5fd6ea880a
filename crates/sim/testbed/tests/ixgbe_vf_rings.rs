//! Rings of our driver of the 82599's virtual functions on our model: small ones, heads that are
//! written back, long frames, and queues that do not start or stop.
#![allow(clippy::unwrap_used)]

mod common;

use bus::Pci;
use common::broken::{Broken, Faults};
use common::frames::{self, Sums, payload};
use common::hasty::hasty;
use common::ixgbe_vf::{Card, Pair, models};
use common::vf::{options, receive, send, to};
use common::{contents, run_until_idle};
use driver::ixgbe::host::Policy;
use driver::ixgbevf::Ixgbevf;
use memory::{Batch, TxOffload};
use port::{Completion, Options, Port as _, RxQueue as _, TxQueue as _};
use regs::ixgbe::RXDCTL;
use regs::ixgbevf::{VFRXDCTL, VFTXDCTL};
use testbed::inprocess::Handle;
use testbed::ixgbe;

/// More frames than the rings have descriptors, one after the other, from one virtual function to
/// another.
fn laps(options: &Options) {
    laps_on(models(2), options);
}

/// Likewise, on some devices.
fn laps_on(parts: (Vec<Pci>, Vec<Handle>), options: &Options) {
    let mut pair = Pair::over(parts, options);
    for n in 0..100 {
        let frame = frames::udp4(&payload(60 + n), Sums::Full);
        // Armed, if it was opened with interrupts.
        pair.sides[1].rx.iter_mut().for_each(|queue| _ = queue.arm());
        send(&mut pair.sides[0].tx[0], &mut pair.pool, &frame, TxOffload::default());
        run_until_idle(&pair.handles);
        pair.sides[1].rx.iter_mut().for_each(|queue| queue.disarm());
        let got = receive(&mut pair.sides[1].rx, &mut pair.pool);
        assert_eq!(got.iter().map(|(_, packet)| contents(packet)).collect::<Vec<_>>(), [frame], "{n}");
        assert_eq!(pair.sides[0].tx[0].clean(&mut pair.pool), 0, "{n}: it was sent and freed");
    }
    pair.finish();
}

/// Small rings, so that they are lapped.
fn small() -> Options {
    Options { rx_ring: 64, tx_ring: 64, ..options() }
}

#[test]
fn many_frames_go_round_small_rings() {
    laps(&small());
}

#[test]
fn heads_that_are_written_back_free_what_was_sent() {
    laps(&Options { completion: Completion::Head, ..small() });
}

#[test]
fn queues_that_are_armed_break_no_rule() {
    laps(&Options { interrupts: true, rx_queues: 2, ..small() });
}

#[test]
fn a_device_that_acts_at_once_finds_all_in_order() {
    let (mut pcis, handles) = models(2);
    for (pci, handle) in pcis.iter_mut().zip(&handles).skip(2) {
        *pci = hasty(pci.clone(), handle);
    }
    laps_on((pcis, handles), &small());
}

#[test]
fn bursts_are_sent_and_freed() {
    let mut pair = Pair::over(models(2), &small());
    for _ in 0..4 {
        let mut batch = Batch::with_limit(40);
        for n in 0..40 {
            let packet = pair.packet(&frames::udp4(&payload(60 + n), Sums::Full), TxOffload::default());
            batch.push(packet);
        }
        assert_eq!(pair.sides[0].tx[0].send(&mut pair.pool, &mut batch), 40);
        run_until_idle(&pair.handles);
        assert_eq!(pair.sides[0].tx[0].clean(&mut pair.pool), 0, "all were sent");
        let mut got = 0;
        while got < 40 {
            let some = receive(&mut pair.sides[1].rx, &mut pair.pool).len();
            assert!(some > 0, "{got} of 40 came");
            got += some;
        }
    }
    pair.finish();
}

/// What never starts or stops: the first queues, by what their registers tell.
const STATES: [u32; 2] = [VFRXDCTL::at(0), VFTXDCTL::at(0)];

#[test]
fn queues_that_never_start_are_named() {
    let card = Card::open(&[Policy::default()]);
    for register in STATES {
        let stuck = vec![(register, RXDCTL::ENABLE, 0)];
        let (pci, _) = Broken::new(card.vfs[0].clone(), Faults { stuck, ..Faults::default() });
        match Ixgbevf::open(pci, &card.dma, options()) {
            Err(driver::Error::Timeout { offset, .. }) => assert_eq!(offset, register),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it opens"),
        }
    }
    card.finish(Vec::new(), &[]);
}

#[test]
fn a_queue_that_never_stops_keeps_its_buffers_for_good() {
    // A ring of 512 descriptors, of which the device owns all but one; and what was sent.
    for (register, kept) in STATES.into_iter().zip([511, 1]) {
        let mut card = Card::open(&[Policy::default()]);
        let (pci, faults) = Broken::new(card.vfs[0].clone(), Faults::default());
        let (device, mut rx, mut tx) = Ixgbevf::open(pci, &card.dma, options()).unwrap().split();
        let before = card.pool.available();
        receive(&mut rx, &mut card.pool);
        let frame = to(ixgbe::mac(1), device.mac(), b"sent");
        send(&mut tx[0], &mut card.pool, &frame, TxOffload::default());
        faults.lock().unwrap().stuck = vec![(register, RXDCTL::ENABLE, RXDCTL::ENABLE)];
        drop((device, rx, tx));
        assert_eq!(card.pool.available(), before - kept, "{register:#x}");
    }
}
