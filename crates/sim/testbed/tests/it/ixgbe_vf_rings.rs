//! Rings of our driver of the 82599's virtual functions on our model: small ones, heads that are
//! written back, long frames, and queues that do not start or stop.

use crate::common::broken::{Broken, Faults};
use crate::common::ixgbe_vf::{Card, models, pair, pair_at};
use crate::common::vf::{options, receive, ring_tests, send, to};
use driver::ixgbe::host::Policy;
use driver::ixgbevf::Ixgbevf;
use memory::TxOffload;
use port::{Options, Port as _};
use regs::ixgbe::RXDCTL;
use regs::ixgbevf::{VFRXDCTL, VFTXDCTL};
use testbed::ixgbe;

ring_tests!(2);

/// Each of the four queues of a pool has a fourth of the rate.
#[test]
fn what_is_sent_keeps_to_the_rate_by_the_models_clock() {
    // A frame takes 100 us at 100 Mbit/s.
    for (rate, queues, frames) in [(400, 1, 100), (400, 4, 400), (1_000, 2, 500), (1, 1, 10)] {
        let mut pair = pair_at(models(2), &Options { tx_queues: queues, ..small() }, Some(rate));
        let received = pair.received_in_ten_ms();
        let most = frames + 2 * queues;
        assert!((frames - 2..=most).contains(&received), "{rate} Mbit/s, {queues} queues: {received}");
        pair.finish();
    }
    for rate in [None, Some(40_000)] {
        let mut pair = pair_at(models(2), &small(), rate);
        let received = pair.received_in_ten_ms();
        assert!(received > 5_000, "{received} without a limit");
        pair.finish();
    }
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
