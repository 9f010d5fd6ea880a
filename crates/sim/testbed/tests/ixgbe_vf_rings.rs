//! Rings of our driver of the 82599's virtual functions on our model: small ones, heads that are
//! written back, long frames, and queues that do not start or stop.
#![allow(clippy::unwrap_used)]

mod common;

use common::broken::{Broken, Faults};
use common::hasty::hasty;
use common::ixgbe_vf::{Card, models, pair};
use common::vf::{options, receive, send, to};
use driver::ixgbe::host::Policy;
use driver::ixgbevf::Ixgbevf;
use memory::TxOffload;
use port::{Completion, Options, Port as _};
use regs::ixgbe::RXDCTL;
use regs::ixgbevf::{VFRXDCTL, VFTXDCTL};
use testbed::ixgbe;

/// Frames from one virtual function to another, one after the other.
fn laps(options: &Options) {
    pair(models(2), options).laps();
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
    pair((pcis, handles), &small()).laps();
}

#[test]
fn bursts_are_sent_and_freed() {
    pair(models(2), &small()).bursts();
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
