//! Queues as long as the device has them: two entries to 32,768, and of packed
//! ones numbers that are no power of two.

use crate::common::virtio::{Bench, RINGS, devices, frame, offer, sleepy, small_rings};
use driver::Error;
use driver::virtio::{Virtio, VirtioFault};
use memory::{Dma, TxOffload};
use model::virtio::Options as ModelOptions;
use port::{Options, Port};
use regs::virtio::feature;
use testbed::inprocess::{InProcess, while_stepping};

fn sized(queue_size: u16, features: u64) -> ModelOptions {
    ModelOptions { queue_size, ..sleepy(features) }
}

/// Frames both ways, several times round the rings, as many at once as fit.
fn exercise(bench: &mut Bench, name: &str, rounds: usize, longest: usize) {
    let mut sent_in_all = 0;
    for round in 0..rounds {
        let mut sent = [Vec::new(), Vec::new()];
        for (from, sent) in sent.iter_mut().enumerate() {
            for n in 0..24 {
                let frame = frame(n, 60 + (round * 611 + n * 97) % (longest - 59));
                if !bench.try_send(from, 0, &frame, TxOffload::default()) {
                    break;
                }
                sent.push(frame);
            }
            assert!(!sent.is_empty(), "{name}: round {round}");
            sent_in_all += sent.len();
        }
        // Few buffers at a time fit a short ring.
        let mut got = [Vec::new(), Vec::new()];
        for _ in 0..100 {
            bench.run_until_idle();
            for (at, got) in got.iter_mut().enumerate() {
                got.extend(bench.recv(at).iter().map(crate::common::contents));
            }
        }
        got.swap(0, 1);
        assert!(
            sent == got,
            "{name}: round {round}: {:?} {:?}",
            sent.each_ref().map(Vec::len),
            got.each_ref().map(Vec::len)
        );
    }
    assert!(sent_in_all >= 2 * rounds);
}

#[test]
fn every_size_carries_frames() {
    for (name, ring) in RINGS {
        for without in [0, feature::INDIRECT_DESC] {
            for size in [2, 4, 8, 16, 64, 1024] {
                let name = format!("{name} of {size}, without {without:#x}");
                let mut bench = Bench::pair(&sized(size, offer(ring, without)), &small_rings());
                exercise(&mut bench, &name, 12, 1514);
                bench.finish();
            }
        }
    }
}

#[test]
fn long_frames_go_through_short_queues() {
    for (name, ring) in RINGS {
        for (size, max_frame) in [(8, 9014), (8, 15_500), (16, 15_500), (2, 3000)] {
            let name = format!("{name} of {size}, {max_frame}");
            let model = ModelOptions { mtu: max_frame as u16 - 14, ..sized(size, offer(ring, 0)) };
            let mut bench = Bench::pair(&model, &Options { max_frame, ..small_rings() });
            exercise(&mut bench, &name, 12, max_frame);
            bench.finish();
        }
    }
}

#[test]
fn a_frame_may_need_every_buffer_of_a_ring() {
    for (name, ring) in RINGS {
        let options = Options { max_frame: 15_500, ..small_rings() };
        let model = ModelOptions { mtu: 15_400, ..sized(8, offer(ring, 0)) };
        let mut bench = Bench::pair(&model, &options);
        assert_eq!(bench.sides[0].device.capabilities().max_frame, 15_414, "{name}: as the MTU has it");
        for n in 0..40 {
            for len in [60, 15_400] {
                assert_eq!(bench.cross_plain(&frame(n, len)), [frame(n, len)], "{name}: {n}");
            }
        }
        bench.finish();
    }
}

#[test]
fn packed_rings_need_no_power_of_two() {
    for (name, ring) in RINGS {
        for size in [3, 5, 17, 100, 1000, 1023, 32_767] {
            let name = format!("{name} of {size}");
            let mut bench = Bench::pair(&sized(size, offer(ring, 0)), &small_rings());
            exercise(&mut bench, &name, 4, 1514);
            bench.finish();
        }
    }
}

#[test]
fn the_longest_queues_go_round_and_round() {
    for (name, ring) in [RINGS[0], RINGS[3], RINGS[4], RINGS[5]] {
        let options = Options { rx_ring: 32_768, tx_ring: 32_768, ..small_rings() };
        let model = sized(32_768, offer(ring, 0));
        let mut bench = Bench::with_faults(&["loop"], &model, &options, None, 35_000);
        let mut back = 0;
        for n in 0..70_000 {
            bench.send(0, &frame(n, 60));
            if n % 500 == 0 {
                bench.run_until_idle();
                back += bench.recv(0).len();
            }
        }
        bench.run_until_idle();
        back += bench.recv(0).len();
        assert_eq!(back, 70_000, "{name}: more than twice round the counters");
        bench.finish();
    }
}

#[test]
fn a_queue_that_no_packet_fits_is_named_when_it_is_opened() {
    for (name, ring) in RINGS {
        for (size, max_frame) in [(2, 9014), (4, 9014), (4, 15_500)] {
            let model = sized(size, offer(ring, 0));
            let (pci, handle) = InProcess::new(devices(&["loop"], &model, None).remove(0));
            let dma = Dma::new(Default::default());
            let options = Options { max_frame, ..small_rings() };
            let opened = while_stepping(std::slice::from_ref(&handle), || Virtio::open(pci, &dma, options));
            match opened.unwrap() {
                Err(Error::Virtio(fault @ VirtioFault::QueueTooSmall { .. })) => {
                    let text = fault.to_string();
                    assert!(
                        text.contains(&format!("{size} entries")) && text.contains("smaller frame"),
                        "{text}"
                    );
                }
                Err(other) => panic!("{name}: {other}"),
                Ok(_) => panic!("{name}: a ring of {size} takes {max_frame} bytes"),
            }
            assert_eq!(handle.report().mapped, (0, 0), "{name}");
        }
    }
}
